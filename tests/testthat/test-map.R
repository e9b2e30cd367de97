# It sets options when it is loaded, which isn't a test's to leave behind.
invisible(requireNamespace("data.table", quietly = TRUE))

test_cluster("the answer is that of lapply(), for many kinds of x", {
  cl <- local_cluster(2)
  cases <- list(
    1:100, c(a = 1, b = 2), letters, list(1, "a", NULL, list(2)), c(TRUE, NA), 1i * 1:3,
    as.raw(1:5), integer(), list(), factor(c("x", "y")), as.Date("2026-01-01") + 0:2,
    data.frame(a = 1:2, b = 3:4), quote(f(x, y))[-1L], expression(a, b)
  )
  for (x in cases) {
    expect_identical(cluster_map(cl, x, function(e) list(e)), lapply(x, function(e) list(e)))
  }
  expect_identical(cluster_map(cl, 1:3, function(i) NULL), lapply(1:3, function(i) NULL))
  expect_identical(cluster_map(cl, 1:40, function(i) i / 2), lapply(1:40, function(i) i / 2))
  one <- function(i) matrix(i)
  expect_identical(cluster_map(cl, 1:40, one), lapply(1:40, one))
  expect_identical(cluster_map(cl, 4:9, "sqrt"), lapply(4:9, sqrt))
  expect_identical(cluster_map(cl, 1:3, function(x, y) x + y, y = 10), lapply(1:3, `+`, 10))
  expect_identical(cluster_map(cl, 1:3, function(x, e) e, quote(a + b))[[3L]], quote(a + b))
})

test_cluster("the answer is that of lapply(), for each kind of x and of value", {
  local_globals()
  methods::setClass("BoxOfTest", methods::representation(v = "numeric"), where = globalenv())
  defer(function() methods::removeClass("BoxOfTest", globalenv()))
  cl <- local_cluster(2)
  xs <- list(
    1:30, seq(0.5, 15, 0.5), stats::setNames(1:26, letters), c("a", NA, "\u00e9"), list(), NULL,
    as.POSIXct("2026-01-01", tz = "UTC") + 0:3, as.difftime(1:3, units = "hours"),
    factor(c("x", "y", NA)), data.frame(a = 1:3, b = letters[1:3]), matrix(1:6, 2L),
    table(c("u", "v", "u")), list(a = NULL, b = list(1, "z")), 2^31 + 0:2, pairlist(p = 1, q = 2),
    list(methods::new("BoxOfTest", v = 1)), new.env(), c(NaN, -0, Inf), as.raw(0:3), 1i^(1:4)
  )
  funs <- list(
    identity, function(e) NULL, function(e) list(e, NULL), is.null, function(e) c(n = 1),
    function(e) if (length(e) > 0L) e, function(e) structure(1, class = "of_test"),
    function(e) data.frame(v = 1L), function(e) factor("k"), function(e) Sys.Date() - Sys.Date(),
    function(e) quote(a + b), function(e) NA, function(e) 1L, function(e) "text"
  )
  for (x in xs) {
    for (fun in funs) {
      expect_identical(cluster_map(cl, x, fun), lapply(x, fun))
    }
  }
  # Closures keep their own element, as lapply()'s do.
  kept <- cluster_map(cl, 1:300, function(i) function() i)
  expect_identical(lapply(kept, function(f) f()), as.list(1:300))
  # Like Map() with further arguments, and like purrr's map over rows.
  expect_identical(
    cluster_map(cl, 1:3, function(i, a, b) a[i] * b[i], a = 4:6, b = 7:9),
    Map(function(a, b) a * b, 4:6, 7:9)
  )
})

