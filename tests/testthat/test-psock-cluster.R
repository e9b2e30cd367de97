# makeClusterPSOCK() with muster's own workers, and what it shares with parallelly.

lines_of <- function(code) utils::capture.output(code)

# In a fresh session's words: what parallelly and muster show for the same call.
dry_text <- function(fun, ...) {
  local_settings(useFancyQuotes = FALSE)
  lines_of(invisible(suppressWarnings(fun(..., port = 11000L, dryrun = TRUE))))
}

test_that("formal arguments and defaults are those of parallelly", {
  skip_if_not_installed("parallelly", "1.48.0")
  for (name in c("makeClusterPSOCK", "makeNodePSOCK", "isForkedChild", "isForkedNode",
    "isLocalhostNode", "isNodeAlive", "killNode", "cloneNode", "freePort",
    "availableConnections", "as.cluster")) {
    expect_identical(formals(get(name)), formals(getExportedValue("parallelly", name)),
      info = name
    )
  }
})

test_that("a dry run shows what parallelly shows", {
  skip_if_not_installed("parallelly", "1.48.0")
  skip_if(!nzchar(Sys.which("ssh")), "there is no ssh")
  cases <- list(
    list(1), list(2), list(1, rscript = c("nice", "*")), list(1, rscript = I(c("nice", "*"))),
    list(1, rscript_envs = c(PI = "3.14", "HOME", UNSET = NA)),
    list(1, rscript_libs = c("a b/'c", "*")),
    list(1, rscript_startup = list(quote(x <- 1), "y <- 2")),
    list(1, rscript_args = c("--vanilla", "-e", shQuote("cat(1)"))),
    list(1, renice = 3, default_packages = NULL, methods = FALSE),
    list(1, default_packages = c("*", "tools"), useXDR = TRUE, socketOptions = NULL),
    list(1, socketOptions = "NULL", outfile = NULL, timeout = 5, connectTimeout = 3),
    list(c("n1.remote.org", "n2")), list("remote.server.org", user = "bob", revtunnel = FALSE),
    list("remote.server.org", rshlogfile = "log file.txt", rshopts = c("-i", "key")),
    list("remote", rshcmd = "qrsh", rshopts = "-inherit"),
    list("remote", rscript_sh = "none"), list("remote", rscript_sh = "cmd"),
    list("remote", rscript_sh = c("sh", "none")), list("remote", renice = 5),
    list(1, rscript_call = "foo('a')"), list(1, homogeneous = FALSE),
    list(1, rscript = "/opt/R/bin/Rscript"), list(1, rscript = c("A=1", "*"))
  )
  for (case in cases) {
    expect_identical(
      do.call(dry_text, c(list(makeClusterPSOCK), case)),
      do.call(dry_text, c(list(parallelly::makeClusterPSOCK), case)),
      info = paste(deparse(case), collapse = " ")
    )
  }
})

test_that("a cluster that was not started prints as parallelly's", {
  skip_if_not_installed("parallelly", "1.48.0")
  expect_identical(
    lines_of(print(makeClusterPSOCK(1, dryrun = TRUE, quiet = TRUE))),
    lines_of(print(parallelly::makeClusterPSOCK(1, dryrun = TRUE, quiet = TRUE)))
  )
})

test_cluster("default arguments give forked workers that know who they are", {
  cl <- makeClusterPSOCK(2)
  defer(function() stopCluster(cl))
  expect_s3_class(cl, c("muster_psock", "muster_cluster", "SOCKcluster", "cluster"), exact = TRUE)
  info <- cl[[2]]$session_info
  expect_identical(info$process$pid, clusterCall(cl, Sys.getpid)[[2]])
  expect_identical(info$tempdir, clusterCall(cl, tempdir)[[2]])
  expect_identical(info$r$version.string, R.version$version.string)
  expect_identical(isForkedNode(cl), rep(.Call(ffi_can_fork), 2L))
  expect_identical(lines_of(print(cl)), paste0(
    "Socket cluster with 2 nodes on host ", sQuote("localhost"), " (", R.version$version.string,
    ", platform ", R.version$platform, ")"
  ))
  expect_identical(parSapply(cl, 1:4, function(i) i^2), c(1, 4, 9, 16))
})

test_cluster("L5: rscript_envs sets, copies and unsets, whatever is in the values", {
  local_variables(MY_EMAIL = "alice@example.org", UNSET_ME = "here")
  value <- "a'b \"c\" $HOME `id` \\ \n é"
  cl <- makeClusterPSOCK(2, rscript_envs = c(
    PI = "3.14", "MY_EMAIL", UNSET_ME = NA_character_, ODD = value
  ))
  defer(function() stopCluster(cl))
  expect_identical(
    unname(clusterCall(cl, Sys.getenv, c("PI", "MY_EMAIL", "UNSET_ME", "ODD"), NA)[[2]]),
    c("3.14", "alice@example.org", NA, value)
  )
  expect_warning(makeClusterPSOCK(1, rscript_envs = "NOT_THERE_X", dryrun = TRUE, quiet = TRUE),
    class = "muster_warning_input"
  )
})

