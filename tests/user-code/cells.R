# Runs cells of the matrix, in a session of its own: a verb, a place in it, and a deed there.
#
# The rule for each: the verb gives its right value, or what the deed allows; what the deed itself
# does with clusters is right, too; it ends in time. Afterwards the cluster answers rightly, unless
# it was stopped, and when it is, no process of its and no descriptor is left.
#
# Each cell says its name before it begins, "cell: PLACE / VERB / DEED", where a
# finalizer's place is told with its allocation, and what is wrong with
# it, "failed: ...", in one line. The last line is "cells: " with how many deeds ran and how many
# cells there were.

# Seconds within which a cell ends; R's own limit, so deeds that set another have none.
cell_limit <- 120

cluster_helpers <- new.env(parent = asNamespace("muster"))
sys.source("../testthat/helper-cluster.R", cluster_helpers)
wait_until <- cluster_helpers$wait_until

same <- function(x, y) isTRUE(all.equal(x, y, tolerance = 0)) # 5L is 5, too

in_short <- function(x) {
  text <- if (inherits(x, "condition")) {
    c(class(x)[1L], conditionMessage(x), deparse(conditionCall(x), nlines = 1L))
  } else {
    deparse(x, nlines = 3L)
  }
  substr(gsub("\\s+", " ", paste(text, collapse = " | ")), 1L, 300L)
}

# ---- clusters: one at a time, kept from cell to cell as long as nothing was done to it

pool <- new.env()

cluster_for <- function(terms) {
  if (!identical(pool$terms, terms)) drop_cluster()
  if (is.null(pool$cl)) {
    pool$cl <- do.call(cluster_start, terms)
    pool$terms <- terms
  }
  pool$cl
}

drop_cluster <- function() {
  if (!is.null(pool$cl)) cluster_stop(pool$cl)
  pool$cl <- pool$terms <- NULL
}

# What is left of clusters that were stopped: processes and descriptors.
left_over <- function() {
  list(processes = cluster_helpers$session_processes(), files = cluster_helpers$open_files())
}

problem_left <- function() {
  gc() # what nobody refers to any more ends now
  wait_until({
    left <- Map(setdiff, left_over(), pool$nothing)
    sum(lengths(left)) == 0L
  }, fail = FALSE)
  if (sum(lengths(left)) > 0L) paste("left behind:", in_short(Filter(length, left)))
}

# ---- one cell

new_cell <- function(place, verb, deed) {
  cell <- new.env()
  cell$verb <- verb
  cell$cl <- cluster_for(c(
    list(workers = max(1L, min(verb$workers, deed$workers, 2L))), place$cluster
  ))
  cell$want <- verb$want(length(cell$cl))
  cell$more <- if (isTRUE(verb$large)) rep_len(1:4, 40000L) else 1:4
  cell$about <- list(
    mark = tempfile("mark", pool$files), go = tempfile("go", pool$files), session = Sys.getpid()
  )
  cell$work <- function(kind) work_of(kind, cell$about)
  cell$ran <- cell$over <- FALSE
  cell$wrong <- NULL
  cell$act <- function() {
    if (!cell$ran && !cell$over) {
      cell$ran <- TRUE
      if (isTRUE(deed$calls)) file.create(cell$about$go) # it would wait for workers that wait
      deed$does(cell)
    }
  }
  cell$again <- function() verb$run(cell$cl, cell$work("quiet"), cell$more, cell)
  cell
}

# list(value), a condition that was raised, or "left".
outcome_of <- function(cell, run) {
  tryCatch(
    withRestarts(
      callCC(function(exit) {
        cell$exit <- exit
        value <- run(cell)
        Sys.sleep(0) # tidy: an interrupt or a limit of the deed's may be on its way
        list(value = value)
      }),
      left = function() "left"
    ),
    error = identity, interrupt = identity
  )
}

# Parts can't be made in the middle of making parts on the same cluster, and that is an error.
nests_parts <- function(verb, deed) isTRUE(verb$parts) && isTRUE(deed$parts)

# What is wrong with an outcome: a string, or NULL.
problem_of <- function(cell, place, deed, outcome) {
  sure <- place$sure(cell$verb)
  if (sure && !cell$ran) {
    return(paste("the deed didn't run:", in_short(outcome)))
  }
  if (cell$ran && (deed$may(outcome) || (nests_parts(cell$verb, deed) && is_ours(outcome)))) {
    return(NULL)
  }
  if (cell$ran && !place$swallows && isTRUE(deed$leaves)) {
    return(paste("it wasn't left:", in_short(outcome)))
  }
  if (!place$own(outcome, cell)) paste("it came to", in_short(outcome))
}

