# Fair shares: groups of tasks take turns, maps too, and maps have labels and priorities as tasks.

# A worker that evaluates one call at a time notes in which order: what comes first keeps it busy
# until all is submitted.
noted <- function(cl, submit) {
  file <- local_folder(parent.frame())
  note <- remote(function(name, file) {
    cat(name, "\n", sep = "", file = file.path(file, "order"), append = TRUE)
  })
  gate <- file.path(file, "gate")
  hold <- remote(function(gate) while (!file.exists(gate)) Sys.sleep(0.01)) # tidy: until opened
  tasks <- list(task_submit(cl, hold, gate), task_submit(cl, hold, gate))
  tasks <- c(tasks, submit(note, file))
  file.create(gate)
  tasks_collect(tasks, timeout = 60)
  readLines(file.path(file, "order"))
}

test_cluster("Groups of tasks take turns, however many each of them has", {
  limit_time(60)
  cl <- local_cluster(1)
  order <- noted(cl, function(note, file) {
    put <- function(n, ...) lapply(seq_len(n), function(i) task_submit(cl, note, ..., file))
    c(
      put(5, "none"), put(4, "a", .group = "a"), put(2, "b", .group = "b"),
      put(2, "first", .group = "a", .priority = 1L)
    )
  })
  expect_identical(order, c(
    "first", "first", "none", "a", "b", "none", "a", "b", "none", "a", "none", "a", "none"
  ))
})

test_cluster("A map takes turns with tasks and other maps, in its group or in one of its own", {
  limit_time(60)
  cl <- local_cluster(1)
  order <- noted(cl, function(note, file) {
    map <- function(name, ...) task_map(cl, rep(name, 200), note, file = file, .timeout = 60, ...)
    c(list(map("x"), map("y"), map("z", .group = "z"), map("Z", .group = "z")),
      list(task_submit(cl, note, "task", file)))
  })
  expect_length(order, 801)
  expect_lt(match("task", order), 12)
  # Pieces of x and y, and of all of group z, by turns.
  expect_lt(max(abs(cumsum(order == "x") - cumsum(order == "y"))), 10)
  at <- function(name) which(order == name)
  expect_lt(max(at("z")), max(at("x")) + 10)
  expect_gt(min(at("Z")), max(at("z")))
})

test_cluster("A map with a priority goes before what waits", {
  limit_time(60)
  cl <- local_cluster(1)
  order <- noted(cl, function(note, file) {
    c(lapply(1:5, function(i) task_submit(cl, note, "task", file)),
      list(task_map(cl, rep("map", 5), note, file = file, .priority = 1L, .timeout = 60)))
  })
  expect_identical(order, rep(c("map", "task"), each = 5))
})

test_cluster("A more urgent task goes before one that waits behind a long call", {
  limit_time(60)
  cl <- local_cluster(1)
  folder <- local_folder()
  note <- remote(function(name, folder) {
    cat(name, "\n", sep = "", file = file.path(folder, "order"), append = TRUE)
  })
  hold <- remote(function(gate) while (!file.exists(gate)) Sys.sleep(0.01)) # tidy: until opened
  long <- task_submit(cl, hold, file.path(folder, "gate"))
  behind <- task_submit(cl, note, "behind", folder)
  wait_until(grepl("queued", format(behind)))
  urgent <- task_submit(cl, note, "urgent", folder, .priority = 1L)
  file.create(file.path(folder, "gate"))
  task_wait(list(long, behind, urgent))
  expect_identical(readLines(file.path(folder, "order")), c("urgent", "behind"))
})

test_cluster("A map is a row of cluster_tasks(), and is cancelled by its label", {
  limit_time(60)
  cl <- local_cluster(1)
  other <- local_cluster(1)
  gate <- file.path(local_folder(), "gate")
  hold <- remote(function(i, gate) while (!file.exists(gate)) Sys.sleep(0.01)) # tidy: until opened
  map <- task_map(cl, 1:50, hold, gate = gate, .label = "fits", .priority = 2L)
  task <- task_submit(cl, hold, 0, gate, .label = "fits")
  wait_until(identical(cluster_tasks(cl)$state[1], "running"))
  tasks <- cluster_tasks(cl)
  expect_identical(tasks$label, c("fits", "fits"))
  expect_identical(tasks$priority, c(2L, 0L))
  expect_identical(tasks$task[[1L]], map)
  expect_identical(nrow(cluster_tasks(other)), 0L)
  expect_identical(cluster_status(cl)$task, "fits")
  expect_match(format(map), "muster map (`fits`), running: 0 of 50 elements done", fixed = TRUE)
  expect_output(print(tasks), "running")
  expect_identical(task_cancel(cl, label = "other"), logical())
  expect_identical(task_cancel(cl, label = "fits"), c(TRUE, TRUE))
  expect_error(task_value(map), class = "muster_error_cancelled")
  expect_error(task_value(task), class = "muster_error_cancelled")
  expect_identical(nrow(cluster_tasks(cl)), 0L)
  file.create(gate)
  # One that nobody refers to isn't shown, and keeps nothing alive.
  map <- task_map(cl, 1:5, identity)
  task_wait(map)
  expect_identical(nrow(cluster_tasks(cl)), 0L)
  kept <- length(muster:::the_task$maps)
  expect_lte(kept, 1L)
})

test_cluster("Groups, priorities and labels of maps are checked", {
  cl <- local_cluster(1)
  wrong <- function(code) expect_error(code, class = "muster_error_input")
  wrong(task_submit(cl, sum, 1, .group = 1))
  wrong(task_submit(cl, sum, 1, .group = c("a", "b")))
  wrong(task_map(cl, 1, identity, .group = NA))
  wrong(task_map(cl, 1, identity, .label = 1))
  wrong(task_map(cl, 1, identity, .priority = "high"))
  wrong(task(1 + 1, cl, .group = 2))
  expect_identical(task_value(task(1 + 1, cl, .group = "\u00e4")), 2)
  expect_identical(task_value(task_pmap(cl, list(1:2, 3:4), `+`, .label = "sums")), list(4L, 6L))
})
