# What one worker answers to a call of f.
ask <- function(cl, f, ...) clusterCall(cl[1L], f, ...)[[1L]]

# Forked workers where the system has them, and booted ones.
starts <- function() if (.Call(ffi_can_fork)) c("fork", "spawn") else "spawn"

# ---- temporary files

test_cluster("each worker has a temporary directory of its own, which goes with it", {
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    dirs <- unlist(clusterCall(cl, tempdir))
    expect_identical(length(unique(c(dirs, tempdir()))), 3L)
    expect_true(all(dir.exists(dirs)))
    expect_identical(clusterCall(cl, function() dir.exists(tempdir())), list(TRUE, TRUE))
    files <- unlist(clusterCall(cl, function() {
      file <- tempfile("mine")
      dir.create(file.path(tempdir(), "deep", "er"), recursive = TRUE)
      writeLines("text", file)
      file
    }))
    expect_identical(normalizePath(dirname(files)), normalizePath(dirs))
    expect_true(all(file.exists(files)))
    cluster_stop(cl)
    expect_false(any(dir.exists(dirs)))
    expect_true(dir.exists(tempdir()))
  }
})

test_cluster("a worker that quits doesn't hurt the session's temporary directory", {
  kept <- tempfile("kept")
  writeLines("text", kept)
  defer(function() unlink(kept))
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    dirs <- unlist(clusterCall(cl, tempdir))
    expect_error(ask(cl, function() quit(save = "no")), class = "muster_error_lost")
    expect_true(file.exists(kept))
    expect_true(dir.exists(dirs[2L]))
    cluster_stop(cl)
    expect_false(any(dir.exists(dirs)))
    expect_true(file.exists(kept))
  }
})

test_cluster("a worker that is killed leaves no temporary directory when the cluster is stopped", {
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    dirs <- unlist(clusterCall(cl, tempdir))
    clusterCall(cl, function() writeLines("text", tempfile()))
    expect_error(ask(cl, function() tools::pskill(Sys.getpid(), 9L)), class = "muster_error_lost")
    cluster_stop(cl)
    expect_false(any(dir.exists(dirs)))
  }
})

test_cluster("workers of one fork server keep their directories when another server ends", {
  skip_without_fork()
  # Each host has fork servers of its own.
  cl <- here_only(local_cluster(1))
  dir <- ask(cl, tempdir)
  known <- server_pids()
  here_only(cluster_stop(cluster_start(1, packages = "splines")))
  expect_length(setdiff(server_pids(), known), 1L)
  end_new_servers(known)
  expect_true(dir.exists(dir))
  expect_true(ask(cl, function() {
    file <- tempfile()
    writeLines("text", file)
    file.exists(file)
  }))
})

test_cluster("TMPDIR is the session's in workers, set or unset", {
  for (value in c(normalizePath(tempdir()), NA)) {
    local_variables(TMPDIR = value)
    for (start in starts()) {
      cl <- local_cluster(1, start = start)
      expect_identical(ask(cl, Sys.getenv, "TMPDIR", NA), value)
      expect_identical(Sys.getenv("TMPDIR", NA), value)
      cluster_stop(cl)
    }
  }
})

# ---- random numbers

test_cluster("workers draw other numbers than each other, than the session and than last time", {
  draws <- function() {
    cl <- local_cluster(2)
    clusterCall(cl, stats::runif, 3)
  }
  local_seed(42)
  session <- list(stats::runif(3))
  set.seed(42)
  all <- c(session, draws(), draws())
  expect_identical(length(unique(all)), 5L)
  expect_identical(RNGkind(), c("Mersenne-Twister", "Inversion", "Rejection"))
})

test_cluster("the session's random numbers go on as if there were no cluster", {
  local_seed(1)
  expected <- stats::runif(5)
  set.seed(1)
  drawn <- stats::runif(1)
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    drawn <- c(drawn, stats::runif(1))
    clusterCall(cl, stats::runif, 1)
    cluster_stop(cl)
    drawn <- c(drawn, stats::runif(1))
  }
  expect_identical(drawn, expected[seq_along(drawn)])
})

