# Workers that are lost in calls: retries, poison, timeouts, healing and none.
source("tests/transcripts/transcript.R")
dies <- function(i, at, file = NULL) {
  if (i == at) {
    if (is.null(file)) tools::pskill(Sys.getpid(), 9L) else return(list(kill_once(file), i))
    Sys.sleep(30) # tidy: the worker's work
  }
  i
}
cl <- cluster_start(2)
x <- 5
clusterExport(cl, c("kill_once", "x"))
invisible(clusterApply(cl, 1:2, function(i) me <<- i))
tell("clusterCall", clusterCall(cl, function(file) {
  if (me == 2) kill_once(file)
  x
}, path("call")))
tell("clusterApply", clusterApply(cl, 1:5, dies, 4L, path("apply")))
tell("clusterApplyLB", clusterApplyLB(cl, 1:5, dies, 4L, path("lb")), chance = "worker")
tell("parLapply", parLapply(cl, 1:5, dies, 2L, path("lapply")))
tell("clusterMap", clusterMap(cl, dies, 1:4, MoreArgs = list(at = 3L, file = path("cmap"))))
tell("cluster_map", cluster_map(cl, 1:9, dies, 5L, path("map")), chance = c("worker", "range"))
tell("quits", clusterApply(cl, 1:2, function(i, file) {
  if (i == 2 && !file.exists(file)) {
    file.create(file)
    quit("no", 3L)
  }
  i
}, path("quit")))
tell("segmentation fault", clusterApply(cl, 1:2, function(i, file) {
  if (i == 2) kill_once(file, 11L)
  i
}, path("segv")))
tell("state after it", clusterCall(cl, function() list(x, exists("kill_once"))))
tell("between calls", {
  kill_now(cl[[1]])
  clusterCall(cl, function() x)
})
tell("restarts", cluster_status(cl)$restarts > 0)
cluster_stop(cl)

cl <- cluster_start(2, retries = 1)
tell("poison, parLapply", parLapply(cl, 1:5, dies, 2L))
tell("poison, clusterApply", clusterApply(cl, 1:5, dies, 2L))
tell("poison, clusterCall", clusterCall(cl[1], dies, 1L, 1L))
tell("poison, a task", task_value(task_submit(cl, dies, 1L, 1L)), chance = "worker")
tell("poison, cluster_map", cluster_map(cl, 1:4, dies, 3L, .retries = 1),
  chance = c("worker", "range", "results"))
tell("usable", parLapply(cl, 1:4, identity))
cluster_stop(cl)

cl <- cluster_start(2, retries = 0)
tell("no retries", clusterApply(cl, 1:4, dies, 2L))
tell("no retries, a task", task_value(task_submit(cl, dies, 1L, 1L)), chance = "worker")
tell("no retries, between calls", {
  kill_now(cl[[1]])
  clusterCall(cl, function() 1)
})
cluster_stop(cl)

cl <- cluster_start(2, healing = FALSE)
tell("no healing", {
  kill_now(cl[[1]])
  clusterCall(cl, identity, 1)
})
tell("no healing, again", clusterCall(cl, identity, 1))
tell("no healing, the others", clusterCall(cl[2], identity, 2))
tell("no healing, a task", task_value(task_submit(cl[1], identity, 2)))
cluster_stop(cl)

cl <- cluster_start(2, timeout = 0.4)
tell("too long", clusterApply(cl, 1:2, function(i) {
  if (i == 2) Sys.sleep(60)
  i
}))
tell("too long, usable", clusterApply(cl, 1:2, identity))
tell("too long, cluster_map", cluster_map(cl, 1:3, function(i) {
  if (i == 2) Sys.sleep(60)
  i
}), chance = c("worker", "range", "results"))
cluster_stop(cl)
