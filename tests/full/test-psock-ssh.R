# Workers on "other" hosts: R's own, over a real sshd on the loopback and its tunnels.

test_that("S1: workers behind ssh start at once, each through a tunnel of its own", {
  limit_time(60)
  there <- local_sshd()
  evil <- "it's \"q\" $HOME `id` $(id) \\ end"
  cl <- makeClusterPSOCK(rep(there$host, 2),
    rshopts = there$options, revtunnel = TRUE, rscript_envs = c(A = evil),
    rscript_startup = list(bquote(said <- .(evil)), "Sys.sleep(1.5)"), renice = 2
  )
  withr::defer(stopCluster(cl))
  seen <- clusterEvalQ(cl, list(
    env = Sys.getenv("A"), said = said, ssh = Sys.getenv("SSH_CONNECTION"), pid = Sys.getpid(),
    nice = tools::psnice()
  ))
  for (one in seen) {
    expect_identical(one[c("env", "said")], list(env = evil, said = evil))
    expect_true(nzchar(one$ssh))
    expect_identical(one$nice, min(tools::psnice() + 2L, 19L))
  }
  expect_identical(vapply(seen, `[[`, 0L, "pid"), vapply(cl, function(node) node$pid, 0L))
  expect_identical(isLocalhostNode(cl), c(FALSE, FALSE))
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE))
  expect_identical(unlist(clusterApplyLB(cl, 1:9, function(i) i)), 1:9)
  expect_match(format(cl), "2 nodes on host")
})

test_that("what a worker over there is told comes through ssh's standard input", {
  limit_time(60)
  there <- local_sshd()
  odd <- c(
    QUOTES = "hush a'b \"c\" `d`", SHELL = "hush $HOME $(id) \\ \\n ; | & > % !x",
    LINES = "hush\nend\n\ttwo\r", UTF8 = "hush \u00e9\u20ac\U1F600", EMPTY = "",
    LONG = strrep("hush", 50000L)
  )
  cl <- makeClusterPSOCK(there$host,
    rshopts = there$options, rscript_envs = c(odd, HOME = NA), rscript_startup = "x <- 'hush'"
  )
  withr::defer(stopCluster(cl))
  got <- clusterCall(cl, function(names) lapply(Sys.getenv(names), charToRaw), names(odd))[[1]]
  expect_identical(got, lapply(odd, charToRaw))
  expect_identical(clusterEvalQ(cl, c(x, Sys.getenv("HOME", NA)))[[1]], c("hush", NA))
  word <- clusterEvalQ(cl, getOption("muster.stock_word"))[[1]]
  lines <- command_lines()
  expect_gt(sum(grepl("PORT=[0-9]+", lines)), 1L) # ssh's and the worker's
  for (secret in c("hush", sub("muster-word-", "", word))) {
    expect_false(any(grepl(secret, lines, fixed = TRUE)))
  }
})

test_that("ssh -n and -f, which leave nothing to read, are reported at once", {
  limit_time(60)
  there <- local_sshd()
  for (option in c("-n", "-f")) {
    error <- expect_error(
      makeClusterPSOCK(there$host, rshopts = c(there$options, option)),
      class = "muster_error_launch"
    )
    expect_match(conditionMessage(error), "`ssh -n`", fixed = TRUE)
  }
})

test_that("workers here and there make one cluster, and one that is killed there is known", {
  limit_time(60)
  there <- local_sshd()
  cl <- makeClusterPSOCK(c("localhost", there$host),
    rshopts = there$options, rscript = c("nice", "*")
  )
  withr::defer(stopCluster(cl))
  expect_identical(vapply(cl, function(node) node$start, ""), c("fork", "stock"))
  expect_identical(clusterCall(cl, tools::psnice),
    rep(list(min(tools::psnice() + 10L, 19L)), 2L))
  expect_identical(parSapply(cl, 1:5, function(i) i), 1:5)
  expect_true(killNode(cl[[2]]))
  expect_identical(isNodeAlive(cl), c(TRUE, FALSE))
  cl[2] <- cloneNode(cl[2])
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
})

test_that("a login or a command that fails over there is reported", {
  limit_time(60)
  there <- local_sshd()
  cases <- list(
    login = list(there$host, user = "nobody-of-this-name"),
    command = list(there$host, rscript = "/no/R"),
    port = list("127.0.0.1:1")
  )
  codes <- c(login = 255L, command = 127L, port = 255L)
  for (name in names(cases)) {
    error <- expect_error(
      do.call(makeClusterPSOCK, c(cases[[name]], list(rshopts = there$options))),
      class = "muster_error_launch"
    )
    expect_identical(error$exit_code, codes[[name]], info = name)
    expect_true(nzchar(error$output), info = name)
    expect_match(conditionMessage(error), "127.0.0.1", fixed = TRUE)
  }
})

test_that("a tunnel whose far end is taken is reported", {
  limit_time(30)
  there <- local_sshd()
  # The session listens on the one below, so that one must be free, too.
  repeat {
    port <- freePort(20000:30000)
    if (!is.na(freePort(port - 1L, default = NA))) break
  }
  taken <- lapply(c("127.0.0.1", "::1"), function(host) .Call(ffi_stock_listen, host, port))
  withr::defer(for (one in taken) .Call(ffi_stock_close, one$listener))
  # Only the far end of the tunnel is taken: the session listens on another port.
  o <- makeNodePSOCK(there$host,
    port = port - 1L, rank = 2L, rshopts = there$options, action = "options"
  )
  error <- expect_error(start_stock(list(o), port - 1L, FALSE, TRUE, NULL),
    class = "muster_error_launch"
  )
  expect_match(error$output, "forwarding failed")
})

test_that("S9: workers over there end when the session is killed", {
  limit_time(60)
  there <- local_sshd()
  session <- start_session(bquote({
    cl <- makeClusterPSOCK(.(there$host), rshopts = .(there$options))
    tell(pid = cl[[1]]$pid)
    Sys.sleep(600) # tidy: until it is killed
  }))
  wait_until(!is.null(told_by(session)$pid))
  worker <- processes(told_by(session)$pid)
  expect_true(still_runs(worker))
  session$process$signal(tools::SIGKILL)
  wait_until(!still_runs(worker))
})
