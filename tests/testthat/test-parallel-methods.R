# muster's classes come before SOCKcluster, so that its methods are those that answer.

test_cluster("muster's classes come first, and SOCKcluster is one of them", {
  cl <- local_cluster(2)
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  own <- makeClusterPSOCK(1)
  defer(function() stopCluster(c(stock, own)))
  kinds <- list(
    cl, cl[2], as.cluster(cl[[1]]), stock, own, c(cl, stock), c(own, stock), c(cl, own),
    makeClusterPSOCK(2, dryrun = TRUE, quiet = TRUE)
  )
  for (kind in kinds) {
    expect_match(class(kind)[1L], "^muster_")
    expect_s3_class(kind, "cluster")
    expect_true(methods::is(kind, "SOCKcluster") && methods::is(kind, "cluster"))
  }
  # S4 code that takes clusters by either class takes ours.
  where <- new.env(parent = asNamespace("muster"))
  holder <- methods::setClass("mustertestholder", where = where,
    representation(one = "SOCKcluster", any = "cluster")
  )
  expect_identical(holder(one = cl, any = cl)@any, cl)
})

test_that("each method that parallel has for its clusters and nodes, muster has for its own", {
  methods <- getNamespaceInfo("parallel", "S3methods")[, 1:2]
  methods <- matrix(as.character(methods), ncol = 2L) # a list on some versions of R
  is_own <- vapply(paste(methods[, 1L], methods[, 2L], sep = "."), exists, NA,
    envir = asNamespace("parallel"), inherits = FALSE)
  methods <- methods[is_own, ] # newer ones tell all packages' methods
  clusters <- c("muster_cluster", "muster_joined")
  nodes <- c("muster_node", "muster_stock_node")
  ours <- list(SOCKcluster = clusters, cluster = clusters, SOCKnode = nodes, SOCK0node = nodes,
    # What isn't made of sockets.
    MPIcluster = NULL, spawnedMPIcluster = NULL, MPInode = NULL, default = NULL)
  expect_identical(setdiff(methods[, 2L], names(ours)), character())
  # parallel's own method shows a cluster of several kinds as one of its own.
  by_parallel <- "print.muster_joined"
  for (i in seq_len(nrow(methods))) {
    for (class in ours[[methods[i, 2L]]]) {
      name <- paste(methods[i, 1L], class, sep = ".")
      found <- utils::getS3method(methods[i, 1L], class, optional = TRUE,
        envir = asNamespace("parallel"))
      if (!name %in% by_parallel) expect_true(is.function(found), label = name)
    }
  }
})

test_cluster("the load-balanced verbs take muster's answers, not bytes of a connection", {
  recv <- getFromNamespace("recvOneData.SOCKcluster", "parallel")
  cl <- local_cluster(2)
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(stock))
  others <- local_psock(1)
  for (one in list(cl, stock, c(cl, stock), c(others, cl), c(stock, others, cl))) {
    expect_identical(unlist(clusterApplyLB(one, 1:20, function(i) i * 2)), 1:20 * 2)
    expect_error(clusterApplyLB(one, 1:3, function(i) stop("no")), "no")
    # By the method itself, too, for which R looks where SOCKcluster is the first class.
    parallel:::sendCall(one[[2L %/% (1L + (length(one) == 1L))]], identity, list(7), tag = 5L)
    answer <- recv(one)
    expect_identical(answer$value$value, 7)
    expect_identical(answer$value$tag, 5L)
    sock <- structure(one, class = c("SOCKcluster", class(one)))
    expect_identical(unlist(clusterApplyLB(sock, 1:20, function(i) i * 2)), 1:20 * 2)
  }
  expect_identical(unlist(parLapplyLB(cl, 1:9, identity)), 1:9)
  cluster_stop(cl[2])
  expect_error(clusterApplyLB(cl, 1:9, identity), "worker 2", class = "muster_error_input")
})

test_cluster("other packages' clusters print and answer as before", {
  others <- local_psock(1)
  expect_output(expect_invisible(print(others)), "^socket cluster with 1 nodes? on host")
  expect_identical(unlist(clusterApplyLB(others, 1:3, identity)), 1:3)
  expect_output(print(local_cluster(1)), "^muster cluster with 1 worker")
  psock <- makeClusterPSOCK(1)
  defer(function() stopCluster(psock))
  expect_output(print(psock), "^Socket cluster with 1 node on")
  expect_output(print(c(others, psock)), "^socket cluster with 2 nodes on host")
})

test_cluster("a node's `con` tells whether an answer is there when it is asked for", {
  cl <- local_cluster(1)
  file <- tempfile()
  defer(function() unlink(file))
  is_there <- function() socketSelect(list(cl[[1L]]$con), FALSE, 0)
  wait_there <- function(file) while (!file.exists(file)) NULL
  parallel:::sendCall(cl[[1L]], wait_there, list(file))
  before <- cl[[1L]]$con
  expect_false(is_there())
  file.create(file)
  wait_until(is_there())
  # As the help says: the connection that was asked for earlier doesn't wake.
  expect_false(socketSelect(list(before), FALSE, 0))
  expect_null(parallel:::recvResult(cl[[1L]]))
})

