# cluster_map: shapes, names, errors, what it may refuse.
source("tests/transcripts/transcript.R")
cl <- cluster_start(2)
k <- 3
tell("a list", cluster_map(cl, 1:5, function(i) i * k))
tell("names", cluster_map(cl, c(a = 1, b = 2), function(i, j) i + j, 10))
tell("nothing", cluster_map(cl, list(), identity))
tell("many", sum(unlist(cluster_map(cl, 1:5000, function(i) i %% 3))))
tell("an error", cluster_map(cl, 1:6, function(i) if (i == 4) stop("four") else i),
  chance = c("worker", "results"))
tell("an error of a class", cluster_map(cl, 1:2, function(i) {
  mine <- list(message = "mine!", call = NULL)
  if (i == 2) stop(structure(class = c("mine", "error", "condition"), mine))
}), chance = c("worker", "results"))
tell("conditions", cluster_map(cl, 1:2, function(i) {
  if (i == 1) warning("careful")
  i
}))
tell("a connection", cluster_map(cl, 1:2, function(i) stdin()), chance = "worker")
tell("no function", cluster_map(cl, 1:2, 5))
tell("no list", cluster_map(cl, sum, identity))
cluster_stop(cl)
