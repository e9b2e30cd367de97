# What becomes of a map's results: types, reduction, results as they come; maps of several vectors.

# On workers, in the session, and on workers of package parallel. One worker: elements are done in
# their order.
everywhere <- function(run, workers = 2) {
  other <- parallel::makePSOCKcluster(2)
  on.exit(parallel::stopCluster(other))
  cl <- cluster_start(workers)
  on.exit(cluster_stop(cl), add = TRUE)
  for (where in list(NULL, other, cl)) run(where)
}

test_cluster("values have the type and the shape that .value asks for", {
  everywhere(function(cl) {
    x <- c(a = 1, b = 2, c = 3)
    cases <- list(
      list(x, function(x) x / 2, numeric(1)), list(x, function(x) 1L, numeric(1)),
      list(1:3, function(x) x > 1, integer(1)), list(x, as.character, ""),
      list(x, function(x) c(p = x, q = 2), numeric(2)),
      list(1:4, function(i) c(i, i), c(u = 0, v = 0)),
      list(x, function(x) diag(x, 2), diag(2)), list(1:2, as.raw, raw(1)),
      list(1:2, function(i) complex(1, i), complex(1)), list(integer(), identity, ""),
      list(1:2, identity, complex(1)), list(x, identity, matrix(0, 1, 1)),
      list(1:2, function(i) c(a = i, b = i), array(0, 2)),
      list(integer(), identity, c(a = 1, b = 2))
    )
    for (case in cases) {
      expect_identical(
        cluster_map(cl, case[[1L]], case[[2L]], .value = case[[3L]]),
        vapply(case[[1L]], case[[2L]], case[[3L]])
      )
    }
  })
})

test_cluster("a value that isn't like .value is an error that names its element", {
  everywhere(function(cl) {
    misfits <- list(
      "two", c(1, 2), NULL, list(1), factor("u"), quote(a), 1i, Sys.Date(), as.raw(1), mean
    )
    for (misfit in misfits) {
      error <- tryCatch(
        cluster_map(cl, c(a = 1, b = 2, c = 3), function(i) if (i == 2) misfit else i, .value = 1),
        muster_error_value = identity
      )
      expect_match(conditionMessage(error), "^Element 2 \\(`b`\\) gave a value of type ")
      expect_identical(error$element, 2L)
      expect_identical(error$results[[1L]], 1)
      expect_null(error$results[[2L]])
      expect_identical(cluster_results()[["a"]], 1)
      expect_identical(conditionCall(error)[[1L]], quote(cluster_map))
    }
    # The first of several things that are wrong.
    error <- tryCatch(
      cluster_map(cl, 1:9, function(i) if (i == 1) "x" else stop("late"), .value = 1),
      muster_error = identity
    )
    expect_s3_class(error, "muster_error_value")
    expect_identical(error$element, 1L)
    expect_error(cluster_map(cl, 1:2, identity, .value = 1i, .on_error = "return"), "`.on_error`",
      class = "muster_error_input"
    )
    for (wrong in list(list(1), Sys.Date(), numeric(), mean)) {
      expect_error(cluster_map(cl, 1, identity, .value = wrong), class = "muster_error_input")
    }
  }, workers = 1)
})

