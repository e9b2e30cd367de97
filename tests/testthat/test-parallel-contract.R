# Every verb of parallel on a muster cluster: answers equal to sequential ones, and to
# those of a cluster of makeCluster().

test_cluster("the static verbs answer as sequential code does", {
  plus <- function(x, y) x + y
  expect_answers(list(
    call = list(list(3, 3), function(cl) clusterCall(cl, plus, 1, 2)),
    call_named = list(list(1, 1), function(cl) clusterCall(cl, function(a, b) b - a, b = 2, a = 1)),
    call_none = list(list("x", "x"), function(cl) clusterCall(cl, function() "x")),
    eval = list(list(2, 2), function(cl) clusterEvalQ(cl, 1 + 1)),
    eval_block = list(list(7, 7), function(cl) {
      clusterEvalQ(cl, {
        a <- 3
        a + 4
      })
    }),
    apply = list(lapply(1:5, plus, 10), function(cl) clusterApply(cl, 1:5, plus, 10)),
    apply_one = list(list(1L), function(cl) clusterApply(cl, 1L, identity)),
    apply_names = list(
      list("a", "b"), function(cl) clusterApply(cl, c(x = "a", y = "b"), identity)
    ),
    # parallel's verbs give NULL for no elements, lapply() gives list().
    apply_none = list(NULL, function(cl) clusterApply(cl, list(), identity)),
    split = list(list(1:2, 3:5), function(cl) clusterSplit(cl, 1:5)),
    split_indices = list(list(1:4, 5:7), function(cl) parallel::splitIndices(7, length(cl))),
    lapply = list(
      lapply(c(a = 1, b = 2, c = 3), plus, 1),
      function(cl) parLapply(cl, c(a = 1, b = 2, c = 3), plus, 1)
    ),
    lapply_one = list(list(2), function(cl) parLapply(cl, 1, plus, 1)),
    lapply_none = list(list(), function(cl) parLapply(cl, list(), plus, 1)),
    lapply_chunks = list(
      lapply(1:10, sqrt), function(cl) parLapply(cl, 1:10, sqrt, chunk.size = 3)
    ),
    lapply_frame = list(lapply(iris, class), function(cl) parLapply(cl, iris, class)),
    sapply = list(sapply(1:4, plus, 10), function(cl) parSapply(cl, 1:4, plus, 10)),
    sapply_names = list(sapply(letters, toupper), function(cl) parSapply(cl, letters, toupper)),
    sapply_plain = list(
      sapply(letters, toupper, USE.NAMES = FALSE),
      function(cl) parSapply(cl, letters, toupper, USE.NAMES = FALSE)
    ),
    sapply_list = list(
      sapply(1:3, seq_len), function(cl) parSapply(cl, 1:3, seq_len)
    ),
    sapply_matrix = list(sapply(1:3, rep, 2), function(cl) parSapply(cl, 1:3, rep, 2)),
    sapply_raw = list(
      sapply(1:3, rep, 2, simplify = FALSE),
      function(cl) parSapply(cl, 1:3, rep, 2, simplify = FALSE)
    )
  ))
})

test_cluster("the verbs for matrices answer as sequential code does", {
  m <- matrix(c(1:11, NA), 3, dimnames = list(letters[1:3], NULL))
  a <- array(1:24, c(2, 3, 4))
  expect_answers(list(
    rows = list(apply(m, 1, sum), function(cl) parApply(cl, m, 1, sum)),
    columns = list(
      apply(m, 2, sum, na.rm = TRUE), function(cl) parApply(cl, m, 2, sum, na.rm = TRUE)
    ),
    cells = list(apply(m, 1:2, sqrt), function(cl) parApply(cl, m, 1:2, sqrt)),
    range = list(apply(m, 1, range), function(cl) parApply(cl, m, 1, range)),
    ragged = list(
      apply(m, 1, function(x) x[x > 5]), function(cl) parApply(cl, m, 1, function(x) x[x > 5])
    ),
    array = list(apply(a, c(1, 3), sum), function(cl) parApply(cl, a, c(1, 3), sum)),
    row = list(
      unlist(lapply(1:3, function(i) sum(m[i, ]))), function(cl) unname(parRapply(cl, m, sum))
    ),
    column = list(
      unlist(lapply(1:4, function(i) max(m[, i]))), function(cl) unname(parCapply(cl, m, max))
    )
  ))
})

