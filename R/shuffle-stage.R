# Stages of a cluster's shuffles, from the session's side: recipes, and handles to them. How
# they are run: shuffle-run.R. docs/SHUFFLE.md has the words.

# What the session knows of one cluster's stages: plan, stages by number, what workers are still
# to be told to drop. It doesn't keep the cluster.
shuffle_of <- function(cl) {
  id <- as.character(.subset2(cl[[1L]], "id"))
  known <- the$shuffles[[id]]
  if (!is.null(known)) {
    return(known)
  }
  the$shuffles <- the$shuffles[names(the$shuffles) %in% .Call(ffi_cluster_ids)$id]
  shuffle <- new.env(parent = emptyenv())
  shuffle$plan <- .Call(ffi_plan_new, length(cl))
  shuffle$stages <- list()
  shuffle$released <- integer()
  shuffle$drops <- list() # by worker: a list of c(stage, task, attempt)
  shuffle$handlers <- 1L # listeners of each worker
  shuffle$links <- list() # by worker: where it listens, see links_note()
  the$shuffles[[id]] <- shuffle
  shuffle
}

# A new stage. steps: function(task) that gives the steps of one task, see part_step(), without
# what changes from run to run. job: what the functions in them need, or NULL. near, far: stages.
new_stage <- function(shuffle, count, steps, job = NULL, near = NULL, far = list(),
                      speculate = TRUE, inner = FALSE) {
  stage <- new.env(parent = emptyenv())
  numbers <- vapply(far, `[[`, 0L, "id")
  stage$id <- .Call(
    ffi_plan_add, shuffle$plan, count, if (is.null(near)) NA_integer_ else near$id,
    c(numbers, NA_integer_, NA_integer_)[1:2], speculate
  )
  stage$count <- count
  stage$steps <- steps
  stage$job <- job
  stage$near <- near
  stage$far <- far
  stage$refs <- 0L # stages that have this one as an input
  stage$inner <- inner # no handle: it goes with the stages that read it
  stage$released <- FALSE
  stage$shares <- NULL # of a split: rows for each part, by task, until they have told an order
  stage$shared <- 0L # tasks whose shares are known
  stage$weights <- NULL # of each task, for the order in which they are started
  stage$ordered <- FALSE
  stage$rows <- stage$bytes <- rep(NA_real_, count)
  for (input in c(list(near), far)) {
    if (!is.null(input)) input$refs <- input$refs + 1L
  }
  shuffle$stages[[as.character(stage$id)]] <- stage
  stage
}

# A handle. Its parts are dropped when R collects it, and the stage is forgotten once no other
# can need it.
new_partition <- function(cl, shuffle, stage) {
  token <- new.env(parent = emptyenv())
  reg.finalizer(token, note_released(shuffle, stage$id))
  structure(list(stage = stage, shuffle = shuffle, cl = cl, token = token),
    class = "muster_partition"
  )
}

note_released <- function(shuffle, id) {
  force(shuffle)
  force(id)
  function(e) shuffle$released <- c(shuffle$released, id)
}

# Called at the begin of a run: a finalizer only takes notes, since it may run anywhere.
drop_released <- function(shuffle) {
  gone <- shuffle$released
  shuffle$released <- integer()
  for (id in gone) {
    stage <- shuffle$stages[[as.character(id)]]
    release_stage(shuffle, stage)
    for (input in stage$far) {
      if (input$inner) release_stage(shuffle, input)
    }
    retire_stage(shuffle, stage)
  }
}

release_stage <- function(shuffle, stage) {
  stage$released <- TRUE
  .Call(ffi_plan_set, shuffle$plan, "forget", stage$id)
  drop_everywhere(shuffle, c(stage$id, 0L, 0L))
}

# Nobody has a handle to it.
drop_stage <- function(shuffle, stage) {
  release_stage(shuffle, stage)
  retire_stage(shuffle, stage)
}

retire_stage <- function(shuffle, stage) {
  if (!stage$released || stage$refs > 0L) {
    return()
  }
  .Call(ffi_plan_set, shuffle$plan, "retire", stage$id)
  shuffle$stages[[as.character(stage$id)]] <- NULL
  for (input in c(list(stage$near), stage$far)) {
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

check_partition <- function(p, name, call) {
  if (!inherits(p, "muster_partition")) {
    abort_input(name, "data of partition_scatter() and its like", p, call)
  }
  switch(handle_state(p),
    stopped = abort_muster("input", paste0("The cluster that `", name, "` is on was stopped."),
      hints = "Start another by cluster_start(), and make the data again.",
      argument = name, call = call
    ),
    foreign = abort_muster("input",
      paste0("Can't use `", name, "` in another process than the one that made it."),
      details = paste0(
        "This is a copy: from a file, or in a worker, or in a forked child ",
        "(mclapply)."
      ),
      hints = "Hand over the rows themselves, as partition_collect() gives them.",
      argument = name, call = call
    )
  )
  p
}

# "there", "stopped" with its cluster, or "foreign".
handle_state <- function(p) {
  outcome <- .Call(ffi_node_outcome, p$cl[[1L]])
  if (outcome == outcome_foreign) {
    "foreign"
  } else if (outcome == outcome_stopped || !identical(shuffle_of(p$cl), p$shuffle)) {
    "stopped"
  } else {
    "there"
  }
}

check_by <- function(by, call, name = "by") {
  if (!is.character(by) || !length(by) || anyNA(by) || !all(nzchar(by)) || anyDuplicated(by)) {
    abort_input(name, "names of columns, each once", by, call)
  }
  if (length(by) > 64L) {
    abort_input(name, "at most 64 names of columns", by, call)
  }
  by
}

# More parts than this would be blocks of a few rows.
parts_most <- 4096L

check_parts <- function(parts, call, default = NULL) {
  if (is.null(parts)) default else check_count(parts, "parts", 1L, parts_most, call)
}

# How many parts data has by default: by its rows alone, so that results don't depend on the
# number of workers.
default_parts <- function(rows) {
  as.integer(max(1, min(rows, 32), min(64, ceiling(rows / 50000))))
}

# begin and end of n rows in so many parts, as even as can be.
part_ranges <- function(n, parts) {
  # The product first: it is exact, and so is the last end, which is n.
  ends <- floor(seq_len(parts) * as.double(n) / parts)
  cbind(c(0, ends[-parts]) + 1, ends)
}

# ---- Handles

#' @export
print.muster_partition <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.muster_partition <- function(x, ...) {
  stage <- x$stage
  text <- paste0(
    "muster partition: ", format(sum(stage$rows), big.mark = ",", decimal.mark = "."), " rows, ",
    bytes_text(sum(stage$bytes)), ", ", stage$count, if (stage$count == 1L) " part" else " parts"
  )
  gone <- switch(handle_state(x),
    stopped = "; gone: its cluster was stopped",
    foreign = "; in another process than this one"
  )
  if (!is.null(gone)) {
    return(paste0(text, gone))
  }
  where <- .Call(ffi_plan_where, x$shuffle$plan, stage$id)
  there <- where[, 1L] > 0L
  each <- table(where[there, 2L])
  lost <- sum(!there)
  paste0(
    text,
    if (any(there)) paste0(" on worker ", paste0(names(each), " (", each, ")", collapse = ", ")),
    if (lost) paste0("; ", lost, " lost, made again when needed")
  )
}
