# A shuffle whose workers are killed, stopped or run out of disk, in each of its phases: map,
# barrier, transfer, read, after. Each time the result is the one without faults, and only
# what was lost is made again.

source("../testthat/helper-partition.R", local = TRUE)

# Its threads and options are none of a test's.
if (requireNamespace("data.table", quietly = TRUE)) data.table::setDTthreads(1)

local_shuffle <- function(workers = 3, ..., frame = parent.frame()) {
  local_settings(muster.quiet = TRUE, frame = frame)
  local_cluster(workers, ..., frame = frame)
}

rows_of_test <- function(n = 30000L) {
  local_seed(7)
  data.frame(g = sample.int(500L, n, TRUE), x = rnorm(n), row = seq_len(n))
}

# What a group's sum is without faults, in the shuffle's order.
sums_of <- function(p, fun = function(d, ...) sum(d$x), ...) {
  partition_collect(partition_reduce(p, "g", fun, ...))
}


test_cluster("F1 A worker that is killed while it maps loses its attempt only", {
  limit_time(60)
  cl <- local_shuffle()
  p <- partition_scatter(cl, rows_of_test(), parts = 9)
  want <- sums_of(p)
  for (round in 1:3) {
    mark <- file.path(local_folder(), "mark")
    got <- sums_of(p, .combine = function(d, mark = NULL) {
      if (!is.null(mark) && !file.exists(mark) && file.create(mark)) tools::pskill(Sys.getpid(), 9L)
      data.frame(x = d$x)
    }, mark = mark, fun = function(d, mark) sum(d$x))
    expect_true(file.exists(mark))
    expect_identical(got, want)
  }
})

test_cluster("F1 A worker that is killed before the barrier has its blocks made again", {
  limit_time(60)
  cl <- local_shuffle()
  p <- partition_scatter(cl, rows_of_test(), parts = 9)
  want <- sums_of(p)
  committed <- plan_counts(p)$committed
  mark <- file.path(local_folder(), "mark")
  pids <- node_pids(cl)
  # The map of the last part kills a worker that has done some of the others.
  got <- sums_of(p, .combine = function(d, mark, pids) {
    if (max(d$row) == 30000L && !file.exists(mark) && file.create(mark)) {
      tools::pskill(setdiff(pids, Sys.getpid())[1L], 9L)
    }
    data.frame(x = d$x)
  }, mark = mark, pids = pids, fun = function(d, ...) sum(d$x))
  expect_true(file.exists(mark))
  expect_identical(got, want)
  # 9 maps, 9 reduces, 9 collected; made again at most what one of three workers had of each.
  expect_lte(plan_counts(p)$committed - committed, 27 + 9 + 9)
})

test_cluster("F1 A worker that is killed while others read from it: what they miss is made again", {
  limit_time(60)
  cl <- local_shuffle()
  p <- partition_scatter(cl, rows_of_test(), parts = 9)
  want <- sums_of(p)
  for (round in 1:5) {
    mark <- file.path(local_folder(), "mark")
    pids <- node_pids(cl)
    got <- sums_of(p, function(d, mark, pids) {
      if (!file.exists(mark) && file.create(mark)) {
        tools::pskill(setdiff(pids, Sys.getpid())[1L], 9L)
      }
      sum(d$x)
    }, mark = mark, pids = pids)
    expect_true(file.exists(mark))
    expect_identical(got, want)
  }
})

test_cluster("F1 Workers that are killed at random times, again and again, change no result", {
  limit_time(120)
  cl <- local_shuffle(4)
  p <- partition_scatter(cl, rows_of_test(), parts = 8)
  want <- sums_of(p)
  killer <- function(pids, seconds) {
    script <- paste0("sleep ", seconds, "; kill -9 ", pids)
    system2("/bin/sh", c("-c", shQuote(script)), wait = FALSE)
  }
  for (round in 1:15) {
    wait_until(all(cluster_status(cl)$state == "idle"))
    victim <- cl[[1L + round %% 4L]]
    killer(cluster_status(cl)$pid[1L + round %% 4L], round * 0.004)
    expect_identical(sums_of(p), want)
  }
})

test_cluster("F1 Parts that are lost afterwards are made again from the blocks of the others", {
  limit_time(60)
  cl <- local_shuffle()
  data <- rows_of_test()
  s <- partition_shuffle(partition_scatter(cl, data, parts = 9), "g")
  want <- partition_collect(s)
  gc()
  committed <- plan_counts(s)$committed
  where <- parts_at(s)
  tools::pskill(node_pids(cl)[2L], 9L)
  expect_identical(partition_collect(s), want)
  # Its blocks, its parts, and 9 that are collected; the source is made inside of the blocks.
  expect_lte(plan_counts(s)$committed - committed, 9 + 9 + sum(where == 2L))
})