test_cluster("results are reduced in the elements' order", {
  everywhere(function(cl) {
    x <- 1 / seq_len(1000)
    expect_identical(cluster_map(cl, x, sqrt, .reduce = `+`), Reduce(`+`, lapply(x, sqrt)))
    expect_identical(cluster_map(cl, letters, toupper, .reduce = paste0, .init = "-"),
      paste0("-", paste(LETTERS, collapse = ""))
    )
    expect_identical(
      cluster_map(cl, 1:40, identity, .value = 0, .reduce = ~ c(.x, .y), .init = integer()), 1:40
    )
    expect_null(cluster_map(cl, integer(), identity, .reduce = `+`))
    expect_identical(cluster_map(cl, integer(), identity, .reduce = `+`, .init = 7), 7)
    expect_null(cluster_map(cl, 1:5, function(i) NULL, .reduce = c))
    # Some of the elements fail.
    fails <- function(i) if (i == 2) stop("no") else i
    count <- function(n, value) n + !inherits(value, "error")
    expect_identical(
      cluster_map(cl, 1:5, fails, .on_error = "return", .reduce = count, .init = 0), 4
    )
    error <- tryCatch(cluster_map(cl, 1:5, fails, .reduce = `+`, .init = 10), error = identity)
    expect_s3_class(error, "muster_error_remote")
    reduced <- attr(error$results, "reduced")
    expect_identical(sum(reduced$value, unlist(error$results[1:2])), 11) # one of them has it
    left <- suppressMessages(tryCatch(
      cluster_map(cl, 1:6, identity, .reduce = function(a, b) if (b == 3) stop("mine") else a + b),
      error = identity
    ))
    expect_s3_class(left, "simpleError")
    expect_identical(attr(cluster_results(), "reduced"), list(value = 3L, elements = 2L))
    expect_identical(cluster_results()[[3L]], 3L)
  }, workers = 1)
})

