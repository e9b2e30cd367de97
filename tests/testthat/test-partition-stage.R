# Handles and stages from the session's side: what a handle weighs, what keeps data and what lets go
# of it. What copies of handles say is in test-partition-scatter.R.

# Loading it sets options, which a test would be told to have left behind.
has_data_table <- requireNamespace("data.table", quietly = TRUE)

weight <- function(x) length(serialize(x, NULL))

# Bytes of the largest that the workers of a cluster were sent once, for a function.
heaviest_job <- function(cl) {
  max(unlist(clusterCall(cl, function() {
    jobs <- as.list(getFromNamespace("the_worker", "muster")$jobs)
    vapply(jobs, function(job) length(serialize(job, NULL)), 0L)
  })))
}

# A worker is killed, and is back.
replace_worker <- function(cl, rank) {
  tools::pskill(cl[[rank]]$pid, 9L)
  wait_until({
    status <- cluster_status(cl)
    status$restarts[rank] == 1 && status$state[rank] == "idle"
  })
}

test_cluster("A handle weighs next to nothing, however much data it stands for", {
  cl <- local_cluster(2)
  data <- data.frame(k = rep(1:10, 1e4), text = sprintf("id%010d", 1:1e5))
  p <- partition_scatter(cl, data)
  handles <- list(
    p, partition_scatter(cl, data[1:10, ]), partition_map(p, function(d) d),
    partition_summarise(p, .by = "k", n = n()), partition_shuffle(p, "k"),
    partition_join(p, data[1:10, ], "k")
  )
  for (h in handles) expect_lt(weight(h), 600)
  expect_lt(weight(handles), 6000)
  # Attributes don't hold more than what serialize() is shown, either.
  expect_lt(as.numeric(object.size(p)), 5000)
})

test_cluster("A function takes no data along that a handle beside it stands for", {
  cl <- local_cluster(2)
  analysis <- function(cl, p, q) {
    list(cl, p, q) # before they are used they are promises, with the frame of the caller
    m <- muster::partition_map(p, function(d) data.frame(n = nrow(d)))
    task <- muster::task_submit(cl, function() length(serialize(sys.function(), NULL)))
    alone <- parallel::clusterCall(cl, function() length(serialize(sys.function(), NULL)))
    mapped <- muster::cluster_map(cl, 1:2, function(i) length(serialize(sys.function(), NULL)))
    list(m = m, function_bytes = c(muster::task_value(task), unlist(alone), unlist(mapped)))
  }
  # As a user's: a test's functions have more around them, and references to their source.
  analysis <- eval(parse(text = deparse(analysis), keep.source = FALSE), globalenv())
  p <- partition_scatter(cl, data.frame(x = sqrt(1:1e5)), parts = 4)
  got <- analysis(cl, p, partition_summarise(p, .by = "x", n = n()))
  expect_identical(partition_collect(got$m)$n, rep(25000L, 4))
  expect_lt(max(got$function_bytes, heaviest_job(cl)), 6000)
})

test_cluster("A part is made again by its function as it was, whatever was assigned since", {
  skip_without_proc()
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(x = 1:8), parts = 8)
  value <- 1
  add <- function(d, by) {
    d$value <- value
    d$by <- by$by
    d
  }
  by <- list2env(list(by = "first"))
  one <- partition_map(p, add, by = by)
  value <- 2
  by$by <- "second"
  two <- partition_map(one, function(d) {
    d$next_value <- value
    d
  })
  value <- 3
  expect_true(any(parts_at(one) == 1L))
  replace_worker(cl, 1)
  # The second is made of the first, which is made again in the same task.
  expect_identical(
    partition_collect(two), data.frame(x = 1:8, value = 1, by = "first", next_value = 2)
  )
  expect_identical(partition_collect(one), data.frame(x = 1:8, value = 1, by = "first"))
})

test_cluster("A data.table that is changed in place later is made again as it was", {
  skip_without_proc()
  skip_if_not(has_data_table, "data.table isn't installed")
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  table <- data.table::data.table(x = sqrt(1:8), text = letters[1:8])
  p <- partition_scatter(cl, table, parts = 8)
  j <- partition_join(p, table, "text")
  data.table::set(table, 1:8, "x", -1)
  data.table::set(table, 1:8, "text", "no")
  replace_worker(cl, 1)
  expect_identical(as.data.frame(p), data.frame(x = sqrt(1:8), text = letters[1:8]))
  joined <- partition_collect(j)
  expect_identical(sort(joined$x.y), sqrt(1:8))
  expect_identical(joined$x.x, joined$x.y)
})

