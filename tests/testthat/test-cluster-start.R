# What a start that fails must do: raise an error of this class, and leave nothing. One that
# was only given up after 120 s would be of class "timeout".
expect_start_error <- function(kind, ...) {
  error <- expect_error(cluster_stop(cluster_start(...)), class = paste0("muster_error_", kind))
  expect_s3_class(error, "muster_error")
  invisible(error)
}

expect_argument_error <- function(argument, ...) {
  error <- expect_start_error("input", ...)
  expect_identical(error$argument, argument)
  expect_identical(as.character(conditionCall(error)[[1L]]), "cluster_start")
  invisible(error)
}

# ---- input

test_cluster("`workers` must be one whole number from 1 to 10,000", {
  wrong <- list(
    -1, NA, 1.5, "", 1e6, 1:2, NULL, NaN, Inf, -Inf, "2", TRUE, list(0), factor(2), 2+0i,
    mean, integer(), NA_integer_, 10001, quote(x)
  )
  for (workers in wrong) {
    expect_argument_error("workers", workers)
  }
})

test_cluster("`packages` must be names", {
  for (packages in list(1, NA, NA_character_, "", c("stats", ""), TRUE, list("stats"), mean)) {
    expect_argument_error("packages", 1, packages = packages)
  }
})

test_cluster("packages that aren't installed are all named before anything starts", {
  known <- server_pids()
  error <- expect_start_error("input", 1,
    packages = c("stats", "notthere1", "splines", "notthere2")
  )
  expect_identical(error$packages, c("notthere1", "notthere2"))
  expect_match(conditionMessage(error), "\"notthere1\", \"notthere2\"", fixed = TRUE)
  for (library in .libPaths()) {
    expect_match(conditionMessage(error), library, fixed = TRUE)
  }
  expect_identical(server_pids(), known)
  # A path isn't a name.
  expect_start_error("input", 1, packages = file.path("..", basename(.Library), "stats"))
})

test_cluster("the line to install packages that are missing can be run as it is", {
  error <- expect_start_error("input", 1, packages = c("notthere1", "notthere2"))
  line <- grep("install.packages", strsplit(conditionMessage(error), "\n")[[1L]], value = TRUE)
  call <- match.call(utils::install.packages, str2lang(sub("^i ", "", line)))
  expect_identical(eval(call$pkgs), c("notthere1", "notthere2"))
  expect_null(call$lib)
})

test_cluster("`...` must be empty, whether the argument has a name or not", {
  expect_match(conditionMessage(expect_start_error("input", 1, nodes = 2)), "`nodes`")
  expect_match(conditionMessage(expect_start_error("input", 1, pack = "stats")), "`pack`")
  expect_match(conditionMessage(expect_start_error("input", 1, 2)), "without a name")
  expect_match(conditionMessage(expect_start_error("input", 1, 2, foo = 3)), "without a name")
  expect_start_error("input", 2, type = "PSOCK")
  # What was given isn't evaluated: it may be missing, or fail.
  expect_error(cluster_start(1, ), "without a name", class = "muster_error_input")
  expect_error(cluster_start(1, stop("x")), "without a name", class = "muster_error_input")
  expect_error(cluster_start(1, nodes = stop("x")), "`nodes`", class = "muster_error_input")
})

test_cluster("`setup` must be a function without arguments or an expression", {
  for (setup in list(1, "x <- 1", TRUE, list(), globalenv(), NA, function(x) x, sum)) {
    expect_argument_error("setup", 1, setup = setup)
  }
})

test_cluster("`start`, `threads` and `autoStop` must be what the help says", {
  for (start in list("f", "FORK", "", NA, 1, NULL, c("spawn", "fork"))) {
    expect_argument_error("start", 1, start = start)
  }
  for (threads in list(0, -1, 1.5, NA, "a", NULL, 1:2, 1025)) {
    expect_argument_error("threads", 1, threads = threads)
  }
  for (autoStop in list(NA, "yes", 1, NULL, c(TRUE, FALSE))) {
    expect_argument_error("autoStop", 1, autoStop = autoStop)
  }
})

