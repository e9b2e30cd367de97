# Helpers of the tests in this folder: R sessions of their own, which may be limited,
# killed or started by another user, and what becomes of their processes and files.
#
# A session gets a mark in its environment, which all that it starts inherits, so that
# its processes are found whoever their parent is; and a TMPDIR of its own, so that
# what it leaves there is seen. Linux only: all of it reads /proc.

source("../testthat/helper-cluster.R", local = TRUE)
source("../testthat/helper-features.R", local = TRUE)
source("../testthat/helper-host.R", local = TRUE)

is_root <- function() identical(unname(Sys.info()[["effective_user"]]), "root")

# ---- Sessions

# What every session runs first. tell() hands values to the test, while the session
# goes on; outcome_of() gives the class, message and fields of what code raises, NULL
# where it doesn't. Of the helpers it has those of processes.
session_prelude <- bquote({
  options(warn = 1, muster.checkpoints = 0.5) # as helper-cluster.R does
  suppressPackageStartupMessages(library(muster))
  told <- list()
  tell <- function(...) {
    told <<- utils::modifyList(told, list(...), keep.null = TRUE)
    file <- Sys.getenv("MUSTER_TEST_TOLD")
    saveRDS(told, paste0(file, ".new"))
    file.rename(paste0(file, ".new"), file)
  }
  outcome_of <- function(code) {
    tryCatch(
      {
        force(code)
        NULL
      },
      error = function(e) {
        list(class = class(e), message = conditionMessage(e), fields = unclass(e))
      },
      interrupt = function(e) list(class = class(e), message = "interrupted")
    )
  }
  # The processes that this one has started and not reaped.
  children <- function() {
    file <- file.path("/proc/self/task", Sys.getpid(), "children")
    as.integer(scan(file, quiet = TRUE))
  }
  has_proc <- .(has_proc)
  first_line <- .(first_line)
  process_stat <- .(process_stat)
  parent_of <- .(parent_of)
  processes <- .(processes)
  process_pids <- .(process_pids)
  still_exists <- .(still_exists)
  still_runs <- .(still_runs)
  # Those of some processes that are still there, zombies aside.
  running <- function(pids) pids[still_runs(processes(pids))]
  elapsed <- function(code) system.time(code)[["elapsed"]]
  # Sets a limit of this process while it runs: what is "nofile" or "nproc", limit is
  # the soft one, or "soft:hard".
  limit_self <- function(what, limit) {
    status <- system2("prlimit", c("--pid", Sys.getpid(), paste0("--", what, "=", limit)))
    stopifnot(status == 0L)
  }
})

# The session ends with the block whose frame is given: a function that starts one for a test
# must hand on the test's frame, or what is looked at afterwards is gone already.
# Starts Rscript with `code` (a call, as quote() and bquote() make them) in a session of
# its own and comes back at once.
# env: named character vector, NA to unset. ulimit: what `ulimit` is told, such as
# "-n 64", each in turn. wrap: a command that runs the rest, such as c("unshare", "-m").
# dir: working directory. base: where its files go. prelude: NULL for bare code.
start_session <- function(code, env = character(), ulimit = character(), wrap = character(),
                          dir = NULL, base = tempfile("session-"), tmpdir = "tmp",
                          prelude = session_prelude, frame = parent.frame()) {
  skip_without_proc()
  session <- list(
    base = base, tmpdir = file.path(base, tmpdir), told = file.path(base, "told.rds"),
    mark = basename(tempfile("mark-"))
  )
  withr::defer(end_session_now(session), envir = frame)
  dir.create(session$tmpdir, recursive = TRUE)
  script <- file.path(base, "script.R")
  writeLines(unlist(lapply(c(prelude, code), deparse), use.names = FALSE), script)
  env <- c(
    "current", MUSTER_TEST_MARK = session$mark, MUSTER_TEST_TOLD = session$told,
    TMPDIR = session$tmpdir, R_LIBS = paste(.libPaths(), collapse = ":"),
    R_PROFILE_USER = "", R_ENVIRON_USER = "", R_TESTS = "", env
  )
  env <- env[!duplicated(names(env), fromLast = TRUE)]
  unset <- names(env)[is.na(env)]
  env <- env[!is.na(env)]
  before <- c(sprintf("ulimit %s || exit 99", ulimit), sprintf("unset %s", unset), "exec \"$@\"")
  rscript <- file.path(R.home("bin"), "Rscript")
  session$process <- processx::process$new("sh",
    c("-c", paste(before, collapse = "; "), "sh", wrap, rscript, script),
    env = env, wd = dir,
    stdout = file.path(base, "stdout"), stderr = file.path(base, "stderr")
  )
  session
}

