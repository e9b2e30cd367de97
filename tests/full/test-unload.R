# unloadNamespace("muster") while objects of muster's are still there: R keeps them, collects them
# later, and hands them to a muster that is loaded again. Each session is one of its own.

# What each session has besides: collections between many allocations, open descriptors of the
# session's, and the class of what each of some calls raises.
unload_prelude <- c(session_prelude, quote({
  collect <- function() {
    for (i in 1:5) {
      kept <- lapply(1:2e4, function(i) as.numeric(i))
      gc()
    }
  }
  descriptors <- function() {
    open <- Sys.readlink(dir("/proc/self/fd", full.names = TRUE))
    sort(grep("^(socket|anon_inode|pipe|/memfd)", open, value = TRUE))
  }
  raised <- function(calls) {
    vapply(calls, function(call) {
      caught <- outcome_of(eval(call, globalenv()))
      if (is.null(caught)) "nothing" else caught$class[1L]
    }, "")
  }
}))

# A session that makes `o` with a cluster `cl`, unloads muster, collects, evaluates `meanwhile`,
# loads muster again, makes the calls of `use`, which are told, and lets go of everything.
expect_outlives <- function(make, use = list(), classes = character(), meanwhile = TRUE) {
  run <- run_session(prelude = unload_prelude, frame = parent.frame(), bquote({
    before <- descriptors()
    cl <- cluster_start(2)
    o <- .(make)
    collect()
    unloadNamespace("muster")
    collect()
    tell(
      children = children(), meanwhile = .(meanwhile), files = list.files(tempdir()),
      descriptors = setdiff(descriptors(), before)
    )
    library(muster)
    collect()
    tell(raised = raised(.(use)), stopped = raised(list(quote(clusterCall(cl, sqrt, 4)))))
    new <- cluster_start(2)
    tell(new = unlist(clusterCall(new, sqrt, 16)))
    tell(again = raised(.(use)))
    rm(o, cl)
    collect()
    tell(still = unlist(clusterCall(new, sqrt, 25)))
  }))
  expect_done(run)
  expect_identical(run$told$children, integer())
  expect_identical(run$told$files, character())
  expect_identical(run$told$descriptors, character())
  expect_true(run$told$meanwhile)
  expect_identical(unname(run$told$raised), classes)
  expect_identical(unname(run$told$again), classes)
  expect_identical(run$told$stopped, "muster_error_input")
  expect_identical(run$told$new, c(4, 4))
  expect_identical(run$told$still, c(5, 5))
  expect_nothing_left(run$session)
  expect_identical(tempdirs_left(run$session), character())
}

test_that("C8: clusters outlive muster in a session, as stopped ones", {
  limit_time(120)
  use <- quote(list(
    quote(clusterEvalQ(o, 1)), quote(parLapply(o, 1:4, sqrt)), quote(task_submit(o, sqrt, 4)),
    quote(cluster_map(o, 1:4, sqrt)), quote(partition_scatter(o, data.frame(k = 1:4))),
    quote(cluster_resize(o, 3)), quote(format(o)), quote(o[[1]]$pid)
  ))
  classes <- c(rep("muster_error_input", 6L), "nothing", "nothing")
  expect_outlives(quote(cl), use, classes)
  expect_outlives(
    quote({
      cluster_stop(cl)
      cl
    }),
    use, classes
  )
})

test_that("C8: tasks outlive muster in a session, done or not, one or many", {
  limit_time(120)
  use <- quote(list(
    quote(task_value(o[[1]])), quote(task_value(o[[length(o)]])), quote(format(o[[1]])),
    quote(task_cancel(o)), quote(task_wait(o, timeout = 0))
  ))
  classes <- c("muster_error_input", "muster_error_input", "nothing", "nothing", "nothing")
  expect_outlives(quote({
    offset <- 1
    done <- task_submit(cl, function(x) x + offset, 4)
    stopifnot(task_value(done) == 5)
    waits <- function() Sys.sleep(600) # tidy: until it is killed
    list(done, task_submit(cl, waits), task_submit(cl, waits), task_submit(cl, waits))
  }), use, classes)
  expect_outlives(quote({
    tasks <- lapply(1:1500, function(i) task_submit(cl, sqrt, i))
    stopifnot(all(task_wait(tasks[1:1400])))
    tasks
  }), use, classes)
})

