# Conditions of tasks, as the session signals them: see worker-conditions.R.

# Handlers of the user's run here, and may jump.
tell_conditions <- function(task, value) {
  for (condition in value$conditions) {
    # See worker-conditions.R.
    if (is.object(condition)) raise_condition(condition) else tell_handlers(condition[[1L]])
  }
  if (!is.null(value$dropped)) {
    tell_dropped(task, value$dropped, value$worker)
  }
}

# More conditions than a worker keeps for one task, see drop_condition().
tell_dropped <- function(task, dropped, worker) {
  count <- sum(dropped$count)
  last <- dropped$last
  if (count < length(last)) last <- last[seq_len(count)]
  oldest <- if (count > length(last)) count %% length(last) else 0
  last <- c(last[seq_along(last) > oldest], last[seq_along(last) <= oldest])
  .Call(ffi_task_log, task, paste0(last, "\n", collapse = ""))
  condition <- muster_condition(
    c("muster_warning_dropped", "muster_warning", "warning"),
    paste0(
      "Worker ", worker, " signalled more conditions in one task than it keeps: ",
      big_number(count), " of them are lost."
    ),
    details = paste0(vapply(dropped$count, big_number, ""), " of class ", names(dropped$count)),
    hints = "cluster_logs() has the texts of the last of them.",
    call = NULL, worker = worker, dropped = dropped$count
  )
  if (dropped$quiet) tell_handlers(condition) else raise_condition(condition)
}