test_cluster("random numbers of elements, work and errors come out as from lapply()", {
  cl <- local_cluster(2)
  seed <- getOption("muster.test_seed", as.integer(Sys.time()) %% 100000L)
  local_seed(seed)
  for (round in 1:15) {
    n <- sample(c(0, 1, 2, 3, 10, 100, 3000), 1L)
    bad <- if (n > 0 && runif(1) < 0.4) sample.int(n, 1L) else 0L
    slow <- sample.int(n + 1L, 1L)
    f <- function(i, bad, slow) {
      if (i == bad) stop("bad")
      if (i == slow) Sys.sleep(0.02) # tidy: the worker's work
      if (i %% 3 == 0) NULL else c(i, i^2)
    }
    environment(f) <- globalenv()
    nodes <- if (runif(1) < 0.3) cl[sample(2L, 1L)] else cl
    random <- if (runif(1) < 0.3) 5 else FALSE
    got <- cluster_map(nodes, seq_len(n), f, bad, slow,
      .on_error = "return", .seed = random, .speculate = runif(1) < 0.5,
      .retries = if (runif(1) < 0.5) sample(0:3, 1L), .timeout = if (runif(1) < 0.3) 60
    )
    info <- paste("options(muster.test_seed =", seed, "), round", round)
    if (bad > 0L) {
      expect_identical(conditionMessage(got[[bad]]$condition), "bad", info = info)
      got[bad] <- list(f(bad, 0L, 0L))
    }
    expect_identical(got, lapply(seq_len(n), f, 0L, 0L), info = info)
  }
})

test_cluster("what the function uses of the global environment goes along", {
  local_globals()
  assign("k_of_test", 5, globalenv())
  assign("g_of_test", eval(quote(function(y) y + k_of_test), globalenv()), globalenv())
  cl <- local_cluster(2)
  f <- eval(quote(function(x) g_of_test(x) * 2), globalenv())
  expect_identical(unlist(cluster_map(cl, 1:3, f)), c(12, 14, 16))
  closure <- eval(quote(local({
    z <- 100
    function(x) g_of_test(x) + z
  })), globalenv())
  expect_identical(unlist(cluster_map(cl, 1:3, closure)), c(106, 107, 108))
  expect_identical(clusterEvalQ(cl, exists("k_of_test")), list(FALSE, FALSE))
  local_settings(muster.globals_max = 100)
  expect_error(cluster_map(cl, 1:3, f), class = "muster_error_limit")
})

test_cluster("each element has its own random numbers, whatever the pieces and losses", {
  local_seed(1)
  cl <- local_cluster(2)
  draw <- function(i) rnorm(1)
  all <- cluster_map(cl, 1:30, draw, .seed = 7)
  expect_identical(cluster_map(cl[1L], 1:30, draw, .seed = 7), all)
  file <- tempfile()
  defer(function() unlink(file))
  killed <- suppressMessages(cluster_map(cl, 1:30, function(i, file) {
    if (i == 20 && !file.exists(file)) {
      file.create(file)
      tools::pskill(Sys.getpid(), 9L)
    }
    rnorm(1)
  }, file, .seed = 7))
  expect_identical(killed, all)
  seed <- session_seed()
  cluster_map(cl, 1:3, draw, .seed = 3)
  expect_identical(session_seed(), seed)
  expect_false(anyDuplicated(unlist(all)) > 0L)
})

test_cluster("an element's error says which it was, and has the other results", {
  cl <- local_cluster(2)
  folder <- local_folder()
  f <- function(i, folder) {
    if (i == 6) file.create(file.path(folder, "6"))
    if (i != 7) return(i)
    # The other worker may have element 6; its answer is to be there.
    while (!file.exists(file.path(folder, "6"))) Sys.sleep(0.01) # tidy: the worker's work
    Sys.sleep(1) # tidy: it is on its way
    stop("bad element")
  }
  condition <- tryCatch(cluster_map(cl, 1:10, f, folder), muster_error_remote = identity)
  expect_s3_class(condition, "muster_error_remote")
  expect_identical(condition$element, 7L)
  expect_match(conditionMessage(condition), "Element 7 raised an error: bad element")
  expect_length(condition$results, 10L)
  expect_identical(condition$results[[6L]], 6L)
  got <- cluster_map(cl, 1:10, f, folder, .on_error = "return")
  expect_s3_class(got[[7L]], "muster_error_remote")
  expect_s3_class(got[[7L]]$condition, "simpleError")
  expect_identical(unlist(got[-7L]), (1:10)[-7L])
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
})