# What is wrong with the cluster afterwards.
problem_after <- function(cell, deed) {
  cl <- cell$cl
  if (is.null(cl)) {
    return(NULL)
  }
  answers <- tryCatch(clusterCall(cl, function() 1), error = identity)
  if (!identical(answers, rep(list(1), length(cl)))) {
    return(paste("afterwards a call gives", in_short(answers)))
  }
  if (!isTRUE(cell$verb$ends)) {
    cell$want <- cell$verb$want(length(cl))
    value <- tryCatch(cell$again(), error = identity)
    if (!same(value, cell$want)) paste("afterwards the verb gives", in_short(value))
  }
}

run_cell <- function(place, verb, deed, detail) {
  cell <- new_cell(place, verb, deed)
  cell$detail <- detail
  pool$cl <- NULL # until it is known to be as before
  setTimeLimit(elapsed = cell_limit)
  outcome <- suppressWarnings(outcome_of(cell, place$run))
  cell$over <- TRUE
  file.create(cell$about$go)
  setTimeLimit(elapsed = cell_limit)
  problems <- c(
    cell$wrong, problem_of(cell, place, deed, outcome), problem_after(cell, deed)
  )
  setTimeLimit()
  if (length(problems) || is.null(cell$cl) || isTRUE(deed$alters) || isTRUE(verb$ends)) {
    if (!is.null(cell$cl)) cluster_stop(cell$cl)
    pool$terms <- NULL
    problems <- c(problems, problem_left())
  } else {
    pool$cl <- cell$cl
  }
  list(ran = cell$ran, problems = problems)
}

# ---- many

# Names of the cells at a place, "PLACE / VERB / DEED": every n-th, so that each deed is done at
# each place, and in each verb.
cell_names <- function(place, every) {
  fits <- place_list[[place]]$fits
  verbs <- Filter(function(name) fits(verb_list[[name]], name), names(verb_list))
  cells <- expand.grid(deed = names(deed_list), verb = verbs, stringsAsFactors = FALSE)
  cells$number <- match(cells$deed, names(deed_list)) + match(cells$verb, names(verb_list)) +
    match(place, names(place_list))
  cells <- cells[mapply(is_cell, place, cells$verb, cells$deed), ]
  cells <- cells[cells$number %% every == 0L, ]
  at <- ""
  if (place == "evaluated") {
    of_each <- max(1, length(positions) %/% every^2)
    cells <- cells[rep(seq_len(nrow(cells)), each = of_each), ]
    at <- paste0(" ", rep_len(positions, nrow(cells)))
  }
  paste0(place, at, " / ", cells$verb, " / ", cells$deed)
}

# Not: a cluster that is stopped or resized by two hands, one of which is left with nodes that it
# doesn't know; a worker that is killed when no call of its cluster is tried again; a time limit in
# a finalizer, where R looks at none.
is_cell <- function(place, verb, deed) {
  both <- verb %in% c("grow", "shrink", "stop", "stop_one") &&
    deed %in% c("grow", "shrink", "again", "stop_one")
  !both && !(place == "lost" && deed == "lose") &&
    !(place_list[[place]]$swallows && deed == "limit")
}

begin_cells <- function() {
  options(warn = 1)
  compiler::enableJIT(0L) # the compiler swallows errors, also of time limits
  cl <- cluster_start(1) # boots the fork server
  task_value(task_submit(cl, identity, 1)) # starts a thread
  cluster_stop(cl)
  pool$nothing <- left_over()
  # Files stay until all is done: what is in a journal is evaluated again by a new worker.
  pool$files <- tempfile("cells")
  dir.create(pool$files)
}

run_cells <- function(names) {
  before <- cluster_helpers$session_state()
  ran <- 0
  for (name in names) {
    cat("cell: ", name, "\n", sep = "")
    parts <- strsplit(name, " / ", fixed = TRUE)[[1L]]
    place <- strsplit(parts[1L], " ", fixed = TRUE)[[1L]]
    done <- run_cell(
      place_list[[place[1L]]], verb_list[[parts[2L]]], deed_list[[parts[3L]]], place[-1L]
    )
    ran <- ran + done$ran
    for (problem in done$problems) cat("failed: ", problem, "\n", sep = "")
  }
  drop_cluster()
  unlink(list.files(pool$files, full.names = TRUE), recursive = TRUE)
  gc()
  left <- c(problem_left(), cluster_helpers$state_leaks(before))
  for (problem in left) cat("failed: at the end: ", in_short(problem), "\n", sep = "")
  cat("cells: ", ran, " of ", length(names), "\n", sep = "")
}
