# foreach's backend. foreach's and doRNG's own tests run in tests/full/test-parallel-foreach.R.

# Loaded here, since foreach sets an option when it is.
has_loops <- requireNamespace("foreach", quietly = TRUE)

# Registers cl until the calling block ends, and gives foreach's functions to that.
local_loops <- function(cl = local_cluster(2, frame = frame), ..., frame = parent.frame()) {
  skip_if_not(has_loops, "foreach isn't here")
  defer(foreach::registerDoSEQ, frame)
  registerDoMuster(cl, ...)
  give_foreach(frame)
  invisible(cl)
}

give_foreach <- function(frame) {
  for (name in c("foreach", "%dopar%", "%:%", "when")) {
    assign(name, getExportedValue("foreach", name), frame)
  }
}

# Loops, evaluated by %do% where they stand, by doParallel, and by muster.
loops <- list(
  numbers = function() foreach(i = 1:5) %dopar% i^2,
  named = function() foreach(a = c(x = 1, y = 2), .combine = c) %dopar% a,
  two = function() foreach(a = 1:3, b = c("u", "v", "w"), .combine = c) %dopar% paste(a, b),
  none = function() foreach(i = integer()) %dopar% i,
  null = function() foreach(i = 1:2) %dopar% NULL,
  shorter = function() foreach(i = 1:9, j = 1:2) %dopar% (i + j),
  unnamed = function() foreach(1:3, .combine = c) %dopar% 7,
  rbind = function() foreach(i = 1:3, .combine = rbind) %dopar% data.frame(i, s = letters[i]),
  string = function() foreach(i = 1:4, .combine = "+") %dopar% i,
  init = function() foreach(i = 1:3, .combine = c, .init = 0L, .final = rev) %dopar% i,
  multi = function() {
    foreach(i = 1:7, .combine = list, .multicombine = TRUE, .maxcombine = 3) %dopar% i
  },
  nested = function() {
    foreach(i = 1:3, .combine = rbind) %:% foreach(j = 1:2, .combine = c) %dopar% (10 * i + j)
  },
  filtered = function() {
    foreach(i = 1:6, .combine = c) %:% when(i %% 2 == 0) %dopar% i
  },
  matrix = function() {
    foreach(x = iterators::iter(matrix(1:6, 2), by = "row"), .combine = c) %dopar% sum(x)
  },
  packages = function() {
    foreach(i = 3:4, .packages = "splines", .combine = c) %dopar% ncol(bs(1:9, df = i))
  },
  local = function() {
    offset <- 100
    shift <- function(x) x + offset
    foreach(i = 1:3, .combine = c) %dopar% shift(i)
  },
  sees_variable = function() {
    twice <- function() 2 * i
    again <- function() twice() + 1
    foreach(i = 1:3, .combine = c) %dopar% again()
  },
  sees_assigned = function() {
    y <- 100
    half <- function() y / 2
    foreach(i = 1:3, .combine = c) %dopar% {
      y <- i
      half()
    }
  },
  dots = function() {
    f <- function(...) foreach(i = 1:2, .combine = c) %dopar% (i + ..1 + sum(...))
    f(10, 20)
  },
  outer_dots = function() {
    f <- function(...) {
      g <- function() foreach(i = 1:2, .combine = c) %dopar% sum(i, ...)
      g()
    }
    f(10, 20)
  },
  formula = function() {
    y <- c(1, 2, 4)
    x <- 1:3
    model <- y ~ x
    foreach(i = 1:2, .combine = c) %dopar% round(stats::coef(stats::lm(model))[[i]], 3)
  },
  parsed = function() {
    text <- "a * i"
    a <- 3
    foreach(i = 1:2, .export = "a", .combine = c) %dopar% eval(parse(text = text))
  },
  outer_frame = function() {
    a <- 1
    add <- function(x) x + a
    inside <- function(b) {
      foreach(i = 1:2, .export = c("add", "a"), .combine = c) %dopar% (add(i) * b)
    }
    inside(5)
  },
  lazy = function() {
    f <- function(n, m = 2 * n) foreach(i = 1:2, .combine = c) %dopar% (i + m)
    f(3)
  },
  returns = function() foreach(i = 1:3, .combine = c) %dopar% return(i),
  language = function() foreach(e = list(quote(a + b), quote(x))) %dopar% e,
  functions = function() foreach(f = list(sqrt, sum), .combine = c) %dopar% f(16),
  function_shadowed = function() {
    f <- function() g(16) + i
    g <- function(x) -x
    foreach(g = list(sqrt, sum), i = 1:2, .combine = c) %dopar% f()
  },
  own_words = function() {
    values <- 1
    frame <- 2
    code <- 3
    here <- 4
    fun <- function(x) x + values + frame + code + here
    foreach(x = 1:2, seed = 3:4, .combine = c) %dopar% fun(x + seed)
  },
  pass = function() {
    r <- foreach(i = 1:3, .errorhandling = "pass") %dopar% if (i == 2) stop("two") else i
    r[[2L]] <- list(class(r[[2L]]), conditionMessage(r[[2L]]))
    r
  },
  remove = function() {
    foreach(i = 1:3, .errorhandling = "remove") %dopar% if (i == 2) stop("two") else i
  },
  stop = function() {
    tryCatch(foreach(i = 1:3) %dopar% if (i == 2) stop("two") else i,
      error = function(e) sub("\n.*", "", conditionMessage(e))
    )
  }
)

