# Many cancels, limits, errors, interrupts, maps and partitions beside other work of several kinds:
# values are right, no worker ends, no part is lost. The suite `load` has a thousand rounds in all.

rounds <- as.integer(Sys.getenv("MUSTER_LOAD_ROUNDS", "5"))

compute <- remote(function(s) {
  end <- Sys.time() + s
  while (Sys.time() < end) sqrt(s)
  s
})

# What a round does; each gives TRUE, or fails.
ways <- list(
  cancel = function(cl, k) {
    task <- task_submit(cl, compute, 600)
    pass_time(stats::runif(1, 0, 0.1))
    task_cancel(task)
    TRUE
  },
  limit = function(cl, k) {
    error <- tryCatch(task_value(task_submit(cl, compute, 600, .timeout = 0.1)), error = identity)
    inherits(error, "muster_error_timeout")
  },
  error = function(cl, k) {
    error <- tryCatch(cluster_map(cl, 1:16, remote(function(i) if (i == 3) stop("no") else i)),
      error = identity)
    grepl("no", conditionMessage(error)) && identical(error$element, 3L)
  },
  interrupt = function(cl, k) {
    system(sprintf("(sleep %.3f; kill -INT %d) &", stats::runif(1, 0.05, 0.2), Sys.getpid()))
    identical(tryCatch(parallel::clusterCall(cl, compute, 600), interrupt = function(e) 1), 1)
  },
  map = function(cl, k) {
    identical(cluster_map(cl, 1:200, remote(function(i, k) i * k), k), as.list(1:200 * k))
  },
  tasks = function(cl, k) {
    tasks <- lapply(1:50, function(i) task_submit(cl, remote(function(i) i + 0.5), i))
    identical(tasks_collect(tasks), as.list(1:50 + 0.5))
  },
  partition = function(cl, k) {
    d <- data.frame(g = rep(1:5, 40), x = seq_len(200) * k)
    p <- partition_scatter(cl, d)
    got <- partition_collect(partition_summarise(p, s = sum(x), .by = "g"))
    identical(as.numeric(got$s[order(got$g)]), as.numeric(tapply(d$x, d$g, sum)))
  }
)

# Rounds on a cluster, whose workers must all be there afterwards as they were.
go_round <- function(cl, times, seed) {
  local_seed(seed)
  local_settings(muster.quiet = TRUE)
  pids <- node_pids(cl)
  for (k in seq_len(times)) {
    way <- if (k <= length(ways)) names(ways)[k] else sample(names(ways), 1L)
    expect_true(ways[[way]](cl, k), info = paste(k, way))
  }
  expect_identical(parallel::clusterCall(cl, remote(function() 1)), rep(list(1), length(cl)))
  expect_identical(node_pids(cl), pids)
  expect_identical(sum(cluster_status(cl)$restarts), 0L)
}

test_that("L1 many rounds beside eight processes that compute", {
  local_load(8L)
  go_round(local_cluster(8), rounds, 1)
})

test_that("L1 many rounds of 32 workers beside eight processes that compute", {
  local_load(8L)
  go_round(local_cluster(32), rounds, 2)
})

test_that("L1 many rounds of workers that run when nobody else does", {
  skip_if_not(nzchar(Sys.which("chrt")), "chrt")
  local_load(4L)
  cl <- local_cluster(4)
  for (pid in node_pids(cl)) starve(pid)
  go_round(cl, rounds, 3)
})

test_that("L1 many rounds of workers that are stopped and continued", {
  cl <- local_cluster(4)
  pids <- paste(node_pids(cl), collapse = " ")
  stops <- processx::process$new("sh", c("-c", sprintf(paste0(
    "while :; do for p in %s; do kill -STOP $p; sleep 0.1; kill -CONT $p; sleep 0.05; done; done"
  ), pids)))
  defer(function() {
    stops$kill()
    for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGCONT)
  })
  go_round(cl, rounds, 4)
})

test_that("L1 many rounds in a control group that has a quarter of a core", {
  folder <- local_cgroup("cpu", c(cpu.cfs_period_us = 100000, cpu.cfs_quota_us = 25000))
  cl <- local_cluster(4)
  enter_cgroup(cl, folder)
  go_round(cl, rounds, 5)
})

test_that("L1 many rounds while the kernel takes back each page that it can", {
  # More than the group may have is read again and again, so whoever allocates has to wait.
  file <- tempfile()
  defer(function() unlink(file))
  folder <- local_cgroup("memory", c(memory.limit_in_bytes = 300e6))
  cl <- local_cluster(4)
  enter_cgroup(cl, folder)
  reads <- processx::process$new("sh", c("-c", sprintf(
    "echo $$ >%s/cgroup.procs; head -c 400m /dev/zero >%s; while :; do cat %s >/dev/null; done",
    folder, file, file
  )))
  defer(function() reads$kill_tree())
  limited <- function() as.numeric(readLines(file.path(folder, "memory.failcnt")))
  wait_until(limited() > 0)
  before <- limited()
  go_round(cl, rounds, 6)
  expect_gt(limited(), before)
})
