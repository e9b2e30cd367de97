# How long do groups of rows take that are spread over 2 workers?
#
# The sum of each of 1e6 groups in 1e7 rows, collected: partition_reduce(); multidplyr, whose
# summary of each worker's rows is summarised again by hand, as its users do; parLapply() with
# rowsum() and a Reduce() of both, written by hand; data.table in one process with one thread.
# Everybody's rows are where they are needed before the clock starts.
# The exchange: bytes that are blocks already, read by the other worker as columns, both at once,
# beside the same bytes over a bare unix socket. 100 runs of one shuffle in a row; the same
# with one worker killed in each.

measure <- function(quick) {
  raw <- rbind(
    measure_groups(if (quick) 1e6 else 1e7, if (quick) 2L else 9L),
    measure_exchange(if (quick) 4e6 else 2e7, if (quick) 3L else 15L),
    measure_runs(if (quick) 2e5 else 1e6, if (quick) 5L else 100L)
  )
  list(raw = raw, rows = shuffle_rows(raw), notes = runs_notes(raw))
}

# ---- Groups ------------------------------------------------------------------------

groups_case <- "sums of 1e6 groups in 1e7 rows"

measure_groups <- function(n, rounds) {
  set.seed(1)
  rows <- data.frame(g = sample.int(n / 10, n, TRUE), v = runif(n))
  arms <- list(
    muster = groups_muster(rows), "parLapply + Reduce" = groups_by_hand(rows),
    multidplyr = if (is_here("multidplyr")) groups_multidplyr(rows),
    "data.table" = if (is_here("data.table")) groups_table(rows)
  )
  arms <- Filter(Negate(is.null), arms)
  on.exit(for (arm in arms) arm$stop())
  sums <- lapply(arms, function(arm) arm$run())
  for (other in sums) stopifnot(all.equal(sorted_sums(other), sorted_sums(sums$muster)))
  counts <- stats::setNames(rep(rounds, length(arms)), names(arms))
  counts[intersect(names(counts), "multidplyr")] <- min(rounds, 6L)
  interleave(groups_case, counts, function(arm) {
    gc()
    time_of(arms[[arm]]$run())
  })
}

sorted_sums <- function(x) as.numeric(x$s[order(x$g)])

groups_muster <- function(rows) {
  cl <- muster::cluster_start(2L)
  p <- muster::partition_scatter(cl, rows)
  list(
    run = function() {
      muster::partition_collect(muster::partition_summarise(p, .by = "g", s = sum(v)))
    },
    stop = function() muster::cluster_stop(cl)
  )
}

halves <- function(n) split(seq_len(n), rep(1:2, each = ceiling(n / 2), length.out = n))

groups_by_hand <- function(rows) {
  cl <- parallel::makeCluster(2L)
  pieces <- lapply(halves(nrow(rows)), function(at) rows[at, ])
  parallel::clusterApply(cl, pieces, in_global(function(piece) {
    assign("bench_piece", piece, globalenv())
    NULL
  }))
  one <- in_global(function(i) rowsum(bench_piece$v, bench_piece$g, reorder = FALSE))
  add <- function(a, b) {
    rowsum(c(a, b), c(rownames(a), rownames(b)), reorder = FALSE)
  }
  list(
    run = function() {
      sums <- Reduce(add, parallel::parLapply(cl, 1:2, one))
      data.frame(g = as.integer(rownames(sums)), s = sums[, 1L])
    },
    stop = function() parallel::stopCluster(cl)
  )
}

groups_multidplyr <- function(rows) {
  cl <- multidplyr::new_cluster(2L)
  suppressMessages(multidplyr::cluster_library(cl, "dplyr"))
  p <- multidplyr::partition(dplyr::as_tibble(rows), cl)
  list(
    run = function() {
      sums <- dplyr::collect(dplyr::summarise(dplyr::group_by(p, g), s = sum(v)))
      dplyr::summarise(dplyr::group_by(sums, g), s = sum(s))
    },
    # It has no function for that: the sessions end with what refers to them.
    stop = function() {
      p <<- cl <<- NULL
      gc()
    }
  )
}

groups_table <- function(rows) {
  data.table::setDTthreads(1L)
  table <- data.table::as.data.table(rows)
  sums <- eval(quote(function() table[, list(s = sum(v)), by = g]), list(table = table))
  environment(sums) <- list2env(list(table = table), parent = asNamespace("data.table"))
  list(run = sums, stop = function() NULL)
}

# ---- The exchange ------------------------------------------------------------------

exchange_case <- "60 MB each way between 2 workers, all of it read"
gather_case <- "the same, and own blocks, put together as columns"

# Blocks are made before the clock starts. What is timed: each worker asks the other for its
# blocks and reads every byte of those for its half of the parts. Then the same as a whole
# step of a shuffle, with rows of the worker's own, copied into one vector a column.
measure_exchange <- function(n, rounds) {
  cl <- muster::cluster_start(2L)
  on.exit(muster::cluster_stop(cl))
  ns <- asNamespace("muster")
  p <- muster::partition_scatter(cl, data.frame(g = seq_len(n) %% 64L, v = runif(n)), parts = 8L)
  invisible(muster::partition_shuffle(p, "g")) # links, and the first use of everything
  p <- ns$open_handle(p)
  moved <- NA
  read <- function() {
    split <- new_blocks(ns, cl, p)
    wants <- lapply(1:2, function(worker) wanted_blocks(ns, p, split, worker))
    took <- time_of(bytes <- parallel::clusterApply(cl, wants, read_blocks))
    moved <<- max(unlist(bytes))
    took
  }
  gather <- function() {
    split <- new_blocks(ns, cl, p)
    steps <- ns$same_steps(list(list(kind = "gather")))
    time_of(ns$gather_stage(p, 8L, steps, list(split), NULL))
  }
  read()
  interleave(exchange_case, c(muster = rounds, limit = rounds, columns = rounds), function(arm) {
    gc()
    parallel::clusterEvalQ(cl, gc())
    switch(arm, limit = .Call(native$exchange, moved), muster = read(), columns = gather())
  })
}

