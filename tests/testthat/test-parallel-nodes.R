# Below the verbs: messages to single nodes, answers from whichever comes first, and
# large messages.
send <- parallel:::sendCall
receive <- parallel:::recvResult
receive_one <- parallel:::recvOneResult

test_cluster("two calls sent to one node before any is read are answered in their order", {
  cl <- local_cluster()
  for (i in 1:20) {
    send(cl[[1L]], function(i) i, list(i))
    send(cl[[1L]], function(i) -i, list(i))
    expect_identical(receive(cl[[1L]]), i)
    expect_identical(receive(cl[[1L]]), -i)
  }
})

test_cluster("a cluster is written in the same bytes whatever it is doing", {
  # future 1.31 knows a cluster by its digest.
  local_settings(muster.quiet = TRUE)
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(stock))
  for (cl in list(local_cluster(1), stock)) {
    bytes <- serialize(cl, NULL)
    expect_equal(cl, cl)
    expect_equal(unserialize(bytes), unserialize(bytes))
    verb <- function(data) {
      send(cl[[1L]], identity, list(1))
      expect_identical(serialize(cl, NULL), bytes)
    }
    verb(sqrt(1:1e5))
    expect_identical(serialize(cl, NULL), bytes)
    expect_identical(receive(cl[[1L]]), 1)
    there <- clusterCall(cl, function(cl) length(serialize(cl, NULL)), cl)[[1L]]
    expect_lt(there, 1e4)
    expect_identical(serialize(cl, NULL), bytes)
    if (!inherits(cl[[1L]], "muster_node")) next # which heals
    pid <- cl[[1L]]$pid
    tools::pskill(pid, 9L)
    expect_true(clusterCall(cl, Sys.getpid)[[1L]] != pid)
    expect_true(cl[[1L]]$pid != pid)
    expect_identical(serialize(cl, NULL), bytes)
    last <- cl[[1L]]$pid
    expect_identical(unserialize(bytes)[[1L]]$pid, pid)
    cluster_stop(cl)
    expect_identical(cl[[1L]]$pid, last)
  }
})

test_cluster("a node's connection is readable when its answer is there, as future asks", {
  before <- nrow(showConnections())
  readable <- function(node) socketSelect(list(node$con), FALSE, 0)
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  ours <- local_cluster(1)
  for (cl in list(ours, stock)) {
    node <- cl[[1L]]
    expect_false(readable(node))
    gate <- file.path(local_folder(), "gate")
    send(node, function(gate) while (!file.exists(gate)) NULL, list(gate))
    send(node, Sys.getpid, list())
    expect_false(readable(node))
    file.create(gate)
    wait_until(readable(node))
    expect_null(receive(node))
    wait_until(readable(node))
    expect_identical(receive(node), node$pid)
    expect_false(readable(node))
  }
  # What the user closes is opened again, and workers have none.
  expect_identical(nrow(showConnections()), before + 2L)
  close(ours[[1L]]$con)
  expect_false(readable(ours[[1L]]))
  send(ours[[1L]], identity, list(1))
  expect_false(readable(stock[[1L]]))
  wait_until(readable(ours[[1L]]))
  receive(ours[[1L]])
  expect_identical(clusterCall(ours[1], function(cl) cl[[1L]]$con, ours), list(NULL))
  stopCluster(stock)
  cluster_stop(ours)
  expect_identical(nrow(showConnections()), before)
})

test_cluster("a file that gets the number of a node's connection is never touched", {
  cl <- local_cluster(1)
  number <- as.integer(cl[[1L]]$con)
  close(cl[[1L]]$con)
  path <- file.path(local_folder(), "log.txt")
  log <- file(path, "w")
  defer(function() close(log))
  expect_identical(as.integer(log), number)
  writeLines("first", log)
  expect_true(inherits(cl[[1L]]$con, "connection"))
  writeLines("second", log)
  cluster_stop(cl)
  # A connection that is made later would be closed by nobody.
  before <- showConnections()
  expect_null(cl[[1L]]$con)
  expect_identical(showConnections(), before)
  writeLines("third", log)
  flush(log)
  expect_identical(readLines(path), c("first", "second", "third"))
})