test_cluster("options(muster.start_timeout) must be seconds above 0", {
  for (value in list("a", 0, -1, NA, Inf, c(1, 2))) {
    local_settings(muster.start_timeout = value)
    expect_start_error("input", 1)
  }
})

test_cluster("more workers than descriptors allow are refused before anything starts", {
  local_variables(`_R_CHECK_LIMIT_CORES_` = NA)
  limits <- .Call(ffi_limits)
  skip_if(limits[1L] > 30000, "the limit on open files is above what 10,000 workers need")
  known <- server_pids()
  error <- expect_start_error("limit", 10000)
  expect_identical(error$limit, limits[1L])
  expect_gt(error$need, error$limit)
  expect_match(conditionMessage(error), "ulimit -n", fixed = TRUE)
  expect_identical(server_pids(), known)
})

test_cluster("more than two workers are refused where R CMD check forbids them", {
  for (value in c("true", "TRUE", "1")) {
    local_variables(`_R_CHECK_LIMIT_CORES_` = value)
    expect_start_error("limit", 3)
  }
  local_variables(`_R_CHECK_LIMIT_CORES_` = "true")
  expect_length(local_cluster(2), 2L)
})

# ---- what comes of a start

test_cluster("a cluster has a node for each worker, in order, with its facts", {
  cl <- local_cluster(2)
  expect_identical(class(cl), c("muster_cluster", "SOCKcluster", "cluster"))
  expect_length(cl, 2L)
  expect_identical(vapply(cl, function(node) node$rank, 0L), 1:2)
  expect_identical(vapply(cl, function(node) node$host, ""), rep("localhost", 2))
  expect_identical(node_pids(cl), unlist(clusterCall(cl, Sys.getpid)))
  expect_true(all(still_exists(node_processes(cl))))
  expect_true(methods::is(cl, "SOCKcluster"))
})

test_cluster("workers are forked or booted, as `start` says", {
  for (start in c("fork", "spawn")) {
    if (start == "fork" && !.Call(ffi_can_fork)) next
    cl <- local_cluster(2, start = start)
    expect_identical(vapply(cl, function(node) node$start, ""), rep(start, 2))
    expect_identical(clusterApply(cl, 1:3, function(i) i^2), list(1, 4, 9))
    expect_identical(length(unique(unlist(clusterCall(cl, Sys.getpid)))), 2L)
    expect_identical(clusterCall(cl, search), rep(list(c(
      ".GlobalEnv", paste0("package:", c(
        "stats", "graphics", "grDevices", "utils", "datasets", "methods"
      )), "Autoloads", "package:base"
    )), 2))
    cluster_stop(cl)
  }
})

test_cluster("the server is used again, and each start forks new workers from it", {
  skip_without_fork()
  first <- local_cluster(2, start = "fork")
  clusterEvalQ(first, left <- "over")
  servers <- server_pids()
  cluster_stop(first)
  second <- local_cluster(2, start = "fork")
  expect_identical(server_pids(), servers)
  expect_length(intersect(node_pids(first), node_pids(second)), 0L)
  expect_identical(clusterCall(second, exists, "left"), list(FALSE, FALSE))
})

test_cluster("two clusters can be up at the same time, and one outlives the other", {
  one <- local_cluster(1)
  two <- local_cluster(1)
  expect_identical(clusterCall(one, Sys.getpid), list(one[[1]]$pid))
  expect_identical(clusterCall(two, Sys.getpid), list(two[[1]]$pid))
  cluster_stop(one)
  expect_identical(clusterCall(two, Sys.getpid), list(two[[1]]$pid))
})

test_cluster("packages are attached in the order given, over R's own, each once", {
  skip_if_not_installed("splines")
  skip_if_not_installed("stats4")
  for (start in c("fork", "spawn")) {
    if (start == "fork" && !.Call(ffi_can_fork)) next
    cl <- local_cluster(1, packages = c("splines", "stats4", "splines", "stats"), start = start)
    attached <- clusterCall(cl, search)[[1L]]
    expect_identical(attached[1:4], c(
      ".GlobalEnv", "package:stats4", "package:splines", "package:stats"
    ))
    expect_identical(sum(attached == "package:splines"), 1L)
    expect_identical(clusterEvalQ(cl, dim(bs(1:10)))[[1L]], c(10L, 3L))
    cluster_stop(cl)
  }
})

