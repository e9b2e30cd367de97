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

test_that("a file that can't be read is as good as missing, and no connection is left", {
  connections <- rownames(showConnections())
  with_cores_tree(list("proc/dir" = NULL, "proc/secret" = "0-1"), function(proc, sys, cpu) {
    expect_silent(lines <- read_kernel_file(file.path(proc, "dir")))
    expect_identical(lines, character())
    expect_silent(lines <- read_kernel_file(file.path(proc, "none")))
    expect_identical(lines, character())
    secret <- file.path(proc, "secret")
    Sys.chmod(secret, "000")
    # The superuser reads it anyway.
    if (file.access(secret, 4L) != 0L) {
      expect_silent(lines <- read_kernel_file(secret))
      expect_identical(lines, character())
    }
  })
  expect_identical(setdiff(rownames(showConnections()), connections), character())
})

test_that("CPUs that two lists share are counted, however they overlap", {
  local_seed(6)
  text <- function(cpus) {
    runs <- split(cpus, cumsum(c(1L, diff(cpus) != 1L)))
    paste(vapply(runs, function(x) {
      if (length(x) == 1L) paste(x) else paste0(x[1L], "-", x[length(x)])
    }, ""), collapse = ",")
  }
  for (i in 1:20) {
    a <- sort(sample(0:40, sample(1:30, 1L)))
    b <- sort(sample(0:40, sample(1:30, 1L)))
    expect_identical(cpu_list_count(text(a)), length(a))
    expect_identical(cpu_list_expand(text(a)), a)
    expect_identical(cpu_list_common(text(a), text(b)), length(intersect(a, b)))
  }
  expect_identical(cpu_list_common("0-3", "x"), NA_integer_)
  expect_identical(cpu_list_expand("0-999999999"), integer())
})

test_that("lists are kept, but not without end, and long ones not at all", {
  counts <- vapply(0:250, function(first) cpu_list_count(paste0(first, "-", first + 3L)), 1L)
  expect_identical(counts, rep(4L, 251L))
  expect_lte(length(cpu_lists), 100L)
  expect_identical(cpu_list_count("7-10"), 4L)
  expect_identical(cpu_list_count(paste(seq(0, 8000, by = 2), collapse = ",")), 4001L)
})
