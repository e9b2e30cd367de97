env_methods <- c("mc.cores", "_R_CHECK_LIMIT_CORES_", "Slurm", "SGE", "PBS")

some_env <- c(NSLOTS = "6", SLURM_CPUS_PER_TASK = "3", PBS_NUM_PPN = "3")

test_that("the result is one named integer from 1 up", {
  cores <- with_cores_settings(availableCores())
  expect_type(cores, "integer")
  expect_length(cores, 1L)
  expect_gte(cores, 1L)
  expect_true(names(cores) %in% eval(formals(availableCores)$methods))
})

test_that("the least answer wins, and its source gives the name", {
  with_cores_settings(env = some_env, mc.cores = 5L, {
    expect_identical(availableCores(env_methods), c(Slurm = 3L))
    Sys.setenv(NSLOTS = "2")
    expect_identical(availableCores(env_methods), c(SGE = 2L))
    options(mc.cores = 0L)
    expect_identical(availableCores(env_methods), c(mc.cores = 1L))
  })
})

test_that("of sources that agree the first in methods gives the name", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores(c("PBS", "Slurm")), c(PBS = 3L))
    expect_identical(availableCores(c("Slurm", "PBS")), c(Slurm = 3L))
  })
})

test_that("which = \"max\" is the greatest answer, which = \"all\" are all of them", {
  with_cores_settings(env = some_env, mc.cores = 5L, {
    expect_identical(availableCores(env_methods, which = "max"), c(SGE = 6L))
    expect_identical(
      availableCores(env_methods, which = "all"),
      c(mc.cores = 5L, Slurm = 3L, SGE = 6L, PBS = 3L)
    )
  })
})

test_that("R CMD check's limit holds whatever the machine has", {
  with_cores_settings(env = c("_R_CHECK_LIMIT_CORES_" = "TRUE", NSLOTS = "64"), {
    expect_lte(availableCores(), 2L)
    expect_identical(availableCores(env_methods), c("_R_CHECK_LIMIT_CORES_" = 2L))
  })
})

test_that("omit leaves at least one core", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores("SGE", omit = 2), c(SGE = 4L))
    expect_identical(availableCores("SGE", omit = 6L), c(SGE = 1L))
    expect_identical(availableCores("SGE", omit = 1000L), c(SGE = 1L))
    expect_identical(
      availableCores(env_methods, which = "all", omit = 4L), c(Slurm = 1L, SGE = 2L, PBS = 1L)
    )
  })
})

test_that("where no source speaks there is the current core", {
  with_cores_settings({
    for (which in c("min", "max", "all")) {
      expect_identical(availableCores(env_methods, which = which), c(current = 1L))
      expect_identical(availableCores(character(), which = which), c(current = 1L))
    }
  })
})

test_that("a bad setting never hides the good ones", {
  with_cores_settings(env = c(NSLOTS = "abc", PBS_NUM_PPN = "4"), {
    expect_warning(cores <- availableCores(env_methods), class = "muster_warning_input")
    expect_identical(cores, c(PBS = 4L))
    expect_silent(availableCores(env_methods))
  })
})

test_that("names given to methods don't change the names of sources", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores(c(mine = "SGE")), c(SGE = 6L))
  })
})

test_that("bad arguments are errors of class muster_error_input", {
  for (methods in list("nproc", "system ", NA_character_, "", 1, TRUE, list("system"))) {
    expect_error(availableCores(methods), class = "muster_error_input")
  }
  for (which in list("mean", "mi", NULL, NA_character_, 1, c("max", "all"))) {
    expect_error(availableCores(which = which), class = "muster_error_input")
  }
  for (omit in list(-1, 1.5, NA, NULL, "1", 1:2, Inf)) {
    expect_error(availableCores(omit = omit), class = "muster_error_input")
  }
})

test_that("errors name the argument and the user's call", {
  calls <- expression(
    availableCores("x"), availableCores(which = "x"), availableCores(omit = -1)
  )
  for (code in calls) {
    caught <- tryCatch(eval(code), error = identity)
    expect_identical(as.character(conditionCall(caught)[[1L]]), "availableCores")
    expect_match(conditionMessage(caught), paste0("`", caught$argument, "` must be"), fixed = TRUE)
  }
})

test_that("each default method has a reader, and each reader is a default method", {
  expect_identical(eval(formals(availableCores)$methods), names(cores_methods))
})

test_that("arguments have parallelly's names, in its order", {
  peer <- names(formals(cores_oracle()))
  ours <- names(formals(availableCores))
  expect_identical(ours, peer[peer %in% ours])
})

test_that("this machine's own limits count as in parallelly", {
  with_cores_settings({
    skip_if(!file.exists("/proc/self/status"), "parallelly reads Cpus_allowed_list from /proc only")
    expected <- cores_oracle()(methods = c("system", "/proc/self/status"), which = "all")
    names(expected)[names(expected) == "/proc/self/status"] <- "affinity"
    expect_identical(availableCores(c("system", "affinity"), which = "all"), expected)
  })
})

test_that("min, max, all and omit choose as in parallelly", {
  limit <- c("_R_CHECK_LIMIT_CORES_" = "warn")
  settings <- list(some_env, c(NSLOTS = "1"), c(some_env, limit), character())
  for (env in settings) {
    for (mc in list(NULL, 0L, 5L)) {
      for (which in c("min", "max", "all")) {
        with_cores_settings(env = env, mc.cores = mc, {
          peer <- cores_oracle()
          for (omit in c(0L, 1L, 4L, 100L)) {
            expect_identical(
              availableCores(env_methods, which = which, omit = omit),
              peer(methods = env_methods, which = which, omit = omit)
            )
          }
        })
      }
    }
  }
})
