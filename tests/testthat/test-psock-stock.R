# R's own workers, driven by muster over TCP.

# Launched as for a host without muster.
local_stock <- function(workers = 2, ..., frame = parent.frame()) {
  cl <- makeClusterPSOCK(workers, rscript_call = "parallel:::.workRSOCK()", ...)
  defer(function() stopCluster(cl), frame)
  cl
}

test_cluster("R's own workers answer parallel's verbs as those of makeCluster() do", {
  cases <- list(
    call = function(cl) clusterCall(cl, function(x) x + 1, 1),
    apply = function(cl) parSapply(cl, 1:5, function(i) i^2),
    balanced = function(cl) clusterApplyLB(cl, 1:7, function(i) -i),
    map = function(cl) clusterMap(cl, function(a, b) a * b, 1:5, 5:1, .scheduling = "dynamic"),
    error = function(cl) clusterCall(cl, function() stop("on purpose")),
    state = function(cl) {
      clusterEvalQ(cl, x <- 1)
      clusterEvalQ(cl, x)
    },
    random = function(cl) {
      clusterSetRNGStream(cl, 42)
      clusterCall(cl, stats::runif, 2)
    },
    everything = function(cl) {
      f <- compiler::cmpfun(function(x) tryCatch(x + 1, error = function(e) quote(a + b)))
      objects <- list(
        iris, globalenv(), baseenv(), emptyenv(), asNamespace("stats"), quote(a[b, ]), quote(y ~ x),
        expression(a, b), 1:1e5, c(NA, "é"), 1i, as.raw(1:3), sum, quote(`if`), NULL, -1L, NA_real_,
        structure(1, class = "foo", dim = c(1, 1)), methods::getClass("numeric")
      )
      list(clusterCall(cl, function(f) f(1), f), clusterCall(cl, identity, objects)[[2]][-c(2, 17)])
    }
  )
  local_seed(1)
  expected <- psock_answers(cases)
  answers <- answers_of(cases, local_stock())
  for (name in names(cases)) expect_equal(answers[[name]], expected[[name]], info = name)
})

test_cluster("C13: what a call printed is shown when it ends, also a line without an end", {
  cl <- local_stock(1, outfile = NULL)
  shown <- function(expr) capture.output(invisible(expr), type = "message")
  expect_identical(shown(clusterCall(cl, cat, "50 %")), "worker 1: 50 %")
  expect_identical(shown(clusterCall(cl, cat, "next\n")), "worker 1: next")
})

test_cluster("large messages, both ways at once, take none of R's connections", {
  before <- nrow(showConnections())
  cl <- local_stock(2)
  expect_identical(nrow(showConnections()), before)
  x <- as.raw(seq_len(5e6) %% 256)
  # Two calls are on their way to each worker while it still sends its first answer.
  for (node in unclass(cl)) {
    for (i in 1:2) sendData.muster_stock_node(node, exec_message(identity, list(x)))
  }
  for (node in unclass(cl)) {
    for (i in 1:2) expect_identical(recvData.muster_stock_node(node)$value, x)
  }
})

test_cluster("L6: worker connections have no Nagle delay, and NULL gives it back", {
  cl <- local_stock(1)
  expect_identical(clusterEvalQ(cl, getOption("socketOptions"))[[1]], "no-delay")
  slow <- local_stock(1, socketOptions = NULL)
  expect_null(clusterEvalQ(slow, getOption("socketOptions"))[[1]])
  expect_true(.Call(ffi_stock_state, cl[[1]]$link)$nodelay)
  expect_false(.Call(ffi_stock_state, slow[[1]]$link)$nodelay)
})

test_cluster("a worker that is killed is lost, and another can take its place", {
  skip_without_proc()
  cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(cl)) # those that are in it then
  tools::pskill(cl[[2]]$pid, tools::SIGKILL)
  error <- expect_error(clusterCall(cl, function() 1), class = "muster_error_lost")
  expect_identical(error$worker, 2L)
  expect_identical(error$signal, 9L)
  expect_identical(isNodeAlive(cl), c(TRUE, FALSE))
  cl[2] <- cloneNode(cl[2])
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE))
  # The first worker's answer to the call that failed is nobody's.
  expect_identical(clusterCall(cl, function() "new"), list("new", "new"))
  expect_true(killNode(cl[[1]]))
  expect_identical(isNodeAlive(cl), c(FALSE, TRUE))
})

test_cluster("answers that an interrupted call is owed don't reach the next", {
  cl <- local_stock(1)
  interrupted <- tryCatch(
    {
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      clusterCall(cl, function() {
        Sys.sleep(3) # tidy: in the worker, longer than the limit
        "old"
      })
    },
    error = function(e) "left",
    finally = setTimeLimit()
  )
  expect_identical(interrupted, "left")
  expect_identical(clusterCall(cl, function() "new"), list("new"))
})

