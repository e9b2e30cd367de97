# What packages fix once, when a fork server loads them: made anew in each worker, or told.

renewed_cluster <- function(..., frame = parent.frame()) {
  local_cluster(2, ..., start = "fork", frame = frame)
}

# ---- What parallel draws

test_cluster("each worker has a port of its own for makeCluster()", {
  skip_without_fork()
  cl <- renewed_cluster()
  ports <- unlist(clusterEvalQ(cl, asNamespace("parallel")$defaultClusterOptions$port))
  expect_type(ports, "integer")
  expect_true(all(ports %in% 11000:11999))
  expect_false(ports[1L] == ports[2L])
})

test_cluster("a port that was chosen by R_PARALLEL_PORT stays", {
  skip_without_fork()
  local_variables(R_PARALLEL_PORT = "11321")
  cl <- renewed_cluster()
  ports <- unlist(clusterEvalQ(cl, asNamespace("parallel")$defaultClusterOptions$port))
  expect_identical(ports, c(11321L, 11321L))
})

test_cluster("MC_CORES that was set after a server was booted reaches workers", {
  skip_without_fork()
  renewed_cluster()
  local_variables(MC_CORES = "3")
  cl <- renewed_cluster()
  expect_identical(clusterEvalQ(cl, getOption("mc.cores")), list(3L, 3L))
})

test_cluster("two workers start clusters of parallel's own at the same time", {
  skip_without_fork()
  cl <- renewed_cluster()
  both <- local_folder()
  sums <- clusterCall(cl, function(both) {
    # Each listens as long as the other does.
    inner <- parallel::makeCluster(1L)
    on.exit(parallel::stopCluster(inner))
    file.create(file.path(both, Sys.getpid()))
    end <- proc.time()[["elapsed"]] + 60
    while (length(list.files(both)) < 2L && proc.time()[["elapsed"]] < end) Sys.sleep(0.01)
    c(length(list.files(both)), sum(unlist(parallel::parLapply(inner, 1:3, identity))))
  }, both)
  expect_identical(sums, list(c(2L, 6L), c(2L, 6L)))
})

# ---- Temporary files

# A package that remembers a file of its own in many ways.
local_maker <- function(frame = parent.frame()) {
  local_package("mustermaker", c(
    "path <- NULL",
    "the <- new.env()",
    ".onLoad <- function(libname, pkgname) {",
    "  path <<- tempfile('made-')",
    "  writeLines('made', path)",
    "  hidden <- path",
    "  the$seen <- function() hidden",
    "  the$list <- list(1, deep = list(path = path, also = basename(path)))",
    "  the$pid <- Sys.getpid()",
    "  the$draw <- stats::runif(1)",
    "  options(mustermaker.path = path)",
    "  Sys.setenv(MUSTERMAKER_PATH = path)",
    "  lost <- path",
    "  reg.finalizer(asNamespace(pkgname), function(e) unlink(lost), onexit = TRUE)",
    "}"
  ), frame)
}

# Where the package in this worker believes its file to be.
paths_of_maker <- function() {
  maker <- asNamespace("mustermaker")
  c(
    maker$path, maker$the$seen(), maker$the$list$deep$path, getOption("mustermaker.path"),
    Sys.getenv("MUSTERMAKER_PATH")
  )
}
local_of_maker <- function() {
  path <- asNamespace("mustermaker")$path
  c(dirname(path) == tempdir(), identical(readLines(path), "made"))
}

test_cluster("a file that a package made at load is each worker's own, wherever its path is", {
  skip_without_fork()
  local_maker()
  cl <- renewed_cluster(packages = "mustermaker")
  expect_identical(clusterCall(cl, local_of_maker), list(c(TRUE, TRUE), c(TRUE, TRUE)))
  for (paths in clusterCall(cl, paths_of_maker)) expect_length(unique(paths), 1L)
  all_paths <- clusterCall(cl, paths_of_maker)
  expect_false(any(all_paths[[1L]] %in% all_paths[[2L]]))
  expect_identical(
    clusterEvalQ(cl, asNamespace("mustermaker")$the$list$deep$also),
    clusterEvalQ(cl, basename(asNamespace("mustermaker")$path))
  )
  # What a sealed namespace has stays locked.
  expect_true(all(unlist(clusterEvalQ(cl, bindingIsLocked("path", asNamespace("mustermaker"))))))
})

