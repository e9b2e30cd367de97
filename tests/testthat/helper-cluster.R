# Helpers for tests that start clusters: time limits, clusters that end with their
# test, clusters of parallel's own to compare with, and the guard against leaks.

# Workers make checkpoints often, so that tests meet them: when they pay depends on the machine.
options(muster.checkpoints = getOption("muster.checkpoints", 0.5))

# Evaluates a condition again and again until it is true, which counts as an expectation.
# When the time is over the test ends with an error; with fail = FALSE the value is FALSE
# then. The limit is for what would never come: a machine may be busy.
wait_until <- function(condition, timeout_s = 120, fail = TRUE) {
  condition <- substitute(condition)
  frame <- parent.frame()
  end <- proc.time()[["elapsed"]] + timeout_s
  while (!isTRUE(eval(condition, frame))) {
    if (proc.time()[["elapsed"]] > end) {
      if (!fail) return(FALSE)
      stop("waited ", timeout_s, " s for ", paste(deparse(condition), collapse = "\n"),
        call. = FALSE)
    }
    Sys.sleep(0.01)
  }
  if (fail) testthat::succeed()
  invisible(TRUE)
}

# Lets time pass, where something is to happen meanwhile, or not to happen.
pass_time <- function(seconds) wait_until(FALSE, seconds, fail = FALSE)

# Calls f() when the function or local block with this frame ends, the last one first.
defer <- function(f, frame = parent.frame()) {
  do.call(base::on.exit, list(as.call(list(f)), TRUE, FALSE), envir = frame)
}

# R CMD check allows two workers.
skip_if_limited <- function() {
  skip_if(nzchar(Sys.getenv("_R_CHECK_LIMIT_CORES_")), "two workers are allowed")
}

# A cluster that is stopped when the calling block ends.
local_cluster <- function(workers = 2, ..., frame = parent.frame()) {
  cl <- cluster_start(workers, ...)
  defer(function() cluster_stop(cl), frame)
  cl
}

has_checkpoints <- function(cl = local_cluster(1)) !any(cluster_status(cl)$healing == "replay")

skip_without_checkpoints <- function(cl = local_cluster(1)) {
  testthat::skip_if_not(has_checkpoints(cl), "workers can't be copied here")
}

# Calls that take so long that a checkpoint is worth it, until each worker has one that stands for
# all before.
make_checkpoints <- function(cl) {
  skip_without_checkpoints(cl)
  wait_until({
    clusterCall(cl, Sys.sleep, 0.5)
    clusterCall(cl, function() NULL)
    journal <- cluster_journal(cl)
    identical(sum(journal$kind == "checkpoint"), length(cl)) && nrow(journal) == 2L * length(cl)
  })
}

# Sets options, variables, the working directory or the seed until the block ends.
local_settings <- function(..., frame = parent.frame()) {
  before <- options(...)
  defer(function() options(before), frame)
}

local_variables <- function(..., frame = parent.frame()) {
  new <- c(...)
  before <- stats::setNames(Sys.getenv(names(new), unset = NA), names(new))
  defer(function() set_variables_or_unset(before), frame)
  set_variables_or_unset(new)
}

set_variables_or_unset <- function(values) {
  Sys.unsetenv(names(values)[is.na(values)])
  values <- values[!is.na(values)]
  if (length(values)) do.call(Sys.setenv, as.list(values))
}

local_directory <- function(directory, frame = parent.frame()) {
  before <- setwd(directory)
  defer(function() setwd(before), frame)
}

local_folder <- function(frame = parent.frame()) {
  folder <- tempfile("folder-")
  dir.create(folder)
  # A worker's thread may make a file there once more, between the files' end and the folder's.
  defer(function() {
    for (k in 1:100) if (dir.exists(folder)) unlink(folder, recursive = TRUE)
  }, frame)
  normalizePath(folder)
}

session_seed <- function() get0(".Random.seed", globalenv(), inherits = FALSE)

local_seed <- function(seed, frame = parent.frame()) {
  before <- session_seed()
  kinds <- RNGkind()
  defer(function() {
    if (is.null(before)) {
      # R remembers the generators without a seed too.
      suppressWarnings(RNGkind(kinds[1L], kinds[2L], kinds[3L]))
      suppressWarnings(rm(".Random.seed", envir = globalenv()))
    } else {
      assign(".Random.seed", before, envir = globalenv())
    }
  }, frame)
  set.seed(seed)
}

# Values and names that code left in the global environment go when the block ends.
local_globals <- function(frame = parent.frame()) {
  before <- ls(globalenv(), all.names = TRUE)
  defer(function() {
    rm(list = setdiff(ls(globalenv(), all.names = TRUE), before), envir = globalenv())
  }, frame)
}