test_cluster("a package that each worker attaches by itself keeps its place in the order", {
  skip_without_fork()
  skip_if_not(capabilities("tcltk"), "R has no tcltk")
  skip_if_not_installed("splines")
  cl <- local_cluster(1, packages = c("tcltk", "splines"))
  expect_identical(clusterCall(cl, search)[[1L]][2:3], c("package:splines", "package:tcltk"))
})

test_cluster("a package in a library that code has added is found", {
  local_package("mustertiny", "answer <- function() 42\n.onAttach <- function(...) NULL")
  cl <- local_cluster(1, packages = "mustertiny")
  expect_identical(clusterCall(cl, function() find.package("mustertiny")),
    list(find.package("mustertiny"))
  )
})

test_cluster("a package that can't be loaded makes an error that says why", {
  local_package("musterbroken", ".onLoad <- function(...) stop(\"no luck today\")")
  for (start in c("fork", "spawn")) {
    if (start == "fork" && !.Call(ffi_can_fork)) next
    error <- expect_start_error("launch", 2, packages = "musterbroken", start = start)
    expect_match(conditionMessage(error), "no luck today")
    expect_match(conditionMessage(error), "musterbroken")
  }
})

test_cluster("a package that keeps a file open means booted workers, and a message why", {
  skip_without_fork()
  skip_without_feature("proc") # who tells which files are open?
  skip_without_proc()
  local_package("musteropen", c(
    "kept <- new.env()",
    ".onLoad <- function(...) assign(\"con\", file(tempfile(), \"w\"), envir = kept)"
  ))
  local_settings(muster.quiet = NULL)
  # On another host that is an error.
  start <- function() here_only(cluster_start(1, packages = "musteropen"))
  expect_message(cl <- start(), class = "muster_message_spawn")
  expect_identical(cl[[1L]]$start, "spawn")
  expect_identical(clusterCall(cl, function() "package:musteropen" %in% search()), list(TRUE))
  cluster_stop(cl)
  local_settings(muster.quiet = TRUE)
  expect_message(cl <- start(), regexp = NA)
  expect_identical(cl[[1L]]$start, "spawn")
  cluster_stop(cl)
  error <- expect_start_error("launch", 1, packages = "musteropen", start = "fork")
  expect_match(conditionMessage(error), "refused")
})

# ---- setup

test_cluster("`setup` runs in the global environment of each worker, before the first call", {
  forms <- list(
    quote({
      library(splines)
      prepared <- "yes"
    }),
    expression(library(splines), prepared <- "yes"),
    function() {
      library(splines)
      assign("prepared", "yes", envir = globalenv())
    }
  )
  for (setup in forms) {
    cl <- local_cluster(2, setup = setup)
    expect_identical(clusterEvalQ(cl, prepared), list("yes", "yes"))
    expect_identical(clusterCall(cl, ls, globalenv()), rep(list("prepared"), 2))
    expect_identical(clusterEvalQ(cl, dim(bs(1:10))), rep(list(c(10L, 3L)), 2))
    cluster_stop(cl)
  }
})

test_cluster("`setup` may be one symbol or a function with what it closes over", {
  cl <- local_cluster(1, setup = quote(pi))
  cluster_stop(cl)
  value <- stats::setNames(1:3, letters[1:3])
  cl <- local_cluster(2, setup = function(level = 2) {
    options(muster.test = list(value, level))
  })
  expect_identical(clusterCall(cl, getOption, "muster.test"), rep(list(list(value, 2)), 2))
})

test_cluster("warnings, messages and output of `setup` don't fail the start", {
  cl <- local_cluster(2, setup = quote({
    warning("only a warning")
    message("only a message")
    print("only output")
    writeLines(rep("many lines", 2000))
  }))
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
})

