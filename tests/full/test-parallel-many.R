# parallel's contract with more workers than R CMD check allows. helper-full.R brings the
# helpers of tests/testthat.

test_cluster("twenty workers keep their identity and order through all verbs", {
  cl <- local_cluster(20)
  pids <- node_pids(cl)
  expect_identical(anyDuplicated(pids), 0L)
  whoami <- function(...) Sys.getpid()
  expect_identical(unlist(clusterCall(cl, whoami)), pids)
  expect_identical(unlist(clusterApply(cl, 1:20, whoami)), pids)
  expect_identical(unlist(clusterApply(cl, 1:50, whoami)), rep_len(pids, 50))
  for (i in 1:20) {
    expect_setequal(unlist(clusterApplyLB(cl, 1:200, whoami)), pids)
    expect_identical(unlist(clusterCall(cl, whoami)), pids)
  }
  order <- c(7, 3, 20, 1)
  expect_identical(unlist(clusterCall(cl[order], whoami)), pids[order])
  expect_identical(unlist(clusterCall(rev(cl), whoami)), rev(pids))
})

test_cluster("load-balanced answers of uneven tasks are in the order of their input", {
  cl <- local_cluster(8)
  slow <- function(i) {
    end <- proc.time()[["elapsed"]] + (i * 7919) %% 13 / 1000
    while (proc.time()[["elapsed"]] < end) sqrt(i)
    i
  }
  for (i in 1:3) {
    expect_identical(clusterApplyLB(cl, 1:300, slow), as.list(1:300))
  }
  expect_identical(parSapplyLB(cl, 1:300, slow, chunk.size = 4), 1:300)
  expect_identical(clusterMap(cl, slow, 1:100, .scheduling = "dynamic"), as.list(1:100))
})

test_cluster("one large object reaches sixteen workers, again and again", {
  cl <- local_cluster(16)
  x <- as.numeric(seq_len(5e5))
  for (i in c(1, 2, 3, 4)) {
    x[1L] <- -i
    expect_identical(unlist(clusterCall(cl, function(x) x[1L], x)), rep(-i, 16))
  }
  answers <- clusterCall(cl, rev, x)
  for (answer in answers) expect_identical(answer, rev(x))
})

test_cluster("streams of eight workers are those of makeCluster()", {
  local_seed(1)
  draw <- function(cl) {
    clusterSetRNGStream(cl, 42)
    parSapply(cl, 1:40, function(i) stats::rnorm(1))
  }
  expect_identical(draw(local_cluster(8)), draw(local_psock(8)))
})

test_cluster("half of the workers can be stopped while the others go on", {
  cl <- local_cluster(12)
  pids <- node_pids(cl)
  workers <- processes(pids)
  gone <- seq(1, 12, 2)
  stopCluster(cl[gone])
  expect_identical(still_exists(workers), rep(c(FALSE, TRUE), 6))
  left <- cl[-gone]
  expect_identical(unlist(clusterCall(left, Sys.getpid)), pids[-gone])
  expect_identical(parSapply(left, 1:50, sqrt), sqrt(1:50))
  expect_error(clusterCall(cl, identity, 1), class = "muster_error_input")
  expect_identical(unlist(clusterCall(left, Sys.getpid)), pids[-gone])
})

test_cluster("clusters of several starts are one for the verbs", {
  parts <- lapply(1:4, function(i) local_cluster(i, frame = parent.frame(3)))
  cl <- do.call(c, parts)
  expect_length(cl, 10L)
  workers <- node_processes(cl)
  expect_identical(unlist(clusterCall(cl, Sys.getpid)), node_pids(cl))
  expect_identical(clusterApplyLB(cl, 1:100, sqrt), lapply(1:100, sqrt))
  cluster_stop(cl)
  expect_false(any(still_exists(workers)))
})

test_cluster("more workers than R has connections answer, and connections still work", {
  cl <- local_cluster(150)
  expect_identical(parSapply(cl, 1:1000, sqrt), sqrt(1:1000))
  expect_identical(anyDuplicated(unlist(clusterCall(cl, Sys.getpid))), 0L)
  file <- tempfile("page-")
  defer(function() unlink(file))
  writeLines("text", file)
  con <- url(paste0("file://", file))
  expect_identical(readLines(con), "text")
  close(con)
})

test_cluster("each of many nodes knows its worker's pid as soon as the start returns", {
  for (i in 1:40) {
    cl <- cluster_start(8)
    expect_identical(unlist(clusterCall(cl, Sys.getpid)), node_pids(cl))
    cluster_stop(cl)
  }
})
