# The experiment of bench/fetch, smaller: naive shuffles whose fetches stall because a listen
# queue is full, settings that help, and muster's shuffle, which opens no connections.

fetch_folder <- normalizePath("../../bench/fetch")

# The program, compiled once.
fetch_program <- local({
  program <- NULL
  function() {
    skip_without_compiler()
    source(file.path(fetch_folder, "play.R"), local = TRUE)
    if (is.null(program)) program <<- fetch_build(fetch_folder)
    program
  }
})

# Evaluates code in a namespace, with what play.R defines.
run_fetch <- function(code, ..., frame = parent.frame()) {
  program <- fetch_program()
  body <- bquote({
    source(.(file.path(fetch_folder, "play.R")))
    program <- .(program)
    .(code)
  })
  expect_done(run_netns(body, ..., frame = frame))$told
}

# 20 runs of each setting and of muster, interleaved; played once. Queues of 64 in all settings: a
# single one of them overflows in each run, on a quick machine too, where one of 128 may not. On a
# loaded one a naive fetch may wait for the kernel's sixth try, which comes after 63 s.
fetch_all <- local({
  runs <- NULL
  function() {
    if (is.null(runs)) {
      runs <<- run_fetch(quote({
        muster <- fetch_muster(utils::modifyList(fetch_sizes, list(maps = 8L, somaxconn = 64L)))
        rounds <- lapply(1:20, function(run) {
          naive <- lapply(fetch_settings, fetch_run, program = program, seed = run,
            changes = c(maps = 8, fetchers = 9, heap_kb = 16384, somaxconn = 64, limit_s = 240))
          do.call(rbind, c(naive, list(muster(run))))
        })
        tell(runs = do.call(rbind, rounds))
        muster::cluster_stop(environment(muster)$cl)
      }), timeout_s = 450)$runs
    }
    split(runs, runs$setting)
  }
})

test_that("F5 in 20 runs of each setting every block comes, once and with its bytes", {
  limit_time(450)
  runs <- fetch_all()
  expect_setequal(names(runs), c(
    "one-handler", "shuffle-service", "small-workers", "ten-handlers", "twenty-handlers", "muster"
  ))
  for (setting in runs) {
    expect_identical(nrow(setting), 20L)
    expect_true(all(setting$right == 1))
    expect_true(all(setting$bytes > 0))
    cat(sprintf("    %-15s median %.3f s, slowest %.3f s, %d packets dropped\n",
      setting$setting[1L], median(setting$seconds), max(setting$seconds),
      as.integer(sum(setting$overflows))))
  }
})

test_that("F1 one handler's queue overflows, and blocks come seconds late", {
  limit_time(450)
  one <- fetch_all()[["one-handler"]]
  full <- one$overflows > 0
  expect_gt(sum(full), 0L)
  # What was dropped is sent again by the kernel's clock: a SYN after a second.
  expect_gt(sum(one$syn_again[full]), 0)
  expect_gt(max(one$slowest_ms[full]), 990)
  expect_gt(max(one$seconds), 1)
})

test_that("F1 muster's shuffle meets no queue at all", {
  limit_time(450)
  runs <- fetch_all()
  muster <- runs$muster
  expect_identical(sum(muster$overflows, muster$drops, muster$syn_again), 0)
})

test_that("F3 more handlers, in one worker or in small ones, are more queues", {
  limit_time(450)
  runs <- fetch_all()
  for (setting in runs[c("small-workers", "ten-handlers", "twenty-handlers")]) {
    expect_lt(sum(setting$overflows), sum(runs[["one-handler"]]$overflows))
  }
  expect_identical(sum(runs[["twenty-handlers"]]$overflows), 0)
})

test_that("F4 a fetch whose first byte is late gets another attempt, and one of them counts", {
  limit_time(60)
  told <- run_fetch(quote({
    play <- function(speculate) {
      do.call(rbind, lapply(1:4, function(run) {
        # So short that they overflow in each run.
        fetch_run(program, "ten-handlers", run, c(somaxconn = 3, speculate = speculate))
      }))
    }
    tell(without = play(0), with = play(1))
  }))
  with <- told$with
  expect_true(all(with$right == 1, told$without$right == 1))
  expect_gt(sum(with$overflows), 0)
  expect_gt(sum(with$copies), 0)
  expect_identical(sum(told$without$copies), 0)
  cat(sprintf("    slowest block: %.0f ms, with speculation %.0f ms\n",
    stats::median(told$without$slowest_ms), stats::median(with$slowest_ms)))
})

test_that("F2 a queue as long as there are fetchers never overflows", {
  limit_time(60)
  told <- run_fetch(quote({
    runs <- lapply(1:3, function(run) {
      fetch_run(program, "one-handler", run, c(maps = 10, fetchers = 10, somaxconn = 4096))
    })
    tell(runs = do.call(rbind, runs))
  }))
  expect_true(all(told$runs$right == 1))
  expect_identical(sum(told$runs$overflows), 0)
})