test_cluster("V4: A lost part is made again by what was there, also past 256 MB of it", {
  limit_time(120)
  cl <- local_shuffle(2)
  p <- partition_scatter(cl, data.frame(x = 1:8), parts = 8)
  frame <- new.env()
  # 270 MB, all of it in a list that is changed later.
  frame$lookup <- list(value = raw(27e7))
  m <- partition_map(p, eval(quote(function(d) {
    d$value <- as.integer(lookup$value[d$x])
    d
  }), frame))
  want <- data.frame(x = 1:8, value = 0L)
  expect_identical(partition_collect(m), want)
  expect_true(any(parts_at(m) == 2L))
  frame$lookup$value[1:8] <- as.raw(1)
  tools::pskill(node_pids(cl)[2L], 9L)
  expect_identical(partition_collect(m), want)
})

test_cluster("F4 A worker that stands still holds nobody up: its blocks are made elsewhere", {
  limit_time(90)
  cl <- local_shuffle(3, heartbeat = Inf)
  p <- partition_scatter(cl, rows_of_test(), parts = 9)
  want <- sums_of(p)
  s <- partition_shuffle(p, "g")
  pid <- node_pids(cl)[3L]
  tools::pskill(pid, tools::SIGSTOP)
  defer(function() tools::pskill(pid, tools::SIGCONT))
  expect_identical(sums_of(p), want)
  expect_gte(plan_counts(p)$speculated, 1)
  tools::pskill(pid, tools::SIGCONT)
  expect_identical(sums_of(p), want)
})

test_cluster("F4 A straggler gets a copy, the first counts, and side effects show it", {
  limit_time(60)
  cl <- local_shuffle(3)
  p <- partition_scatter(cl, rows_of_test(3000L), parts = 6)
  mark <- file.path(local_folder(), "slow")
  slow <- function(d, mark) {
    if (min(d$row) == 1L && !file.exists(mark) && file.create(mark)) {
      Sys.sleep(3600) # tidy: the worker's work
    }
    d
  }
  m <- partition_map(p, slow, mark = mark)
  expect_identical(partition_collect(m), rows_of_test(3000L))
  # On a busy machine other parts may have copies too.
  expect_gte(plan_counts(p)$won, 1)
  before <- plan_counts(p)$speculated
  unlink(mark)
  expect_identical(partition_collect(partition_map(p, function(d) d, .speculate = FALSE)),
    rows_of_test(3000L)
  )
  expect_identical(plan_counts(p)$speculated, before)
})

test_cluster("More rows than memory and disk have room for are an error with part and worker", {
  limit_time(60)
  testthat::skip_if_not(nzchar(Sys.which("prlimit")), "needs prlimit")
  cl <- local_shuffle(2)
  p <- partition_scatter(cl, rows_of_test(), parts = 4)
  want <- sums_of(p)
  # Memory: a worker may not have more than it has, and a bit.
  for (pid in node_pids(cl)) {
    status <- readLines(file.path("/proc", pid, "status"))
    size <- as.numeric(gsub("[^0-9]", "", grep("^VmSize", status, value = TRUE))) * 1024
    expect_identical(
      system2("prlimit", c("--pid", pid, sprintf("--as=%.0f", size + 512 * 2^20))), 0L
    )
  }
  error <- expect_error(partition_map(p, function(d) data.frame(x = numeric(2e8))),
    class = "muster_error_memory"
  )
  expect_s3_class(error, "muster_error_remote")
  expect_match(conditionMessage(error), "cannot allocate")
  expect_true(error$part %in% 1:4 && error$worker %in% 1:2)
  # A join that is too large for a worker, or for any.
  for (case in list(list(10000, "muster_error_memory"), list(20000, "muster_error_limit"))) {
    heavy <- partition_map(p, function(d, n) data.frame(k = rep(1L, n), x = 1), n = case[[1L]])
    error <- expect_error(partition_join(heavy, heavy, "k"), class = case[[2L]])
    expect_true(error$part %in% 1:4 && error$worker %in% 1:2)
  }
  expect_match(conditionMessage(error), "6,400,000,000 rows")
  expect_identical(sums_of(p), want)
})