test_cluster("an element that kills its worker is named, and the others are there", {
  cl <- local_cluster(2, retries = 0)
  condition <- tryCatch(
    suppressMessages(cluster_map(cl, 1:4, function(i) {
      if (i == 3) tools::pskill(Sys.getpid(), 9L)
      i
    })),
    muster_error_lost = identity
  )
  expect_s3_class(condition, "muster_error_lost")
  expect_identical(condition$element, 3L)
  expect_identical(condition$signal, 9L)
  expect_match(conditionMessage(condition), "^Element 3 was lost with its worker once")
  expect_identical(unlist(cluster_map(cl, 1:4, identity)), 1:4)
})

test_cluster("an interrupt ends what the map had under way", {
  cl <- local_cluster(2)
  left <- tryCatch(
    {
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      cluster_map(cl, 1:4, function(i) Sys.sleep(60))
    },
    error = function(e) "left",
    finally = setTimeLimit()
  )
  expect_identical(left, "left")
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
})

# ---- what is sent once

jobs_at <- function(cl) unlist(clusterCall(cl, function() ls(muster:::the_worker$jobs)))

test_cluster("the function and its globals are sent once, also for the next map", {
  local_settings(muster.checkpoints = FALSE)
  local_globals()
  local_seed(1)
  assign("k_of_test", runif(1000), globalenv())
  cl <- local_cluster(1)
  f <- eval(quote(function(i) k_of_test[i]), globalenv())
  for (k in 1:3) {
    expect_identical(cluster_map(cl, 1:50, f), as.list(get("k_of_test", globalenv())[1:50]))
  }
  expect_identical(jobs_at(cl), c("1", "2")) # and what the session is, see task-context.R
  for (k in 1:20) cluster_map(cl, 1:2, function(i, k) i + k, k)
  expect_lte(length(jobs_at(cl)), 10L)
  expect_identical(cluster_map(cl, 1:2, f), as.list(get("k_of_test", globalenv())[1:2]))
  expect_identical(nrow(cluster_journal(cl)), 2L) # what jobs_at() asked
})

test_cluster("a replaced worker is sent again what it needs", {
  local_globals()
  assign("k_of_test", 7, globalenv())
  cl <- local_cluster(1)
  f <- eval(quote(function(i) k_of_test * i), globalenv())
  expect_identical(unlist(cluster_map(cl, 1:3, f)), c(7, 14, 21))
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(suppressMessages(unlist(cluster_map(cl, 1:3, f))), c(7, 14, 21))
})

test_cluster("a piece that changed its worker is replayed with what it needs", {
  local_settings(muster.checkpoints = FALSE)
  cl <- local_cluster(1)
  cluster_map(cl, 1, function(i, value) {
    assign("left_by_map", value, globalenv()) # tidy: in the worker
    NULL
  }, 11)
  for (k in 1:12) cluster_map(cl, 1:2, function(i, k) k, k)
  expect_identical(nrow(cluster_journal(cl)), 1L)
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(suppressMessages(clusterEvalQ(cl, left_by_map)), list(11))
})

