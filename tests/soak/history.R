# Random verbs, cancels, resizes and kills, and a proof from their history that each call was
# evaluated and answered as promised:
#   Rscript tests/soak/history.R [HOURS [SEED]]
# Each evaluation appends its call's number to a file before it does anything else. A checker
# reads from that: every answer comes once and is right; one that was neither lost nor cancelled has
# an evaluation; a task has at most 1 + retries, and none after its answer, or once a call that
# followed its cancel is answered (calls of verbs are repeated when their worker comes back);
# nothing is left at the end. With MUSTER_TEST_HOST=yes two of three workers are behind a link, as
# on another host, and its host process and fork server are killed, too. The time only says when to
# begin no more events. A failure shows the seed and the last 200 events. Ends with
# `soak history: N passed, N failed, N skipped`. Linux only: reads /proc.

arguments <- commandArgs(trailingOnly = TRUE)
hours <- if (length(arguments) >= 1L) as.numeric(arguments[1L]) else 0.02
seed <- if (length(arguments) >= 2L) as.integer(arguments[2L]) else 1L
retries <- 3L
counts <- c(passed = 0L, failed = 0L, skipped = 0L)
# What is promised, by its words in check(): however often it is looked at, it is one test.
promises <- character()
events <- character()
told <- function(...) events <<- utils::tail(c(events, sprintf(...)), 200L)
finish <- function() {
  if (counts[["failed"]] > 0L) {
    cat(events, sep = "\n")
    cat(sprintf("again: Rscript tests/soak/history.R %g %d\n", hours, seed))
  }
  cat(sprintf("soak history: %d passed, %d failed, %d skipped\n",
    counts[["passed"]], counts[["failed"]], counts[["skipped"]]))
  quit("no", status = as.integer(counts[["failed"]] > 0L))
}
check <- function(ok, promise, ...) {
  if (!isTRUE(ok)) {
    counts["failed"] <<- counts["failed"] + 1L
  } else if (!promise %in% promises) {
    promises <<- c(promises, promise)
    counts["passed"] <<- counts["passed"] + 1L
  }
  if (!isTRUE(ok)) {
    cat("failed: ", sprintf(promise, ...), "\n", sep = "")
    told("FAILED: %s", sprintf(promise, ...))
  }
}
if (!file.exists("/proc/self/stat")) {
  cat("skipped: there is no /proc\n")
  counts["skipped"] <- 1L
  finish()
}
set.seed(seed, "Mersenne-Twister")
suppressPackageStartupMessages({
  library(parallel)
  library(muster)
})
options(muster.quiet = TRUE, warn = 1L)
cat(sprintf("%g hours, seed %d\n", hours, seed))
folder <- tempfile("history-")
history <- file.path(folder, "evaluations")

# ---- what workers evaluate

# fate: what happens at the first evaluation (or, for "poison", at each).
work <- function(id, fate, history) {
  # One string is one write(2), which O_APPEND makes whole.
  cat(paste0(id, "\n"), file = history, append = TRUE)
  mark <- paste0(history, "-", id)
  if (fate == "poison" || (fate != "well" && !file.exists(mark))) {
    if (fate != "poison") file.create(mark)
    if (fate == "quit") quit("no", 3L)
    tools::pskill(Sys.getpid(), c(poison = 9L, kill = 9L, crash = 11L)[[fate]])
    Sys.sleep(30) # tidy: the worker's work
  }
  Sys.sleep((id %% 4) / 1000) # tidy: the worker's work
  7 * id + 1
}
answer <- function(id) 7 * id + 1
stuck <- function(id, history) {
  cat(paste0(id, "\n"), file = history, append = TRUE)
  repeat Sys.sleep(0.01) # tidy: until it is cancelled
}
drawn <- function(i) stats::rnorm(2)

# ---- the history

