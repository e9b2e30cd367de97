# What happens where the system gives no more: descriptors, processes, room for files;
# and what must work although there are many workers.

# ---- Descriptors

test_that("at 1,024 descriptors 1,000 workers are refused before anything starts", {
  limit_time(60)
  run <- run_session(ulimit = "-n 1024", quote({
    caught <- outcome_of(cluster_start(1000))
    tell(caught = caught, children = children(), files = list.files(tempdir()))
  }))
  expect_done(run)
  expect_caught(run$told$caught, "limit", c("1000 workers", "limit is 1024", "ulimit -n"))
  expect_identical(run$told$caught$fields$limit, 1024)
  expect_identical(run$told$caught$fields$call, quote(cluster_start(1000)))
  expect_identical(run$told$children, integer())
  expect_identical(run$told$files, character())
})

# What R does with descriptors of its own, below 1,024: values that are TRUE each.
use_connections <- quote({
  file <- tempfile()
  writeLines("text", file)
  connection <- url(paste0("file://", file))
  from_url <- readLines(connection)
  close(connection)
  server <- NULL
  while (is.null(server)) {
    port <- sample(20000:60000, 1L)
    server <- tryCatch(serverSocket(port), error = function(e) NULL)
  }
  client <- socketConnection("127.0.0.1", port, open = "r+b", blocking = TRUE, timeout = 20)
  accepted <- socketAccept(server, open = "r+b", blocking = TRUE, timeout = 20)
  writeLines("there", client)
  there <- readLines(accepted, 1L)
  writeLines("back", accepted)
  back <- readLines(client, 1L)
  for (connection in list(client, accepted, server)) close(connection)
  tell(
    url = identical(from_url, "text"), socket = identical(c(there, back), c("there", "back")),
    mclapply = identical(mclapply(1:6, function(i) i^2, mc.cores = 2L), lapply(1:6, `^`, 2))
  )
})

expect_connections_used <- function(run) {
  expect_true(run$told$url)
  expect_true(run$told$socket)
  expect_true(run$told$mclapply)
}

test_that("at 1,024 descriptors 200 workers leave R's own connections room", {
  limit_time(120)
  run <- run_session(ulimit = "-n 1024", bquote({
    cl <- cluster_start(200)
    .(use_connections)
    tell(pids = unlist(clusterCall(cl, Sys.getpid)))
    stopCluster(cl)
  }))
  expect_done(run)
  expect_length(unique(run$told$pids), 200L)
  expect_connections_used(run)
  expect_nothing_left(run$session)
})

test_that("more workers than R has connections work, and R's connections still do", {
  limit_time(120)
  skip_without_nofile(4096)
  run <- run_session(ulimit = "-n 4096", bquote({
    cl <- cluster_start(400)
    .(use_connections)
    tell(
      pids = unlist(clusterCall(cl, Sys.getpid)), connections = nrow(showConnections()),
      low = sum(as.integer(list.files("/proc/self/fd")) < 1024L)
    )
    stopCluster(cl)
  }))
  expect_done(run)
  expect_length(unique(run$told$pids), 400L)
  expect_connections_used(run)
  expect_identical(run$told$connections, 0L)
  # Descriptors that R's select() could use stay free.
  expect_lt(run$told$low, 40L)
  expect_nothing_left(run$session)
})

# What becomes of starts of several sizes: NULL where one worked.
try_starts <- quote({
  try_start <- function(n, ...) {
    outcome_of({
      cl <- cluster_start(n, ...)
      stopifnot(length(unique(unlist(clusterCall(cl, Sys.getpid)))) == n)
      stopCluster(cl)
    })
  }
  try_sizes <- function() {
    list(
      one = try_start(1), four = try_start(4), spawn = try_start(2, start = "spawn"),
      many = try_start(50)
    )
  }
})

