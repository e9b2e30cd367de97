# Pieces of maps: how their elements are handed out, handed back, lost and copied.

test_cluster("a straggler's elements are given to an idle worker, too, where that is allowed", {
  cl <- local_cluster(2)
  folder <- local_folder()
  slow_once <- function(i, folder) {
    if (i == 20) {
      file.create(file.path(folder, Sys.getpid()))
      if (length(list.files(folder)) == 1L) Sys.sleep(3600) # tidy: the worker's work
    }
    i
  }
  got <- cluster_map(cl, 1:20, slow_once, folder, .speculate = TRUE)
  expect_identical(unlist(got), 1:20)
  expect_length(list.files(folder), 2L)
})

test_cluster("what a piece has no time for goes to others, in order, each element once", {
  cl <- local_cluster(2)
  folder <- local_folder()
  # The first elements are quick, so many of the slow ones go out together.
  slow <- function(i, folder) {
    cat(i, Sys.getpid(), "\n", file = file.path(folder, Sys.getpid()), append = TRUE)
    if (i > 2) Sys.sleep(0.06) # tidy: two take longer than a piece may
    if (i == 39) stop("thirty-nine")
    if (i > 39) Sys.sleep(3600) # tidy: nobody waits for it
    i
  }
  error <- expect_error(cluster_map(cl, 1:60, slow, folder), class = "muster_error_remote")
  expect_identical(error$element, 39L)
  expect_identical(unlist(error$results[1:38]), 1:38)
  ran <- do.call(rbind, lapply(list.files(folder, full.names = TRUE), read.table))
  ran <- ran[ran[[1L]] < 40, ]
  expect_identical(sort(ran[[1L]]), 1:39)
  # Without that, one worker would have evaluated nearly all.
  expect_true(all(table(ran[[2L]]) > 5L))
  # Random numbers are the elements' own.
  draw <- function(i) {
    if (i > 2) Sys.sleep(0.03) # tidy: as above
    runif(1)
  }
  expect_identical(
    cluster_map(cl, 1:40, draw, .seed = 3), cluster_map(NULL, 1:40, draw, .seed = 3)
  )
  fails <- function(i) {
    if (i %% 5 == 0) stop(i)
    if (i > 2) Sys.sleep(0.02) # tidy: as above
  }
  got <- cluster_map(cl, 1:40, fails, .on_error = "return")
  expect_identical(which(vapply(got, inherits, NA, "muster_error")), seq(5L, 40L, 5L))
  expect_identical(vapply(got[seq(5, 40, 5)], `[[`, 0L, "element"), seq(5L, 40L, 5L))
})

test_cluster("of a lost piece the element that is to blame is named, and the others have results", {
  cl <- local_cluster(2, retries = 2)
  folder <- local_folder()
  deaths <- function() length(list.files(folder))
  f <- function(i, folder) {
    if (i == 3700) {
      file.create(tempfile("death-", folder))
      tools::pskill(Sys.getpid(), 9L)
    }
    i
  }
  condition <- tryCatch(suppressMessages(cluster_map(cl, 1:4000, f, folder)),
    muster_error_lost = identity
  )
  expect_s3_class(condition, "muster_error_lost")
  expect_identical(condition$element, 3700L)
  expect_identical(condition$range, c(3700L, 3700L))
  expect_identical(deaths(), 3L)
  expect_match(conditionMessage(condition), "^Element 3700 was lost with its worker 3 times")
  expect_length(condition$results, 4000L)
  expect_identical(condition$results[1:3000], as.list(1:3000))
  got <- suppressMessages(cluster_map(cl, 1:4000, f, folder, .on_error = "return"))
  expect_s3_class(got[[3700L]], "muster_error_lost")
  expect_identical(got[-3700L], as.list(1:4000)[-3700L])
})

test_cluster("without retries nothing runs twice, and the range of a lost piece is told", {
  cl <- local_cluster(1)
  folder <- local_folder()
  f <- function(i, folder) {
    stopifnot(file.create(file.path(folder, tempfile(paste0(i, "-"), ""))))
    if (i == 900) tools::pskill(Sys.getpid(), 9L)
    i
  }
  condition <- tryCatch(
    suppressMessages(cluster_map(cl, 1:1000, f, folder, .retries = 0)),
    muster_error_lost = identity
  )
  expect_s3_class(condition, "muster_error_lost")
  expect_true(900L %in% seq(condition$range[1L], condition$range[2L]))
  ran <- as.integer(sub("-.*$", "", list.files(folder)))
  expect_identical(anyDuplicated(ran), 0L)
  expect_true(all(seq_len(condition$range[1L] - 1L) %in% unlist(condition$results)))
})
