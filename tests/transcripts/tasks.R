# Tasks: values, conditions, cancels, timeouts, waits.
source("tests/transcripts/transcript.R")
cl <- cluster_start(2)
clusterExport(cl, c("wait_for", "kill_once"))
tell("values", lapply(lapply(1:6, function(i) task_submit(cl, function(i) i^2, i)), task_value))
tell("asked twice", {
  task <- task_submit(cl, function() 5)
  list(task_value(task), task_value(task), task_done(task))
})
tell("a name, named arguments", task_value(task_submit(cl, "paste", "a", "b", sep = "+")))
tell("an error", task_value(task_submit(cl, function(x) stop("task failed"), 1)), chance = "worker")
tell("an error of a class", task_value(task_submit(cl, function() {
  mine <- list(message = "mine!", call = NULL, k = 5)
  stop(structure(class = c("mine", "error", "condition"), mine))
})), chance = "worker")
tell("conditions", {
  task <- task_submit(cl, function() {
    message("one")
    warning("two")
    message("three")
    8
  })
  list(task_value(task), task_value(task))
})
tell("not done yet", {
  task <- task_submit(cl, function(file) wait_for(file), path("a"))
  list(task_done(task), tryCatch(task_value(task, timeout = 0.05), error = identity))
})
tell("done then", {
  file.create(path("a"))
  list(task_wait(task), task_value(task))
})
tell("a timeout of the wait", task_value(task_submit(cl, function(file) wait_for(file), path("b")),
  timeout = 0.05))
file.create(path("b"))
tell("any", {
  tasks <- list(
    task_submit(cl, function(file) wait_for(file), path("c")),
    task_submit(cl, function() "quick")
  )
  list(task_wait(tasks, any = TRUE), task_value(tasks[[2]]))
})
file.create(path("c"))
tell("cancel one that runs", {
  task <- task_submit(cl, function(file, started) {
    file.create(started)
    wait_for(file)
  }, path("never"), path("started"))
  wait_for(path("started"))
  list(task_cancel(task), task_cancel(task), task_done(task))
})
tell("its value", task_value(task))
tell("cancel those that wait", {
  busy <- lapply(1:2, function(i) task_submit(cl, function(file) wait_for(file), path("d")))
  later <- lapply(1:4, function(i) task_submit(cl, function(i, file) file.create(file), i,
    path(paste0("ran", i))))
  cancelled <- task_cancel(later)
  file.create(path("d"))
  list(cancelled, unlist(lapply(busy, task_value)), unlist(task_wait(later)))
})
tell("a cancelled one's value", task_value(later[[1]]))
tell("cancel one that is done", {
  task <- task_submit(cl, function() 1)
  task_value(task)
  task_cancel(task)
})
tell("tasks and calls", {
  tasks <- lapply(1:4, function(i) task_submit(cl, function(i) i * 3, i))
  list(clusterCall(cl, function() "call"), lapply(tasks, task_value))
})
tell("some nodes", unlist(lapply(1:3, function(i) {
  task_value(task_submit(cl[2], function() Sys.getpid())) == cl[[2]]$pid
})))
tell("not a task", task_value(1))
tell("not a function", task_submit(cl, 5))
tell("a connection", {
  con <- file(path("con"), "w")
  task_submit(cl, identity, con)
})
close(con)
tell("many", sum(vapply(lapply(1:500, function(i) task_submit(cl, function(i) i, i)), task_value,
  0L)))
tell("lost, once", {
  file <- path("lost")
  task_value(task_submit(cl, function(file) list(kill_once(file), 3), file))
}, chance = "worker")
tell("stopped under it", {
  for (i in 1:2) task <- task_submit(cl, function(file) wait_for(file), path("never"))
  waits <- lapply(1:4, function(i) task_submit(cl, function() 1))
  cluster_stop(cl)
  list(task_done(task), tryCatch(task_value(waits[[4]]), error = identity))
})
tell("its value", task_value(task))
tell("submitted to a stopped one", task_submit(cl, function() 1))
cl <- cluster_start(1, timeout = 0.3)
tell("a task that takes too long", task_value(task_submit(cl, function() Sys.sleep(60))))
tell("the next", task_value(task_submit(cl, function() "here")))
cluster_stop(cl)