# A package of R code alone, installed into a library of its own.
local_package <- function(name, code, frame = parent.frame(), exports = character()) {
  source <- file.path(local_folder(), name)
  dir.create(file.path(source, "R"), recursive = TRUE)
  writeLines(c(
    paste("Package:", name), "Version: 1.0", "Title: For a Test", "License: MIT",
    "Description: Made by a test.", "Author: None", "Maintainer: None <none@none.invalid>"
  ), file.path(source, "DESCRIPTION"))
  writeLines(c("", sprintf("export(%s)", exports)), file.path(source, "NAMESPACE"))
  writeLines(code, file.path(source, "R", "code.R"))
  library <- local_folder(frame)
  R <- file.path(R.home("bin"), "R")
  words <- c("CMD", "INSTALL", "--no-docs", "--no-test-load", paste0("--library=", library))
  status <- suppressWarnings(
    system2(R, shQuote(c(words, source)), stdout = FALSE, stderr = FALSE)
  )
  skip_if_not(status == 0L, "packages can't be installed here")
  before <- .libPaths()
  defer(function() .libPaths(before), frame)
  .libPaths(c(library, before))
  library
}

# Ends the test with an error if it takes longer, so that one that hangs says so: ten times
# `seconds`, which is ample already, for a machine that is busy with other work.
limit_time <- function(seconds, frame = parent.frame()) {
  setTimeLimit(elapsed = 10 * seconds, transient = TRUE)
  defer(function() setTimeLimit(), frame)
}

# ---- processes

has_proc <- function() file.exists("/proc/self/stat")
skip_without_proc <- function() testthat::skip_if_not(has_proc(), "there is no /proc")
skip_without_fork <- function() {
  testthat::skip_if_not(.Call(ffi_can_fork), "forking isn't safe on this system")
}

# Fields of /proc/<pid>/stat from the third on: state, parent, process group, ...; NA if it is gone.
process_stat <- function(pid) {
  line <- first_line(file.path("/proc", pid, "stat"))
  strsplit(sub("^.*[)] ", "", line, useBytes = TRUE), " ", fixed = TRUE)[[1L]]
}

parent_of <- function(pids) {
  vapply(pids, function(pid) as.integer(process_stat(pid)[2L]), 0L, USE.NAMES = FALSE)
}

# Processes by pid and start time, since pids are used again: learn them while they are there.
processes <- function(pids) {
  paste(pids, vapply(pids, function(pid) process_stat(pid)[20L], ""))
}
process_pids <- function(known) as.integer(sub(" .*", "", known))

# Which of these processes are there? A zombie is.
still_exists <- function(known) {
  pids <- process_pids(known)
  if (has_proc()) known == processes(pids) & !endsWith(known, " NA") else tools::pskill(pids, 0L)
}

# A zombie doesn't run: whoever is to wait for it may take its time.
still_runs <- function(known) {
  states <- vapply(process_pids(known), function(pid) process_stat(pid)[1L], "")
  still_exists(known) & !states %in% c("Z", "X")
}

# 0 would stand for the session's own process group where a pid is killed.
node_pids <- function(cl) {
  pids <- vapply(cl, function(node) node$pid, 0L)
  testthat::expect(all(pids > 1L), "A node doesn't know its worker's pid.")
  stopifnot(pids > 1L)
  pids
}
node_processes <- function(cl) processes(node_pids(cl))

# The first line of a file of the kernel's; NA if it is gone.
first_line <- function(file) {
  # A handler that leaves at the warning would leave the connection behind as well.
  tryCatch(suppressWarnings(readLines(file, n = 1L, warn = FALSE))[1L],
    error = function(e) NA_character_
  )
}

# The processes that this session has started and those that they have, but for its fork
# servers, which stay by design. Workers whose parent is gone are known by their command.
session_processes <- function() {
  pids <- as.integer(list.files("/proc", "^[0-9]+$"))
  parents <- parent_of(pids)
  found <- Sys.getpid()
  repeat {
    more <- setdiff(pids[parents %in% found], found)
    if (!length(more)) break
    found <- c(found, more)
  }
  orphans <- Filter(belongs_to_session, pids[parents %in% 1L])
  setdiff(c(found, orphans), c(Sys.getpid(), server_pids()))
}

belongs_to_session <- function(pid) {
  bytes <- tryCatch(
    suppressWarnings(readBin(file.path("/proc", pid, "cmdline"), "raw", 4096L)),
    error = function(e) raw()
  )
  bytes[bytes == as.raw(0L)] <- charToRaw("\n")
  words <- strsplit(rawToChar(bytes), "\n", fixed = TRUE)[[1L]]
  at <- match("--args", words)
  !is.na(at) && any(grepl("boot.R", words, fixed = TRUE)) && words[at + 2L] %in% Sys.getpid()
}

