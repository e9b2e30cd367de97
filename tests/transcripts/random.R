# Random numbers: streams of the workers, of elements, with losses and without.
source("tests/transcripts/transcript.R")
drawn <- function(i, die = 0L, file = "") {
  x <- rnorm(3)
  if (i == die) kill_once(file)
  x
}
cl <- cluster_start(2)
clusterExport(cl, "kill_once")
draws <- function(die = 0L, name = "") {
  clusterSetRNGStream(cl, 42)
  list(
    clusterApply(cl, 1:5, drawn, die, path(name)),
    parLapply(cl, 1:6, drawn),
    clusterMap(cl, drawn, 1:4),
    clusterCall(cl, runif, 2)
  )
}
tell("streams", draws(), digest)
tell("streams again", draws(), digest)
tell("with a loss", draws(4L, "lost"), digest)
tell("the streams after it", clusterCall(cl, function() .Random.seed), digest)
tell("a loss between calls", {
  clusterSetRNGStream(cl, 7)
  a <- clusterCall(cl, rnorm, 2)
  kill_now(cl[[2]])
  list(a, clusterCall(cl, rnorm, 2), clusterCall(cl, rnorm, 1))
}, digest)
tell("the same without", {
  clusterSetRNGStream(cl, 7)
  list(clusterCall(cl, rnorm, 2), clusterCall(cl, rnorm, 2), clusterCall(cl, rnorm, 1))
}, digest)
tell("cluster_map, a seed", cluster_map(cl, 1:20, function(i) rnorm(2), .seed = 3), digest)
tell("cluster_map, the seed again", cluster_map(cl, 1:20, function(i) rnorm(2), .seed = 3), digest)
set.seed(5)
tell("cluster_map, the session's", cluster_map(cl, 1:20, function(i) rnorm(2),
  .seed = TRUE), digest)
tell("the session's, after it", runif(2), digest)
tell("cluster_map, a seed and a loss", cluster_map(cl, 1:20, function(i, file) {
  x <- rnorm(2)
  if (i == 11) kill_once(file)
  x
}, path("map"), .seed = 3), digest, chance = c("worker", "range"))
cluster_stop(cl)
cl <- cluster_start(1)
tell("another generator", {
  clusterCall(cl, function() {
    set.seed(1)
    length(runif(1))
  })
  kill_now(cl[[1]])
  length(clusterCall(cl, function() runif(1)))
})
cluster_stop(cl)