test_cluster("a session without a seed has none after a start, a call and a stop", {
  local_seed(1)
  rm(".Random.seed", envir = globalenv())
  cl <- local_cluster(2)
  clusterCall(cl, stats::runif, 1)
  cluster_stop(cl)
  expect_null(session_seed())
})

test_cluster("a worker begins with R's own generators, and without the session's seed", {
  local_seed(1)
  suppressWarnings(RNGkind("L'Ecuyer-CMRG", "Box-Muller", "Rounding"))
  for (start in starts()) {
    for (healing in list("state", "fresh", FALSE)) {
      cl <- local_cluster(1, start = start, healing = healing)
      # One that replays its calls has a seed of its own for that.
      seed <- ask(cl, get0, ".Random.seed", globalenv())
      expect_identical(is.null(seed), healing != "state")
      expect_false(identical(seed, session_seed()))
      expect_identical(ask(cl, RNGkind), c("Mersenne-Twister", "Inversion", "Rejection"))
      cluster_stop(cl)
    }
  }
})

# ---- like a worker of makeCluster()

test_cluster("a worker begins as one of makeCluster() does", {
  cases <- list(
    search = function(cl) ask(cl, search),
    globals = function(cl) setdiff(ask(cl, ls, globalenv(), all.names = TRUE), ".Random.seed"),
    libraries = function(cl) ask(cl, .libPaths),
    directory = function(cl) ask(cl, getwd),
    locale = function(cl) ask(cl, Sys.getlocale),
    l10n = function(cl) ask(cl, l10n_info),
    umask = function(cl) ask(cl, Sys.umask),
    interactive = function(cl) ask(cl, interactive),
    terminal = function(cl) ask(cl, function() c(isatty(stdin()), isatty(stdout()))),
    stdin = function(cl) ask(cl, function() readLines(file("stdin"))),
    readline = function(cl) ask(cl, readline, "? "),
    device = function(cl) ask(cl, grDevices::dev.list),
    jit = function(cl) ask(cl, compiler::enableJIT, -1),
    generators = function(cl) ask(cl, RNGkind),
    capabilities = function(cl) ask(cl, capabilities, Xchk = FALSE),
    extensions = function(cl) ask(cl, extSoftVersion),
    warnings = function(cl) ask(cl, warnings),
    limits = function(cl) ask(cl, function() {
      if (file.exists("/proc/self/limits")) readLines("/proc/self/limits")
    }),
    blocked = function(cl) ask(cl, function() {
      if (file.exists("/proc/self/status")) {
        grep("^(SigBlk|SigPnd|NoNewPrivs|Cpus_allowed_list|Uid|Gid)", value = TRUE,
          readLines("/proc/self/status"))
      }
    })
  )
  expect_as_psock(cases)
})

test_cluster("a worker's options are those of a worker of makeCluster()", {
  # Functions may be compiled in one and not yet in the other.
  all_options <- function() {
    lapply(options(), function(value) {
      value <- rapply(list(value), function(x) {
        if (is.primitive(x)) x else list(formals(x), body(x))
      }, classes = "function", how = "replace")
      if (is.environment(value[[1L]])) "an environment" else value[[1L]]
    })
  }
  local_settings(digits = 3, muster.test = "the session's")
  psock <- psock_answers(list(all = function(cl) ask(cl, all_options)))$all
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    muster <- ask(cl, all_options)
    cluster_stop(cl)
    expect_identical(setdiff(names(muster), names(psock)), character())
    expect_identical(setdiff(names(psock), names(muster)), character())
    for (name in intersect(names(muster), names(psock))) {
      expect_identical(muster[[name]], psock[[name]], info = name)
    }
  }
})