test_cluster("no piece sees what another has changed", {
  local_globals()
  assign("count_of_test", 0, globalenv())
  assign("env_of_test", new.env(), globalenv())
  eval(quote(env_of_test$n <- 0), globalenv())
  cl <- local_cluster(1)
  by_global <- eval(quote(function(i) count_of_test <<- count_of_test + 1), globalenv())
  by_env <- eval(quote(function(i) env_of_test$n <- env_of_test$n + 1), globalenv())
  by_closure <- eval(quote(local({
    n <- 0
    function(i) n <<- n + 1
  })), globalenv())
  for (f in list(by_global, by_env, by_closure)) {
    for (k in 1:2) expect_identical(unlist(cluster_map(cl, 1, f)), 1)
  }
  expect_identical(get("count_of_test", globalenv()), 0)
  expect_identical(clusterEvalQ(cl, ls()), list(character()))
})

# ---- globals

test_cluster("globals are found wherever functions are, and what was there comes back", {
  local_globals()
  eval(quote({
    k_of_test <- 5
    fact_of_test <- function(n) if (n < 2) 1 else n * fact_of_test(n - 1)
    list_of_test <- list(add = function(x) x + k_of_test, two = list(function(x) x * k_of_test))
    formula_of_test <- function(d) coef(lm(y ~ offset_of_test(x), d))[[1L]]
    offset_of_test <- function(x) x - k_of_test
    make_of_test <- function(h) function(x) h(x)
    helper_of_test <- function(x) x - k_of_test
  }), globalenv())
  cl <- local_cluster(1)
  clusterCall(cl, function() assign("k_of_test", "mine", globalenv())) # tidy: in the worker
  at_top <- function(code) eval(code, globalenv())
  expect_identical(cluster_map(cl, 5, at_top(quote(function(x) fact_of_test(x)))), list(120))
  in_list <- at_top(quote(function(x) c(list_of_test$add(x), list_of_test$two[[1L]](x))))
  expect_identical(cluster_map(cl, 2, in_list), list(c(7, 10)))
  data <- data.frame(x = 1:4, y = c(2, 4, 6, 8))
  expect_equal(cluster_map(cl, list(data), at_top(quote(formula_of_test))), list(10))
  made <- at_top(quote(make_of_test(helper_of_test)))
  expect_identical(cluster_map(cl, 9, made), list(4))
  expect_identical(cluster_map(cl, 9, function(x, g) g(x), at_top(quote(helper_of_test))), list(4))
  functions <- at_top(quote(list(helper_of_test, function(x) k_of_test)))
  expect_identical(cluster_map(cl, functions, function(f) f(6)), list(1, 5))
  expect_identical(cluster_map(cl, 9, at_top(quote(function(x) {
    k_of_test <<- k_of_test + x
    k_of_test
  }))), list(14))
  # By name, as match.fun() finds it here.
  expect_identical(evalq(muster::cluster_map(cl, 6, "helper_of_test"), list2env(
    list(cl = cl),
    parent = globalenv()
  )), list(1))
  expect_identical(clusterEvalQ(cl, list(k_of_test, ls())), list(list("mine", "k_of_test")))
})

test_cluster("S4 and reference classes of the session are used in workers by their objects", {
  local_globals()
  on_exit <- function() {
    methods::removeClass("PointOfTest", globalenv())
    methods::removeClass("CounterOfTest", globalenv())
    methods::removeGeneric("areaOfTest", globalenv())
  }
  defer(on_exit)
  methods::setClass("PointOfTest", methods::representation(x = "numeric"), where = globalenv())
  counter <- methods::setRefClass("CounterOfTest",
    fields = list(n = "numeric"),
    methods = list(more = function() {
      n <<- n + 1
      n
    }), where = globalenv()
  )
  cl <- local_cluster(1)
  points <- lapply(c(1, 2, 3), function(x) methods::new("PointOfTest", x = x))
  expect_identical(cluster_map(cl, points, function(p) p@x), list(1, 2, 3))
  one <- counter$new(n = 1)
  expect_identical(cluster_map(cl, 1, function(i, one) one$n + 1, one), list(2))
  methods::setGeneric("areaOfTest", function(p) standardGeneric("areaOfTest"),
    where = globalenv()
  )
  methods::setMethod("areaOfTest", "numeric", function(p) p^2, where = globalenv())
  f <- eval(quote(function(x) areaOfTest(x)), globalenv())
  expect_identical(cluster_map(cl, 3, f), list(9))
})

