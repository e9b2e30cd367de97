# What must not take longer: promises about time that tests don't judge, since a machine that is
# busy with other work would fail them.
#   Rscript bench/bars.R [NAME ...]     in the checkout's root; all bars, or those named
# Each bar is measured a few times, on this machine as it is; the median must not be above it.
# Prints a line for each, and ends with status 1 if one is missed. The load stands at the head:
# above half a processor, figures say more about the machine. Linux only: reads /proc.

suppressPackageStartupMessages({
  library(parallel)
  library(muster)
})
options(muster.quiet = TRUE)

seconds <- function(code) system.time(code)[["elapsed"]]

# The median over so many calls of a function that gives seconds.
median_of <- function(times, measure) {
  stats::median(vapply(seq_len(times), function(i) measure(), 0))
}

# Runs f() with a cluster that is stopped afterwards.
with_cluster <- function(f, ...) {
  cl <- cluster_start(...)
  on.exit(cluster_stop(cl))
  f(cl)
}

# A process of the shell that does something after a while: its command knows $mine, this
# session, and writes the time at which it did it into a file, whose name is the value.
later <- function(after_s, command) {
  stamp <- tempfile("stamp-")
  words <- sprintf(
    "sleep %f; date +%%s.%%N >%s; mine=%d; %s", after_s, stamp, Sys.getpid(), command
  )
  system2("sh", c("-c", shQuote(words)), wait = FALSE)
  stamp
}
since <- function(stamp) as.numeric(Sys.time()) - as.numeric(readLines(stamp))

failed <- function(code) inherits(try(code, silent = TRUE), "try-error")
runs <- function(pid) {
  stat <- suppressWarnings(try(readLines(file.path("/proc", pid, "stat")), silent = TRUE))
  !inherits(stat, "try-error") && !grepl(") Z ", stat, fixed = TRUE)
}

# A port at which connects wait for ever, as at a host that is silent: its queue is full.
with_silent <- function(f) {
  server <- socket_listen(host = "127.0.0.1", backlog = 1)
  crowd <- lapply(1:2, function(i) socket_connect("127.0.0.1", server$port))
  on.exit(for (one in c(crowd, list(server))) socket_close(one))
  f(server$port)
}

# ---- workers that die, calls that are left

interrupted_call <- function(cl) {
  stamp <- later(stats::runif(1, 0.1, 0.3), "kill -INT $mine")
  took <- tryCatch(
    {
      clusterCall(cl, Sys.sleep, 600)
      NA
    },
    interrupt = function(e) since(stamp)
  )
  clusterCall(cl, identity, 1)
  took
}

death_told <- function() {
  with_cluster(function(cl) {
    stamp <- later(0.2, paste("kill -KILL", cl[[2L]]$pid))
    stopifnot(failed(clusterCall(cl[2], Sys.sleep, 600)))
    since(stamp)
  }, 2, healing = FALSE)
}

back_alive <- function(cl) {
  tools::pskill(cl[[2L]]$pid, tools::SIGKILL)
  seconds(stopifnot(isNodeAlive(cl[[2L]])))
}

silent_found <- function() {
  with_cluster(function(cl) {
    tools::pskill(cl[[2L]]$pid, tools::SIGSTOP)
    seconds(clusterCall(cl, identity, 1))
  }, 2, heartbeat = 1)
}

session_gone <- function() {
  told <- tempfile("told-")
  code <- sprintf(paste(
    "cl <- muster::cluster_start(3);",
    "pids <- vapply(cl, function(node) node$pid, 0L);",
    "for (node in cl) parallel:::sendCall(node, function() repeat sqrt(2), list());",
    "writeLines(as.character(c(Sys.getpid(), pids)), '%s.new');",
    "invisible(file.rename('%s.new', '%s')); Sys.sleep(600)"
  ), told, told, told)
  system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), wait = FALSE)
  while (!file.exists(told)) Sys.sleep(0.01)
  pids <- as.integer(readLines(told))
  tools::pskill(pids[1L], tools::SIGKILL)
  seconds(while (any(vapply(pids, runs, NA))) Sys.sleep(0.005))
}

stopped_ended <- function() {
  cl <- cluster_start(2)
  tools::pskill(cl[[2L]]$pid, tools::SIGSTOP)
  seconds(cluster_stop(cl))
}

