# What R's own workers read stands in memory, else in a file, else they aren't started.
source("../full/helper-full.R", local = TRUE, chdir = TRUE)

test_that("a worker's standard input may be a file, and a start that can't write it has a name", {
  skip_if_not(isTRUE(.Call(ffi_build_flags)[2L]), "this build of muster has no fault points")
  limit_time(120)
  run <- run_session(bquote({
    ask <- function(point, errno) {
      .Call(muster:::ffi_fault_arm, point, 1L, errno)
      met <- 0L
      outcome <- outcome_of({
        cl <- tryCatch(
          makeClusterPSOCK(1,
            rscript_call = "parallel:::.workRSOCK()", rscript_envs = c(A = "b c")
          ),
          finally = met <- .Call(muster:::ffi_fault_arm, "", 0L, 0L)
        )
        on.exit(stopCluster(cl))
        stopifnot(identical(clusterCall(cl, Sys.getenv, "A"), list("b c")))
      })
      list(met = met, class = outcome$class, left = list.files(tempdir(), "^stdin-"))
    }
    fds <- function() length(list.files("/proc/self/fd"))
    ask("none", 0L)
    before <- fds()
    tell(memory = ask("share.memfd", 38L), full = ask("share.write", 28L), fds = fds() - before)
  }))
  expect_gt(run$told$memory$met, 0L)
  expect_null(run$told$memory$class)
  expect_gt(run$told$full$met, 0L)
  expect_true(any(startsWith(run$told$full$class, "muster_error_")))
  expect_identical(c(run$told$memory$left, run$told$full$left), character())
  expect_identical(run$told$fds, 0L)
})
