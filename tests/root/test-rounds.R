# Rounds for ever: what a round leaves behind, the next one's replaces. The field's findings, L6.

# One round of each kind, with some 40 MB that no round before had. `x` is the session's.
rounds <- list(
  clusterExport = quote({
    clusterExport(cl, "x")
    clusterEvalQ(cl, x[1])
  }),
  clusterEvalQ = quote(clusterEvalQ(cl, {
    y <- runif(5e6)
    y[1]
  })),
  clusterCall = quote(clusterCall(cl, function(v) v[1], x)),
  values = quote(clusterCall(cl, function() runif(5e6))),
  clusterApplyLB = quote(clusterApplyLB(cl, list(x, x, x), function(v) v[1])),
  parLapply = quote(local({
    y <- x
    parLapply(cl, 1:4, function(k) y[k])
  })),
  cluster_map = quote(cluster_map(cl, 1:4, function(k) x[k])),
  cluster_share = quote({
    cluster_share(cl, x = x)
    clusterEvalQ(cl, x[1])
  }),
  task_submit = quote(task_value(task_submit(cl, function(v) v, x))),
  future = quote({
    if (i == 1L) future::plan(muster_future, workers = cl)
    future::value(future::future(x[1]))
  }),
  foreach = quote({
    if (i == 1L) registerDoMuster(cl)
    foreach::`%dopar%`(foreach::foreach(k = 1:4), x[k])
  }),
  stages = quote({
    p <- partition_scatter(cl, data.frame(a = x[1:25e5], k = 1:5))
    partition_reduce(p, "k", function(d) sum(d$a))
  }),
  errors = quote(try(clusterCall(cl, function(v) stop("no"), x), silent = TRUE))
)
packages <- c(future = "future", foreach = "foreach")

for (name in names(rounds)) {
  test_that(paste0("L6: 150 rounds of 40 MB by ", name, " fit into 1 GB, and don't pile up"), {
    limit_time(300)
    if (name %in% names(packages)) skip_without(packages[[name]])
    group <- local_memory_group(2^30)
    run <- run_in_group(group, bquote({
      options(muster.quiet = TRUE)
      used <- function() {
        lines <- readLines(file.path(.(group$folder), "memory.stat"))
        wanted <- .(if (group$v1) "^total_(rss|shmem) " else "^(anon|shmem) ")
        named <- grep(wanted, lines, value = TRUE)
        sum(as.numeric(sub(".* ", "", named))) / 2^20
      }
      cl <- cluster_start(2)
      pids <- clusterCall(cl, Sys.getpid)
      x <- runif(5e6)
      mb <- numeric(150)
      for (i in 1:150) {
        x[1] <- i
        .(rounds[[name]])
        mb[i] <- used()
      }
      tell(mb = mb, same = identical(clusterCall(cl, Sys.getpid), pids))
    }))
    expect_identical(run$status, 0L, info = run$text)
    expect_true(run$told$same) # the system ended none for its memory
    # Garbage comes and goes: the highest of the last third isn't above that of the second.
    mb <- run$told$mb
    expect_lt(max(mb[101:150]), max(mb[51:100]) + 80)
  })
}