test_cluster("L4: rscript = c(\"nice\", \"*\") and renice give nicer workers", {
  skip_without_proc()
  cl <- makeClusterPSOCK(1, rscript = c("nice", "*"), renice = 3)
  defer(function() stopCluster(cl))
  expect_identical(clusterCall(cl, tools::psnice)[[1]], min(tools::psnice() + 13L, 19L))
  servers <- length(the_cluster$servers)
  again <- makeClusterPSOCK(1, rscript = c("nice", "*"), renice = 3)
  defer(function() stopCluster(again))
  expect_identical(length(the_cluster$servers), servers)
})

test_cluster("libraries, start-up code, arguments, packages and output are the workers' own", {
  folder <- local_folder()
  file <- file.path(folder, "out put.txt")
  cl <- makeClusterPSOCK(1,
    rscript_libs = c(folder, "*"), rscript_startup = list(quote(x <- "a'b"), "library(tools)"),
    rscript_args = c("--no-environ", "-e", shQuote("y <- 2")), default_packages = "stats",
    outfile = file
  )
  defer(function() stopCluster(cl))
  seen <- clusterEvalQ(cl, list(
    x = x, y = y, libs = .libPaths()[1L], search = search(), args = commandArgs()
  ))[[1]]
  expect_identical(seen[c("x", "y", "libs")], list(x = "a'b", y = 2, libs = folder))
  expect_identical(sum(grepl("^package:", seen$search)), 3L) # stats, tools, base
  if (isForkedNode(cl)) expect_true("--no-environ" %in% seen$args)
  clusterEvalQ(cl, {
    print("said")
    message("told")
  })
  wait_until(all(c("[1] \"said\"", "told") %in% readLines(file)))
})

test_cluster("start-up code runs in every worker, and its failure is the start's", {
  cl <- makeClusterPSOCK(2, rscript_startup = quote(mine <- Sys.getpid()))
  defer(function() stopCluster(cl))
  expect_identical(clusterEvalQ(cl, mine), clusterCall(cl, Sys.getpid))
  error <- expect_error(makeClusterPSOCK(1, rscript_startup = "stop('no luck')"),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(error), "rscript_startup.*no luck")
})

test_cluster("a command that ends in \"*\" starts muster's worker over an inherited socket", {
  cl <- makeClusterPSOCK(1, rscript = c("env", "A=b c", "B=it's", "*"))
  defer(function() stopCluster(cl))
  expect_identical(cl[[1]]$start, "spawn")
  expect_identical(unname(clusterCall(cl, Sys.getenv, c("A", "B"))[[1]]), c("b c", "it's"))
})

test_that("more workers than parallelly allows are a warning, not an error", {
  local_settings(parallelly.maxWorkers.localhost = c(0.1, 0.2))
  warning <- expect_warning(makeClusterPSOCK(2, dryrun = TRUE, quiet = TRUE),
    class = "muster_warning_load"
  )
  expect_match(conditionMessage(warning), "hard limit")
  expect_warning(makeClusterPSOCK(I(2), dryrun = TRUE, quiet = TRUE), NA)
  local_settings(parallelly.maxWorkers.localhost = NULL)
  local_variables(R_PARALLELLY_MAXWORKERS_LOCALHOST = "0.1,Inf")
  warning <- expect_warning(makeClusterPSOCK(1, dryrun = TRUE, quiet = TRUE),
    class = "muster_warning_load"
  )
  expect_match(conditionMessage(warning), "soft limit")
})

test_that("options and environment variables of parallelly's names are read", {
  local_settings(parallelly.makeNodePSOCK.useXDR = NULL, future.makeNodePSOCK.useXDR = NULL)
  expect_identical(getOption2("parallelly.makeNodePSOCK.useXDR", FALSE), FALSE)
  local_variables(R_FUTURE_MAKENODEPSOCK_USEXDR = "TRUE")
  expect_identical(getOption2("parallelly.makeNodePSOCK.useXDR", FALSE), TRUE)
  local_variables(R_PARALLELLY_MAKENODEPSOCK_USEXDR = "false")
  expect_identical(getOption2("parallelly.makeNodePSOCK.useXDR", TRUE), FALSE)
  local_settings(parallelly.makeNodePSOCK.useXDR = TRUE)
  expect_identical(getOption2("parallelly.makeNodePSOCK.useXDR", FALSE), TRUE)
  local_variables(R_PARALLELLY_MAKENODEPSOCK_TRIES = "many")
  expect_warning(value <- getOption2("parallelly.makeNodePSOCK.tries", 3L),
    class = "muster_warning_input"
  )
  expect_identical(value, 3L)
})