test_cluster("a worker's variables are those of a worker of makeCluster(), but for a few", {
  local_variables(MUSTER_TEST_A = "1", MUSTER_TEST_B = "two\nlines", MUSTER_TEST_C = "\u00e9")
  all_variables <- function() {
    values <- Sys.getenv()
    structure(as.character(values), names = names(values))
  }
  psock <- psock_answers(list(all = function(cl) ask(cl, all_variables)))$all
  own <- c(
    # threads of libraries
    thread_names,
    # of one process
    "R_SESSION_TMPDIR", "_", "PPID", "SHLVL", "OLDPWD", "PWD",
    # set by Rscript and R's shell wrapper for what they start
    "R_DEFAULT_PACKAGES", "LD_LIBRARY_PATH", "R_ARCH", "R_HOME", "R_TESTS",
    # set by host_command()
    if (behind_link()) c("R_LIBS", "R_LIBS_SITE")
  )
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    muster <- ask(cl, all_variables)
    cluster_stop(cl)
    expect_identical(
      muster[setdiff(names(muster), own)], psock[setdiff(names(psock), own)]
    )
    expect_false("MUSTER_BOOT" %in% names(muster))
  }
})

# ---- memory

test_that("More garbage piles up in workers where there is memory for it", {
  defer(function() .Call(ffi_share_pretend, FALSE, -1))
  cores <- cpu_list_count(cores_machine()$online)
  skip_if(is.na(cores), "this system doesn't tell its CPUs")
  for (share in list(c(2^20, 2^26), c(2^31, 2^26), c(2^32, 2^27), c(2^33, 2^28), c(2^45, 2^28))) {
    .Call(ffi_share_pretend, FALSE, share[1L] * cores)
    expect_identical(worker_heap(), share[2L])
  }
  .Call(ffi_share_pretend, FALSE, 2^63) # unknown
  expect_identical(worker_heap(), 2^26)
  # It doesn't count cores for the user.
  local_settings(muster.availableCores.system = "x", warn = 2)
  expect_identical(worker_heap(), 2^26)
})

test_cluster("workers that hold parts have room before R collects, unless the user said how much", {
  defer(function() .Call(ffi_share_pretend, FALSE, -1))
  skip_if(is.na(cpu_list_count(cores_machine()$online)), "this system doesn't tell its CPUs")
  look <- function() list(Sys.getenv(c("R_VSIZE", "R_MAX_VSIZE"), NA), gc()[2L, 4L])
  for (own in list(c(NA, NA, 64, 256), c("70M", NA, 70, 70), c(NA, "200M", 64, 64))) {
    local_variables(R_VSIZE = own[1L], R_MAX_VSIZE = own[2L])
    .Call(ffi_share_pretend, FALSE, 2^50)
    cl <- local_cluster(1, start = "spawn")
    theirs <- clusterCall(cl, look)[[1L]]
    expect_identical(unname(theirs[[1L]]), as.character(own[1:2]))
    expect_equal(theirs[[2L]], as.double(own[3L]), tolerance = 0.01)
    p <- partition_scatter(cl, data.frame(x = as.double(1:3e6)), parts = 2L)
    q <- partition_map(p, function(part) part + 1) # the second task finds parts
    r <- partition_map(q, identity)
    expect_equal(clusterCall(cl, look)[[1L]][[2L]], as.double(own[4L]), tolerance = 0.1)
    rm(p, q, r)
    cluster_stop(cl)
  }
  local_variables(R_VSIZE = NA, R_MAX_VSIZE = NA)
  cl <- makeClusterPSOCK(1, rscript_envs = c(R_MAX_VSIZE = "200M"))
  defer(function() cluster_stop(cl))
  expect_equal(clusterCall(cl, look)[[1L]][[2L]], 64, tolerance = 0.01)
})

test_cluster("workers boot with room for muster's cells, unless the user said how much", {
  ours <- function(cl) {
    grep("min-nsize", clusterCall(cl, commandArgs)[[1L]], value = TRUE)
  }
  room <- paste0("--min-nsize=", worker_cells)
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    expect_identical(ours(cl), room)
    cluster_stop(cl)
  }
  psock <- makeClusterPSOCK(1, rscript_args = "--min-nsize=400k")
  defer(function() cluster_stop(psock))
  expect_identical(ours(psock), c(room, "--min-nsize=400k")) # R heeds the last
  local_variables(R_NSIZE = "500k")
  cl <- local_cluster(1, start = "spawn")
  expect_identical(ours(cl), character())
})

