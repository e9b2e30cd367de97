# Programs of calls that change their worker in all ways that there are, with and without kills: the
# same values.

begins <- expression(
  v <- integer(), store <- list(inner = new.env()), A <- structure(1, e = new.env()),
  counter <- local({
    n <- 0
    function() n <<- n + 1
  }),
  acc <- setRefClass("Acc", fields = list(n = "numeric"),
    methods = list(add = function() n <<- n + 1)
  )$new(n = 0),
  attach(list(n = 0), name = "mine"), con <- textConnection(as.character(1:1000)),
  set.seed(1, "Mersenne-Twister"),
  if (has_table) table <- data.table::data.table(x = 1:3)
)

changes <- expression(
  v <- c(v, length(v)), v[length(v) %/% 2L] <- -1L, v <- rev(v), store$n <- length(v),
  assign(letters[length(v) %% 26L + 1L], length(v), store$inner),
  assign("n", length(v), attr(A, "e")), assign("n", length(v), as.environment("mine")),
  rm(list = head(ls(store$inner), 1L), envir = store$inner), counter(), acc$add(),
  options(muster.test = length(v)), Sys.setenv(MUSTER_TEST = length(v)),
  Sys.setlocale("LC_COLLATE", if (length(v) %% 2L) "C" else "C.UTF-8"),
  Sys.umask(if (length(v) %% 2L) "077" else "022"), readLines(con, 1L), runif(2), rnorm(1),
  sample(10L), {
    setwd(if (length(v) %% 2L) tempdir() else dirname(tempdir()))
    NULL
  },
  makeActiveBinding("active", local({
    n <- length(v)
    function() n
  }), globalenv()),
  registerS3method("format", "zz", local({
    n <- length(v)
    function(x, ...) n
  })),
  if (has_table) data.table::set(table, j = "x", value = table$x + 1L),
  lapply(1:3, identity), stop("on purpose")
)

# What a worker is, as far as these calls change it.
shows <- quote(list(
  v, store$n, mget(sort(ls(store$inner)), store$inner), attr(A, "e")$n, get("n", "mine"),
  environment(counter)$n, acc$n, getOption("muster.test"), Sys.getenv("MUSTER_TEST"),
  Sys.getlocale("LC_COLLATE"), format(Sys.umask(NA)), basename(getwd()) == basename(tempdir()),
  get0("active"), format(structure(1, class = "zz")), if (has_table) table$x
))

run_at <- remote(function(code) eval(code, globalenv()))

# The value of each call of a program, or its error, and what the worker is in the end.
run_program <- function(program, kill_after = integer()) {
  cl <- local_cluster(1)
  clusterExport(cl, "has_table", environment(run_program))
  for (code in begins) clusterCall(cl, run_at, code)
  clusterCall(cl, run_at, NULL) # the checkpoint with the random stream comes before this
  values <- lapply(seq_along(program), function(i) {
    value <- tryCatch(clusterCall(cl, run_at, program[[i]])[[1L]], error = conditionMessage)
    if (i %in% kill_after) tools::pskill(node_pids(cl), tools::SIGKILL)
    if (is.function(value)) NULL else value
  })
  list(values, clusterCall(cl, run_at, shows)[[1L]])
}

has_table <- requireNamespace("data.table", quietly = TRUE)

test_cluster("S1: random programs have the same values with a kill after any of their calls", {
  local_settings(muster.quiet = TRUE)
  seed <- as.integer(Sys.getenv("MUSTER_TEST_SEED", "1"))
  local_seed(seed)
  for (round in 1:3) {
    program <- changes[sample(length(changes), 60L, TRUE)]
    expected <- run_program(program)
    expect_equal(run_program(program, seq_along(program)), expected)
    # With a checkpoint in the middle, as a call that takes long is worth one.
    with_pause <- append(as.list(program), quote(Sys.sleep(2.5)), 30L)
    expect_equal(run_program(with_pause, sort(sample(61L, 12L)))[[2L]], expected[[2L]])
  }
})

test_cluster("S1: programs have the same values where workers can't be copied", {
  seed <- as.integer(Sys.getenv("MUSTER_TEST_SEED", "1"))
  local_seed(seed)
  local_settings(muster.quiet = TRUE)
  program <- changes[sample(length(changes), 60L, TRUE)]
  expected <- run_program(program)
  local_settings(muster.checkpoints = FALSE)
  expect_equal(run_program(program, sort(sample(60L, 12L))), expected)
})
