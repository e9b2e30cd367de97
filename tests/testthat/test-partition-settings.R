# The session's settings, with which workers evaluate expressions.

test_that("expressions are evaluated with the session's settings of that time", {
  cl <- local_cluster(2)
  local_settings(
    digits = 4, scipen = 50, OutDec = ",", contrasts = c("contr.sum", "contr.poly"),
    useFancyQuotes = FALSE
  )
  local_variables(TZ = "Asia/Tokyo")
  text <- c("a", "B", "_", "b", "A", "c") # in another order in other locales
  rows <- data.frame(
    k = rep(1:2, each = 6), s = rep(text, 2), x = 1e5 * c(1:11, 15) / 7, t = .POSIXct(1:12 * 7e3)
  )
  both <- function(frame) lapply(1:2, function(k) frame[frame$k == k, ])
  each <- function(fun) vapply(both(rows), fun, fun(rows))
  slope <- function(s, x) unname(coef(lm(x ~ s))[2L])
  want <- data.frame(
    k = 1:2, most = each(function(g) max(g$s)), low = each(function(g) sum(g$s < "a")),
    text = each(function(g) format(g$x[1])), hour = each(function(g) format(g$t[1], "%H")),
    quote = each(function(g) sQuote(g$s[1])),
    fit = each(function(g) slope(g$s, g$x))
  )
  old <- Sys.getlocale("LC_COLLATE")
  on.exit(Sys.setlocale("LC_COLLATE", old))
  p <- partition_scatter(cl, rows, parts = 3)
  summaries <- function() {
    partition_summarise(p,
      .by = k, most = max(s), low = sum(s < "a"), text = format(x[1]), hour = format(t[1], "%H"),
      quote = sQuote(s[1]), fit = slope(s, x)
    )
  }
  got <- function(p) {
    rows <- partition_collect(p)
    rows[order(rows$k), ]
  }
  # testthat's own locale is C, that of workers another one, where there is one.
  first <- summaries()
  expect_identical(got(first), want, ignore_attr = "row.names")
  settings <- function() {
    list(Sys.getlocale(), options()[c("digits", "contrasts", "OutDec")], Sys.getenv("TZ"))
  }
  before <- parallel::clusterCall(cl, settings)
  options(digits = 7, OutDec = ".", contrasts = c("contr.treatment", "contr.poly"))
  Sys.setenv(TZ = "UTC")
  Sys.setlocale("LC_COLLATE", "C.UTF-8")
  # R's own order in that locale, which not all systems have.
  again <- got(summaries())
  expect_identical(again$most, each(function(g) max(g$s)))
  expect_identical(again$low, each(function(g) sum(g$s < "a")))
  expect_identical(again$text, each(function(g) format(g$x[1])))
  expect_identical(again$hour, c("01", "13"))
  expect_identical(again$fit, each(function(g) slope(g$s, g$x)))
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  expect_identical(got(first), want, ignore_attr = "row.names")
  expect_identical(parallel::clusterCall(cl, settings), before)
  # Also where several locales differ, and where the code sets something.
  times <- Sys.getlocale("LC_TIME")
  on.exit(Sys.setlocale("LC_TIME", times), add = TRUE)
  for (locale in c("C", "C.UTF-8")) {
    suppressWarnings(for (kind in c("LC_COLLATE", "LC_TIME")) Sys.setlocale(kind, locale))
    for (zone in c("UTC", NA)) {
      if (is.na(zone)) Sys.unsetenv("TZ") else Sys.setenv(TZ = zone)
      set <- partition_summarise(p, .by = k, m = {
        Sys.setenv(TZ = "Asia/Tokyo")
        Sys.setlocale("LC_COLLATE", "C")
        options(digits = 3)
        median(x)
      })
      expect_identical(nrow(set), 2L)
      expect_identical(parallel::clusterCall(cl, settings), before)
    }
  }
})

test_that("a worker without the session's locale says so once", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1:3), parts = 3)
  run <- function() {
    done <- partition_map(p, function(part) {
      settings <- muster:::session_settings()
      settings$locales[["LC_COLLATE"]] <- "nowhere.UTF-8"
      muster:::with_settings(settings, part)
    })
    partition_collect(done)$x
  }
  expect_warning(expect_identical(run(), 1:3), "no locale nowhere.UTF-8, the session's LC_COLLATE")
  expect_no_warning(expect_identical(run(), 1:3))
})