# ---- what changes in the session between two starts

test_cluster("workers are where the session is, also after setwd() between two starts", {
  folders <- c(getwd(), local_folder(), file.path(local_folder(), "with blanks and \u00e9"))
  dir.create(folders[3L])
  for (start in starts()) {
    for (folder in folders) {
      local_directory(folder)
      cl <- local_cluster(1, start = start)
      expect_identical(ask(cl, getwd), getwd())
      cluster_stop(cl)
    }
  }
})

test_cluster("a start from a directory that was removed works", {
  skip_without_proc()
  folder <- local_folder()
  local_directory(folder)
  unlink(folder, recursive = TRUE)
  cl <- local_cluster(1)
  expect_identical(ask(cl, function() 1 + 1), 2)
})

test_cluster("variables that were set or unset after the server booted go along", {
  local_variables(MUSTER_TEST_A = "old", MUSTER_TEST_B = NA, MUSTER_TEST_C = "old")
  names <- paste0("MUSTER_TEST_", c("A", "B", "C"))
  read <- function(names) unname(Sys.getenv(names, NA))
  for (start in starts()) {
    Sys.setenv(MUSTER_TEST_A = "old", MUSTER_TEST_C = "old")
    Sys.unsetenv("MUSTER_TEST_B")
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, read, names), c("old", NA, "old"))
    Sys.setenv(MUSTER_TEST_A = "new", MUSTER_TEST_B = "a = \"b\"\n$c\u00e9 ")
    Sys.unsetenv("MUSTER_TEST_C")
    # Workers that are there don't follow, as with makeCluster().
    expect_identical(ask(cl, read, names), c("old", NA, "old"))
    cluster_stop(cl)
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, read, names), c("new", "a = \"b\"\n$c\u00e9 ", NA))
    cluster_stop(cl)
  }
})

test_cluster("an empty variable stays empty, and what children of a worker see is the same", {
  local_variables(MUSTER_TEST_A = "", MUSTER_TEST_B = "seen")
  cl <- local_cluster(1)
  expect_identical(ask(cl, Sys.getenv, "MUSTER_TEST_A", NA), Sys.getenv("MUSTER_TEST_A", NA))
  expect_identical(
    ask(cl, function() system("echo \"$MUSTER_TEST_B\"", intern = TRUE)), "seen"
  )
})

test_cluster("a variable that is no valid text doesn't keep a cluster from starting", {
  # Sys.getenv() of all variables fails then, but makeCluster() doesn't.
  value <- rawToChar(as.raw(c(0x61, 0xff, 0xfe)))
  local_variables(MUSTER_TEST_A = value)
  Sys.setenv(MUSTER_TEST_A = value)
  cl <- tryCatch(cluster_start(1), error = identity)
  Sys.unsetenv("MUSTER_TEST_A")
  expect_s3_class(cl, "muster_cluster")
  if (inherits(cl, "muster_cluster")) {
    expect_identical(ask(cl, function() charToRaw(Sys.getenv("MUSTER_TEST_A"))), charToRaw(value))
    cluster_stop(cl)
  }
})

test_cluster("library paths that code has changed are the workers'", {
  before <- .libPaths()
  defer(function() .libPaths(before))
  for (start in starts()) {
    .libPaths(c(local_folder(), before))
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, .libPaths), .libPaths())
    cluster_stop(cl)
    .libPaths(before)
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, .libPaths), before)
    cluster_stop(cl)
  }
})

test_cluster("a locale or time zone set for the session's children is the workers'", {
  for (zone in c("Asia/Tokyo", "America/Lima")) {
    local_variables(TZ = zone)
    cl <- local_cluster(1)
    expect_identical(ask(cl, function() format(as.POSIXct(0, origin = "1970-01-01"), "%H")),
      c(`Asia/Tokyo` = "09", `America/Lima` = "19")[[zone]])
    cluster_stop(cl)
  }
  local_variables(LC_ALL = "C")
  cl <- local_cluster(1)
  expect_identical(ask(cl, Sys.getlocale, "LC_COLLATE"), "C")
  expect_identical(ask(cl, function() l10n_info()[["UTF-8"]]), FALSE)
})