failing_setups <- function(start) {
  test_cluster(paste0("a `setup` that fails fails the start, at once (", start, ")"), {
    if (start == "fork") skip_without_fork()
    error <- expect_start_error("launch", 2, start = start, setup = quote(stop("no such luck")))
    expect_match(conditionMessage(error), "`setup` failed: no such luck", fixed = TRUE)
    expect_true(error$worker %in% 1:2)
    expect_type(error$pid, "integer")
    expect_false(error$pid %in% session_processes())
    error <- expect_start_error("launch", 2, start = start, setup = function() {
      message("before the end")
      stop("\u00e9t\u00e9")
    })
    expect_match(conditionMessage(error), "before the end")
    expect_match(error$output, "before the end")
    expect_match(conditionMessage(error), "\u00e9t\u00e9")
  })

  test_cluster(paste0("an exit status in `setup` is told (", start, ")"), {
    if (start == "fork") skip_without_fork()
    error <- expect_start_error("launch", 2, start = start, setup = quote({
      cat("these are my last words\n")
      quit(status = 3)
    }))
    expect_identical(error$exit_code, 3L)
    expect_identical(error$signal, NA_integer_)
    expect_match(error$output, "these are my last words")
    expect_match(conditionMessage(error), "exit status 3")
    expect_match(conditionMessage(error), "these are my last words")
  })

  test_cluster(paste0("a crash in `setup` is told with its signal and last words (", start, ")"), {
    if (start == "fork") skip_without_fork()
    error <- expect_start_error("launch", 2, start = start, setup = quote({
      cat("these are my last words\n")
      tools::pskill(Sys.getpid(), 11L)
    }))
    expect_identical(error$signal, 11L)
    expect_identical(error$exit_code, NA_integer_)
    expect_match(error$output, "these are my last words")
    expect_match(conditionMessage(error), "SIGSEGV")
    error <- expect_start_error("launch", 2, start = start, setup = quote({
      cat("killed without a word")
      tools::pskill(Sys.getpid(), 9L)
    }))
    expect_identical(error$signal, 9L)
    expect_match(error$output, "killed without a word", fixed = TRUE)
  })

  test_cluster(paste0("one worker that fails takes the others down (", start, ")"), {
    if (start == "fork") skip_without_fork()
    first <- file.path(local_folder(), "first")
    error <- expect_start_error("launch", 2, start = start, setup = eval(bquote(function() {
      # Whoever makes the folder lives on, and computes.
      if (dir.create(.(first), showWarnings = FALSE)) Sys.sleep(600) else quit(status = 4)
    })))
    expect_identical(error$exit_code, 4L)
  })

  test_cluster(paste0("output of a start that fails has no lines of muster's own (", start, ")"), {
    if (start == "fork") skip_without_fork()
    error <- expect_start_error("launch", 1, start = start, setup = quote({
      cat("mine")
      quit(status = 1)
    }))
    expect_identical(error$output, "mine")
  })
}
failing_setups("fork")
failing_setups("spawn")

test_cluster("how a worker ended isn't told as a signal when it was `setup` that failed", {
  error <- expect_start_error("launch", 1, setup = quote(stop("no")))
  # That it was then killed by muster is no fact about the failure.
  expect_identical(error$signal, NA_integer_)
})

test_cluster("a `setup` that hangs is given up after options(muster.start_timeout)", {
  # In this time a worker must come to say what it waits for.
  local_settings(muster.start_timeout = 5)
  error <- expect_start_error("timeout", 2, setup = quote({
    cat("waiting for what never comes\n")
    Sys.sleep(600)
  }))
  expect_match(error$output, "waiting for what never comes")
  expect_match(conditionMessage(error), "muster.start_timeout")
})

test_cluster("an interrupted start leaves nothing", {
  # A time limit leaves the wait as an interrupt does.
  expect_error(
    {
      setTimeLimit(elapsed = 2, transient = TRUE)
      cluster_start(2, setup = quote(Sys.sleep(600)))
    },
    "time limit"
  )
  setTimeLimit()
})

# ---- threads, nesting, autoStop

