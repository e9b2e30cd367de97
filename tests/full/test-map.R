# Maps with more workers than R CMD check allows.

test_cluster("a map goes on after the slower of two that had the same elements was cancelled", {
  cl <- local_cluster(3)
  folder <- local_folder()
  # Two of the last stand still the first time: one for long, so that it is given to the
  # idle worker, and one until that has been done.
  slow_once <- remote(function(i, folder) {
    first <- i >= 29 && file.create(file.path(folder, paste0(i, "-", Sys.getpid()))) &&
      length(list.files(folder, paste0("^", i, "-"))) == 1L
    if (first && i == 29) Sys.sleep(60) # tidy: the worker's work
    if (first && i == 30) {
      end <- Sys.time() + 20
      while (length(list.files(folder, "^29-")) < 2L && Sys.time() < end) {
        Sys.sleep(0.01) # tidy: the worker's work
      }
      Sys.sleep(0.5) # tidy: the worker's work
    }
    i
  })
  got <- cluster_map(cl, 1:30, slow_once, folder, .speculate = TRUE)
  expect_identical(unlist(got), 1:30)
  expect_length(list.files(folder, "^29-"), 2L)
  expect_identical(clusterCall(cl, identity, 1), list(1, 1, 1))
})