test_cluster("files that workers make have the permissions that the session would give", {
  skip_without_proc()
  before <- Sys.umask()
  defer(function() Sys.umask(before))
  for (start in starts()) {
    for (mask in c("077", "002")) {
      Sys.umask(mask)
      cl <- local_cluster(1, start = start)
      expect_identical(ask(cl, Sys.umask), as.octmode(mask), info = paste(start, mask))
      cluster_stop(cl)
    }
  }
})

# ---- processes and descriptors

test_cluster("a worker has its own process group and only its own descriptors", {
  skip_without_proc()
  describe_process <- function() {
    fds <- list.files("/proc/self/fd")
    targets <- Sys.readlink(file.path("/proc/self/fd", fds))
    # The one that listed them is gone, and R reads its script from another, which in a
    # forked worker has nothing in it.
    script <- basename(targets) == "boot.R" | (as.integer(fds) > 5L & targets == "/dev/null")
    other <- is.na(targets) | !nzchar(targets) | script
    fields <- strsplit(sub(".*[)] ", "", readLines("/proc/self/stat")), " ")[[1L]]
    list(
      pid = Sys.getpid(), group = as.integer(fields[3L]),
      fds = sort(as.integer(fds[!other])), targets = sort(unique(targets[!other])),
      more = targets[!other & as.integer(fds) > 5L], output = targets[fds == "1"],
      script = targets[script %in% TRUE]
    )
  }
  kept <- file(tempfile("kept-"), "w")
  defer(function() {
    path <- summary(kept)$description
    close(kept)
    unlink(path)
  })
  for (start in starts()) {
    cl <- local_cluster(2, start = start)
    for (worker in clusterCall(cl, describe_process)) {
      expect_identical(worker$group, worker$pid)
      expect_identical(worker$fds[1:6], 0:5)
      # The pipe by which its threads wake each other, a copy of the output pipe, and nothing else.
      expect_match(worker$output, "^pipe:")
      expect_identical(sum(worker$more == worker$output), 1L)
      waker <- worker$more[worker$more != worker$output]
      expect_length(waker, 2L)
      expect_match(waker[1L], "^pipe:")
      expect_identical(waker[2L], waker[1L])
      expect_length(grep("^pipe:", worker$targets), 2L)
      expect_true("/dev/null" %in% worker$targets)
      expect_length(grep("kept-", worker$targets), 0L)
      expect_identical(basename(worker$script), if (start == "spawn") "boot.R" else "null")
    }
    groups <- vapply(clusterCall(cl, describe_process), `[[`, 0L, "group")
    expect_identical(length(unique(groups)), 2L)
    cluster_stop(cl)
  }
})

test_cluster("children of a worker get none of its channels", {
  skip_without_proc()
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    targets <- ask(cl, function() {
      system("for fd in /proc/self/fd/*; do readlink \"$fd\"; done", intern = TRUE)
    })
    expect_length(grep("socket|pidfd|eventpoll", targets), 0L)
    cluster_stop(cl)
  }
})

test_cluster("children of a worker tell their exit status and their output", {
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, system, "exit 3"), 3L)
    expect_identical(ask(cl, system, "echo out", intern = TRUE), "out")
    expect_identical(ask(cl, system2, "sh", c("-c", shQuote("exit 5"))), 5L)
    expect_identical(ask(cl, system, "kill -9 $$") %in% c(9L, 137L), TRUE)
    expect_identical(ask(cl, function() {
      con <- pipe("read line; test \"$line\" = text", "w")
      writeLines("text", con)
      close(con)
    }), 0L)
    expect_identical(ask(cl, function() {
      suppressWarnings(system("sleep 600", timeout = 1))
    }), 124L)
    cluster_stop(cl)
  }
})

