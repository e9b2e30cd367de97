job_methods <- c("LSF", "PJM", "PBS", "SGE", "Slurm", "custom")

workers <- function(env = character(), ..., methods = job_methods, options = list(),
                    mc.cores = NULL) {
  with_cores_settings(availableWorkers(methods = methods, ...), env, mc.cores, options)
}

# Calls test(path) with a file of these lines.
with_lines <- function(lines, test) {
  path <- tempfile("cores-hosts-")
  on.exit(unlink(path))
  writeLines(lines, path, useBytes = TRUE)
  test(path)
}

test_that("outside of jobs this machine is listed for each core", {
  with_cores_settings({
    expect_identical(availableWorkers(), rep("localhost", min(availableCores())))
    here <- rep("localhost", availableCores(methods = "system"))
    expect_identical(availableWorkers(methods = "system"), here)
    expect_identical(availableWorkers(methods = "system", max = 1), "localhost")
  })
})

test_that("where no source speaks there is the default", {
  for (which in c("auto", "min", "max")) {
    expect_identical(workers(which = which), "localhost")
    expect_identical(workers(which = which, default = c("a", "b")), c("a", "b"))
    expect_identical(workers(which = which, methods = character()), "localhost")
  }
  silent <- workers(which = "all", methods = c("SGE", "PBS"))
  expect_identical(silent, list(SGE = character(), PBS = character()))
})

test_that("auto takes the first source, and the least of those that speak of this machine", {
  methods <- c("mc.cores", "SGE", "_R_CHECK_LIMIT_CORES_", "MUSTER_TEST_ANY")
  env <- c(NSLOTS = "5", "_R_CHECK_LIMIT_CORES_" = "TRUE")
  expect_length(workers(env, methods = methods, mc.cores = 9L), 2L)
  expect_length(workers(env, methods = methods, mc.cores = 1L), 1L)
  expect_length(workers(env, methods = methods), 5L)
  hosts <- c(env, MUSTER_TEST_ANY = "a b")
  expect_identical(workers(hosts, methods = rev(methods)), c("a", "b"))
})

test_that("auto heeds each limit of this machine, whichever comes first", {
  files <- list(
    "proc/self/cgroup" = "0::/a", "sys/a/cpu.max" = "300000 100000",
    "sys/a/cpuset.cpus.effective" = "0-4", "cpu/online" = "0-7",
    "proc/self/status" = "Cpus_allowed_list:\t0-4"
  )
  with_cores_tree(files, function(proc, sys, cpu) {
    with_cores_places(proc = proc, sys = sys, cpu = cpu, {
      expect_length(with_cores_settings(availableWorkers()), 3L)
      expect_length(with_cores_settings(availableWorkers(), mc.cores = 6L), 3L)
      expect_length(with_cores_settings(availableWorkers(), c(NSLOTS = "6")), 6L)
    })
  })
})

test_that("min and max take the shortest and the longest list, silent sources aside", {
  env <- c(LSB_HOSTS = "a b c", NSLOTS = "2", SLURM_CPUS_PER_TASK = "2")
  expect_identical(workers(env, which = "min"), c("localhost", "localhost"))
  expect_identical(workers(env, which = "max"), c("a", "b", "c"))
})

test_that("the fallback counts where only the machine speaks, and sees no limit", {
  options <- list(muster.availableCores.fallback = 1L, muster.availableCores.system = 4L)
  methods <- c("SGE", "_R_CHECK_LIMIT_CORES_", "system", "fallback")
  expect_length(workers(methods = methods, options = options), 1L)
  expect_length(workers(c(NSLOTS = "3"), methods = methods, options = options), 3L)
  expect_length(workers(c("_R_CHECK_LIMIT_CORES_" = "1"), methods = methods, options = options), 2L)
})

