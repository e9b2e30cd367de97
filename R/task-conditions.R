# Conditions of tasks, as the session signals them: see worker-conditions.R.

# Handlers of the user's run here, and may jump.
tell_conditions <- function(task, value) {
  load_for_value(value)
  for (condition in value$conditions) if (!is.character(condition)) tell_said(condition)
  if (!is.null(value$dropped)) {
    tell_dropped(task, value$dropped, value$worker)
  }
}

# The first of the conditions of an answer may be the names of packages that its value needs.
load_for_value <- function(answer) {
  first <- if (length(answer$conditions)) answer$conditions[[1L]]
  if (is.character(first)) load_packages(first)
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

# ---- Before the answer

# Conditions of the class "immediateCondition", which package future has introduced; those of
# package progressr are of it.

# Waits as ffi_task_wait does, and relays what the tasks say meanwhile: relay(index, said). Handlers
# of the user's run there, and may jump.
wait_hearing <- function(tasks, any, timeout, relay = function(i, said) tell_said(said)) {
  end <- if (timeout < Inf) now_seconds() + max(timeout, hears_for) else Inf
  if (!any && length(tasks) > hears_from) {
    return(wait_in_parts(tasks, end, relay))
  }
  while (is.list(done <- .Call(ffi_task_wait, tasks, any, as.double(timeout)))) {
    relay(done[[1L]], done[[2L]])
    now <- if (timeout < Inf) now_seconds() else 0
    done <- .Call(ffi_task_look, tasks, FALSE)
    # What is left is for the next who asks: tasks may speak faster than handlers listen.
    if (now >= end || (any && any(done))) break
    if (timeout > 0) timeout <- end - now
  }
  done
}

# Seconds that somebody who doesn't wait listens.
hears_for <- 0.05

# Of very many, only the first that aren't done are heard: each value costs a look at all.
hears_from <- 500L

wait_in_parts <- function(tasks, end, relay) {
  done <- logical(length(tasks))
  for (from in seq(1L, length(tasks), by = hears_from)) {
    part <- from:min(length(tasks), from + hears_from - 1L)
    done[part] <- wait_hearing(tasks[part], FALSE, max(0, end - now_seconds()), function(i, said) {
      relay(part[i], said)
    })
  }
  done
}

# The answer of ffi_task_value after all that the task says before it. first: what it gave already.
hear_answer <- function(task, timeout, relay = tell_said,
                        first = .Call(ffi_task_value, task, timeout)) {
  end <- if (timeout < Inf) now_seconds() + timeout else Inf
  while (has_said(first)) {
    relay(first[[1L]])
    left <- if (timeout < Inf) end - now_seconds() else Inf
    if (left < 0 && !.Call(ffi_task_look, list(task), FALSE)) {
      return(NULL)
    }
    first <- .Call(ffi_task_value, task, max(0, left))
  }
  first
}

has_said <- function(answer) is.list(answer) && length(answer) == 3L

# A worker's condition, or list(condition) if handlers are only to look at it.
tell_said <- function(said) {
  if (is.object(said)) raise_condition(said) else tell_handlers(said[[1L]])
}

# said: see element_speaker(). An element that is evaluated again, after a loss or as a copy of a
# late one, says the same again.
tell_element_said <- function(map, said) {
  i <- said[[1L]]
  if (i == 0) {
    return(tell_said(said[[3L]])) # what attaching packages says
  }
  if (is.null(map$said)) map$said <- integer(map$n) # how many values of each element were told
  if (said[[2L]] > map$said[i]) {
    map$said[i] <- said[[2L]]
    if (is_progression(said[[3L]])) {
      # The user's own bar, of package progressr: two would write over each other.
      end_progress(map$progress)
      map$progress <- NULL
    }
    tell_said(said[[3L]])
  }
}

# said: a condition, or a list of one that handlers look at only.
is_progression <- function(said) {
  inherits(if (is.object(said)) said else said[[1L]], "progression")
}
