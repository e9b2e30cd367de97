# Summaries by each worker of all its parts at once: no value and no order shows that.

# Results that the session has put together are data; those of a shuffle are made of blocks.
is_direct <- function(handle) !length(stage_of(handle)$far)

rows_of <- function(n, groups) {
  data.frame(
    k = sample(groups, n, TRUE), s = sprintf("%d", sample(groups, n, TRUE)),
    i = sample(c(1:9, NA), n, TRUE), d = sample(c(0.1, 1e16, -1e16, 3, NaN), n, TRUE),
    l = sample(c(TRUE, NA), n, TRUE), day = as.Date("2020-01-01") + sample(9L, n, TRUE)
  )
}

test_cluster("the results, their order and their parts are those of a shuffle", {
  cl <- local_cluster(2)
  local_seed(201)
  x <- rows_of(240000L, 15000L)
  p <- partition_scatter(cl, x, parts = 12)
  each <- function(handle) partition_collect(partition_map(handle, function(part) {
    data.frame(rows = nrow(part), first = if (nrow(part)) format(part[[1L]][1L]) else "none")
  }))
  same <- function(p, by, ..., direct = TRUE) {
    got <- partition_summarise(p, .by = by, ...)
    expect_identical(is_direct(got), direct, info = by)
    want <- partition_summarise(p, .by = by, ..., .parts = stage_of(got)$count)
    expect_false(is_direct(want))
    expect_identical(partition_collect(got), partition_collect(want), info = by)
    expect_identical(each(got), each(want), info = by)
  }
  all <- function(p, by, ...) {
    same(p, by, ...,
      n = n(), s1 = sum(i), s2 = sum(i, na.rm = TRUE), m = mean(d), v = var(i, na.rm = TRUE),
      low = min(day), high = max(i, na.rm = TRUE), a = any(l), r = sum(i * 2) / n()
    )
  }
  all(p, "k")
  all(p, "s")
  all(p, c("k", "l"), direct = FALSE) # more groups than rows show
  # Whose values follow from the order of rows, or are many.
  same(p, "k", direct = FALSE, f = first(i), n = n())
  same(p, "k", direct = FALSE, f = n_distinct(i))
  # As a few values: 0 and -0 are one key, the one that comes first is shown.
  zero <- partition_map(p, function(part) {
    part$k <- ifelse(part$k < 40, -0, as.double(part$k))
    if (part$i[1L] %in% 1:5) part$k[part$k == 0] <- 0
    part
  })
  all(zero, "k")
  keys <- function(handle) {
    rows <- partition_collect(handle)
    1 / rows$k[rows$k == 0]
  }
  expect_identical(
    keys(partition_summarise(zero, .by = k, n = n())),
    keys(partition_summarise(zero, .by = k, n = n(), .parts = 4))
  )
  # Parts without rows, and parts in the middle of which a group begins.
  few <- partition_map(p, function(part) if (part$i[1L] %in% 1:3) part[0, ] else part)
  all(few, "k")
  f <- partition_map(p, function(part) {
    part$f <- factor(part$s, levels = as.character(1:15000))
    part
  })
  all(f, "f")
})

test_cluster("a shuffle makes what can't be had at once", {
  cl <- local_cluster(2)
  local_seed(202)
  x <- rows_of(240000L, 15000L)
  p <- partition_scatter(cl, x, parts = 12)
  summaries <- function(p, ...) {
    partition_summarise(p, .by = k, n = n(), s = sum(i), d = sum(d), ...)
  }
  want <- partition_collect(summaries(p, .parts = 4))
  right <- function(handle, want) {
    got <- partition_collect(handle)
    expect_identical(got[order(got$k), ], want[order(want$k), ], ignore_attr = "row.names")
  }
  by_shuffle <- function(p, want) {
    got <- summaries(p)
    expect_false(is_direct(got))
    right(got, want)
  }
  # Columns of other types, and levels in another order, in some parts.
  mixed <- partition_map(p, function(part) {
    if (part$k[1L] %% 2 == 0) part$i <- as.double(part$i)
    part
  })
  by_shuffle(mixed, partition_collect(summaries(mixed, .parts = 4)))
  # A key that could be none, in a part without rows.
  odd <- partition_map(p, function(part) {
    if (part$i[1L] %in% 4:6) {
      part <- part[0, ]
      part$k <- character()
    }
    part
  })
  expect_error(summaries(odd), "a number in one part", class = "muster_error_input")
  # What is in files.
  local_settings(muster.shuffle_memory = 1e6)
  filed <- partition_map(p, identity)
  by_shuffle(filed, want)
  local_settings(muster.shuffle_memory = NULL)
  # A part that its worker hasn't any more is made again before.
  parts <- stage_of(p)$id
  parallel::clusterCall(cl[1], function(id) {
    kept <- get("the_worker", asNamespace("muster"))$parts
    muster:::part_drop(kept[[which(startsWith(names(kept), paste(id, "")))[1L]]]$key)
  }, parts)
  right(summaries(p), want)
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  right(summaries(p), want)
})

test_cluster("workers that are killed before, meanwhile and later leave nothing wrong", {
  cl <- local_cluster(2)
  local_seed(203)
  x <- rows_of(240000L, 15000L)
  p <- partition_scatter(cl, x, parts = 12)
  want <- partition_collect(partition_summarise(p, .by = k, n = n(), .parts = 4))
  same <- function(handle) {
    got <- partition_collect(handle)
    expect_identical(got[order(got$k), ], want[order(want$k), ], ignore_attr = "row.names")
  }
  # Before the session knows.
  tools::pskill(node_pids(cl)[2L], tools::SIGKILL)
  same(partition_summarise(p, .by = k, n = n()))
  p <- partition_scatter(cl, x, parts = 12)
  again <- partition_summarise(p, .by = k, n = n())
  expect_true(is_direct(again))
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  same(again)
  # While they fold: the second stops, and is ended by somebody else.
  slow <- partition_map(p, function(part) part)
  pid <- node_pids(cl)[2L]
  tools::pskill(pid, tools::SIGSTOP)
  system(sprintf("(sleep 0.5; kill -9 %d) &", pid))
  same(partition_summarise(slow, .by = k, n = n()))
})