test_cluster("the load-balancing verbs answer in the order of their input", {
  expect_answers(list(
    apply = list(lapply(1:20, sqrt), function(cl) clusterApplyLB(cl, 1:20, sqrt)),
    apply_few = list(list(1), function(cl) clusterApplyLB(cl, 1, sqrt)),
    apply_none = list(NULL, function(cl) clusterApplyLB(cl, list(), sqrt)),
    # NULL is a value, not a gap.
    apply_null = list(
      list(NULL, 2L, NULL),
      function(cl) clusterApplyLB(cl, 1:3, function(i) if (i == 2L) i)
    ),
    apply_slow = list(as.list(1:8), function(cl) {
      clusterApplyLB(cl, 1:8, function(i) {
        if (i %% 3 == 0) Sys.sleep(0.05)
        i
      })
    }),
    lapply = list(lapply(1:20, sqrt), function(cl) parLapplyLB(cl, 1:20, sqrt)),
    lapply_chunks = list(
      lapply(1:20, sqrt), function(cl) parLapplyLB(cl, 1:20, sqrt, chunk.size = 3)
    ),
    sapply = list(sapply(letters, toupper), function(cl) parSapplyLB(cl, letters, toupper)),
    sapply_chunks = list(
      sapply(1:9, rep, 2), function(cl) parSapplyLB(cl, 1:9, rep, 2, chunk.size = 1)
    )
  ))
})

test_cluster("clusterMap() answers as mapply() does, static and dynamic", {
  f <- function(x, y, z = 0) paste(x, y, z)
  x <- c(a = 1, b = 2, c = 3)
  cases <- list(
    plain = list(
      mapply(f, x, 4:6, SIMPLIFY = FALSE),
      function(cl, how) clusterMap(cl, f, x, 4:6, .scheduling = how)
    ),
    more = list(
      mapply(f, x, 1:3, MoreArgs = list(z = "z"), SIMPLIFY = FALSE),
      function(cl, how) clusterMap(cl, f, x, 1:3, MoreArgs = list(z = "z"), .scheduling = how)
    ),
    recycle = list(
      mapply(f, 1:4, 1:2, SIMPLIFY = FALSE),
      function(cl, how) clusterMap(cl, f, 1:4, 1:2, .scheduling = how)
    ),
    simple = list(
      mapply(rep, 1:3, 2), function(cl, how) {
        clusterMap(cl, rep, 1:3, 2, SIMPLIFY = TRUE, .scheduling = how)
      }
    ),
    names = list(
      mapply(nchar, c("a", "bb"), SIMPLIFY = FALSE),
      function(cl, how) clusterMap(cl, nchar, c("a", "bb"), .scheduling = how)
    ),
    # mapply() gives list().
    none = list(NULL, function(cl, how) clusterMap(cl, f, list(), list(), .scheduling = how))
  )
  for (how in c("static", "dynamic")) {
    expect_answers(lapply(cases, function(case) {
      list(case[[1L]], function(cl) case[[2L]](cl, how))
    }))
  }
})

test_cluster("values are exported from the global environment and from others", {
  local_globals()
  assign("muster_exported", "global", envir = globalenv())
  here <- "local"
  there <- list2env(list(one = 1, `an odd name` = 2, .hidden = 3))
  expect_answers(list(
    global = list(list("global", "global"), function(cl) {
      clusterExport(cl, "muster_exported")
      clusterEvalQ(cl, muster_exported)
    }),
    caller = list(list("local", "local"), function(cl) {
      clusterExport(cl, "here", environment())
      clusterEvalQ(cl, get("here", globalenv(), inherits = FALSE))
    }),
    several = list(rep(list(list(1, 2, 3)), 2), function(cl) {
      clusterExport(cl, ls(there, all.names = TRUE), there)
      clusterCall(cl, function() list(one, `an odd name`, .hidden))
    }),
    functions = list(list(6, 6), function(cl) {
      times <- function(x) x * factor
      factor <- 3
      clusterExport(cl, c("times", "factor"), environment())
      clusterEvalQ(cl, times(2))
    }),
    missing = list(
      "error: object 'muster_nowhere' not found",
      function(cl) clusterExport(cl, "muster_nowhere", new.env())
    )
  ))
})