# The command lines of all processes that can be read.
command_lines <- function() {
  files <- file.path("/proc", list.files("/proc", "^[0-9]+$"), "cmdline")
  vapply(files, function(file) {
    bytes <- tryCatch(suppressWarnings(readBin(file, "raw", 1e5)), error = function(e) raw())
    bytes[bytes == as.raw(0L)] <- as.raw(32L)
    rawToChar(bytes)
  }, "")
}

# ---- fork servers

server_pids <- function() {
  vapply(the_cluster$servers, function(server) {
    state <- .Call(ffi_server_state, server$pointer)
    if (is.null(state)) NA_integer_ else state$pid
  }, 0L)
}

# Ends the fork servers that a test has made, so that each test begins with the one
# that all of them use.
end_new_servers <- function(known) {
  is_new <- !server_pids() %in% known
  for (server in the_cluster$servers[is_new]) {
    .Call(ffi_server_end, server$pointer)
  }
  the_cluster$servers <- the_cluster$servers[!is_new]
}

# ---- the guard

# What a test must leave as it was: named lists of strings.
session_state <- function() {
  status <- if (has_proc()) readLines("/proc/self/status") else character()
  limits <- if (has_proc()) readLines("/proc/self/limits") else character()
  list(
    processes = if (has_proc()) as.character(session_processes()),
    descriptors = open_files(),
    connections = apply(showConnections(), 1L, paste, collapse = " "),
    threads = seq_len(number_in(status, "Threads")), # fewer are no leak
    signals = without_sigchld(grep("^Sig(Blk|Ign|Cgt):", status, value = TRUE)),
    limits = limits,
    `temporary files` = list.files(tempdir(), all.files = TRUE, recursive = TRUE,
      include.dirs = TRUE, no.. = TRUE),
    # The package that shows differences of values sets options when the first one is shown, and
    # code made by cpp11 when it first runs.
    options = in_words(options()[!grepl("^(diffobj[.]|cpp11_)", names(options()))]),
    `environment variables` = in_words(as.list(Sys.getenv())),
    globals = setdiff(ls(globalenv(), all.names = TRUE), ".Random.seed"),
    `random seed` = in_words(list(.Random.seed = session_seed())),
    generators = RNGkind(),
    `working directory` = getwd(),
    `search path` = paste(search(), collapse = " "),
    locale = Sys.getlocale()
  )
}

number_in <- function(status, name) {
  sum(as.integer(sub("^.*:", "", grep(paste0("^", name, ":"), status, value = TRUE))))
}

# Signal masks as in /proc/self/status without the bit of SIGCHLD, for which parallel
# installs a handler at the first mclapply().
without_sigchld <- function(masks) {
  digit <- nchar(masks) - 4L
  value <- strtoi(substr(masks, digit, digit), 16L)
  substr(masks, digit, digit) <- sprintf("%x", bitwAnd(value, 14L))
  masks
}

# What the descriptors of this session stand for; sockets and pipes have numbers.
open_files <- function() {
  fds <- file.path("/proc/self/fd", list.files("/proc/self/fd"))
  targets <- Sys.readlink(fds)
  # The descriptor that listed them is gone.
  targets <- targets[!is.na(targets) & nzchar(targets)]
  sort(paste(targets, stats::ave(seq_along(targets), targets, FUN = seq_along)))
}

# One string for each value of a list, the same if the value is.
in_words <- function(values) {
  sprintf("%s = %s", names(values), vapply(values, function(value) {
    paste(deparse(value, control = c("digits17", "keepInteger")), collapse = " ")
  }, ""))
}

# Names and words of what is new since `before`.
state_leaks <- function(before, after = session_state()) {
  new <- Filter(length, Map(setdiff, after, before))
  lost <- c("options", "environment variables", "search path", "globals")
  gone <- Filter(length, Map(setdiff, before[lost], after[lost]))
  names(gone) <- if (length(gone)) paste(names(gone), "before")
  vapply(c(new, gone), function(x) paste(substr(x, 1L, 300L), collapse = "; "), "")
}