test_cluster("attached packages that functions use are attached in workers", {
  local_settings(muster.checkpoints = FALSE)
  if (!"package:tools" %in% search()) {
    library(tools)
    defer(function() detach("package:tools"))
  }
  cl <- local_cluster(1)
  f <- eval(quote(function(path) file_ext(path)), globalenv())
  expect_identical(cluster_map(cl, "a.txt", f), list("txt"))
  expect_identical(nrow(cluster_journal(cl)), 0L)
  expect_true("package:tools" %in% clusterCall(cl, search)[[1L]])
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(suppressMessages(cluster_map(cl, "a.txt", f)), list("txt"))
})

test_cluster("globals that are too large are named, the largest first", {
  local_globals()
  assign("small_of_test", 1:10, globalenv())
  assign("large_of_test", numeric(1000), globalenv())
  cl <- local_cluster(1)
  local_settings(muster.globals_max = 100)
  f <- eval(quote(function(x) x + small_of_test + large_of_test), globalenv())
  condition <- tryCatch(cluster_map(cl, 1, f), muster_error_limit = identity)
  expect_identical(names(condition$sizes), c("large_of_test", "small_of_test"))
  expect_match(conditionMessage(condition), "x `large_of_test`: 8,048 bytes\nx `small_of_test`")
  expect_identical(cluster_map(cl, 1, identity), list(1))
})

test_cluster("data of packages' classes finds its methods, and data.table's is not refused", {
  local_settings(muster.checkpoints = FALSE)
  testthat::skip_if_not_installed("data.table")
  local_settings(muster.references = "error")
  cl <- local_cluster(1)
  table <- data.table::data.table(a = 1:3, b = 4:6)
  f <- eval(quote(function(i, d) d[a == i]$b), globalenv())
  expect_identical(cluster_map(cl, 1:2, f, table), list(4L, 5L))
  got <- cluster_map(cl, list(table), eval(quote(function(d) d[b > 4, .(s = sum(a))]), globalenv()))
  expect_s3_class(got[[1L]], "data.table")
  expect_identical(got[[1L]]$s, 5L)
  expect_identical(nrow(cluster_journal(cl)), 0L)
})

# ---- references

test_cluster("connections are refused where they are, and other objects are not", {
  local_globals()
  cl <- local_cluster(1)
  con <- textConnection("text")
  defer(function() close(con))
  refused <- function(code, where) {
    condition <- tryCatch(code, muster_error_input = identity)
    expect_s3_class(condition, "muster_error_input")
    expect_identical(condition$reference, where)
    expect_match(conditionMessage(condition), where, fixed = TRUE)
  }
  refused(cluster_map(cl, 1:2, function(i, con) i, con = con), "con")
  refused(cluster_map(cl, 1:2, function(i, o) i, o = list(a = list(1, con))), "o$a[[2]]")
  refused(cluster_map(cl, list(1, 2, con), function(i) i), ".x[[3]]")
  refused(cluster_map(cl, 1:2, function(i) readLines(con)), "con")
  refused(task_submit(cl, function(con) 1, con = con), "con")
  refused(task_value(task_submit(cl, function() textConnection("far"))), "value")
  assign("con_of_test", con, globalenv())
  by_global <- eval(quote(function(i) con_of_test), globalenv())
  refused(cluster_map(cl, 1, by_global), "con_of_test")
  # Of no harm: unused ones around the function, R's own, pointers in attributes.
  expect_identical(cluster_map(cl, 1:2, function(i) i), list(1L, 2L))
  expect_identical(cluster_map(cl, 1, function(i, to) inherits(to, "file"), stderr()), list(FALSE))
  pointer <- asNamespace("muster")$ffi_scan$address
  table <- structure(data.frame(a = 1), .internal.selfref = pointer)
  expect_identical(cluster_map(cl, list(table), function(d) d$a), list(1))
  local_settings(muster.references = "ignore")
  expect_identical(cluster_map(cl, 1, function(i, con) i, con = con), list(1))
})

