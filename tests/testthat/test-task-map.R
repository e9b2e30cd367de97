# Maps that run while the session goes on.

# A function that waits for a word, in a file.
waiter <- function(file) {
  force(file)
  function(i) {
    while (!file.exists(file)) Sys.sleep(0.01) # tidy: the test's word
    i
  }
}

test_cluster("a map in the background gives what cluster_map() gives", {
  cl <- local_cluster(2)
  k <- 10
  plus <- function(x, y) x + y + k
  maps <- list(
    list(1:100, plus, 5), list(c(a = 1, b = 2), ~ .x * 2), list(list(), identity),
    list(c(one = 1), "sqrt"), list(list("a", NULL, 3), function(x) x),
    list(as.list(1:7), function(x) rnorm(2, x), .seed = 42),
    list(data.frame(p = 1:2, q = 3:4), sum),
    list(1:5, function(x, .k) x * .k, .args = list(.k = 3))
  )
  for (one in maps) {
    map <- do.call(task_map, c(list(cl), one))
    expect_s3_class(map, c("muster_map", "muster_task"), exact = TRUE)
    expected <- do.call(cluster_map, c(list(cl), one))
    expect_identical(task_value(map), expected)
    expect_identical(task_value(map), expected) # again
  }
  returned <- task_value(task_map(cl, 1:3, function(i) if (i == 2) stop("two") else i,
    .on_error = "return"))
  expect_identical(returned[c(1L, 3L)], list(1L, 3L))
  expect_s3_class(returned[[2L]], "muster_error_remote")
})

test_cluster("the workers go on while the session does other things", {
  cl <- local_cluster(2)
  folder <- local_folder()
  map <- task_map(cl, 1:300, function(i) file.create(file.path(folder, i)))
  wait_until(length(list.files(folder)) == 300L) # without a word to muster
  expect_true(all(unlist(task_value(map))))
})

test_cluster("a map is one of several tasks to wait for", {
  cl <- local_cluster(2)
  word <- file.path(local_folder(), "word")
  map <- task_map(cl, 1:2, waiter(word))
  quick <- task_submit(cl[1L], waiter(word), 3)
  both <- list(map, quick)
  expect_identical(task_done(both), c(FALSE, FALSE))
  expect_identical(task_wait(map, timeout = 0.01), FALSE)
  late <- tryCatch(task_value(map, timeout = 0.01), muster_error_timeout = identity)
  expect_identical(late$task, map)
  file.create(word)
  expect_true(any(task_wait(both, any = TRUE)))
  expect_identical(task_wait(both), c(TRUE, TRUE))
  expect_identical(task_value(map), list(1L, 2L))
  expect_identical(task_value(quick), 3)
  expect_error(task_value(map, timeout = -1), class = "muster_error_input")
  expect_error(task_map(cl, 1:3, identity, .speculate = TRUE), class = "muster_error_input")
  expect_error(task_map(cl, quote(a), identity), class = "muster_error_input")
  new_file <- file(file.path(local_folder(), "new"), "w")
  defer(function() close(new_file))
  expect_error(task_map(cl, list(1, new_file), identity), ".x[[2]]",
    fixed = TRUE, class = "muster_error_input")
})

test_cluster("an error ends a map, names its element and keeps the other results", {
  cl <- local_cluster(1)
  map <- task_map(cl, c(a = 1, b = 2, c = 3), function(x) if (x == 2) stop("not two") else x)
  for (k in 1:2) {
    error <- tryCatch(task_value(map), muster_error_remote = identity)
    expect_match(conditionMessage(error), "Element 2 (`b`) raised an error: not two", fixed = TRUE)
    expect_identical(error$element, 2L)
    expect_identical(error$results[[1L]], 1)
    expect_identical(conditionCall(error)[[1L]], quote(task_map))
  }
  expect_true(task_done(map))
  expect_identical(task_cancel(map), FALSE)
  expect_identical(task_value(task_submit(cl, sum, 1, 2)), 3)
})

