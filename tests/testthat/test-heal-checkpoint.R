# A lost worker comes back as it was: from its checkpoint, a copy of its process, on which the calls
# since then are replayed.

# What a worker can be, by kind: how it is made, how it changes, and what shows it. Each part is an
# expression for the worker's global environment.
kinds <- list(
  variable = expression(v <- 5, v <- v + 1, v),
  environment_variable = expression(
    Sys.setenv(MUSTER_TEST = "5"), Sys.setenv(TZ = "Asia/Tokyo"),
    list(Sys.getenv("MUSTER_TEST"), format(.POSIXct(0), "%H"))
  ),
  libraries = expression(
    dir.create(file.path(tempdir(), "library")),
    .libPaths(c(file.path(tempdir(), "library"), .libPaths())), basename(.libPaths()[1L])
  ),
  locale = expression(NULL, Sys.setlocale("LC_COLLATE", "C"), Sys.getlocale("LC_COLLATE")),
  umask = expression(NULL, Sys.umask("077"), format(Sys.umask(NA))),
  list_of_environments = expression(
    L <- list(e = new.env()), assign("n", 1, L$e), get("n", L$e)
  ),
  attribute = expression(A <- structure(1, e = new.env()), assign("n", 1, attr(A, "e")),
    get("n", attr(A, "e"))
  ),
  many_bindings = expression(
    {
      E <- new.env()
      for (i in 1:3000) assign(paste0("k", i), 0, E)
    },
    assign("k1", 1, E), E$k1
  ),
  option_with_environment = expression(
    options(muster.test.env = new.env()), assign("n", 1, getOption("muster.test.env")),
    get("n", getOption("muster.test.env"))
  ),
  attached = expression(
    attach(list(n = 0), name = "mine"), assign("n", 1, as.environment("mine")), get("n", "mine")
  ),
  s3_method = expression(
    NULL, registerS3method("print", "zz", function(x, ...) cat("ZZ\n"), envir = globalenv()),
    utils::capture.output(print(structure(1, class = "zz")))
  ),
  reference_class = expression(
    acc <- setRefClass("Acc", fields = list(n = "numeric"),
      methods = list(add = function() n <<- n + 1)
    )$new(n = 0),
    acc$add(), acc$n
  ),
  active_binding = expression(NULL, makeActiveBinding("ab", function() 42, globalenv()), ab),
  lock = expression(lk <- 1, lockBinding("lk", globalenv()), bindingIsLocked("lk", globalenv())),
  connection = expression(
    con <- textConnection(c("one", "two", "three")), readLines(con, 1), readLines(con, 1)
  ),
  file = expression(
    out <- file(file.path(tempdir(), "x"), "w"), writeLines("there", out),
    {
      flush(out)
      readLines(file.path(tempdir(), "x"))
    }
  ),
  pointer = expression(p <- methods::new("externalptr"), NULL, typeof(p)),
  generator = expression(RNGkind("Wichmann-Hill"), set.seed(3), c(RNGkind()[1L], runif(2)))
)

run_at <- eval(quote(function(code) eval(code, globalenv())), globalenv())

kill_workers <- function(cl) for (pid in node_pids(cl)) tools::pskill(pid, 9L)

test_cluster("S1: a worker is what it was, with and without a checkpoint", {
  local_settings(muster.quiet = TRUE)
  for (when in c("log", "checkpoint", "both", "never")) {
    local_settings(muster.checkpoints = if (when == "never") FALSE else 0.05)
    cl <- local_cluster(1)
    for (kind in kinds) clusterCall(cl, run_at, kind[[1L]])
    if (when == "both") make_checkpoints(cl)
    for (kind in kinds) clusterCall(cl, run_at, kind[[2L]])
    if (when == "checkpoint") make_checkpoints(cl)
    kill_workers(cl)
    after <- lapply(kinds, function(kind) clusterCall(cl, run_at, kind[[3L]])[[1L]])
    twin <- local_cluster(1)
    for (kind in kinds) clusterCall(twin, run_at, kind[[1L]])
    for (kind in kinds) clusterCall(twin, run_at, kind[[2L]])
    expect_identical(after, lapply(kinds, function(kind) {
      clusterCall(twin, run_at, kind[[3L]])[[1L]]
    }))
    expect_identical(cluster_status(cl)$restarts, 1L)
    cluster_stop(cl)
    cluster_stop(twin)
  }
})