test_cluster("external pointers are named when a call fails, or refused by option", {
  cl <- local_cluster(1)
  pointer <- asNamespace("muster")$ffi_scan$address
  expect_type(pointer, "externalptr")
  expect_identical(cluster_map(cl, 1, function(i, model) i, list(handle = pointer)), list(1))
  condition <- tryCatch(
    cluster_map(cl, 1, function(i, model) stop("null pointer"), model = list(handle = pointer)),
    muster_error_remote = identity
  )
  where <- "`model$handle` is an external pointer"
  expect_match(conditionMessage(condition), where, fixed = TRUE)
  local_settings(muster.references = "error")
  expect_error(cluster_map(cl, 1, function(i, model) i, list(handle = pointer)),
    class = "muster_error_input"
  )
  expect_error(task_submit(cl, identity, pointer), class = "muster_error_input")
  expect_identical(cluster_map(cl, 1, identity), list(1))
})

# ---- losses and limits

test_cluster("an element that takes too long is named, its neighbours are not", {
  cl <- local_cluster(2)
  f <- function(i) {
    if (i == 150) Sys.sleep(60) # tidy: the worker's work
    i
  }
  condition <- tryCatch(suppressMessages(cluster_map(cl, 1:200, f, .timeout = 1)),
    muster_error_timeout = identity
  )
  expect_s3_class(condition, "muster_error_timeout")
  expect_identical(condition$element, 150L)
  expect_match(conditionMessage(condition), "Element 150 took longer than `.timeout`", fixed = TRUE)
  got <- suppressMessages(cluster_map(cl, 1:200, f, .timeout = 1, .on_error = "return"))
  expect_s3_class(got[[150L]], "muster_error_timeout")
  expect_identical(got[-150L], as.list((1:200)[-150L]))
  # Slow elements that are all in time are no error, whatever their pieces take together.
  slow <- function(i) {
    if (i > 20) Sys.sleep(0.4) # tidy: the worker's work
    i
  }
  expect_identical(suppressMessages(cluster_map(cl, 1:24, slow, .timeout = 2)), as.list(1:24))
})

# ---- random numbers

test_cluster("generators are afterwards what they were, in workers and session", {
  cl <- local_cluster(1)
  state <- function() list(RNGkind(), get0(".Random.seed", globalenv()))
  before <- clusterCall(cl, state)
  cluster_map(cl, 1:3, function(i) rnorm(1), .seed = 1)
  expect_identical(clusterCall(cl, state), before)
  kinds <- RNGkind()
  clusterCall(cl, set.seed, 5)
  expected <- clusterCall(cl, function() .Random.seed)
  cluster_map(cl, 1:3, function(i) runif(1), .seed = 1)
  expect_identical(clusterCall(cl, function() .Random.seed), expected)
  expect_identical(RNGkind(), kinds)
})

# ---- bad input

test_cluster("what can't be mapped is refused, and the cluster goes on", {
  cl <- local_cluster(1)
  refused <- function(code) expect_error(code, class = "muster_error_input")
  refused(cluster_map(cl, mean, identity))
  refused(cluster_map(cl, quote(x), identity))
  refused(cluster_map(cl, asNamespace("muster")$ffi_scan$address, identity))
  refused(cluster_map(cl, 1:3, 5))
  refused(cluster_map(cl, 1:3, identity, .retries = -1))
  refused(cluster_map(cl, 1:3, identity, .timeout = 0))
  refused(cluster_map(cl, 1:3, identity, .speculate = NA))
  refused(cluster_map(cl, 1:3, identity, .progress = c("a", "b")))
  refused(cluster_map(cl, 1:3, identity, .seed = 1.5))
  refused(cluster_map(cl, 1:3, identity, .on_error = "go on"))
  refused(cluster_map("no cluster", 1:3, identity))
  condition <- tryCatch(cluster_map(cl, 1:3, "no_such_function"), muster_error = identity)
  expect_s3_class(condition, "muster_error_remote")
  expect_identical(cluster_map(cl, 1:3, identity), list(1L, 2L, 3L))
})

