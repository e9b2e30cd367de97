# What a task sees of the session without naming it: options, the directory, variables, the locale.

# It attaches itself, and sets options, when the first future is evaluated here.
if (requireNamespace("future", quietly = TRUE)) {
  future::plan("sequential")
  future::value(future::future(1))
}

settings_text <- function() {
  d <- data.frame(y = c(1, 2, 4, 5, 7, 9, NA), g = factor(c(1, 1, 1, 2, 2, 2, 2)))
  fit <- tryCatch(format(unname(stats::coef(stats::lm(y ~ g, d)))), error = function(e) "error")
  c(
    format(pi * 1e5), format(1.5), format(1e10), fit,
    format(as.POSIXct(0.25, origin = "1970-01-01")), paste(sort(c("b", "A", "a")), collapse = ""),
    Sys.getenv(c("MUSTER_TEST_A", "MUSTER_TEST_B"), NA), basename(getwd()),
    Sys.getlocale("LC_TIME"), tryCatch(as.integer("x"), warning = function(w) "warned"),
    toString(getOption("muster_test_option")), getOption("width")
  )
}

# What the session has is put back, and what a test changes there.
local_session_state <- function(frame = parent.frame()) {
  names <- c(
    "digits", "OutDec", "scipen", "contrasts", "na.action", "digits.secs", "warn", "width",
    "muster_test_option"
  )
  options <- lapply(stats::setNames(nm = names), getOption)
  variables <- c("MUSTER_TEST_A", "MUSTER_TEST_B", "TZ")
  values <- Sys.getenv(variables, NA)
  directory <- getwd()
  locales <- c("LC_COLLATE", "LC_TIME")
  locale <- vapply(locales, Sys.getlocale, "")
  defer(function() {
    options(options)
    set <- !is.na(values)
    Sys.unsetenv(variables[!set])
    if (any(set)) do.call(Sys.setenv, as.list(structure(values, names = variables)[set]))
    setwd(directory)
    for (kind in locales) Sys.setlocale(kind, locale[[kind]])
  }, frame)
}

changes_of <- function(folder) {
  locales <- c("C", Sys.getlocale("LC_COLLATE"))
  set <- function(...) Sys.setenv(...)
  list(
    digits = function(k) options(digits = 3 + k %% 9),
    dec = function(k) options(OutDec = c(".", ",")[1 + k %% 2]),
    scipen = function(k) options(scipen = c(0, 20)[1 + k %% 2]),
    contrasts = function(k) {
      options(contrasts = c(c("contr.sum", "contr.treatment")[1 + k %% 2], "contr.poly"))
    },
    na = function(k) options(na.action = c("na.omit", "na.fail")[1 + k %% 2]),
    na_gone = function(k) options(na.action = NULL),
    secs = function(k) options(digits.secs = if (k %% 2) 3),
    warn = function(k) options(warn = c(0, 2, 1)[1 + k %% 3]),
    width = function(k) options(width = 60 + k),
    own = function(k) options(muster_test_option = if (k %% 3) seq_len(k)),
    a = function(k) set(MUSTER_TEST_A = k),
    b = function(k) if (k %% 2) set(MUSTER_TEST_B = k) else Sys.unsetenv("MUSTER_TEST_B"),
    zone = function(k) set(TZ = c("UTC", "Asia/Tokyo", "America/New_York")[1 + k %% 3]),
    collate = function(k) Sys.setlocale("LC_COLLATE", locales[1 + k %% 2]),
    time = function(k) Sys.setlocale("LC_TIME", locales[1 + k %% 2]),
    directory = function(k) {
      path <- file.path(folder, k %% 5)
      dir.create(path, showWarnings = FALSE)
      setwd(path)
    }
  )
}

by_loop <- function(cl, fun) {
  old <- options("foreachDoparLocal")
  registerDoMuster(cl)
  on.exit({
    foreach::registerDoSEQ()
    options(old)
  })
  `%dopar%` <- foreach::`%dopar%`
  (foreach::foreach(i = 1, .noexport = "cl") %dopar% fun())[[1L]]
}

by_future <- function(cl, fun) {
  old <- future::plan(muster_future, workers = cl)
  on.exit(future::plan(old))
  future::value(future::future(fun(), globals = list(fun = fun)))
}

by_partition <- function(cl, fun) {
  p <- partition_scatter(cl, data.frame(i = 1))
  got <- partition_collect(partition_map(p, function(d, fun) data.frame(text = fun()), fun))
  as.character(got$text)
}