run_loops <- function(dopar) {
  lapply(loops, function(loop) {
    around <- new.env(parent = globalenv())
    give_foreach(around)
    around$`%dopar%` <- dopar
    environment(loop) <- around
    loop()
  })
}

test_cluster("loops have the values that %do% and doParallel give them", {
  cl <- local_cluster(2)
  local_loops(cl)
  ours <- run_loops(`%dopar%`)
  attached <- search()
  here <- run_loops(foreach::`%do%`)
  for (package in setdiff(search(), attached)) detach(package, character.only = TRUE)
  expect_identical(ours, here)
  skip_if_not_installed("doParallel")
  doParallel::registerDoParallel(cl)
  expect_identical(ours, run_loops(`%dopar%`))
})

test_cluster("H8: registerDoMuster() takes clusters that have R's own workers", {
  cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
  defer(function() parallel::stopCluster(cl))
  local_loops(cl)
  ours <- run_loops(`%dopar%`)
  random <- foreach(i = 1:5, .options.muster = list(seed = 1)) %dopar% stats::rnorm(1)
  streams <- foreach(i = 1:5, .options.RNG = 7) %dopar% stats::rnorm(1)
  pids <- foreach(i = 1:9, .combine = c) %dopar% Sys.getpid()
  expect_true(all(pids %in% vapply(unclass(cl), function(node) node$pid, 0L)))
  failed <- expect_error(foreach(i = 1:3) %dopar% if (i == 2) stop("two") else i,
    "^task 2 failed - \"two\"",
    class = "muster_error_remote"
  )
  expect_identical(failed$element, 2L)
  # As muster's own workers evaluate them, alone and with others.
  own <- local_loops()
  for (cluster in list(own, c(own[1L], cl[1L]))) {
    registerDoMuster(cluster)
    expect_identical(run_loops(`%dopar%`), ours)
    expect_identical(
      foreach(i = 1:5, .options.muster = list(seed = 1)) %dopar% stats::rnorm(1), random
    )
    expect_identical(foreach(i = 1:5, .options.RNG = 7) %dopar% stats::rnorm(1), streams)
  }
})

test_cluster("registerDoMuster() says what it has registered", {
  cl <- local_loops()
  expect_identical(foreach::getDoParWorkers(), 2L)
  expect_identical(foreach::getDoParName(), "doMuster")
  expect_identical(foreach::getDoParVersion(), utils::packageVersion("muster"))
  expect_identical(expect_invisible(registerDoMuster(cl[1])), cl[1])
  expect_identical(foreach::getDoParWorkers(), 1L)
  pid <- foreach(i = 1:3, .combine = c) %dopar% Sys.getpid()
  expect_identical(unique(pid), node_pids(cl)[1L])
})

test_cluster("workers that it starts are used again, and end when others come", {
  local_loops(2)
  first <- registerDoMuster(2, seed = TRUE)
  known <- node_processes(first)
  expect_identical(registerDoMuster(2), first)
  pids <- foreach(i = 1:9, .combine = c) %dopar% Sys.getpid()
  expect_true(all(pids %in% node_pids(first)))
  second <- registerDoMuster(1)
  wait_until(!any(still_exists(known)))
  expect_identical(unlist(foreach(i = 1) %dopar% Sys.getpid()), node_pids(second))
  cluster_stop(second)
})

