# Code as a task, and with_cluster().

with_default <- function(cl, frame = parent.frame()) {
  parallel::setDefaultCluster(cl)
  defer(function() parallel::setDefaultCluster(NULL), frame)
}

test_cluster("code is evaluated with what it names, as it is now", {
  with_default(local_cluster(2))
  twice <- function(x) x * k
  make <- function(n, unused = stop("never"), ...) {
    k <- 2
    large <- numeric(1e6)
    task <- task({
      m <- twice(n) + k + ...length()
      if (m > 0) return(c(m, environmentName(parent.env(globalenv())) == "x"))
      stop("not here")
    })
    k <- n <- 100
    task_value(task)
  }
  k <- 10
  expect_identical(make(3, , 1, 2), c(34, 0))
  expect_identical(task_value(task(1 + 1)), 2)
  expect_identical(task_value(task(quote(a + b))), quote(a + b))
  expect_null(task_value(task(NULL)))
  assign("task_global", 5, globalenv())
  defer(function() rm("task_global", envir = globalenv()))
  expect_identical(eval(quote(muster::task_value(muster::task(task_global + 1))), globalenv()), 6)
  hidden <- function() {
    large <- numeric(1e6)
    task_value(task(get(paste0("lar", "ge"))))
  }
  expect_error(hidden(), class = "muster_error_limit")
})

test_cluster("tasks that it names stand for their values", {
  cl <- local_cluster(2)
  with_default(cl)
  one <- task({
    Sys.sleep(0.05) # tidy: until the next is submitted
    20
  })
  within <- function(two) {
    three <- task(one + two)
    task_value(task(c(one, two, three)))
  }
  expect_identical(within(1), c(20, 1, 21))
  expect_identical(within(task(2)), c(20, 2, 22))
  bad <- task(stop("bad"), .label = "first")
  expect_error(task_value(task(bad + 1)), "Task `first` raised", class = "muster_error_needs")
  map <- task_map(cl, 1:2, identity)
  error <- tryCatch(task(sum(map)), error = identity)
  expect_s3_class(error, "muster_error_input")
  expect_identical(conditionCall(error), quote(task(sum(map))))
})

test_cluster("options are those of task_submit()", {
  cl <- local_cluster(2)
  expect_identical(
    task_value(task(rnorm(2), .cl = cl, .seed = 3)),
    task_value(task_submit(cl, function() rnorm(2), .seed = 3))
  )
  expect_error(task_value(task(Sys.sleep(60), cl, .timeout = 0.1)), # tidy: it is ended
    class = "muster_error_timeout"
  )
  labelled <- task(1, cl[1L], .label = "name", .priority = 2L)
  expect_match(format(labelled), "name")
  error <- tryCatch(task(1, cl, .retries = -1), error = identity)
  expect_s3_class(error, "muster_error_input")
  expect_identical(conditionCall(error)[[1L]], quote(task))
  expect_error(task(1), "no default cluster", class = "muster_error_input")
  expect_error(task(), class = "muster_error_input")
  expect_error(task(1, list()), class = "muster_error_input")
})

test_cluster("with_cluster() has a default cluster, and stops one that it started", {
  cl <- local_cluster(1)
  inner <- NULL
  sum <- with_cluster(2, threads = 1, {
    inner <- parallel::getDefaultCluster()
    x <- unlist(parallel::parLapply(X = 1:3, fun = function(i) i^2))
    with_cluster(cl, {
      expect_identical(parallel::getDefaultCluster(), cl)
      sum(x) + task_value(task(1))
    })
  })
  expect_identical(sum, 15)
  expect_length(inner, 2L)
  expect_error(task(1, inner), class = "muster_error")
  expect_null(parallel::getDefaultCluster())
  expect_identical(task_value(task(3, cl)), 3) # goes on
  expect_error(with_cluster(2, {
    inner <- parallel::getDefaultCluster()
    stop("left")
  }), "left")
  expect_error(task(1, inner), class = "muster_error")
  expect_null(parallel::getDefaultCluster())
  expect_invisible(with_cluster(cl, invisible(1)))
  expect_error(with_cluster(cl, 1, packages = "stats"), class = "muster_error_input")
  expect_error(with_cluster("no such host", 1), class = "muster_error")
  expect_error(with_cluster(), class = "muster_error_input")
})

test_cluster("V13: an argument that wasn't given stays missing in the code", {
  cl <- local_cluster(1)
  add <- function(x, y) if (missing(y)) x else x + y
  by_task <- function(x, y) task_value(task(add(x = x, y = y), cl))
  asks <- function(x, y) task_value(task(c(missing(x), missing(y)), cl))
  through <- function(x, y) by_task(x, y)
  default <- function(x, y = stop("y is needed")) task_value(task(add(x), cl))
  inner <- function(x, y) {
    own <- function() add(x, y)
    task_value(task(own(), cl))
  }
  expect_identical(by_task(1), 1)
  expect_identical(by_task(1, 2), 3)
  expect_identical(through(1), 1)
  expect_error(inner(1), "missing", class = "muster_error_remote") # as without a cluster
  expect_identical(asks(1), c(FALSE, TRUE))
  expect_identical(asks(, 1), c(TRUE, FALSE))
  expect_identical(default(1), 1)
  use <- function(x, y) task_value(task(x + y, cl))
  expect_error(use(1), "missing", class = "muster_error_remote")
})
