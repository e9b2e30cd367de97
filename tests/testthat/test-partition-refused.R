# Functions of R's own packages that know nothing of handles: each gives the value for the data, or
# is refused.

# Loaded here, since data.table sets options.
tables_there <- requireNamespace("data.table", quietly = TRUE)

# Found otherwise than muster does: also by the methods that R has.
every_generic <- function(package) {
  there <- asNamespace(package)
  names <- if (package == "base") ls(there, all.names = TRUE) else getNamespaceExports(there)
  is_generic <- vapply(names, function(name) {
    fun <- get(name, there)
    is.function(fun) && !is.primitive(fun) && "UseMethod" %in% all.names(body(fun))
  }, NA)
  of_base <- if (package == "base") {
    c(.S3_methods_table[, 1L], getFromNamespace(".get_internal_S3_generics", "tools")())
  }
  own <- ls(asNamespace("muster"), pattern = "[.]muster_partition$", all.names = TRUE)
  own <- sub("[.]muster_partition$", "", own)
  # Their methods are found by other arguments than the first.
  setdiff(intersect(c(names[is_generic], of_base), names), c(own, "@<-", "relist"))
}

# What a function gives, or list(error = its class).
outcome <- function(name, package, x) {
  further <- switch(name, rep.int = , rep_len = list(1L), .DollarNames = list(""))
  if (endsWith(name, "<-")) further <- list(value = 1L)
  tryCatch(suppressWarnings(do.call(getExportedValue(package, name), c(list(x), further))),
    error = function(e) list(error = class(e))
  )
}

test_cluster("Functions of R's own packages don't take a handle for what it isn't", {
  cl <- local_cluster(1)
  data <- data.frame(id = c(1, 2, 2, NA, 5, 5), rows = 1:6)
  p <- partition_scatter(cl, data, parts = 2)

  test_that("each generic has the data's value for a handle, or refuses it", {
    for (package in c("base", "stats", "utils")) {
      generics <- every_generic(package)
      expect_gt(length(generics), 10L)
      for (name in generics) {
        got <- outcome(name, package, p)
        refused <- is.list(got) && "muster_error" %in% got$error
        fine <- refused || identical(got, outcome(name, package, data))
        expect_true(fine, label = paste0(package, "::", name, "() refuses, or its value"))
      }
    }
  })

  test_that("functions made of generics are refused by their names", {
    refused <- list(
      lapply = function(x) lapply(x, class), sapply = function(x) base::sapply(x, class),
      Filter = function(x) Filter(is.numeric, x), apply = function(x) apply(x, 1, sum),
      anyNA = function(x) lapply(list(x), anyNA),
      is.na = function(x) Negate(is.na)(x), with = function(x) with(x, sum(rows)),
      subset = function(x) subset(x, rows > 3), t = t, toString = toString, sum = sum,
      duplicated = duplicated, merge = function(x) merge(x, x), `+` = function(x) x + 1
    )
    for (name in names(refused)) {
      e <- expect_error(refused[[name]](p), class = "muster_error_input")
      expect_identical(conditionCall(e), call(name))
      expect_match(conditionMessage(e), name, fixed = TRUE)
    }
    expect_error(merge(p, p), "partition_join", class = "muster_error_input")
    expect_error(subset(p, rows > 3), "filter", class = "muster_error_input")
    expect_error(levels(p) <- "a", "changed in place", class = "muster_error_input")
    by_element <- list(
      function(x) Map(class, x), function(x) for (i in seq_along(x)) x[[i]],
      function(x) Reduce(c, x)
    )
    for (fun in by_element) expect_error(fun(p), class = "muster_error_input")
    grouped <- with_groups(p, "id")
    for (q in list(grouped, as_rowwise(p, "id"), unserialize(serialize(p, NULL)))) {
      expect_error(anyNA(q), class = "muster_error_input")
      expect_error(lapply(q, class), class = "muster_error_input")
    }
  })

  test_that("what makes a data frame of it has the rows", {
    expect_identical(data.frame(p), data)
    expect_equal(coef(lm(rows ~ id, data = p)), coef(lm(rows ~ id, data = data)))
    expect_identical(capture.output(write.csv(p)), capture.output(write.csv(data)))
  })

  test_that("nothing is found in a handle by code that looks at its type", {
    expect_false(is.list(p) || is.environment(p))
    for (fun in list(unclass, function(x) eval(quote(rows), x), function(x) do.call(sum, x))) {
      expect_error(fun(p))
    }
    if (requireNamespace("purrr", quietly = TRUE)) {
      expect_error(purrr::map(p, class))
      expect_error(purrr::reduce(p, c))
    }
    if (tables_there) {
      expect_error(data.table::setDT(p))
      expect_error(data.table::setDF(p))
    }
    expect_identical(partition_collect(p), data)
  })

  test_that("handles are equal if they stand for the same data", {
    other <- partition_scatter(cl, data, parts = 2)
    expect_true(identical(p, with_groups(with_groups(p, "id"), NULL)))
    expect_false(identical(p, other))
    expect_false(identical(p, with_groups(p, "id")))
  })
})
