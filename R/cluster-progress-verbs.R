# Progress of parallel's functions and of lists of tasks. These functions have no argument for it,
# so the option `muster.progress` decides.

# Called from C some times a second while a verb waits: shows how far it is.
verb_waits <- function() {
  shows <- !is.null(the_cluster$verb) || !is.null(progress_kind(NULL))
  suspendInterrupts({
    frame <- verb_inside()
    if (!is.null(frame)) {
      tell_awaited(frame)
      if (shows) show_verb(frame)
    }
  })
}

show_verb <- function(frame) {
  verb <- the_cluster$verb
  if (is.null(verb) || !identical(verb$frame, frame)) verb <- new_verb(frame)
  if (!is.null(verb$progress)) show_progress(verb$progress, verb_done(verb))
}

# Says once for which workers a verb waits that have no host yet. Which verb it was is kept as text,
# since its frame refers to the user's data.
tell_awaited <- function(frame, after = 10L) {
  name <- paste(sys.nframe(), format(frame))
  waits <- the_cluster$awaited
  if (!identical(waits$name, name)) waits <- list(name = name, looks = 0L)
  waits$looks <- waits$looks + 1L
  the_cluster$awaited <- waits
  if (waits$looks != after || !inherits(frame$cl, "muster_cluster")) {
    return()
  }
  away <- Filter(is_awaited, unclass(frame$cl))
  if (length(away)) {
    ranks <- vapply(away, .subset2, 0L, "rank")
    hosts <- unique(vapply(away, awaited_host, ""))
    inform_muster("waiting", paste0(
      "Waiting for ", ranks_text(ranks), " on ", paste(hosts, collapse = ", "), "."
    ), workers = ranks)
  }
}

is_awaited <- function(node) {
  look <- .Call(ffi_node_look, node)
  is.list(look) && look$state == "pending" && look$owed > 0L
}

# "host "node1" (asked for 30 s ago)"
awaited_host <- function(node) {
  group <- .Call(ffi_nodes_groups, list(node))
  plan <- the_cluster$plans[[as.character(.subset2(node, "id"))]]$plans[[group]]
  link <- the_host$hosts[[c(plan$host$key, "none")[1L]]]
  asked_s <- if (!is.null(link)) proc.time()[["elapsed"]] - link$begun_s
  paste0(host_shown(plan), if (!is.null(asked_s)) {
    paste0(" (asked for ", short_time(asked_s), " ago)")
  })
}

# The innermost verb that R is in.
verb_inside <- function() {
  for (i in rev(seq_len(sys.nframe()))) {
    fun <- sys.function(i)
    loops <- list(the_parallel$static_apply, the_parallel$dynamic_apply, parallel::clusterCall)
    for (verb in loops) {
      if (identical(fun, verb)) {
        return(sys.frame(i))
      }
    }
  }
}

# The record lasts until the function's frame ends, however that happens, so it begins with the
# first wait that is checked.
new_verb <- function(frame) {
  if (is.null(the_cluster$verb)) tell_behind(frame$cl)
  verb <- list(frame = frame, outer = the_cluster$verb, chunks = verb_chunks(frame))
  verb$progress <- if (!is.null(verb$chunks)) {
    new_progress(NULL, sum(verb$chunks))
  } else if (is.null(frame$n)) {
    new_progress(NULL, length(frame$cl), "workers")
  } else {
    new_progress(NULL, frame$n)
  }
  the_cluster$verb <- verb
  do.call(base::on.exit, list(as.call(list(end_verb)), TRUE, FALSE), envir = frame)
  verb
}

# What nodes evaluate first: tasks, and pieces of maps.
tell_behind <- function(cl) {
  if (!inherits(cl, "muster_cluster")) {
    return()
  }
  tasks <- cluster_tasks(cl)
  ranks <- vapply(cl, function(node) .subset2(node, "rank"), 0L)
  evaluated <- lapply(tasks$task, evaluated_of, ranks)
  tasks <- tasks[lengths(evaluated) > 0L, ]
  if (nrow(tasks)) {
    first <- tasks[1L, ]
    now <- unlist(evaluated, recursive = FALSE)[[1L]]
    inform_muster("behind", paste0(
      "Worker ", now$worker, " first evaluates ",
      if (is_map(first$task[[1L]])) "elements of map " else "task ",
      if (is.na(first$label)) first$id else paste0("`", first$label, "`"), " (",
      short_time(now$seconds), " by now)", if (nrow(tasks) > 1L) ", and others have tasks, too",
      "; task_cancel(cl) ends it."
    ), tasks = tasks)
  }
}

# The states of what workers of these ranks evaluate of a task, or of a map's pieces.
evaluated_of <- function(task, ranks) {
  tasks <- if (is_map(task)) task$tasks else list(task)
  states <- lapply(tasks, function(task) .Call(ffi_task_state, task))
  Filter(function(state) {
    is.list(state) && state$state == "running" && state$worker %in% ranks
  }, states)
}

# Called from C once the session has all answers that it waited for, if the line is shown: an error
# may be raised next. clusterApply() has a round of calls for each length(cl) elements.
verb_is_over <- function() {
  frame <- the_cluster$verb$frame
  more <- !is.null(frame$start) && frame$start + frame$jobs <= frame$n
  if (!more) line_away()
}

end_verb <- function() {
  end_progress(the_cluster$verb$progress)
  the_cluster$verb <- the_cluster$verb$outer
}

# How many elements each call has, NULL if calls are elements: parLapply() and its kin send lists of
# elements.
verb_chunks <- function(frame) {
  if (!identical(frame$fun, lapply) || is.null(frame$n)) {
    return(NULL)
  }
  chunks <- environment(frame$argfun)$x
  if (is.list(chunks) && length(chunks) == frame$n) lengths(chunks)
}

verb_done <- function(verb) {
  frame <- verb$frame
  if (is.null(frame$n)) {
    return(sum(nodes_are_done(frame$cl)))
  }
  done <- if (is.null(frame$start)) {
    # Load-balanced: answers come in any order.
    if (is.null(verb$chunks)) {
      return(max(0L, frame$i - 1L))
    }
    which(lengths(frame$val) > 0L)
  } else {
    before <- seq_len(frame$start - 1L)
    c(before, length(before) + which(nodes_are_done(frame$cl[seq_len(frame$jobs)])))
  }
  if (is.null(verb$chunks)) length(done) else sum(verb$chunks[done])
}

# The nodes that have answered everything.
nodes_are_done <- function(nodes) {
  vapply(nodes, function(node) {
    if (inherits(node, "muster_stock_node")) {
      return(stock_notes(node)$owed == 0L)
    }
    status <- .Call(ffi_node_look, node)
    is.list(status) && status$owed == 0L
  }, NA)
}

# Waits for all tasks of a list, as task_wait() does, and shows how many are done.
wait_for_tasks <- function(tasks, timeout, call) {
  progress <- if (timeout > progress_after) new_progress(NULL, length(tasks), "tasks")
  on.exit(end_progress(progress))
  end <- now_seconds() + timeout
  repeat {
    left <- end - now_seconds()
    patience <- min(progress_patience(progress), max(0, left))
    done <- wait_some(tasks, FALSE, patience, call)
    if (all(done) || patience >= left) {
      return(done)
    }
    show_progress(progress, sum(done))
  }
}