test_that("LSF: pairs are read where the list isn't set", {
  expect_identical(workers(c(LSB_MCPU_HOSTS = "b 2 a 1 ")), c("b", "b", "a"))
  expect_identical(workers(c(LSB_MCPU_HOSTS = "b 2", LSB_HOSTS = "a")), "a")
  for (wrong in c("a", "a b", "a 1 b", "a 0", "a -1", "a 99999999999")) {
    expect_warning(
      expect_identical(workers(c(LSB_MCPU_HOSTS = wrong)), "localhost"),
      class = "muster_warning_input"
    )
  }
})

test_that("PBS: the file's lines are sorted, blank ones skipped", {
  with_lines(c("n2", "", " n1 ", "n2", ""), function(path) {
    expect_silent(hosts <- workers(c(PBS_NODEFILE = path)))
    expect_identical(hosts, c("n1", "n2", "n2"))
  })
})

test_that("PBS: other variables that contradict the file are warned of, once", {
  with_lines(c("n1", "n2"), function(path) {
    for (env in list(c(PBS_NP = "3"), c(PBS_NUM_NODES = "2", PBS_NUM_PPN = "2"))) {
      with_cores_settings(env = c(PBS_NODEFILE = path, env), {
        expect_warning(hosts <- availableWorkers(methods = "PBS"), class = "muster_warning_input")
        expect_identical(hosts, c("n1", "n2"))
        expect_silent(availableWorkers(methods = "PBS"))
      })
    }
  })
})

test_that("SGE: fewer slots in the file than granted are warned of", {
  with_lines(c("n1 2 q u", "n2 1"), function(path) {
    env <- c(PE_HOSTFILE = path, NSLOTS = "4")
    expect_warning(hosts <- workers(env), class = "muster_warning_input")
    expect_identical(hosts, c("n1", "n1", "n2"))
    expect_silent(workers(c(env[1L], NSLOTS = "3")))
    expect_silent(workers(env[1L]))
  })
})

test_that("files that can't be understood are ignored with a warning", {
  cases <- list(
    list("PBS_NODEFILE", c("n1", "n 3")), list("PE_HOSTFILE", "n1"), list("PE_HOSTFILE", "n1 x"),
    list("PE_HOSTFILE", "n1 0"), list("PE_HOSTFILE", "n1 99999999999"),
    list("PE_HOSTFILE", "n1 1000001"), list("PJM_O_NODEINF", "n1 2")
  )
  for (case in cases) {
    with_lines(case[[2L]], function(path) {
      env <- stats::setNames(path, case[[1L]])
      expect_warning(hosts <- workers(env), class = "muster_warning_input")
      expect_identical(hosts, "localhost")
    })
  }
  for (variable in c("PBS_NODEFILE", "PE_HOSTFILE", "PJM_O_NODEINF")) {
    with_lines(character(), function(path) {
      hosts <- suppressWarnings(workers(stats::setNames(path, variable)))
      expect_identical(hosts, "localhost")
    })
    # A directory is no file.
    expect_warning(
      hosts <- workers(stats::setNames(tempdir(), variable)), class = "muster_warning_input"
    )
    expect_identical(hosts, "localhost")
  }
})

test_that("PJM: the file's order is kept, and an unknown number of cores is one", {
  with_lines(c("n2", "n1"), function(path) {
    env <- c(PJM_O_NODEINF = path)
    expect_identical(workers(c(env, PJM_VNODE_CORE = "2")), c("n2", "n2", "n1", "n1"))
    expect_warning(expect_identical(workers(env), c("n2", "n1")), class = "muster_warning_input")
    expect_warning(
      workers(c(env, PJM_VNODE_CORE = "2", PJM_VNODE = "3")), class = "muster_warning_input"
    )
  })
})

test_that("Slurm: numbers of workers past all reason are ignored with a warning", {
  env <- c(SLURM_JOB_NODELIST = "n1", SLURM_JOB_CPUS_PER_NODE = "999999999")
  expect_warning(expect_identical(workers(env), "localhost"), class = "muster_warning_input")
})