# State by call id: what was submitted, its answers, and evaluations counted when it was over.
calls <- new.env()
calls$n <- 0L
calls$answers <- integer() # of each call
calls$lost <- logical() # its answer is that it was lost
calls$cancelled <- logical()
calls$task <- logical()
calls$sealed <- integer() # evaluations when no more could come, NA before

new_ids <- function(n, task = TRUE) {
  ids <- calls$n + seq_len(n)
  calls$n <- calls$n + n
  calls$answers[ids] <- 0L
  calls$lost[ids] <- FALSE
  calls$cancelled[ids] <- FALSE
  calls$task[ids] <- task
  calls$sealed[ids] <- NA_integer_
  ids
}
evaluations <- function() {
  ids <- if (file.exists(history)) scan(history, 0L, quiet = TRUE) else integer()
  tabulate(ids, calls$n)
}
seal <- function(ids) calls$sealed[ids] <- evaluations()[ids]

# value: the answer, or the error that stands for it.
answered <- function(id, value) {
  calls$answers[id] <- calls$answers[id] + 1L
  if (inherits(value, "muster_error_lost")) {
    calls$lost[id] <- TRUE
  } else if (!identical(value, answer(id))) {
    check(FALSE, "call %d gave %s", id, paste(format(value), collapse = " "))
  }
}

# ---- events

fates <- function(n) {
  sample(c("well", "quit", "kill", "crash"), n, TRUE, c(0.94, 0.02, 0.02, 0.02))
}
caught <- function(code) tryCatch(code, error = identity)

verb <- function(cl) {
  ids <- new_ids(sample.int(12L, 1L), task = FALSE)
  name <- sample(c("clusterApply", "clusterApplyLB", "clusterMap", "sent"), 1L)
  fate <- fates(length(ids))
  told("%s of %d to %d", name, ids[1L], max(ids))
  got <- caught(switch(name,
    clusterApply = clusterApply(cl, Map(list, ids, fate), spread, history),
    clusterApplyLB = clusterApplyLB(cl, Map(list, ids, fate), spread, history),
    clusterMap = clusterMap(cl, work, ids, fate, MoreArgs = list(history = history)),
    sent = sent(cl, ids, fate)
  ))
  take_all(ids, got)
}
# Called in a worker: `work` is there, see start().
spread <- function(pair, history) work(pair[[1L]], pair[[2L]], history)

# Calls that are sent ahead to one node each, and answers as they come.
sent <- function(cl, ids, fate) {
  for (k in seq_along(ids)) {
    node <- cl[[(k - 1L) %% length(cl) + 1L]]
    parallel:::sendCall(node, work, list(ids[k], fate[k], history), tag = k)
  }
  values <- vector("list", length(ids))
  for (k in seq_along(ids)) {
    got <- parallel:::recvOneData(cl)$value
    check(is.null(values[[got$tag]]), "call %d was answered twice", ids[got$tag])
    values[[got$tag]] <- got$value
  }
  values
}

take_all <- function(ids, got) {
  if (inherits(got, "muster_error_lost")) {
    # What the others gave is in the error; those without are lost, or were never sent.
    values <- got$results
    for (k in seq_along(ids)) {
      value <- if (k <= length(values) && !is.null(values[[k]])) values[[k]] else got
      answered(ids[k], value)
    }
  } else if (inherits(got, "error")) {
    check(FALSE, "calls %d to %d: %s", ids[1L], max(ids), conditionMessage(got))
  } else {
    check(length(got) == length(ids), "calls %d to %d: %d answers", ids[1L], max(ids), length(got))
    for (k in seq_along(ids)) answered(ids[k], got[[k]])
  }
  seal(ids)
}

tasks <- function(cl) {
  ids <- new_ids(sample.int(20L, 1L))
  fate <- fates(length(ids))
  if (stats::runif(1) < 0.1) fate[1L] <- "poison"
  told("tasks %d to %d: %s", ids[1L], max(ids), paste(setdiff(fate, "well"), collapse = " "))
  all <- Map(function(id, fate) task_submit(cl, work, id, fate, history), ids, fate)
  for (k in sample(seq_along(ids))) {
    got <- caught(task_value(all[[k]]))
    if (inherits(got, "muster_error_lost")) got$results <- NULL
    answered(ids[k], got)
    check(fate[k] != "poison" || calls$lost[ids[k]], "task %d is poison, and done", ids[k])
  }
  seal(ids)
}

