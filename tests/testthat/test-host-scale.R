# Hosts that come and go: cluster_start(scale =).

# A launcher that leads to another host each time, and the number of times that it was used.
local_hosts <- function(workers, frame = parent.frame()) {
  file <- tempfile("starts-")
  defer(function() unlink(file), frame)
  list(
    launcher = launch_command(paste0("echo {name} >>", file, "; ", host_command()), workers),
    starts = function() if (file.exists(file)) length(readLines(file)) else 0L
  )
}

states_of <- function(cl) cluster_status(cl)$state

# Not by a function of muster's: those would have the session served.
is_running <- function(pid) tools::pskill(pid, 0L)

test_that("`scale` is two numbers that fit the hosts", {
  far <- launch_command("false", 2L, c("a", "b"))
  for (scale in list(1, "many", c(2, 1), c(-1, 2), c(0.5, 2), c(NA, 2), c(0, 0), c(0, 20000))) {
    expect_error(cluster_start(far, scale = scale), "`scale`", class = "muster_error_input")
  }
  expect_error(cluster_start(far, scale = c(0, 5)),
    "`scale` allows 5 workers; the hosts have 4.",
    class = "muster_error_input"
  )
  expect_error(cluster_start(2, scale = c(0, 2)), "other hosts", class = "muster_error_input")
  expect_error(cluster_start("node1", scale = c(0, 2)), "must be known",
    class = "muster_error_input"
  )
  expect_error(cluster_start(far, scale = c(0, 2), healing = FALSE), "needs healing",
    class = "muster_error_input"
  )
  expect_error(cluster_start(far, scale = c(0, 2), idle_timeout = 0), "`idle_timeout`",
    class = "muster_error_input"
  )
})

test_that("the last launcher is used as often as `scale` needs, and no more", {
  skip_if_limited()
  sizes <- function(groups, most) {
    groups <- worker_groups(groups, FALSE, NULL)
    scaled <- scaled_groups(groups, c(0L, most), NULL)
    keys <- unlist(lapply(scaled, function(group) group$host$key))
    expect_identical(anyDuplicated(keys), 0L)
    vapply(scaled, `[[`, 0L, "workers")
  }
  local_variables(SLURM_JOB_ID = NA)
  slurm <- launch_slurm(workers = 16)
  expect_identical(sizes(slurm, 40L), c(16L, 16L, 8L))
  expect_identical(sizes(list(4, slurm), 20L), c(4L, 16L))
  expect_identical(sizes(list(4, slurm), 3L), 3L)
  expect_identical(sizes(launch_command("run {name}", 2L), 5L), c(2L, 2L, 1L))
  ssh <- launch_ssh(c("a", "b"), workers = 3)
  expect_identical(sizes(ssh, 4L), c(3L, 1L))
  expect_error(sizes(ssh, 7L), "the hosts have 6", class = "muster_error_input")
})

test_cluster("hosts are asked for when tasks wait, and let go when there are none", {
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(hosts$launcher, scale = c(0, 2), idle_timeout = 0.5)
  defer(function() cluster_stop(cl))
  expect_length(cl, 2L)
  expect_identical(states_of(cl), c("asleep", "asleep"))
  expect_output(print(cl), "workers 1, 2 asleep")
  expect_identical(hosts$starts(), 0L)
  got <- healed(task_value(task_submit(cl, function() 5)))
  expect_identical(got$value, 5)
  expect_identical(got$messages, "muster_message_joined")
  expect_identical(states_of(cl), c("idle", "asleep"))
  expect_identical(hosts$starts(), 1L)
  pid <- cl[[1L]]$pid
  wait_until(!is_running(pid)) # as at the prompt
  wait_until(states_of(cl)[1L] == "asleep")
  expect_identical(healed(cluster_map(cl, 1:20, function(i) i))$value, as.list(1:20))
  expect_identical(hosts$starts(), 3L)
})

test_cluster("a call to a worker asks for its host, and finds what calls left there", {
  skip_if_limited()
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(list(1, hosts$launcher), scale = c(1, 3), idle_timeout = 0.3)
  defer(function() cluster_stop(cl))
  expect_identical(states_of(cl), c("idle", "asleep", "asleep"))
  x <- 7
  expect_identical(healed(clusterExport(cl[3L], "x", environment()))$messages,
    "muster_message_joined"
  )
  expect_identical(states_of(cl), c("idle", "asleep", "idle"))
  healed(clusterEvalQ(cl[3L], y <- x + 1))
  first <- cl[[3L]]$pid
  wait_until(states_of(cl)[3L] == "asleep" && !is_running(first))
  got <- healed(clusterEvalQ(cl[3L], c(x, y)))
  expect_identical(got$value, list(c(7, 8)))
  expect_false(cl[[3L]]$pid == first)
  expect_identical(states_of(cl)[1:2], c("idle", "asleep"))
})