test_that("L7: R_PARALLEL_PORT may be a number, and one by one is what can't be at once", {
  local_variables(R_PARALLEL_PORT = "12345")
  shown <- lines_of(makeClusterPSOCK(1, dryrun = TRUE))
  expect_true(any(grepl(" PORT=12345 ", shown, fixed = TRUE)))
  # What a user starts by hand can't start at once.
  expect_true(any(grepl("SETUPSTRATEGY=sequential", shown, fixed = TRUE)))
  local_variables(R_PARALLEL_PORT = "random", R_PARALLELLY_RANDOM_PORTS = "20001:20003,20010")
  expect_true(all(choose_port("auto", NULL) %in% c(20001:20003, 20010L)))
  local_variables(R_PARALLEL_PORT = "http")
  expect_error(makeClusterPSOCK(1, dryrun = TRUE), class = "muster_error_input")
})

test_that("the choice of a port leaves the session's random numbers alone", {
  local_seed(1)
  before <- .Random.seed
  choose_port("random", NULL)
  freePort()
  expect_identical(.Random.seed, before)
})

test_that("wrong arguments are errors that name them", {
  bad <- list(
    list(0), list(NA), list(1.5), list(TRUE), list("a b"), list("-oProxyCommand=id"),
    list("h;id"), list("$(id)"), list("h", user = "-x"), list("h", master = "a b"),
    list(1, port = 0),
    list(1, port = 70000), list(1, port = "http"), list(1, foo = 2), list(1, rscript = 1),
    list(1, rscript_envs = c("a=b" = "1")), list(1, rscript_envs = list(1)),
    list(1, rscript_startup = 1), list(1, rscript_startup = "x <- ("), list(1, renice = "a"),
    list(1, default_packages = "a;b"), list(1, rscript_sh = "fish"), list(1, outfile = 1),
    list(1, connectTimeout = -1), list(1, setup_strategy = "both"), list(1, methods = NA),
    list(1, tries = 0), list(1, makeNode = 1), list(1, rscript_libs = NA), list("host:99999")
  )
  for (arguments in bad) {
    call <- as.call(c(quote(makeClusterPSOCK), arguments, list(dryrun = TRUE, quiet = TRUE)))
    error <- expect_error(eval(call), class = "muster_error_input", info = deparse(call))
    expect_identical(conditionCall(error)[[1L]], quote(makeClusterPSOCK))
  }
})

test_cluster("a command that closes what it inherits starts R's own worker, and says so", {
  wrapper <- file.path(local_folder(), "clo se'd")
  writeLines(c("#!/bin/sh", "exec 3>&- 4>&- 5>&-", "exec \"$@\""), wrapper)
  Sys.chmod(wrapper, "0700")
  expect_message(cl <- makeClusterPSOCK(1, rscript = c(wrapper, "*")),
    class = "muster_message_stock"
  )
  defer(function() stopCluster(cl))
  expect_identical(cl[[1]]$start, "stock")
  expect_identical(clusterCall(cl, function() 1), list(1))
})

test_cluster("a launcher that hands its job on, and ends, takes nothing with it", {
  testthat::skip_on_os("windows")
  # As `ssh -f`, before the process that stays is in a group of its own.
  launcher <- file.path(local_folder(), "launcher")
  writeLines(c("for last; do :; done", "exec 3<&0", "sh -c \"$last\" <&3 &", "exit 0"), launcher)
  cl <- makeClusterPSOCK("there.invalid",
    rshcmd = c("/bin/sh", launcher), rshopts = character(), revtunnel = FALSE,
    master = "127.0.0.1", connectTimeout = 60
  )
  defer(function() stopCluster(cl))
  expect_identical(clusterCall(cl, function() 7), list(7))
})

test_cluster("renice is understood by login shells of all kinds", {
  launcher <- file.path(local_folder(), "launcher")
  writeLines(c("for last; do :; done", "exec $LOGIN_SHELL -c \"$last\""), launcher)
  for (shell in Filter(nzchar, Sys.which(c("sh", "bash", "zsh", "tcsh", "fish")))) {
    local_variables(LOGIN_SHELL = shell)
    cl <- makeClusterPSOCK("there.invalid",
      rshcmd = c("/bin/sh", launcher), rshopts = character(), revtunnel = FALSE,
      master = "127.0.0.1", connectTimeout = 60, renice = 2,
      rscript = file.path(R.home("bin"), "Rscript")
    )
    nice <- clusterCall(cl, tools::psnice)[[1]]
    stopCluster(cl)
    expect_identical(nice, min(tools::psnice() + 2L, 19L), info = shell)
  }
})