test_cluster("V3: whatever the session changes, tasks see what lapply() would", {
  local_session_state()
  local_seed(20261129)
  changes <- changes_of(local_folder())
  fun <- remote(settings_text)
  cl <- local_cluster(2)
  has_future <- nzchar(system.file(package = "future")) &&
    utils::packageVersion("future") >= "1.40.0"
  ways <- list(
    task = function() task_value(task_submit(cl, fun)),
    some = function() unique(cluster_map(cl, 1:4, remote(function(i, fun) fun()), fun))[[1L]],
    piece = function() cluster_map(cl, 1, remote(function(i, fun) fun()), fun)[[1L]],
    loop = if (nzchar(system.file(package = "foreach"))) function() by_loop(cl, fun),
    future = if (has_future) function() by_future(cl, fun),
    partition = function() by_partition(cl, fun)
  )
  ways <- Filter(is.function, ways)
  for (k in 1:120) {
    name <- sample(names(changes), 1L)
    changes[[name]](k)
    way <- if (k <= length(ways)) names(ways)[k] else sample(names(ways), 1L)
    if (k %% 20 == 0) tools::pskill(cluster_status(cl)$pid[1L], tools::SIGKILL)
    if (k %% 7 == 0) clusterEvalQ(cl, 1) # workers have their own settings meanwhile
    here <- unname(fun())
    there <- suppressMessages(ways[[way]]())
    expect_identical(unname(as.character(there)), as.character(here), info = paste(k, name, way))
  }
})

test_cluster("V3: a task sees what the session was when it was submitted", {
  local_session_state()
  cl <- local_cluster(1)
  options(digits = 3)
  first <- task_submit(cl, remote(function() {
    Sys.sleep(0.2)
    format(pi)
  }))
  options(digits = 9)
  second <- task_submit(cl, remote(function() format(pi)))
  options(digits = 5)
  tools::pskill(cl[[1]]$pid, tools::SIGKILL)
  expect_identical(suppressMessages(task_value(first)), "3.14")
  expect_identical(task_value(second), "3.14159265")
})

test_cluster("V3: verbs of parallel's see the worker, and what they set there stays", {
  local_session_state()
  for (start in c("fork", "spawn")) {
    cl <- local_cluster(1, start = start)
    task <- function(fun) task_value(task_submit(cl, remote(fun)))
    options(digits = 4, scipen = 9)
    expect_identical(task(function() format(pi)), "3.142")
    expect_identical(clusterEvalQ(cl, format(pi))[[1]], "3.141593")
    clusterEvalQ(cl, {options(digits = 10); Sys.setenv(MUSTER_TEST_A = "worker"); setwd("/")})
    Sys.setenv(MUSTER_TEST_B = "session")
    expect_identical(task(function() format(pi)), "3.141592654")
    expect_identical(task(function() format(1e10)), "10000000000")
    expect_identical(task(getwd), "/")
    both <- function() Sys.getenv(c("MUSTER_TEST_A", "MUSTER_TEST_B"), NA, names = FALSE)
    expect_identical(task(both), c("worker", "session"))
    expect_identical(clusterCall(cl, both)[[1]], c("worker", NA))
    # What the session has at a start was the worker's from its start.
    Sys.unsetenv("MUSTER_TEST_B")
    expect_identical(task(both), c("worker", NA))
    options(digits = 7, scipen = 0)
  }
})

test_cluster("V3: variables given to a cluster stay, and those of a process aren't sent", {
  local_session_state()
  cl <- makeClusterPSOCK(1, rscript_envs = c(MUSTER_TEST_A = "cluster"))
  defer(function() stopCluster(cl))
  Sys.setenv(MUSTER_TEST_A = "session", MUSTER_TEST_B = "session")
  see <- remote(function() Sys.getenv(c("MUSTER_TEST_A", "MUSTER_TEST_B"), names = FALSE))
  expect_identical(task_value(task_submit(cl, see)), c("cluster", "session"))
  temp <- task_value(task_submit(cl, remote(function() c(Sys.getenv("TMPDIR"), tempdir()))))
  expect_false(tempdir() == temp[2L])
})

test_cluster("V3: a worker whose options were set for one task undoes that for the next", {
  local_session_state()
  cl <- local_cluster(1)
  options(muster_test_option = 1, digits = 4L)
  expect_identical(task_value(task_submit(cl, remote(function() {
    options(digits = 12)
    getOption("muster_test_option")
  }))), 1)
  expect_identical(task_value(task_submit(cl, remote(function() getOption("digits")))), 4L)
  options(digits = 7)
  expect_identical(task_value(task_submit(cl, remote(function() getOption("digits")))), 7L)
  expect_identical(clusterEvalQ(cl, getOption("digits"))[[1]], 7L)
})

test_that("a start notes the environment, which may be set back before the first task", {
  expect_false("MUSTER_TEST_C" %in% names(muster:::context_variables()))
  Sys.setenv(MUSTER_TEST_C = "while starting")
  muster:::note_variables()
  Sys.unsetenv("MUSTER_TEST_C")
  expect_identical(muster:::context_variables()[["MUSTER_TEST_C"]], NA_character_)
})

test_that("options that belong to the session don't travel, nor what isn't plain", {
  all <- list(
    digits = 7, error = quote(recover()), warn = 1, device = "pdf", prompt = "> ",
    muster.references = "ignore", future.plan = "x", mine = 1:3, deep = list(a = 1, b = list("x")),
    env = globalenv(), fun = mean, na.action = "na.omit", contrasts = c("a", "b"), ts.eps = 1e-5
  )
  got <- names(muster:::context_options(all))
  expect_setequal(got, c("digits", "mine", "deep", "na.action", "contrasts", "ts.eps"))
  all$warn <- 2
  expect_true("warn" %in% names(muster:::context_options(all)))
})
