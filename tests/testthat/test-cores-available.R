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
    expect_identical(availableCores(methods = env_methods), c(Slurm = 3L))
    Sys.setenv(NSLOTS = "2")
    expect_identical(availableCores(methods = env_methods), c(SGE = 2L))
    options(mc.cores = 0L)
    expect_identical(availableCores(methods = env_methods), c(mc.cores = 1L))
  })
})

test_that("of sources that agree the first in methods gives the name", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores(methods = c("PBS", "Slurm")), c(PBS = 3L))
    expect_identical(availableCores(methods = c("Slurm", "PBS")), c(Slurm = 3L))
  })
})

test_that("which = \"max\" is the greatest answer, which = \"all\" are all of them", {
  with_cores_settings(env = some_env, mc.cores = 5L, {
    expect_identical(availableCores(methods = env_methods, which = "max"), c(SGE = 6L))
    expect_identical(
      availableCores(methods = env_methods, which = "all"),
      c(mc.cores = 5L, Slurm = 3L, SGE = 6L, PBS = 3L)
    )
  })
})

test_that("R CMD check's limit holds whatever the machine has", {
  with_cores_settings(env = c("_R_CHECK_LIMIT_CORES_" = "TRUE", NSLOTS = "64"), {
    expect_lte(availableCores(), 2L)
    expect_identical(availableCores(methods = env_methods), c("_R_CHECK_LIMIT_CORES_" = 2L))
  })
})

test_that("omit leaves at least one core", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores(methods = "SGE", omit = 2), c(SGE = 4L))
    expect_identical(availableCores(methods = "SGE", omit = 6L), c(SGE = 1L))
    expect_identical(availableCores(methods = "SGE", omit = 1000L), c(SGE = 1L))
    expect_identical(
      availableCores(methods = env_methods, which = "all", omit = 4L),
      c(Slurm = 1L, SGE = 2L, PBS = 1L)
    )
  })
})

test_that("where no source speaks there is the current core", {
  with_cores_settings({
    for (which in c("min", "max", "all")) {
      expect_identical(availableCores(methods = env_methods, which = which), c(current = 1L))
      expect_identical(availableCores(methods = character(), which = which), c(current = 1L))
    }
  })
})

test_that("a bad setting never hides the good ones", {
  with_cores_settings(env = c(NSLOTS = "abc", PBS_NUM_PPN = "4"), {
    expect_warning(cores <- availableCores(methods = env_methods), class = "muster_warning_input")
    expect_identical(cores, c(PBS = 4L))
    expect_silent(availableCores(methods = env_methods))
  })
})

test_that("names given to methods don't change the names of sources", {
  with_cores_settings(env = some_env, {
    expect_identical(availableCores(methods = c(mine = "SGE")), c(SGE = 6L))
  })
})

test_that("bad arguments are errors of class muster_error_input", {
  for (methods in list(NA_character_, "", 1, TRUE, list("system"))) {
    expect_error(availableCores(methods = methods), class = "muster_error_input")
  }
  for (which in list("mean", "mi", NULL, NA_character_, 1, c("max", "all"))) {
    expect_error(availableCores(which = which), class = "muster_error_input")
  }
  wrong <- list(NA, NULL, "1", 1:2, TRUE, list(1), -1, NaN)
  for (value in wrong) {
    expect_error(availableCores(omit = value), class = "muster_error_input")
    expect_error(availableCores(max = value), class = "muster_error_input")
    expect_error(availableCores(fraction = value), class = "muster_error_input")
    expect_error(availableCores(default = value), class = "muster_error_input")
  }
  expect_error(availableCores(omit = Inf), class = "muster_error_input")
  expect_error(availableCores(max = 0), class = "muster_error_input")
  expect_error(availableCores(fraction = 0), class = "muster_error_input")
  expect_error(availableCores(fraction = 1.01), class = "muster_error_input")
  expect_error(availableCores(default = 0), class = "muster_error_input")
  for (flag in list(NA, NULL, "yes", 1, c(TRUE, FALSE))) {
    expect_error(availableCores(na.rm = flag), class = "muster_error_input")
    expect_error(availableCores(logical = flag), class = "muster_error_input")
  }
  for (constraints in list(NA_character_, 1, "")) {
    expect_error(availableCores(constraints), class = "muster_error_input")
  }
})

test_that("errors name the argument and the user's call", {
  calls <- expression(
    availableCores(methods = 1), availableCores(which = "x"), availableCores(omit = -1),
    availableCores(fraction = 2), availableCores(max = 0), availableCores(constraints = 1)
  )
  for (code in calls) {
    caught <- tryCatch(eval(code), error = identity)
    expect_identical(as.character(conditionCall(caught)[[1L]]), "availableCores")
    expect_match(conditionMessage(caught), paste0("`", caught$argument, "` must be"), fixed = TRUE)
  }
})

