# Maps with more workers than R CMD check allows.

test_cluster("a map goes on after the slower of two that had the same elements was cancelled", {
  cl <- local_cluster(3)
  folder <- local_folder()
  # The first worker that gets the last element but one keeps it until it is cancelled, since an
  # idle worker had it, too. Only that worker has a value of the last element: so the map goes on
  # after the cancelled task has ended. A worker that got both at once would keep both from others:
  # with a time limit and no retries each element is a piece of its own.
  slow_once <- remote(function(i, folder) {
    if (i >= 29) file.create(file.path(folder, paste0(i, "-", Sys.getpid())))
    slow <- file.path(folder, "slow")
    if (i == 29 && dir.create(slow, showWarnings = FALSE)) {
      file.create(file.path(slow, paste0("30-", Sys.getpid())))
      Sys.sleep(3600) # tidy: the worker's work
    }
    if (i == 30) {
      while (!any(list.files(slow) %in% list.files(folder))) Sys.sleep(0.01) # tidy: the work
    }
    i
  })
  got <- cluster_map(cl, 1:30, slow_once, folder, .speculate = TRUE, .retries = 0, .timeout = 3600)
  expect_identical(unlist(got), 1:30)
  expect_gte(length(list.files(folder, "^29-")), 2L) # one more where the second was late, too
  expect_length(intersect(list.files(file.path(folder, "slow")), list.files(folder)), 1L)
  expect_identical(clusterCall(cl, identity, 1), list(1, 1, 1))
})

test_cluster("a straggler's copy that straggles, too, gets another", {
  cl <- local_cluster(3)
  folder <- local_folder()
  slow_twice <- remote(function(i, folder) {
    if (i == 30) {
      file.create(file.path(folder, Sys.getpid()))
      if (length(list.files(folder)) < 3L) Sys.sleep(3600) # tidy: the worker's work
    }
    i
  })
  got <- cluster_map(cl, 1:30, slow_twice, folder, .speculate = TRUE)
  expect_identical(unlist(got), 1:30)
  expect_length(list.files(folder), 3L)
  expect_identical(clusterCall(cl, identity, 1), list(1, 1, 1))
})

# Kills a worker now and then while a map runs: another process, which makes the file "ended"
# when it ends.
killer_of <- function(cl, times, folder, seed) {
  # A file that is left behind by one that was killed goes: its number may be another's later.
  code <- sprintf(
    "set.seed(%d); for (k in seq_len(%d)) { Sys.sleep(runif(1, 0.05, 0.4)); %s; %s; %s }",
    seed, times,
    sprintf("p <- list.files('%s', '^[0-9]+$')", folder),
    "if (length(p)) { p <- sample(p, 1L); tools::pskill(as.integer(p), 9L) }",
    sprintf("unlink(file.path('%s', p))", folder)
  )
  script <- file.path(folder, "killer.R")
  writeLines(c(code, sprintf("file.create('%s')", file.path(folder, "ended"))), script)
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script)), wait = FALSE)
}

test_cluster("maps are right although workers are killed at any moment", {
  cl <- local_cluster(4, retries = 50)
  seed <- as.integer(Sys.getenv("MUSTER_TEST_SEED", "1"))
  work <- remote(function(i, folder) {
    file.create(file.path(folder, Sys.getpid()))
    on.exit(unlink(file.path(folder, Sys.getpid())))
    Sys.sleep(0.006) # tidy: the worker's work
    c(i, rnorm(1))
  })
  expected <- cluster_map(cl, 1:2000, work, local_folder(), .seed = 11)
  for (round in 1:4) {
    folder <- local_folder()
    killer_of(cl, 8L, folder, seed + round)
    got <- suppressMessages(cluster_map(cl, 1:2000, work, folder,
      .seed = 11, .speculate = round %% 2 == 0
    ))
    expect_identical(got, expected, info = paste("MUSTER_TEST_SEED", seed, "round", round))
    wait_until(file.exists(file.path(folder, "ended")))
  }
  expect_gt(sum(cluster_status(cl)$restarts), 0)
  expect_identical(suppressMessages(clusterCall(cl, identity, 1)), rep(list(1), 4L))
}, limit_s = 300)

test_cluster("an element that kills its worker is named among many, with and without retries", {
  for (retries in c(0L, 1L, 3L)) {
    cl <- local_cluster(4, retries = retries)
    poison <- remote(function(i) {
      if (i == 777) tools::pskill(Sys.getpid(), 9L)
      Sys.sleep(0.003) # tidy: the worker's work; so without retries it is alone in its piece
      i
    })
    condition <- tryCatch(suppressMessages(cluster_map(cl, 1:900, poison)),
      muster_error_lost = identity
    )
    expect_s3_class(condition, "muster_error_lost")
    expect_identical(condition$element, 777L)
    expect_match(conditionMessage(condition), "^Element 777 was lost")
    got <- suppressMessages(cluster_map(cl, 1:900, poison, .on_error = "return"))
    expect_identical(got[-777L], as.list((1:900)[-777L]))
    expect_s3_class(got[[777L]], "muster_error_lost")
    expect_identical(clusterCall(cl, identity, 1), rep(list(1), 4L))
  }
})
