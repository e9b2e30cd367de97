# partition_scatter(), _read(), _map(), _collect(): data that stays on the workers.

# Loading it sets options.
has_data_table <- requireNamespace("data.table", quietly = TRUE)

flights <- function(n = 1000L) {
  data.frame(
    id = seq_len(n), x = as.double(seq_len(n)) / 8,
    carrier = rep(c("UA", "AA", NA), length.out = n),
    day = as.Date("2013-01-01") + seq_len(n) %% 7,
    kind = factor(rep(c("a", "b"), length.out = n))
  )
}

test_cluster("Data that stays on two workers", {
  cl <- local_cluster(2)

  test_that("Rows that are scattered and collected are the same, in their order", {
    data <- flights()
    p <- partition_scatter(cl, data)
    expect_s3_class(p, "muster_partition")
    expect_identical(partition_collect(p), data)
    for (parts in c(1L, 3L)) {
      expect_identical(partition_collect(partition_scatter(cl, data, parts)), data)
    }
    few <- data[1:20, ]
    expect_identical(partition_collect(partition_scatter(cl, few, parts = 30)), few)
    none <- partition_collect(partition_scatter(cl, data[0, ], 2))
    expect_identical(none, data[0, ])
    listed <- data.frame(id = 1:5)
    listed$l <- list(1, "a", NULL, 2:3, list())
    listed$m <- matrix(1:10, 5)
    expect_equal(partition_collect(partition_scatter(cl, listed, 2)), listed)
  })

  test_that("A handle prints rows, bytes and where the parts are, and data stays there", {
    p <- partition_scatter(cl, flights(), parts = 4)
    expect_output(print(p), "1,000 rows, .* kB, 4 parts on worker 1 \\([1-3]\\), 2 \\([1-3]\\)")
    where <- partition_collect(partition_map(p, function(part) data.frame(pid = Sys.getpid())))
    expect_setequal(where$pid, node_pids(cl))
    again <- partition_collect(partition_map(p, function(part) data.frame(pid = Sys.getpid())))
    expect_identical(again, where)
  })

  test_that("partition_map() applies a function to each part, with what it uses", {
    local_globals()
    assign("threshold_of_test", 100, globalenv())
    p <- partition_scatter(cl, flights(), parts = 5)
    fun <- function(part, more) part[part$x > threshold_of_test + more, ]
    environment(fun) <- globalenv()
    got <- partition_collect(partition_map(p, fun, more = 1))
    want <- flights()
    want <- want[want$x > 101, ]
    row.names(want) <- NULL
    expect_identical(got, want)
    two <- partition_map(p, function(d) d[1:2, ])
    counted <- partition_map(two, function(d) data.frame(n = nrow(d)))
    expect_identical(partition_collect(counted)$n, rep(2L, 5))
  })

  test_that("With .seed the same numbers are drawn, for one worker and for two", {
    draw <- function(cl, seed) {
      p <- partition_scatter(cl, flights(10), parts = 4)
      partition_collect(partition_map(p, function(d) data.frame(u = runif(2)), .seed = seed))
    }
    two <- draw(cl, 42)
    expect_identical(draw(cl[1], 42), two)
    expect_false(identical(draw(cl, 43), two))
    expect_identical(anyDuplicated(two$u), 0L)
  })

  test_that("Wrong input says what is wrong, with the part, and all remain usable", {
    p <- partition_scatter(cl, flights(), parts = 4)
    expect_error(partition_scatter(cl, 1:3), class = "muster_error_input")
    expect_error(partition_scatter(cl, flights(), 0), class = "muster_error_input")
    expect_error(partition_map(1, identity), class = "muster_error_input")
    error <- expect_error(partition_map(p, nrow), class = "muster_error_input")
    expect_match(conditionMessage(error), "`.fun` must return a data frame, not 250")
    expect_true(error$part %in% 1:4 && error$worker %in% 1:2)
    error <- expect_error(
      partition_map(p, function(d) if (d$id[1] > 500) stop("too late") else d),
      class = "muster_error_remote"
    )
    expect_match(conditionMessage(error), "Part [34] raised an error: too late")
    unlike <- partition_map(p, function(d) if (d$id[1] > 500) d[1:2] else d)
    error <- expect_error(partition_collect(unlike), "have different columns",
      class = "muster_error_input"
    )
    expect_identical(error$part, 3L)
    expect_true(error$worker %in% 1:2)
    expect_identical(partition_collect(p), flights())
  })

  test_that("What a function signals has names in its call, and no rows", {
    p <- partition_scatter(cl, data.frame(x = sqrt(1:1e5)), parts = 2)
    signalled <- list()
    note <- function(condition) {
      signalled[[length(signalled) + 1L]] <<- condition
      tryInvokeRestart("muffleWarning")
      tryInvokeRestart("muffleMessage")
    }
    withCallingHandlers(warning = note, message = note, {
      partition_map(p, function(d) {
        warning("careful")
        d
      })
      partition_map(p, function(d, more) {
        message("so")
        d
      }, more = sqrt(1:1e5))
    })
    expect_identical(lapply(signalled, conditionCall), rep(
      list(quote(fun(part)), quote(message("so"))),
      each = 2L
    ))
    expect_lt(length(serialize(signalled, NULL)), 5000)
    error <- expect_error(partition_map(p, function(d) stop("no")), class = "muster_error_remote")
    expect_identical(error$remote_call, "fun(part)")
    expect_lt(length(serialize(error$condition, NULL)), 5000)
    error <- expect_error(partition_map(p, function(d) do.call(`+`, list(d, "a"))),
      class = "muster_error_remote"
    )
    expect_lt(length(serialize(error$condition, NULL)), 5000)
  })

  test_that("F1 Lost parts are made again, no others, and the result is the same", {
    skip_without_proc()
    p <- partition_scatter(cl, flights(), parts = 8)
    m <- partition_map(p, function(d) data.frame(id = d$id, u = runif(nrow(d))), .seed = 1)
    before <- partition_collect(m)
    runs <- plan_counts(m)$committed
    had <- sum(parts_at(m) == 1L)
    expect_true(had %in% 1:7)
    local_settings(muster.quiet = TRUE)
    tools::pskill(cl[[1]]$pid, 9L)
    wait_until({
      status <- cluster_status(cl)
      status$restarts[1] == 1 && status$state[1] == "idle"
    })
    expect_identical(partition_collect(m), before)
    # The lost ones, made inside of the collecting or before it, and 8 that are collected.
    expect_lte(plan_counts(m)$committed - runs, 8 + had)
  })

  test_that("F1 A function that kills its worker once is tried again", {
    skip_without_proc()
    local_settings(muster.quiet = TRUE)
    died <- file.path(local_folder(), "died")
    p <- partition_scatter(cl, flights(), parts = 4)
    killed <- partition_map(p, function(d, died) {
      if (d$id[1] == 251 && !file.exists(died)) {
        file.create(died)
        tools::pskill(Sys.getpid(), 9L)
      }
      d
    }, died = died)
    expect_true(file.exists(died))
    expect_identical(partition_collect(killed), flights())
    expect_identical(partition_collect(p), flights())
  })

  test_that("A call that is left by a time limit leaves data and cluster as they were", {
    p <- partition_scatter(cl, flights(), parts = 4)
    expect_error(
      {
        setTimeLimit(elapsed = 0.25, transient = TRUE)
        partition_map(p, function(d) {
          Sys.sleep(3600) # tidy: the worker's work
          d
        })
      },
      "time limit"
    )
    setTimeLimit()
    # Calls that went on would hold this up for an hour.
    expect_identical(partition_collect(p), flights())
  })
})

