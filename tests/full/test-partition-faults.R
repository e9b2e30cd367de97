# What happens to a shuffle in each of its phases when a worker is killed or stopped, or its links
# are cut or fall silent. Each time the result is the one without faults, and what was made again
# is counted. Faults are made at their moment, by the worker itself (faults.c).

source("../testthat/helper-partition.R", local = TRUE)
build_faults()

# Its threads and options are none of a test's.
if (requireNamespace("data.table", quietly = TRUE)) data.table::setDTthreads(1)

parts <- 9L
victim <- 3L

# Short limits: a block is asked for again after 0.5 s, and made again after 2.
faulty_cluster <- function(..., frame = parent.frame()) {
  local_settings(muster.quiet = TRUE, muster.shuffle_patience = c(0.5, 2), ..., frame = frame)
  library <- faults_library()
  local_cluster(3, heartbeat = 60, setup = bquote(dyn.load(.(library))), frame = frame)
}

rows_of_test <- function(n = 9000L) {
  local_seed(7)
  data.frame(g = sample.int(500L, n, TRUE), x = sample.int(100L, n, TRUE), row = seq_len(n))
}

# What a worker does to itself, once.
strike_once <- function(fault, mark) {
  if (file.exists(mark) || !file.create(mark)) {
    return()
  }
  if (fault %in% c("cut", "silence")) {
    .Call("faults_links", fault)
  } else {
    .Call("faults_act", c(fault, ""))
  }
}
environment(strike_once) <- globalenv()

# The same to one from here, when it has nothing to do.
strike_at <- function(cl, fault) {
  pid <- node_pids(cl)[victim]
  known <- processes(pid)
  switch(fault,
    SIGKILL = tools::pskill(pid, tools::SIGKILL),
    SIGSTOP = tools::pskill(pid, tools::SIGSTOP),
    clusterCall(cl[victim], function(fault) .Call("faults_links", fault), fault)
  )
  if (fault == "SIGKILL") wait_until(!still_runs(known))
  if (fault == "SIGSTOP") wait_until(process_stat(pid)[1L] == "T")
}

wake_up <- function(pids) for (pid in pids) tools::pskill(pid, tools::SIGCONT)

# Where the outputs of a stage are: how many at the victim. p: an opened handle, as below.
at_victim <- function(p, stage) {
  sum(.Call(ffi_plan_where, p$shuffle$plan, stage$id)[, 2L] == victim)
}

gathers <- same_steps(list(list(kind = "gather")))
split_now <- function(p) {
  split <- split_stage(p, "g", parts)
  shuffle_run(p$shuffle, p$cl, split, NULL)
  split
}

# Each phase: function(p, fault) that has the fault happen there, and gives list(handle of the
# shuffle's rows, how much of what is there then the victim has at most).
at_phase <- list(
  # In the middle of a map task.
  map = function(p, fault) {
    mark <- file.path(local_folder(), "mark")
    m <- partition_reduce(p, "g", function(d, ...) d[-1L],
      .combine = function(d, fault, mark, last, strike_once) {
        if (max(d$row) == last) strike_once(fault, mark)
        d[-1L]
      }, fault = fault, mark = mark, last = p$rows, strike_once = strike_once
    )
    expect_true(file.exists(mark))
    list(m, 2 * parts / 3)
  },
  # All blocks are there, nobody has asked for any.
  barrier = function(p, fault) {
    p <- open_handle(p)
    split <- split_now(p)
    n <- at_victim(p, split)
    strike_at(p$cl, fault)
    list(gather_stage(p, parts, gathers, list(split), NULL)$handle, n)
  },
  # It was asked, and hasn't answered: its links are silent, and then it happens.
  transfer = function(p, fault) {
    p <- open_handle(p)
    split <- split_now(p)
    n <- at_victim(p, split)
    clusterCall(p$cl[victim], function(fault) {
      .Call("faults_links", "silence")
      if (fault != "silence") .Call("faults_later", fault, 0.3)
    }, fault)
    list(gather_stage(p, parts, gathers, list(split), NULL)$handle, n)
  },
  # It has all that it reads and works on it.
  read = function(p, fault) {
    mark <- file.path(local_folder(), "mark")
    pid <- node_pids(open_handle(p)$cl)[victim]
    m <- partition_reduce(p, "g", function(d, fault, mark, pid, strike_once) {
      if (Sys.getpid() == pid) strike_once(fault, mark)
      d[-1L]
    }, fault = fault, mark = mark, pid = pid, strike_once = strike_once)
    expect_true(file.exists(mark))
    list(m, 2 * parts / 3)
  },
  # All is read.
  after = function(p, fault) {
    s <- partition_shuffle(p, "g")
    p <- open_handle(p)
    n <- at_victim(p, stage_of(s)$far[[1L]]) + at_victim(p, stage_of(s))
    strike_at(p$cl, fault)
    list(s, n)
  }
)