test_cluster("what calls drew is drawn again on the next host, of any generator", {
  skip_if_limited()
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(list(1, hosts$launcher), scale = c(1, 3), idle_timeout = 0.2)
  defer(function() cluster_stop(cl))
  drawn <- healed(clusterEvalQ(cl[2:3], {
    x <- stats::runif(1)
    x
  }))$value
  expect_false(identical(drawn[[1L]], drawn[[2L]]))
  wait_until(identical(states_of(cl)[2:3], rep("asleep", 2L)))
  expect_identical(healed(clusterEvalQ(cl[2:3], x))$value, drawn)
})

test_cluster("what tasks left of random numbers stays, and what they only drew doesn't", {
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(hosts$launcher, scale = c(0, 2), idle_timeout = 0.2)
  defer(function() cluster_stop(cl))
  local_settings(muster.quiet = TRUE)
  draw <- function() stats::runif(1)
  keep <- function() assign("kept", stats::runif(1), globalenv())
  tasks <- list(task_submit(cl[1L], draw, .seed = NULL), task_submit(cl[2L], keep, .seed = NULL))
  values <- lapply(tasks, task_value)
  task_value(task_submit(cl[2L], draw, .seed = NULL))
  values[[2L]] <- task_value(task_submit(cl[2L], keep, .seed = NULL))
  wait_until(states_of(cl)[1L] == "asleep")
  expect_identical(states_of(cl)[2L], "idle")
  expect_identical(clusterEvalQ(cl[2L], kept), values[2L])
})

test_cluster("a host with data stays until nobody can ask for them", {
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(hosts$launcher, scale = c(0, 2), idle_timeout = 0.2)
  defer(function() cluster_stop(cl))
  local_settings(muster.quiet = TRUE)
  p <- partition_scatter(cl[2L], data.frame(x = 1:10)) # on a host that is to be woken
  expect_identical(states_of(cl), c("asleep", "idle"))
  pid <- cl[[2L]]$pid
  task_wait(lapply(1:2, function(i) task_submit(cl[1L], function() Sys.sleep(0.3))))
  wait_until(states_of(cl)[1L] == "asleep")
  expect_identical(states_of(cl)[2L], "idle")
  expect_identical(partition_collect(p)$x, 1:10)
  expect_identical(cl[[2L]]$pid, pid)
  rm(p)
  invisible(gc())
  wait_until(!is_running(pid))
  wait_until(identical(states_of(cl), c("asleep", "asleep")))
})

test_cluster("a host is woken while it is being left, and nothing is lost", {
  skip_without_fork()
  hosts <- local_hosts(2L)
  cl <- cluster_start(hosts$launcher, scale = c(0, 2), idle_timeout = 0.1, healing = "fresh")
  defer(function() cluster_stop(cl))
  local_settings(muster.quiet = TRUE)
  for (i in 1:6) {
    expect_identical(cluster_map(cl, 1:4, function(i) i), as.list(1:4))
    Sys.sleep(0.07 + i / 100) # tidy: about when they are let go
    expect_identical(clusterCall(cl, function() 5), list(5, 5))
  }
  cluster_stop(cl)
  expect_gt(hosts$starts(), 0L)
})

test_cluster("tasks of a moment don't wake a host beside workers that are there", {
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(list(1, hosts$launcher), scale = c(1, 2))
  defer(function() cluster_stop(cl))
  tasks <- lapply(1:20, function(i) task_submit(cl, function() 1))
  expect_identical(lapply(tasks, task_value), rep(list(1), 20L))
  expect_identical(hosts$starts(), 0L)
  # Each lasts until a second worker has one.
  folder <- local_folder()
  long <- lapply(1:6, function(i) {
    task_submit(cl, function(folder) {
      file.create(file.path(folder, Sys.getpid()))
      while (length(list.files(folder)) < 2L) Sys.sleep(0.02) # tidy: for the other worker
    }, folder)
  })
  expect_identical(healed(task_wait(long))$messages, "muster_message_joined")
  expect_identical(hosts$starts(), 1L)
})

test_cluster("a host that doesn't come is an error, and one that ends is asked for again", {
  skip_without_fork()
  local_settings(muster.start_timeout = 1)
  cl <- cluster_start(list(1, launch_command("exit 3", 1L, "far")), scale = c(1, 2))
  defer(function() cluster_stop(cl))
  got <- healed(tryCatch(clusterCall(cl[2L], function() 5), error = identity))
  expect_s3_class(got$value, "muster_error_lost")
  expect_identical(clusterCall(cl[1L], function() 5), list(5))
})

test_cluster("a cluster that stops while hosts sleep leaves nothing", {
  skip_without_fork()
  hosts <- local_hosts(1L)
  cl <- cluster_start(hosts$launcher, scale = c(0, 2))
  cluster_stop(cl)
  expect_identical(hosts$starts(), 0L)
  cl <- cluster_start(hosts$launcher, scale = c(1, 2))
  expect_identical(states_of(cl), c("idle", "asleep"))
  cluster_stop(cl)
  expect_identical(hosts$starts(), 1L)
})
