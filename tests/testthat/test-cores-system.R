test_that("CPU lists of the kernel are counted", {
  expect_identical(cpu_list_count("0"), 1L)
  expect_identical(cpu_list_count("0-3"), 4L)
  expect_identical(cpu_list_count("0-3,8,10-11"), 7L)
  expect_identical(cpu_list_count("128-255"), 128L)
})

test_that("what isn't a CPU list is NA", {
  wrong <- c(
    "", " ", "a", "-1", "0-", "0,", ",0", "0--1", "3-0", "0-3,2", "1,1", "4,0", "1.5", "0x1",
    "0 - 3", "99999999999", NA
  )
  for (text in wrong) {
    expect_identical(cpu_list_count(text), NA_integer_, info = text)
  }
  expect_identical(cpu_list_count(character()), NA_integer_)
  expect_identical(cpu_list_count(c("0", "1")), NA_integer_)
})

never_asked <- function() stop("detect() must not be asked")

test_that("online CPUs are read from /sys", {
  with_cores_tree(list("cpu/online" = "0-5,7"), function(proc, sys, cpu) {
    expect_identical(cores_system(proc, cpu, never_asked), 7L)
  })
})

test_that("CPUs are counted in /proc/cpuinfo where /sys is missing or can't be read", {
  cpuinfo <- c(
    "processor\t: 0", "model name\t: A processor", "", "processor\t: 1", "model name\t: A processor"
  )
  with_cores_tree(list("proc/cpuinfo" = cpuinfo), function(proc, sys, cpu) {
    expect_identical(cores_system(proc, cpu, never_asked), 2L)
  })
  with_cores_tree(list("proc/cpuinfo" = cpuinfo, "cpu/online" = NULL), function(proc, sys, cpu) {
    expect_identical(cores_system(proc, cpu, never_asked), 2L)
  })
})

test_that("detectCores() is asked only where no file tells, and NA is passed on", {
  with_cores_tree(list(), function(proc, sys, cpu) {
    expect_identical(cores_system(proc, cpu, function() 12L), 12L)
    expect_identical(cores_system(proc, cpu, function() NA_integer_), NA_integer_)
  })
})

test_that("an answer of detectCores() that is no count becomes NA, without error or warning", {
  ask <- function(answer) cores_detect(function() answer, new.env())
  expect_identical(ask(8), 8L)
  expect_identical(ask(NA_integer_), NA_integer_)
  expect_identical(ask("many"), NA_integer_)
  expect_identical(ask(0L), NA_integer_)
  expect_identical(ask(integer()), NA_integer_)
  expect_identical(cores_detect(function() stop("no shell"), new.env()), NA_integer_)
  expect_silent(cores_detect(function() as.integer("x"), new.env()))
})

test_that("detectCores() is asked once a session, also when it answers NA", {
  for (answer in c(4L, NA)) {
    asked <- 0L
    memory <- new.env()
    ask <- function() {
      asked <<- asked + 1L
      answer
    }
    expect_identical(cores_detect(ask, memory), answer)
    expect_identical(cores_detect(ask, memory), answer)
    expect_identical(asked, 1L)
  }
})

status <- function(list) {
  c("Name:\tR", "Cpus_allowed:\tff", paste0("Cpus_allowed_list:\t", list), "Mems_allowed:\t1")
}

test_that("the affinity is read from /proc/self/status", {
  for (case in list(list("0-1", 2L), list("3", 1L), list("0-3,8,10-11", 7L))) {
    with_cores_tree(list("proc/self/status" = status(case[[1L]])), function(proc, sys, cpu) {
      expect_identical(cores_affinity(proc), case[[2L]])
    })
  }
})

test_that("a process named in bytes that this locale can't read does no harm", {
  with_cores_tree(list("proc/self/status" = ""), function(proc, sys, cpu) {
    con <- file(file.path(proc, "self", "status"), "wb")
    writeBin(c(charToRaw("Name:\t"), as.raw(c(0xff, 0xfe, 0x0a))), con)
    writeBin(charToRaw(paste0(status("0-1")[-1L], "\n", collapse = "")), con)
    close(con)
    expect_silent(count <- cores_affinity(proc))
    expect_identical(count, 2L)
    expect_true(all(validEnc(read_kernel_file(file.path(proc, "self", "status")))))
  })
})

test_that("the affinity is NA where the kernel doesn't tell it", {
  with_cores_tree(list(), function(proc, sys, cpu) {
    expect_identical(cores_affinity(proc), NA_integer_)
  })
  for (lines in list("Name:\tR", status(""), status("none"), character(), NULL)) {
    with_cores_tree(list("proc/self/status" = lines), function(proc, sys, cpu) {
      expect_identical(cores_affinity(proc), NA_integer_)
    })
  }
})

test_that("a file that can't be read is as good as missing, and no connection is left", {
  connections <- rownames(showConnections())
  with_cores_tree(list("proc/dir" = NULL, "proc/secret" = "0-1"), function(proc, sys, cpu) {
    expect_silent(lines <- read_kernel_file(file.path(proc, "dir")))
    expect_identical(lines, character())
    expect_silent(lines <- read_kernel_file(file.path(proc, "none")))
    expect_identical(lines, character())
    secret <- file.path(proc, "secret")
    Sys.chmod(secret, "000")
    # The superuser reads it all the same.
    if (file.access(secret, 4L) != 0L) {
      expect_silent(lines <- read_kernel_file(secret))
      expect_identical(lines, character())
    }
  })
  expect_identical(setdiff(rownames(showConnections()), connections), character())
})

test_that("this machine's CPUs are those of detectCores()", {
  expected <- parallel::detectCores()
  skip_if(is.na(expected), "detectCores() doesn't know")
  expect_identical(cores_system(), expected)
})

test_that("the affinity follows taskset", {
  skip_if(is.na(cores_affinity()), "the kernel doesn't tell the affinity")
  before <- parallel::mcaffinity()
  skip_if(is.null(before), "the affinity can't be set here")
  on.exit(parallel::mcaffinity(before))
  parallel::mcaffinity(before[1L])
  expect_identical(cores_affinity(), 1L)
  expect_identical(with_cores_settings(availableCores(c("system", "affinity")))[[1L]], 1L)
})