test_cluster("mclapply() and mcparallel() work inside a worker", {
  skip_without_fork()
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    expect_identical(ask(cl, function() {
      unlist(parallel::mclapply(1:6, function(i) i^2, mc.cores = 2))
    }), c(1, 4, 9, 16, 25, 36))
    expect_identical(ask(cl, function() {
      jobs <- lapply(1:2, function(i) parallel::mcparallel(c(i, Sys.getpid())))
      answers <- parallel::mccollect(jobs)
      pids <- vapply(answers, `[`, 0, 2L)
      list(
        unname(vapply(answers, `[`, 0, 1L)), length(unique(pids)), Sys.getpid() %in% pids
      )
    }), list(c(1, 2), 2L, FALSE))
    # The worker and its directory are still there.
    expect_true(ask(cl, function() dir.exists(tempdir())))
    cluster_stop(cl)
  }
})

# ---- compiled code

test_cluster("a worker compiles loops without loading the compiler first", {
  skip_without_fork()
  cl <- local_cluster(1, start = "fork")
  answer <- ask(cl, function() {
    before <- loadedNamespaces()
    sum_up <- eval(quote(function(n) {
      total <- 0
      for (i in seq_len(n)) total <- total + i
      total
    }), globalenv())
    for (i in 1:3) total <- sum_up(1000)
    list(
      total, "compiler" %in% before, setdiff(loadedNamespaces(), before),
      any(grepl("<bytecode", utils::capture.output(print(sum_up)), fixed = TRUE))
    )
  })
  expect_identical(answer, list(500500, TRUE, character(), TRUE))
})

test_cluster("namespaces of a worker are R's own, muster's and what muster needs", {
  for (start in starts()) {
    cl <- local_cluster(1, start = start)
    loaded <- ask(cl, loadedNamespaces)
    expect_identical(setdiff(loaded, c(
      "base", "methods", "datasets", "utils", "grDevices", "graphics", "stats", "compiler",
      "tools", "parallel", "muster"
    )), character())
    cluster_stop(cl)
  }
})

# ---- the session while a cluster is up

test_cluster("connections of the session still work while a cluster is up", {
  cl <- local_cluster(2)
  file <- tempfile("page-")
  writeLines(c("one", "two"), file)
  defer(function() unlink(file))
  con <- url(paste0("file://", file))
  expect_identical(readLines(con), c("one", "two"))
  close(con)

  server <- NULL
  for (port in 20000L + (Sys.getpid() * 3L + 17L * seq_len(20L)) %% 20000L) {
    server <- tryCatch(suppressWarnings(serverSocket(port)), error = function(e) NULL)
    if (!is.null(server)) break
  }
  skip_if(is.null(server), "no port is free")
  defer(function() close(server))
  # The worker is the other end.
  parallel:::sendCall(cl[[1L]], function(port) {
    con <- socketConnection("localhost", port, blocking = TRUE, open = "r+", timeout = 30)
    on.exit(close(con))
    writeLines("from the worker", con)
    readLines(con, 1L)
  }, list(port))
  con <- socketAccept(server, blocking = TRUE, open = "r+", timeout = 30)
  expect_identical(readLines(con, 1L), "from the worker")
  writeLines("from the session", con)
  close(con)
  expect_identical(parallel:::recvResult(cl[[1L]]), "from the session")
})

test_cluster("the session's children work while a cluster is up", {
  skip_without_fork()
  cl <- local_cluster(1)
  expect_identical(system("exit 3"), 3L)
  expect_identical(system("echo out", intern = TRUE), "out")
  squares <- parallel::mclapply(1:4, function(i) i^2, mc.cores = 2)
  expect_identical(squares, list(1, 4, 9, 16))
  job <- parallel::mcparallel("from a child")
  expect_identical(clusterCall(cl, function() "from a worker"), list("from a worker"))
  expect_identical(unname(parallel::mccollect(job)), list("from a child"))
  expect_identical(clusterCall(cl, function() "still there"), list("still there"))
})

test_cluster("signal handlers of the session stay as they are while a cluster is up", {
  skip_without_proc()
  signals <- function() grep("^Sig(Blk|Ign|Cgt):", readLines("/proc/self/status"), value = TRUE)
  before <- signals()
  cl <- local_cluster(2)
  clusterCall(cl, function() 1)
  expect_identical(signals(), before)
})