test_cluster("elements lost with their worker run again, in smaller pieces", {
  cl <- local_cluster(2)
  folder <- local_folder()
  map <- task_map(cl, 1:500, function(i) {
    died <- file.path(folder, i)
    if (i %in% c(3, 250, 499) && !file.exists(died)) {
      file.create(died)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    i
  })
  expect_identical(healed(task_value(map))$value, as.list(1:500))
  fatal <- task_map(cl, 1:50, function(i) {
    if (i == 20) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }, .retries = 1)
  error <- healed(tryCatch(task_value(fatal), muster_error_lost = identity))$value
  expect_identical(error$element, 20L)
  expect_identical(Filter(length, error$results[1:10]), as.list(1:10))
})

test_cluster("an element that takes too long is named", {
  cl <- local_cluster(2)
  stays <- function(i) if (i == 4) Sys.sleep(600) else i # tidy: until it is ended
  map <- task_map(cl, 1:6, stays, .timeout = 0.5)
  error <- tryCatch(task_value(map), muster_error_timeout = identity)
  expect_identical(error$element, 4L)
})

test_cluster("a cancelled map keeps what was done, and frees its workers", {
  cl <- local_cluster(1)
  word <- file.path(local_folder(), "word")
  wait <- waiter(word)
  map <- task_map(cl, 1:10, function(i) if (i < 4) i else wait(i))
  wait_until({
    task_done(map)
    map$left == 7L
  })
  expect_output(print(map), "muster map, running: 3 of 10 elements done")
  expect_identical(task_cancel(map), TRUE)
  expect_output(print(map), "muster map, cancelled: 3 of 10 elements done")
  error <- tryCatch(task_value(map), muster_error_cancelled = identity)
  expect_identical(error$results, c(as.list(1:3), vector("list", 7L)))
  expect_identical(task_value(task_submit(cl, function() "free")), "free")
})

test_cluster("handlers may leave a map, or ask for it, and never hang", {
  cl <- local_cluster(1)
  warns <- function(i) {
    if (i == 2) warning("careful")
    i
  }
  map <- task_map(cl, 1:3, warns)
  left <- tryCatch(task_value(map), warning = conditionMessage)
  expect_identical(left, "careful")
  expect_error(task_value(map), "ended by a handler", class = "muster_error_cancelled")
  map <- task_map(cl, 1:3, warns)
  asked <- NULL
  value <- withCallingHandlers(task_value(map), warning = function(w) {
    asked <<- list(task_done(map), tryCatch(task_value(map), muster_error_input = conditionMessage))
    invokeRestart("muffleWarning")
  })
  expect_identical(value, as.list(1:3))
  expect_identical(asked[[1L]], FALSE)
  expect_match(asked[[2L]], "can't wait for that map")
  # One that cancels it.
  map <- task_map(cl, 1:3, warns)
  value <- withCallingHandlers(
    tryCatch(task_value(map), muster_error_cancelled = function(e) "cancelled"),
    warning = function(w) {
      task_cancel(map)
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(value, "cancelled")
})

test_cluster("an interrupt of the wait leaves the map alone", {
  cl <- local_cluster(1)
  word <- file.path(local_folder(), "word")
  map <- task_map(cl, 1:3, waiter(word))
  ended <- tryCatch(
    {
      task_submit(cl[1L], function() NULL)
      setTimeLimit(elapsed = 0.2, transient = TRUE)
      task_value(map)
    },
    error = conditionMessage
  )
  setTimeLimit()
  expect_match(ended, "elapsed time limit")
  file.create(word)
  expect_identical(task_value(map), as.list(1:3))
})

test_cluster("a map of a stopped cluster, or another session, says so", {
  cl <- local_cluster(1)
  map <- task_map(cl, 1:3, waiter(file.path(local_folder(), "never")))
  file <- file.path(local_folder(), "map.rds")
  saveRDS(map, file)
  copy <- readRDS(file)
  expect_error(task_value(copy), "outside the process", class = "muster_error_input")
  expect_error(task_done(list(copy)), "outside the process", class = "muster_error_input")
  expect_error(task_cancel(copy), "outside the process", class = "muster_error_input")
  expect_output(print(copy), "muster map of another session")
  cluster_stop(cl)
  expect_error(task_value(map), "stopped", class = "muster_error_lost")
})

test_cluster("maps that nothing refers to any more leave nothing behind", {
  cl <- local_cluster(2)
  folder <- local_folder()
  for (k in 1:3) task_map(cl, 1:20, function(i) file.create(file.path(folder, paste(k, i))))
  gc()
  wait_until(length(list.files(folder)) == 60L)
  gc()
  expect_identical(unlist(cluster_map(cl, 1:10, sqrt)), sqrt(1:10))
})

test_cluster("a handler's own error isn't taken for the map's", {
  cl <- local_cluster(2)
  fails <- task_submit(cl, function() stop("another task"))
  for (map in list(cluster_map, function(...) task_value(task_map(...)))) {
    error <- tryCatch(
      withCallingHandlers(map(cl, 1:2, function(i) warning("careful")),
        warning = function(w) task_value(fails)
      ),
      muster_error = identity
    )
    expect_match(conditionMessage(error), "Worker [12] raised an error: another task")
    expect_null(error$results)
  }
})

test_cluster("looking at a map signals nothing, and a map that is over lets its elements go", {
  cl <- local_cluster(1)
  map <- task_map(cl, as.list(1:3), function(i) if (i == 2) warning("careful") else i)
  wait_until(all(.Call(ffi_task_look, map$tasks, FALSE)))
  expect_silent(text <- format(map))
  expect_identical(text, "muster map, finished: 3 of 3 elements done")
  expect_warning(task_wait(map), "careful")
  expect_null(map$x)
  expect_identical(format(map), "muster map, done: 3 of 3 elements done")
})

test_cluster("without retries nothing runs twice, not even what took too long together", {
  cl <- local_cluster(2)
  folder <- local_folder()
  notes <- function(i) {
    cat(i, "\n", file = file.path(folder, Sys.getpid()), append = TRUE)
  }
  task_wait(task_map(cl, 1:5000, notes, .retries = 0, .timeout = 60))
  ran <- unlist(lapply(list.files(folder, full.names = TRUE), scan, quiet = TRUE))
  expect_identical(sort(ran), as.double(1:5000))
})

test_cluster("queued pieces of a stopped cluster say that it was stopped", {
  cl <- local_cluster(1)
  map <- task_map(cl, 1:50, waiter(file.path(local_folder(), "never")))
  cluster_stop(cl)
  expect_error(task_value(map), "its cluster was stopped", class = "muster_error_lost")
})
