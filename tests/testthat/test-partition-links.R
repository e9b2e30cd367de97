# How workers of a shuffle get at each other's blocks: directly, or by listeners with a queue each.

links_counts <- function(cl) {
  clusterCall(cl, function() .Call(getFromNamespace("ffi_links_count", "muster")))
}
sum_of <- function(counts, name) sum(vapply(counts, function(x) sum(x[[name]]), 0))

shuffle_data <- function(n = 600L) {
  local_seed(21)
  data.frame(g = sample.int(40L, n, TRUE), row = seq_len(n))
}

# Can segments of others be opened where they lie?
can_open <- built_with("memfd") && built_with("proc")

test_cluster("F3 Any number of handlers, directly or by listeners, gives the same rows", {
  want <- NULL
  for (mode in c("direct", "listen")) {
    local_settings(muster.shuffle_links = mode)
    cl <- cluster_start(2)
    p <- partition_scatter(cl, shuffle_data(), parts = 4)
    for (handlers in c(1, 2, 10)) {
      local_settings(muster.shuffle_handlers = handlers)
      got <- partition_collect(partition_shuffle(p, "g"))
      if (is.null(want)) want <- got
      expect_identical(got, want, info = paste(mode, handlers))
      counts <- links_counts(cl)
      opens <- mode == "direct" && can_open
      expect_identical(sum_of(counts, "handlers"), 2 * handlers)
      # One connection of two workers, however often it is used; or none.
      expect_identical(sum_of(counts, "links"), if (opens) 0 else 2)
      expect_identical(sum_of(counts, "opened") > 0, opens)
      expect_identical(sum_of(counts, "dialled") > 0, !opens)
      expect_identical(sum_of(counts, "again"), 0)
    }
    cluster_stop(cl)
  }
  expect_identical(sort(want$row), 1:600)
})

test_cluster("F1 Blocks that lie in files are asked for", {
  if (!can_open) skip("all blocks lie in files")
  cl <- local_cluster(2)
  local_settings(muster.shuffle_memory = 0)
  p <- partition_scatter(cl, shuffle_data(), parts = 4)
  got <- partition_collect(partition_shuffle(p, "g"))
  expect_identical(sort(got$row), 1:600)
  counts <- links_counts(cl)
  expect_identical(sum_of(counts, "opened"), 0)
  expect_identical(sum_of(counts, "links"), 2)
  local_settings(muster.shuffle_memory = NULL)
  expect_identical(partition_collect(partition_shuffle(p, "g")), got)
  expect_gt(sum_of(links_counts(cl), "opened"), 0)
})

test_cluster("F3 Workers listen where no other user can look", {
  skip_without_proc()
  cl <- local_cluster(2)
  local_settings(muster.shuffle_handlers = 3)
  partition_shuffle(partition_scatter(cl, shuffle_data(), parts = 2), "g")
  found <- clusterCall(cl, function() {
    folder <- file.path(tempdir(), "links")
    list(mode = format(file.mode(folder)), files = list.files(folder))
  })
  for (one in found) expect_identical(one, list(mode = "700", files = c("0", "1", "2")))
})

test_cluster("F1 Options of links that can't be are refused before anything runs", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, shuffle_data(), parts = 1)
  for (bad in list("pairs", NA, c("direct", "listen"))) {
    local_settings(muster.shuffle_links = bad)
    error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_input")
    expect_identical(error$argument, "options(muster.shuffle_links)")
  }
  local_settings(muster.shuffle_links = NULL)
  for (bad in list(1, c(1, NA), c(5, 2), c(0, 1), "1", c(1, Inf))) {
    local_settings(muster.shuffle_patience = bad)
    error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_input")
    expect_identical(error$argument, "options(muster.shuffle_patience)")
  }
  local_settings(muster.shuffle_patience = NULL)
  for (bad in list(0, 257, 1.5, "2", c(1, 2))) {
    local_settings(muster.shuffle_handlers = bad)
    error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_input")
    expect_identical(error$argument, "options(muster.shuffle_handlers)")
  }
})

test_cluster("F3 A worker that can't listen says so if it must, and does without else", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, shuffle_data(), parts = 1)
  # Somebody else's folder is in the way.
  clusterCall(cl, function() dir.create(file.path(tempdir(), "links"), mode = "0755"))
  local_settings(muster.shuffle_links = "listen")
  error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_limit")
  expect_match(conditionMessage(error), "Can't listen for other workers in ")
  expect_identical(error$worker, 1L)
  local_settings(muster.shuffle_links = "direct", muster.shuffle_memory = 0)
  error <- expect_error(partition_shuffle(p, "g"), class = "muster_error_limit")
  expect_match(conditionMessage(error), "Can't listen for other workers in ")
  if (!can_open) skip("all blocks lie in files")
  local_settings(muster.shuffle_memory = NULL)
  expect_identical(nrow(partition_collect(partition_shuffle(p, "g"))), 600L)
})
