# Stages of a cluster's shuffles, on the session's side: recipes, and handles to them. How they are
# run: partition-run.R. docs/SHUFFLE.md explains the terms.

# What this session knows of data on the workers.
the_partition <- new.env(parent = emptyenv())
the_partition$shuffles <- list() # of clusters: stages and their plan, by id
the_partition$shuffles_pid <- 0L # the process that they belong to
the_partition$folds <- 0 # how many summaries have been folded

# The session's state for one cluster's stages: plan, a record of each stage by number, drops not
# yet sent to workers. It doesn't keep the cluster. A forked child starts with an empty one: its
# clusters have their own numbers.
shuffle_of <- function(cl, call) {
  # Code that ran meanwhile may have stopped the cluster.
  outcome <- .Call(ffi_node_outcome, cl[[1L]])
  if (is_ended(outcome)) {
    abort_submit(cl, outcome, call)
  }
  check_one_host(cl, call)
  if (the_partition$shuffles_pid != Sys.getpid()) {
    the_partition$shuffles <- list()
    the_partition$shuffles_pid <- Sys.getpid()
  }
  id <- as.character(.subset2(cl[[1L]], "id"))
  known <- the_partition$shuffles[[id]]
  if (!is.null(known)) {
    return(known)
  }
  drop_shuffles()
  shuffle <- new.env(parent = emptyenv())
  shuffle$plan <- .Call(ffi_plan_new, length(cl))
  shuffle$stages <- list()
  shuffle$released <- new.env(parent = emptyenv()) # by number: stages whose handle is gone
  shuffle$drops <- list() # by worker: a list of c(stage, task, attempt)
  shuffle$links <- list() # by worker: where it listens, see links_note()
  shuffle$held <- double() # by worker: bytes in memory, as it last told
  shuffle$seen <- NULL # the workers when that was last looked through, see memory_see()
  shuffle$tag <- memory_tag()
  shuffle$folders <- character() # where they may be, other than in temporary directories
  the_partition$shuffles[[id]] <- shuffle
  shuffle
}

# Workers read each other's blocks out of shared memory.
check_one_host <- function(cl, call) {
  if (!.Call(ffi_nodes_share_host, cl)) {
    names <- unique(vapply(unclass(cl), .subset2, "", "host"))
    abort_muster("input", "Partitions need workers that are all on one host.",
      details = paste0("These are on ", paste0("\"", names, "\"", collapse = ", "), "."),
      hints = paste0("Use the workers of one host, as in ", index_of_host(cl), "."), call = call
    )
  }
}

# index_of_host() gives text for an index that selects the workers of the host that has most.
index_of_host <- function(cl) {
  left <- seq_along(cl)
  best <- integer()
  while (length(left)) {
    same <- vapply(left, function(i) .Call(ffi_nodes_share_host, cl[c(left[1L], i)]), NA)
    if (sum(same) > length(best)) best <- left[same]
    left <- left[!same]
  }
  ends <- range(best)
  if (length(best) == 1L) {
    paste0("cl[", best, "]")
  } else if (identical(best, ends[1L]:ends[2L])) {
    paste0("cl[", ends[1L], ":", ends[2L], "]")
  } else {
    paste0("cl[cluster_status(cl)$host == \"", .subset2(cl[[best[1L]]], "host"), "\"]")
  }
}

# Handles of clusters that are gone may stay; the data of their functions doesn't.
drop_shuffles <- function() {
  gone <- !names(the_partition$shuffles) %in% .Call(ffi_cluster_ids)
  for (shuffle in the_partition$shuffles[gone]) {
    for (record in shuffle$stages) .Call(ffi_job_release, .Call(ffi_hidden, record$stage)$job)
    remove_files(shuffle)
  }
  the_partition$shuffles <- the_partition$shuffles[!gone]
}

# A new stage: an environment with everything needed to make its parts. It lives as long as its
# handle, a stage made of it, or a function that uses it. Nothing else may keep it: a user's
# function in it can hold the stage's own handle, in the frame where it was written, and a list of
# all stages would keep both forever. steps: function(task) that returns the steps of one task, see
# part_step(), without the parts that change from run to run. job: for the functions in them, from
# make_job() or another stage, or NULL. near, far: stages.
new_stage <- function(shuffle, count, steps, job = NULL, near = NULL, far = list(),
                      speculate = TRUE, inner = FALSE) {
  stage <- new.env(parent = emptyenv())
  if (is.list(job)) job <- freeze_job(job)
  numbers <- vapply(far, `[[`, 0L, "id")
  stage$id <- .Call(
    ffi_plan_add, shuffle$plan, count, if (is.null(near)) NA_integer_ else near$id,
    c(numbers, NA_integer_, NA_integer_)[1:2], speculate
  )
  stage$count <- count
  stage$steps <- steps
  stage$job <- job
  stage$settings <- session_settings()
  # Don't warn that its functions draw random numbers without a seed.
  stage$quiet <- is.null(job) || isTRUE(attr(job, "quiet"))
  stage$near <- near
  stage$far <- far
  # What partition_collect() makes of the rows, see frame_kind().
  stage$as <- c(list(near), far)[[if (is.null(near) && length(far)) 2L else 1L]]$as
  stage$shares <- NULL # of a split: rows for each part, by task, until the order is set
  stage$shared <- 0L # tasks whose shares are known
  stage$weights <- NULL # of each task, for the order of starts
  stage$ordered <- FALSE
  stage$rows <- stage$bytes <- rep(NA_real_, count)
  note_stage(shuffle, stage, inner)
  stage
}