test_cluster("A cluster that doesn't heal goes on with the workers that are left", {
  limit_time(60)
  cl <- local_shuffle(3, healing = FALSE)
  p <- partition_scatter(cl, rows_of_test(), parts = 9)
  want <- sums_of(p)
  tools::pskill(node_pids(cl)[1L], 9L)
  expect_identical(sums_of(p), want)
  tools::pskill(node_pids(cl)[2L], 9L)
  expect_identical(sums_of(p), want)
  tools::pskill(node_pids(cl)[3L], 9L)
  error <- expect_error(sums_of(p), class = "muster_error_lost")
})

test_cluster("A function that always kills its worker is given up, named, and others go on", {
  limit_time(120)
  cl <- local_shuffle(2)
  p <- partition_scatter(cl, rows_of_test(), parts = 4)
  error <- expect_error(partition_map(p, function(d) {
    if (min(d$row) == 7501L) tools::pskill(Sys.getpid(), 9L)
    d
  }), class = "muster_error_lost")
  expect_identical(error$part, 2L)
  causes <- grep("SIGKILL", strsplit(conditionMessage(error), "\n")[[1L]])
  expect_length(causes, 5L)
  wait_until(all(cluster_status(cl)$state %in% c("idle", "lost")))
})

test_cluster("Groups and joins over 336,776 flights are base R's and data.table's", {
  limit_time(120)
  testthat::skip_if_not_installed("nycflights13")
  cl <- local_shuffle(2)
  flights <- as.data.frame(nycflights13::flights)
  planes <- as.data.frame(nycflights13::planes)[c("tailnum", "seats", "year")]
  p <- partition_scatter(cl, flights)
  sums <- partition_collect(partition_summarise(p,
    .by = c(origin, dest, month), n = n(), air = sum(air_time, na.rm = TRUE),
    worst = max(arr_delay, na.rm = TRUE)
  ))
  key <- function(x) paste(x$origin, x$dest, x$month)
  expect_identical(nrow(sums), length(unique(key(flights))))
  air <- tapply(flights$air_time, key(flights), sum, na.rm = TRUE)
  expect_equal(sums$air, as.numeric(air[key(sums)]))
  joined <- partition_collect(partition_join(p, planes, "tailnum"))
  want <- merge(flights, planes, by = "tailnum")
  expect_identical(nrow(joined), nrow(want))
  expect_identical(sum(joined$seats), sum(want$seats))
  year <- function(x) sum(as.numeric(x$year.y), na.rm = TRUE)
  expect_equal(year(joined), year(want))
  testthat::skip_if_not_installed("data.table")
  # In the global environment data.table's `[` is meant.
  count <- function(table) table[, list(n = .N), by = c("carrier", "time_hour")]
  environment(count) <- globalenv()
  by <- count(data.table::as.data.table(flights))
  ours <- partition_collect(partition_summarise(p, .by = c("carrier", "time_hour"), n = n()))
  expect_identical(nrow(ours), nrow(by))
  both <- merge(ours, as.data.frame(by), by = c("carrier", "time_hour"))
  expect_identical(nrow(both), nrow(by))
  expect_equal(both$n.x, as.numeric(both$n.y))
})

test_cluster("F1 A worker that gives no word in 10 s has its blocks made again elsewhere", {
  limit_time(90)
  cl <- local_shuffle(3, heartbeat = Inf)
  # Blocks in its memory could be opened there.
  local_settings(muster.shuffle_links = "listen")
  p <- partition_scatter(cl, rows_of_test(3000L), parts = 6)
  s <- partition_shuffle(p, "g")
  want <- partition_collect(s)
  opened <- open_handle(p)
  steps <- same_steps(list(list(kind = "gather")))
  # On a busy machine all that is needed may be there before the worker is stopped: once more then.
  for (attempt in 1:4) {
    # As if the parts were lost, but not the blocks. Workers know each other's blocks by now: a
    # new shuffle whose blocks are there, and nobody has read.
    split <- split_stage(opened, "g", 6L)
    shuffle_run(opened$shuffle, cl, split, NULL)
    # A copy elsewhere may have been first for all parts of some worker.
    pid <- node_pids(cl)[.Call(ffi_plan_where, opened$shuffle$plan, split$id)[6L, 2L]]
    tools::pskill(pid, tools::SIGSTOP)
    defer(function() tools::pskill(pid, tools::SIGCONT))
    missed <- plan_counts(p)$missed
    begin <- proc.time()[["elapsed"]]
    got <- gather_stage(opened, 6L, steps, list(split), NULL)$handle
    took <- proc.time()[["elapsed"]] - begin
    tools::pskill(pid, tools::SIGCONT)
    expect_identical(partition_collect(got), want)
    if (plan_counts(p)$missed > missed) break
  }
  expect_gt(took, 9)
  expect_gte(plan_counts(p)$missed - missed, 1)
})