cancels <- function(cl) {
  ids <- new_ids(length(cl) + sample.int(8L, 1L))
  told("cancel of tasks %d to %d", ids[1L], max(ids))
  all <- lapply(ids, function(id) task_submit(cl, stuck, id, history))
  if (stats::runif(1) < 0.5) while (!any(evaluations()[ids])) Sys.sleep(0.002) # tidy: one begins
  check(all(task_cancel(all)), "tasks that never end were done: %d to %d", ids[1L], max(ids))
  for (task in all) {
    got <- caught(task_value(task))
    check(inherits(got, "muster_error_cancelled"), "a cancelled task has a value")
  }
  calls$cancelled[ids] <- TRUE
  # What was sent before this call is over when each worker has answered it.
  clusterCall(cl, function() NULL)
  seal(ids)
}

exports <- function(cl) {
  told("export")
  assign("exported", stats::runif(1), globalenv())
  clusterExport(cl, "exported", globalenv())
  if (stats::runif(1) < 0.5) kills(cl)
  got <- caught(unlist(clusterEvalQ(cl, exported)))
  check(identical(got, rep(exported, length(cl))), "an export was lost")
}

randoms <- function(cl) {
  told("random numbers")
  k <- sample.int(1000L, 1L)
  clusterSetRNGStream(cl, k)
  first <- clusterApply(cl, seq_along(cl), drawn)
  if (stats::runif(1) < 0.5) kills(cl)
  check(identical(list(first, clusterApply(cl, seq_along(cl), drawn)), streams(k, length(cl))),
    "random numbers differ, seed %d", k)
}
# The same draws, in this session.
streams <- function(k, n) {
  before <- .Random.seed
  on.exit(assign(".Random.seed", before, envir = globalenv()))
  RNGkind("L'Ecuyer-CMRG")
  set.seed(k)
  stream <- .Random.seed
  draws <- lapply(seq_len(n), function(i) {
    assign(".Random.seed", stream, envir = globalenv())
    stream <<- nextRNGStream(stream)
    list(drawn(), drawn())
  })
  list(lapply(draws, `[[`, 1L), lapply(draws, `[[`, 2L))
}

kills <- function(cl) {
  node <- cl[[sample.int(length(cl), 1L)]]
  signal <- sample(c(9L, 9L, 9L, 11L, 19L), 1L)
  told("signal %d to worker %d", signal, node$rank)
  tools::pskill(node$pid, signal)
}

# Fork servers, and host processes.
kills_server <- function(cl) {
  own <- setdiff(children(), cluster_status(cl)$pid)
  servers <- c(own, setdiff(unlist(lapply(own, children)), cluster_status(cl)$pid))
  told("kill of a fork server or host process")
  if (length(servers)) tools::pskill(servers[sample.int(length(servers), 1L)], 9L)
}

resizes <- function(cl) {
  n <- sample(2:4, 1L)
  told("resize to %d", n)
  new <- caught(cluster_resize(cl, n))
  check(!inherits(new, "error") && length(new) == n, "no resize to %d", n)
  clusterExport(new, c("work", "spread"), globalenv())
  new
}

by_link <- function() {
  libraries <- paste(.libPaths(), collapse = ":")
  rscript <- file.path(R.home("bin"), "Rscript")
  launch_command(
    paste0("R_LIBS=", shQuote(libraries), " exec ", rscript, " -e 'muster::muster_host()'"), 2L
  )
}
with_hosts <- identical(Sys.getenv("MUSTER_TEST_HOST"), "yes")

start <- function() {
  cl <- cluster_start(if (with_hosts) list(1, by_link()) else 3, retries = retries, heartbeat = 1)
  clusterExport(cl, c("work", "spread"), globalenv())
  cl
}