new_blocks <- function(ns, cl, p) {
  split <- ns$split_stage(p, "g", 8L)
  ns$shuffle_run(p$shuffle, cl, split, NULL)
  split
}

# What the other worker has for the worker's half of the parts.
wanted_blocks <- function(ns, p, split, worker) {
  sources <- ns$sources_of(p$shuffle, split, worker)
  list(
    sources = sources[sources[, 4L] != 0L, , drop = FALSE], parts = seq(worker, 8L, 2L),
    limits = Sys.getenv("BENCH_LIMITS")
  )
}

read_blocks <- in_global(function(want) {
  ns <- asNamespace("muster")
  touch <- getNativeSymbolInfo("bench_touch", dyn.load(want$limits))
  states <- .Call(ns$ffi_block_fetch, want$sources)
  stopifnot(states == ns$fetched[["here"]])
  bytes <- 0
  for (k in seq_len(nrow(want$sources))) {
    for (part in want$parts) {
      block <- .Call(ns$ffi_block_read, want$sources[k, 1:3], part)
      if (is.null(block)) next
      bytes <- bytes + .Call(touch, block$g) + .Call(touch, block$v)
    }
  }
  bytes
})

# ---- Runs in a row -------------------------------------------------------------------

measure_runs <- function(n, rounds) {
  cl <- muster::cluster_start(2L)
  on.exit(muster::cluster_stop(cl))
  set.seed(2)
  rows <- data.frame(g = sample.int(n / 10, n, TRUE), v = runif(n), w = runif(n))
  p <- muster::partition_scatter(cl, rows, parts = 16L)
  run <- function() muster::partition_shuffle(p, "g")
  usual <- median(replicate(5L, time_of(run())))
  interleave(runs_case, c(muster = rounds, killed = rounds), function(arm) {
    gc()
    if (arm == "muster") {
      return(time_of(run()))
    }
    pid <- cl[[sample.int(2L, 1L)]]$pid
    after <- runif(1L, 0, usual)
    system(sprintf("( sleep %.3f; kill -9 %d ) &", after, pid), ignore.stderr = TRUE)
    took <- time_of(run())
    # The next run finds both, whatever this one saw of the kill.
    await_gone(pid)
    while (!all(parallel::clusterEvalQ(cl, TRUE) == TRUE)) NULL
    invisible(run())
    took
  })
}

runs_case <- "one shuffle of 1e6 rows, again and again"

spread <- function(raw) {
  calm <- values(raw, runs_case, "muster")
  killed <- values(raw, runs_case, "killed")
  c(calm = max(calm) / median(calm), killed = max(killed) / median(calm))
}

runs_notes <- function(raw) {
  killed <- values(raw, runs_case, "killed")
  c(
    sprintf("The slowest of %d runs took %.2f times the median, with a worker killed in each %.2f.",
      length(killed), spread(raw)[["calm"]], spread(raw)[["killed"]]
    ),
    sprintf("The exchange has %.2f times the throughput of the bare socket.",
      median(values(raw, exchange_case, "limit")) / median(values(raw, exchange_case, "muster"))
    ),
    if (!is_here("multidplyr")) "multidplyr isn't installed.",
    if (!is_here("data.table")) "data.table isn't installed."
  )
}

shuffle_rows <- function(raw) {
  groups <- lapply(intersect(c("multidplyr", "parLapply + Reduce", "data.table"), raw$arm),
    function(peer) {
      bar <- if (peer == "data.table") {
        bar("ratio at least 0.67", function(ours, theirs, ratio) ratio >= 1 / 1.5)
      } else {
        ratio_bar(3)
      }
      compare(raw, groups_case, peer, bar = bar)
    }
  )
  columns <- raw[raw$case == exchange_case & raw$arm == "columns", ]
  columns$case <- gather_case
  columns$arm <- "muster"
  exchange <- alone(raw, exchange_case, limit = "limit",
    bar = bar("at least 0.6 of the limit's speed", function(ours, theirs, ratio) {
      median(values(raw, exchange_case, "limit")) / ours >= 0.6
    })
  )
  calm <- alone(raw, runs_case, bar = bar("slowest at most 1.5 medians",
    function(ours, theirs, ratio) spread(raw)[["calm"]] <= 1.5
  ))
  killed <- raw[raw$case == runs_case, ]
  killed$case <- paste0(runs_case, ", a worker killed in each")
  killed <- killed[killed$arm == "killed", ]
  killed$arm <- "muster"
  killed <- alone(killed, killed$case[1L], bar = bar("slowest at most 2.5 undisturbed medians",
    function(ours, theirs, ratio) spread(raw)[["killed"]] <= 2.5
  ))
  do.call(rbind, c(groups, list(exchange, alone(columns, gather_case), calm, killed)))
}
