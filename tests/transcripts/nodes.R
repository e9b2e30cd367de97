# Nodes and their clusters: killNode, stops, new nodes, what a new worker has.
source("tests/transcripts/transcript.R")
cl <- cluster_start(2)
y <- 1:3
clusterExport(cl, c("y", "wait_for"))
invisible(clusterEvalQ(cl, {
  library(stats4)
  options(transcript = "set")
  z <- y * 2L
}))
tell("a new worker has what the lost one had", {
  kill_now(cl[[1]])
  clusterCall(cl, function() 1)
})
tell("what it had", clusterEvalQ(cl, {
  list(z, getOption("transcript"), "package:stats4" %in% search())
}))
tell("a variable of one worker", {
  clusterCall(cl[2], function() assign("mine", 7, globalenv()))
  kill_now(cl[[2]])
  clusterCall(cl, exists, "mine")
})
tell("counted once, not twice", {
  clusterCall(cl, function() n <<- 0)
  for (i in 1:3) clusterCall(cl, function() n <<- n + 1)
  kill_now(cl[[1]])
  clusterCall(cl, function() n)
})
tell("resize", {
  cl <- cluster_resize(cl, 1)
  cl <- cluster_resize(cl, 2)
  list(length(cl), clusterCall(cl, function() exists("z")))
})
tell("killNode", killNode(cl[[1]]))
tell("isNodeAlive", isNodeAlive(cl))
tell("calls then", clusterCall(cl, identity, 1))
tell("the other node", clusterCall(cl[2], identity, 1))
tell("status", cluster_status(cl)[c("worker", "state")])
tell("stop, twice", {
  cluster_stop(cl)
  cluster_stop(cl)
})
tell("stopped: call", clusterCall(cl, identity, 1))
tell("stopped: map", cluster_map(cl, 1:2, identity))
tell("stopped: resize", cluster_resize(cl, 2))
cl <- cluster_start(2)
tell("interrupted by a time limit", {
  setTimeLimit(elapsed = 0.5, transient = TRUE)
  clusterCall(cl, function(file) {
    for (i in 1:1000) Sys.sleep(0.01)
    file.create(file)
  }, path("limit"))
})
setTimeLimit()
tell("usable, without the answer of the other call", list(clusterCall(cl, identity, 2),
  file.exists(path("limit"))))
cluster_stop(cl)
tell("wrong arguments", cluster_start(-1))
tell("wrong arguments, retries", cluster_start(1, retries = -1))
