# What discover() refuses, what an end in the middle leaves, how results are shown.
build_hosts()

expect_input <- function(code, argument, class = "muster_error_input") {
  error <- expect_error(code, class = class)
  expect_identical(error$argument, argument)
  expect_match(deparse1(error$call[[1L]]), "discover")
}

test_that("malformed targets are refused, each with its reason", {
  for (target in c("127.0.0.1/33", "0.0.0.0/0", "127.0.0", "010.0.0.1", "", "a b", "127.0.0.9-8")) {
    expect_input(discover(target, 1), "targets")
  }
  error <- expect_error(discover(c("127.0.0.1/40", "127.0.0.2", "1.2.3"), 1),
    class = "muster_error_input")
  expect_identical(error$targets, c("127.0.0.1/40", "1.2.3"))
  expect_input(discover(character(), 1), "targets")
  expect_input(discover(NA_character_, 1), "targets")
  expect_input(discover(NULL, 1), "targets")
  expect_input(discover("./no-such-file", 1), "targets")
  expect_input(discover("127.0.0.1", 1, exclude = "127.0.0.0/24"), "targets")
  expect_input(discover("127.0.0.1", 1, exclude = "127.0.0.0/99"), "exclude")
})

test_that("other arguments are checked", {
  for (port in list(0, 65536, -1, 1.5, NA, "80", integer())) {
    expect_input(discover("127.0.0.1", port), "port")
  }
  for (timeout in list(0, -1, NA, Inf, "soon", c(1, 2), 1e-9)) {
    expect_input(discover("127.0.0.1", 1, timeout = timeout), "timeout")
  }
  expect_input(discover("127.0.0.1", 1, retries = -1), "retries")
  expect_input(discover("127.0.0.1", 1, retries = 32), "retries")
  expect_input(discover("127.0.0.1", 1, in_flight = 0), "in_flight")
  expect_input(discover("127.0.0.1", 1, rate = 0), "rate")
  expect_input(discover("127.0.0.1", 1, service = "http"), "service")
  expect_input(discover("127.0.0.1", 1, resolve = NA), "resolve")
  expect_input(discover("127.0.0.1", 1, progress = 3), "progress")
})

test_that("public addresses and many are only asked when that was said", {
  error <- expect_error(discover("9.255.255.254-10.0.0.3", 1), class = "muster_error_input")
  expect_identical(error$address, "9.255.255.254")
  expect_input(discover("2001:db8::1", 1), "targets")
  expect_input(discover("127.0.0.0/15", 1), "targets", "muster_error_limit")
  expect_input(discover("fd00::/64", 1), "targets", "muster_error_limit")
  local_settings(muster.discover_max = 5)
  expect_input(discover("127.0.0.0/29", 1), "targets", "muster_error_limit")
  local_settings(muster.discover_max = 1e9)
  expect_error(discover("127.0.0.0/8", 1:2), class = "muster_error_limit")
})

test_that("U9: files of targets are files, empty ones have none, and ::1 isn't public", {
  empty <- tempfile("hosts")
  writeLines("# none yet", empty)
  on.exit(unlink(empty))
  expect_error(discover(empty, 1), "its files list none", class = "muster_error_input")
  for (path in c("./no-such-hosts", "../no-such-hosts", "/no/such/hosts")) {
    expect_error(discover(path, 1), "a file that can't be read", class = "muster_error_input")
  }
  error <- expect_error(discover("::1-::4", 1), class = "muster_error_input")
  expect_identical(error$address, "::2")
  excluded <- expect_error(discover("127.0.0.1", 1, exclude = "127.0.0.1"), "isn't excluded")
  expect_s3_class(excluded, "muster_error_input")
})

test_cluster("an interrupt and a time limit leave what was found", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent"))
  limited <- function() {
    setTimeLimit(elapsed = 2, transient = TRUE)
    on.exit(setTimeLimit(elapsed = 180, transient = TRUE))
    discover("127.1.0.1-3", port, timeout = 30)
  }
  error <- tryCatch(limited(), error = identity)
  expect_s3_class(error$found, "muster_discovery")
  expect_identical(error$found$status, c("open", NA, "refused"))

  pid <- Sys.getpid()
  interrupted <- tryCatch(
    {
      system2("sh", c("-c", shQuote(paste("sleep 2; kill -INT", pid))), wait = FALSE)
      ended <- tryCatch(discover("127.1.0.1-3", port, timeout = 30), error = identity)
      pass_time(10) # a scan that failed must not leave the interrupt to other tests
      ended
    },
    interrupt = identity
  )
  expect_s3_class(interrupted, "interrupt")
  expect_identical(interrupted$found$status, c("open", NA, "refused"))
})

test_cluster("P4: with 16 descriptors a whole block is asked anyway", {
  skip_if_not(nzchar(Sys.which("prlimit")), "there is no prlimit, from util-linux")
  code <- paste(
    "limit <- function(n) {",
    "  system2('prlimit', c('--pid', Sys.getpid(), paste0('--nofile=', n, ':')))",
    "};",
    "loadNamespace('muster'); limit(16);",
    "found <- muster::discover('127.1.5.0/24', 1, in_flight = 64); limit(1024);",
    "cat(nrow(found), unique(found$status))"
  )
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"))
  out <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE)
  expect_identical(utils::tail(out, 1L), "254 refused")
})

test_that("progress is told in lines where it is wanted and a scan takes long", {
  messages <- list()
  before <- progress_after
  withCallingHandlers(
    {
      progress <- new_progress(TRUE, 100, "probes")
      progress$kind <- "lines"
      progress$due <- now_seconds() - 1
      show_progress(progress, 40)
    },
    muster_message = function(m) {
      messages[[length(messages) + 1L]] <<- m
      invokeRestart("muffleMessage")
    }
  )
  expect_length(messages, 1L)
  expect_match(conditionMessage(messages[[1L]]), "40 of 100 probes")
})

test_cluster("a discovery is shown by what is there", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent"))
  found <- discover("127.1.0.0/29", port, timeout = 0.05)
  text <- format(found)
  expect_match(text[1L], "^6 probes in .* s: 1 open, 4 refused, 1 silent$")
  expect_match(text[2L], paste0("^open +127[.]1[.]0[.]1:", port, ", [0-9.e-]+ ms$"))
  expect_length(text, 2L)
  expect_output(print(found), "6 probes")
  expect_output(print(found[, 1:2]), "127.1.0.1")
  map <- discovery_map(found)
  expect_identical(map$column, 0:5)
  expect_identical(as.character(map$status), found$status)
})

test_that("plot() gives a map where ggplot2 is installed, and says so where not", {
  found <- discover("127.1.0.0/29", c(1, 2))
  if (requireNamespace("ggplot2", quietly = TRUE)) {
    map <- plot(found)
    expect_s3_class(map, "ggplot")
    expect_identical(nrow(ggplot2::layer_data(map)), 12L)
  } else {
    expect_error(plot(found), "ggplot2", class = "muster_error_input")
  }
})
