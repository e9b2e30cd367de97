# Tasks as arguments of other tasks: the session sends where they are, and the core has each one's
# answer go to the worker as a job (src/pool/result.h), which puts it there.

# list(args, tasks, at): the arguments without their tasks, these in order, and where they belong:
# at their positions `here`, and `within` lists. NULL if there are none.
take_needs <- function(args, call) {
  here <- places_of_tasks(args)
  tasks <- args[here]
  args[here] <- list(NULL)
  at <- list(here = here)
  if (has_task(args)) {
    inner <- take_from_lists(args)
    if (has_task(inner$x)) abort_in_object(inner$x, call)
    args <- inner$x
    tasks <- c(tasks, inner$tasks)
    at$within <- inner$within
  }
  if (length(tasks)) list(args = args, tasks = unname(tasks), at = at)
}

places_of_tasks <- function(x) which(vapply(x, inherits, NA, "muster_task", USE.NAMES = FALSE))

# list(x, tasks, within): those of the lists in a list; within: list(i, at) for each.
take_from_lists <- function(x) {
  lists <- which(vapply(x, is_list_with_task, NA, USE.NAMES = FALSE))
  taken <- lapply(lists, function(i) take_needs_of(.subset2(x, i)))
  x[lists] <- lapply(taken, `[[`, "x")
  list(
    x = x, tasks = unlist(lapply(taken, `[[`, "tasks"), recursive = FALSE),
    within = Map(function(i, one) list(i = i, at = one$at), lists, taken)
  )
}

take_needs_of <- function(x) {
  here <- places_of_tasks(x)
  tasks <- x[here]
  x[here] <- list(NULL)
  inner <- take_from_lists(x)
  list(x = inner$x, tasks = c(tasks, inner$tasks), at = list(here = here, within = inner$within))
}

has_task <- function(x) scan_has(.Call(ffi_scan, x), "task")
is_list_with_task <- function(x) typeof(x) == "list" && !is.object(x) && has_task(x)

abort_in_object <- function(args, call) {
  names(args) <- arg_names(args)
  where <- reference_path(args, "task", "", 0L, 64L)
  abort_muster("input",
    paste0("Argument `", substring(where, 2L), "` is a task within an object of a class."),
    hints = "A task stands for its value as an argument itself, or in plain lists.", call = call
  )
}

# In the worker: the arguments with the results of the tasks, a list in their order.
with_results <- function(args, at, results) {
  if (!length(at$within)) {
    args[at$here] <- results
    return(args)
  }
  used <- 0L
  fill <- function(x, at) {
    n <- length(at$here)
    if (n > 0L) x[at$here] <- results[used + seq_len(n)]
    used <<- used + n
    for (inner in at$within) x[[inner$i]] <- fill(x[[inner$i]], inner$at)
    x
  }
  fill(args, at)
}

# The arguments with the values of those tasks that are done: for when these can't be passed on as
# they came, for lack of memory or descriptors.
with_values <- function(args, needs) {
  results <- lapply(needs$tasks, function(task) {
    if (!isTRUE(.Call(ffi_task_look, list(task), FALSE))) {
      return(task)
    }
    value <- hear_answer(task, 0)
    plain <- is.list(value) && (length(value) == 1L || isFALSE(value$error))
    if (plain) load_for_value(value)
    if (plain) value[[1L]] else task
  })
  with_results(args, needs$at, results)
}

# Why these tasks have no results, if that is why a task wasn't submitted.
check_needs <- function(tasks, cl, outcome, call) {
  for (task in tasks) {
    if (inherits(task, "muster_task_here")) next # told below
    if (is_map(task)) {
      abort_muster("input", "A map from task_map() can't be an argument of a task.",
        hints = "Wait for its results with task_value(), and pass these.", call = call
      )
    }
    state <- .Call(ffi_task_state, task)
    if (is.integer(state)) abort_task(task, state, call)
  }
  check_cluster(cl, call, ".cl")
  ids <- vapply(cl, function(node) as.double(.subset2(node, "id")), 0)
  if (outcome == outcomes[["type"]] && length(unique(ids)) == 1L) {
    abort_muster("input", "An argument is a task of another cluster.",
      hints = "Wait for its value with task_value(), and pass that.", call = call
    )
  }
}

# The task wasn't evaluated, for the sake of another.
abort_cause <- function(cause, what, call) {
  title <- task_title(cause, paste("Task", format(.Call(ffi_task_state, cause)$id)))
  value <- hear_answer(cause, 0)
  error <- tryCatch(
    {
      if (length(value) != 1L || !is.list(value)) {
        refuse_answer(cause, value, 0, call, title)
        raise_answer(value, call, title, cause)
      }
      NULL
    },
    muster_error = identity
  )
  abort_needs(cause, error, what, call)
}

abort_needs <- function(cause, error, what, call) {
  abort_muster("needs",
    paste0(
      what, " was not evaluated: it needs the value of another, ",
      if (is.null(error)) "and memory was too short to pass that on." else "which failed."
    ),
    details = if (!is.null(error)) sub("\n.*", "", conditionMessage(error)),
    cause = error, task = cause, call = call, of = error
  )
}