test_that("C8: sockets outlive muster in a session, as closed ones", {
  limit_time(60)
  expect_outlives(
    quote({
      listener <- socket_listen(0L, "127.0.0.1")
      near <- socket_connect("127.0.0.1", listener$port)
      far <- socket_accept(listener)
      socket_send(near, 1)
      list(listener, near, far)
    }),
    quote(list(
      quote(socket_accept(o[[1]], timeout = 0)), quote(socket_receive(o[[3]])),
      quote(socket_send(o[[2]], 1)), quote(lapply(o, socket_close)), quote(lapply(o, format))
    )),
    c(rep("muster_error_closed", 3L), "nothing", "nothing")
  )
})

test_that("C8: data on the workers outlive muster in a session, as a stopped cluster's", {
  limit_time(60)
  expect_outlives(
    quote({
      p <- partition_scatter(cl, data.frame(k = rep(1:5, 2), x = 1:10))
      q <- partition_map(p, function(d) d)
      stopifnot(nrow(partition_collect(q)) == 10)
      list(p, q)
    }),
    quote(list(
      quote(partition_collect(o[[1]])), quote(partition_map(o[[2]], function(d) d)),
      quote(lapply(o, format))
    )),
    c("muster_error_input", "muster_error_input", "nothing")
  )
})