test_cluster("many calls can wait at both nodes, large ones among them, and none is lost", {
  cl <- local_cluster()
  sizes <- c(0, 1, 1e5, 10, 3e5, 1, 1e4, 0, 2e5, 7)
  for (size in sizes) {
    for (node in cl) send(node, function(x) list(length(x), Sys.getpid()), list(raw(size)))
  }
  for (k in 2:1) {
    answers <- lapply(sizes, function(size) receive(cl[[k]]))
    expect_identical(vapply(answers, `[[`, 0L, 1L), as.integer(sizes))
    expect_identical(unique(vapply(answers, `[[`, 0L, 2L)), cl[[k]]$pid)
  }
})

test_cluster("errors keep their place in the queue", {
  cl <- local_cluster(1)
  node <- cl[[1L]]
  send(node, function() 1, list())
  send(node, function() stop("in between"), list())
  send(node, function() 3, list())
  expect_identical(receive(node), 1)
  expect_s3_class(receive(node), "try-error")
  expect_identical(receive(node), 3)
})

test_cluster("tags come back with their answers, whatever they are", {
  cl <- local_cluster(1)
  for (tag in list(NULL, 1L, "a", list(x = 1), quote(y), NA, cl[[1L]]$pid)) {
    send(cl[[1L]], function() "value", list(), tag = tag)
    answer <- parallel:::recvData(cl[[1L]])
    expect_identical(answer$tag, tag)
    expect_identical(answer$value, "value")
    send(cl[[1L]], function() stop("no"), list(), tag = tag)
    one <- receive_one(cl)
    expect_identical(one$tag, tag)
    expect_identical(one$node, 1L)
  }
})

test_cluster("an answer has the form that parallel's functions know", {
  shape <- function(cl) {
    lapply(list(function() 1, function() stop("no")), function(f) {
      send(cl[[1L]], f, list(), tag = 7L)
      answer <- parallel:::recvData(cl[[1L]])
      answer$time[] <- 0
      send(cl[[1L]], f, list(), tag = 7L)
      one <- parallel:::recvOneData(cl)
      one$value$time[] <- 0
      list(answer, one)
    })
  }
  expect_as_psock(list(shape = shape))
})

test_cluster("the time of an answer is what its call took", {
  cl <- local_cluster(1)
  send(cl[[1L]], function() {
    end <- proc.time()[["elapsed"]] + 0.3
    while (proc.time()[["elapsed"]] < end) sqrt(1:1000)
  }, list())
  time <- parallel:::recvData(cl[[1L]])$time
  expect_s3_class(time, "proc_time")
  expect_identical(names(time), names(proc.time()))
  expect_gt(time[["elapsed"]], 0.25)
  expect_gt(time[["user.self"]] + time[["sys.self"]], 0)
})

test_cluster("a node with many answers doesn't keep the other's from being seen", {
  cl <- local_cluster()
  for (i in 1:30) for (k in 1:2) send(cl[[k]], function() 1, list(), tag = c(k, i))
  # All answers are there when the first is taken.
  seen <- lapply(1:60, function(j) receive_one(cl)$tag)
  nodes <- vapply(seen, `[`, 0, 1L)
  for (k in 1:2) {
    expect_identical(vapply(seen[nodes == k], `[`, 0, 2L), as.numeric(1:30))
  }
  expect_length(setdiff(1:2, nodes[1:40]), 0L)
})