test_cluster("an iteration has its variables to itself, and leaves none behind", {
  cl <- local_loops()
  local_globals()
  seen <- foreach(i = 1:20, .combine = c) %dopar% {
    before <- exists("mine")
    mine <- i
    before
  }
  expect_false(any(seen))
  makers <- foreach(i = 1:4) %dopar% function() i
  expect_identical(vapply(makers, function(f) f(), 0L), 1:4)
  here <- function() foreach(i = 1:4, .combine = c) %dopar% {
    left <- i
    left
  }
  environment(here) <- list2env(list(foreach = foreach, `%dopar%` = `%dopar%`), globalenv())
  expect_identical(here(), 1:4)
  expect_identical(clusterCall(cl, function() ls(globalenv())), list(character(), character()))
})

test_cluster("an error names its iteration", {
  local_loops()
  error <- expect_error(
    foreach(i = 1:3, s = c("a", "b", "c"), d = list(1, mtcars, 3)) %dopar% {
      if (i == 2) stop("two failed") else i
    },
    class = "muster_error_remote"
  )
  expect_match(conditionMessage(error),
    "^task 2 failed - \"two failed\"\nx Task 2 [(]i = 2, s = \"b\", d = <data.frame>[)]\n"
  )
  expect_match(conditionMessage(error), ".errorhandling = \"pass\"", fixed = TRUE)
  expect_identical(error$element, 2L)
  expect_identical(error$stack, "stop(\"two failed\")")
  expect_match(deparse(error$call)[1L], "foreach(i = 1:3", fixed = TRUE)
  own <- structure(class = c("own", "error", "condition"), list(message = "mine", call = NULL))
  expect_identical(
    tryCatch(foreach(i = 1:2) %dopar% stop(own), own = function(e) class(e)[1:4]),
    c("muster_error_remote", "muster_error", "own", "error")
  )
  # One that was only returned counts as well, as with other backends.
  expect_error(foreach(i = 1:2) %dopar% simpleError("returned"), "^task 1 failed - \"returned\"",
    class = "muster_error_remote"
  )
  expect_error(foreach(i = 1:2, .combine = function(a, b) stop("no sum")) %dopar% i, "^no sum$")
  expect_error(foreach(i = 1:2, .packages = "nosuchpackage") %dopar% i, "nosuchpackage")
  expect_identical(foreach(i = 1:2) %dopar% i, list(1L, 2L))
})