test_that("C8: workers without muster end when it is unloaded", {
  limit_time(60)
  expect_outlives(
    quote(makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")),
    quote(list(quote(clusterCall(o, sqrt, 4)), quote(format(o)))),
    c("muster_error_lost", "nothing")
  )
})

test_that("C8: values stay what they are when muster is unloaded, in shared memory or not", {
  limit_time(60)
  expect_outlives(
    quote({
      o <- clusterEvalQ(cl, list(1:1e6 + 0, paste0("s", 1:5e5), list(a = 1L)))[[1]]
      is_shared <- getFromNamespace("ffi_share_is", "muster")
      stopifnot(.Call(is_shared, o[[1]]), .Call(is_shared, o[[2]]))
      o
    }),
    meanwhile = quote({
      changed <- o[[1]]
      changed[1] <- 0
      identical(sum(o[[1]]), 500000500000) && identical(changed[1:2], c(0, 2)) &&
        identical(o[[1]][1:2], c(1, 2)) && identical(o[[2]], paste0("s", 1:5e5)) &&
        identical(unserialize(serialize(o, NULL)), o) && identical(o[[3]], list(a = 1L))
    }),
    use = quote(list(quote(stopifnot(sum(o[[1]]) == 500000500000, o[[2]][4e5] == "s400000")))),
    classes = "nothing"
  )
})

# R frees an object without its finalizer if it was made while finalizers run, and another is to run
# after that.
test_that("C8: objects that R frees without a word are no harm at the end", {
  limit_time(60)
  expect_outlives(quote({
    local({
      for (i in 1:4) {
        reg.finalizer(new.env(), function(e) for (k in 1:200) socket_listen(0L, "127.0.0.1"))
      }
    })
    collect()
    collect()
  }))
})

test_that("C8: muster can be unloaded and loaded again and again, with objects of each time", {
  limit_time(120)
  run <- run_session(prelude = unload_prelude, quote({
    kept <- list()
    for (i in 1:5) {
      library(muster)
      cl <- cluster_start(2)
      clusterExport(cl, "kept")
      kept[[i]] <- list(
        cl = cl, task = task_submit(cl, function() kept), listener = socket_listen(0L, "127.0.0.1"),
        p = partition_scatter(cl, data.frame(k = 1:4)),
        x = clusterEvalQ(cl, numeric(1e5) + 1)[[1]]
      )
      unloadNamespace("muster")
      collect()
    }
    library(muster)
    tell(
      sums = vapply(kept, function(one) sum(one$x), 0), children = children(),
      raised = unlist(lapply(kept, function(one) {
        o <<- one
        raised(list(
          quote(clusterCall(o$cl, sqrt, 4)), quote(task_value(o$task)),
          quote(socket_accept(o$listener)), quote(partition_collect(o$p))
        ))
      })),
      loaded = sum(vapply(getLoadedDLLs(), function(dll) dll[["name"]] == "muster", NA))
    )
    rm(kept, o, cl)
    collect()
    tell(new = unlist(clusterCall(cluster_start(2), sqrt, 16)))
  }))
  expect_done(run)
  expect_identical(run$told$sums, rep(1e5, 5))
  expect_identical(run$told$children, integer())
  expect_identical(
    run$told$raised,
    rep(c(rep("muster_error_input", 2L), "muster_error_closed", "muster_error_input"), 5)
  )
  expect_identical(run$told$loaded, 1L)
  expect_identical(run$told$new, c(4, 4))
  expect_nothing_left(run$session)
})

# Another build is this one with a word of its code changed.
test_that("C8: a build that was installed over this one is the one that is loaded again", {
  limit_time(120)
  lib <- withr::local_tempdir()
  file.copy(find.package("muster"), lib, recursive = TRUE)
  run <- run_session(prelude = unload_prelude, env = c(MUSTER_OVER = lib), quote({
    unloadNamespace("muster")
    .libPaths(c(Sys.getenv("MUSTER_OVER"), .libPaths()))
    words <- function() names(.Call(getFromNamespace("ffi_built_with", "muster")))
    install_over <- function(from, to) {
      file <- system.file("libs", "muster.so", package = "muster", lib.loc = .libPaths()[1L])
      new <- paste0(file, ".new")
      system2("sed", c(shQuote(paste0("s/", from, "/", to, "/g")), file), stdout = new)
      file.rename(new, file)
    }
    told_words <- list()
    kept <- list()
    new <- c("parent signal", "PARENT SIGNAL", "PARENT signal", "PARENT signal")
    for (i in seq_along(new)) {
      if (i > 1L && new[i] != new[i - 1L]) install_over(new[i - 1L], new[i])
      library(muster)
      told_words[[i]] <- grep(new[i], words(), value = TRUE)
      cl <- cluster_start(2)
      kept[[i]] <- list(
        cl = cl, task = task_submit(cl, sqrt, 4), x = clusterEvalQ(cl, numeric(1e5) + 1)[[1]]
      )
      unloadNamespace("muster")
      collect()
    }
    library(muster)
    tell(
      words = unlist(told_words), sums = vapply(kept, function(one) sum(one$x), 0),
      raised = unlist(lapply(kept, function(one) {
        o <<- one
        raised(list(quote(clusterCall(o$cl, sqrt, 4)), quote(task_value(o$task))))
      })),
      loaded = sum(vapply(getLoadedDLLs(), function(dll) dll[["name"]] == "muster", NA))
    )
    rm(kept, o, cl)
    collect()
    tell(new = unlist(clusterCall(cluster_start(2), sqrt, 16)))
  }))
  expect_done(run)
  expect_identical(
    run$told$words, c("parent signal", "PARENT SIGNAL", "PARENT signal", "PARENT signal")
  )
  expect_identical(run$told$sums, rep(1e5, 4))
  expect_identical(run$told$raised, rep("muster_error_input", 8L))
  expect_identical(run$told$new, c(4, 4))
  expect_nothing_left(run$session)
})

test_that("C8: a handler may unload muster in the middle of a wait", {
  limit_time(120)
  run <- run_session(prelude = unload_prelude, quote({
    unload_at_loss <- function(code) {
      outcome_of(withCallingHandlers(code, muster_message = function(m) {
        unloadNamespace("muster")
        collect()
        loadNamespace("muster")
        fresh <<- muster::cluster_start(1)
      }))$class[1L]
    }
    told_classes <- character()
    for (i in 1:2) {
      cl <- cluster_start(2)
      other <- task_submit(cl, function() Sys.sleep(600)) # tidy: until it is killed
      told_classes[i] <- unload_at_loss(task_value(
        task_submit(cl, function() tools::pskill(Sys.getpid(), tools::SIGKILL))
      ))
      library(muster)
      tell(
        fresh = unlist(clusterCall(fresh, sqrt, 16)),
        other = raised(list(quote(task_value(other))))
      )
      unloadNamespace("muster")
      tell(children = children(), classes = told_classes)
      collect()
      library(muster)
    }
  }))
  expect_done(run)
  expect_identical(run$told$classes, rep("muster_error_input", 2L))
  expect_identical(run$told$fresh, 4)
  expect_identical(run$told$other, "muster_error_input")
  expect_identical(run$told$children, integer())
  expect_nothing_left(run$session)
})

# R calls the finalizers of what was made later first, so muster's session has ended before.
test_that("C8: a finalizer at R's end that uses muster's objects gets errors", {
  limit_time(60)
  run <- run_session(prelude = NULL, quote({
    class_of <- function(code) tryCatch(class(code), error = function(e) class(e)[1L])
    reg.finalizer(globalenv(), onexit = TRUE, function(e) {
      gc()
      writeLines(c(
        class_of(parallel::clusterCall(cl, sqrt, 4)), class_of(muster::task_value(task))
      ))
    })
    suppressPackageStartupMessages(library(muster))
    cl <- cluster_start(1)
    task <- task_submit(cl, sqrt, 4)
    invisible(task_value(task))
  }))
  expect_identical(run$status, 0L, info = describe_run(run))
  expect_identical(run$stdout, "muster_error_input\nmuster_error_input")
  expect_nothing_left(run$session)
})
