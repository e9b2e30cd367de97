# Shared memory with many workers, after crashes, and when it is gone.

# Bytes of the shared memory that a process has mapped: its part, and what it has copied.
shared_bytes <- function(pid) {
  lines <- readLines(file.path("/proc", pid, "smaps"))
  header <- grepl("^[0-9a-f]+-[0-9a-f]+ ", lines)
  mapping <- cumsum(header)
  ours <- lines[mapping %in% mapping[header & grepl("/memfd:muster", lines, fixed = TRUE)]]
  sizes <- function(name) {
    found <- grep(paste0("^", name, ":"), ours, value = TRUE)
    sum(as.numeric(gsub("[^0-9]", "", found))) * 1024
  }
  c(pss = sizes("Pss"), copied = sizes("Anonymous"))
}

test_cluster("8 workers that use a shared vector have it once", {
  skip_without_proc()
  local_seed(1)
  cl <- local_cluster(8)
  x <- runif(12.5e6)
  cluster_share(cl, x = x)
  answers <- clusterEvalQ(cl, c(sum(x), sort(x)[2], quantile(x)[[2]], anyNA(x), x[match(x[9], x)]))
  expect_identical(answers, rep(list(
    c(sum(x), sort(x)[2], quantile(x)[[2]], 0, x[9])
  ), 8))
  clusterEvalQ(cl, gc())
  bytes <- vapply(node_pids(cl), shared_bytes, numeric(2))
  expect_lt(sum(bytes["pss", ]), 1.05 * 1e8)
  expect_identical(sum(bytes["copied", ]), 0)
  # What one changes is copied for that one, by pages.
  clusterCall(cl[3], function(x) {
    x[1] <- 0 # its own: the argument
    NULL
  }, x)
  expect_lt(sum(vapply(node_pids(cl), function(pid) shared_bytes(pid)[["copied"]], 0)), 1e7)
}, limit_s = 300)

test_that("a session that is killed leaves no shared memory", {
  limit_time(120)
  session <- start_session(bquote({
    cl <- cluster_start(2)
    x <- runif(5e7)
    cluster_share(cl, x = x)
    y <- clusterCall(cl[1], function() x[1:1e6] + 1)
    clusterCall(cl, function() sum(x))
    tell(pid = Sys.getpid())
    clusterCall(cl, function() repeat sum(x))
  }))
  pid <- wait_told(session, "pid")$pid
  # All of it is in memory that is gone with the last process that has it, not in files.
  mapped <- vapply(marked_pids(session), function(pid) shared_bytes(pid)[["pss"]], 0)
  expect_gt(sum(mapped), 3e8)
  tools::pskill(pid, tools::SIGKILL)
  expect_all_gone(session)
})

test_that("400 tasks with large values need no descriptors", {
  limit_time(120)
  run <- run_session(bquote({
    cl <- cluster_start(2)
    tasks <- lapply(1:400, function(i) task_submit(cl, function(i) rep(i + 0.5, 5e4), i))
    task_wait(tasks)
    tell(sums = vapply(tasks, function(task) sum(task_value(task)), 0))
    stopCluster(cl)
  }), ulimit = "-n 256")
  expect_identical(run$status, 0L, info = run$stderr)
  expect_identical(run$told$sums, (1:400 + 0.5) * 5e4)
})

test_cluster("more than 2^31 bytes go there and back", {
  skip_without_proc()
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  skip_if(as.numeric(gsub("[^0-9]", "", line)) < 14e6, "not enough memory")
  cl <- local_cluster(1)
  x <- raw(2^31 + 10)
  x[c(1, 2^31 + 5)] <- as.raw(7)
  there <- clusterCall(cl, function(x) {
    list(length(x), x[2^31 + 5], .Call(getNamespace("muster")$ffi_share_is, x), x)
  }, x)[[1]]
  expect_identical(there[1:3], list(2^31 + 10, as.raw(7), TRUE))
  expect_identical(length(there[[4]]), length(x))
  expect_identical(there[[4]][c(1, 2, 2^31 + 5)], as.raw(c(7, 0, 7)))
}, limit_s = 300)

test_cluster("more than 2^31 bytes go through a socket", {
  skip_without_proc()
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  skip_if(as.numeric(gsub("[^0-9]", "", line)) < 16e6, "not enough memory")
  local_settings(muster.share_min = Inf)
  cl <- local_cluster(1)
  x <- raw(2^31 + 10)
  x[2^31 + 5] <- as.raw(7)
  there <- clusterCall(cl, function(x) list(length(x), x[2^31 + 5]), x)
  expect_identical(there, list(list(2^31 + 10, as.raw(7))))
}, limit_s = 300)