test_cluster("Handles and functions that hold each other in a frame are let go together", {
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(x = 1:100))
  shuffle <- open_handle(p)$shuffle
  chain <- function(p) {
    a <- p
    # Each function's frame has the handle that is made by it, or one made of that.
    for (i in 1:3) a <- partition_map(a, function(d) d)
    a <- partition_reduce(a, "x", function(g) nrow(g))
    partition_collect(a)
  }
  for (i in 1:2) expect_identical(sort(chain(p)$x), 1:100)
  gc()
  partition_collect(p) # drops what is gone
  expect_identical(names(shuffle$stages), as.character(p$stage))
})

test_cluster("V4: A data.table that a part's function changes in place is as it was for the next", {
  skip_if_not(has_data_table, "data.table isn't installed")
  cl <- local_cluster(1)
  local_globals()
  assign("found", data.table::data.table(n = 1), globalenv())
  p <- partition_scatter(cl, data.frame(x = 1:3), parts = 3)
  # Of functions and arguments without an environment a worker has one object for all parts.
  global <- eval(quote(function(d) {
    data.table::set(found, 1L, "n", found$n + 1)
    data.frame(n = found$n + 0)
  }), globalenv())
  given <- eval(quote(function(d, tables) {
    data.table::set(tables[[1L]], 1L, "n", tables[[1L]]$n + 1)
    data.frame(n = tables[[1L]]$n + 0)
  }), globalenv())
  expect_identical(partition_collect(partition_map(p, global))$n, c(2, 2, 2))
  m <- partition_map(p, given, tables = list(data.table::data.table(n = 1)))
  expect_identical(partition_collect(m)$n, c(2, 2, 2))
})

# Segments that this process has open.
segments_open <- function() {
  sum(grepl("^/memfd:muster", Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))))
}

test_cluster("V4: Large vectors that stages carry are there once, and as they were for each", {
  skip_without_proc()
  skip_without_feature("memfd")
  local_settings(muster.quiet = TRUE, muster.share_min = 4096)
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(x = 1:8), parts = 8)
  frame <- new.env()
  frame$add <- eval(quote(function(d, name) {
    d[[name]] <- lookup$value[d$x]
    d
  }), frame)
  map <- function(p, name, value) {
    frame$lookup <- data.frame(value = value + 1:10000)
    partition_map(p, frame$add, name = name)
  }
  gc()
  before <- segments_open()
  other <- map(p, "z", 0)
  one <- map(p, "a", 0)
  two <- map(one, "b", 0)
  three <- map(two, "c", 100)
  rm(other) # the vector that it shares with others stays
  gc()
  expect_identical(partition_collect(p), data.frame(x = 1:8))
  expect_identical(segments_open(), before + 2L)
  frame$lookup$value[1:8] <- -1
  expect_true(any(parts_at(three) == 1L))
  replace_worker(cl, 1)
  # One task makes a part of all three, by three jobs.
  want <- data.frame(x = 1:8, a = 0 + 1:8, b = 0 + 1:8, c = 100 + 1:8)
  expect_identical(partition_collect(three), want)
  expect_identical(partition_collect(one), want[1:2])
  rm(one, two, three)
  gc()
  partition_collect(p)
  # What jobs that were used last carry is kept, and no more.
  expect_lte(segments_open(), before + 2L)
})

test_cluster("V4: Segments of stages that nobody has any more are given back", {
  skip_without_proc()
  skip_without_feature("memfd")
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1), parts = 1)
  gc()
  before <- segments_open()
  most <- 0L
  for (i in 1:200) {
    m <- partition_map(p, local({
      carried <- i + 1:2000 + 0
      function(d) data.frame(x = carried[1L])
    }))
    most <- max(most, segments_open() - before)
  }
  expect_identical(partition_collect(m), data.frame(x = 201))
  expect_lt(most, 100L)
})

test_cluster("V4: A stage whose function carries more than there is memory for isn't made", {
  skip_without_feature("memfd")
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1:2), parts = 2)
  frame <- list2env(list(carried = raw(7e7)))
  fun <- eval(quote(function(d) data.frame(n = length(carried))), frame)
  .Call(ffi_share_pretend, FALSE, 5e7)
  defer(function() .Call(ffi_share_pretend, FALSE, -1))
  expect_error(partition_map(p, fun), class = "muster_error_memory")
  .Call(ffi_share_pretend, FALSE, -1)
  expect_identical(names(open_handle(p)$shuffle$stages), as.character(p$stage))
  expect_identical(partition_collect(partition_map(p, fun))$n, rep(70000000L, 2))
})