test_cluster("`threads` sets the variables that libraries read", {
  names <- c("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
  for (start in c("fork", "spawn")) {
    if (start == "fork" && !.Call(ffi_can_fork)) next
    for (threads in 1:2) {
      cl <- local_cluster(1, threads = threads, start = start)
      expect_identical(
        clusterCall(cl, Sys.getenv, names)[[1L]],
        stats::setNames(rep(as.character(threads), 4), names)
      )
      cluster_stop(cl)
    }
  }
})

test_cluster("printing a cluster shows how many threads its workers have", {
  cl <- local_cluster(2)
  expect_output(print(cl), "1 thread each")
  expect_output(print(cl[1]), "1 thread)", fixed = TRUE)
  cluster_resize(cl, 1)
  cl <- local_cluster(1, threads = 3)
  expect_output(print(cl), "3 threads)", fixed = TRUE)
  # Somebody else decides there.
  psock <- makeClusterPSOCK(1, rscript_envs = c(OMP_NUM_THREADS = "2"))
  defer(function() cluster_stop(psock))
  expect_false(any(grepl("thread", capture.output(print(psock)))))
})

test_cluster("data.table in a worker has the threads of an R with as many in OMP_NUM_THREADS", {
  # Not by loading it, which sets options.
  skip_if_not(nzchar(system.file(package = "data.table")), "data.table isn't installed")
  skip_if(parallel::detectCores() < 2L, "one core is one thread to data.table")
  look <- function() {
    before <- data.table::getDTthreads()
    data.table::setDTthreads(2)
    c(before, data.table::getDTthreads())
  }
  # Its older versions let setDTthreads() go past the variable.
  in_plain_r <- function(threads) {
    code <- paste0("f <- ", paste(deparse(look), collapse = "\n"), "; cat(f())")
    said <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)),
      stdout = TRUE, env = paste0("OMP_NUM_THREADS=", threads)
    )
    as.integer(strsplit(said, " ", fixed = TRUE)[[1L]])
  }
  for (threads in 1:2) {
    expected <- in_plain_r(threads)
    expect_lte(expected[1L], threads)
    for (packages in list(NULL, "data.table")) {
      cl <- local_cluster(1, threads = threads, packages = packages)
      expect_identical(clusterCall(cl, look)[[1L]], expected)
      cluster_stop(cl)
    }
  }
})

test_cluster("the session's own thread variables stay as they are, and don't reach workers", {
  local_variables(OMP_NUM_THREADS = "7", MKL_NUM_THREADS = NA)
  cl <- local_cluster(1)
  expect_identical(clusterCall(cl, Sys.getenv, "OMP_NUM_THREADS"), list("1"))
  expect_identical(Sys.getenv("OMP_NUM_THREADS"), "7")
  expect_identical(Sys.getenv("MKL_NUM_THREADS", NA), NA_character_)
})

test_cluster("inside a worker the default is 1 worker, with a warning", {
  cl <- local_cluster(1)
  nested <- function() {
    library(muster)
    warned <- NULL
    inner <- withCallingHandlers(cluster_start(), warning = function(w) {
      warned <<- class(w)
      invokeRestart("muffleWarning")
    })
    on.exit(cluster_stop(inner))
    list(length(inner), warned[1L], clusterCall(inner, function() "deep")[[1L]])
  }
  expect_identical(clusterCall(cl, nested), list(list(1L, "muster_warning_nested", "deep")))
})

test_cluster("inside a worker a number is taken at its word, without a warning", {
  cl <- local_cluster(1)
  nested <- function() {
    options(warn = 2)
    inner <- muster::cluster_start(1)
    on.exit(muster::cluster_stop(inner))
    parallel::clusterCall(inner, function() "deep")[[1L]]
  }
  expect_identical(clusterCall(cl, nested), list("deep"))
})

test_cluster("what a worker has started ends with it", {
  skip_without_proc()
  cl <- local_cluster(1)
  inner <- processes(clusterCall(cl, function() {
    kept <<- muster::cluster_start(1)
    c(kept[[1L]]$pid, unlist(lapply(muster:::the_cluster$servers, `[[`, "pid")))
  })[[1L]])
  expect_true(all(still_runs(inner)))
  cluster_stop(cl)
  wait_until(!any(still_runs(inner)))
})

test_cluster("a cluster that nothing refers to is stopped by the garbage collector", {
  skip_without_proc()
  cl <- cluster_start(2)
  workers <- node_processes(cl)
  hosts <- if (behind_link()) processes(far_host(cl))
  # One node is enough to keep all of it.
  node <- cl[[1L]]
  rm(cl)
  gc()
  expect_true(all(still_runs(workers)))
  rm(node)
  gc()
  wait_until(!any(still_runs(c(workers, hosts))))
})

