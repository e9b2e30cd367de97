# How much processor time does a cluster take that has nothing to do?
#
# Sessions of their own start one cluster each, have it answer once, and wait. Then
# the kernel's count of processor time (schedstat, in ns) is read for the session and
# all that it has started, workers and fork server, and again after some seconds.

measure <- function(quick) {
  n <- if (quick) 8L else 64L
  # All are up at the same time: what is counted is each process's own.
  chosen <- select_peers(c("muster", "parallel", "mirai"), n)
  here <- chosen$here
  held <- lapply(structure(here, names = here), hold_session, n = n)
  on.exit(for (session in held) close(session$input))
  Sys.sleep(if (quick) 0.5 else 3)

  case <- paste(n, "idle workers with their session")
  raw <- measure_windows(case, held,
    windows = if (quick) 1L else 3L, seconds = if (quick) 1 else 10
  )
  under_1 <- bar("under 1 % of a core", function(ours, theirs, ratio) ours < 1)
  rows <- compare_all(raw, case, list(muster = under_1), show = show_percent)
  # Of two figures near nothing the ratio says nothing.
  rows$ratio <- ""
  list(raw = raw, rows = rows, notes = chosen$notes)
}

# A session that has a cluster and waits: list(input, pids). It ends, and stops its
# cluster, when `input` is closed.
hold_session <- function(peer, n) {
  ready <- tempfile("ready-")
  request <- tempfile("request-", fileext = ".rds")
  saveRDS(list(call = call("wait_idle", peer, n, ready), file = "bench/idle.R"), request)
  input <- pipe(paste(shQuote(rscript()), "bench/session.R", shQuote(request)), "w")
  end <- now() + 120
  while (!file.exists(ready)) {
    if (file.exists(answer_file(request)) || now() > end) {
      close(input)
      stop(peer, ": ", n, " idle workers can't be had", call. = FALSE)
    }
    Sys.sleep(0.02)
  }
  list(input = input, pids = readRDS(ready))
}

# In that session.
wait_idle <- function(peer, n, ready) {
  load_peer(peer)
  cl <- peers[[peer]]$start(n)
  pids <- worker_pids(peer, cl, n)
  saveRDS(unique(c(Sys.getpid(), descendants(Sys.getpid()), pids)), paste0(ready, ".part"))
  file.rename(paste0(ready, ".part"), ready)
  readLines(file("stdin"), 1L)
  time_stop(peer, cl, pids)
}

# Percent of one core, by session, in some windows of time.
measure_windows <- function(case, held, windows, seconds) {
  cat("  ", case, ": ", windows, " x ", seconds, " s\n", sep = "")
  used <- function() vapply(held, function(session) cpu_s(session$pids), 1)
  rounds <- lapply(seq_len(windows), function(round) {
    before <- used()
    took <- time_of(Sys.sleep(seconds))
    percent <- 100 * (used() - before) / took
    data.frame(case = case, round = round, arm = names(held), value = percent, unit = "%")
  })
  do.call(rbind, rounds)
}
