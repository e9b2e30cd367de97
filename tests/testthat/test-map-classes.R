# Classes and methods that the session has defined in its global environment, in workers.

# Every way in which code may use them, as functions of a number. They are defined in the global
# environment, as at the prompt.
define_classes <- quote({
  setClass("Square", representation(side = "numeric"), validity = function(object) {
    if (length(object@side) != 1L) "one side" else TRUE
  })
  setClass("Named", contains = "Square", representation(name = "character"))
  setClassUnion("SquareOrNumber", c("Square", "numeric"))
  setClass("Holder", representation(held = "SquareOrNumber"))
  setGeneric("area", function(shape, ...) standardGeneric("area"))
  times_factor <- function(x) x * 3
  setMethod("area", "Square", function(shape, ...) times_factor(shape@side^2))
  setMethod("summary", "Square", function(object, ...) "a square")
  setMethod("show", "Square", function(object) cat("<square>\n"))
  setMethod("+", signature("Square", "Square"), function(e1, e2) {
    new("Square", side = e1@side + e2@side)
  })
  setMethod("length", "Square", function(x) 99L)
  setMethod("initialize", "Named", function(.Object, ...) {
    .Object <- callNextMethod(.Object, ...)
    if (length(.Object@name) == 0L) .Object@name <- "nameless"
    .Object
  })
  setAs("Square", "character", function(from) paste("side", from@side))
  Account <- setRefClass("Account",
    fields = list(total = "numeric"),
    methods = list(add = function(x) {
      total <<- total + x
      invisible(.self)
    })
  )
  Saving <- setRefClass("Saving", contains = "Account", methods = list(
    add = function(x) callSuper(1.1 * x)
  ))
  setClass("of two words", representation(x = "numeric"))
  setClass("with:colon", representation(x = "numeric"))
  setMethod("[", "of two words", function(x, i, ...) 10 * x@x[i])
  setMethod("length", "with:colon", function(x) 5L)
  setGeneric("half<-", function(object, value) standardGeneric("half<-"))
  setReplaceMethod("half", "of two words", function(object, value) {
    object@x <- value / 2
    object
  })
  colon <- new("with:colon", x = 1)
  square <- new("Square", side = 5)
  account <- Account$new(total = 1)
  uses <- list(
    new = function(i) new("Square", side = i)@side,
    invalid = function(i) tryCatch(new("Square", side = c(1, i)), error = function(e) "no"),
    method = function(i) area(new("Square", side = i)),
    carried = function(i) area(square) + i,
    base = function(i) summary(square),
    shown = function(i) utils::capture.output(print(square)),
    operator = function(i) (square + square)@side,
    primitive = function(i) length(square),
    inherits = function(i) c(area(new("Named", side = i)), is(new("Named", side = i), "Square")),
    initialize = function(i) new("Named", side = i)@name,
    union = function(i) c(is(square, "SquareOrNumber"), is(i, "SquareOrNumber")),
    holds = function(i) new("Holder", held = square)@held@side,
    coerced = function(i) as(square, "character"),
    valid = function(i) validObject(square),
    reference = function(i) Account$new(total = i)$add(2)$total,
    by_name = function(i) methods::new("Account", total = i)$add(2)$total,
    inherited = function(i) Saving$new(total = i)$add(2)$total,
    object = function(i) account$copy()$add(i)$total,
    words = function(i) new("of two words", x = c(1, 2))[2],
    colon = function(i) length(colon),
    replacement = function(i) {
      object <- new("of two words", x = 1)
      half(object) <- 8 * i
      object@x
    },
    none = function(i) i + 1
  )
})

# Workers know them, and something else by the same names afterwards, or nothing.
local_classes <- function(frame = parent.frame()) {
  local_globals(frame)
  suppressMessages(eval(define_classes, globalenv()))
  # Before the variables go: the first that was deferred is done last.
  defer(function() methods::cacheMetaData(globalenv(), FALSE), frame)
}

test_cluster("V9: workers have the classes and methods that the session has defined", {
  local_classes()
  cl <- local_cluster(2)
  for (name in names(globalenv()$uses)) {
    use <- globalenv()$uses[[name]]
    expected <- lapply(c(1, 2), use)
    expect_identical(cluster_map(cl, c(1, 2), use), expected, label = paste(name, "in a map"))
    tasks <- lapply(c(1, 2), function(i) task_submit(cl, use, i))
    expect_identical(lapply(tasks, task_value), expected, label = paste(name, "in a task"))
  }
  expect_identical(
    cluster_map(cl, list(globalenv()$square, 3), function(x) length(x)), list(99L, 1L)
  )
  p <- partition_scatter(cl, data.frame(x = 1:4), parts = 2L)
  in_parts <- function(d) {
    data.frame(area = vapply(d$x, function(i) area(new("Square", side = i)), 0))
  }
  environment(in_parts) <- globalenv()
  expect_identical(partition_collect(partition_map(p, in_parts))$area, 3 * (1:4)^2)
  # Nothing of it stays.
  left <- clusterCall(cl, function(square) {
    c(ls(globalenv()), length(square), methods::isClass("Square"))
  }, globalenv()$square)
  expect_identical(left, rep(list(c("1", "FALSE")), 2L))
})

test_cluster("V9: a worker's own class of the same name is there again after a map", {
  local_classes()
  cl <- local_cluster(1)
  clusterEvalQ(cl, {
    setClass("Square", representation(edge = "character"))
    setMethod("length", "Square", function(x) 7L)
    mine <- new("Square", edge = "e")
  })
  expect_identical(cluster_map(cl, 3, globalenv()$uses$method), list(27))
  expect_identical(
    clusterEvalQ(cl, list(length(mine), new("Square", edge = "f")@edge)), list(list(7L, "f"))
  )
})

test_cluster("V4: a string may name a variable of any characters", {
  local_globals()
  cl <- local_cluster(1)
  names <- c("of two words", "with:colon", "1st", "a-b")
  for (name in names) assign(name, nchar(name), globalenv())
  clusterCall(cl, function(names) for (name in names) assign(name, 0, globalenv()), names)
  uses <- eval(quote(function(i) c(get("of two words"), get("with:colon"), get("1st"), get("a-b"))),
    globalenv()
  )
  expect_identical(cluster_map(cl, 1, uses), list(nchar(names)))
  expect_identical(task_value(task_submit(cl, uses, 1)), nchar(names))
})