test_cluster("Copies of a handle in lists and frames keep its data, and the last lets go", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1:10), parts = 2)
  other <- partition_scatter(cl, data.frame(x = 1), parts = 1)
  parts <- function() {
    gc()
    partition_collect(other)
    clusterEvalQ(cl, length(muster:::the_worker$parts))[[1L]]
  }
  keep <- list(a = list(p), f = local({
    mine <- p
    function() partition_collect(mine)
  }))
  rm(p)
  expect_identical(parts(), 3L)
  keep$a <- NULL
  expect_identical(keep$f(), data.frame(x = 1:10))
  expect_identical(parts(), 3L)
  rm(keep)
  expect_identical(parts(), 1L)
})

test_cluster("A handle keeps its cluster, which goes with it", {
  skip_without_proc()
  cl <- cluster_start(1)
  worker <- node_processes(cl)
  p <- partition_scatter(cl, data.frame(x = 1:10))
  rm(cl)
  gc()
  expect_identical(partition_collect(p), data.frame(x = 1:10))
  rm(p)
  wait_until({
    gc()
    muster::cluster_stop(cluster_start(1)) # serves the session
    !still_exists(worker)
  })
})

test_cluster("A handle from a file, or without its token, is refused by every verb", {
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1:10))
  file <- file.path(local_folder(), "handle.rds")
  saveRDS(p, file)
  without <- new_handle(replace(held_by(p), "token", NULL))
  for (copy in list(readRDS(file), without)) {
    verbs <- list(
      function() partition_collect(copy), function() partition_map(copy, identity),
      function() partition_shuffle(copy, "x"), function() partition_reduce(copy, "x", nrow),
      function() partition_join(p, copy, "x"), function() partition_join(copy, p, "x")
    )
    for (verb in verbs) {
      expect_error(verb(), "This is a copy", class = "muster_error_input")
    }
    expect_output(print(copy), "10 rows, .*1.* part.*; belongs to another process")
  }
  expect_identical(partition_collect(p), data.frame(x = 1:10))
})

test_cluster("A forked child's clusters begin without the stages of its parent's", {
  skip_without_fork()
  cl <- local_cluster(1)
  p <- partition_scatter(cl, data.frame(x = 1:10))
  child <- parallel::mccollect(parallel::mcparallel({
    names(the_partition$shuffles) <- 1 # its first cluster's number
    own <- cluster_start(1)
    stages <- shuffle_of(own, NULL)$stages
    q <- partition_scatter(own, data.frame(x = 1:3))
    got <- list(length(stages), q$stage, partition_collect(q)$x)
    cluster_stop(own)
    .Call(ffi_session_end, 2, 0)
    got
  }))[[1L]]
  expect_identical(child, list(0L, 1L, 1:3))
  expect_identical(partition_collect(p), data.frame(x = 1:10))
})

test_cluster("What is lost is made again once, and then it is there", {
  cl <- local_cluster(2)
  calls <- file.path(local_folder(), "calls")
  p <- partition_scatter(cl, data.frame(x = 1:60), parts = 6)
  made <- partition_map(p, function(part, calls) {
    cat("1\n", file = calls, append = TRUE)
    transform(part, y = x * 2)
  }, calls)
  count <- function() length(readLines(calls))
  expect_identical(count(), 6L)
  at <- parts_at(made)
  lost <- sum(at == at[1L])
  tools::pskill(node_pids(cl)[at[1L]], tools::SIGKILL)
  sums <- function() {
    partition_collect(partition_map(made, function(part) data.frame(s = sum(part$y))))
  }
  want <- data.frame(s = vapply(0:5, function(k) sum(2 * (10 * k + 1:10)), 0))
  expect_identical(sums(), want)
  expect_identical(count(), 6L + lost)
  expect_false(anyNA(parts_at(made)))
  expect_identical(sums(), want)
  expect_identical(partition_collect(made)$y, 2 * 1:60)
  expect_identical(count(), 6L + lost)
  # Also where the task that makes it fails, and not where there is no handle.
  tools::pskill(node_pids(cl)[at[1L]], tools::SIGKILL)
  expect_error(partition_map(made, function(part) stop("no")), class = "muster_error_remote")
  n <- count()
  expect_identical(sums(), want)
  expect_lte(count() - n, lost)
  n <- count()
  expect_identical(sums(), want)
  expect_identical(count(), n)
  rm(made)
  gc()
  expect_identical(partition_collect(p)$x, 1:60)
  # Scattered rows are sent again instead, where a worker would have more than its share.
  after <- unlist(parallel::clusterEvalQ(cl, length(muster:::the_worker$parts)))
  expect_lte(sum(after), 6L)
})