# R itself doesn't start below 256 descriptors, so the limit comes when it runs. R
# raises a soft limit by itself, so workers that are started then may work.
test_that("with few descriptors a start works or names the limit", {
  limit_time(240)
  skip_without_prlimit()
  for (limit in c(8, 12, 20, 32, 56, 60, 62, 64, 66, 80, 160)) {
    run <- run_session(bquote({
      .(try_starts)
      limit_self("nofile", .(paste0(limit, ":")))
      tell2 <- try_sizes()
      limit_self("nofile", 1024)
      tell(outcomes = tell2)
    }))
    expect_done(run)
    for (outcome in Filter(length, run$told$outcomes)) {
      expect_caught(outcome, "limit", "ulimit -n")
    }
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

test_that("where R can't boot for want of descriptors, that is said", {
  limit_time(120)
  skip_without_prlimit()
  for (limit in c(20, 32, 64, 128)) {
    run <- run_session(bquote({
      .(try_starts)
      limit_self("nofile", .(paste0(limit, ":", limit)))
      tell(outcomes = try_sizes())
    }))
    expect_done(run)
    outcomes <- run$told$outcomes
    expect_false(any(vapply(outcomes, is.null, NA)))
    for (outcome in outcomes) {
      kind <- if (inherits_kind(outcome, "launch")) "launch" else "limit"
      expect_caught(outcome, kind,
        if (kind == "limit") "ulimit -n" else "limit on the number of open files"
      )
    }
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

test_that("a start raises the limit on descriptors where that was asked for", {
  limit_time(60)
  skip_without_nofile(4096)
  run <- run_session(ulimit = "-S -n 1024", quote({
    refused <- outcome_of(cluster_start(400))
    options(muster.raise_nofile = TRUE)
    cl <- cluster_start(400)
    tell(refused = refused, pids = unlist(clusterCall(cl, Sys.getpid)))
    stopCluster(cl)
  }))
  expect_done(run)
  expect_caught(run$told$refused, "limit", c("ulimit -n", "muster.raise_nofile"))
  expect_length(unique(run$told$pids), 400L)
  expect_nothing_left(run$session)
})

test_that("descriptors that run out while workers start are named, and nothing is left", {
  limit_time(90)
  skip_without_prlimit()
  run <- run_session(quote({
    first <- cluster_start(2)
    # The check passes, and the limit comes after it.
    utils::assignInNamespace("check_limits", function(workers, call, links = 0L) {
      fds <- list.files("/proc/self/fd")
      used <- as.integer(fds[nzchar(Sys.readlink(file.path("/proc/self/fd", fds)))])
      limit_self("nofile", paste0(setdiff(0:1023, used)[free] + 1L, ":"))
    }, "muster")
    caughts <- list()
    for (start in c("fork", "spawn")) {
      for (free in c(1, 2, 3, 4, 5, 6, 8, 11, 20)) {
        before <- sort(running(children()))
        caught <- outcome_of(cluster_start(40, start = start))
        limit_self("nofile", "1024:")
        caughts <- c(caughts, list(caught))
        tell(left = c(told$left, setdiff(running(children()), before)))
      }
    }
    tell(caughts = caughts, works = unlist(clusterCall(first, function() 1L)))
    stopCluster(first)
  }))
  expect_done(run)
  expect_length(run$told$caughts, 18L)
  for (caught in run$told$caughts) expect_caught(caught, "limit", "ulimit -n")
  expect_length(run$told$left, 0L)
  expect_identical(run$told$works, c(1L, 1L))
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})

# ---- Processes

# A session in which `code` can lower the limit on processes by limit_more(n), so that it
# and its children can start n more. Root has no such limit: then it is the session of
# a user who has no other processes, else one of this user, and what runs is counted.
processes_session <- function(code, frame = parent.frame()) {
  skip_without_prlimit()
  wrap <- character()
  base <- tempfile("session-")
  env <- character()
  user <- system2("id", "-u", stdout = TRUE)
  if (is_root()) {
    skip_if_not(nzchar(Sys.which("setpriv")), "there is no setpriv, from util-linux")
    # Below the directory that tempdir() is in: nobody else can read in that one.
    base <- tempfile("muster-limits-", tmpdir = dirname(tempdir()))
    user <- other_user()
    wrap <- c("setpriv", paste0("--reuid=", user), paste0("--regid=", user), "--clear-groups")
    lib <- paste0(base, "-lib")
    withr::defer(unlink(lib, recursive = TRUE), envir = frame)
    copy_muster(lib)
    dir.create(base)
    Sys.chmod(c(base, lib), "0777", use_umask = FALSE)
    readable <- system2(wrap[1L], c(wrap[-1L], "test", "-r", shQuote(lib)))
    skip_if_not(readable == 0L, "another user can't read in the temporary directory")
    env <- c(R_LIBS = lib, HOME = base)
  }
  run_session(bquote({
    Sys.umask("022")
    count_tasks <- function() {
      files <- Sys.glob("/proc/[0-9]*/status")
      sum(vapply(files, function(file) {
        status <- suppressWarnings(tryCatch(readLines(file), error = function(e) ""))
        own <- any(grepl(.(paste0("^Uid:\t", user, "\t")), status))
        if (own) as.numeric(sub("^Threads:\t", "", grep("^Threads:", status, value = TRUE))) else 0
      }, 0))
    }
    limit_more <- function(n) {
      limit <- paste0("--nproc=", count_tasks() + n, ":")
      for (pid in c(running(children()), Sys.getpid())) {
        stopifnot(system2("prlimit", c("--pid", pid, limit)) == 0L)
      }
    }
    .(code)
  }), base = base, wrap = wrap, env = env, frame = frame)
}

# Either the limit is named, or R said while it booted that it couldn't do so.
expect_processes_named <- function(caught) {
  if (is.null(caught)) {
    return(invisible())
  }
  r_itself <- grepl("cannot popen|cannot fork|unable to fork", caught$message)
  if (inherits_kind(caught, "launch") && r_itself) {
    return(succeed())
  }
  expect_caught(caught, "limit", "ulimit -u")
}

# For processes that may have no descriptor more than they have: what prlimit is told then, and to
# end that.
no_more_descriptors <- quote({
  limits_of <- function(pid) {
    used <- as.integer(list.files(file.path("/proc", pid, "fd")))
    line <- grep("^Max open files", readLines(file.path("/proc", pid, "limits")), value = TRUE)
    soft <- strsplit(line, " +")[[1L]][4L]
    list(none = paste0(min(setdiff(0:1023, used)), ":"), before = paste0(soft, ":"))
  }
  set_limit <- function(pid, limit) {
    stopifnot(system2("prlimit", c("--pid", pid, paste0("--nofile=", limit))) == 0L)
  }
})

test_that("C5: a session without descriptors says so, and blames and ends no worker", {
  limit_time(60)
  run <- run_session(quote({
    cl <- cluster_start(2)
    pids <- unlist(clusterCall(cl, Sys.getpid))
    clusterEvalQ(cl, calls <- 0)
    large <- function(n) {
      calls <<- calls + 1
      numeric(n)
    }
    soft <- .Call(muster:::ffi_limits)[1L]
    limit_self("nofile", paste0(length(list.files("/proc/self/fd")) + 8L, ":"))
    files <- list()
    while (!is.null(file <- tryCatch(file("/dev/null", "r"), error = function(e) NULL))) {
      files <- c(files, list(file))
    }
    verb <- outcome_of(clusterCall(cl, large, 1e5))
    task <- outcome_of(task_value(task_submit(cl[2], large, 1e5)))
    map <- outcome_of(cluster_map(cl, 1:2, function(i) numeric(1e5)))
    small <- unlist(clusterEvalQ(cl, calls))
    for (file in files) close(file)
    .Call(muster:::ffi_limits_raise, soft)
    lengths <- lengths(clusterCall(cl, large, 1e5))
    tell(
      verb = verb, task = task, map = map, small = small, lengths = lengths, pids = pids,
      after = unlist(clusterCall(cl, Sys.getpid)), restarts = cluster_status(cl)$restarts
    )
  }))
  expect_done(run)
  for (caught in run$told[c("verb", "task", "map")]) {
    expect_caught(caught, "limit", c("no file descriptor left", "ulimit -n", "then call again"))
  }
  expect_identical(run$told$small, c(1, 2)) # each call was evaluated once
  expect_identical(run$told$lengths, c(100000L, 100000L))
  expect_identical(run$told$after, run$told$pids)
  expect_identical(run$told$restarts, c(0L, 0L))
})

test_that("C5: a worker without descriptors says so, and goes on", {
  limit_time(60)
  run <- run_session(bquote({
    .(no_more_descriptors)
    cl <- cluster_start(1)
    pid <- cl[[1L]]$pid
    large <- numeric(1e5)
    add <- function(i) i + length(large)
    limits <- limits_of(pid)
    set_limit(pid, limits$none)
    verb <- outcome_of(clusterCall(cl, length, large))
    task <- outcome_of(task_value(task_submit(cl, length, large)))
    map <- outcome_of(cluster_map(cl, 1:2, add))
    small <- clusterCall(cl, identity, 1)
    set_limit(pid, limits$before)
    tell(
      verb = verb, task = task, map = map, small = small, again = cluster_map(cl, 1:2, add),
      length = clusterCall(cl, length, large), same = identical(cl[[1L]]$pid, pid),
      restarts = cluster_status(cl)$restarts
    )
  }))
  expect_done(run)
  for (caught in run$told[c("verb", "task", "map")]) {
    expect_caught(caught, "limit", c("no file descriptor left", "ulimit -n", "then call again"))
  }
  expect_identical(run$told$small, list(1))
  # The job of a map is kept for the next: also one that couldn't be read.
  expect_identical(run$told$again, list(100001L, 100002L))
  expect_identical(run$told$length, list(100000L))
  expect_true(run$told$same)
  expect_identical(run$told$restarts, 0L)
})

test_that("C5: a fork server without descriptors refuses to fork, and ends no worker", {
  limit_time(60)
  run <- run_session(bquote({
    .(no_more_descriptors)
    cl <- cluster_start(1)
    pid <- clusterCall(cl, Sys.getpid)
    server <- parent_of(pid[[1L]])
    limits <- limits_of(server)
    set_limit(server, limits$none)
    caught <- outcome_of(cluster_start(1))
    after <- clusterCall(cl, Sys.getpid)
    set_limit(server, limits$before)
    other <- cluster_start(1)
    tell(
      caught = caught, same = identical(after, pid),
      same_server = parent_of(clusterCall(other, Sys.getpid)[[1L]]) == server
    )
  }))
  expect_done(run)
  expect_caught(run$told$caught, "limit", c("Can't start worker 1 of 1", "ulimit -n"))
  expect_true(run$told$same)
  expect_true(run$told$same_server)
})

test_that("where processes run out, the limit is named and nothing is left", {
  limit_time(240)
  for (start in c("fork", "spawn")) {
    for (more in c(0:6, 12, 60)) {
      run <- processes_session(bquote({
        limit_more(.(more))
        tell(caught = outcome_of({
          cl <- cluster_start(4, start = .(start))
          stopifnot(length(unique(unlist(clusterCall(cl, Sys.getpid)))) == 4L)
          stopCluster(cl)
        }))
        tell(servers = length(running(children())))
      }))
      expect_done(run)
      expect_processes_named(run$told$caught)
      if (more == 0) expect_caught(run$told$caught, "limit", "ulimit -u")
      if (more == 60) expect_null(run$told$caught)
      expect_lte(run$told$servers, 1L)
      expect_nothing_left(run$session)
      expect_identical(tempdirs_left(run$session), character())
    }
  }
})

test_that("where processes run out for forks, or for their threads, the limit is named", {
  limit_time(240)
  for (more in 0:9) {
    run <- processes_session(bquote({
      cl <- cluster_start(1)
      limit_more(.(more))
      caughts <- lapply(c(1, 1, 4, 4), function(n) {
        outcome_of({
          more <- cluster_start(n)
          stopifnot(length(unique(unlist(clusterCall(more, Sys.getpid)))) == n)
          stopCluster(more)
        })
      })
      tell(caughts = caughts, works = clusterCall(cl, function() 1L)[[1L]])
      stopCluster(cl)
    }))
    expect_done(run)
    for (caught in run$told$caughts) expect_processes_named(caught)
    expect_identical(run$told$works, 1L)
    expect_nothing_left(run$session)
    expect_identical(tempdirs_left(run$session), character())
  }
})

# ---- Memory of the session

test_that("C6: an answer that the session has no memory for stays with its worker", {
  limit_time(120)
  run <- run_session(quote({
    options(muster.share_min = Inf) # answers go through sockets
    cl <- cluster_start(2)
    pids <- unlist(clusterCall(cl, Sys.getpid))
    calls <- tempfile()
    large <- function(file) {
      cat("x", file = file, append = TRUE)
      numeric(2e7)
    }
    size <- function() {
      line <- grep("^VmSize", readLines("/proc/self/status"), value = TRUE)
      1024 * as.numeric(gsub("[^0-9]", "", line))
    }
    invisible(outcome_of(task_value(task_submit(cl, stop, "loads what R shows errors with"))))
    limit_self("as", sprintf("%.0f:", size() + 6e7))
    verb <- outcome_of(clusterCall(cl[1], large, calls))
    small <- clusterCall(cl, identity, 1) # what nobody wants needs no memory
    map <- outcome_of(cluster_map(cl, 1:4, function(i) numeric(2e7)))
    tasks <- lapply(1:3, function(i) task_submit(cl[1], large, calls))
    there <- task_wait(tasks, any = TRUE)
    one <- outcome_of(task_value(tasks[[1L]]))
    last <- outcome_of(task_value(tasks[[3L]])) # no worker has it yet
    limit_self("as", "unlimited:")
    tell(
      verb = verb, map = map, one = one, last = last, small = small, there = any(there),
      lengths = vapply(tasks, function(task) length(task_value(task)), 0L), pids = pids,
      now = unlist(clusterCall(cl, Sys.getpid)), restarts = cluster_status(cl)$restarts,
      calls = file.size(calls)
    )
  }))
  expect_done(run)
  expect_caught(run$told$verb, "memory", "Not enough memory for a message of worker 1")
  for (caught in run$told[c("map", "one", "last")]) {
    expect_caught(caught, "memory", "Not enough memory for the task's value")
  }
  expect_true(run$told$there)
  expect_identical(run$told$small, list(1, 1))
  expect_identical(run$told$lengths, rep(20000000L, 3L))
  # No worker was lost, and no call was evaluated twice.
  expect_identical(run$told$now, run$told$pids)
  expect_identical(run$told$restarts, c(0L, 0L))
  expect_identical(run$told$calls, 4)
})

# ---- Temporary files

# A session in a mount namespace of its own, whose TMPDIR is a file system of `size` and
# where /tmp, to which R turns if there is no TMPDIR to write to, is read-only. As another
# user than root in a user namespace, where the system allows that.
mounted_session <- function(code, size, frame = parent.frame()) {
  unshare <- c("unshare", if (!is_root()) "-r", "-m")
  skip_if_not(nzchar(Sys.which("unshare")), "there is no unshare, from util-linux")
  skip_if_not(file.access("/dev/shm", 3L) == 0L, "there is no /dev/shm to write to")
  base <- tempfile("muster-session-", tmpdir = "/dev/shm")
  mount <- function(dir) {
    sprintf("mount -t tmpfs -o size=%s none %s && mount --bind /tmp /tmp && %s && ", size,
      shQuote(dir), "mount -o remount,bind,ro /tmp")
  }
  works <- suppressWarnings(system2(unshare[1L],
    c(unshare[-1L], "sh", "-c", shQuote(paste0(mount("/dev/shm"), "true"))),
    stdout = FALSE, stderr = FALSE
  ))
  skip_if_not(works == 0L, "mounting isn't allowed here")
  run_session(code,
    base = base, env = c(TMP = NA, TEMP = NA), frame = frame,
    wrap = c(unshare, "sh", "-c", paste0(mount(file.path(base, "tmp")), "exec \"$@\""), "sh")
  )
}

test_that("a full TMPDIR is named, and nothing is left", {
  limit_time(90)
  run <- mounted_session(size = "1m", quote({
    full <- file.path(dirname(tempdir()), "full")
    fill <- function() system2("dd", c("if=/dev/zero", paste0("of=", full)), stderr = FALSE)
    start <- function(...) outcome_of(cluster_start(2, ...))
    fill()
    tell(first = start(), spawned = start(start = "spawn"))
    tell(children = children(), tempdir = tempdir())
    unlink(full)
    cl <- cluster_start(2)
    fill()
    tell(later = start(), works = unlist(clusterCall(cl, function() 1L)))
    stopCluster(cl)
    unlink(full)
    tell(servers = length(running(children())))
  }))
  expect_done(run)
  for (name in c("first", "spawned", "later")) {
    expect_caught(run$told[[name]], "launch",
      c(file.path(run$told$tempdir, "muster"), "TMPDIR", "no space left")
    )
  }
  expect_identical(run$told$children, integer())
  expect_identical(run$told$works, c(1L, 1L))
  expect_identical(run$told$servers, 1L)
  expect_nothing_left(run$session)
})

test_that("a TMPDIR that became read-only is named, and nothing is left", {
  limit_time(90)
  run <- mounted_session(size = "1m", quote({
    before <- tempdir()
    remount <- function(how) {
      system2("mount", c("-o", paste0("remount,", how), shQuote(dirname(before))))
    }
    start <- function(...) outcome_of(cluster_start(2, ...))
    tell(tempdir = before)
    remount("ro")
    tell(first = start(), spawned = start(start = "spawn"))
    tell(children = children())
    remount("rw")
    # The session still has its tempdir().
    tell(after = tempdir())
    cl <- cluster_start(2)
    remount("ro")
    tell(later = start(), works = unlist(clusterCall(cl, function() 1L)))
    remount("rw")
    stopCluster(cl)
  }))
  expect_done(run)
  for (name in c("first", "spawned", "later")) {
    expect_caught(run$told[[name]], "launch", c(run$told$tempdir, "TMPDIR"))
  }
  expect_identical(run$told$after, run$told$tempdir)
  expect_identical(run$told$children, integer())
  expect_identical(run$told$works, c(1L, 1L))
  expect_nothing_left(run$session)
})

test_that("a tempdir that was removed is made anew", {
  limit_time(60)
  run <- run_session(quote({
    unlink(tempdir(), recursive = TRUE)
    cl <- cluster_start(2)
    tell(dirs = unlist(clusterEvalQ(cl, {
      writeLines("text", tempfile())
      tempdir()
    })))
    stopCluster(cl)
  }))
  expect_done(run)
  expect_length(unique(run$told$dirs), 2L)
  expect_nothing_left(run$session)
})

# ---- Many workers

test_that("1,000 workers start, answer, map and stop on one machine", {
  limit_time(300)
  skip_without_nofile(4096)
  skip_without_proc()
  skip_if(free_memory_gb() < 9, "1,000 workers want 9 GB of free memory")
  skip_if_not(identical(Sys.getenv("MUSTER_TEST_SANITIZERS"), ""), "sanitizers want more memory")
  run <- run_session(ulimit = "-n 4096", timeout_s = 240, quote({
    starting <- elapsed(cl <- cluster_start(1000))
    pids <- unlist(clusterCall(cl, Sys.getpid))
    workers <- processes(pids)
    mapped <- unlist(parLapplyLB(cl, 1:5000, function(i) i * 2, chunk.size = 1L))
    stopping <- elapsed(stopCluster(cl))
    tell(
      starting = starting, stopping = stopping, pids = pids,
      right = identical(mapped, 1:5000 * 2), left = workers[still_runs(workers)]
    )
  }))
  expect_done(run)
  cat(sprintf("    started in %.1f s, stopped in %.1f s\n", run$told$starting, run$told$stopping))
  expect_length(unique(run$told$pids), 1000L)
  expect_true(run$told$right)
  expect_length(run$told$left, 0L)
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
})
