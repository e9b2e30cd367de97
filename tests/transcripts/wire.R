# What goes over the wire, frame by frame: one worker or static schedules, so that each
# channel's frames are the same in each run. The runner records them (wire.c).
source("tests/transcripts/transcript.R")
# Names of files in calls are the same in each run.
setwd(folder)
path <- identity
cl <- cluster_start(2)
x <- 41
say <- function(code) invisible(suppressMessages(code))
say(clusterExport(cl, c("x", "kill_once")))
say(clusterEvalQ(cl, y <- x + 1))
say(clusterCall(cl, function(a) a + y, 1))
say(clusterApply(cl, 1:6, function(i) i^2))
say(parLapply(cl, 1:4, function(i) letters[i]))
say(try(clusterCall(cl, function() stop("boom")), silent = TRUE))
say(clusterCall(cl[2], function(v) sum(v), (1:400) / 2))
say(clusterCall(cl[1], function(v) v, (1:300000) / 2))
clusterSetRNGStream(cl, 42)
say(clusterCall(cl, rnorm, 2))
for (k in 1:3) parallel:::sendCall(cl[[1]], identity, list(k), tag = k)
for (k in 1:3) say(parallel:::recvResult(cl[[1]]))
# One that is lost in the middle: journal, stream and the call that it owed.
say(clusterApply(cl, 1:2, function(i, file) {
  if (i == 2) kill_once(file)
  rnorm(1)
}, path("lost")))
say(clusterCall(cl, function() y))
cluster_stop(cl)

# Tasks, on one worker: map.R has the maps.
cl <- cluster_start(1, retries = 1)
say(clusterExport(cl, c("wait_for", "kill_once")))
for (i in 1:3) say(task_value(task_submit(cl, function(i) i * 2, i)))
say(try(task_value(task_submit(cl, function() stop("boom"))), silent = TRUE))
say(suppressWarnings(task_value(task_submit(cl, function() {
  message("told")
  warning("told, too")
}))))
say(task_value(task_submit(cl, function(file) kill_once(file), path("once"))))
say(try(task_value(task_submit(cl, function() tools::pskill(Sys.getpid(), 9L))), silent = TRUE))
task <- task_submit(cl, function(started, file) {
  file.create(started)
  wait_for(file)
}, path("started"), path("never"))
say(wait_for(path("started")))
say(task_cancel(task))
say(clusterCall(cl, identity, 3))
cluster_stop(cl)
cat("= done\n")