test_cluster("a worker that deletes or changes such a file does so for itself", {
  skip_without_fork()
  local_maker()
  cl <- renewed_cluster(packages = "mustermaker")
  clusterCall(cl[1], function() unlink(asNamespace("mustermaker")$path))
  expect_identical(clusterCall(cl[2], local_of_maker), list(c(TRUE, TRUE)))
  clusterCall(cl[2], function() writeLines("changed", asNamespace("mustermaker")$path))
  cluster_stop(cl)
  # Its finalizers have run in two workers by now, and the server is the same.
  again <- renewed_cluster(packages = "mustermaker")
  expect_identical(clusterCall(again, local_of_maker), list(c(TRUE, TRUE), c(TRUE, TRUE)))
})

test_cluster("a worker that was replaced has the file too", {
  skip_without_fork()
  local_settings(muster.quiet = TRUE)
  local_maker()
  cl <- renewed_cluster(packages = "mustermaker")
  pids <- node_pids(cl)
  tools::pskill(pids[1L], tools::SIGKILL)
  wait_until(node_pids(cl)[1L] != pids[1L] || {
    clusterCall(cl, Sys.getpid)
    FALSE
  })
  expect_identical(clusterCall(cl, local_of_maker), list(c(TRUE, TRUE), c(TRUE, TRUE)))
})

test_cluster("the path in the server stays, for what keeps it where R can't see it", {
  skip_without_fork()
  local_maker()
  cl <- renewed_cluster(packages = "mustermaker")
  lost <- clusterCall(cl, function() {
    kept <- asNamespace("muster")$the_worker$kept
    file.path(kept$dir, kept$files)
  })
  expect_identical(lost[[1L]], lost[[2L]])
  expect_identical(readLines(lost[[1L]]), "made")
})

test_cluster("what a package drew or noted at load is the server's, as the help says", {
  skip_without_fork()
  local_maker()
  cl <- renewed_cluster(packages = "mustermaker")
  noted <- clusterEvalQ(cl, {
    the <- asNamespace("mustermaker")$the
    c(the$pid, the$draw)
  })
  expect_identical(noted[[1L]], noted[[2L]])
  expect_false(noted[[1L]][1L] %in% node_pids(cl))
  # R's own generator begins anew.
  draws <- clusterEvalQ(cl, stats::runif(1))
  expect_false(identical(draws[[1L]], draws[[2L]]))
})

test_cluster("temporary files too big to be copied mean \"spawn\", with the reason", {
  skip_without_fork()
  local_package("musterbig", c(
    ".onLoad <- function(libname, pkgname) writeBin(raw(17e6), tempfile())"
  ))
  error <- expect_error(cluster_start(1, packages = "musterbig", start = "fork"),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(error), "17 MB", fixed = TRUE)
})

test_cluster("a package that keeps a connection open means \"spawn\", with the reason", {
  skip_without_fork()
  local_package("musteropen", c(
    "connection <- NULL",
    ".onLoad <- function(libname, pkgname) {",
    "  connection <<- file(tempfile('open-'), 'w')",
    "}"
  ))
  error <- expect_error(cluster_start(1, packages = "musteropen", start = "fork"),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(error), "keeps files or connections open")
  # On another host that is an error, too.
  expect_message(cl <- here_only(cluster_start(1, packages = "musteropen")),
    class = "muster_message_spawn"
  )
  defer(function() cluster_stop(cl))
  expect_true(clusterEvalQ(cl, isOpen(asNamespace("musteropen")$connection))[[1L]])
})

test_cluster("callr works in each worker when it is preloaded", {
  skip_without_fork()
  skip_if_not(nzchar(package_path("callr")), "callr isn't installed")
  for (round in 1:2) {
    cl <- cluster_start(2, packages = "callr", start = "fork")
    for (i in 1:2) {
      expect_identical(clusterEvalQ(cl, asNamespace("callr")$r(function() 1 + 1)), list(2, 2))
    }
    files <- unlist(clusterEvalQ(cl, asNamespace("callr")$env_file))
    expect_false(files[1L] == files[2L])
    cluster_stop(cl)
  }
})

# ---- Threads and C's random numbers

