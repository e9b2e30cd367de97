# What a function captured and doesn't use stays behind.

# Bytes of a call as it is sent.
sent_bytes <- function(fun) length(serialize(muster:::without_unused(fun), NULL))

test_cluster("A9 captured objects that aren't used don't travel", {
  local_seed(1)
  make <- function(data, big = numeric(5e5)) {
    large <- numeric(1e6)
    small <- 3
    help <- function(x) x + small
    force(big)
    list(
      none = function(i) i, some = function(i) help(i), uses = function(i) large[i] + i,
      text = function(i) paste("large", i), looks = function(i) get("lar")
    )
  }
  environment(make) <- globalenv()
  made <- make(numeric(1e6))
  outer <- environment(made$none)
  expect_lt(sent_bytes(made$none), 1e5)
  expect_lt(sent_bytes(made$some), 1e5)
  expect_gt(sent_bytes(made$uses), 8e6)
  expect_gt(sent_bytes(made$text), 8e6) # a name within a string counts
  expect_gt(sent_bytes(made$looks), 8e6)
  expect_identical(environment(made$none), outer) # the user's own stays as it is
  cl <- local_cluster(1)
  expect_identical(cluster_map(cl, 1:2, made$some), list(4, 5))
  expect_identical(task_value(task_submit(cl, made$some, 2)), 5)
  expect_identical(task_value(task_submit(cl, made$none, 2)), 2)
})

test_cluster("A9 frames that can't be looked at without evaluating code travel as they are", {
  evaluated <- FALSE
  make <- function(late, absent) {
    large <- numeric(1e6)
    function(i) i
  }
  environment(make) <- globalenv()
  fun <- make({
    evaluated <- TRUE
    1
  })
  expect_lt(sent_bytes(fun), 1e5)
  expect_false(evaluated)
  expect_false(exists("absent", environment(muster:::without_unused(fun)), inherits = FALSE))
})

test_cluster("A9 a frame with `...`, missing or not, is looked at like any other", {
  make <- function(...) {
    large <- numeric(1e6)
    list(plain = function(i) i, dots = function(i) i + ..1, sum = function(i) sum(i, ...))
  }
  environment(make) <- globalenv()
  expect_lt(sent_bytes(make()$plain), 1e5)
  expect_lt(sent_bytes(make(2, stop("evaluated"))$plain), 1e5)
  cl <- local_cluster(1)
  expect_identical(cluster_map(cl, 1:2, make(3)$dots), list(4, 5))
  expect_identical(cluster_map(cl, 1:2, make(3, 4)$sum), list(8, 9))
  expect_identical(cluster_map(cl, 1:2, make()$sum), list(1L, 2L))
})

test_cluster("A9 large objects that travel are named once", {
  cl <- local_cluster(1)
  large <- NULL
  fun <- local({
    large <- raw(1.1e8)
    function(i) large[i]
  }, new.env(parent = globalenv()))
  expect_message(
    expect_identical(cluster_map(cl, 1, fun), list(as.raw(0))),
    "`large` (110 MB), which your function uses", fixed = TRUE, class = "muster_message_large"
  )
  expect_silent(cluster_map(cl, 1, fun))
})
