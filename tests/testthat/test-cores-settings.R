# What holds for all variables that give a number.

variables <- list(
  Slurm = "SLURM_CPUS_PER_TASK", SGE = "NSLOTS", PBS = c("PBS_NUM_PPN", "NCPUS"),
  LSF = "LSB_DJOB_NUMPROC", PJM = c("PJM_VNODE_CORE", "PJM_PROC_BY_NODE"),
  BiocParallel = "BIOCPARALLEL_WORKER_NUMBER"
)

set <- function(name, value) stats::setNames(value, name)

# The answer of a source, which reads no file of the machine.
ask <- function(method) cores_methods[[method]](NULL)

test_that("a source whose variables aren't set is NA, and says which they are", {
  for (method in names(variables)) {
    expect_silent(answer <- with_cores_settings(ask(method)))
    expect_identical(answer$count, NA_integer_)
    expect_match(answer$reason(), variables[[method]][1L], fixed = TRUE)
  }
})

test_that("whole numbers count, and the reason is the variable with its text", {
  for (method in names(variables)) {
    for (name in variables[[method]]) {
      for (value in c("1", " 6 ", "008")) {
        expect_silent(answer <- with_cores_settings(ask(method), set(name, value)))
        expect_identical(answer$count, as.integer(value))
        expect_identical(answer$reason(), paste0(name, "=\"", trimws(value), "\""))
      }
    }
  }
})

test_that("a variable that is blank is as good as none", {
  for (method in names(variables)) {
    for (value in c("", " \t ")) {
      expect_silent(
        answer <- with_cores_settings(ask(method), set(variables[[method]][1L], value))
      )
      expect_identical(answer$count, NA_integer_)
    }
  }
})

bad <- c("abc", "-1", "0", "1.5", "NA", "4x", "1e3", "0x10", "99999999999", "4,4", "2(x", "\xff")

test_that("a bad value is ignored with a warning", {
  for (method in names(variables)) {
    for (value in if (method == "SGE") bad else bad[c(1L, 2L, 9L)]) {
      expect_warning(
        answer <- with_cores_settings(ask(method), set(variables[[method]][1L], value)),
        class = "muster_warning_input"
      )
      expect_identical(answer$count, NA_integer_)
      expect_match(answer$reason(), "is ignored", fixed = TRUE)
    }
  }
})

test_that("after a bad value the next variable is asked", {
  env <- c(PBS_NUM_PPN = "abc", NCPUS = "3", PJM_VNODE_CORE = "-1", PJM_PROC_BY_NODE = "5")
  with_cores_settings(env = env, {
    expect_warning(pbs <- ask("PBS"), class = "muster_warning_input")
    expect_warning(pjm <- ask("PJM"), class = "muster_warning_input")
  })
  expect_identical(c(pbs$count, pjm$count), c(3L, 5L))
})

test_that("of two variables the first one counts", {
  env <- c(PBS_NUM_PPN = "2", NCPUS = "3", PJM_VNODE_CORE = "4", PJM_PROC_BY_NODE = "5")
  expect_identical(with_cores_settings(ask("PBS")$count, env), 2L)
  expect_identical(with_cores_settings(ask("PJM")$count, env), 4L)
})

test_that("variables count with a prefix where the plain one isn't set", {
  for (prefix in c("R_MUSTER_", "R_PARALLELLY_", "R_FUTURE_")) {
    env <- set(paste0(prefix, "NSLOTS"), "3")
    expect_identical(with_cores_settings(ask("SGE")$count, env), 3L)
    expect_identical(with_cores_settings(ask("SGE")$count, c(env, NSLOTS = "5")), 5L)
  }
})

test_that("the warning names the variable and its value", {
  caught <- tryCatch(
    with_cores_settings(ask("SGE"), c(NSLOTS = "abc")),
    muster_warning_input = identity
  )
  expect_match(conditionMessage(caught), "`NSLOTS` must be a whole number from 1 up, not \"abc\"")
  expect_identical(caught$value, "abc")
})

test_that("a bad value is warned of once, another one anew", {
  with_cores_settings({
    Sys.setenv(NSLOTS = "abc")
    expect_warning(ask("SGE"), class = "muster_warning_input")
    expect_silent(ask("SGE"))
    Sys.setenv(NSLOTS = "-1", PBS_NUM_PPN = "abc")
    expect_warning(ask("SGE"), class = "muster_warning_input")
    expect_warning(ask("PBS"), class = "muster_warning_input")
    Sys.setenv(NSLOTS = "abc")
    expect_silent(ask("SGE"))
  })
})

test_that("a very long bad value is warned of in few words", {
  caught <- tryCatch(
    with_cores_settings(ask("SGE"), c(NSLOTS = strrep("x", 50000L))),
    muster_warning_input = identity
  )
  expect_s3_class(caught, "muster_warning_input")
  expect_lt(nchar(conditionMessage(caught)), 500L)
})

test_that("an option counts with each prefix, ours first, and before any variable", {
  env <- c(R_PARALLELLY_AVAILABLECORES_OMIT = "7")
  options <- list(
    future.availableCores.omit = 3L, parallelly.availableCores.omit = 2L,
    muster.availableCores.omit = 1L
  )
  for (expected in 1:3) {
    value <- with_cores_settings(cores_option("availableCores.omit", 0L), env, options = options)
    expect_identical(value, expected)
    options <- options[-length(options)]
  }
  expect_identical(with_cores_settings(cores_option("availableCores.omit", 0L), env), 7)
})

test_that("variables stand for options, in their type", {
  cases <- list(
    list("OMIT", "2", 0L, 2), list("FRACTION", "0.5", 1, 0.5), list("MAX", "Inf", Inf, Inf),
    list("LOGICAL", "false", TRUE, FALSE),
    list("METHODS", "system, nproc,", "x", c("system", "nproc"))
  )
  for (prefix in c("R_MUSTER_", "R_PARALLELLY_", "R_FUTURE_")) {
    for (case in cases) {
      env <- set(paste0(prefix, "AVAILABLECORES_", case[[1L]]), case[[2L]])
      name <- paste0("availableCores.", tolower(case[[1L]]))
      expect_identical(with_cores_settings(cores_option(name, case[[3L]]), env), case[[4L]])
    }
  }
})

test_that("a variable that isn't of an option's type is ignored with a warning", {
  for (case in list(list("FRACTION", "half", 1), list("LOGICAL", "perhaps", TRUE))) {
    env <- set(paste0("R_MUSTER_AVAILABLECORES_", case[[1L]]), case[[2L]])
    name <- paste0("availableCores.", tolower(case[[1L]]))
    expect_warning(
      value <- with_cores_settings(cores_option(name, case[[3L]]), env),
      class = "muster_warning_input"
    )
    expect_identical(value, case[[3L]])
  }
})
