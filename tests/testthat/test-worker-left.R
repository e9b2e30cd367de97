# What a task leaves open or changed is closed, or put back, when it has ended.

as_task <- function(cl, fun, ...) task_value(task_submit(cl, remote(fun), ...))
as_piece <- function(cl, fun, ...) {
  cluster_map(cl, 1, remote(function(i, fun, ...) fun(...)), remote(fun), ...)[[1L]]
}
as_iteration <- function(cl, fun, ...) {
  old <- options("foreachDoparLocal")
  registerDoMuster(cl)
  on.exit({
    foreach::registerDoSEQ()
    options(old)
  })
  `%dopar%` <- foreach::`%dopar%`
  fun <- remote(fun)
  args <- list(...)
  (foreach::foreach(i = 1, .noexport = "cl") %dopar% do.call(fun, args))[[1L]]
}
each_way <- function(cl, test) {
  ways <- list(as_task, as_piece, if (nzchar(system.file(package = "foreach"))) as_iteration)
  for (way in Filter(is.function, ways)) test(function(fun, ...) way(cl, fun, ...))
}

open_in <- function(cl) {
  clusterCall(cl, function() {
    list(sink.number(), sink.number("message"), length(dev.list()), nrow(showConnections()))
  })[[1L]]
}

test_cluster("sinks, devices and files that tasks leave open are closed", {
  folder <- local_folder()
  for (start in c("fork", "spawn")) {
    cl <- local_cluster(1, start = start)
    before <- open_in(cl)
    each_way(cl, function(evaluate) {
      file <- file.path(folder, "sunk")
      evaluate(function(file) {
        sink(file)
        cat("into the file\n")
        sink(tempfile())
      }, file)
      evaluate(function() sink(file(tempfile(), open = "w"), type = "message"))
      evaluate(function(file) {
        pdf(paste0(file, ".pdf"))
        plot(1)
        pdf(NULL)
      }, file)
      evaluate(function() {
        con <- file(tempfile(), open = "w")
        other <<- textConnection("text")
        NULL
      })
      expect_identical(open_in(cl), before)
      expect_identical(readLines(file), "into the file")
      expect_gt(file.size(paste0(file, ".pdf")), 1000)
      expect_output(evaluate(function() cat("seen\n")), "worker 1: seen")
    })
    expect_identical(cluster_status(cl)$restarts, 0L)
    cluster_stop(cl)
  }
})

test_cluster("a task that fails leaves nothing open, however many do", {
  cl <- local_cluster(1)
  before <- open_in(cl)
  fails <- function(i) {
    sink(tempfile())
    if (i < 25) stop("no convergence")
    sink()
    i
  }
  tasks <- lapply(1:25, function(i) task_submit(cl, fails, i))
  reasons <- vapply(tasks, function(task) {
    format(tryCatch(task_value(task), error = function(e) conditionMessage(e$condition)))
  }, "")
  expect_identical(reasons, c(rep("no convergence", 24), "25"))
  values <- cluster_map(cl, 1:25, fails, .on_error = "return")
  expect_identical(values[[25L]], 25L)
  expect_identical(open_in(cl), before)
})

test_cluster("what was open before a task stays open", {
  cl <- local_cluster(1)
  file <- tempfile()
  clusterCall(cl, function(file) {
    sink(file)
    pdf(NULL)
    kept <<- textConnection("kept")
  }, file)
  before <- open_in(cl)
  expect_identical(before[[1L]], 1L)
  as_task(cl, function() {
    cat("a line\n")
    sink(tempfile())
    pdf(NULL)
    textConnection("more")
    NULL
  })
  expect_identical(open_in(cl), before)
  expect_identical(clusterEvalQ(cl, readLines(kept))[[1L]], "kept")
  clusterEvalQ(cl, sink())
  expect_identical(readLines(file), "a line")
  unlink(file)
})

test_cluster("a task's time limit ends with it", {
  cl <- local_cluster(1)
  spend <- function() {
    end <- Sys.time() + 0.3
    while (Sys.time() < end) NULL
    "all of it"
  }
  each_way(cl, function(evaluate) {
    evaluate(function() setTimeLimit(elapsed = 0.2))
    expect_identical(evaluate(spend), "all of it")
    expect_error(
      evaluate(function() {
        setTimeLimit(elapsed = 0.1)
        end <- Sys.time() + 60
        while (Sys.time() < end) NULL
      }),
      "time limit"
    )
    expect_identical(evaluate(spend), "all of it")
  })
  expect_identical(cluster_status(cl)$restarts, 0L)
})

test_cluster("options and the directory are put back, new options stay", {
  for (healing in c(TRUE, FALSE)) {
    cl <- local_cluster(1, retries = if (healing) 2L else 0L)
    look <- function() list(getOption("digits"), getOption("OutDec"), getwd(), getOption("my.own"))
    before <- clusterCall(cl, look)[[1L]]
    each_way(cl, function(evaluate) {
      inside <- evaluate(function() {
        options(digits = 3, OutDec = ",", my.own = "new")
        setwd("/")
        list(getOption("digits"), getOption("OutDec"), getwd())
      })
      expect_identical(inside, list(3L, ",", "/"))
      after <- clusterCall(cl, look)[[1L]]
      expect_identical(after[1:3], before[1:3])
      expect_identical(after[[4L]], "new")
    })
    clusterCall(cl, function() options(digits = 5))
    as_task(cl, function() options(digits = 3))
    expect_identical(clusterCall(cl, function() getOption("digits"))[[1L]], 5L)
    # Elements of a piece are evaluated as by lapply().
    digits <- cluster_map(cl, 1:40, function(i) {
      if (i == 1L) options(digits = 4)
      getOption("digits")
    })
    expect_identical(digits[[1L]], 4L)
    expect_identical(clusterCall(cl, function() getOption("digits"))[[1L]], 5L)
    cluster_stop(cl)
  }
})

test_cluster("a replay puts back what a task changed, too", {
  cl <- local_cluster(1)
  local_settings(muster.quiet = TRUE)
  as_task(cl, function() {
    counter <<- 1
    options(digits = 3)
    sink(tempfile())
    setwd("/")
    NULL
  })
  look <- function() list(counter, getOption("digits"), sink.number(), getwd())
  before <- clusterCall(cl, look)[[1L]]
  expect_identical(before[1:3], list(1, 7L, 0L))
  tools::pskill(node_pids(cl), tools::SIGKILL)
  wait_until(sum(cluster_status(cl)$restarts) == 1L)
  expect_identical(clusterCall(cl, look)[[1L]], before)
})