# What values of expressions depend on beside their variables: with these, workers evaluate them.
session_settings <- function() {
  options <- c(
    "contrasts", "digits", "digits.secs", "dplyr.legacy_locale", "na.action", "OutDec", "scipen",
    "useFancyQuotes"
  )
  locales <- c("LC_COLLATE", "LC_TIME")
  list(
    options = lapply(stats::setNames(nm = options), getOption), zone = Sys.getenv("TZ", NA),
    locales = vapply(stats::setNames(nm = locales), Sys.getlocale, "")
  )
}

# A user's function as bytes, with everything it needs: a part that is made again gets the same as
# its first attempt, whatever has been assigned since in the function's frame. Returns a pointer to
# them, from which run_job() makes a job.
freeze_job <- function(job) {
  frozen <- .Call(ffi_job_freeze, job)
  attr(frozen, "quiet") <- job$quiet # for other stages with this job
  frozen
}

# The record of a stage: enough to drop it, when the stage itself may be gone.
note_stage <- function(shuffle, stage, inner) {
  record <- new.env(parent = emptyenv())
  record$id <- stage$id
  record$stage <- .Call(ffi_hide, stage, stage) # doesn't keep it
  record$inner <- inner # no handle: it goes with the stages that read it
  record$near <- if (!is.null(stage$near)) record_of(shuffle, stage$near$id)
  record$far <- lapply(stage$far, function(far) record_of(shuffle, far$id))
  record$refs <- 0L # stages that have this one as an input
  record$released <- FALSE
  for (input in c(list(record$near), record$far)) {
    if (!is.null(input)) input$refs <- input$refs + 1L
  }
  shuffle$stages[[as.character(record$id)]] <- record
}

record_of <- function(shuffle, id) shuffle$stages[[as.character(id)]]

stage_by <- function(shuffle, id) .Call(ffi_hidden, record_of(shuffle, id)$stage)

# The contents of a handle, hidden from serialization: otherwise everything that the session knows
# about the data would go along with any function written where the handle is visible. Parts are
# dropped when R collects the token, and the stage is forgotten once no other can need it.
new_token <- function(cl, shuffle, stage) {
  token <- new.env(parent = emptyenv())
  reg.finalizer(token, note_released(shuffle$released, stage$id, keep_hosts(cl)))
  token$held <- .Call(ffi_hide, token, list(cl = cl, shuffle = shuffle, stage = stage))
  token
}

note_released <- function(released, id, kept) {
  force(released)
  force(kept)
  id <- as.character(id)
  function(e) {
    assign(id, TRUE, envir = released)
    let_hosts_go(kept)
  }
}

# A handle: the cluster's and the stage's number, what a copy prints, and a token, which all its
# copies in this session share.
new_partition <- function(stage, cluster, token) {
  new_handle(list(
    cluster = cluster, stage = stage$id, parts = stage$count, rows = sum(stage$rows),
    bytes = sum(stage$bytes), token = token
  ))
}

# Not a list with a class: code that looks at the type alone, as data.table::setDT() and
# purrr::map() do, would take what is held for columns. Nor an environment, from which lm() and the
# like would take variables. Changes of its attributes change all copies, so there are none.
new_handle <- function(held, class = "muster_partition") {
  handle <- .Call(ffi_opaque)
  attr(handle, "held") <- held
  class(handle) <- class
  handle
}

held_by <- function(p) attr(p, "held", exact = TRUE)

# list(cl, shuffle, stage, token), or NULL for a copy made through serialization. The token keeps
# the parts: p itself may be collected while they are used.
open_handle <- function(p) {
  token <- held_by(p)$token
  held <- .Call(ffi_hidden, token$held)
  if (!is.null(held)) c(held, list(token = token))
}

# Called at the start of a run: a finalizer only takes notes, since it may run anywhere.
drop_released <- function(shuffle) {
  for (id in ls(shuffle$released, sorted = FALSE)) {
    rm(list = id, envir = shuffle$released)
    record <- record_of(shuffle, id)
    if (is.null(record)) next # released, and retired, before its handle went
    release_stage(shuffle, record)
    for (input in record$far) {
      if (input$inner) release_stage(shuffle, input)
    }
    retire_stage(shuffle, record)
  }
}

