# 336,776 flights out of New York in 2013, in parts that stay on the workers: groups, joins and
# functions that see a whole group, each checked against base R in one process.
library(muster)

if (!requireNamespace("nycflights13", quietly = TRUE)) {
  message("This demo is about the flights of package nycflights13, which isn't installed.")
} else {
  flights <- as.data.frame(nycflights13::flights)
  airlines <- as.data.frame(nycflights13::airlines)
  weather <- as.data.frame(nycflights13::weather)
  cl <- cluster_start(2)

  p <- partition_scatter(cl, flights)
  print(p)

  # How late are they, by airline? Each worker folds its rows, so only sums travel.
  delays <- partition_summarise(p,
    .by = carrier, flights = n(), mean_delay = mean(arr_delay, na.rm = TRUE)
  )
  delays <- partition_collect(partition_join(delays, airlines, "carrier"))
  delays <- delays[order(-delays$mean_delay), ]
  print(delays, row.names = FALSE)
  want <- tapply(flights$arr_delay, flights$carrier, mean, na.rm = TRUE)
  stopifnot(
    all.equal(delays$mean_delay, as.numeric(want[delays$carrier])),
    identical(delays$flights, as.integer(table(flights$carrier)[delays$carrier]))
  )

  # What did each aeroplane do in its year? A function sees all flights of one.
  use <- partition_collect(partition_reduce(p, "tailnum", function(plane) {
    c(days = length(unique(plane$month * 100 + plane$day)), miles = sum(plane$distance))
  }))
  print(utils::head(use[order(-use$miles), ], 5), row.names = FALSE)
  known <- !is.na(use$tailnum)
  miles <- tapply(flights$distance, flights$tailnum, sum)
  stopifnot(
    all.equal(use$miles[known], as.numeric(miles[use$tailnum[known]])),
    nrow(use) == length(unique(flights$tailnum))
  )

  # Does wind make them late? A join by airport and hour.
  windy <- partition_join(p, weather[c("origin", "time_hour", "wind_speed")],
    c("origin", "time_hour")
  )
  print(windy)
  lines <- partition_collect(partition_map(windy, function(part) {
    part <- part[!is.na(part$dep_delay) & !is.na(part$wind_speed), ]
    data.frame(n = nrow(part), late = sum(part$dep_delay[part$wind_speed > 20]))
  }))
  one <- merge(flights[c("origin", "time_hour", "dep_delay")],
    weather[c("origin", "time_hour", "wind_speed")]
  )
  one <- one[!is.na(one$dep_delay) & !is.na(one$wind_speed), ]
  stopifnot(
    sum(lines$n) == nrow(one), sum(lines$late) == sum(one$dep_delay[one$wind_speed > 20])
  )

  # Words in the descriptions of all packages, counted where they are read.
  files <- unlist(lapply(.packages(all.available = TRUE), function(name) {
    system.file("DESCRIPTION", package = name)
  }))
  counts <- map_reduce(cl, files, function(file) {
    words <- tolower(unlist(strsplit(readLines(file, warn = FALSE), "[^A-Za-z]+")))
    list(key = words[nzchar(words)], value = rep(1, sum(nzchar(words))))
  }, function(word, ones) sum(ones), .combine = function(word, ones) sum(ones))
  print(utils::head(counts[order(-counts$value), ], 5), row.names = FALSE)
  words <- tolower(unlist(strsplit(unlist(lapply(files, readLines, warn = FALSE)), "[^A-Za-z]+")))
  want <- table(words[nzchar(words)])
  stopifnot(identical(counts$value, as.numeric(want[counts$key])), nrow(counts) == length(want))

  cluster_stop(cl)
}
