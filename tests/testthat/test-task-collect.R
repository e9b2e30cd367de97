# Values of several tasks.

# Tasks of functions that wait for words, files in a folder, before they go on.
word_task <- function(cl, folder, word, then, ...) {
  task_submit(cl, function(file, then) {
    while (!file.exists(file)) Sys.sleep(0.01) # tidy: the test's word
    then()
  }, file.path(folder, word), then, ...)
}
say_word <- function(folder, word) file.create(file.path(folder, word))

test_cluster("all values come in the tasks' order, with their names", {
  cl <- local_cluster(2)
  tasks <- list(
    a = task_submit(cl, function() NULL), task_submit(cl, sum, 1, 2),
    m = task_map(cl, 1:3, function(i) i^2)
  )
  expect_identical(tasks_collect(tasks), list(a = NULL, 3, m = list(1, 4, 9)))
  expect_identical(tasks_collect(tasks), list(a = NULL, 3, m = list(1, 4, 9))) # again
  expect_identical(tasks_collect(list()), list())
  expect_identical(tasks_collect(tasks[[2L]]), list(3))
  many <- lapply(1:1500, function(i) task_submit(cl, identity, i))
  expect_identical(tasks_collect(many), as.list(1:1500))
})

test_cluster("the first error ends the wait, names its task and keeps the others' values", {
  cl <- local_cluster(2)
  folder <- local_folder()
  tasks <- list(
    word_task(cl[1L], folder, "go", function() "late"),
    quick = task_submit(cl[2L], function() "quick"),
    bad = task_submit(cl[2L], function() stop("not good"))
  )
  error <- tryCatch(tasks_collect(tasks), muster_error_remote = identity)
  expect_match(conditionMessage(error), "^Task 3 [(]`bad`[)] raised an error: not good\n")
  expect_identical(error$index, 3L)
  expect_identical(error$results, list(NULL, quick = "quick", bad = NULL))
  say_word(folder, "go")
  all <- tasks_collect(tasks, on_error = "return")
  expect_identical(all[1:2], list("late", quick = "quick"))
  expect_match(conditionMessage(all$bad), "not good")
  # And the others may be cancelled.
  long <- task_submit(cl, Sys.sleep, 600)
  failed <- list(long, task_submit(cl, function() stop("no"), .label = "named"))
  expect_error(tasks_collect(failed, cancel = TRUE), "^Task 2 [(]`named`[)] raised an error: no")
  expect_error(task_value(long), class = "muster_error_cancelled")
})

test_cluster("a race is won by the first that is over, even by an error", {
  cl <- local_cluster(2)
  folder <- local_folder()
  tasks <- list(
    word_task(cl[1L], folder, "one", function() "one"),
    word_task(cl[2L], folder, "two", function() "two")
  )
  say_word(folder, "two")
  expect_identical(tasks_race(tasks), "two")
  expect_false(task_done(tasks[[1L]]))
  expect_identical(tasks_race(tasks, cancel = TRUE), "two")
  expect_error(task_value(tasks[[1L]]), class = "muster_error_cancelled")
  tasks <- list(
    word_task(cl[1L], folder, "three", function() "three"),
    task_submit(cl[2L], function() stop("lost"))
  )
  expect_error(tasks_race(tasks), "^Task 2 raised an error: lost")
  say_word(folder, "three")
  expect_identical(tasks_collect(tasks[1L]), list("three"))
})

test_cluster("any success will do, and only if there is none is it an error", {
  cl <- local_cluster(2)
  folder <- local_folder()
  bad <- function() stop("bad")
  tasks <- list(
    task_submit(cl[2L], bad), word_task(cl[1L], folder, "go", function() "good"),
    task_map(cl[2L], 1:3, function(i) stop("map"))
  )
  later <- task_submit(cl[2L], say_word, folder, "go")
  expect_identical(tasks_any(tasks), "good")
  expect_true(task_value(later))
  error <- tryCatch(tasks_any(tasks[-2L]), muster_error_none = identity)
  expect_match(conditionMessage(error),
    "^All tasks failed.\nx Task 1 raised an error: bad\nx Element 1 raised an error: map"
  )
  expect_identical(vapply(error$errors, `[[`, 0L, "index"), 1:2)
})

test_cluster("what isn't done in time is said, and goes on or is cancelled", {
  cl <- local_cluster(1)
  folder <- local_folder()
  tasks <- list(
    quick = task_submit(cl, function() "quick"),
    slow = word_task(cl, folder, "go", function() "slow"), word_task(cl, folder, "go", function() 3)
  )
  task_wait(tasks[1L])
  error <- tryCatch(tasks_collect(tasks, 0.05), muster_error_timeout = identity)
  expect_match(conditionMessage(error),
    "^2 of 3 tasks aren't done after 0.05 s.\nx Task 2 [(]`slow`[)] is the first of them."
  )
  expect_identical(error$results, list(quick = "quick", slow = NULL, NULL))
  expect_identical(tasks_race(tasks, 0), "quick")
  expect_error(tasks_race(tasks[2L], 0), "^1 of 1 tasks isn't done", class = "muster_error_timeout")
  expect_error(tasks_any(tasks[2:3], 0), class = "muster_error_timeout")
  say_word(folder, "go")
  expect_identical(tasks_collect(tasks), list(quick = "quick", slow = "slow", 3))
  long <- task_submit(cl, Sys.sleep, 600)
  expect_error(tasks_any(list(long), 0.05, cancel = TRUE), class = "muster_error_timeout")
  expect_error(task_value(long), class = "muster_error_cancelled")
  for (bad in list(1, list(1), NULL)) {
    expect_error(tasks_collect(bad), class = "muster_error_input")
    expect_error(tasks_race(bad), class = "muster_error_input")
  }
  expect_error(tasks_race(list()), "at least one task", class = "muster_error_input")
  expect_error(tasks_collect(tasks, timeout = -1), class = "muster_error_input")
  expect_error(tasks_collect(tasks, on_error = "go"), class = "muster_error_input")
  expect_error(tasks_any(tasks, cancel = NA), class = "muster_error_input")
})

test_cluster("a lost or stopped task is one that failed", {
  cl <- local_cluster(1, retries = 0)
  tasks <- list(
    task_submit(cl, function() tools::pskill(Sys.getpid(), tools::SIGKILL)),
    task_submit(cl, function() "there")
  )
  values <- healed(tasks_collect(tasks, on_error = "return"))$value
  expect_s3_class(values[[1L]], "muster_error_lost")
  expect_match(conditionMessage(values[[1L]]), "^Task 1 was lost with its worker once")
  expect_identical(values[[2L]], "there")
  expect_identical(healed(tasks_any(tasks))$value, "there")
  tasks <- list(task_submit(cl, Sys.sleep, 600))
  cluster_stop(cl)
  expect_error(tasks_collect(tasks), "^Task 1 was not evaluated: its cluster was stopped",
    class = "muster_error_lost")
})
