# Where code of the user's runs in the middle of a verb: run(cell) calls cell$verb so that
# cell$act(), the deed, runs at that place.
#   fits(verb, name): for which verbs there is such a place.
#   own(outcome, cell): whether the outcome is what the verb comes to by itself.
#   sure(verb): FALSE if the verb may not come to that place.
#   swallows: errors and jumps of the deed don't leave the verb.
#   cluster: further arguments of cluster_start().
new_place <- function(run, fits, own = is_right, sure = function(verb) TRUE, swallows = FALSE,
                      cluster = list()) {
  list(run = run, fits = fits, own = own, sure = sure, swallows = swallows, cluster = cluster)
}

is_right <- function(outcome, cell) same(outcome, list(value = cell$want))
is_told <- function(outcome, cell) says(outcome, "told by the worker")
is_lost <- function(outcome, cell) inherits(outcome, "muster_error_lost")

any_verb <- function(verb, name) TRUE
works <- function(verb, name) isTRUE(verb$works)
tells <- function(verb, name) isTRUE(verb$tells)
# Those whose every work is waited for.
waits <- function(verb, name) isTRUE(verb$works) && name != "task_cancel"
waits_there <- function(verb, name) waits(verb, name) && name != "start"

# The verb with something in the place of `more`, or with workers that do something.
run_verb <- function(cell, more = cell$more, work = "quiet") {
  cl <- cell$cl # as it is now: a deed may change it before the verb asks
  cell$verb$run(cl, cell$work(work), more, cell)
}

# ---- what is looked at before it is sent

run_promise <- function(cell) {
  run_verb(cell, {
    cell$act()
    cell$more
  })
}

run_binding <- function(cell) {
  makeActiveBinding("user_more", function() {
    cell$act()
    cell$more
  }, globalenv())
  on.exit(rm("user_more", envir = globalenv()))
  cell$verb$globals(cell$cl)
}

# A vector whose class runs the deed when it is asked for its length (1), bytes (2) or state (3).
# Large vectors are asked for their bytes, all others for their state.
hook_place <- function(which, large) {
  new_place(
    function(cell) {
      hooks <- vector("list", 3L)
      hooks[[which]] <- cell$act
      run_verb(cell, .Call("hooks_vector", cell$more, hooks))
    },
    fits = function(verb, name) isTRUE(verb$sends) && isTRUE(verb$large) %in% large
  )
}

# Elements of the user's, whose third is asked for when calls may be under way already.
run_elements <- function(cell) {
  elements <- structure(list(1, 2, 3, 4), class = "user_elements", act = list(cell$act))
  cell$verb$picks(cell$cl, cell$work("quiet"), elements)
}
`[[.user_elements` <- function(x, i) {
  if (i == 3L) attr(x, "act")[[1L]]()
  unclass(x)[[i]]
}
`[.user_elements` <- function(x, i) {
  if (3L %in% i) attr(x, "act")[[1L]]()
  unclass(x)[i]
}
as.list.user_elements <- function(x, ...) {
  attr(x, "act")[[1L]]()
  list(1, 2, 3, 4)
}

# ---- conditions

# A condition's handler that is called in the middle of the verb, which then goes on.
handler_place <- function(class, work, fits, before = function(cell) NULL,
                          act = function(cell) cell$act(), ...) {
  new_place(function(cell) {
    before(cell)
    handlers <- structure(list(function(condition) {
      act(cell)
      tryInvokeRestart("muffleMessage")
      tryInvokeRestart("muffleWarning")
    }), names = class)
    call <- quote(withCallingHandlers(run_verb(cell, work = work)))
    eval(as.call(c(as.list(call), handlers)))
  }, fits, ...)
}

# Where a worker's loss is waited for. Parts may be made by another one, and the next call tells
# of the loss then.
waits_for_lost <- function(verb, name) {
  !name %in% c("start", "stop", "stop_one", "shrink", "task_cancel")
}
tells_at_once <- function(verb) !isTRUE(verb$parts)

# The last worker is gone before the verb begins, if no work of the verb's can end it.
lose_before <- function(cell) {
  if (!isTRUE(cell$verb$works)) tools::pskill(cell$cl[[length(cell$cl)]]$pid, 9L)
}

# That tasks have drawn numbers is noted: a worker that is lost has a new stream then.
draw_before <- function(cell) {
  for (i in seq_along(cell$cl)) {
    task_value(task_submit(cell$cl[i], function() stats::runif(1), .seed = NULL))
  }
}