release_stage <- function(shuffle, record) {
  record$released <- TRUE
  .Call(ffi_plan_forget, shuffle$plan, record$id)
  drop_everywhere(shuffle, c(record$id, 0L, 0L))
}

# For a stage without handles.
drop_stage <- function(shuffle, stage) {
  record <- record_of(shuffle, stage$id)
  release_stage(shuffle, record)
  retire_stage(shuffle, record)
}

retire_stage <- function(shuffle, record) {
  if (!record$released || record$refs > 0L) {
    return()
  }
  .Call(ffi_plan_retire, shuffle$plan, record$id)
  shuffle$stages[[as.character(record$id)]] <- NULL
  for (input in c(list(record$near), record$far)) {
    if (!is.null(input)) {
      input$refs <- input$refs - 1L
      retire_stage(shuffle, input)
    }
  }
}

drop_everywhere <- function(shuffle, drop) {
  for (worker in seq_along(shuffle$drops)) {
    shuffle$drops[[worker]] <- c(shuffle$drops[[worker]], list(drop))
  }
}

drop_at <- function(shuffle, worker, drop) {
  if (worker <= length(shuffle$drops)) {
    shuffle$drops[[worker]] <- c(shuffle$drops[[worker]], list(drop))
  }
}

# ---- Checks

# The handle opened, see open_handle().
check_partition <- function(p, name, call) {
  check_given(p, name, call)
  if (!inherits(p, "muster_partition")) {
    abort_input(name, "data from partition_scatter() or a related function", p, call)
  }
  opened <- open_handle(p)
  switch(handle_state(opened),
    stopped = abort_muster("input", paste0("The cluster that holds `", name, "` was stopped."),
      hints = "Start another with cluster_start(), and create the data again.",
      argument = name, call = call
    ),
    foreign = abort_muster("input",
      paste0("Can't use `", name, "` outside the process that made it."),
      details = paste0(
        "This is a copy: from a file, or in a worker, or in a forked child ",
        "(mclapply)."
      ),
      hints = "Pass the rows themselves, as returned by partition_collect().",
      argument = name, call = call
    )
  )
  opened
}

# The state of an opened handle: "there", "stopped" with its cluster, or "foreign".
handle_state <- function(opened) {
  outcome <- if (!is.null(opened)) .Call(ffi_node_outcome, opened$cl[[1L]])
  if (is.null(outcome) || outcome == outcomes[["foreign"]]) {
    "foreign"
  } else if (is_ended(outcome) ||
    !identical(shuffle_of(opened$cl, NULL), opened$shuffle)) {
    "stopped"
  } else {
    "there"
  }
}

are_column_names <- function(x) {
  is.character(x) && length(x) && !anyNA(x) && all(nzchar(x)) && !anyDuplicated(x)
}

check_by <- function(by, call, name = "by") {
  check_given(by, name, call)
  if (!are_column_names(by)) {
    abort_input(name, "names of columns, each once", by, call)
  }
  if (length(by) > 64L) {
    abort_input(name, "at most 64 names of columns", by, call)
  }
  by
}

# More parts would mean blocks of a few rows.
parts_most <- 4096L

check_parts <- function(parts, call, default = NULL, name = "parts") {
  if (is.null(parts)) default else check_count(parts, name, 1L, parts_most, call)
}

# The default number of parts of data: depends only on its rows, so that results don't depend on the
# number of workers.
default_parts <- function(rows) {
  as.integer(max(1, min(rows, 32), min(64, ceiling(rows / 50000))))
}

# begin and end of n rows in `parts` parts of nearly equal size.
part_ranges <- function(n, parts) {
  # Multiplies first: that is exact, and so the last end is n.
  ends <- floor(seq_len(parts) * as.double(n) / parts)
  cbind(c(0, ends[-parts]) + 1, ends)
}

# ---- Handles

#' @export
format.muster_partition <- function(x, ...) {
  held <- held_by(x)
  text <- paste0(
    "muster partition: ",
    format(held$rows, big.mark = ",", decimal.mark = ".", scientific = FALSE), " rows, ",
    bytes_text(held$bytes), ", ", held$parts, if (held$parts == 1L) " part" else " parts"
  )
  if (is_rowwise(x)) {
    text <- paste0(text, ", by row")
  } else if (length(groups_of(x))) {
    text <- paste0(text, ", grouped by ", column_list(groups_of(x)))
  }
  opened <- open_handle(x)
  gone <- switch(handle_state(opened),
    stopped = "; gone: its cluster was stopped",
    foreign = "; belongs to another process"
  )
  if (!is.null(gone)) {
    return(paste0(text, gone))
  }
  where <- .Call(ffi_plan_where, opened$shuffle$plan, held$stage)
  there <- where[, 1L] > 0L
  each <- table(where[there, 2L])
  lost <- sum(!there)
  paste0(
    text,
    if (any(there)) paste0(" on worker ", paste0(names(each), " (", each, ")", collapse = ", ")),
    if (lost) paste0("; ", lost, " lost, computed again when needed")
  )
}
