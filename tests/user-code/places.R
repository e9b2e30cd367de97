# Where code of the user's runs in the middle of a verb.
#
# Each is list(run, fits, own): run(cell) calls cell$verb so that cell$act(), the deed, runs at that
# place; fits(verb, name) tells for which verbs there is such a place; own(outcome, cell) whether
# the outcome is what the verb comes to by itself. `sure` is FALSE where the place may be one that a
# verb doesn't come to. work: what workers do at an element.

is_right <- function(outcome, cell) same(outcome, list(value = cell$want))
any_verb <- function(verb, name) TRUE

# The verb with something in the place of `more`, or of its functions' work.
run_verb <- function(cell, more = cell$more, work = "quiet") {
  cl <- cell$cl # as it is now: a deed may change it before the verb asks
  cell$verb$run(cl, cell$work(work), more, cell)
}

# A vector whose class calls the deed when it is asked for its length, bytes or state.
hooked <- function(cell, which) {
  hooks <- vector("list", 3L)
  hooks[[which]] <- cell$act
  .Call("hooks_vector", cell$more, hooks)
}

# Large vectors are asked for their bytes, all others for their state.
hook_place <- function(which, large) {
  list(
    fits = function(verb, name) isTRUE(verb$sends) && isTRUE(verb$large) %in% large,
    run = function(cell) run_verb(cell, hooked(cell, which)), own = is_right
  )
}

# Elements of the user's, whose third is asked for when some calls may be under way already.
user_elements <- function(cell) {
  structure(list(1, 2, 3, 4), class = "user_elements", act = list(cell$act))
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

muffle <- function(condition) {
  tryInvokeRestart("muffleMessage")
  tryInvokeRestart("muffleWarning")
}

# A condition's handler that was called in the middle of the verb, which then goes on.
handler_place <- function(class, work, fits, own = is_right, before = function(cell) NULL,
                          cluster = list()) {
  list(
    fits = fits, own = own, cluster = cluster,
    run = function(cell) {
      before(cell)
      handlers <- structure(list(function(condition) {
        cell$act()
        muffle(condition)
      }), names = class)
      call <- quote(withCallingHandlers(run_verb(cell, work = work)))
      eval(as.call(c(as.list(call), handlers)))
    }
  )
}

works <- function(verb, name) isTRUE(verb$works)
waits <- function(verb, name) isTRUE(verb$works) && name != "task_cancel"
in_cluster <- function(verb, name) waits(verb, name) && name != "start"
tells <- function(verb, name) isTRUE(verb$tells)

# The last worker is gone before the verb begins, if no work of the verb's can end it.
lose_before <- function(cell) {
  if (!isTRUE(cell$verb$works)) tools::pskill(cell$cl[[length(cell$cl)]]$pid, 9L)
}

# What the workers' generators are is noted with a call; a worker that is lost has a new one then.
draw_before <- function(cell) clusterCall(cell$cl, function() stats::runif(1))

is_told <- function(outcome, cell) {
  inherits(outcome, "error") && grepl("told by the worker", conditionMessage(outcome))
}
is_lost <- function(outcome, cell) inherits(outcome, "muster_error_lost")

# An interrupt's handler goes on where it came, as soon as the worker may go on.
run_interrupted <- function(cell) {
  withCallingHandlers(run_verb(cell, work = "signals"), interrupt = function(condition) {
    if (cell$ran) return() # the deed's own
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
  list(
    fits = fits, own = own,
    run = function(cell) {
      on.exit(cell$act())
      before()
      run_verb(cell, work = work)
    }
  )
}

# ---- finalizers

# R collects at the n-th allocation from the verb's beginning on, and the deed runs in a finalizer.
# Errors and jumps end there. Workers print, so that showing that is among what may allocate.
run_collected <- function(cell) {
  local({
    garbage <- new.env()
    reg.finalizer(garbage, function(e) {
      gctorture2(0L)
      cell$act()
    })
  })
  on.exit(gctorture2(0L))
  gctorture2(.Machine$integer.max, wait = cell$position)
  run_verb(cell, work = "prints")
}

place_list <- list(
  promise = list(
    fits = function(verb, name) isTRUE(verb$works) || isTRUE(verb$sends), own = is_right,
    run = function(cell) {
      run_verb(cell, {
        cell$act()
        cell$more
      })
    }
  ),
  binding = list(
    fits = function(verb, name) !is.null(verb$globals), own = is_right,
    run = function(cell) {
      makeActiveBinding("user_more", function() {
        cell$act()
        cell$more
      }, globalenv())
      on.exit(rm("user_more", envir = globalenv()))
      cell$verb$globals(cell$cl)
    }
  ),
  element = list(
    fits = function(verb, name) !is.null(verb$picks), own = is_right,
    run = function(cell) cell$verb$picks(cell$cl, cell$work("quiet"), user_elements(cell))
  ),
  length = hook_place(1L, c(FALSE, TRUE)),
  pointer = hook_place(2L, TRUE),
  state = hook_place(3L, FALSE),
  message = handler_place("message", "tells", tells),
  warning = handler_place("warning", "tells", tells),
  restarted = handler_place("muster_message", "dies",
    function(verb, name) !name %in% c("start", "stop", "stop_one", "shrink", "task_cancel"),
    before = lose_before
  ),
  stream = handler_place("muster_warning_rng", "dies", in_cluster, before = draw_before),
  again = handler_place("muster_message_again", "dies",
    function(verb, name) name == "pieces"
  ),
  failed = handler_place("error", "fails", works, own = is_told),
  lost = handler_place("muster_error_lost", "perishes",
    function(verb, name) in_cluster(verb, name) && !startsWith(name, "partition"),
    own = is_lost, cluster = list(retries = 0)
  ),
  interrupt = list(fits = works, own = is_right, run = run_interrupted),
  limit = list(fits = waits, own = function(outcome, cell) is_limit(outcome), run = run_limited),
  left_failed = exit_place("fails", works, is_told),
  left_interrupt = exit_place("signals", waits, function(outcome, cell) is_interrupt(outcome)),
  left_limit = exit_place("waits", waits, function(outcome, cell) is_limit(outcome),
    before = function() setTimeLimit(elapsed = 0.05)
  ),
  finalizer = list(fits = any_verb, own = is_right, run = run_collected, sure = FALSE)
)