test_cluster("the first error in the iterations' order is raised, as by other backends", {
  local_loops()
  folder <- local_folder()
  # The third fails long before the first does.
  fail <- function(i) {
    if (i == 3) file.create(file.path(folder, "third"))
    while (i == 1 && !file.exists(file.path(folder, "third"))) Sys.sleep(0.01) # tidy: its turn
    if (i == 1) Sys.sleep(0.2) # tidy: later still
    if (i %in% c(1, 3)) stop("failed")
    i
  }
  error <- expect_error(foreach(i = 1:9) %dopar% fail(i), "^task 1 failed")
  expect_identical(error$element, 1L)
  # One that is lost before it is tried again, and fails then.
  lost <- function(i) {
    if (i == 3) stop("third")
    if (i == 1 && !file.exists(file.path(folder, "lost"))) {
      while (!file.exists(file.path(folder, "third"))) Sys.sleep(0.01) # tidy: its turn
      file.create(file.path(folder, "lost"))
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    if (i == 1) stop("first")
  }
  error <- healed(tryCatch(foreach(i = 1:9) %dopar% lost(i), error = identity))$value
  expect_match(conditionMessage(error), "^task 1 failed - \"first\"")
  # An error's own method doesn't hide whose it is.
  registerS3method("conditionMessage", "loop_oddity", function(c) paste("odd", c$k))
  odd <- structure(class = c("loop_oddity", "error", "condition"),
    list(k = 1, message = "", call = NULL)
  )
  expect_error(foreach(i = 1) %dopar% stop(odd), "^task 1 failed")
  connection <- file.path(folder, "third")
  error <- expect_error(foreach(i = 1:3) %dopar% if (i == 2) list(a = file(connection)) else i,
    "^Task 2 [(]i = 2[)] returned a connection [(]`value[$]a`[)]"
  )
  expect_identical(error$element, 2L)
})

test_cluster("what R evaluates differently for odd code, it evaluates so in workers", {
  cl <- local_loops()
  local_globals()
  expect_identical(foreach(i = 1:3, i = 4:6, .combine = c) %dopar% i, 1:3)
  odd <- structure(function(x) x + 1, class = "odd")
  expect_identical(foreach(i = 1:2, .combine = c) %dopar% odd(i), c(2, 3))
  version <- package_version("1.2.3")
  code <- bquote(foreach(i = 1) %dopar% as.character(.(version)))
  expect_identical(eval(code), list("1.2.3"))
  # `(` of the user's own.
  top <- globalenv()
  for (name in c("foreach", "%dopar%")) assign(name, get(name), top)
  assign("(", function(x) x + 100, top)
  expect_identical(eval(quote(foreach(i = 1:2) %dopar% (i)), top), list(101, 102))
  paren <- eval(quote(function(i) (i)), top)
  expect_identical(cluster_map(cl, 1:2, paren), list(101, 102))
  rm("(", envir = top)
  many <- foreach(i = 1) %dopar% {
    for (k in 1:20000) assign(paste0("v", k), k)
    length(ls())
  }
  expect_identical(many, list(20002L))
  gone <- function(...) foreach(i = 1:2) %dopar% c(i, ...length(), ..1)
  expect_identical(gone(5, stop("it isn't used")), list(c(1, 2, 5), c(2, 2, 5)))
})

test_cluster("warnings and messages are signalled here, with the task's number", {
  local_loops()
  seen <- character()
  withCallingHandlers(
    foreach(i = 1:2) %dopar% {
      warning("careful")
      message("hello")
      as.integer("x")
    },
    warning = function(w) {
      seen <<- c(seen, conditionMessage(w))
      invokeRestart("muffleWarning")
    },
    message = function(m) {
      seen <<- c(seen, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  one <- function(i) {
    c(paste0(c("careful", "NAs introduced by coercion"), " (task ", i, ")"), "hello\n")
  }
  expect_setequal(seen, c(one(1), one(2)))
  # A loop inside doesn't complain that it has no backend.
  inner <- function(i) {
    `%dopar%` <- foreach::`%dopar%`
    sum(unlist(foreach::foreach(j = 1:3) %dopar% (i * j)))
  }
  expect_silent(sums <- foreach(i = 1:2, .combine = c) %dopar% inner(i))
  expect_identical(sums, c(6L, 12L))
})

test_cluster("of the frames around a loop only what it needs travels", {
  local_loops()
  session <- Sys.getpid()
  f <- function(unused, failing, absent) {
    large <- numeric(2e5)
    named <- numeric(2e5) + 1
    small <- 3
    box <- new.env()
    code <- list(
      named = function() foreach(i = 1, .combine = c) %dopar% sum(named),
      dynamic = function() foreach(i = 1) %dopar% get(paste0("sma", "ll")),
      large = function() foreach(i = 1) %dopar% length(get(paste0("la", "rge"))),
      exported = function() {
        foreach(i = 1, .export = "large") %dopar% length(get(paste0("la", "rge")))
      },
      box = function() foreach(i = 1) %dopar% get(paste0("b", "ox")),
      unused = function() foreach(i = 1) %dopar% get(paste0("un", "used")),
      failing = function() foreach(i = 1) %dopar% failing,
      absent = function() foreach(i = 1) %dopar% absent
    )
    lapply(code, function(one) tryCatch(one(), error = identity))
  }
  evaluated <- FALSE
  got <- f(evaluated <- TRUE, stop("it fails"))
  expect_false(evaluated)
  expect_identical(got$named, 2e5)
  expect_identical(got$dynamic, list(3))
  expect_identical(got$exported, list(200000L))
  for (name in c("large", "box", "unused")) {
    expect_s3_class(got[[name]], c("muster_error_remote", "muster_error_limit"))
    expect_match(conditionMessage(got[[name]]), paste0("`", name, "` of the function around"))
  }
  expect_match(conditionMessage(got$failing), "it fails")
  expect_match(conditionMessage(got$absent), "argument \"absent\" is missing")
})

test_cluster("`.noexport` stays behind, `.export` goes along", {
  cl <- local_loops()
  local_globals()
  loop <- function(unused, ...) {
    bulk <- "here"
    other <- 7
    add <- function() other + i
    foreach(i = 1:2, .noexport = "bulk") %dopar% c(get0("bulk"), add(), ...)
  }
  expect_identical(loop(stop("it isn't used"), 5), list(c(8, 5), c(9, 5)))
  bulk <- "there"
  clusterExport(cl, "bulk", environment())
  expect_identical(loop()[[1L]], c("there", "8"))
  assign("bulk", "global", globalenv())
  top <- globalenv()
  assign("foreach", foreach, top)
  assign("%dopar%", `%dopar%`, top)
  expect_identical(eval(quote(foreach(i = 1) %dopar% bulk), top), list("global"))
  expect_identical(eval(quote(foreach(i = 1, .noexport = "bulk") %dopar% bulk), top), list("there"))
  code <- quote(foreach(i = 1, .export = "bulk") %dopar% get(paste0("bu", "lk")))
  expect_identical(eval(code, top), list("global"))
  expect_error(foreach(i = 1, .export = "nosuchvariable") %dopar% i, "nosuchvariable",
    class = "muster_error_input"
  )
})

test_cluster("random numbers follow from a seed: cluster_map()'s, or doRNG's", {
  local_seed(1)
  cl <- local_loops()
  before <- session_seed()
  draw <- function(...) unlist(foreach(i = 1:5, ...) %dopar% stats::rnorm(1))
  ours <- draw(.options.muster = list(seed = 3))
  expect_identical(ours, unlist(cluster_map(cl, 1:5, function(i) stats::rnorm(1), .seed = 3)))
  # What doRNG 1.8.6 gives for this seed in R 4.2.2.
  expect_equal(draw(.options.RNG = 123),
    c(0.42548166, -0.88176843, -0.44483490, -1.77732677, 2.70754792), tolerance = 1e-7
  )
  stream <- c(10407L, 1:6)
  expect_identical(draw(.options.RNG = stream), draw(.options.RNG = 1:6))
  expect_identical(session_seed(), before)
  registerDoMuster(cl, seed = TRUE)
  set.seed(5)
  first <- draw()
  expect_false(identical(first, draw()))
  set.seed(5)
  expect_identical(draw(), first)
  # With seeds of its own a loop is as reproducible.
  registerDoMuster(cl)
  expect_silent(own <- foreach(i = 1:2) %dopar% {
    set.seed(i)
    stats::runif(1)
  })
  expect_identical(own, lapply(1:2, function(i) {
    set.seed(i)
    stats::runif(1)
  }))
  expect_error(draw(.options.RNG = "x"), class = "muster_error_input")
})

test_cluster("options are for one loop, or for all", {
  cl <- local_loops()
  slow <- function(...) foreach(i = 1:2, ...) %dopar% if (i == 2) Sys.sleep(60) else i # tidy: late
  late <- list(timeout = 2, retries = 0)
  error <- healed(tryCatch(slow(.options.muster = late), error = identity))$value
  expect_s3_class(error, "muster_error_timeout")
  expect_match(conditionMessage(error), "^Task 2 [(]i = 2[)] took longer than `timeout`")
  registerDoMuster(cl, timeout = 2, retries = 0)
  values <- healed(slow(.errorhandling = "pass"))$value
  expect_identical(values[[1L]], 1L)
  expect_s3_class(values[[2L]], "muster_error_timeout")
  expect_error(foreach(i = 1, .options.muster = list(seeds = 1)) %dopar% i, "It has `seeds`",
    class = "muster_error_input"
  )
  for (bad in list(list(retries = -1), list(1), list(speculate = NA), 3, list(seed = "x"))) {
    expect_error(foreach(i = 1, .options.muster = bad) %dopar% i, class = "muster_error_input")
  }
  for (bad in list(list(retries = -1), list(timeout = 0), list(progress = 3))) {
    expect_error(do.call(registerDoMuster, c(list(cl), bad)), class = "muster_error_input")
  }
  expect_error(registerDoMuster("nosuchhost.invalid", seed = FALSE), class = "muster_error")
  expect_error(registerDoMuster(structure(list(), class = "cluster")), class = "muster_error_input")
})

test_cluster("progress is shown as for cluster_map(), or told to a function", {
  local_loops()
  seen <- list()
  note <- function(n, task) seen[[n]] <<- task
  foreach(i = 1:5, .options.snow = list(progress = note)) %dopar% i
  expect_setequal(unlist(seen), 1:5)
  counts <- integer()
  count <- function(n) counts <<- c(counts, n)
  foreach(i = 1:5, .options.muster = list(progress = count)) %dopar% i
  expect_identical(counts, 1:5)
  fails <- list(progress = function(n) stop("no display"))
  expect_warning(foreach(i = 1, .options.snow = fails) %dopar% i, "no display")
  come <- foreach(i = 1:5, .inorder = FALSE, .combine = c) %dopar% i
  expect_setequal(come, 1:5)
})

test_cluster("a loop survives its workers, or says which iteration kills them", {
  cl <- local_loops(local_cluster(2, retries = 1))
  folder <- local_folder()
  dies <- function(i, once) {
    mark <- file.path(folder, i)
    if (i %in% c(3, 8) && !(once && file.exists(mark))) {
      file.create(mark)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    i
  }
  once <- healed(foreach(i = 1:9, .combine = c) %dopar% dies(i, TRUE))
  expect_identical(once$value, 1:9)
  expect_true(all(once$messages %in% c("muster_message_restarted", "muster_message_again")))
  error <- healed(tryCatch(foreach(i = 3) %dopar% dies(i, FALSE), error = identity))$value
  expect_s3_class(error, "muster_error_lost")
  expect_match(conditionMessage(error), "Task 1 [(]i = 3[)]")
  left <- healed(foreach(i = 3:5, .combine = c, .errorhandling = "remove") %dopar% dies(i, FALSE))
  expect_identical(left$value, 4:5)
})

test_cluster("an interrupt ends a loop; the cluster goes on", {
  cl <- local_loops()
  session <- Sys.getpid()
  ended <- tryCatch(
    foreach(i = 1:2) %dopar% {
      if (i == 1) tools::pskill(session, tools::SIGINT)
      Sys.sleep(60) # tidy: until it is cancelled
    },
    interrupt = function(e) "interrupted"
  )
  expect_identical(ended, "interrupted")
  expect_identical(cluster_results(), list(NULL, NULL))
  expect_identical(foreach(i = 1:3, .combine = c) %dopar% i, 1:3)
  expect_null(cluster_results())
})

test_cluster("a loop on a cluster that was stopped is an error", {
  cl <- local_loops()
  cluster_stop(cl)
  expect_error(foreach(i = 1:3) %dopar% i, "stopped", class = "muster_error")
})

test_cluster("V13: an argument that wasn't given stays missing in iterations", {
  cl <- local_cluster(1)
  local_loops(cl)
  `%dopar%` <- foreach::`%dopar%`
  foreach <- foreach::foreach
  add <- function(x, y) if (missing(y)) x else x + y
  by_loop <- function(x, y) foreach(i = 1:2, .combine = c) %dopar% add(x, y)
  by_dots <- function(...) foreach(i = 1:2, .combine = c) %dopar% add(...)
  asks <- function(x, y) foreach(i = 1, .combine = c) %dopar% c(missing(x), missing(y))
  use <- function(x, y) foreach(i = 1) %dopar% (x + y)
  expect_identical(by_loop(1), c(1, 1))
  expect_identical(by_loop(1, 2), c(3, 3))
  expect_identical(by_dots(1), c(1, 1))
  expect_identical(asks(1), c(FALSE, TRUE))
  expect_identical(asks(, 1), c(TRUE, FALSE))
  expect_error(use(1), "missing", class = "muster_error_remote")
})

test_cluster("registerDoSEQ() ends the workers that registerDoMuster(2) has started", {
  skip_if_not(has_loops, "foreach isn't here")
  defer(foreach::registerDoSEQ)
  pids <- local({
    registerDoMuster(2)
    expect_identical(foreach::getDoParWorkers(), 2L)
    `%dopar%` <- foreach::`%dopar%`
    unlist(foreach::foreach(i = 1:2) %dopar% Sys.getpid())
  })
  foreach::registerDoSEQ()
  wait_until({
    gc()
    cluster_stop(cluster_start(1)) # serves the session, as any call does
    !any(file.exists(file.path("/proc", unique(pids))))
  })
  expect_false(any(file.exists(file.path("/proc", unique(pids)))))
})