# At the end of a test: nothing that its session started stays, whatever came of it.
end_session_now <- function(session) {
  for (pid in marked_pids(session)) tools::pskill(pid, tools::SIGKILL)
  if (!is.null(session$process)) session$process$wait(1000)
  unlink(session$base, recursive = TRUE)
}

# Runs a session to its end: list(status, stdout, stderr, told, session, most).
# status is minus the signal if one ended it; most, where `count` asks for it, is how
# many processes it was seen to have at one time. A busy machine has three times timeout_s.
run_session <- function(code, ..., timeout_s = 60, count = FALSE, frame = parent.frame()) {
  wait_session(start_session(code, ..., frame = frame), timeout_s, count)
}

wait_session <- function(session, timeout_s = 60, count = FALSE) {
  deadline <- Sys.time() + 3 * timeout_s
  most <- 0L
  while (session$process$is_alive() && Sys.time() < deadline) {
    session$process$wait(50)
    if (count) most <- max(most, length(marked_pids(session)))
  }
  hung <- session$process$is_alive()
  if (hung) session$process$kill()
  run <- list(
    status = session$process$get_exit_status(), stdout = text_of(session, "stdout"),
    stderr = text_of(session, "stderr"), told = told_by(session), session = session,
    most = most
  )
  if (hung) fail(paste0("A session didn't end within ", 3 * timeout_s, " s.\n", describe_run(run)))
  run
}

text_of <- function(session, name) {
  lines <- readLines(file.path(session$base, name), warn = FALSE)
  paste(iconv(lines, "UTF-8", "UTF-8", sub = "byte"), collapse = "\n")
}

told_by <- function(session) {
  if (file.exists(session$told)) readRDS(session$told) else list()
}

describe_run <- function(run) {
  paste0("status ", run$status, "\nstdout: ", run$stdout, "\nstderr: ", run$stderr)
}

# Waits until the session has told a value by this name, and gives all that it told.
wait_told <- function(session, name, timeout_s = 60) {
  said <- function() name %in% names(told_by(session))
  wait_until(said() || !session$process$is_alive(), 3 * timeout_s, fail = FALSE)
  if (!said()) stop("the session hasn't told ", name, ": ", text_of(session, "stderr"))
  told <- told_by(session)
  told
}

expect_done <- function(run) {
  expect_identical(run$status, 0L, info = describe_run(run))
  invisible(run)
}

inherits_kind <- function(caught, kind) paste0("muster_error_", kind) %in% caught$class

# An error of muster as outcome_of() gives it.
expect_caught <- function(caught, kind, message = NULL) {
  expect_true(inherits_kind(caught, kind),
    info = paste(c(caught$class, caught$message), collapse = "\n")
  )
  for (pattern in message) expect_match(caught$message, pattern, fixed = TRUE)
}

# ---- Processes

read_file <- function(path) {
  tryCatch(
    suppressWarnings(readBin(path, "raw", 262144L)),
    error = function(e) raw()
  )
}

# Processes, zombies aside, with the session's mark.
marked_pids <- function(session) {
  mark <- charToRaw(paste0("MUSTER_TEST_MARK=", session$mark))
  pids <- list.files("/proc", "^[0-9]+$")
  has <- vapply(pids, function(pid) {
    length(grepRaw(mark, read_file(file.path("/proc", pid, "environ")), fixed = TRUE)) > 0L
  }, NA)
  as.integer(pids[has])
}

command_of <- function(pid) {
  bytes <- read_file(file.path("/proc", pid, "cmdline"))
  bytes[bytes == as.raw(0L)] <- charToRaw(" ")
  rawToChar(bytes)
}

# Expects that all processes of a session end but those in `but`: none of them would by
# itself within the time. How soon they do is for bench/bars.R.
expect_all_gone <- function(session, but = integer()) {
  left <- marked_pids(session)
  wait_until(!length(left <- setdiff(marked_pids(session), but)), fail = FALSE)
  expect_identical(left, integer(), info = paste(lapply(left, command_of), collapse = "\n"))
}