# Loaded before a test looks at what it leaves behind.
table_there <- requireNamespace("data.table", quietly = TRUE)

test_cluster("S1: data.table's changes in place are there again", {
  testthat::skip_if_not(table_there, "data.table is not installed")
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  clusterEvalQ(cl, {
    library(data.table)
    table <- data.table(x = 1:3)
    NULL
  })
  make_checkpoints(cl)
  for (k in 1:2) {
    clusterEvalQ(cl, {
      table[, x := x * 10L]
      NULL
    })
    kill_workers(cl)
  }
  expect_identical(clusterEvalQ(cl, table$x), list(c(100L, 200L, 300L)))
})

test_cluster("a worker comes back from its checkpoint again and again, with its files", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  clusterCall(cl, run_at, quote({
    writeLines("kept", file.path(tempdir(), "file"))
    n <- 0
  }))
  make_checkpoints(cl)
  for (k in 1:5) {
    clusterCall(cl, run_at, quote(n <- n + 1))
    kill_workers(cl)
    now <- clusterCall(cl, run_at, quote(list(n, readLines(file.path(tempdir(), "file")))))
    expect_identical(now, rep(list(list(k + 0, "kept")), 2L))
  }
  make_checkpoints(cl)
  kill_workers(cl)
  expect_identical(clusterCall(cl, run_at, quote(n)), list(5, 5))
})

# The processes that stand by for the workers of this owner, see worker_owner().
standby_pids <- function(owner) {
  pids <- suppressWarnings(as.integer(list.files("/proc", "^[0-9]+$")))
  title <- paste0("^muster standby [0-9]+ of ", owner, "\\b")
  lines <- vapply(file.path("/proc", pids, "cmdline"), function(path) {
    bytes <- tryCatch(suppressWarnings(readBin(path, "raw", 100L)), error = function(e) raw())
    rawToChar(bytes[bytes != 0])
  }, "")
  pids[grepl(title, lines)]
}

test_cluster("a standby that is killed is made anew; with its worker its state may be lost", {
  testthat::skip_if_not(has_proc())
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  owner <- worker_owner(cl)
  clusterCall(cl, run_at, quote(n <- 1))
  make_checkpoints(cl)
  wait_until(length(standby_pids(owner)) == 1L)
  first <- standby_pids(owner)
  tools::pskill(first, 9L)
  wait_until({
    clusterCall(cl, run_at, NULL)
    length(setdiff(standby_pids(owner), first)) == 1L
  })
  clusterCall(cl, run_at, quote(n <- n + 1))
  kill_workers(cl)
  expect_identical(clusterCall(cl, run_at, quote(n)), list(2))
  # Both: stopped first, so that the worker can't make another.
  wait_until(length(standby_pids(owner)) == 1L)
  pid <- node_pids(cl)
  tools::pskill(pid, tools::SIGSTOP)
  tools::pskill(standby_pids(owner), 9L)
  wait_until({
    cluster_status(cl)
    !length(standby_pids(owner))
  })
  tools::pskill(pid, 9L)
  value <- tryCatch(clusterCall(cl, run_at, quote(n)), error = identity)
  if (behind_link()) {
    expect_identical(value, list(2)) # there all calls are kept, and replayed
  } else {
    expect_s3_class(value, "muster_error_lost")
    expect_match(conditionMessage(value), "its state can't be restored: its checkpoint process")
  }
})

test_cluster("standbys end with their cluster, and with a worker that is ended for good", {
  testthat::skip_if_not(has_proc())
  cl <- local_cluster(2)
  owner <- worker_owner(cl)
  make_checkpoints(cl)
  wait_until(length(standby_pids(owner)) == 2L) # once they have said what they are
  cl <- cluster_resize(cl, 1L)
  wait_until(length(standby_pids(owner)) == 1L)
  cluster_stop(cl)
  wait_until(!length(standby_pids(owner)))
})

test_cluster("what replayed calls print isn't shown again", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  clusterCall(cl, run_at, quote(cat("once\n")))
  kill_workers(cl)
  clusterCall(cl, run_at, quote(cat("twice\n")))
  expect_identical(cluster_logs(cl)$line, c("once", "twice"))
})

