# How long do tasks take that are submitted one by one, and maps?
#
# One task submitted and its value asked for: first with nothing else started, on cores that
# are free; then, while the peers' workers are up, in turn with them, beside clusterCall() on
# parallel and parallelly, mirai(), future() and crew's push() and pop(); 100,000 tasks that do
# nothing, submitted and then asked for; a million elements
# through identity(); and 1,000 elements, of which 990 take 1 ms and the last ten 100 ms,
# beside the time that they would take if each of 2 workers were busy all the time.

measure <- function(quick) {
  by_itself <- measure_by_itself(quick)
  chosen <- select_peers(
    c("muster", "parallel", "parallelly", "mirai", "future", "crew"), 2L
  )
  clusters <- lapply(peers[chosen$here], function(peer) peer$start(2L))
  on.exit(for (peer in chosen$here) peers[[peer]]$stop(clusters[[peer]]))
  raw <- rbind(
    by_itself, measure_one(clusters, quick), measure_many(clusters, quick),
    measure_maps(clusters, quick)
  )
  list(raw = raw, rows = task_rows(raw), notes = chosen$notes)
}

measure_by_itself <- function(quick) {
  one <- in_global(function() 1L)
  cl <- muster::cluster_start(2L)
  on.exit(muster::cluster_stop(cl))
  call <- compiler::cmpfun(function() muster::task_value(muster::task_submit(cl, one)))
  block(call, 200L)
  interleave("one task, nothing else started", c(muster = if (quick) 3L else 41L), function(arm) {
    block(call, if (quick) 50L else 400L)
  })
}

measure_one <- function(clusters, quick) {
  one <- in_global(function() 1L)
  calls <- list(muster = function() muster::task_value(muster::task_submit(clusters$muster, one)))
  for (peer in intersect(c("parallel", "parallelly"), names(clusters))) {
    calls[[peer]] <- local({
      cl <- clusters[[peer]][1L]
      function() parallel::clusterCall(cl, one)
    })
  }
  if ("mirai" %in% names(clusters)) calls$mirai <- function() mirai::mirai(1L)[]
  if ("future" %in% names(clusters)) {
    calls$future <- function() future::value(future::future(1L, globals = FALSE))
  }
  if ("crew" %in% names(clusters)) {
    calls$crew <- function() {
      clusters$crew$push(1L)
      clusters$crew$wait(mode = "one")
      clusters$crew$pop()$result[[1L]]
    }
  }
  calls <- lapply(calls, compiler::cmpfun)
  # Milliseconds each: fewer of them in a block.
  slow <- names(calls) %in% c("future", "crew")
  names(slow) <- names(calls)
  for (call in names(calls)) block(calls[[call]], if (slow[[call]]) 3L else 200L)
  counts <- structure(rep(if (quick) 3L else 41L, length(calls)), names = names(calls))
  interleave("one task", counts, function(arm) {
    block(calls[[arm]], if (slow[[arm]]) 5L else if (quick) 50L else 400L)
  })
}

measure_many <- function(clusters, quick) {
  one <- in_global(function() 1L)
  n <- if (quick) 1000L else 100000L
  interleave("100,000 tasks", c(muster = if (quick) 1L else 5L), function(arm) {
    gc()
    time_of({
      tasks <- lapply(seq_len(n), function(i) muster::task_submit(clusters$muster, one))
      for (task in tasks) muster::task_value(task)
    })
  })
}

measure_maps <- function(clusters, quick) {
  x <- seq_len(if (quick) 1e4 else 1e6)
  rounds <- if (quick) 1L else 7L
  # mirai's and crew's maps make a task of each element: minutes for a million.
  arms <- c("muster", "lapply", intersect(c("parallel", "parallelly", "future"), names(clusters)))
  many <- interleave("1,000,000 elements", structure(rep(rounds, length(arms)), names = arms),
    function(arm) {
      gc()
      map_time(arm, clusters, x, identity)
    }
  )
  seconds <- c(rep(0.001, if (quick) 99L else 990L), rep(0.1, if (quick) 1L else 10L))
  work <- in_global(function(s) Sys.sleep(s))
  arms <- c("muster", "limit", setdiff(names(clusters), "muster"))
  skewed <- interleave("990 elements of 1 ms, then 10 of 100 ms",
    structure(rep(rounds, length(arms)), names = arms),
    function(arm) map_time(arm, clusters, seconds, work)
  )
  rbind(many, skewed)
}

map_time <- function(arm, clusters, x, fun) {
  cl <- clusters[[arm]]
  switch(arm,
    muster = time_of(muster::cluster_map(cl, x, fun)),
    lapply = time_of(lapply(x, fun)),
    limit = time_of(lapply(x, fun)) / 2,
    parallel = ,
    parallelly = time_of(parallel::parLapply(cl, x, fun)),
    mirai = time_of(mirai::mirai_map(x, fun)[]),
    future = time_of(future.apply::future_lapply(x, fun)),
    crew = time_of(cl$map(fun(s), iterate = list(s = x), data = list(fun = fun), verbose = FALSE))
  )
}

task_rows <- function(raw) {
  skew <- "990 elements of 1 ms, then 10 of 100 ms"
  ideal <- median(values(raw, skew, "limit"))
  rows <- list()
  add <- function(row) rows[[length(rows) + 1L]] <<- row
  if (length(values(raw, "one task", "parallel"))) {
    add(compare(raw, "one task", "parallel", bar = ratio_bar(3), show = show_us))
  }
  if (length(values(raw, "one task", "mirai"))) {
    add(compare(raw, "one task", "mirai", bar = ratio_bar(6), show = show_us))
  }
  for (peer in c("parallelly", "future", "crew")) {
    if (length(values(raw, "one task", peer))) {
      add(compare(raw, "one task", peer, show = show_us))
    }
  }
  under_30 <- bar("under 30 us", function(ours, theirs, ratio) ours < 30e-6)
  for (case in c("one task", "one task, nothing else started")) {
    add(alone(raw, case, bar = under_30, show = show_us))
  }
  add(alone(raw, "100,000 tasks",
    bar = bar("under 2 s", function(ours, theirs, ratio) ours < 2)
  ))
  add(compare(raw, "1,000,000 elements", "lapply", bar = ratio_bar(1)))
  for (peer in c("parallel", "parallelly", "future")) {
    if (length(values(raw, "1,000,000 elements", peer))) {
      add(compare(raw, "1,000,000 elements", peer))
    }
  }
  for (peer in c("parallel", "parallelly", "mirai", "future", "crew")) {
    if (!length(values(raw, skew, peer))) next
    add(compare(raw, skew, peer, limit = "limit", bar = if (peer == "parallel") bar(
      "within 6 % of the limit", function(ours, theirs, ratio) ours <= 1.06 * ideal
    )))
  }
  do.call(rbind, rows)
}
