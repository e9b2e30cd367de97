# Random numbers of maps, tasks and partitions.

draw <- function(i) stats::rnorm(1)
environment(draw) <- globalenv()

# As if no user had been told yet.
local_untold <- function(frame = parent.frame()) {
  told <- the_cluster$drawn_told
  the_cluster$drawn <- the_cluster$drawn_told <- FALSE
  defer(function() {
    the_cluster$drawn <- FALSE
    the_cluster$drawn_told <- told
  }, frame)
}

test_cluster("V6: clusterSetRNGStream() rules maps, tasks and partitions", {
  local_untold()
  local_seed(1)
  cl <- local_cluster(2)
  all <- function(cl) {
    p <- partition_scatter(cl, data.frame(k = rep(1:3, 4)), parts = 2L)
    list(
      map = cluster_map(cl, 1:7, draw),
      tasks = lapply(lapply(1:3, function(i) task_submit(cl, draw, i)), task_value),
      again = cluster_map(cl, 1:7, draw),
      part = partition_collect(partition_map(p, function(d) data.frame(x = stats::runif(2)))),
      groups = partition_collect(
        partition_reduce(p, "k", function(d) data.frame(x = stats::runif(1)))
      ),
      reduce = map_reduce(
        cl, 1:3, function(i) list(key = "a", value = stats::runif(1)),
        function(key, values) sum(values)
      )
    )
  }
  before <- get(".Random.seed", globalenv())
  clusterSetRNGStream(cl, 42)
  first <- all(cl)
  clusterSetRNGStream(cl, 42)
  expect_identical(all(cl), first)
  # Whoever does it.
  clusterSetRNGStream(cl[1L], 42)
  expect_identical(all(cl[1L])[c("map", "tasks", "again")], first[c("map", "tasks", "again")])
  clusterSetRNGStream(cl, 43)
  expect_false(identical(all(cl)$map, first$map))
  expect_identical(anyDuplicated(unlist(first[c("map", "tasks", "again")])), 0L)
  expect_identical(get(".Random.seed", globalenv()), before)
  expect_false(the_cluster$drawn)
  # The workers' own streams are where they were: parallel's verbs draw as without any map.
  clusterSetRNGStream(cl, 42)
  want <- clusterCall(cl, stats::runif, 2)
  clusterSetRNGStream(cl, 42)
  cluster_map(cl, 1:7, draw)
  task_value(task_submit(cl, draw, 1))
  expect_identical(clusterCall(cl, stats::runif, 2), want)
})

test_cluster("V6: a task has a stream of its own, on any worker and after a loss", {
  local_untold()
  cl <- local_cluster(2)
  value <- task_value(task_submit(cl[1L], draw, 1, .seed = 5))
  expect_identical(task_value(task_submit(cl[2L], draw, 1, .seed = 5)), value)
  expect_identical(cluster_map(cl, 1, draw, .seed = 5), list(value))
  expect_false(identical(task_value(task_submit(cl, draw, 1, .seed = 6)), value))
  file <- tempfile()
  defer(function() unlink(file))
  once <- function(file) {
    drawn <- stats::rnorm(1)
    if (!file.exists(file)) {
      file.create(file)
      tools::pskill(Sys.getpid(), 9L)
    }
    drawn
  }
  task <- task_submit(cl, once, file, .seed = 5)
  expect_identical(suppressMessages(task_value(task)), value)
  # It leaves the worker's own stream, and kind of generator, as they were.
  state <- function() list(get0(".Random.seed", globalenv()), RNGkind())
  before <- clusterCall(cl, state)
  task_value(task_submit(cl, function() stats::runif(3), .seed = 1))
  expect_identical(clusterCall(cl, state), before)
  local_seed(1)
  of_session <- task_value(task_submit(cl, draw, 1, .seed = TRUE))
  local_seed(1)
  expect_identical(task_value(task_submit(cl, draw, 1, .seed = TRUE)), of_session)
  expect_error(task_submit(cl, draw, 1, .seed = "a"), "TRUE, FALSE, NULL or one whole number",
    class = "muster_error_input"
  )
  expect_false(the_cluster$drawn)
})