# ---- the run

children <- function(pid = Sys.getpid()) {
  file <- file.path("/proc", pid, "task", pid, "children")
  tryCatch(suppressWarnings(scan(file, 0L, quiet = TRUE)), error = function(e) integer())
}
sockets <- function() {
  sum(grepl("^(socket|pipe|/memfd)", Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))))
}
left <- function() {
  c(children = length(children()), descriptors = sockets(),
    files = length(list.files(tempdir(), all.files = TRUE, no.. = TRUE)))
}

# When each of some processes began, which with its pid tells it from a later one, by pid. One that
# is gone, or has ended and waits for its parent, init or a namespace's, has none.
lives <- function(pids) {
  stat <- vapply(file.path("/proc", pids, "stat"), function(file) {
    tryCatch(suppressWarnings(readLines(file, 1L)), error = function(e) "")
  }, "")
  fields <- strsplit(sub("^.*[)] ", "", stat), " ", fixed = TRUE)
  began <- vapply(fields, function(x) if (length(x) && !x[1L] %in% c("Z", "X")) x[20L] else "", "")
  stats::setNames(paste(pids, began), pids)[nzchar(began)]
}

judge <- function() {
  seen <- evaluations()
  ids <- seq_len(calls$n)
  show <- function(bad) paste(utils::head(ids[bad], 5L), collapse = ", ")
  bad <- !calls$cancelled & calls$answers != 1L
  check(!any(bad), "calls without exactly one answer: %s", show(bad))
  bad <- calls$task & seen > 1L + retries
  check(!any(bad), "tasks with more evaluations than 1 + retries: %s", show(bad))
  bad <- seen == 0L & !calls$lost & !calls$cancelled
  check(!any(bad), "calls that were answered without an evaluation: %s", show(bad))
  bad <- calls$task & seen != calls$sealed
  check(!any(bad), "tasks that were evaluated after their end: %s", show(bad))
}

cluster_stop(start())
dir.create(folder)
before <- left()
cl <- start()
end <- proc.time()[["elapsed"]] + hours * 3600
number <- 0
kinds <- list(
  verb = verb, tasks = tasks, cancels = cancels, exports = exports, randoms = randoms,
  kills = kills, kills_server = kills_server, resizes = resizes
)
chances <- c(8, 8, 3, 3, 2, 1.5, 0.2, 1)
while (proc.time()[["elapsed"]] < end && counts[["failed"]] == 0L) {
  kind <- sample(names(kinds), 1L, prob = chances)
  result <- caught(kinds[[kind]](cl))
  check(!inherits(result, "error"), "%s: %s", kind, if (inherits(result, "error")) {
    conditionMessage(result)
  })
  if (kind == "resizes" && inherits(result, "muster_cluster")) cl <- result
  number <- number + 1
  # One that was lost too often in a short time is given up, as it should be.
  if (any(cluster_status(cl)$state == "lost")) {
    told("start anew")
    cluster_stop(cl)
    cl <- start()
  }
  if (number %% 50 == 0) judge()
}
judge()
workers <- lives(stats::na.omit(cluster_status(cl)$pid))
cluster_stop(cl)
cluster_stop(start())
last <- proc.time()[["elapsed"]] + 60
while (!identical(left(), before) && proc.time()[["elapsed"]] < last) Sys.sleep(0.05) # tidy: ends
judge()
after <- left()
for (what in names(before)) {
  check(after[[what]] == before[[what]], "%s: %d before, %d are left", what, before[[what]],
    after[[what]])
}
check(!any(lives(names(workers)) %in% workers), "workers are left")
cat(sprintf(
  "beside: %.0f events, %d calls, %d evaluations, %d lost, %d cancelled\n", number, calls$n,
  sum(evaluations()), sum(calls$lost), sum(calls$cancelled)
))
unlink(folder, recursive = TRUE)
finish()
