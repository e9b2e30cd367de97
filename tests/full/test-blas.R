# BLAS libraries with threads of their own, which must not keep workers from being forked
# nor hang in them: Debian's OpenBLAS with pthreads and with OpenMP, unpacked in the
# folders pthread/ and openmp/ of MUSTER_TEST_BLAS.

# The folder with this one's libblas.so.3.
blas_folder <- function(variant) {
  base <- Sys.getenv("MUSTER_TEST_BLAS")
  skip_if(base == "", "MUSTER_TEST_BLAS names no folder with other BLAS libraries")
  files <- list.files(file.path(base, variant), "^libblas[.]so[.]3$", recursive = TRUE,
    full.names = TRUE)
  skip_if_not(length(files) > 0L, paste("there is no libblas.so.3 for", variant))
  dirname(normalizePath(files[1L]))
}

# Runs code in a session that uses this BLAS. `right` is crossprod(x) computed without it.
blas_session <- function(variant, code, env = character(), frame = parent.frame()) {
  folder <- blas_folder(variant)
  # R's shell script puts this one in front of LD_LIBRARY_PATH.
  path <- paste(c(folder, R.home("lib")), collapse = ":")
  env <- c(R_LD_LIBRARY_PATH = path, env)
  run <- run_session(env = env, frame = frame, timeout_s = 120, bquote({
    set.seed(1)
    x <- matrix(runif(500 * 500), 500)
    right <- vapply(1:500, function(j) colSums(x * x[, j]), numeric(500))
    is_right <- local({
      right <- right
      function(y) isTRUE(all.equal(y, right, tolerance = 1e-12))
    })
    tasks <- function() length(list.files("/proc/self/task"))
    maps <- grep("libopenblas", readLines("/proc/self/maps"), value = TRUE, fixed = TRUE)
    tell(loaded = any(grepl(.(folder), maps, fixed = TRUE)), session_right = is_right(crossprod(x)))
    # Of one worker: is the product right, threads before and after it, what BLAS says.
    work <- function(x, is_right, tasks) {
      before <- tasks()
      list(
        right = all(vapply(1:5, function(i) is_right(crossprod(x)), NA)), before = before,
        after = tasks(), count = .Call(muster:::ffi_threads_count)[2],
        maps = length(grep("libopenblas", readLines("/proc/self/maps"), fixed = TRUE)) > 0
      )
    }
    .(code)
  }))
  if (isFALSE(run$told$loaded)) skip("R has a BLAS that can't be replaced this way")
  expect_done(run)
  expect_true(run$told$session_right)
  expect_nothing_left(run$session)
  run
}

# One thread is R's and one is muster's; what is more is the BLAS's.
expect_work <- function(answers, threads) {
  for (answer in answers) {
    expect_true(answer$right)
    expect_true(answer$maps)
    expect_identical(answer$count, threads)
    if (threads == 1L) {
      expect_identical(c(answer$before, answer$after), c(2L, 2L))
    } else {
      expect_identical(answer$after, threads + 1L)
    }
  }
}

for (variant in c("pthread", "openmp")) local({
  variant <- variant

  test_that(paste("workers are forked with OpenBLAS of", variant, "and compute right"), {
    limit_time(180)
    run <- blas_session(variant, quote({
      # Named, so that a refusal would be an error.
      one <- cluster_start(3, start = "fork")
      tell(one = clusterCall(one, work, x, is_right, tasks))
      two <- cluster_start(3, start = "fork", threads = 2)
      tell(two = clusterCall(two, work, x, is_right, tasks))
      # Both clusters at the same time, again after a use of the session's own threads.
      crossprod(x)
      tell(again = clusterCall(
        c(one, two), function(x, is_right) is_right(crossprod(x)), x, is_right
      ))
      later <- cluster_start(2, start = "fork")
      tell(
        later = clusterCall(later, work, x, is_right, tasks),
        solved = unlist(clusterCall(later, function(x) {
          max(abs(solve(x) %*% x - diag(nrow(x)))) < 1e-6
        }, x))
      )
      for (cl in list(one, two, later)) stopCluster(cl)
    }))
    expect_work(run$told$one, 1L)
    expect_work(run$told$two, 2L)
    expect_work(run$told$later, 1L)
    expect_true(all(unlist(run$told$again)))
    expect_true(all(run$told$solved))
  })

  test_that(paste("`threads` holds for spawned workers with OpenBLAS of", variant), {
    limit_time(180)
    run <- blas_session(variant, quote({
      for (threads in 1:2) {
        cl <- cluster_start(2, start = "spawn", threads = threads)
        answers <- clusterCall(cl, work, x, is_right, tasks)
        do.call(tell, structure(list(answers), names = c("one", "two")[threads]))
        stopCluster(cl)
      }
    }))
    for (answer in run$told$one) expect_identical(answer$count, 1L)
    for (answer in run$told$two) expect_identical(answer$count, 2L)
    expect_true(all(vapply(c(run$told$one, run$told$two), `[[`, NA, "right")))
  })

  test_that(paste("the session's own number of threads of", variant, "isn't passed on"), {
    limit_time(120)
    run <- blas_session(variant, env = c(OPENBLAS_NUM_THREADS = "2", OMP_NUM_THREADS = "2"), quote({
      cl <- cluster_start(2, start = "fork")
      tell(
        one = clusterCall(cl, work, x, is_right, tasks),
        variables = unique(clusterEvalQ(cl, Sys.getenv("OMP_NUM_THREADS"))),
        own = Sys.getenv(c("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), names = FALSE)
      )
      stopCluster(cl)
    }))
    expect_work(run$told$one, 1L)
    expect_identical(run$told$variables, list("1"))
    expect_identical(run$told$own, c("2", "2"))
  })
})