test_cluster("random streams are reproducible and those of makeCluster()", {
  local_seed(3)
  draw <- function(cl, seed) {
    clusterSetRNGStream(cl, seed)
    list(
      clusterCall(cl, RNGkind),
      parSapply(cl, 1:6, function(i) stats::rnorm(1)),
      clusterCall(cl, sample, 1000, 3),
      clusterEvalQ(cl, .Random.seed)
    )
  }
  answers <- expect_as_psock(list(
    fixed = function(cl) draw(cl, 123),
    again = function(cl) draw(cl, 123),
    other = function(cl) draw(cl, 1),
    session = function(cl) {
      set.seed(5, "L'Ecuyer-CMRG")
      draw(cl, NULL)
    }
  ))
  expect_identical(answers$again, answers$fixed)
  expect_false(identical(answers$other[[2L]], answers$fixed[[2L]]))
  # The first worker has the session's stream of this seed, the second the next.
  RNGkind("L'Ecuyer-CMRG")
  set.seed(123)
  first <- stats::rnorm(3)
  set.seed(123)
  assign(".Random.seed", parallel::nextRNGStream(session_seed()), envir = globalenv())
  expect_identical(answers$fixed[[2L]], c(first, stats::rnorm(3)))
})

# ---- the cluster as an object

test_cluster("subsets keep class, identity and order of their nodes", {
  cl <- local_cluster()
  pids <- node_pids(cl)
  for (which in list(1, 2, 2:1, c(TRUE, FALSE), -1, c(1, 2), integer())) {
    part <- cl[which]
    # See parallel-methods.R for one without workers.
    if (length(part)) expect_identical(class(part), class(cl))
    expect_setequal(class(part), class(cl))
    expect_identical(node_pids(part), pids[which])
    if (length(part)) expect_identical(unlist(clusterCall(part, Sys.getpid)), pids[which])
  }
  expect_length(cl, 2L)
  expect_identical(node_pids(rev(cl)), rev(pids))
  expect_s3_class(cl[[1L]], "muster_node")
  for (i in 1:10) clusterApplyLB(cl[2:1], 1:5, function(i) if (i == 2) Sys.sleep(0.01))
  expect_identical(unlist(clusterCall(cl, Sys.getpid)), pids)
})

test_cluster("answers of a reversed cluster belong to the right nodes", {
  cl <- local_cluster()
  clusterApply(cl, 1:2, function(i) assign("me", i, envir = globalenv()))
  expect_identical(clusterEvalQ(cl[2:1], me), list(2L, 1L))
  parallel:::sendCall(cl[[2L]], function() me, list(), tag = "second")
  one <- parallel:::recvOneResult(cl[2:1])
  expect_identical(one[c("node", "value", "tag")], list(node = 1L, value = 2L, tag = "second"))
  parallel:::sendCall(cl[[2L]], function() me, list(), tag = "second")
  expect_identical(parallel:::recvOneResult(cl)$node, 2L)
})

test_cluster("clusters are joined by c(), also those of two starts", {
  one <- local_cluster(1)
  two <- local_cluster(1)
  both <- c(one, two)
  expect_identical(class(both), class(one))
  pids <- c(node_pids(one), node_pids(two))
  expect_identical(unlist(clusterCall(both, Sys.getpid)), pids)
  expect_identical(parLapply(both, 1:5, sqrt), lapply(1:5, sqrt))
  expect_identical(clusterApplyLB(both, 1:9, sqrt), lapply(1:9, sqrt))
  expect_identical(node_pids(c(both[2], both[1])), rev(pids))
  expect_identical(node_pids(c(one)), pids[1L])
  expect_identical(node_pids(c(one, two[[1L]])), pids)
  for (other in list(1, list(one[[1L]]), "node")) {
    expect_error(c(one, other), class = "muster_error_input")
  }
})

test_cluster("clusters and nodes print in one line and return themselves", {
  cl <- local_cluster()
  expect_output(expect_invisible(expect_identical(print(cl), cl)), "^muster cluster with 2 workers")
  expect_output(print(cl[1]), "1 of 2 workers (1) on host 'localhost'", fixed = TRUE)
  expect_output(print(cl[[2L]]), paste0("^muster worker 2 on host 'localhost', pid ", cl[[2L]]$pid))
  expect_match(format(cl), "booted|forked")
  expect_length(utils::capture.output(print(cl)), 1L)
})

test_cluster("a default cluster serves verbs that are given none", {
  cl <- local_cluster()
  defer(function() setDefaultCluster(NULL))
  setDefaultCluster(cl)
  expect_identical(parallel::getDefaultCluster(), cl)
  expect_identical(clusterCall(fun = Sys.getpid), as.list(node_pids(cl)))
  expect_identical(clusterEvalQ(expr = 1 + 1), list(2, 2))
  expect_identical(parLapply(X = 1:3, fun = sqrt), lapply(1:3, sqrt))
  expect_identical(parSapply(NULL, 1:3, sqrt), sqrt(1:3))
  expect_identical(clusterApplyLB(x = 1:3, fun = sqrt), lapply(1:3, sqrt))
})
