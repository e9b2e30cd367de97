# The packages that classes of objects need, in workers and in the session.

# Package Matrix is no dependency, not even of tests. It is loaded here, since it sets options.
of_matrix <- function(name) getExportedValue("Matrix", name)
if (nzchar(system.file(package = "Matrix"))) invisible(of_matrix("Matrix"))

fit_mle <- function() {
  getExportedValue("stats4", "mle")(function(mu = 1) sum((c(1, 2, 3) - mu)^2) / 2)
}

local_loaded <- function(package, library, frame = parent.frame()) {
  loadNamespace(package, library)
  defer(function() unloadNamespace(package), frame)
}

ways_of <- function(cl) {
  list(
    task = function(f, x) task_value(task_submit(cl, f, x)),
    map = function(f, x) cluster_map(cl, list(x), f)[[1L]],
    argument = function(f, x) cluster_map(cl, 1, remote(function(i, f, x) f(x)), f, x)[[1L]]
  )
}

expect_as_here <- function(x, funs) {
  for (fun in funs) {
    for (way in c("task", "map", "argument")) {
      cl <- local_cluster(1)
      expect_equal(ways_of(cl)[[way]](remote(fun), x), fun(x), info = deparse(fun)[1L])
      cluster_stop(cl)
    }
  }
}

test_cluster("the first use of an S4 object of a package is right", {
  skip_without("Matrix")
  m <- of_matrix("Matrix")(c(1, 0, 0, 2), 2, sparse = TRUE)
  expect_as_here(m, list(
    function(x) length(x), function(x) dim(x), function(x) x[1, ], function(x) sum(x),
    function(x) as.matrix(x %*% x), function(x) x + 1
  ))
  expect_as_here(list(a = list(b = m)), list(function(x) dim(x$a$b)))
  expect_as_here(structure(1, of = m, class = "holds"), list(function(x) dim(attr(x, "of"))))
})

test_cluster("so is that of an S4 class of R's own packages, and of one that extends another's", {
  fit <- fit_mle()
  expect_as_here(fit, list(
    function(x) methods::validObject(x),
    function(x) utils::capture.output(methods::show(x))
  ))
  skip_without("Matrix")
  local_globals()
  methods::setClass("Marked", contains = "dgCMatrix", slots = c(mark = "character"),
    where = globalenv())
  defer(function() methods::removeClass("Marked", globalenv()))
  m <- methods::new("Marked", methods::as(of_matrix("Diagonal")(2), "generalMatrix"), mark = "a")
  expect_as_here(m, list(function(x) dim(x), function(x) sum(x), function(x) x@mark))
})

test_cluster("packages are found by the methods that they have registered", {
  library <- local_package("sizes", c(
    ".onLoad <- function(libname, pkgname) {",
    "  registerS3method(\"length\", \"sized\", function(x) 42L, envir = baseenv())",
    "}"
  ))
  local_loaded("sizes", library)
  expect_as_here(structure(list(1), class = "sized"), list(function(x) length(x)))
  expect_identical(packages_for(c(sized = "")), "sizes")
  expect_identical(packages_for(c(data.frame = "", nothing = "")), character())
})

test_cluster("a package with S4 methods for another's class is loaded with it", {
  library <- local_package("counts", c(
    ".onLoad <- function(libname, pkgname) loadNamespace(\"stats4\")",
    "methods::setMethod(\"length\", \"mle\", function(x) 42L)"
  ))
  local_loaded("counts", library)
  fit <- fit_mle()
  expect_setequal(packages_for(c(mle = "stats4")), c("stats4", "counts"))
  expect_as_here(fit, list(function(x) length(x)))
})

test_cluster("values bring their packages into the session", {
  skip_without("Matrix")
  told <- in_new_r(function() {
    cl <- cluster_start(1)
    make <- function(i) getExportedValue("Matrix", "Matrix")(c(i, 0, 0, 2), 2, sparse = TRUE)
    seen <- list(isNamespaceLoaded("Matrix"))
    task <- task_value(task_submit(cl, make, 1))
    seen <- c(seen, dim(task)[1L], isNamespaceLoaded("Matrix"))
    cluster_stop(cl)
    seen
  })
  skip_if(isTRUE(told[[1L]]), "Matrix is loaded by what a session loads")
  expect_identical(told, list(FALSE, 2L, TRUE))
  heard <- in_new_r(function() {
    cl <- cluster_start(1)
    make <- function(i) getExportedValue("Matrix", "Matrix")(c(i, 0, 0, 2), 2, sparse = TRUE)
    dims <- list()
    cluster_map(cl, 1:3, make, .on_result = function(value, i) dims[[i]] <<- dim(value))
    cluster_stop(cl)
    dims
  })
  expect_identical(heard, rep(list(c(2L, 2L)), 3))
  passed <- in_new_r(function() {
    cl <- cluster_start(2)
    make <- function() getExportedValue("Matrix", "Matrix")(c(1, 0, 0, 2), 2, sparse = TRUE)
    task <- task_submit(cl[1], make)
    found <- task_value(task_submit(cl[2], function(x) dim(x), task))
    cluster_stop(cl)
    found
  })
  expect_identical(passed, c(2L, 2L))
})
