# What others wrote for parallel's clusters: the examples of its help, foreach.

# The values of the top-level expressions of code, evaluated one by one in the global
# environment, which is cleared afterwards.
values_of_lines <- function(code, frame = parent.frame()) {
  local_globals(frame)
  lapply(code, function(line) {
    value <- withVisible(eval(line, globalenv()))
    if (value$visible) value$value
  })
}

test_cluster("the examples of ?clusterApply give what sequential code does", {
  skip_if_not_installed("boot")
  skip_if_not_installed("MASS")
  help <- tools::Rd_db("parallel")[["clusterApply.Rd"]]
  skip_if(is.null(help), "parallel's help isn't installed")
  file <- tempfile("examples-")
  defer(function() unlink(file))
  tools::Rd2ex(help, file)
  code <- parse(file, keep.source = FALSE)
  expect_gt(length(code), 10L)

  search_before <- search()
  defer(function() {
    for (name in setdiff(search(), search_before)) detach(name, character.only = TRUE)
  })
  local_globals()
  local_seed(1)
  # The help's clusters are ours; parallel's function stays what it is.
  assign("makeCluster", function(n) cluster_start(n), envir = globalenv())
  local_settings(cl.cores = 2)
  values <- values_of_lines(code)
  texts <- vapply(code, function(line) paste(deparse(line), collapse = " "), "")
  value_of <- function(pattern) values[[grep(pattern, texts, fixed = TRUE)[1L]]]

  expect_identical(value_of("clusterApply(cl, 1:2, get(\"+\"), 3)"), list(4, 5))
  expect_identical(value_of("clusterCall(cl, function(y)"), list(3, 3))
  expect_identical(value_of("clusterMap(cl"), mapply(function(x, y) seq_len(x) + y,
    c(a = 1, b = 2, c = 3), c(A = 10, B = 0, C = -10), SIMPLIFY = FALSE))
  expect_identical(value_of("parSapply(cl, 1:20"), sapply(1:20, get("+"), 3))
  expect_identical(value_of("clusterEvalQ(cl, {"), list(NULL, NULL))
  expect_s3_class(values[[grep("boot.ci", texts)[1L]]], "bootci")

  # The last bootstrap is reproducible: one stream for each worker.
  run <- get("run1", globalenv())
  RNGkind("L'Ecuyer-CMRG")
  set.seed(123)
  stream <- session_seed()
  expected <- do.call(c, lapply(1:2, function(i) {
    assign(".Random.seed", stream, envir = globalenv())
    stream <<- parallel::nextRNGStream(stream)
    run(i)
  }))
  expect_identical(get("cd4.boot", globalenv())$t, expected$t)
  expect_identical(get("cd4.boot", globalenv())$t0, expected$t0)
})

# ---- foreach

# Registers cl with foreach until the block ends, and gives foreach's functions to it.
local_foreach <- function(cl, frame = parent.frame()) {
  defer(foreach::registerDoSEQ, frame)
  doParallel::registerDoParallel(cl)
  frame$foreach <- foreach::foreach
  frame$`%dopar%` <- foreach::`%dopar%`
  frame$`%:%` <- foreach::`%:%`
}

# Loaded here, since foreach sets an option when it is.
has_foreach <- requireNamespace("foreach", quietly = TRUE) &&
  requireNamespace("doParallel", quietly = TRUE)
skip_without_foreach <- function() skip_if_not(has_foreach, "foreach and doParallel aren't here")

test_cluster("foreach with doParallel runs on the cluster", {
  skip_without_foreach()
  cl <- local_cluster()
  local_foreach(cl)
  expect_identical(foreach::getDoParWorkers(), 2L)
  expect_identical(foreach::getDoParName(), "doParallelSNOW")
  expect_identical(foreach(i = 1:5) %dopar% i^2, as.list((1:5)^2))
  pids <- foreach(i = 1:8, .combine = c) %dopar% Sys.getpid()
  expect_identical(sort(unique(pids)), sort(node_pids(cl)))
  for (preschedule in c(TRUE, FALSE)) {
    options <- list(preschedule = preschedule)
    expect_identical(
      foreach(i = 1:7, .combine = c, .options.snow = options) %dopar% sqrt(i), sqrt(1:7)
    )
    expect_identical(
      foreach(x = letters, .combine = paste0, .options.snow = options) %dopar% toupper(x),
      paste(LETTERS, collapse = "")
    )
    expect_error(
      foreach(i = 1:3, .options.snow = options) %dopar% if (i == 2) stop("two failed"),
      "task 2 failed - \"two failed\""
    )
  }
})

test_cluster("foreach treats errors as on a cluster of makeCluster()", {
  skip_without_foreach()
  # With chunks one error takes its chunk along: what doParallel does is its own affair.
  handle <- function(handling, preschedule) {
    force(handling)
    force(preschedule)
    function(cl) {
      local_foreach(cl)
      options <- list(preschedule = preschedule)
      values <- foreach(i = 1:4, .errorhandling = handling, .options.snow = options) %dopar% {
        if (i == 2) stop("two failed") else i
      }
      lapply(values, function(x) if (inherits(x, "error")) conditionMessage(x) else x)
    }
  }
  cases <- list()
  for (handling in c("pass", "remove", "stop")) {
    for (preschedule in c(TRUE, FALSE)) {
      cases[[paste(handling, preschedule)]] <- handle(handling, preschedule)
    }
  }
  answers <- expect_as_psock(cases)
  expect_identical(answers$`pass FALSE`, list(1L, "two failed", 3L, 4L))
  expect_identical(answers$`remove FALSE`, list(1L, 3L, 4L))
})

test_cluster("foreach finds variables, packages and nested loops on the cluster", {
  skip_without_foreach()
  cl <- local_cluster()
  local_foreach(cl)
  offset <- 100
  shift <- function(x) x + offset
  expect_identical(foreach(i = 1:3, .combine = c) %dopar% shift(i), 101:103 + 0)
  offset <- 200
  expect_identical(foreach(i = 1:3, .combine = c) %dopar% shift(i), 201:203 + 0)
  expect_identical(
    foreach(i = 1:2, .packages = "splines", .combine = c) %dopar% ncol(bs(1:9, df = 3 + i)),
    4:5
  )
  expect_identical(
    foreach(i = 1:3, .combine = rbind) %:% foreach(j = 1:2, .combine = c) %dopar% (i * j),
    rbind(result.1 = c(1L, 2L), result.2 = c(2L, 4L), result.3 = c(3L, 6L))
  )
  m <- matrix(1:6, 2)
  expect_identical(
    foreach(x = iterators::iter(m, by = "row"), .combine = c) %dopar% sum(x), c(9L, 12L)
  )
  expect_identical(
    foreach(i = 1:4, .combine = `+`, .inorder = FALSE) %dopar% i, 10L
  )
})