# Verbs of package snow; doSNOW, which is built on them, is tested in tests/full.

test_cluster("snow's verbs take a cluster", {
  skip_without("snow")
  expect_identical(
    in_new_r(function() {
      cl <- cluster_start(2)
      y <- 4
      snow::clusterExport(cl, "y", environment())
      first <- list(
        snow::clusterApply(cl, 1:3, function(i) i^2),
        snow::clusterApplyLB(cl, 1:9, function(i) i^2),
        snow::clusterEvalQ(cl, y), snow::parSapply(cl, 1:4, function(i) i + 0.5),
        tryCatch(snow::clusterCall(cl, function() stop("no")), error = conditionMessage)
      )
      cluster_stop(cl[2])
      call <- tryCatch(snow::clusterApplyLB(cl, 1:3, identity), error = conditionCall)
      joined <- c(cl[1], makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()"))
      last <- list(as.character(call[[1L]])[3L], snow::clusterApplyLB(joined, 1:5, identity))
      snow::stopCluster(joined)
      c(first, last, format(cl[1]))
    })[1:7],
    list(
      list(1, 4, 9), as.list((1:9)^2), list(4, 4), 1:4 + 0.5,
      "2 nodes produced errors; first error: no", "clusterApplyLB", as.list(1:5)
    )
  )
})

# ---- Generics of packages that may be loaded

test_that("each method for other packages' generics is there, and registered with them", {
  for (package in names(foreign_generics)) {
    for (class in names(foreign_generics[[package]])) {
      generics <- foreign_generics[[package]][[class]]
      methods <- paste(generics, class, sep = ".")
      there <- vapply(methods, exists, NA, envir = asNamespace("muster"), mode = "function")
      expect_true(all(there), info = package)
    }
  }
  # None is forgotten: what is named like a method of these classes is one, of some package.
  listed <- unlist(lapply(unname(foreign_generics), function(classes) {
    Map(function(generics, class) paste(generics, class, sep = "."), classes, names(classes))
  }))
  spaces <- getNamespaceInfo("muster", "S3methods")
  listed <- c(listed, paste(spaces[, 1L], spaces[, 2L], sep = "."))
  classes <- unique(unlist(lapply(foreign_generics, names)))
  named <- grep(paste0("[.](", paste(classes, collapse = "|"), ")$"), value = TRUE,
    ls(asNamespace("muster"), all.names = TRUE))
  expect_gt(length(named), 100)
  expect_identical(setdiff(named, listed), character())
  for (package in Filter(function(p) nzchar(system.file(package = p)), names(foreign_generics))) {
    there <- asNamespace(package)
    for (class in names(foreign_generics[[package]])) {
      # Some are functions of another kind in some versions.
      is_generic <- function(name) "UseMethod" %in% all.names(body(get0(name, there)))
      for (generic in Filter(is_generic, foreign_generics[[package]][[class]])) {
        found <- utils::getS3method(generic, class, optional = TRUE, envir = there)
        expect_identical(found, get(paste(generic, class, sep = "."), asNamespace("muster")),
          info = paste(package, generic, class)
        )
      }
    }
  }
})

# The field's findings, B1: a session whose parallelly, future or dplyr is older than a generic that
# muster has a method for.
test_that("B1: muster loads without a word beside packages that lack its generics", {
  limit_time(120)
  lib <- local_folder()
  sources <- local_folder()
  packages <- c(names(foreign_generics), "foreach")
  for (package in packages) {
    dir.create(file.path(sources, package))
    writeLines(
      c(paste("Package:", package), "Version: 0.1", "Title: Stub", "License: MIT"),
      file.path(sources, package, "DESCRIPTION")
    )
    file.create(file.path(sources, package, "NAMESPACE"))
  }
  R <- function(program, arguments) {
    suppressWarnings(system2(file.path(R.home("bin"), program), arguments,
      stdout = TRUE, stderr = TRUE, env = paste0(
        "R_LIBS=", shQuote(paste(c(lib, .libPaths()), collapse = ":")), " R_PROFILE_USER=/dev/null"
      )
    ))
  }
  R("R", c("CMD", "INSTALL", "--no-docs", "-l", shQuote(lib),
    shQuote(file.path(sources, packages))))
  expect_setequal(list.files(lib), packages)
  muster <- "suppressPackageStartupMessages(library(parallel)); library(muster)"
  work <- "cl <- cluster_start(1); cat(unlist(clusterCall(cl, Sys.getenv, 'none', '7')))"
  for (package in packages) {
    other <- paste0("invisible(loadNamespace('", package, "'))")
    there <- paste0("invisible(clusterCall(cl, loadNamespace, '", package, "'))")
    for (code in list(c(other, muster, work), c(muster, other, work), c(muster, work, there))) {
      said <- R("Rscript", c("--vanilla", "-e", shQuote(paste(code, collapse = "; "))))
      expect_identical(said, "7", info = paste(code, collapse = "; "))
    }
  }
})
