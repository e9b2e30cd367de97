# The tasks of a cluster that aren't over.

test_cluster("tasks are shown with what they wait for", {
  cl <- local_cluster(1)
  expect_identical(nrow(cluster_tasks(cl)), 0L)
  expect_output(print(cluster_tasks(cl)), "no tasks")
  go <- file.path(local_folder(), "go")
  waits <- function() while (!file.exists(go)) Sys.sleep(0.01) # tidy: the test's word
  tasks <- list(
    task_submit(cl, waits, .label = "first"), task_submit(cl, function() 2),
    task_submit(cl, function() 3, .priority = 5L), task_submit(cl, function() 4, .label = "four")
  )
  needs <- task_submit(cl, identity, tasks[[4L]], .label = "four")
  map <- task_map(cl, 1:3, identity)
  wait_until(identical(cluster_tasks(cl)$state[1:2], c("running", "queued")))
  table <- cluster_tasks(cl)
  expect_s3_class(table, c("muster_tasks", "data.frame"), exact = TRUE)
  expect_identical(table$label, c("first", NA, NA, "four", "four", NA))
  expect_identical(table$state, c("running", "queued", "queued", "queued", "waiting", "queued"))
  expect_identical(table$worker, c(1L, NA, NA, NA, NA, NA))
  expect_identical(table$priority, c(0L, 0L, 5L, 0L, 0L, 0L))
  expect_true(all(table$age >= 0))
  expect_identical(is.na(table$running), c(FALSE, TRUE, TRUE, TRUE, TRUE, TRUE))
  expect_identical(table$task[[6L]], map)
  shown <- capture.output(print(table))
  expect_length(shown, 7L)
  expect_false(any(grepl("pointer", shown)))
  expect_identical(format(table$task[[5L]]), format(needs))
  file.create(go)
  expect_identical(task_value(table$task[[4L]]), 4)
  expect_identical(task_value(table$task[[5L]]), 4)
  task_value(map)
  expect_identical(nrow(cluster_tasks(cl)), 0L)
  expect_match(format(tasks[[3L]]), "done")
})

test_cluster("a group of tasks is cancelled by its label, or with the whole cluster's", {
  cl <- local_cluster(1)
  sleeps <- function() Sys.sleep(60) # tidy: it is cancelled
  tasks <- lapply(c("a", "b", "a", "c"), function(label) task_submit(cl, sleeps, .label = label))
  needs <- task_submit(cl, identity, tasks[[2L]])
  expect_identical(task_cancel(cl, label = "none"), logical())
  expect_identical(task_cancel(cl, label = "a"), c(TRUE, TRUE))
  expect_identical(task_done(tasks), c(TRUE, FALSE, TRUE, FALSE))
  expect_identical(task_cancel(tasks, label = "c"), TRUE)
  expect_identical(cluster_tasks(cl)$label, c("b", NA))
  expect_identical(task_cancel(cl), c(TRUE, TRUE))
  expect_true(all(task_done(c(tasks, list(needs)))))
  expect_error(task_value(tasks[[1L]]), "Task `a` was cancelled", class = "muster_error_cancelled")
  expect_identical(task_value(task_submit(cl, function() 1)), 1) # the worker is there still
  expect_error(task_cancel(cl, label = 3), class = "muster_error_input")
  expect_error(cluster_tasks(list()), class = "muster_error_input")
  other <- local_cluster(1)
  cluster_stop(other)
  expect_error(cluster_tasks(other), class = "muster_error")
})

test_cluster("a task that fails since another is cancelled in the queue counts as cancelled", {
  cl <- local_cluster(1)
  long <- task_submit(cl, function() Sys.sleep(60)) # tidy: it is cancelled
  behind <- task_submit(cl, function() 1)
  needs <- task_submit(cl, identity, behind)
  wait_until(grepl("queued", format(behind)))
  expect_identical(task_cancel(cl), c(TRUE, TRUE, TRUE))
  expect_true(all(task_done(list(long, behind, needs))))
})

test_cluster("a full queue is waited for, or tells so at once", {
  cl <- local_cluster(1)
  local_settings(muster.queue_max = 1e5)
  gate <- file.path(local_folder(), "gate")
  until <- function(gate, ...) while (!file.exists(gate)) Sys.sleep(0.01) # tidy: its work
  clusterSetRNGStream(cl, 1)
  first <- task_submit(cl, until, gate)
  # The next comes back from behind it, so that all of them wait in the queue.
  more <- list(task_submit(cl, length, raw(4e4)))
  wait_until(grepl("queued", format(more[[1L]])))
  while (!is.null(task <- task_submit(cl, length, raw(4e4), .wait = FALSE))) more <- c(more, task)
  expect_length(more, 3L)
  expect_null(task_submit(cl, rnorm, 1, .wait = FALSE))
  expect_null(task({ 1 }, .cl = cl, .wait = FALSE))
  expect_identical(nrow(cluster_tasks(cl)), 4L)
  local_settings(muster.queue_max = 1e6)
  after <- task_submit(cl, rnorm, 1, .wait = FALSE)
  expect_false(is.null(after))
  local_settings(muster.queue_max = 1e5)
  file.create(gate)
  last <- task_submit(cl, length, raw(4e4)) # waits
  expect_identical(task_value(last), 40000L)
  expect_identical(vapply(more, task_value, 0L), rep(40000L, 3L))
  # What wasn't submitted hasn't used a stream.
  drawn <- task_value(after)
  clusterSetRNGStream(cl, 1)
  again <- lapply(1:5, function(i) task_submit(cl, rnorm, 1))
  expect_identical(task_value(again[[5L]]), drawn)
  for (wrong in list(NA, "no", NULL, c(TRUE, FALSE))) {
    expect_error(task_submit(cl, sum, .wait = wrong), "[.]wait", class = "muster_error_input")
  }
  # Something waits, so that a small limit would be reached.
  gate <- file.path(local_folder(), "gate")
  kept <- lapply(1:3, function(i) task_submit(cl, until, gate))
  for (odd in list(NA, "many", -1, NULL, TRUE, c(1, 2), list(1))) {
    local_settings(muster.queue_max = odd) # the default
    expect_false(is.null(task_submit(cl, sum, 1, .wait = FALSE)))
  }
  file.create(gate)
})