test_that("Rows are cut into parts that leave none out, whatever their number", {
  is_right <- function(n, parts) {
    ranges <- part_ranges(n, parts)
    ranges[1, 1] == 1 && ranges[parts, 2] == n &&
      all(ranges[-1, 1] == ranges[-parts, 2] + 1) &&
      diff(range(ranges[, 2] - ranges[, 1])) <= 1
  }
  cases <- expand.grid(
    n = c(0, 1, 7, 100, 1e5, 336776, 2^31 - 2), parts = c(1:130, 4093:4096)
  )
  right <- mapply(is_right, cases$n, cases$parts)
  expect_identical(cases[!right, ], cases[0, ])
})

test_cluster("What nobody refers to is dropped on the workers with the next call", {
  cl <- local_cluster(2)
  kept <- partition_scatter(cl, flights(), parts = 4)
  gone <- partition_map(kept, identity)
  parts <- function() sum(unlist(clusterEvalQ(cl, length(muster:::the_worker$parts))))
  expect_identical(parts(), 8L)
  rm(gone)
  gc()
  got <- partition_collect(kept)
  partition_collect(kept) # the first told a worker, maybe not both
  expect_identical(parts(), 4L)
  expect_identical(got, flights())
  expect_identical(length(open_handle(kept)$shuffle$stages), 1L)
})

