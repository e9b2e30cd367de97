# Each check either gives the value in the form wanted, or raises muster_error_input
# which names the argument and what was given.
refused <- function(code, argument) {
  error <- expect_error(code, class = "muster_error_input")
  expect_identical(error$argument, argument)
  expect_match(conditionMessage(error), paste0("`", argument, "` must be "), fixed = TRUE)
}

error_text <- function(code) conditionMessage(tryCatch(code, error = identity))

test_that("values are described in a few words", {
  values <- list(
    NULL, 1.5, NA, "a \"quoted\" word", NA_character_, strrep("long ", 100), 1:3, character(),
    factor(c("a", "b")), list(1, "a"), data.frame(x = 1), mean, sum, quote(x + y), quote(x),
    globalenv(), expression(a, b), as.raw(255)
  )
  texts <- vapply(values, describe, "")
  expect_snapshot(writeLines(texts))
})

test_that("a description is short, whatever the value", {
  values <- list(
    strrep("x", 1e5), strrep("\u00e9", 1e5), as.list(1:1e4), new.env(), .Machine$double.xmin,
    Sys.time(), as.POSIXlt(Sys.time()), array(1:8, c(2, 2, 2)), body(lm), ~x
  )
  for (value in values) {
    text <- describe(value)
    expect_type(text, "character")
    expect_length(text, 1L)
    expect_lte(nchar(text), 60L)
  }
})

test_that("whole numbers of any numeric type are counts, and become integers", {
  expect_identical(check_count(3, "n"), 3L)
  expect_identical(check_count(3L, "n"), 3L)
  expect_identical(check_count(c(a = 2), "n"), 2L)
  expect_identical(check_count(.Machine$integer.max, "n"), .Machine$integer.max)
  expect_identical(check_count(0, "n", min = 0L), 0L)
  expect_identical(check_count(1e3, "n", max = 1000L), 1000L)
})

test_that("what is no count is refused", {
  wrong <- list(
    0, -1, 1.5, NA, NA_integer_, NA_real_, NaN, Inf, -Inf, 2^31, "2", "", TRUE, NULL, integer(),
    1:2, list(1), factor(2), 2+0i, as.raw(2), mean, quote(x), globalenv()
  )
  for (value in wrong) {
    refused(check_count(value, "workers"), "workers")
  }
  refused(check_count(11, "workers", max = 10L), "workers")
  refused(check_count(4, "workers", min = 5L), "workers")
})

test_that("a message about a count tells its range, what was given and what to do", {
  texts <- c(
    error_text(check_count(0, "workers", max = 10000L)),
    error_text(check_count("a", "threads")),
    error_text(check_count(1:3, "threads", min = 0L, hints = "Give one number."))
  )
  expect_snapshot(writeLines(texts))
})

test_that("the range is told without a warning where the decimal mark is a comma", {
  local_settings(OutDec = ",")
  expect_warning(refused(check_count(0, "workers", max = 10000L), "workers"), regexp = NA)
})

test_that("seconds are numbers above 0, infinite ones where allowed", {
  expect_identical(check_seconds(0.5, "timeout"), 0.5)
  expect_identical(check_seconds(2L, "timeout"), 2)
  expect_identical(check_seconds(Inf, "timeout", infinite = TRUE), Inf)
  for (value in list(0, -1, NA, NaN, Inf, "1", NULL, c(1, 2), TRUE, list(1))) {
    refused(check_seconds(value, "timeout"), "timeout")
  }
  refused(check_seconds(-Inf, "timeout", infinite = TRUE), "timeout")
  text <- error_text(check_seconds(-1, "timeout"))
  expect_snapshot(writeLines(text))
})

test_that("flags are TRUE or FALSE", {
  expect_true(check_flag(TRUE, "autoStop"))
  expect_false(check_flag(FALSE, "autoStop"))
  for (value in list(NA, "TRUE", 1, NULL, logical(), c(TRUE, FALSE), list(TRUE))) {
    refused(check_flag(value, "autoStop"), "autoStop")
  }
  text <- error_text(check_flag("yes", "autoStop"))
  expect_snapshot(writeLines(text))
})

test_that("names are strings, and NULL stands for none", {
  expect_identical(check_strings(NULL, "packages"), character())
  expect_identical(check_strings(character(), "packages"), character())
  expect_identical(check_strings(c("a", "b"), "packages"), c("a", "b"))
  for (value in list(NA, NA_character_, "", c("a", NA), c("a", ""), 1, list("a"), factor("a"))) {
    refused(check_strings(value, "packages"), "packages")
  }
  text <- error_text(check_strings(c("a", ""), "packages"))
  expect_snapshot(writeLines(text))
})

test_that("a choice is exact, and the first one if all are given", {
  choices <- c("fork", "spawn")
  expect_identical(check_choice(choices, "start", choices), "fork")
  expect_identical(check_choice("spawn", "start", choices), "spawn")
  for (value in list("f", "FORK", "", NA, NA_character_, NULL, 1, rev(choices), list("fork"))) {
    refused(check_choice(value, "start", choices), "start")
  }
  text <- error_text(check_choice("f", "start", choices))
  expect_snapshot(writeLines(text))
})

test_that("the error's call is that of the function with the argument", {
  user <- function(n) check_count(n, "n")
  error <- expect_error(user("a"), class = "muster_error_input")
  expect_identical(conditionCall(error), quote(user("a")))
})

test_that("a missing argument is told by the function that the user called", {
  socket <- socket_listen(0L)
  defer(function() socket_close(socket))
  cases <- list(
    port = quote(discover("127.0.0.1")), .cl = quote(cluster_map()), cl = quote(cluster_stop()),
    cl = quote(cluster_status()), cl = quote(cluster_logs()), cl = quote(cluster_journal()),
    cl = quote(cluster_resize()), cl = quote(cluster_share()), cl = quote(partition_scatter()),
    tasks = quote(task_wait()), tasks = quote(task_cancel()), .p = quote(partition_map()),
    p = quote(partition_collect()), .p = quote(partition_reduce()), x = quote(partition_join()),
    socket = quote(socket_send()), socket = quote(socket_close()), x = quote(socket_send(socket)),
    sockets = quote(socket_select())
  )
  for (i in seq_along(cases)) {
    error <- expect_error(eval(cases[[i]]), class = "muster_error_input")
    expect_identical(error$argument, names(cases)[i])
    expect_identical(conditionCall(error), cases[[i]])
    expect_match(conditionMessage(error), "is missing, with no default", fixed = TRUE)
  }
})
