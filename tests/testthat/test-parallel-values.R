# What travels to workers and back: a grid of values through parallel's verbs.

closure <- local({
  offset <- 40
  function(x, ...) x + offset
})
values <- list(
  null = NULL, na = NA, na_integer = NA_integer_, na_real = NA_real_, na_text = NA_character_,
  integers = c(.Machine$integer.max, -.Machine$integer.max, 0L),
  numbers = c(2^53, -0.0, 1e308, .Machine$double.xmin / 4, pi, Inf, -Inf, NaN),
  complex = c(1+2i, NA), raw = as.raw(0:255), logical = c(TRUE, FALSE, NA),
  empty = list(integer(), character(), list()), sequence = 1:100000, range = c(1:10, 5L),
  text = c("", "a", NA, "two\nlines", "\t\\\"'"), utf8 = c("\u00e9t\u00e9", "\u4e2d", "\U1f600"),
  latin1 = marked(c(0xe9, 0x74, 0xe9), "latin1"), bytes = marked(c(0x61, 0xff), "bytes"),
  invalid = rawToChar(as.raw(c(0x61, 0xff))), long_text = strrep("x", 1e5),
  factor = factor(c("b", "a", NA), levels = c("b", "a")), ordered = factor(1:3, ordered = TRUE),
  date = as.Date("2020-02-29"), time = as.POSIXct(0.5, origin = "1970-01-01", tz = "UTC"),
  broken_time = as.POSIXlt(0, origin = "1970-01-01", tz = "UTC"),
  named = c(a = 1, b = 2), list = list(1, "a", list(NULL, NA), x = list(y = 1:3)),
  frame = data.frame(x = 1:3, y = letters[1:3], row.names = c("r1", "r2", "r3")),
  nested_frame = structure(list(x = 1:2, y = list(1, "b")),
    class = "data.frame", row.names = 1:2),
  matrix = matrix(1:6, 2, dimnames = list(NULL, letters[1:3])), array = array(1:8, c(2, 2, 2)),
  attributes = structure(1:3, class = "mine", note = list("n")),
  symbol = quote(undefined_symbol), call = quote(undefined_function(x, y = 2)),
  quoted = quote(quote(x)), block = quote({
    x <- 1
    stop("never evaluated")
  }), assignment = quote(x <- 5),
  bytecode = compiler::compile(quote(undefined_symbol + 1)),
  expression = expression(a + b, stop("never"), c), formula = y ~ x + z,
  pairlist = pairlist(a = 1, 2),
  primitive = sum, special = quote, base_function = paste, closure = closure,
  compiled = compiler::cmpfun(function(x) x + 1),
  global = globalenv(), base = baseenv(), nothing = emptyenv(), namespace = asNamespace("stats"),
  connection_number = 3L, condition = simpleError("an object, not an error"),
  try_error_text = "Error in f(): no error", s4_class = methods::getClass("numeric")
)

test_cluster("values come back as they went, and are to workers what they are here", {
  facts <- function(x) {
    list(
      typeof(x), class(x), attributes(x),
      if (is.atomic(x) || is.list(x)) length(x), if (is.character(x)) Encoding(x),
      if (is.character(x)) lapply(x, charToRaw)
    )
  }
  expect_kept <- function(value, expected, info) {
    if (is.function(expected) && !is.primitive(expected)) {
      expect_equal(value, expected, info = info, ignore_function_env = TRUE)
    } else if (inherits(expected, "formula")) {
      expect_equal(value, expected, info = info, ignore_formula_env = TRUE)
    } else {
      expect_identical(value, expected, info = info)
      if (is.character(expected)) expect_identical(Encoding(value), Encoding(expected), info = info)
    }
  }
  cl <- local_cluster()
  for (name in names(values)) {
    x <- values[[name]]
    for (value in clusterCall(cl, function(x) x, x)) expect_kept(value, x, name)
    expect_identical(clusterCall(cl, typeof, x), rep(list(typeof(x)), 2), info = name)
    if (!inherits(x, "formula")) {
      expect_identical(clusterCall(cl, facts, x)[[1L]], facts(x), info = name)
    }
    for (value in clusterApplyLB(cl, list(x, x, x), function(x) x)) expect_kept(value, x, name)
    expect_kept(clusterMap(cl, function(a, x) x, 1, list(x))[[1L]], x, name)
    expect_kept(parLapply(cl, list(1, 2), function(i, x) x, x)[[2L]], x, name)
  }
})

test_cluster("values are to muster's workers what they are to those of makeCluster()", {
  skip_on_cran()
  cases <- list(
    deparse = function(x) paste(deparse(x), collapse = "\n"),
    identical = function(x) identical(x, x),
    wrapped = function(x) list(x, list(x)),
    str = function(x) utils::capture.output(utils::str(x, give.attr = FALSE))
  )
  # Environments have addresses, and a compiled function prints its own.
  plain <- values[setdiff(names(values), c(
    "global", "base", "nothing", "namespace", "closure", "compiled", "base_function", "s4_class",
    "formula"
  ))]
  expect_as_psock(lapply(cases, function(f) {
    environment(f) <- globalenv()
    function(cl) lapply(plain, function(x) clusterCall(cl, f, x))
  }))
})

test_cluster("environments and closures travel with what is in them", {
  counter <- local({
    count <- 10
    function() {
      count <<- count + 1
      count
    }
  })
  nested <- new.env()
  nested$self <- nested
  nested$value <- 1:3
  cases <- list(
    contents = function(cl) clusterCall(cl, function(e) as.list(e)$value, nested),
    itself = function(cl) clusterCall(cl, function(e) identical(e, e$self), nested),
    # Each call brings a copy.
    counter = function(cl) list(clusterCall(cl, counter), clusterCall(cl, counter)),
    shared = function(cl) {
      clusterCall(cl, function(a, b) identical(a, b), nested, nested)
    },
    changed = function(cl) {
      clusterCall(cl, function(e) e$value <- "changed there", nested)
      nested$value
    },
    returned = function(cl) {
      e <- clusterCall(cl, function() {
        made <- "there"
        environment()
      })[[1L]]
      e$made
    },
    made_there = function(cl) {
      f <- clusterCall(cl, function(n) function(x) x + n, 5)[[2L]]
      f(1)
    }
  )
  answers <- expect_as_psock(cases)
  expect_identical(answers$counter, list(list(11, 11), list(11, 11)))
})

test_cluster("objects of S4 classes and of R5 classes travel", {
  local_globals()
  methods::setClass("MusterPoint", methods::representation(x = "numeric"), where = globalenv())
  defer(function() suppressWarnings(methods::removeClass("MusterPoint", where = globalenv())))
  point <- methods::new("MusterPoint", x = 1:2 / 2)
  expect_as_psock(list(
    slot = function(cl) clusterCall(cl, function(p) p@x, point),
    back = function(cl) clusterCall(cl, identity, point),
    s4 = function(cl) clusterCall(cl, isVirtualClass, "numeric"),
    defined = function(cl) {
      clusterEvalQ(cl, {
        setClass("There", representation(y = "numeric"))
        setGeneric("area", function(s) standardGeneric("area"))
        setMethod("area", "There", function(s) s@y^2)
        area(new("There", y = 3))
      })
    }
  ))
})