test_cluster("Data of a cluster that was stopped can't be used any more", {
  cl <- cluster_start(1)
  p <- partition_scatter(cl, flights(10))
  cluster_stop(cl)
  expect_error(partition_collect(p), "holds `p` was stopped", class = "muster_error_input")
  expect_output(print(p), "10 rows, .*; gone: its cluster was stopped")
  other <- cluster_start(1)
  defer(function() cluster_stop(other))
  partition_scatter(other, flights(10))
  expect_error(partition_collect(p), "holds `p` was stopped", class = "muster_error_input")
  expect_output(print(p), "gone: its cluster was stopped")
})

test_cluster("A copy of a handle says that it is one, and the first remains usable", {
  cl <- cluster_start(1)
  defer(function() cluster_stop(cl))
  p <- partition_scatter(cl, flights(10))
  copy <- unserialize(serialize(p, NULL))
  expect_error(partition_collect(copy), "`p` outside the process", class = "muster_error_input")
  expect_output(print(copy), "10 rows, .*; belongs to another process")
  look <- function(p) {
    list(print = format(p), collect = tryCatch(partition_collect(p), error = conditionMessage))
  }
  child <- parallel::mccollect(parallel::mcparallel(look(p)))[[1L]]
  worker <- clusterCall(cl, function(look, p) {
    environment(look) <- asNamespace("muster")
    look(p)
  }, look, p)[[1L]]
  for (told in list(child, worker)) {
    expect_match(told$print, "another process")
    expect_match(told$collect, "`p` outside the process")
  }
  expect_identical(partition_collect(p), flights(10))
  expect_identical(as.data.frame(p), flights(10))
})

test_cluster("A cluster that has grown uses its new workers, and a part of one only those", {
  skip_if_limited()
  cl <- cluster_start(1)
  p <- partition_scatter(cl, flights(), parts = 6)
  more <- cluster_resize(cl, 2)
  defer(function() cluster_stop(more))
  pids <- function(p) {
    unique(partition_collect(partition_map(p, function(d) data.frame(pid = Sys.getpid())))$pid)
  }
  expect_identical(pids(p), node_pids(cl))
  expect_setequal(pids(partition_scatter(more, flights(), parts = 6)), node_pids(more))
  expect_identical(pids(partition_scatter(more[2], flights(), parts = 6)), node_pids(more)[2])
})

test_cluster("A cluster that nobody refers to is stopped, with the data on it", {
  skip_without_proc()
  cl <- cluster_start(1)
  worker <- node_processes(cl)
  p <- partition_map(partition_scatter(cl, flights(10)), function(d) d)
  s <- partition_reduce(p, "kind", function(d) nrow(d))
  map_reduce(cl, 1:3, function(x) list(key = x, value = x), function(k, v) v)
  rm(cl, p, s)
  wait_until({
    gc()
    muster::cluster_stop(cluster_start(1)) # serves the session
    !still_exists(worker)
  })
})

test_cluster("A tibble or data.table is one again when it is collected", {
  cl <- local_cluster()
  rows <- data.frame(k = c(1L, 2L, 1L), x = c(1.5, 2.5, 3.5))
  tibble <- structure(rows, class = c("tbl_df", "tbl", "data.frame"))
  p <- partition_scatter(cl, tibble, 2)
  expect_identical(partition_collect(p), tibble)
  expect_identical(head(p, 1), structure(rows[1, ], class = class(tibble)))
  expect_s3_class(partition_collect(p["x"]), class(tibble), exact = TRUE)
  sums <- partition_reduce(p, "k", function(rows) {
    stopifnot(identical(class(rows), "data.frame"))
    list(s = sum(rows$x))
  })
  expect_s3_class(partition_collect(sums), class(tibble), exact = TRUE)
  joined <- partition_join(partition_scatter(cl, rows, 2), tibble, "k")
  expect_s3_class(partition_collect(joined), "data.frame", exact = TRUE)
  joined <- partition_join(p, rows, "k")
  expect_s3_class(partition_collect(joined), class(tibble), exact = TRUE)
  skip_if_not(has_data_table, "data.table isn't installed")
  table <- data.table::as.data.table(rows)
  p <- partition_scatter(cl, table, 2)
  data.table::set(table, j = "x", value = 0)
  for (round in 1:2) {
    got <- partition_collect(p)
    expect_s3_class(got, class(table), exact = TRUE)
    # In place, and not in the parts.
    data.table::set(got, j = "x", value = 9)
    data.table::set(got, j = "more", value = 1:3)
    expect_identical(names(got), c("k", "x", "more"))
    expect_identical(as.data.frame(partition_collect(p)), rows)
    tools::pskill(node_pids(cl)[round], tools::SIGKILL)
  }
  expect_identical(partition_collect(p)$x, rows$x)
})