busy_ended <- function() {
  cl <- cluster_start(2)
  parallel:::sendCall(cl[[2L]], function() repeat NULL, list())
  seconds(cluster_stop(cl))
}

many_calls_replayed <- function() {
  with_cluster(function(cl) {
    clusterCall(cl, function() n <<- 0)
    change <- function() n <<- n + 1
    environment(change) <- globalenv()
    for (k in 1:10000) clusterCall(cl, change)
    for (node in cl) tools::pskill(node$pid, tools::SIGKILL)
    seconds(stopifnot(identical(clusterCall(cl, function() n), list(10000, 10000))))
  }, 2)
}

# ---- maps and data

straggler_copied <- function() {
  folder <- tempfile("straggler-")
  dir.create(folder)
  slow_once <- function(i, folder) {
    if (i == 20) {
      file.create(file.path(folder, Sys.getpid()))
      if (length(list.files(folder)) == 1L) Sys.sleep(3600)
    }
    i
  }
  environment(slow_once) <- globalenv()
  with_cluster(function(cl) {
    seconds(cluster_map(cl, 1:20, slow_once, folder, .speculate = TRUE))
  }, 2)
}

# The time of four times as many parts, by that of some: looking through all of them for each
# would make it 16.
parts_ratio <- function() {
  with_cluster(function(cl) {
    took <- function(parts) {
      p <- partition_scatter(cl, data.frame(g = seq_len(parts) %% 7L, v = 1), parts = parts)
      median_of(3L, function() {
        seconds(partition_summarise(p, .by = "g", n = n(), .parts = 2))
      })
    }
    few <- took(400)
    took(1600) / few
  }, 2)
}

# ---- R's own workers

stock_calls <- function() {
  cl <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  on.exit(stopCluster(cl))
  median_of(5L, function() seconds(for (i in 1:50) clusterCall(cl, identity, datasets::iris)))
}

stock_start <- function() {
  took <- seconds(cl <- makeClusterPSOCK(I(4),
    rscript_call = "Sys.sleep(2); parallel:::.workRSOCK()"
  ))
  stopCluster(cl)
  took
}

launch_failed <- function() {
  seconds(stopifnot(failed(makeClusterPSOCK(2, rscript = "/nowhere/Rscript"))))
}

# ---- sockets and addresses

refused <- function() {
  server <- socket_listen(host = "127.0.0.1")
  port <- server$port
  socket_close(server)
  seconds(stopifnot(failed(socket_connect("127.0.0.1", port))))
}

connect_limited <- function(port) {
  seconds(stopifnot(failed(socket_connect("127.0.0.1", port, timeout = 0.15))))
}

accept_limited <- function() {
  server <- socket_listen(host = "127.0.0.1")
  on.exit(socket_close(server))
  seconds(stopifnot(failed(socket_accept(server, timeout = 0.1))))
}

lookup_limited <- function() {
  seconds(stopifnot(failed(socket_connect("nosuchhost.invalid", 80, timeout = 0.5))))
}

silent_scanned <- function(port) {
  found <- discover("127.0.0.1", port, timeout = 0.1, retries = 1)
  stopifnot(identical(found$status, "silent"))
  attr(found, "elapsed_s")
}

# ---- users of one app

# 50 clients of an app click at random, ten times a second together: a click is a task of 10 ms.
# With `long`, each tenth click also starts one of 5 s. Gives how long clicks took, as the event
# loop tells, that came while a worker was idle.
clicks_took <- function(cl, long, clicks = 200L) {
  set.seed(1)
  client <- as.character(sample(50L, clicks, TRUE))
  at <- cumsum(stats::rexp(clicks, 10))
  took <- rep(NA_real_, clicks)
  slow <- list()
  began <- now()
  click <- function(i) {
    busy <- sum(!task_done(slow))
    if (long && i %% 10L == 0L) {
      slow[[length(slow) + 1L]] <<- task_submit(cl, Sys.sleep, 5, .group = client[i])
    }
    asked <- now()
    promises::then(task_submit(cl, Sys.sleep, 0.01, .group = client[i]), function(value) {
      took[i] <<- if (busy < length(cl) - 1L) now() - asked else 0
    })
  }
  lapply(seq_along(at), function(i) later::later(function() click(i), at[i]))
  while (anyNA(took)) later::run_now(1)
  task_cancel(slow)
  took[took > 0]
}
now <- function() as.numeric(Sys.time())