# Expects that nothing of the session is left in its TMPDIR, nor a process. R itself
# leaves its own directory when it's killed: allow is what that may hold.
expect_nothing_left <- function(session, files = character()) {
  wait_until(!length(marked_pids(session)), fail = FALSE)
  left <- marked_pids(session)
  expect_identical(left, integer(), info = paste(lapply(left, command_of), collapse = "\n"))
  expect_identical(files_left(session), files)
}

# Files and directories in the session's TMPDIR, without R's own directory there.
files_left <- function(session) {
  files <- list.files(session$tmpdir, all.files = TRUE, recursive = TRUE, include.dirs = TRUE)
  sort(files[!grepl("^Rtmp[^/]*$", files)])
}

# R's own directories, which a session that ended in order must have removed.
tempdirs_left <- function(session) list.files(session$tmpdir, all.files = TRUE, no.. = TRUE)

# A user who has no processes, nor is that of tests that run beside these, from the same seed.
other_user <- function() as.character(61000L + Sys.getpid() %% 4000L)

free_memory_gb <- function() {
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024^2
}

# The highest limit on descriptors that a session can be given.
hard_nofile <- function() {
  limit <- system2("sh", c("-c", shQuote("ulimit -H -n")), stdout = TRUE)
  if (limit == "unlimited") Inf else as.numeric(limit)
}

skip_without_prlimit <- function() {
  skip_if_not(nzchar(Sys.which("prlimit")), "there is no prlimit, from util-linux")
}

skip_without_nofile <- function(n) {
  skip_if(hard_nofile() < n, paste("the hard limit on open files is below", n))
}

# ---- Clusters that lose workers

# A process that sends signals to workers of this session's fork servers, at random, until
# the block ends or stop_killer() is called. marks: a folder in which workers' calls leave a file of
# their pid. See ../tools/killer.sh.
local_killer <- function(pause_s = 0.1, signals = "KILL", seed = 1L, marks = "",
                         frame = parent.frame()) {
  skip_without_proc()
  words <- function(x) paste(x, collapse = " ")
  killer <- processx::process$new("sh", c("../tools/killer.sh",
    seed, pause_s, words(signals), words(stats::na.omit(server_pids())), marks))
  defer(function() stop_killer(killer), frame)
  killer
}

stop_killer <- function(killer) {
  killer$kill_tree()
  killer$wait(2000)
}

restarts_of <- function(cl) sum(cluster_status(cl)$restarts)

# What code signals: list(value, messages).
with_messages <- function(code) {
  messages <- list()
  value <- withCallingHandlers(code, muster_message = function(m) {
    messages[[length(messages) + 1L]] <<- m
    invokeRestart("muffleMessage")
  })
  list(value = value, messages = messages)
}

# A function that takes nothing along but what is named.
remote <- function(f, ...) {
  f <- utils::removeSource(f) # which would take its whole file along
  environment(f) <- if (...length()) list2env(list(...), parent = globalenv()) else globalenv()
  f
}

# ---- Packages and libraries made for a test

has_compiler <- function() {
  cc <- strsplit(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"),
    stdout = TRUE
  ), " ")[[1L]][1L]
  nzchar(Sys.which(cc))
}

skip_without_compiler <- function() skip_if_not(has_compiler(), "no C compiler here")

# Installs a tiny package into a library. r, c: lines of code. Returns the library.
install_tiny <- function(name, r, c = NULL, imports = NULL, lib) {
  dir <- write_tiny(name, r, c, tempfile("source-"), imports)
  withr::local_envvar(R_LIBS = paste(base::c(lib, .libPaths()), collapse = ":"))
  out <- suppressWarnings(system2(file.path(R.home("bin"), "R"),
    base::c("CMD", "INSTALL", "--no-docs", "--no-test-load", paste0("--library=", shQuote(lib)),
      shQuote(dir)),
    stdout = TRUE, stderr = TRUE
  ))
  unlink(dirname(dir), recursive = TRUE)
  if (!is.null(attr(out, "status"))) stop(paste(out, collapse = "\n"))
  lib
}

