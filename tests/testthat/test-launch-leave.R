# Hosts that are told to end: LEAVING.

test_cluster("workers leave a host that is told to end, and nothing is lost", {
  skip_without_fork()
  skip_without_proc()
  local_variables(SLURM_JOB_ID = NA)
  cl <- cluster_start(list(1, here_by_link(2L)))
  defer(function() cluster_stop(cl))
  x <- 7
  clusterExport(cl, "x", environment())
  clusterEvalQ(cl[3L], y <- x + 1)
  before <- node_pids(cl)
  server <- parent_of(before[2L])
  host <- processes(c(parent_of(server), server, before[2:3]))
  got <- healed({
    tools::pskill(process_pids(host)[1L], tools::SIGTERM)
    mapped <- cluster_map(cl, 1:60, function(i) {
      Sys.sleep(0.02)
      i
    }, .retries = 0)
    wait_until({
      cluster_map(cl, 1:2, identity)
      !any(still_runs(host))
    })
    mapped
  })
  expect_identical(got$value, as.list(1:60))
  expect_identical(got$messages, c("muster_message_leaving", "muster_message_joined"))
  expect_match(got$text, "was told to end; another one is asked for.", fixed = TRUE, all = FALSE)
  expect_identical(clusterEvalQ(cl, x), list(7, 7, 7))
  expect_identical(clusterEvalQ(cl[3L], y), list(8))
  expect_identical(node_pids(cl) == before, c(TRUE, FALSE, FALSE))
})

test_cluster("without healing a host that is told to end is used until it ends", {
  skip_without_fork()
  skip_without_proc()
  local_variables(SLURM_JOB_ID = NA)
  cl <- cluster_start(here_by_link(1L), healing = FALSE)
  defer(function() cluster_stop(cl))
  host <- parent_of(parent_of(cl[[1L]]$pid))
  tools::pskill(host, tools::SIGTERM)
  for (i in 1:3) expect_identical(clusterCall(cl, function() 5), list(5))
  expect_true(tools::pskill(host, 0L))
})
