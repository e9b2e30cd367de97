# The tasks of a cluster that aren't over.

#' Tasks that wait or run
#'
#' `cluster_tasks()` shows the tasks of a cluster that aren't over: those of [task_submit()] and
#' [task()], futures, and maps of [task_map()], a row each. Parts of partitions are left out;
#' [cluster_status()] shows what each worker does.
#'
#' @param cl A cluster from [cluster_start()]. Of some of its nodes, the tasks of the whole cluster.
#' @returns A data frame of class `"muster_tasks"`, which prints times in suitable units, with a row
#'   for each task, in the order of submission:
#'   * `id`: its number in the session, which `print()` shows, too; of a map, that of its first
#'     piece
#'   * `label`: its `.label`, or `NA`
#'   * `state`: `"running"`, in a worker; `"next"`, in a worker that evaluates another; `"queued"`,
#'     for a worker; `"waiting"`, for tasks that it needs. A map is `"running"` once a piece is
#'   * `worker`: the worker's rank, or `NA`, also of maps
#'   * `priority`: its `.priority`
#'   * `age`: seconds since it was submitted
#'   * `running`: seconds since its worker began to evaluate it, or `NA`
#'   * `task`: the task itself, for [task_value()] and [task_cancel()]; not printed
#' @section Errors:
#' `muster_error_input`: `cl` isn't a cluster, or was stopped.
#' @section Cost:
#' Some 10 us for each task. No worker is asked.
#' @section Source:
#' Batch systems list their queues so (`squeue` of Slurm).
#' @seealso [cluster_status()], [task_cancel()].
#' @examples
#' cl <- cluster_start(2)
#' slow <- lapply(1:4, function(i) task_submit(cl, Sys.sleep, 5, .label = paste("sleep", i)))
#' cluster_tasks(cl)
#' task_cancel(cl, label = "sleep 1")
#' task_cancel(cl)
#' cluster_stop(cl)
#' @export
cluster_tasks <- function(cl) {
  tasks <- tasks_there(cl, "cl", sys.call())
  states <- lapply(tasks, function(task) .Call(ffi_task_state, task))
  maps <- maps_there(cl)
  states <- c(states, lapply(maps, map_state))
  tasks <- c(tasks, maps)
  column <- function(name, like) vapply(states, `[[`, like, name)
  table <- data.frame(
    id = column("id", 0),
    label = vapply(states, function(state) {
      if (is.null(state$label)) NA_character_ else state$label
    }, ""),
    state = column("state", ""), worker = column("worker", 0L), priority = column("priority", 0L),
    age = column("age", 0), running = column("seconds", 0)
  )
  table$task <- tasks
  table <- table[order(table$id), , drop = FALSE]
  row.names(table) <- NULL
  class(table) <- c("muster_tasks", "data.frame")
  table
}

map_state <- function(map) {
  pieces <- lapply(map$tasks, function(task) .Call(ffi_task_state, task))
  waits <- vapply(pieces, function(piece) piece$state %in% c("queued", "next"), NA)
  list(
    state = if (all(waits) && map$left == map$n) "queued" else "running", id = map$id,
    worker = NA_integer_, seconds = NA_real_, label = map$label, age = now_seconds() - map$asked_at,
    priority = as.integer(map$priority)
  )
}

tasks_there <- function(cl, name, call) {
  check_cluster(cl, call, name, here = TRUE)
  if (is_here(cl)) {
    return(list())
  }
  tasks <- .Call(ffi_tasks_open, cl)
  if (is.integer(tasks)) abort_submit(cl, tasks, call)
  tasks
}

label_of <- function(task) {
  if (is_map(task)) task$label else if (is.list(state <- .Call(ffi_task_state, task))) state$label
}

# 0 for one that is done.
task_id <- function(task) {
  state <- if (is_map(task)) task else .Call(ffi_task_state, task)
  if (is_map(task) || is.list(state)) as.numeric(state$id) else 0
}

#' @export
print.muster_tasks <- function(x, ...) {
  class(x) <- "data.frame"
  x$task <- NULL
  for (name in intersect(c("age", "running"), names(x))) {
    if (is.numeric(x[[name]])) x[[name]] <- vapply(x[[name]], short_time, "")
  }
  if (all(is.na(x[["label"]]))) x$label <- NULL
  if (all(x[["priority"]] == 0L)) x$priority <- NULL
  if (nrow(x)) print(x, right = TRUE, row.names = FALSE, ...) else cat("no tasks\n")
  invisible(x)
}
