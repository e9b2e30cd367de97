# A user's plain job is as cheap as on parallel's workers, by counts: page faults are what forks and
# checkpoints cost, and are nearly the same on each machine.

# The page faults of processes so far.
faults_of <- function(pids) {
  sum(vapply(pids, function(pid) {
    line <- readLines(file.path("/proc", pid, "stat"), warn = FALSE)
    as.numeric(strsplit(sub(".*[)] ", "", line), " ")[[1L]][8L])
  }, 0))
}

# The page faults of each of four calls of a job on two workers.
faults_of_calls <- function(cl) {
  pids <- unlist(clusterCall(cl, Sys.getpid))
  set.seed(1)
  d <- data.frame(x = rnorm(2000), z = rnorm(2000))
  d$y <- rbinom(2000, 1, plogis(d$x))
  clusterExport(cl, "d", environment())
  fit <- eval(quote(function(i) {
    b <- d[sample(nrow(d), replace = TRUE), ]
    stats::coef(stats::glm(y ~ x + z, stats::binomial, b))
  }), globalenv())
  vapply(1:4, function(k) {
    before <- faults_of(pids)
    parLapply(cl, 1:100, fit)
    faults_of(pids) - before
  }, 0)
}

test_cluster("W: 100 glm() fits fault as few pages as on parallel's workers", {
  skip_without_proc()
  local_seed(1)
  local_settings(muster.checkpoints = TRUE)
  psock <- parallel::makePSOCKcluster(2)
  defer(function() parallel::stopCluster(psock))
  theirs <- faults_of_calls(psock)
  cl <- local_cluster(2)
  ours <- faults_of_calls(cl)
  expect_lt(ours[1L], 1.4 * theirs[1L]) # it was 2.0
  expect_lt(median(ours[-1L]), 0.1 * theirs[1L]) # it was 3.0
  expect_false("checkpoint" %in% cluster_journal(cl)$kind)
})

test_cluster("L6: exports that replace each other don't pile up, who joins has all or is refused", {
  skip_without_proc()
  segments <- function() sum(grepl("memfd:", Sys.readlink(dir("/proc/self/fd", full.names = TRUE))))
  skip_if_limited()
  cl <- cluster_start(2)
  defer(function() cluster_stop(cl))
  big <- as.double(seq_len(2e6)) # 16 MB
  counts <- vapply(1:30, function(k) {
    big[1L] <<- k
    clusterExport(cl, "big", environment())
    clusterCall(cl, eval(quote(function() half <<- sum(big) / 2), globalenv()))
    segments()
  }, 0)
  # What a checkpoint covers is dropped here, and kept where it may be lost with its host.
  if (!behind_link()) expect_lt(max(counts), 16)
  error <- expect_error(cluster_resize(cl, 3L), class = "muster_error_limit")
  expect_match(conditionMessage(error), "New workers can't have what the others were told")
  other <- cluster_start(2)
  defer(function() cluster_stop(other))
  for (k in 1:30) {
    big[1L] <- k
    clusterExport(other, "big", environment())
    parLapply(other, 1:2, eval(quote(function(i) big[i]), globalenv()))
  }
  other <- cluster_resize(other, 3L)
  expect_identical(clusterEvalQ(other[3L], big[1L]), list(30))
})
