status <- function(list) {
  c("Name:\tR", "Cpus_allowed:\tff", paste0("Cpus_allowed_list:\t", list), "Mems_allowed:\t1")
}

test_that("the affinity is read from /proc/self/status", {
  for (case in list(list("0-1", 2L), list("3", 1L), list("0-3,8,10-11", 7L))) {
    with_cores_tree(list("proc/self/status" = status(case[[1L]])), function(proc, sys, cpu) {
      expect_identical(cores_affinity(cores_machine(proc))$count, case[[2L]])
    })
  }
})

test_that("a process named in bytes that this locale can't read does no harm", {
  with_cores_tree(list("proc/self/status" = ""), function(proc, sys, cpu) {
    con <- file(file.path(proc, "self", "status"), "wb")
    writeBin(c(charToRaw("Name:\t"), as.raw(c(0xff, 0xfe, 0x0a))), con)
    writeBin(charToRaw(paste0(status("0-1")[-1L], "\n", collapse = "")), con)
    close(con)
    expect_silent(count <- cores_affinity(cores_machine(proc))$count)
    expect_identical(count, 2L)
    expect_true(all(validEnc(read_kernel_file(file.path(proc, "self", "status")))))
  })
})

test_that("the affinity is NA where the kernel doesn't tell it", {
  with_cores_tree(list(), function(proc, sys, cpu) {
    expect_identical(cores_affinity(cores_machine(proc))$count, NA_integer_)
  })
  for (lines in list("Name:\tR", status(""), status("none"), character(), NULL)) {
    with_cores_tree(list("proc/self/status" = lines), function(proc, sys, cpu) {
      expect_identical(cores_affinity(cores_machine(proc))$count, NA_integer_)
    })
  }
})

test_that("the affinity follows taskset", {
  skip_if(is.na(cores_affinity(cores_machine())$count), "the kernel doesn't tell the affinity")
  before <- parallel::mcaffinity()
  skip_if(is.null(before), "the affinity can't be set here")
  on.exit(parallel::mcaffinity(before))
  parallel::mcaffinity(before[1L])
  expect_identical(cores_affinity(cores_machine())$count, 1L)
  cores <- with_cores_settings(availableCores(methods = c("system", "/proc/self/status")))
  expect_identical(cores[[1L]], 1L)
})

test_that("nproc is the number of CPUs that are allowed and online", {
  cases <- list(
    list("0-3", "0-1", 2L), list("0-3", "0-7", 4L), list("1,3,5", "0-3", 2L),
    list("2-5", "0-3,5", 3L),
    list("0-3,8-11", "2-9", 4L)
  )
  for (case in cases) {
    files <- list("proc/self/status" = status(case[[1L]]), "cpu/online" = case[[2L]])
    with_cores_tree(files, function(proc, sys, cpu) {
      answer <- cores_nproc(cores_machine(proc, sys, cpu), ask = function() stop("not needed"))
      expect_identical(answer$count, case[[3L]])
      expect_match(answer$reason(), case[[1L]], fixed = TRUE)
    })
  }
})

test_that("nproc is what the program says, whatever OpenMP's variables", {
  skip_if(!nzchar(Sys.which("nproc")), "there's no nproc")
  env <- c(OMP_NUM_THREADS = "1", OMP_THREAD_LIMIT = "1")
  from_files <- with_cores_settings(cores_nproc(cores_machine())$count, env)
  from_program <- with_cores_settings(cores_whole(run_nproc()), env)
  expect_identical(from_files, from_program)
})

test_that("without the kernel's files the program is asked once, and may be missing", {
  skip_if(!grepl("^linux", R.version$os), "nproc is asked on Linux only")
  answers <- list("3", " 3 ", character(), "many", "-1")
  expected <- c(3L, 3L, NA, NA, NA)
  with_cores_tree(list(), function(proc, sys, cpu) {
    machine <- cores_machine(proc, sys, cpu)
    for (at in seq_along(answers)) {
      memory <- new.env()
      asked <- 0L
      ask <- function() {
        asked <<- asked + 1L
        answers[[at]]
      }
      expect_identical(cores_nproc(machine, ask, memory)$count, expected[at])
      expect_identical(cores_nproc(machine, ask, memory)$count, expected[at])
      expect_identical(asked, 1L)
    }
    path <- Sys.getenv("PATH")
    on.exit(Sys.setenv(PATH = path))
    Sys.setenv(PATH = tempfile())
    expect_silent(answer <- cores_nproc(machine, memory = new.env()))
    expect_identical(answer$count, NA_integer_)
  })
})