test_cluster("names of temporary files differ by more than the process id", {
  skip_without_fork()
  cl <- renewed_cluster()
  ends <- clusterCall(cl, function(folder) {
    sub(sprintf("%x", Sys.getpid()), "", basename(tempfile("", folder)), fixed = TRUE)
  }, tempdir())
  expect_match(unlist(ends), "^[0-9a-f]+$")
  expect_false(ends[[1L]] == ends[[2L]])
})

threads_of_worker <- function() {
  length(list.files("/proc/self/task"))
}

test_cluster("cli and what imports it can be preloaded: its thread starts in each worker", {
  skip_without_fork()
  skip_without_proc()
  skip_if_not(nzchar(package_path("cli")), "cli isn't installed")
  local_variables(CLI_NO_THREAD = NA)
  cl <- renewed_cluster(packages = "cli")
  plain <- renewed_cluster()
  expect_identical(
    unlist(clusterCall(cl, threads_of_worker)), unlist(clusterCall(plain, threads_of_worker)) + 1L
  )
  expect_identical(unlist(clusterEvalQ(cl, Sys.getenv("CLI_NO_THREAD", "unset"))), rep("unset", 2L))
  cluster_stop(plain)
})

test_cluster("cli has no thread in workers whose user wants none", {
  skip_without_fork()
  skip_without_proc()
  skip_if_not(nzchar(package_path("cli")), "cli isn't installed")
  local_variables(CLI_NO_THREAD = "1")
  cl <- renewed_cluster(packages = "cli")
  expect_identical(clusterEvalQ(cl, Sys.getenv("CLI_NO_THREAD")), list("1", "1"))
  expect_identical(clusterCall(cl, threads_of_worker), list(2L, 2L))
})

test_cluster("data.table has as many threads in a forked worker as in one that was booted", {
  skip_without_fork()
  skip_if_not(nzchar(package_path("data.table")), "data.table isn't installed")
  skip_if(parallel::detectCores() < 2L, "one core: there is nothing to tell apart")
  local_variables(R_DATATABLE_NUM_PROCS_PERCENT = "100")
  threads <- lapply(c("fork", "spawn"), function(start) {
    cl <- local_cluster(1, packages = "data.table", threads = 2, start = start)
    clusterEvalQ(cl, data.table::getDTthreads())[[1L]]
  })
  expect_identical(threads, list(2L, 2L))
})

# ---- The parts

test_that("paths are found and replaced in vectors and lists, and nowhere else", {
  dirs <- c("/private/tmp/RtmpSERVER", "/tmp/RtmpSERVER")
  for (value in list(1, NULL, "/tmp/Rtmp", NA_character_, quote(x), list(), list(1, "a"), mean)) {
    expect_false(has_path(value, dirs))
    expect_identical(own_path(value, dirs), value)
  }
  value <- structure(list(a = c(x = paste0(dirs[2L], "/f"), y = NA, z = "other"), b = NULL,
    c = list(paste0("file://", dirs[1L], "/g"))), class = "odd")
  expect_true(has_path(value, dirs))
  new <- own_path(value, dirs)
  expect_s3_class(new, "odd")
  expect_identical(unclass(new), list(
    a = c(x = file.path(tempdir(), "f"), y = NA, z = "other"), b = NULL,
    c = list(paste0("file://", tempdir(), "/g"))
  ))
})

test_cluster("copies of files leave alone what is there, and don't wait for a pipe", {
  from <- local_folder()
  to <- file.path(local_folder(), "copies")
  dir.create(file.path(from, "a", "empty"), recursive = TRUE)
  writeLines("1", file.path(from, "a", "f"))
  writeLines("2", file.path(from, "g"))
  skip_if_not(system2("mkfifo", shQuote(file.path(from, "pipe"))) == 0L, "no mkfifo here")
  files <- list.files(from, recursive = TRUE, include.dirs = TRUE)
  copy_files(from, to, files)
  expect_setequal(list.files(to, recursive = TRUE, include.dirs = TRUE), files)
  expect_identical(readLines(file.path(to, "a", "f")), "1")
  writeLines("3", file.path(to, "g"))
  copy_files(from, to, files)
  expect_identical(readLines(file.path(to, "g")), "3")
})

test_that("promises to read a package's file are not kept by the search for paths", {
  values <- values_at_load(asNamespace("stats"))
  expect_lt(length(values), length(ls(asNamespace("stats"), all.names = TRUE)) / 4)
  expect_length(values_at_load(new.env()), 0L)
})