# Runs code as in local() and expects that it leaves the session as it was. What ends by
# itself has timeout_s to do so; workers of a stopped cluster need none.
expect_no_leaks <- function(code, timeout_s = 60) {
  code <- substitute(code)
  frame <- new.env(parent = parent.frame())
  # What a session keeps from its first cluster on, and from its first link on.
  here_only(cluster_stop(cluster_start(1L)))
  if (behind_link() && !the_mode$began) cluster_stop(cluster_start(1L))
  the_mode$began <- TRUE
  servers <- server_pids()
  before <- session_state()
  value <- eval(code, frame)
  end_new_servers(servers)
  leaks <- character()
  wait_until(
    {
      # Workers that were booted are this session's children: it waits for them when it looks,
      # and their empty folder goes with the next start or stop.
      .Call(ffi_session_tempdirs)
      drop_booted_dir()
      # So do the commands that led to hosts of clusters that were collected, once all has ended.
      hosts <- length(the_host$hosts) > 0L
      if (hosts && !any(still_runs(processes(session_processes())))) drop_hosts()
      leaks <- state_leaks(before)
      length(leaks) == 0L
    },
    timeout_s,
    fail = FALSE
  )
  testthat::expect(length(leaks) == 0L, paste(
    c("The test left something behind.", paste0(names(leaks), ": ", leaks)),
    collapse = "\n"
  ))
  invisible(value)
}

# Failures are shown at the first line that is known: the test's, not the guard's.
expect_no_leaks <- utils::removeSource(expect_no_leaks)

# test_that() with the guard round its code, and a time limit.
test_cluster <- function(sentence, code, limit_s = 600) {
  code <- bquote({
    setTimeLimit(elapsed = .(limit_s), transient = TRUE)
    on.exit(setTimeLimit())
    expect_no_leaks(.(substitute(code)))
  })
  eval(as.call(list(quote(testthat::test_that), sentence, code)), parent.frame())
}

# ---- losses

# A call's value, and the classes of muster's messages meanwhile, which aren't shown.
healed <- function(code, waiting = FALSE) {
  messages <- text <- character()
  value <- withCallingHandlers(code, muster_message = function(m) {
    # Said if a host takes more than two seconds, as on a loaded machine.
    if (waiting || !inherits(m, "muster_message_waiting")) {
      messages <<- c(messages, class(m)[1L])
      text <<- c(text, conditionMessage(m))
    }
    invokeRestart("muffleMessage")
  })
  list(value = value, messages = messages, text = paste(text, collapse = ""))
}

# ---- parallel's own clusters, to compare with

# A cluster of makeCluster(), stopped and gone when the block ends.
local_psock <- function(workers = 2L, frame = parent.frame()) {
  cl <- NULL
  for (try in seq_len(8L)) {
    port <- 11000L + (Sys.getpid() * 7L + try * 613L) %% 20000L
    cl <- tryCatch(suppressWarnings(parallel::makeCluster(workers, port = port)),
      error = function(e) NULL
    )
    if (!is.null(cl)) break
  }
  testthat::skip_if(is.null(cl), "parallel::makeCluster() doesn't work here")
  workers <- processes(unlist(parallel::clusterCall(cl, Sys.getpid)))
  defer(function() {
    parallel::stopCluster(cl)
    wait_until(!any(still_runs(workers)))
  }, frame)
  cl
}

# The answer of each case, a function of a cluster; the message where it is an error.
answers_of <- function(cases, cl) {
  lapply(cases, function(case) {
    tryCatch(case(cl), error = function(e) paste("error:", conditionMessage(e)))
  })
}

# Two workers of each kind, one kind after the other.
psock_answers <- function(cases) answers_of(cases, local_psock())
muster_answers <- function(cases) answers_of(cases, local_cluster())

# Expects that a muster cluster answers each case as a cluster of makeCluster() does, and
# gives the answers.
expect_as_psock <- function(cases, compare = testthat::expect_identical) {
  expected <- psock_answers(cases)
  answers <- muster_answers(cases)
  for (name in names(cases)) {
    compare(answers[[name]], expected[[name]], info = name)
  }
  answers
}

# The same for cases that are list(expected, function(cl)): both kinds of cluster must
# answer as expected.
expect_answers <- function(cases) {
  answers <- expect_as_psock(lapply(cases, `[[`, 2L))
  for (name in names(cases)) {
    expect_identical(answers[[name]], cases[[name]][[1L]], info = name)
  }
}

# A string of these bytes, marked as latin1 or as bytes.
marked <- function(bytes, encoding) {
  text <- rawToChar(as.raw(bytes))
  Encoding(text) <- encoding
  text
}

# Without the environment of its file, which a worker has no use for.
remote <- function(f) {
  environment(f) <- globalenv()
  f
}

skip_without <- function(package) {
  # Not by loading it, which can't be undone.
  skip_if_not(nzchar(system.file(package = package)), paste(package, "isn't installed"))
}

# Calls f() in another R, since snow's functions mask parallel's, and gives its value.
in_new_r <- function(f) {
  libraries <- bquote(.libPaths(.(.libPaths())))
  code <- paste(c(deparse(libraries), "library(muster)", "f <- ", deparse(f), "dput(f())"),
    collapse = "\n"
  )
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(code, file)
  said <- system2(file.path(R.home("bin"), "Rscript"), shQuote(file), stdout = TRUE, stderr = FALSE)
  eval(parse(text = said))
}
