# What clusters and their nodes print, and what parts of them are.

test_cluster("a stopped cluster, a copy and a part print as what they are", {
  cl <- local_cluster(2)
  whole <- "^muster cluster with 2 workers on host 'localhost' \\([a-z]+, 1 thread each\\)"
  expect_output(print(cl), paste0(whole, "$"))
  expect_output(print(cl[2:1]), paste0(whole, "$"))
  expect_output(print(cl[2]),
    "^muster cluster with 1 of 2 workers \\(2\\) on host 'localhost' \\([a-z]+, 1 thread\\)$"
  )
  copy <- unserialize(serialize(cl, NULL))
  expect_output(print(copy), "^copy of a muster cluster with 2 .*, which only the process that")
  expect_output(print(copy[[2]]), "^muster worker 2 .* \\(a copy, which only the process that")
  cluster_stop(cl)
  expect_output(print(cl), paste0(whole, ", stopped$"))
  expect_output(print(cl[2]), "with 1 worker on host .*, stopped$")
  expect_output(print(cl[[2]]), "^muster worker 2 on host 'localhost', pid [0-9]+, stopped$")
})

test_cluster("in a worker, and from a file, a cluster prints as a copy", {
  cl <- local_cluster(1)
  clusterExport(cl, "cl", environment())
  print_there <- function(cl) {
    loadNamespace("muster")
    paste(utils::capture.output(print(cl)), collapse = "\n")
  }
  environment(print_there) <- globalenv()
  expect_match(clusterCall(cl, print_there, cl)[[1L]], "^copy of a muster cluster with 1 worker ")
  file <- tempfile()
  defer(function() unlink(file))
  saveRDS(cl, file)
  expect_output(print(readRDS(file)), "^copy of a muster cluster with 1 worker ")
})

test_cluster("workers that were stopped or lost are named", {
  cl <- local_cluster(2, healing = FALSE)
  cluster_stop(cl[2])
  expect_output(print(cl), "with 2 workers .*, worker 2 stopped$")
  expect_output(print(cl[1]), "with 1 worker on host")
  expect_output(print(cl[2]), "with 1 of 2 workers \\(2\\) .*, stopped$")
  cl <- local_cluster(2, healing = FALSE)
  killNode(cl[[1L]])
  expect_output(print(cl), "with 2 workers .*, worker 1 lost$")
  expect_output(print(cl[[1L]]), ", lost$")
  cl <- cluster_resize(local_cluster(2), 1)
  expect_output(print(cl), "^muster cluster with 1 worker on host")
})

test_that("many numbers are told as ranges", {
  expect_identical(numbers_text(c(1:4, 7L)), "1 to 4, 7")
  expect_identical(numbers_text(c(2L, 3L, 5:7)), "2, 3, 5 to 7")
  expect_identical(numbers_text(3:1), "3, 2, 1")
  expect_identical(ranks_text(4L), "worker 4")
})

test_cluster("clusters of makeClusterPSOCK() print as what they are, too", {
  cl <- makeClusterPSOCK(1)
  defer(function() stopCluster(cl))
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(stock))
  for (one in list(cl, stock)) {
    copy <- unserialize(serialize(one, NULL))
    expect_output(print(one), "^Socket cluster with 1 node on host")
    expect_output(print(copy), "^Copy of a socket cluster with 1 node .*, which only the process")
    expect_output(print(copy[[1L]]), "(a copy, which", fixed = TRUE)
    expect_output(print(one[integer(0)]), "^Socket cluster with 0 nodes$")
    stopCluster(one)
    expect_output(print(one), "1 node (#1) has ended", fixed = TRUE)
    expect_output(print(one[[1L]]), ", stopped$")
  }
})

test_cluster("an index of workers that aren't there is an error where it stands", {
  cl <- local_cluster(2)
  for (index in list(3, c(1, 3), c(TRUE, NA), NA_integer_, "a")) {
    error <- expect_error(cl[index], class = "muster_error_input")
    expect_identical(conditionCall(error), quote(cl[index]))
    expect_match(conditionMessage(error), "It has 2 workers.", fixed = TRUE)
  }
  expect_identical(cl[], cl)
  expect_identical(cl[-2], cl[1])
  expect_identical(cl[c(FALSE, TRUE)], cl[2])
  expect_identical(class(cl[2]), class(cl))
  expect_output(print(cl[integer(0)]), "^muster cluster with no workers$")
})

test_cluster("a cluster without workers is refused by what needs one", {
  none <- local_cluster(1)[integer(0)]
  verbs <- list(
    cluster_status, cluster_logs, cluster_journal, function(cl) cluster_resize(cl, 1),
    function(cl) cluster_map(cl, 1:2, identity), function(cl) task_submit(cl, identity, 1),
    function(cl) cluster_share(cl, x = 1), function(cl) partition_scatter(cl, iris)
  )
  for (verb in verbs) {
    error <- expect_error(verb(none), class = "muster_error_input")
    expect_match(conditionMessage(error), "must have at least one worker")
  }
  expect_null(cluster_stop(none))
})

test_cluster("verbs say that a worker was stopped, not its cluster", {
  cl <- local_cluster(2)
  cluster_stop(cl[2])
  verbs <- list(
    function(cl) clusterCall(cl, identity, 1), function(cl) parLapply(cl, 1:4, identity),
    function(cl) clusterApplyLB(cl, 1:4, identity), function(cl) cluster_map(cl, 1:4, identity),
    function(cl) task_submit(cl, identity, 1), cluster_journal
  )
  for (verb in verbs) {
    error <- expect_error(verb(cl), class = "muster_error_input")
    expect_match(conditionMessage(error), "^Can't use worker 2: it was stopped\\.")
    expect_identical(error$worker, 2L)
  }
  expect_identical(clusterCall(cl[-2], identity, 1), list(1))
  cluster_stop(cl)
  error <- expect_error(clusterCall(cl, identity, 1), class = "muster_error_input")
  expect_match(conditionMessage(error), "^Can't use a cluster that was stopped")
})