test_cluster("what is printed behind replayed calls is shown, however late the session reads it", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  go <- file.path(local_folder(), "go")
  file.create(go)
  clusterCall(cl, run_at, bquote({
    cat("once\n")
    while (!file.exists(.(go))) Sys.sleep(0.01)
  }))
  kill_workers(cl)
  unlink(go)
  # While this session is stopped the worker answers the replayed call and the next one.
  system(paste(
    "(sleep 0.5; kill -STOP", Sys.getpid(), "; touch", shQuote(go), "; sleep 0.5; kill -CONT",
    Sys.getpid(), ") >/dev/null 2>&1 &"
  ))
  clusterCall(cl, run_at, quote(cat("twice\n")))
  expect_identical(cluster_logs(cl)$line, c("once", "twice"))
})

test_cluster("S1: what was drawn is drawn again, with and without a checkpoint", {
  local_settings(muster.quiet = TRUE, warn = 2L)
  for (start in c(if (has_checkpoints()) "fork", "spawn")) {
    for (checkpoints in list(FALSE, 0.05, TRUE)) {
      local_settings(muster.checkpoints = checkpoints)
      cl <- local_cluster(2, start = start, setup = quote(first <- runif(1)))
      draw <- function() {
        kept <<- c(kept, stats::runif(1))
        c(first, kept)
      }
      environment(draw) <- globalenv()
      clusterCall(cl, run_at, quote(kept <- double()))
      drawn <- clusterCall(cl, draw)
      expect_false(any(drawn[[1L]] %in% drawn[[2L]])) # each has its own
      for (k in 1:3) {
        kill_workers(cl)
        again <- clusterCall(cl, draw)
        expect_identical(lapply(again, utils::head, -1L), drawn)
        expect_false(any(duplicated(unlist(lapply(again, `[`, -1L)))))
        drawn <- again
      }
      # A stream that was removed isn't begun again.
      clusterCall(cl, run_at, quote(rm(.Random.seed)))
      again <- clusterCall(cl, draw)
      expect_false(any(duplicated(unlist(again))))
      kill_workers(cl)
      expect_identical(clusterCall(cl, run_at, quote(c(first, kept))), again)
      cluster_stop(cl)
    }
  }
  # No two clusters have a stream in common, and no worker that comes back without its calls.
  cl <- local_cluster(1, healing = "fresh")
  one <- clusterCall(cl, run_at, quote(runif(1)))
  kill_workers(cl)
  other <- list(
    clusterCall(cl, run_at, quote(runif(1))), clusterCall(local_cluster(1), run_at, quote(runif(1)))
  )
  expect_false(any(duplicated(unlist(c(one, other)))))
})

test_cluster("a seed that is written back unchanged is no draw", {
  cl <- local_cluster(1)
  write_back <- quote(assign(".Random.seed", .Random.seed + 0L, globalenv()))
  task_value(task_submit(cl, run_at, write_back, .seed = NULL))
  kill_workers(cl)
  expect_no_warning(suppressMessages(clusterCall(cl, run_at, NULL)))
})

test_cluster("by default a checkpoint is made when it pays, not in a job of seconds", {
  skip_without_checkpoints()
  local_settings(muster.checkpoints = NULL)
  cl <- local_cluster(1)
  for (k in 1:4) clusterCall(cl, run_at, quote({x <- runif(10); Sys.sleep(0.3)}))
  expect_false("checkpoint" %in% cluster_journal(cl)$kind)
  for (value in list("x", -1, c(1, 2), NA)) {
    local_settings(muster.checkpoints = value)
    expect_error(cluster_start(1), "muster.checkpoints", class = "muster_error_input")
  }
})

test_cluster("a generator other than L'Ecuyer's draws on from where it was", {
  local_settings(muster.quiet = TRUE)
  local_seed(1)
  expected <- local({
    set.seed(1, "Mersenne-Twister")
    list(runif(2), rnorm(3), runif(1))
  })
  cl <- local_cluster(1)
  draw <- list(quote({
    set.seed(1, "Mersenne-Twister")
    runif(2)
  }), quote(rnorm(3)), quote(runif(1)))
  got <- lapply(draw, function(code) {
    value <- clusterCall(cl, run_at, code)[[1L]]
    clusterCall(cl, run_at, NULL) # the checkpoint that it is worth comes before this
    kill_workers(cl)
    value
  })
  expect_identical(got, expected)
})