test_cluster("an error of an element tells its worker", {
  cl <- local_cluster(2)
  condition <- tryCatch(
    cluster_map(cl, 1:2, function(i) stop(Sys.getpid())),
    muster_error_remote = identity
  )
  expect_identical(
    cl[[condition$worker]]$pid,
    as.integer(conditionMessage(condition$condition))
  )
})

# ---- progress

test_cluster("progress is a line now and then where no bar can be, and nothing by default", {
  expect_null(new_progress(FALSE, 100L))
  expect_null(new_progress(NULL, 100L)) # nobody looks at it
  progress <- new_progress(TRUE, 1000L)
  expect_identical(progress$kind, "lines")
  expect_silent(show_progress(progress, 10L)) # it is not long yet
  progress$begin <- now_seconds() - 10
  progress$due <- now_seconds()
  message <- tryCatch(show_progress(progress, 250L), muster_message_progress = identity)
  expect_match(conditionMessage(message), "^250 of 1,000 elements, 2[45][.0-9]*/s, 3[01] s left\n$")
  expect_silent(show_progress(progress, 260L)) # not so soon again
  expect_gt(progress_patience(progress), 1)
  progress$due <- now_seconds()
  local_settings(muster.quiet = TRUE)
  expect_silent(show_progress(progress, 300L))
  expect_identical(time_text(99), "99 s")
  expect_identical(time_text(600), "10 min")
  expect_identical(time_text(36000), "10 h")
})

test_cluster("an element that looks at its number finds its own, also later", {
  cl <- local_cluster(1)
  # The number is that in the piece, of which the frame has the elements.
  looks <- cluster_map(cl, 11:30, function(x) mget(c("i", "x"), parent.frame(), inherits = TRUE))
  expect_identical(vapply(looks, function(look) look$x[[look$i]], 0L), 11:30)
  changed <- cluster_map(cl, 1:4, function(x) {
    here <- x
    assign("i", NULL, parent.frame())
    gc(FALSE)
    here
  })
  expect_identical(changed, as.list(1:4))
})

test_cluster("U2: errors that .on_error = \"return\" gives say as much as one that is raised", {
  cl <- local_cluster(2)
  inner <- function(i) {
    stop(structure(class = c("my_error", "error", "condition"), list(
      message = "no luck", call = sys.call(), at = i
    )))
  }
  f <- function(i) if (i %% 2 == 0) inner(i) else i
  got <- cluster_map(cl, c(a = 1, b = 2, 3, d = 4), f, .on_error = "return")
  raised <- tryCatch(cluster_map(cl, c(a = 1, b = 2), f), my_error = identity)
  expect_identical(unlist(got[c(1L, 3L)]), c(a = 1, 3))
  for (i in c(2L, 4L)) {
    one <- got[[i]]
    expect_identical(class(one), class(raised))
    expect_identical(setdiff(names(raised), names(one)), "results")
    expect_identical(one$element, i)
    expect_true(one$worker %in% 1:2)
    expect_identical(one$at, as.numeric(i))
    expect_true(any(grepl("inner(i)", one$stack, fixed = TRUE)))
    named <- paste0("^Element ", i, " \\(`", names(got)[i], "`\\) raised")
    expect_match(conditionMessage(one), named)
  }
  # No handler of errors is called for them.
  called <- 0L
  withCallingHandlers(
    cluster_map(cl, 1:4, f, .on_error = "return"), error = function(e) called <<- called + 1L
  )
  expect_identical(called, 0L)
})