# The 99th percentile with long tasks, as a multiple of that without.
clicks_ratio <- function() {
  with_cluster(function(cl) {
    late <- function(long) stats::quantile(clicks_took(cl, long), 0.99, names = FALSE)
    late(FALSE)
    alone <- late(FALSE)
    late(TRUE) / alone
  }, 8)
}

# A task that comes after a map of 5 s, and one of another user after twenty of one.
turn_taken <- function() {
  with_cluster(function(cl) {
    quick <- function(...) seconds(task_value(task_submit(cl, Sys.sleep, 0.1, ...)))
    map <- task_map(cl, 1:104, function(i) Sys.sleep(0.1))
    after_map <- quick()
    task_cancel(map)
    many <- lapply(1:20, function(i) task_submit(cl, Sys.sleep, 0.1))
    after_many <- quick(.group = "b")
    task_cancel(many)
    max(after_map, after_many)
  }, 2)
}

# ---- the bars: list(what, most, measure), in seconds but for the ratio

bars <- list(
  interrupt = list("an interrupted call is left", 0.3, function() {
    with_cluster(function(cl) median_of(15L, function() interrupted_call(cl)), 2)
  }),
  death = list("a worker's death is told to the call that waits", 0.5, function() {
    median_of(5L, death_told)
  }),
  back = list("a killed worker is alive again", 1, function() {
    with_cluster(function(cl) median_of(5L, function() back_alive(cl)), 2)
  }),
  silent = list("a worker that stands still is found, with heartbeat = 1", 2, silent_found),
  clicks = list("50 clients click beside tasks of 5 s (ratio of 99th percentiles)", 3, function() {
    clicks_ratio()
  }),
  turn = list("0.1 s after a map of 5 s, and after 20 tasks of another", 0.5, turn_taken),
  gone = list("a killed session's workers are gone, which compute", 1, function() {
    median_of(5L, session_gone)
  }),
  stop = list("a cluster is stopped of which one worker stands still", 6, stopped_ended),
  busy = list("a cluster is stopped of which one worker computes without end", 4, busy_ended),
  replay = list("workers are back that 10,000 calls have changed", 2, many_calls_replayed),
  straggler = list("a map ends whose straggler would take an hour", 10, straggler_copied),
  parts = list("four times the parts, times as long (a ratio)", 9, parts_ratio),
  calls = list("50 calls to one of R's own workers", 1, stock_calls),
  start = list("four of R's own workers start that take 2 s each", 6, stock_start),
  launch = list("a command that isn't there is told", 2, launch_failed),
  cores = list("availableCores()", 0.05, function() {
    median_of(20L, function() seconds(availableCores()))
  }),
  doctor = list("doctor(0.3) of one item", 1, function() {
    median_of(3L, function() seconds(doctor(0.3, "load")))
  }),
  refused = list("a refused connect", 0.05, function() median_of(20L, refused)),
  connect = list("a connect with 0.15 s to a full queue", 0.25, function() {
    median_of(5L, function() with_silent(connect_limited))
  }),
  accept = list("an accept with 0.1 s", 0.2, function() median_of(5L, accept_limited)),
  lookup = list("a name that nobody has, with 0.5 s", 1, function() median_of(3L, lookup_limited)),
  scan = list("two attempts of 0.1 s at a silent host", 0.4, function() {
    median_of(5L, function() with_silent(silent_scanned))
  })
)

wanted <- commandArgs(trailingOnly = TRUE)
unknown <- setdiff(wanted, names(bars))
if (length(unknown)) {
  cat("There is no bar", unknown, "\nThere are:", names(bars), "\n")
  quit(status = 1L)
}
if (length(wanted)) bars <- bars[wanted]
cat(sprintf("load: %s\n", strsplit(readLines("/proc/loadavg"), " ")[[1L]][1L]))
missed <- 0L
for (name in names(bars)) {
  one <- bars[[name]]
  figure <- tryCatch(one[[3L]](), error = function(e) {
    cat("  ", conditionMessage(e), "\n", sep = "")
    NA
  })
  met <- isTRUE(figure <= one[[2L]])
  missed <- missed + !met
  cat(sprintf("%-7s %-10s %8.3f, at most %-5g %s\n", if (met) "met" else "missed", name, figure,
    one[[2L]], one[[1L]]))
}
cat(sprintf("bars: %d met, %d missed\n", length(bars) - missed, missed))
quit(status = as.integer(missed > 0L))
