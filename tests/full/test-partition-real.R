# Real input: the tables of nycflights13, and the text of the installed packages, checked against
# base R and data.table in one process.

source("../testthat/helper-partition.R", local = TRUE)

# Its threads and options are none of a test's.
if (requireNamespace("data.table", quietly = TRUE)) data.table::setDTthreads(1)

flights_tables <- function() {
  testthat::skip_if_not_installed("nycflights13")
  lapply(
    list(flights = nycflights13::flights, planes = nycflights13::planes,
      weather = nycflights13::weather, airports = nycflights13::airports
    ),
    as.data.frame
  )
}

# Both in one order, and plain.
expect_same_rows <- function(got, want, by) {
  got <- got[names(want)]
  row.names(got) <- NULL
  ordered <- function(x) {
    x <- x[do.call(order, unname(as.list(x[by]))), ]
    row.names(x) <- NULL
    x
  }
  expect_equal(ordered(got), ordered(want), ignore_attr = c("row.names", "spec"))
}

test_cluster("All four joins of flights are merge()'s, by several keys and of skewed ones", {
  limit_time(180)
  tables <- flights_tables()
  cl <- local_cluster(2)
  flights <- tables$flights[c("origin", "dest", "time_hour", "tailnum", "dep_delay")]
  flights$row <- seq_len(nrow(flights))
  p <- partition_scatter(cl, flights)
  planes <- tables$planes[c("tailnum", "seats", "year")]
  weather <- tables$weather[c("origin", "time_hour", "wind_speed", "temp")]
  airports <- tables$airports[c("faa", "name", "tz")]
  # merge() takes seconds for each, so each kind is checked with one table.
  expect_joined <- function(y, by, all.x, all.y) {
    by_x <- if (is.null(names(by))) by else names(by)
    got <- partition_collect(partition_join(p, y, by, all.x = all.x, all.y = all.y))
    want <- merge(flights, y,
      by.x = by_x, by.y = unname(by), all.x = all.x, all.y = all.y, sort = FALSE
    )
    expect_same_rows(got, want, c("row", by_x))
  }
  expect_joined(planes, "tailnum", FALSE, FALSE)
  expect_joined(planes, "tailnum", TRUE, FALSE)
  expect_joined(weather, c("origin", "time_hour"), TRUE, TRUE)
  expect_joined(airports, c(dest = "faa"), FALSE, TRUE)
  # Three airports are all there is in the key: each is most of a part.
  tower <- data.frame(origin = c("EWR", "JFK", "LGA"), tower = 1:3)
  j <- partition_join(p, tower, "origin", parts = p$parts)
  expect_gt(j$parts, 32L)
  expect_lte(max(stage_of(j)$rows), 2 * mean(stage_of(p)$rows))
  expect_same_rows(partition_collect(j), merge(flights, tower), "row")
})

test_cluster("Groups of flights that are read from Parquet files are data.table's", {
  limit_time(120)
  testthat::skip_if_not_installed("nanoparquet")
  testthat::skip_if_not_installed("data.table")
  flights <- flights_tables()$flights
  cl <- local_cluster(2)
  folder <- local_folder()
  months <- split(flights, flights$month)
  files <- file.path(folder, paste0("month-", names(months), ".parquet"))
  for (i in seq_along(files)) nanoparquet::write_parquet(months[[i]], files[i])
  p <- partition_read(cl, files)
  expect_identical(sum(stage_of(p)$rows), as.numeric(nrow(flights)))
  got <- partition_collect(partition_summarise(p,
    .by = c(carrier, tailnum), n = n(), delay = mean(arr_delay, na.rm = TRUE),
    miles = sum(distance), first = min(time_hour), last = max(time_hour)
  ))
  fold <- function(table) {
    table[, list(
      n = as.numeric(.N), delay = mean(arr_delay, na.rm = TRUE), miles = sum(distance),
      first = min(time_hour), last = max(time_hour)
    ), by = c("carrier", "tailnum")]
  }
  environment(fold) <- globalenv() # where data.table's `[` is meant
  want <- as.data.frame(fold(data.table::as.data.table(flights)))
  # Parquet has moments, not time zones.
  attr(want$first, "tzone") <- attr(want$last, "tzone") <- "UTC"
  expect_same_rows(got, want, c("carrier", "tailnum"))
  # A function that sees the whole group.
  got <- partition_collect(partition_reduce(p, c("origin", "dest"), function(d) {
    c(median = stats::median(d$air_time, na.rm = TRUE), planes = length(unique(d$tailnum)))
  }))
  key <- paste(flights$origin, flights$dest)
  median <- tapply(flights$air_time, key, stats::median, na.rm = TRUE)
  planes <- tapply(flights$tailnum, key, function(x) length(unique(x)))
  at <- paste(got$origin, got$dest)
  expect_identical(nrow(got), length(median))
  expect_equal(got$median, as.numeric(median[at]))
  expect_equal(got$planes, as.numeric(planes[at]))
})

test_cluster("Words in the text of the installed packages are counted as base R counts them", {
  limit_time(120)
  cl <- local_cluster(2)
  folders <- dirname(Filter(nzchar, vapply(.packages(all.available = TRUE), function(name) {
    system.file("DESCRIPTION", package = name)
  }, "")))
  files <- file.path(rep(folders, each = 3L), c("DESCRIPTION", "NEWS.md", "INDEX"))
  files <- utils::head(files[file.exists(files)], 200L)
  expect_gt(length(files), 30L)
  words_of <- function(file) {
    lines <- iconv(readLines(file, warn = FALSE), "UTF-8", "UTF-8", sub = "")
    words <- tolower(unlist(strsplit(lines, "[^[:alpha:]]+")))
    words[nzchar(words)]
  }
  add <- function(word, ones) sum(ones)
  counts <- map_reduce(cl, files, function(file, words_of) {
    words <- words_of(file)
    list(key = words, value = rep(1, length(words)))
  }, add, .combine = add, words_of = words_of)
  want <- table(unlist(lapply(files, words_of)))
  expect_identical(sort(counts$key), sort(names(want)))
  expect_identical(counts$value, as.numeric(want[counts$key]))
  # The same by data that stays: files are read by the workers, words folded there.
  p <- partition_read(cl, files, function(file, words_of) data.frame(word = words_of(file)),
    words_of = words_of
  )
  again <- partition_collect(partition_summarise(p, .by = "word", n = n(), .parts = 8))
  expect_identical(as.numeric(again$n)[match(counts$key, again$word)], counts$value)
})
