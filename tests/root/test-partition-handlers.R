# Listeners with queues of their own, in sessions where queues or descriptors are short.

test_that("F3 A reader that finds one handler's queue full is served through another", {
  skip_unless_root()
  run <- run_session(wrap = c("unshare", "-n"), quote({
    writeLines("2", "/proc/sys/net/core/somaxconn")
    options(
      muster.quiet = TRUE, muster.shuffle_links = "listen", muster.shuffle_handlers = 3
    )
    cl <- cluster_start(2, heartbeat = 60)
    data <- data.frame(g = rep(1:50, 20), row = 1:1000)
    p <- partition_scatter(cl, data, parts = 2)
    counts <- function(rank) {
      parallel::clusterCall(cl[rank], function() {
        .Call(getFromNamespace("ffi_links_count", "muster"))
      })[[1L]]
    }
    # The blocks are there; worker 1 reads those of worker 2, which stands still.
    opened <- muster:::open_handle(p)
    shuffle <- opened$shuffle
    split <- muster:::split_stage(opened, "g", 1L)
    muster:::shuffle_run(shuffle, cl, split, NULL)
    pid <- cluster_status(cl)$pid[2L]
    tools::pskill(pid, tools::SIGSTOP)
    queue <- file.path(shuffle$links[["2"]]$folder, "0") # of worker 1's handler
    crowd <- list()
    refused <- NULL
    while (is.null(refused) && length(crowd) < 20L) {
      crowd <- c(crowd, list(tryCatch(socket_connect(queue, timeout = 0.3),
        muster_error = function(e) {
          refused <<- e
          NULL
        }
      )))
    }
    crowd <- Filter(Negate(is.null), crowd)
    system2("sh", c("-c", shQuote(paste("sleep 2; kill -CONT", pid))), wait = FALSE)
    gathered <- muster:::gather_stage(
      opened, 1L, muster:::same_steps(list(list(kind = "gather"))), list(split), NULL
    )$handle
    rows <- partition_collect(gathered)$row
    tell(
      crowd = length(crowd), full = !is.null(refused), rows = sort(rows),
      reader = counts(1L), server = counts(2L)
    )
    for (one in crowd) socket_close(one)
    cluster_stop(cl)
  }))
  expect_done(run)
  expect_true(run$told$full && run$told$crowd >= 2L)
  expect_identical(run$told$rows, 1:1000)
  expect_identical(run$told$reader$full, 1)
  expect_identical(run$told$reader$met, 1)
  # The next may be asked as well before the worker goes on.
  expect_identical(run$told$server$asked[1:2], c(0, 1))
})

test_that("F3 Many readers at once through short queues are all served, none late", {
  skip_unless_root()
  run <- run_session(wrap = c("unshare", "-n"), quote({
    writeLines("1", "/proc/sys/net/core/somaxconn")
    options(
      muster.quiet = TRUE, muster.shuffle_links = "listen", muster.shuffle_handlers = 2
    )
    cl <- cluster_start(8)
    data <- data.frame(g = rep(1:50, 40), row = 1:2000)
    p <- partition_scatter(cl, data, parts = 16)
    s <- partition_shuffle(p, "g")
    rows <- partition_collect(s)$row
    counts <- parallel::clusterCall(cl, function() {
      .Call(getFromNamespace("ffi_links_count", "muster"))
    })
    tell(rows = sort(rows), links = vapply(counts, `[[`, 0, "links"),
      again = sum(vapply(counts, `[[`, 0, "again")))
    cluster_stop(cl)
  }))
  expect_done(run)
  expect_identical(run$told$rows, 1:2000)
  expect_identical(run$told$links, rep(7, 8))
  expect_identical(run$told$again, 0)
})