test_cluster("with `autoStop = FALSE` a cluster lives until it's stopped", {
  skip_without_proc()
  cl <- cluster_start(1, autoStop = FALSE)
  worker <- node_processes(cl)
  kept <- the_worker$kept
  rm(cl)
  gc()
  cl <- local_cluster(1)
  expect_identical(clusterCall(cl, function() 1), list(1))
  expect_true(still_runs(worker))
  .Call(ffi_cluster_stop, kept[[length(kept)]], 1L)
  expect_false(still_exists(worker))
})

test_cluster("a start under options(warn = 2) and unusual number formats works", {
  local_settings(warn = 2, OutDec = ",", scipen = -9, digits = 3)
  cl <- local_cluster(2)
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
  expect_output(print(cl), "2 workers")
})

test_cluster("a cluster, its nodes and its tasks weigh little wherever they are sent", {
  weight <- function(x) length(serialize(x, NULL))
  psock <- makeClusterPSOCK(2, rscript_startup = "NULL")
  defer(function() stopCluster(psock))
  for (cl in list(local_cluster(2), local_cluster(2, start = "spawn"), psock)) {
    clusterExport(cl, "weight", environment())
    clusterCall(cl, length, sqrt(1:1e6))
    task <- task_submit(cl, length, sqrt(1:1e6))
    # What a second worker adds, and what one of makeClusterPSOCK() has besides.
    expect_lt(weight(unclass(cl)) - weight(unclass(cl)[1]), 600)
    expect_lt(weight(cl), if (is.null(cl[[1]]$options)) 1500 else 9000)
    expect_lt(weight(task), 400)
    task_wait(task)
    expect_lt(weight(task), 400)
    # Nor is it told how R was started, with which variables.
    expect_length(grepRaw("MUSTER_BOOT", serialize(cl, NULL)), 0L)
  }
})

test_cluster("a start, calls and a stop need none of R's connections", {
  # R has 128 of them.
  known <- server_pids()
  taken <- list()
  defer(function() for (con in taken) close(con))
  repeat {
    con <- tryCatch(rawConnection(raw()), error = function(e) NULL)
    if (is.null(con)) break
    taken[[length(taken) + 1L]] <- con
  }
  expect_gt(length(taken), 50L)
  cl <- local_cluster(2)
  # The server that was there before is known again; a new link has one of its own.
  if (!behind_link()) expect_identical(server_pids(), known)
  expect_identical(parLapply(cl, 1:3, sqrt), lapply(1:3, sqrt))
  cluster_stop(cl)
  cl <- local_cluster(1, packages = "splines")
  expect_identical(clusterCall(cl, function() "package:splines" %in% search()), list(TRUE))
  cluster_stop(cl)
})

test_cluster("a startup file that starts clusters can't do so in workers without end", {
  local_variables(MUSTER_BOOT = "1")
  error <- expect_error(cluster_start(1), class = "muster_error_input")
  expect_match(conditionMessage(error), "startup file")
})

test_cluster("A5: lists of processes show what each process is", {
  skip_without_proc()
  testthat::skip_if_not(identical(Sys.info()[["sysname"]], "Linux"))
  skip_without_feature("proc")
  title_of <- function(pid) {
    bytes <- readBin(file.path("/proc", pid, "cmdline"), "raw", 4096L)
    rawToChar(bytes[seq_len(match(as.raw(0L), bytes) - 1L)])
  }
  cl <- local_cluster(2)
  server <- parent_of(node_pids(cl)[1L])
  owner <- worker_owner(cl)
  workers <- paste("muster worker", 1:2, "of", owner)
  expect_identical(vapply(node_pids(cl), title_of, ""), workers)
  expect_identical(title_of(server), paste("muster server of", owner))
  tools::pskill(node_pids(cl)[2L], 9L)
  suppressMessages(clusterCall(cl, identity, 1))
  expect_identical(vapply(node_pids(cl), title_of, ""), workers)
  spawned <- local_cluster(1, start = "spawn")
  expect_identical(title_of(node_pids(spawned)), paste("muster worker 1 of", Sys.getpid()))
  expect_identical(clusterCall(spawned, function() basename(commandArgs()[1L])), list("R"))
})