test_cluster("answers that wait at both nodes are taken in turn", {
  cl <- local_cluster()
  flags <- file.path(local_folder(), c("one", "two"))
  for (k in 1:2) {
    for (i in 1:10) send(cl[[k]], function() 1, list(), tag = k)
    send(cl[[k]], file.create, list(flags[k]), tag = k)
  }
  wait_until(all(file.exists(flags)))
  nodes <- vapply(1:22, function(i) receive_one(cl)$node, 0L)
  # Neither waits for more than a few of the other's.
  expect_lte(max(rle(nodes[1:18])$lengths), 4L)
})

test_cluster("answers that were read already don't keep others' from being looked for", {
  cl <- local_cluster()
  flag <- file.path(local_folder(), "flag")
  answer <- function(k) {
    unlink(flag)
    for (i in 1:10) send(cl[[k]], function() 1, list(), tag = k)
    send(cl[[k]], file.create, list(flag), tag = k)
    wait_until(file.exists(flag))
  }
  answer(1L)
  expect_true(isNodeAlive(cl[[1L]])) # which reads the answers, too
  answer(2L)
  nodes <- vapply(1:22, function(i) receive_one(cl)$node, 0L)
  expect_lte(max(rle(nodes[1:18])$lengths), 4L)
})

test_cluster("the answer that is there first is taken first, and fast nodes get more work", {
  cl <- local_cluster()
  flags <- file.path(local_folder(), c("one", "two"))
  wait_for <- function(flag) {
    end <- proc.time()[["elapsed"]] + 300
    while (!file.exists(flag) && proc.time()[["elapsed"]] < end) {
      Sys.sleep(0.01) # tidy: a worker waits, not the test
    }
  }
  send(cl[[1L]], wait_for, list(flags[1L]))
  send(cl[[2L]], function() "quick", list())
  one <- receive_one(cl)
  expect_identical(one$node, 2L)
  expect_identical(one$value, "quick")
  file.create(flags[1L])
  expect_identical(receive_one(cl)$node, 1L)
  # The first is busy until the other has done all the rest.
  pids <- clusterApplyLB(cl, 1:20, function(i, flag, wait_for) {
    if (i == 1) wait_for(flag)
    if (i == 20) file.create(flag)
    Sys.getpid()
  }, flags[2L], wait_for)
  expect_identical(unlist(pids), rep(node_pids(cl), c(1L, 19L)))
})

test_cluster("only the nodes asked are read", {
  cl <- local_cluster()
  send(cl[[1L]], function() "first", list())
  send(cl[[2L]], function() "second", list())
  expect_identical(receive_one(cl[2])$value, "second")
  expect_identical(receive_one(cl[1])$value, "first")
})

test_cluster("8 MB can go and come at both nodes at once without a deadlock", {
  cl <- local_cluster()
  x <- as.numeric(1:1e6)
  expect_identical(clusterCall(cl, function(x) -x, x), list(-x, -x))
  # Each node has two of them in its way before the first answer is read.
  for (i in 1:2) for (node in cl) send(node, function(x, i) x + i, list(x, i))
  for (i in 1:2) for (node in cl) expect_identical(receive(node), x + i)
  expect_identical(clusterApplyLB(cl, 1:6, function(i, x) x * i, x), lapply(1:6, function(i) x * i))
})

test_cluster("messages of every size near the limits of buffers arrive whole", {
  skip_on_cran()
  cl <- local_cluster(1)
  sizes <- unique(c(0:3, 2^(10:21) + rep(-300:300, each = 12)[seq_len(48) * 149], 2^16 + -80:80))
  for (size in sizes) {
    x <- as.raw(seq_len(size) %% 251)
    expect_identical(clusterCall(cl, rev, x)[[1L]], rev(x), info = size)
  }
})

# ---- one serialization for all nodes