# An interrupt's handler goes on where it came, as soon as the worker may go on.
run_interrupted <- function(cell) {
  withCallingHandlers(run_verb(cell, work = "signals"), interrupt = function(condition) {
    if (cell$ran) {
      return() # the deed's own
    }
    cell$act()
    file.create(cell$about$go)
    invokeRestart("resume")
  })
}

run_limited <- function(cell) {
  setTimeLimit(elapsed = 0.05)
  withCallingHandlers(run_verb(cell, work = "waits"), error = function(condition) {
    if (is_limit(condition)) cell$act()
  })
}

# ---- functions that are left

# on.exit() of a function around the verb, which is left by what the work does.
exit_place <- function(work, fits, own, before = function() NULL) {
  new_place(function(cell) {
    on.exit(cell$act())
    before()
    run_verb(cell, work = work)
  }, fits, own)
}

# ---- finalizers

# R looks for finalizers that are due at every thousandth evaluation or so: in R code, in muster's
# waits only where these call some. Errors and jumps end in a finalizer.
#
# What is registered in a finalizer R forgets (4.2), weak references too, if the last finalizers
# that were registered before are all due: so one of an object that stays is registered last.

# Has a finalizer due that runs f().
make_due <- function(f) {
  local({
    garbage <- new.env()
    reg.finalizer(garbage, function(e) f())
  })
  pool$behind <- new.env()
  reg.finalizer(pool$behind, function(e) NULL)
  gctorture2(.Machine$integer.max, wait = 1L)
  new.env()
  gctorture2(0L)
}

# Evaluates until R has looked for finalizers.
evaluate_all <- function() {
  looked <- FALSE
  make_due(function() looked <<- TRUE)
  while (!looked) NULL
}

# In the middle of a handler.
act_in_finalizer <- function(cell) {
  make_due(cell$act)
  evaluate_all()
}

# At an evaluation of the verb's R code, or of what C code has R evaluate. Workers print.
run_evaluated <- function(cell) {
  work <- cell$work("prints")
  cl <- cell$cl
  more <- cell$more
  evaluate_all()
  for (i in seq_len(as.integer(cell$detail))) NULL
  make_due(cell$act)
  cell$verb$run(cl, work, more, cell)
}

# ---- all of them

place_list <- list(
  promise = new_place(run_promise, function(verb, name) isTRUE(verb$works) || isTRUE(verb$sends)),
  binding = new_place(run_binding, function(verb, name) !is.null(verb$globals)),
  element = new_place(run_elements, function(verb, name) !is.null(verb$picks)),
  length = hook_place(1L, c(FALSE, TRUE)),
  pointer = hook_place(2L, TRUE),
  state = hook_place(3L, FALSE),
  message = handler_place("message", "tells", tells),
  warning = handler_place("warning", "tells", tells),
  restarted = handler_place("muster_message", "dies", waits_for_lost,
    before = lose_before, sure = tells_at_once
  ),
  collected = handler_place("muster_message", "dies", waits_for_lost,
    before = lose_before, sure = tells_at_once, act = act_in_finalizer, swallows = TRUE
  ),
  stream = handler_place("muster_warning_rng", "dies", waits_there,
    before = draw_before, sure = tells_at_once
  ),
  again = handler_place("muster_message_again", "dies", function(verb, name) name == "pieces"),
  failed = handler_place("error", "fails", works, own = is_told),
  lost = handler_place("muster_error_lost", "perishes",
    function(verb, name) waits_there(verb, name) && !isTRUE(verb$parts),
    own = is_lost, cluster = list(retries = 0)
  ),
  interrupt = new_place(run_interrupted, waits),
  limit = new_place(run_limited, waits, own = function(outcome, cell) is_limit(outcome)),
  left_failed = exit_place("fails", works, is_told),
  left_interrupt = exit_place("signals", waits, function(outcome, cell) is_interrupt(outcome)),
  left_limit = exit_place("waits", waits, function(outcome, cell) is_limit(outcome),
    before = function() setTimeLimit(elapsed = 0.05)
  ),
  evaluated = new_place(run_evaluated, any_verb, sure = function(verb) FALSE, swallows = TRUE)
)

# A look for finalizers is due in 1000 evaluations less these.
positions <- seq(0, 990, by = 30)