test_cluster("V6: random numbers without a seed are told of once, unless they needn't be", {
  local_untold()
  cl <- local_cluster(1)
  expect_silent(cluster_map(cl, 1:2, function(i) i))
  expect_silent(cluster_map(cl, 1:2, draw, .seed = NULL))
  expect_silent(cluster_map(cl, 1:2, draw, .seed = 3))
  expect_silent(task_value(task_submit(cl, draw, 1, .seed = NULL)))
  expect_silent(clusterCall(cl, draw, 1))
  expect_warning(cluster_map(cl, 1:2, draw), "without a seed", class = "muster_warning_seed")
  expect_silent(cluster_map(cl, 1:2, draw))
  local_untold()
  expect_warning(task_value(task_submit(cl, draw, 1)), class = "muster_warning_seed")
  expect_silent(task_value(task_submit(cl, draw, 1)))
  local_untold()
  p <- partition_scatter(cl, data.frame(k = 1:4), parts = 2L)
  expect_silent(partition_collect(p))
  expect_warning(partition_map(p, function(d) data.frame(x = stats::runif(2))),
    class = "muster_warning_seed"
  )
})

test_cluster("`.seed = NULL` says of partitions, too, that no seed is needed", {
  local_untold()
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = rep(1:3, 4)), parts = 2L)
  drawn <- function(d) data.frame(x = stats::runif(1))
  environment(drawn) <- globalenv()
  keyed <- function(i) list(key = "a", value = stats::runif(1))
  add <- function(key, values) sum(values) + stats::runif(1)
  quiet <- function(code) expect_warning(code, NA)
  quiet(q <- partition_map(p, drawn, .seed = NULL))
  quiet(partition_collect(partition_reduce(p, "k", drawn, .seed = NULL)))
  combined <- function(d) data.frame(x = sum(d$x) + stats::runif(1))
  quiet(partition_collect(partition_reduce(p, "k", drawn, .combine = combined, .seed = NULL)))
  quiet(map_reduce(cl, 1:3, keyed, add, .seed = NULL))
  expect_false(the_cluster$drawn)
  # The others are told still, also where one such goes before.
  expect_warning(partition_map(q, drawn), class = "muster_warning_seed")
})

test_cluster("U7: the stream of one element can be had again", {
  local_seed(1)
  cl <- local_cluster(2)
  again <- function(element, code, seed = 7) {
    before <- get(".Random.seed", globalenv())
    on.exit(assign(".Random.seed", before, globalenv()))
    assign(".Random.seed", cluster_stream(seed, element), globalenv())
    code
  }
  got <- cluster_map(cl, 1:20, function(i) c(stats::rnorm(1), stats::runif(2)), .seed = 7)
  for (i in c(1L, 2L, 20L)) expect_identical(again(i, c(rnorm(1), runif(2))), got[[i]])
  expect_identical(again(1L, runif(1)), task_value(task_submit(cl, stats::runif, 1, .seed = 7)))
  p <- partition_scatter(cl, data.frame(k = 1:6), parts = 3L)
  one_number <- function(d) data.frame(x = stats::runif(1))
  parts <- partition_collect(partition_map(p, one_number, .seed = 7))
  expect_identical(again(3L, runif(1)), parts$x[3L])
  one <- partition_collect(
    partition_reduce(p, "k", one_number, .parts = 1L, .seed = 7)
  )
  second <- parallel::nextRNGSubStream(cluster_stream(7))
  assign(".Random.seed", second, globalenv())
  expect_identical(runif(1), one$x[2L])
  expect_identical(cluster_stream(7), cluster_stream(7, 1))
  expect_identical(parallel::nextRNGStream(cluster_stream(-3, 4)), cluster_stream(-3, 5))
  expect_error(cluster_stream(), class = "muster_error_input")
  expect_error(cluster_stream(TRUE), class = "muster_error_input")
  expect_error(cluster_stream(1.5), class = "muster_error_input")
  expect_error(cluster_stream(1, 0), class = "muster_error_input")
})