test_cluster("a large object sent to all nodes by one call arrives at each", {
  cl <- local_cluster()
  x <- as.numeric(seq_len(131072))
  for (i in 1:5) {
    x[1L] <- i
    expect_identical(clusterCall(cl, function(x) c(x[1L], sum(x)), x), rep(list(c(i, sum(x))), 2))
  }
  clusterExport(cl, "x", environment())
  expect_identical(clusterEvalQ(cl, x), list(x, x))
  # The same object, another function, and other arguments beside it.
  expect_identical(clusterCall(cl, length, x), list(131072L, 131072L))
  expect_identical(clusterCall(cl, function(x, y) y, x, 1), list(1, 1))
  expect_identical(clusterCall(cl, function(x, y) y, x, 2), list(2, 2))
  expect_identical(clusterCall(cl, function(x, y) y, y = x, 2), list(x, x))
  expect_identical(clusterCall(cl, function(x, y) y, x = x, 2), list(2, 2))
})

test_cluster("an environment changed between two calls is seen as it is at each", {
  cl <- local_cluster()
  e <- new.env()
  e$big <- raw(1e6)
  look <- function(e) list(e$value, length(e$big), e$big[1L])
  for (i in 1:4) {
    e$value <- i
    e$big[1L] <- as.raw(i)
    expect_identical(clusterCall(cl, look, e), rep(list(list(i, 1000000L, as.raw(i))), 2))
  }
})

test_cluster("a closure whose variables change between two calls is seen as it is at each", {
  cl <- local_cluster()
  state <- 0
  ballast <- raw(1e6)
  f <- function() c(state, length(ballast))
  for (i in 1:4) {
    state <- i
    expect_identical(clusterCall(cl, f), rep(list(c(i, 1000000L)), 2))
  }
})

test_cluster("a value that changes while one call serializes it arrives at some state of it", {
  # An active binding is evaluated as the environment is serialized: whether all nodes
  # see the same is not promised, that they get a whole value is.
  cl <- local_cluster()
  e <- new.env()
  e$big <- raw(1e6)
  count <- 0
  makeActiveBinding("counter", function() count <<- count + 1, e)
  seen <- unlist(clusterCall(cl, function(e) e$counter, e))
  expect_true(all(seen %in% 1:10))
})

test_cluster("large arguments that differ from node to node aren't mixed up", {
  cl <- local_cluster()
  big <- lapply(1:6, function(i) as.raw(rep(i, 2e5)))
  first <- function(x) as.integer(x[1L])
  expect_identical(clusterApply(cl, big, first), as.list(1:6))
  expect_identical(clusterApplyLB(cl, big, first), as.list(1:6))
  expect_identical(parLapply(cl, big, first), as.list(1:6))
  same <- big[c(1, 1, 2, 2, 1, 1)]
  expect_identical(clusterApply(cl, same, first), as.list(c(1L, 1L, 2L, 2L, 1L, 1L)))
  expect_identical(clusterMap(cl, function(x, i) c(first(x), i), same, 1:6),
    Map(function(x, i) c(first(x), i), same, 1:6))
})

test_cluster("a large call to a part of the cluster is followed by one to all", {
  cl <- local_cluster()
  x <- raw(1e6)
  expect_identical(clusterCall(cl[2], length, x), list(1000000L))
  expect_identical(clusterCall(cl, length, x), list(1000000L, 1000000L))
  expect_error(clusterCall(cl, function(x) stop("no"), x), "2 nodes produced errors")
  expect_identical(clusterCall(cl, length, x), list(1000000L, 1000000L))
})

test_cluster("memory of large messages is given back", {
  skip_on_cran()
  skip_without_proc()
  skip_if(nzchar(Sys.getenv("MUSTER_TEST_SANITIZERS")), "sanitizers keep what was freed")
  resident <- function() {
    line <- grep("^VmRSS:", readLines("/proc/self/status"), value = TRUE)
    as.numeric(gsub("[^0-9]", "", line)) / 1024
  }
  cl <- local_cluster()
  x <- raw(3e7)
  clusterCall(cl, identity, x)
  gc()
  before <- resident()
  for (i in 1:8) clusterCall(cl, identity, x)
  gc()
  expect_lt(resident() - before, 150)
})
