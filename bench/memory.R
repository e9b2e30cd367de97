# How much memory does an idle worker take?
#
# Proportional set size (Pss) of the workers, R's default packages attached, after
# each has answered once; then again after a full gc() in each, which writes to most
# of R's heap and so ends the sharing. A fresh session for each cluster, so that no
# cluster shares pages with another. "Everything" adds the processes that aren't
# workers: muster's fork server. The session is left out on all sides.

measure <- function(quick) {
  n <- if (quick) 8L else 64L
  counts <- if (quick) {
    c(muster = 2L, parallel = 1L, parallelly = 0L, mirai = 1L)
  } else {
    c(muster = 3L, parallel = 3L, parallelly = 1L, mirai = 1L)
  }
  chosen <- select_peers(names(counts)[counts > 0L], n)
  raw <- measure_memory(n, counts[chosen$here])
  rows <- memory_rows(raw, n)
  if (!quick) {
    thousand <- measure_thousand()
    raw <- rbind(raw, thousand$raw)
    rows <- rbind(rows, thousand$rows)
  }
  list(raw = raw, rows = rows, notes = chosen$notes)
}

figures <- c(
  idle = "Pss of an idle worker",
  gc = "the same after gc() in each",
  total = "everything but the session"
)
case_of <- function(figure, n) paste0(n, " workers: ", figures[[figure]])

# Each run gives three figures; rows of the same round belong together.
measure_memory <- function(n, counts) {
  details <- list()
  raw <- interleave(case_of("idle", n), counts, function(peer) {
    got <- fresh(call("memory_of", peer, n), "bench/memory.R")
    details[[length(details) + 1L]] <<- got
    got[["idle"]]
  }, unit = "MB")
  more <- lapply(c("gc", "total"), function(figure) {
    raw$case <- case_of(figure, n)
    raw$value <- vapply(details, `[[`, 1, figure)
    raw
  })
  do.call(rbind, c(list(raw), more))
}

# In a fresh session: c(idle, gc, total), MB.
memory_of <- function(peer, n, collect = TRUE) {
  load_peer(peer)
  cl <- peers[[peer]]$start(n)
  pids <- worker_pids(peer, cl, n)
  Sys.sleep(0.5)
  idle <- pss_mb(pids)
  total <- sum(idle, pss_mb(setdiff(descendants(Sys.getpid()), pids)))
  after <- NA
  if (collect) {
    peers[[peer]]$run(cl, n, gc)
    after <- mean(pss_mb(pids))
  }
  time_stop(peer, cl, pids)
  c(idle = mean(idle), gc = after, total = total)
}

memory_rows <- function(raw, n) {
  at_most_7 <- bar("at most 7 MB", function(ours, theirs, ratio) ours <= 7)
  rows <- lapply(names(figures), function(figure) {
    bars <- if (figure == "idle") list(muster = at_most_7) else list()
    compare_all(raw, case_of(figure, n), bars, show = show_mb)
  })
  do.call(rbind, rows)
}

measure_thousand <- function() {
  case <- case_of("total", 1000L)
  why <- why_not("muster", 1000L)
  if (nzchar(why)) {
    return(list(raw = NULL, rows = left_out(case, why)))
  }
  raw <- interleave(case, c(muster = 1L), function(peer) {
    fresh(call("memory_of", peer, 1000L, FALSE), "bench/memory.R")[["total"]]
  }, unit = "MB")
  under_8 <- bar("under 8 GB", function(ours, theirs, ratio) ours < 8 * 1024)
  rows <- compare_all(raw, case, list(muster = under_8),
    show = show_gb, why = why_not("parallel", 1000L)
  )
  list(raw = raw, rows = rows)
}