test_cluster("a launch that fails is reported with all that helps", {
  file <- file.path(local_folder(), "no such'Rscript")
  error <- expect_error(makeClusterPSOCK(2, rscript = file), class = "muster_error_launch")
  expect_identical(error$exit_code, 127L)
  expect_match(error$output, "not found|No such file")
  expect_match(error$command, "no such'Rscript", fixed = TRUE)
  expect_match(conditionMessage(error), "rscript")
  error <- expect_error(makeClusterPSOCK(1, rscript_call = "stop('no luck')"),
    class = "muster_error_launch"
  )
  expect_match(error$output, "no luck")
  error <- expect_error(
    makeClusterPSOCK(1, rscript_call = quote(Sys.sleep(60)), connectTimeout = 1),
    class = "muster_error_timeout"
  )
  expect_match(conditionMessage(error), "connectTimeout")
})

test_cluster("nothing that is no command is run by a shell", {
  folder <- local_folder()
  mark <- file.path(folder, "ran")
  evil <- paste0("x'; touch ", mark, "; echo \"$(touch ", mark, ")`touch ", mark, "`")
  cl <- makeClusterPSOCK(1,
    rscript = c(paste0("EVIL=", evil), file.path(R.home("bin"), "Rscript")),
    rscript_envs = c(WORSE = evil), rscript_startup = bquote(said <- .(evil)),
    outfile = file.path(folder, "o'u\"t $(touch ran).txt"),
    rscript_call = "parallel:::.workRSOCK()"
  )
  defer(function() stopCluster(cl))
  expect_identical(
    clusterEvalQ(cl, c(Sys.getenv(c("EVIL", "WORSE"), names = FALSE), said))[[1]], rep(evil, 3)
  )
  expect_identical(list.files(folder), "o'u\"t $(touch ran).txt")
})

test_cluster("S5: a worker is greeted straight after it connects, and may connect anew", {
  # Its first connection is left without an answer, as when it is half-open.
  code <- paste(
    "args <- commandArgs(TRUE)",
    "port <- as.integer(sub('PORT=', '', grep('^PORT=', args, value = TRUE)))",
    "first <- socketConnection('localhost', port, blocking = TRUE, open = 'a+b', timeout = 5)",
    "greeting <- unserialize(first)", # nothing was sent before it came
    "close(first)",
    "parallel:::.workRSOCK()",
    sep = "; "
  )
  cl <- makeClusterPSOCK(1, rscript_call = code)
  defer(function() stopCluster(cl))
  expect_identical(clusterEvalQ(cl, greeting$type)[[1]], "EXEC")
})

test_cluster("who doesn't know the word is turned away, and the worker still comes", {
  code <- paste(
    "args <- commandArgs(TRUE)",
    "port <- as.integer(sub('PORT=', '', grep('^PORT=', args, value = TRUE)))",
    "liar <- socketConnection('localhost', port, blocking = TRUE, open = 'a+b', timeout = 99)",
    "invisible(unserialize(liar))",
    "value <- list(1L, paste0('muster-word-', strrep('0', 32L)))",
    "serialize(list(type = 'VALUE', value = value, success = TRUE, tag = NULL), liar)",
    "after <- tryCatch(unserialize(liar), error = function(e) 'turned away')",
    "parallel:::.workRSOCK()",
    sep = "; "
  )
  # A connection that stayed open would end the start, not the wait.
  cl <- makeClusterPSOCK(1, rscript_call = code, connectTimeout = 20)
  defer(function() stopCluster(cl))
  expect_identical(clusterEvalQ(cl, after)[[1]], "turned away")
})

test_cluster("a stopped cluster, and a copy of one, are of no use and say so", {
  local_seed(1)
  cl <- local_stock(1)
  skip_without_fork()
  child <- parallel::mccollect(parallel::mcparallel(
    tryCatch(clusterCall(cl, function() 1), error = function(e) class(e)[1L])
  ))[[1]]
  expect_identical(child, "muster_error_input")
  expect_identical(clusterCall(cl, function() 1), list(1))
  copy <- unserialize(serialize(cl, NULL))
  expect_error(clusterCall(copy, function() 1), class = "muster_error")
  stopCluster(cl)
  expect_error(clusterCall(cl, function() 1), class = "muster_error_input")
  expect_identical(isNodeAlive(cl), FALSE)
})

test_cluster("a port that is taken is an error, and several are tried in turn", {
  port <- freePort()
  taken <- .Call(ffi_stock_listen, "127.0.0.1", port)
  defer(function() .Call(ffi_stock_close, taken$listener))
  call <- "parallel:::.workRSOCK()"
  expect_error(makeClusterPSOCK(1, rscript_call = call, port = port),
    class = "muster_error_connect"
  )
  cl <- makeClusterPSOCK(1, rscript_call = call, port = c(port, freePort()))
  defer(function() stopCluster(cl))
  expect_identical(clusterCall(cl, function() 1), list(1))
})