test_that("a custom function lists hosts, and may ask for the others", {
  name <- "muster.availableWorkers.custom"
  three <- function() c("n1", "n1", "n2")
  expect_identical(workers(options = stats::setNames(list(three), name)), three())
  again <- function() rev(availableWorkers(methods = c("custom", "LSF")))
  expect_identical(
    workers(c(LSB_HOSTS = "a b"), methods = "custom", options = stats::setNames(list(again), name)),
    c("b", "a")
  )
  missing <- function() c("n1", NA)
  expect_identical(workers(options = stats::setNames(list(missing), name)), "n1")
  for (value in list(list("a"), "", mean)) {
    wrong <- stats::setNames(list(function() value), name)
    expect_error(workers(options = wrong), class = "muster_error_input")
  }
})

test_that("a method that is no other's name is an option or variable, of hosts or a number", {
  count <- function(env, options = list()) {
    expect_silent(hosts <- workers(env, methods = "MUSTER_TEST_ANY", options = options))
    hosts
  }
  expect_identical(count(c(MUSTER_TEST_ANY = "h1,h2 h3")), c("h1", "h2", "h3"))
  expect_identical(count(c(MUSTER_TEST_ANY = "2")), c("localhost", "localhost"))
  options <- list(MUSTER_TEST_ANY = c("a", "b c"))
  expect_identical(count(c(MUSTER_TEST_ANY = "x"), options), c("a", "b", "c"))
  expect_identical(count(character()), "localhost")
})

test_that("this machine's name and the methods can be set", {
  options <- list(
    parallelly.localhost.hostname = "me", muster.availableWorkers.methods = c("SGE", "LSF"),
    muster.availableWorkers.methods.excludes = "LSF"
  )
  with_cores_settings(env = c(NSLOTS = "2", LSB_HOSTS = "a"), options = options, {
    expect_identical(availableWorkers(), c("me", "me"))
    expect_identical(availableWorkers(which = "all"), list(SGE = c("me", "me")))
  })
})

test_that("numbers that an option raises are workers too", {
  options <- list(muster.availableCores.min = 2L, muster.availableCores.system = 4L)
  expect_identical(
    workers(c(NSLOTS = "1"), methods = "SGE", which = "all", options = options),
    list(SGE = c("localhost", "localhost"))
  )
})

test_that("bad arguments are errors of class muster_error_input", {
  for (default in list(NULL, character(), NA_character_, "", 1)) {
    expect_error(availableWorkers(default = default), class = "muster_error_input")
  }
  expect_error(availableWorkers(which = "least"), class = "muster_error_input")
  expect_error(availableWorkers(methods = 1), class = "muster_error_input")
  expect_error(availableWorkers(constraints = NA), class = "muster_error_input")
  expect_error(availableWorkers(omit = -1), class = "muster_error_input")
})

test_that("random bytes in variables and files give hosts or a warning, and no error", {
  local_seed(33)
  bytes <- as.raw(c(0x20, 0x2c, 0x09, 0x31, 0x61, 0x5b, 0x5d, 0x2d, 0x28, 0x78, 0x29, 0xff, 0xc3))
  text <- function(more = raw()) {
    rawToChar(sample(c(bytes, more), sample(1:30, 1L), replace = TRUE))
  }
  files <- c("PBS_NODEFILE", "PE_HOSTFILE", "PJM_O_NODEINF")
  names <- c(
    "LSB_HOSTS", "LSB_MCPU_HOSTS", "SLURM_JOB_NODELIST", "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_CPUS_PER_TASK", "NSLOTS", "PJM_VNODE_CORE", "PBS_NP"
  )
  path <- tempfile("cores-random-")
  on.exit(unlink(path), add = TRUE)
  for (i in 1:60) {
    writeBin(charToRaw(text(as.raw(0x0a))), path)
    env <- c(
      vapply(names, function(name) text(), ""), stats::setNames(rep(path, 3L), files)
    )
    hosts <- suppressWarnings(workers(env, which = "all"))
    valid <- vapply(hosts, function(x) is.character(x) && all(nchar(x, "bytes") > 0L), NA)
    if (!all(valid)) {
      fail(paste("case", i, "of seed 33"))
    }
  }
  succeed()
})