# The source of such a package, in a folder of that name below `base`.
write_tiny <- function(name, r, c = NULL, base, imports = NULL) {
  dir <- file.path(base, name)
  dir.create(file.path(dir, "R"), recursive = TRUE)
  writeLines(base::c(
    paste("Package:", name), "Version: 0.1", "Title: For a Test",
    "Description: For a test.", "License: MIT", "Author: None",
    "Maintainer: None <none@none.invalid>", if (!is.null(imports)) paste("Imports:", imports)
  ), file.path(dir, "DESCRIPTION"))
  writeLines(base::c(
    "exportPattern(\"^[a-z]\")", if (!is.null(c)) paste0("useDynLib(", name, ")")
  ), file.path(dir, "NAMESPACE"))
  writeLines(r, file.path(dir, "R", "code.R"))
  if (!is.null(c)) {
    dir.create(file.path(dir, "src"))
    writeLines(c, file.path(dir, "src", "code.c"))
    writeLines("PKG_LIBS = -lpthread", file.path(dir, "src", "Makevars"))
  }
  dir
}

# Copies installed muster into a library of its own.
copy_muster <- function(lib) {
  dir.create(lib, recursive = TRUE, showWarnings = FALSE)
  file.copy(find.package("muster"), lib, recursive = TRUE, copy.date = TRUE)
  lib
}

# Compiles ../tools/faults.c, which workers load by dyn.load(). Call it at the top of a
# file, so that no test counts the library among what it leaves.
build_faults <- function() {
  dir <- file.path(tempdir(), "faults-library")
  if (has_compiler() && dir.create(dir, showWarnings = FALSE)) {
    file.copy("../tools/faults.c", dir)
    R <- file.path(R.home("bin"), "R")
    withr::with_dir(dir, system2(R, c("CMD", "SHLIB", "faults.c"), stdout = FALSE, stderr = FALSE))
  }
}

faults_library <- function() {
  file <- file.path(tempdir(), "faults-library", paste0("faults", .Platform$dynlib.ext))
  skip_if_not(file.exists(file), "no C compiler here")
  file
}

# ---- a loaded machine

# Processes that compute until the block ends.
local_load <- function(n = 8L, frame = parent.frame()) {
  busy <- lapply(seq_len(n), function(i) {
    processx::process$new("sh", c("-c", "while :; do :; done"))
  })
  defer(function() for (one in busy) one$kill(), frame)
}

# Each thread of it only runs when no other process wants the processor.
starve <- function(pid) {
  for (thread in list.files(sprintf("/proc/%d/task", pid))) {
    processx::run("chrt", c("--idle", "-p", "0", thread))
  }
}

# A control group below this process's own, of one controller, with limits by the names of their
# files, where that is allowed. Whoever is in it at the end goes back.
local_cgroup <- function(controller, limits, frame = parent.frame()) {
  line <- grep(sprintf("[:,]%s[,:]", controller), readLines("/proc/self/cgroup"), value = TRUE)
  path <- if (length(line)) sub("^[0-9]+:[^:]*:", "", line[1L]) else ""
  parents <- file.path("/sys/fs/cgroup", controller, c(path, ""))
  folder <- NULL
  for (parent in parents) {
    one <- file.path(parent, basename(tempfile("muster-test-")))
    if (is.null(folder) && suppressWarnings(dir.create(one))) folder <- one
  }
  skip_if(is.null(folder), paste("no cgroup of", controller, "can be made here"))
  defer(function() {
    wait_until({
      for (pid in readLines(file.path(folder, "cgroup.procs"))) {
        try(cat(pid, file = file.path(dirname(folder), "cgroup.procs")), silent = TRUE)
      }
      system2("rmdir", folder, stderr = FALSE) == 0L
    })
  }, frame)
  for (name in names(limits)) {
    value <- format(limits[[name]], scientific = FALSE)
    set <- tryCatch(cat(value, file = file.path(folder, name)), error = identity)
    skip_if(inherits(set, "error"), paste(name, "of a cgroup can't be set here"))
  }
  folder
}

# All processes of a cluster on this machine, and this session, go into a control group.
enter_cgroup <- function(cl, folder) {
  servers <- vapply(node_pids(cl), function(pid) {
    as.integer(strsplit(sub(".*[)] ", "", readLines(sprintf("/proc/%d/stat", pid))), " ")[[1L]][2L])
  }, 0L)
  for (pid in unique(c(servers, node_pids(cl), Sys.getpid()))) {
    cat(pid, file = file.path(folder, "cgroup.procs"))
  }
}
