never_asked <- function(logical) stop("detect() must not be asked")

test_that("online CPUs are read from /sys", {
  with_cores_tree(list("cpu/online" = "0-5,7"), function(proc, sys, cpu) {
    expect_identical(cores_system(cores_machine(proc, sys, cpu), never_asked)$count, 7L)
  })
})

test_that("CPUs are counted in /proc/cpuinfo where /sys is missing or can't be read", {
  cpuinfo <- c(
    "processor\t: 0", "model name\t: A processor", "", "processor\t: 1", "model name\t: A processor"
  )
  with_cores_tree(list("proc/cpuinfo" = cpuinfo), function(proc, sys, cpu) {
    expect_identical(cores_system(cores_machine(proc, sys, cpu), never_asked)$count, 2L)
  })
  with_cores_tree(list("proc/cpuinfo" = cpuinfo, "cpu/online" = NULL), function(proc, sys, cpu) {
    expect_identical(cores_system(cores_machine(proc, sys, cpu), never_asked)$count, 2L)
  })
})

test_that("detectCores() is asked only where no file tells, and NA is passed on", {
  with_cores_tree(list(), function(proc, sys, cpu) {
    machine <- cores_machine(proc, sys, cpu)
    expect_identical(cores_system(machine, function(logical) 12L)$count, 12L)
    expect_identical(cores_system(machine, function(logical) NA_integer_)$count, NA_integer_)
  })
})

test_that("an answer of detectCores() that is no count becomes NA, without error or warning", {
  ask <- function(answer) cores_detect(function(logical) answer, new.env())
  expect_identical(ask(8), 8L)
  expect_identical(ask(NA_integer_), NA_integer_)
  expect_identical(ask("many"), NA_integer_)
  expect_identical(ask(0L), NA_integer_)
  expect_identical(ask(integer()), NA_integer_)
  expect_identical(cores_detect(function(logical) stop("no shell"), new.env()), NA_integer_)
  expect_silent(cores_detect(function(logical) as.integer("x"), new.env()))
})

test_that("detectCores() is asked once a session, also when it answers NA", {
  for (answer in c(4L, NA)) {
    asked <- 0L
    memory <- new.env()
    ask <- function(logical) {
      asked <<- asked + 1L
      answer
    }
    expect_identical(cores_detect(ask, memory), answer)
    expect_identical(cores_detect(ask, memory), answer)
    expect_identical(asked, 1L)
  }
})

test_that("this machine's CPUs are those of detectCores()", {
  expected <- parallel::detectCores()
  skip_if(is.na(expected), "detectCores() doesn't know")
  expect_identical(cores_system(cores_machine())$count, expected)
})

test_that("an option stands in for the machine's number, at any time", {
  count <- function(value) {
    with_cores_settings(
      cores_system(cores_machine(), never_asked)$count,
      options = list(parallelly.availableCores.system = value)
    )
  }
  expect_identical(count(192L), 192L)
  expect_identical(count(3.7), 3L)
  expect_identical(count(NA), NA_integer_)
  expect_warning(expect_identical(count(0L), NA_integer_), class = "muster_warning_input")
  env <- c(
    R_PARALLELLY_AVAILABLECORES_SYSTEM = "192", R_PARALLELLY_AVAILABLECORES_METHODS = "system"
  )
  expect_identical(with_cores_settings(availableCores(), env), c(system = 192L))
})

# CPUs 0-3 are two cores of two threads; CPU 4 is one of its own.
threads <- function(file) {
  lists <- c("0,2", "1,3", "0,2", "1,3", "4")
  names <- file.path("cpu", paste0("cpu", 0:4), "topology", file)
  c(list("cpu/online" = "0-4"), stats::setNames(as.list(lists), names))
}

test_that("cores count once where threads don't count", {
  for (file in c("core_cpus_list", "thread_siblings_list")) {
    with_cores_tree(threads(file), function(proc, sys, cpu) {
      count <- function(logical) {
        cores_system(cores_machine(proc, sys, cpu, logical), never_asked)$count
      }
      expect_identical(count(TRUE), 5L)
      expect_identical(count(FALSE), 3L)
    })
  }
})

test_that("detectCores() is asked for cores where no file tells of them", {
  asked <- NULL
  with_cores_tree(list("cpu/online" = "0-3"), function(proc, sys, cpu) {
    detect <- function(logical) {
      asked <<- logical
      2L
    }
    expect_identical(cores_system(cores_machine(proc, sys, cpu, FALSE), detect)$count, 2L)
  })
  expect_false(asked)
})
