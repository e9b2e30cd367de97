test_cluster("the answer is that of lapply(), for many kinds of x", {
  cl <- local_cluster(2)
  cases <- list(
    1:100, c(a = 1, b = 2), letters, list(1, "a", NULL, list(2)), c(TRUE, NA), 1i * 1:3,
    as.raw(1:5), integer(), list(), factor(c("x", "y")), as.Date("2026-01-01") + 0:2,
    data.frame(a = 1:2, b = 3:4), quote(f(x, y))[-1L], expression(a, b)
  )
  for (x in cases) {
    expect_identical(cluster_map(cl, x, function(e) list(e)), lapply(x, function(e) list(e)))
  }
  expect_identical(cluster_map(cl, 1:3, function(i) NULL), lapply(1:3, function(i) NULL))
  expect_identical(cluster_map(cl, 1:40, function(i) i / 2), lapply(1:40, function(i) i / 2))
  one <- function(i) matrix(i)
  expect_identical(cluster_map(cl, 1:40, one), lapply(1:40, one))
  expect_identical(cluster_map(cl, 4:9, "sqrt"), lapply(4:9, sqrt))
  expect_identical(cluster_map(cl, 1:3, function(x, y) x + y, y = 10), lapply(1:3, `+`, 10))
  expect_identical(cluster_map(cl, 1:3, function(x, e) e, quote(a + b))[[3L]], quote(a + b))
})

test_cluster("what the function uses of the global environment goes along", {
  local_globals()
  assign("k_of_test", 5, globalenv())
  assign("g_of_test", eval(quote(function(y) y + k_of_test), globalenv()), globalenv())
  cl <- local_cluster(2)
  f <- eval(quote(function(x) g_of_test(x) * 2), globalenv())
  expect_identical(unlist(cluster_map(cl, 1:3, f)), c(12, 14, 16))
  closure <- eval(quote(local({
    z <- 100
    function(x) g_of_test(x) + z
  })), globalenv())
  expect_identical(unlist(cluster_map(cl, 1:3, closure)), c(106, 107, 108))
  expect_identical(clusterEvalQ(cl, exists("k_of_test")), list(FALSE, FALSE))
  local_settings(muster.globals_max = 100)
  expect_error(cluster_map(cl, 1:3, f), class = "muster_error_limit")
})

test_cluster("each element has its own random numbers, whatever the pieces and losses", {
  local_seed(1)
  cl <- local_cluster(2)
  draw <- function(i) rnorm(1)
  all <- cluster_map(cl, 1:30, draw, .seed = 7)
  expect_identical(cluster_map(cl[1L], 1:30, draw, .seed = 7), all)
  file <- tempfile()
  defer(function() unlink(file))
  killed <- suppressMessages(cluster_map(cl, 1:30, function(i, file) {
    if (i == 20 && !file.exists(file)) {
      file.create(file)
      tools::pskill(Sys.getpid(), 9L)
    }
    rnorm(1)
  }, file, .seed = 7))
  expect_identical(killed, all)
  seed <- session_seed()
  cluster_map(cl, 1:3, draw, .seed = 3)
  expect_identical(session_seed(), seed)
  expect_false(anyDuplicated(unlist(all)) > 0L)
})

test_cluster("an element's error says which it was, and has the other results", {
  cl <- local_cluster(2)
  f <- function(i) {
    if (i != 7) return(i)
    Sys.sleep(0.5) # tidy: the other worker may have element 6 and is to be done with it
    stop("bad element")
  }
  condition <- tryCatch(cluster_map(cl, 1:10, f), muster_error_remote = identity)
  expect_s3_class(condition, "muster_error_remote")
  expect_identical(condition$element, 7L)
  expect_match(conditionMessage(condition), "Element 7 raised an error: bad element")
  expect_length(condition$results, 10L)
  expect_identical(condition$results[[6L]], 6L)
  got <- cluster_map(cl, 1:10, f, .on_error = "return")
  expect_s3_class(got[[7L]], "simpleError")
  expect_identical(unlist(got[-7L]), (1:10)[-7L])
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
})

test_cluster("an element that kills its worker is named, and the others are there", {
  cl <- local_cluster(2, retries = 0)
  condition <- tryCatch(
    suppressMessages(cluster_map(cl, 1:4, function(i) {
      if (i == 3) tools::pskill(Sys.getpid(), 9L)
      i
    })),
    muster_error_lost = identity
  )
  expect_s3_class(condition, "muster_error_lost")
  expect_true(3L %in% seq(condition$range[1L], condition$range[2L]))
  expect_identical(unlist(cluster_map(cl, 1:4, identity)), 1:4)
})

test_cluster("a straggler's elements are given to an idle worker, too, where that is allowed", {
  cl <- local_cluster(2)
  folder <- local_folder()
  slow_once <- function(i, folder) {
    if (i == 20) {
      file.create(file.path(folder, Sys.getpid()))
      if (length(list.files(folder)) == 1L) Sys.sleep(60) # tidy: the worker's work
    }
    i
  }
  seconds <- system.time(got <- cluster_map(cl, 1:20, slow_once, folder, .speculate = TRUE))[[3L]]
  expect_identical(unlist(got), 1:20)
  expect_lt(seconds, 30)
  expect_length(list.files(folder), 2L)
})

test_cluster("an interrupt ends what the map had under way", {
  cl <- local_cluster(2)
  left <- tryCatch(
    {
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      cluster_map(cl, 1:4, function(i) Sys.sleep(60))
    },
    error = function(e) "left",
    finally = setTimeLimit()
  )
  expect_identical(left, "left")
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
})