# Blocks, what is read, what is collected.
stages <- 3

# One cell of the table.
expect_recovers <- function(cl, phase, fault, want, mode) {
  cell <- paste(fault, "at", phase)
  pids <- node_pids(cl)
  on.exit(wake_up(pids))
  repeat { # until the victim has something
    p <- partition_scatter(cl, rows_of_test(), parts = parts)
    if (at_victim(open_handle(p), stage_of(p)) > 0L) break
  }
  # Links are there already, as in the middle of an analysis.
  expect_identical(sorted_rows(partition_collect(partition_shuffle(p, "g"))), want, info = cell)
  before <- plan_counts(p)
  done <- at_phase[[phase]](p, fault)
  got <- partition_collect(done[[1L]])
  expect_identical(sorted_rows(got[names(want)]), want, info = cell)
  counts <- Map(`-`, plan_counts(p), before)
  again <- counts$committed - stages * parts
  cat(sprintf("    %-20s made again %g of %g, missed %g, lost %g\n", cell, again, done[[2L]],
    counts$missed, counts$lost
  ))
  if (fault %in% c("cut", "silence")) {
    expect_identical(c(again, counts$lost), c(0, 0), info = cell)
  } else {
    # What it had of blocks and parts. How many it had in the middle of things isn't known to
    # the last one.
    slack <- if (phase %in% c("map", "read", "transfer")) parts / 3 else 0
    expect_lte(again, done[[2L]] + slack, label = cell)
    # What lies in the memory of a worker that stands still is opened there.
    sure <- if (mode == "direct") fault == "SIGKILL" && phase == "barrier" else TRUE
    if (sure && phase %in% c("barrier", "transfer")) expect_gte(again, 1, label = cell)
  }
  wake_up(pids)
  wait_until(all(cluster_status(cl)$state == "idle"))
}

for (phase in names(at_phase)) local({
  phase <- phase
  for (mode in c("direct", "listen")) local({
    mode <- mode
    test_cluster(paste0("F1 A worker that is killed, stopped, cut off or silent (", phase,
      ") changes no result; only what is lost is made again (links: ", mode, ")"), {
      limit_time(170)
      cl <- faulty_cluster(muster.shuffle_links = mode)
      want <- sorted_rows(rows_of_test())
      for (fault in c("cut", "silence", "SIGKILL", "SIGSTOP")) {
        expect_recovers(cl, phase, fault, want, mode)
      }
    })
  })
})

test_cluster("F1 Where a worker can't look into another's memory it asks for the same rows", {
  if (is_root()) skip("root may look everywhere")
  cl <- faulty_cluster()
  want <- sorted_rows(rows_of_test())
  p <- partition_scatter(cl, rows_of_test(), parts = parts)
  clusterCall(cl[victim], function() .Call("faults_hide"))
  before <- plan_counts(p)
  for (i in 1:2) {
    got <- partition_collect(partition_shuffle(p, "g"))
    expect_identical(sorted_rows(got), want)
  }
  counts <- Map(`-`, plan_counts(p), before)
  expect_gte(counts$missed, 1)
  again <- counts$missed
  expect_identical(sorted_rows(partition_collect(partition_shuffle(p, "g"))), want)
  expect_identical(plan_counts(p)$missed - before$missed, again)
})
