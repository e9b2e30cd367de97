# Packages of the session in workers: a name is found in the package where it is found here.

test_cluster("V7: workers find the functions that the session finds, in search()'s order", {
  for (which in c("one", "two")) {
    code <- sprintf("pick <- only_%s <- function() \"%s\"", which, which)
    local_package(paste0("muster", which), code, exports = c("pick", paste0("only_", which)))
  }
  defer(function() {
    for (name in c("musterone", "mustertwo")) {
      attached <- paste0("package:", name)
      if (attached %in% search()) detach(attached, character.only = TRUE)
      unloadNamespace(name)
    }
  })
  attach_it <- function(name) suppressMessages(library(name, character.only = TRUE))
  both <- function(i) c(pick(), only_one(), only_two())
  one <- function(i) pick()
  none <- function(i) exists("pick")
  environment(both) <- environment(one) <- environment(none) <- globalenv()
  cl <- local_cluster(2)
  attach_it("musterone")
  attach_it("mustertwo") # masks the other's
  expect_identical(cluster_map(cl, 1:2, both), lapply(1:2, both))
  expect_identical(cluster_map(cl, 1:2, one), list("two", "two"))
  # The other way round, in the same workers.
  detach("package:musterone")
  attach_it("musterone")
  expect_identical(one(1), "one")
  expect_identical(cluster_map(cl, 1:2, both), lapply(1:2, both))
  expect_identical(cluster_map(cl, 1:2, one), list("one", "one"))
  expect_identical(task_value(task_submit(cl, both, 1)), both(1))
  p <- partition_scatter(cl, data.frame(k = 1:2), parts = 2L)
  of_parts <- function(d) data.frame(x = pick())
  environment(of_parts) <- globalenv()
  expect_identical(partition_collect(partition_map(p, of_parts))$x, c("one", "one"))
  # What the session doesn't have any more is gone there as well.
  detach("package:musterone")
  expect_identical(cluster_map(cl, 1:2, one), list("two", "two"))
  detach("package:mustertwo")
  expect_identical(cluster_map(cl, 1:2, none), list(FALSE, FALSE))
  # What the user has attached in the workers stays, behind what the session has.
  clusterCall(cl, function(name, libraries) {
    library(name, character.only = TRUE, lib.loc = libraries)
    NULL
  }, "musterone", .libPaths())
  expect_identical(cluster_map(cl, 1:2, one), list("one", "one"))
  attach_it("mustertwo")
  expect_identical(cluster_map(cl, 1:2, one), list("two", "two"))
  detach("package:mustertwo")
  expect_identical(cluster_map(cl, 1:2, one), list("one", "one"))
  attached <- clusterCall(cl, function() grep("^package:muster", search(), value = TRUE))
  expect_identical(attached, rep(list("package:musterone"), 2L))
})

# As of package carrier, and of in_parallel() in purrr.
test_cluster("a crate is a function like others", {
  cl <- local_cluster(2)
  crate <- function(fun, ...) {
    environment(fun) <- list2env(list(...), parent = globalenv())
    structure(fun, class = "crate")
  }
  plus <- crate(function(x) x + a, a = 10)
  expect_identical(cluster_map(cl, 1:4, plus, .value = numeric(1)), 1:4 + 10)
  expect_identical(task_value(task_submit(cl, plus, 3)), 13)
  times <- crate(function(x, y) by(x) * y, by = function(z) 2 * z)
  expect_identical(cluster_pmap(cl, list(1:3, 4:6), times), as.list(2 * 1:3 * 4:6))
})
