# The short form of small messages: what it carries arrives as it was, functions that are
# read once don't go stale, and bytes that are no message are errors.

read_message <- function(bytes) .Call(muster:::ffi_object_read, bytes)

# Nodes as docs/PROTOCOL.md has them.
int <- function(...) writeBin(as.integer(c(...)), raw())
node <- function(type, count, ...) c(as.raw(type), int(count), ...)
text <- function(x, encoding = 0) c(int(nchar(x, "bytes")), as.raw(encoding), charToRaw(x))
mark <- as.raw(0x50)

test_that("each node is read as the protocol says", {
  expect_null(read_message(c(mark, node(0, 0))))
  expect_identical(read_message(c(mark, node(1, 3, int(1, 0, NA)))), c(TRUE, FALSE, NA))
  expect_identical(read_message(c(mark, node(2, 2, int(7, NA)))), c(7L, NA))
  numbers <- c(-0.0, NA, NaN, Inf, pi)
  expect_identical(
    serialize(read_message(c(mark, node(3, 5, writeBin(numbers, raw())))), NULL),
    serialize(numbers, NULL)
  )
  z <- complex(real = 1, imaginary = -2)
  expect_identical(read_message(c(mark, node(4, 1, writeBin(z, raw())))), z)
  expect_identical(read_message(c(mark, node(5, 2, as.raw(0:1)))), as.raw(0:1))
  strings <- read_message(c(mark, node(6, 4, text("a"), int(-1), text("\u00e9", 1), text("", 0))))
  expect_identical(strings, c("a", NA, "\u00e9", ""))
  expect_identical(Encoding(strings)[3L], "UTF-8")
  named <- node(0x87, 2, node(2, 1, int(5)), node(0, 0), node(6, 2, text("x"), text("y")))
  expect_identical(read_message(c(mark, named)), list(x = 5L, y = NULL))
  bytes <- serialize(sum, NULL, xdr = FALSE)
  expect_identical(read_message(c(mark, node(7, 1, node(8, length(bytes), bytes)))), list(sum))
  expect_identical(read_message(serialize(letters, NULL)), letters)
})

test_that("bytes that are no message are errors, wherever they are cut or changed", {
  closure <- serialize(as.function(alist(x = , x), globalenv()), NULL, xdr = FALSE)
  whole <- c(mark, node(7, 4,
    node(8, length(closure), closure), node(0x82, 2, int(1, 2), node(6, 2, text("a"), text("b"))),
    node(6, 2, text("c"), int(-1)), node(7, 1, node(3, 1, writeBin(1, raw())))
  ))
  expect_length(read_message(whole), 4L)
  for (n in seq_along(whole) - 1L) expect_error(read_message(whole[seq_len(n)]))
  expect_error(read_message(c(whole, raw(1))), "bytes after its object")
  expect_error(read_message(c(mark, node(9, 0))), "unknown type")
  expect_error(read_message(c(mark, node(2, -1))), "ends in the middle")
  expect_error(read_message(c(mark, node(6, 1, int(-2), as.raw(0)))), "invalid string")
  expect_error(read_message(c(mark, node(6, 1, text("a", 9)))), "invalid string")
  expect_error(read_message(c(mark, node(0x82, 1, int(1), node(6, 0)))), "invalid names")
  one <- serialize(1, NULL, xdr = FALSE)
  expect_error(read_message(c(mark, node(8, length(one), one))), "no function")
  deep <- node(0, 0)
  for (i in 1:40) deep <- node(7, 1, deep)
  expect_error(read_message(c(mark, deep)), "too many lists")
  # Without a function: its own bytes are R's matter.
  plain <- c(mark, node(7, 3, node(0x82, 2, int(1, 2), node(6, 2, text("a"), text("b"))),
    node(6, 2, text("c"), int(-1)), node(7, 1, node(3, 1, writeBin(1, raw())))
  ))
  local_seed(7)
  for (k in 1:1000) {
    changed <- plain
    at <- sample(seq_along(plain)[-1L], sample(3L, 1L))
    changed[at] <- as.raw(sample(0:255, length(at), TRUE))
    tryCatch(read_message(changed), error = identity)
  }
  expect_length(read_message(plain), 3L)
})

small <- list(
  NULL, TRUE, NA, -0.0, c(a = 1L, b = NA), NaN, 1:10, 1:100000, c("a", NA, "\u00e9"), complex(1),
  as.raw(1:3), list(), list(1, list(x = "y", NULL)), character(), integer(), sum,
  structure(list(a = 1), names = NA_character_), structure(1:2, note = "n"), factor("a"),
  as.list(1:100), strrep("x", 5000), setNames(1:2, c("", "b"))
)

test_cluster("what is small and plain, and what isn't, arrives as it was", {
  cl <- local_cluster(1)
  for (x in small) {
    got <- clusterCall(cl, function(x) list(x, serialize(x, NULL)), x)[[1L]]
    expect_identical(got, list(x, serialize(x, NULL)))
    expect_identical(clusterCall(cl, function(x) x, x)[[1L]], x)
    expect_identical(task_value(task_submit(cl, function(...) list(...), x, y = x)), list(x, y = x))
  }
})

test_cluster("a function that was sent before is the one that it is now", {
  cl <- local_cluster(1)
  call <- function(f, ...) clusterCall(cl, f, ...)[[1L]]
  at_top <- function(f) `environment<-`(f, globalenv())
  f <- at_top(function(x) x + 1)
  expect_identical(c(call(f, 1), call(f, 1), call(f, 2)), c(2, 2, 3))
  body(f) <- quote(x * 10)
  expect_identical(call(f, 2), 20)
  formals(f) <- alist(x = , y = 5)
  body(f) <- quote(x + y)
  expect_identical(call(f, 2), 7)
  environment(f) <- list2env(list(y = 3), parent = globalenv())
  formals(f) <- alist(x = )
  expect_identical(call(f, 2), 5)
  assign("y", 4, environment(f))
  expect_identical(call(f, 2), 6)
  g <- at_top(function() attributes(sys.function())$note)
  expect_null(call(g))
  attr(g, "note") <- "new"
  expect_identical(call(g), "new")
  kept <- new.env()
  kept$count <- 1
  h <- at_top(eval(bquote(function() .(kept)$count)))
  expect_identical(call(h), 1)
  kept$count <- 2
  expect_identical(call(h), 2)
  # More of them than are kept, in turn.
  many <- lapply(1:9, function(i) at_top(eval(bquote(function(x) x + .(i)))))
  for (k in 1:2) {
    expect_identical(vapply(many, function(f) call(f, k), 0), k + as.numeric(1:9))
  }
})

test_cluster("a worker's function is not changed by what a call does with it", {
  cl <- local_cluster(1)
  f <- `environment<-`(function() {
    me <- sys.function()
    before <- list(attributes(me), formals(me))
    attr(me, "note") <- "mine"
    formals(me) <- alist(z = )
    before
  }, globalenv())
  attributes(f) <- NULL # no source reference
  expect_identical(clusterCall(cl, f), clusterCall(cl, f))
  expect_identical(clusterCall(cl, f)[[1L]], list(NULL, NULL))
})

test_cluster("the journal shows and replays calls in the short form", {
  local_settings(muster.checkpoints = FALSE)
  cl <- local_cluster(1)
  clusterCall(cl, `environment<-`(function(x) kept_x <<- x, globalenv()), 5)
  expect_match(cluster_journal(cl)$call, "kept_x")
  suppressMessages({
    tools::pskill(node_pids(cl), tools::SIGKILL)
    expect_identical(clusterEvalQ(cl, kept_x)[[1L]], 5)
  })
})