test_cluster("a killed worker's results are reduced once, too", {
  cl <- local_cluster(2)
  flag <- file.path(local_folder(), "killed")
  sum <- suppressMessages(cluster_map(cl, 1:200, function(i) {
    if (i == 50 && !file.exists(flag)) {
      file.create(flag)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    i
  }, .reduce = `+`))
  expect_identical(sum, sum(1:200))
})

test_cluster("results are given as they come, each once", {
  everywhere(function(cl) {
    values <- integer()
    given <- integer()
    map <- cluster_map(cl, 11:60, identity, .on_result = function(value, i) {
      values[i] <<- value
      given <<- c(given, i)
    })
    expect_identical(values, 11:60)
    expect_identical(sort(given), 1:50)
    expect_identical(map, as.list(11:60))
    # Before they are reduced away.
    given <- integer()
    sum <- cluster_map(cl, 1:9, identity, .reduce = `+`, .on_result = ~ {given <<- c(given, .x)})
    expect_identical(sort(given), 1:9)
    expect_identical(sum, 45L)
    expect_error(
      suppressMessages(cluster_map(cl, 1:3, identity, .on_result = ~ stop("mine"))),
      "^mine$"
    )
    expect_true(length(unlist(cluster_results())) > 0L)
    expect_error(cluster_map(cl, 1, identity, .on_result = 3), class = "muster_error_input")
    expect_error(cluster_map(cl, 1, identity, .reduce = a ~ b), "`.reduce`", fixed = TRUE)
    expect_error(cluster_map(cl, 1, identity, .init = 1), "`.init`", fixed = TRUE)
    expect_error(cluster_map(cl, 1, identity, .reduce = "no such"), class = "muster_error_input")
  })
  # While others are still evaluated.
  cl <- local_cluster(2)
  go <- file.path(local_folder(), "go")
  waits <- function(i) {
    while (i == 2 && !file.exists(go)) Sys.sleep(0.01) # tidy: for the first result
    i
  }
  seen <- cluster_map(cl, 1:2, waits, .on_result = ~ file.create(go), .timeout = 600)
  expect_identical(seen, list(1L, 2L))
})

test_cluster("what callbacks keep of their arguments stays as it was", {
  everywhere(function(cl) {
    kept <- list()
    cluster_map(cl, 1:30, function(i) i * 10, .on_result = function(value, i) {
      kept[[length(kept) + 1L]] <<- function() c(i, value)
    })
    expect_identical(sort(vapply(kept, function(f) f()[2L], 0)), 1:30 * 10)
    expect_identical(sort(vapply(kept, function(f) f()[1L], 0)), as.numeric(1:30))
    adds <- function(i) function(x) x + i
    composed <- cluster_map(cl, 1:20, adds, .reduce = function(f, g) function(x) g(f(x)))
    expect_identical(composed(0), sum(1:20) + 0)
  })
})

test_cluster("callbacks draw from the session's stream", {
  local_seed(3)
  draws <- runif(4)
  everywhere(function(cl) {
    set.seed(3)
    drawn <- numeric()
    cluster_map(cl, 1:3, rnorm, .seed = 1, .on_result = ~ {drawn <<- c(drawn, runif(1))})
    expect_identical(c(drawn, runif(1)), draws)
  })
})

test_cluster("an error's results are those that callbacks were given", {
  everywhere(function(cl) {
    seen <- integer()
    error <- tryCatch(
      cluster_map(cl, 1:40, function(i) if (i == 21) stop("bad") else i,
        .on_result = function(value, i) seen <<- c(seen, i)
      ),
      error = identity
    )
    expect_identical(sort(seen), which(lengths(error$results) > 0L))
    # What was computed isn't lost because of a callback.
    suppressMessages(try(silent = TRUE, cluster_map(cl, 1:40, identity,
      .on_result = function(value, i) if (i == 3) stop("disk full")
    )))
    if (inherits(cl, "SOCKcluster") && !inherits(cl, "muster_cluster")) {
      expect_identical(cluster_results(), as.list(1:40))
    }
  })
})

test_cluster("an error's results stay as they were when it was raised", {
  cl <- local_cluster(2)
  gate <- file.path(local_folder(), "gate")
  error <- tryCatch(
    withCallingHandlers(
      cluster_map(cl, 1:2, function(i) {
        if (i == 1) stop("bad")
        while (!file.exists(gate)) Sys.sleep(0.01)
        i
      }),
      muster_error_remote = function(e) {
        file.create(gate)
        Sys.sleep(0.3) # tidy: the other value comes, for cluster_results()
      }
    ),
    error = identity
  )
  expect_identical(error$results, list(NULL, NULL))
})

test_cluster("an interrupt of a callback leaves a map alone, and nothing is left out", {
  cl <- local_cluster(2)
  seen <- integer()
  once <- TRUE
  map <- task_map(cl, 1:200, identity, .reduce = function(a, b) {
    if (once && b == 150L) {
      once <<- FALSE
      tools::pskill(Sys.getpid(), tools::SIGINT)
      Sys.sleep(60) # tidy: until it is interrupted
    }
    a + b
  }, .on_result = function(value, i) seen <<- c(seen, i))
  expect_identical(tryCatch(task_value(map), interrupt = function(e) "interrupted"), "interrupted")
  expect_identical(task_value(map), sum(1:200))
  expect_identical(sort(seen), 1:200)
})

test_cluster("maps that run while the session goes on do the same with results", {
  cl <- local_cluster(2)
  seen <- integer()
  notes <- function(value, i) seen[i] <<- value
  map <- task_map(cl, 1:500, identity, .value = 1, .on_result = notes)
  expect_identical(task_value(map), as.numeric(1:500))
  expect_identical(task_value(map), as.numeric(1:500))
  expect_identical(seen, 1:500)
  sum <- task_pmap(cl, list(a = 1:50, b = 50:1), function(a, b) a * b, .reduce = `+`)
  expect_identical(task_value(sum), sum(1:50 * 50:1))
  expect_identical(task_value(sum), sum(1:50 * 50:1))
  map <- task_map(cl, 1:9, identity, .reduce = function(a, b) if (b == 4) stop("mine") else a + b)
  expect_error(task_value(map), "^mine$")
  error <- tryCatch(task_value(map), error = identity)
  expect_identical(attr(error$results, "reduced"), list(value = 6L, elements = 3L))
  map <- task_map(cl, 1:9, function(i) if (i == 3) "x" else i, .value = 1)
  expect_error(task_value(map), "^Element 3 gave", class = "muster_error_value")
  map <- task_map(cl, 1:9, identity, .on_result = function(value, i) invokeRestart("leave"))
  withRestarts(task_value(map), leave = function() NULL)
  expect_error(task_value(map), "ended by a handler", class = "muster_error_cancelled")
})

test_cluster("several vectors and the rows of a data frame are gone over together", {
  local_seed(1)
  everywhere(function(cl) {
    f <- function(x, y, z = 0) list(x, y, z)
    dates <- as.Date("2026-01-01") + 0:2
    cases <- list(
      list(list(1:3, c("a", "b", "c"))), list(list(y = 1:3, x = 4:6), z = 5),
      list(list(c(u = 1, v = 2), list(NULL, "b"))), list(list(dates, factor(c("p", "q", "p")))),
      list(data.frame(y = 1:2, x = c("a", "b"))),
      list(list(x = list(quote(a), quote(b + c)), y = 1:2))
    )
    for (case in cases) {
      l <- lapply(case[[1L]], as.list)
      expected <- lapply(seq_along(l[[1L]]), function(i) {
        do.call(f, c(lapply(l, `[[`, i), case[-1L]), quote = TRUE)
      })
      expect_identical(
        do.call(cluster_pmap, c(list(cl), case[1L], list(f), case[-1L]), quote = TRUE),
        structure(expected, names = names(Find(function(x) length(names(x)), l)))
      )
    }
    listed <- data.frame(a = 1:2)
    listed$b <- I(list(1, "x"))
    expect_identical(cluster_pmap(cl, listed, function(a, b) b), list(1, "x"))
    odd <- structure(list(1, 2), class = "no_methods")
    expect_identical(cluster_map(cl, odd, identity), list(1, 2))
    hot <- mtcars[mtcars$mpg > 30, ]
    row.names(hot) <- NULL
    expect_null(names(cluster_pmap(cl, hot[-1L, ], function(mpg, ...) mpg)))
    by_row <- cluster_pmap(cl, mtcars, function(mpg, cyl, ...) mpg + cyl, .value = 1)
    expect_identical(by_row, structure(mtcars$mpg + mtcars$cyl, names = row.names(mtcars)))
    expect_identical(
      cluster_pmap(cl, list(n = 1:3), rnorm, .seed = 1), cluster_map(cl, 1:3, rnorm, .seed = 1)
    )
    expect_identical(cluster_pmap(cl, data.frame(a = character()), identity), list())
    error <- tryCatch(
      cluster_pmap(cl, head(mtcars, 3), function(mpg, ...) if (mpg > 22) stop("no")),
      error = identity
    )
    expect_match(conditionMessage(error), "^Element 3 \\(`Datsun 710`\\) raised an error: no")
    if (inherits(cl, "muster_cluster")) expect_identical(error$stack, "stop(\"no\")")
  })
})

test_cluster("what isn't a list of equal vectors is an error", {
  cl <- local_cluster(1)
  wrong <- list(
    1:3, list(), list(a = 1:2, b = 1:3), matrix(1, 2, 2), data.frame()[1:3, ], list(quote(a)),
    data.frame(a = 1:2, b = I(matrix(1, 2, 2))), NULL
  )
  for (l in wrong) {
    for (here in list(cl, NULL)) {
      expect_error(cluster_pmap(here, l, list), "`[.]l", class = "muster_error_input")
    }
    expect_error(task_pmap(cl, l, list), "`[.]l", class = "muster_error_input")
  }
  expect_error(cluster_pmap(cl, list(a = 1:2), list, a = 1), "`a` is given twice",
    class = "muster_error_input"
  )
  file <- textConnection("line")
  defer(function() close(file))
  error <- tryCatch(cluster_pmap(cl, list(a = 1:3, b = list(1, 2, file)), list), error = identity)
  expect_s3_class(error, "muster_error_input")
  expect_identical(error$reference, ".l$b[[3]]")
  expect_error(cluster_pmap(cl, 1:3), "[.]fun", class = "muster_error_input")
  expect_error(task_pmap(cl), "[.]l", class = "muster_error_input")
})
