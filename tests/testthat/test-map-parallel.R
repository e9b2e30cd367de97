# cluster_map() in the session, and on clusters of package parallel.

# Each of these gives the same everywhere.
cases <- list(
  list(1:20, function(x) x^2), list(c(a = 1, b = 2), ~ .x + 1), list(list(1, NULL, "c"), is.null),
  list(1:5, function(x, by) x * by, by = 3), list(list(), identity), list(c(one = 4), "sqrt"),
  list(1:9, function(x) rnorm(2), .seed = 7), list(data.frame(p = 1:3, q = 4:6), sum),
  list(list(quote(a), quote(a + b)), class),
  list(1:3, function(x, .k) x + .k, .args = list(.k = 2)),
  list(1:3, function(x) if (x == 2) NULL else x)
)

expect_same_everywhere <- function(elsewhere, cl) {
  for (case in cases) {
    expect_identical(
      do.call(cluster_map, c(list(elsewhere), case)), do.call(cluster_map, c(list(cl), case))
    )
  }
}

# Errors and what they tell, for a cluster and elsewhere.
expect_same_errors <- function(elsewhere) {
  fails <- function(x) {
    if (x != 3) return(x)
    stop(structure(class = c("my_error", "error", "condition"), list(message = "no", call = NULL)))
  }
  named <- c(a = 1, b = 2, c = 3, d = 4)
  error <- tryCatch(cluster_map(elsewhere, named, fails), my_error = identity)
  expect_s3_class(error, c("muster_error_remote", "muster_error", "my_error"))
  expect_match(conditionMessage(error), "^Element 3 \\(`c`\\) raised an error: no")
  expect_identical(error$element, 3L)
  expect_s3_class(error$condition, "my_error")
  expect_identical(error$results[1:2], list(1, 2))
  expect_identical(conditionCall(error)[[1L]], quote(cluster_map))
  expect_identical(cluster_results()[c("a", "b")], list(a = 1, b = 2))
  returned <- cluster_map(elsewhere, 1:4, fails, .on_error = "return")
  expect_identical(returned[-3L], list(1L, 2L, 4L))
  expect_s3_class(returned[[3L]], c("muster_error_remote", "my_error"))
  expect_identical(returned[[3L]]$element, 3L)
  expect_null(cluster_results())
  expect_error(cluster_map(elsewhere, 1:3, identity, .typo = 1), class = "muster_error_input")
  expect_error(cluster_map(elsewhere, 1:3, identity, .retries = -1), class = "muster_error_input")
  expect_error(cluster_map(elsewhere, quote(a), identity), class = "muster_error_input")
  expect_error(cluster_map(elsewhere, 1:3, 5), class = "muster_error_input")
}

test_cluster("with NULL for a cluster, a map is evaluated here", {
  local_seed(1)
  expect_same_everywhere(NULL, local_cluster(2))
  expect_same_errors(NULL)
  seen <- integer()
  expect_identical(cluster_map(NULL, 1:3, function(x) seen <<- c(seen, x))[[3L]], 1:3)
  before <- get(".Random.seed", globalenv())
  cluster_map(NULL, 1:3, rnorm, .seed = 1)
  expect_identical(get(".Random.seed", globalenv()), before)
  expect_warning(cluster_map(NULL, 1, function(x) warning("mine")), "mine")
  depth <- NULL
  try(silent = TRUE, withCallingHandlers(
    cluster_map(NULL, 1, function(x) stop("deep")),
    muster_error_remote = function(error) depth <<- sys.calls()
  ))
  shown <- vapply(depth, function(call) deparse(call)[1L], "")
  expect_true("stop(\"deep\")" %in% shown) # for traceback()
  expect_error(cluster_map(NULL, 1, "no such function"), "no such function")
})

test_cluster("a map runs on workers of package parallel", {
  local_seed(1)
  other <- parallel::makePSOCKcluster(2)
  defer(function() parallel::stopCluster(other))
  expect_same_everywhere(other, local_cluster(2))
  expect_same_errors(other)
  assign("offset_of_map", 5, globalenv())
  defer(function() rm("offset_of_map", envir = globalenv()))
  uses <- function(x) x + offset_of_map
  environment(uses) <- globalenv()
  expect_identical(cluster_map(other, 1:2, uses), list(6, 7))
  expect_identical(
    parallel::clusterCall(other, exists, "offset_of_map"), list(FALSE, FALSE)
  )
  seeds <- parallel::clusterCall(other, get0, ".Random.seed")
  cluster_map(other, 1:4, function(i) stats::runif(1), .seed = 1)
  expect_identical(parallel::clusterCall(other, get0, ".Random.seed"), seeds)
})