test_that("each default method has a reader of its own", {
  methods <- with_cores_settings(eval(formals(availableCores)$methods, asNamespace("muster")))
  expect_identical(setdiff(methods, names(cores_methods)), "custom")
})

test_that("fraction goes before omit, omit before max, and one core is left", {
  env <- c(NSLOTS = "10")
  count <- function(...) with_cores_settings(availableCores(methods = "SGE", ...), env)
  expect_identical(count(fraction = 0.5), c(SGE = 5L))
  expect_identical(count(fraction = 0.55), c(SGE = 5L))
  expect_identical(count(fraction = 0.7, omit = 1), c(SGE = 6L))
  expect_identical(count(fraction = 0.7, omit = 1, max = 4), c(SGE = 4L))
  expect_identical(count(fraction = 0.01), c(SGE = 1L))
  expect_identical(count(fraction = 0.01, omit = 100), c(SGE = 1L))
  expect_identical(count(max = 3), c(SGE = 3L))
  expect_identical(count(max = 3.9), c(SGE = 3L))
  expect_identical(count(max = 30), c(SGE = 10L))
  expect_identical(count(omit = 1.9), c(SGE = 9L))
})

test_that("options are the arguments' defaults", {
  options <- list(
    muster.availableCores.methods = c("SGE", "PBS"), muster.availableCores.fraction = 0.5,
    muster.availableCores.omit = 1L, muster.availableCores.max = 2L
  )
  with_cores_settings(env = c(NSLOTS = "10", PBS_NUM_PPN = "4"), options = options, {
    expect_identical(availableCores(which = "all"), c(SGE = 2L, PBS = 1L))
    expect_identical(availableCores(max = Inf, which = "max"), c(SGE = 4L))
    expect_identical(availableCores(methods = "PBS", omit = 0), c(PBS = 2L))
  })
})

test_that("methods can be excluded, by names or by one text of names", {
  env <- c(NSLOTS = "2", PBS_NUM_PPN = "3", SLURM_CPUS_PER_TASK = "4")
  count <- function(excludes) {
    with_cores_settings(
      availableCores(methods = env_methods, which = "all"), env,
      options = list(muster.availableCores.methods.excludes = excludes)
    )
  }
  expect_identical(count("SGE"), c(Slurm = 4L, PBS = 3L))
  expect_identical(count(c("SGE", "Slurm")), c(PBS = 3L))
  expect_identical(count("SGE, Slurm,,"), c(PBS = 3L))
  env <- c(env, R_PARALLELLY_AVAILABLECORES_METHODS_EXCLUDES = "SGE,PBS")
  expect_identical(count(NULL), c(Slurm = 4L))
})

test_that("an option raises low numbers and marks them, but not past the machine", {
  env <- c(NSLOTS = "1", PBS_NUM_PPN = "3")
  options <- list(muster.availableCores.min = 2.5, muster.availableCores.system = 8L)
  with_cores_settings(env = env, options = options, {
    methods <- c("SGE", "PBS")
    expect_identical(availableCores(methods = methods, which = "all"), c("SGE*" = 2L, PBS = 3L))
    expect_identical(availableCores(methods = methods), c("SGE*" = 2L))
    expect_identical(availableCores(methods = methods, omit = 1), c("SGE*" = 1L))
  })
  for (wrong in list(0, "2", NA, 1:2, Inf, 9)) {
    options$muster.availableCores.min <- wrong
    with_cores_settings(env = env, options = options, {
      expect_error(availableCores(methods = "SGE"), class = "muster_error_input")
    })
  }
})

test_that("na.rm = FALSE tells of silent sources", {
  with_cores_settings(env = some_env, {
    expect_identical(
      availableCores(methods = env_methods, na.rm = FALSE, which = "all"),
      c(mc.cores = NA, "_R_CHECK_LIMIT_CORES_" = NA, Slurm = 3L, SGE = 6L, PBS = 3L)
    )
    expect_identical(availableCores(methods = env_methods, na.rm = FALSE), c(Slurm = 3L))
    expect_identical(availableCores(methods = "LSF", na.rm = FALSE), c(LSF = NA_integer_))
    expect_identical(availableCores(methods = c("LSF", "PJM"), na.rm = FALSE), c(LSF = NA_integer_))
  })
})

test_that("default is the answer where no source has one", {
  with_cores_settings({
    expect_identical(availableCores(methods = "SGE", default = c(mine = 3)), c(mine = 3L))
    expect_identical(availableCores(methods = "SGE", default = 3L), 3L)
    expect_identical(availableCores(methods = "SGE", default = 3, omit = 1, max = 7), 2L)
  })
})
