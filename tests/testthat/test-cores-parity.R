# availableCores() and availableWorkers() beside those of the installed parallelly.

ours <- asNamespace("muster")

# Defaults as they are where nothing is set.
defaults <- function(fun, ns) {
  with_cores_settings(lapply(as.list(formals(fun)), function(x) {
    if (identical(x, quote(expr = ))) "none" else eval(x, ns)
  }))
}

test_that("L3: arguments have parallelly's names, order and defaults, HTCondor besides", {
  for (name in c("availableCores", "availableWorkers")) {
    peer <- defaults(cores_oracle(name), asNamespace("parallelly"))
    mine <- defaults(get(name, ours), ours)
    mine$methods <- setdiff(mine$methods, "HTCondor")
    expect_identical(mine, peer)
  }
})

# parallelly's method "nproc" runs a program, once; it is reset for none of these tests.
machine_methods <- c("system", "/proc/self/status", "nproc", cgroup_methods)

test_that("L3: this machine counts as for parallelly", {
  skip_without_feature("proc") # parallelly looks there all the same
  skip_if(!file.exists("/proc/self/status"), "parallelly reads Cpus_allowed_list from /proc only")
  skip_if(!nzchar(Sys.which("nproc")), "there's no nproc to compare with")
  with_cores_settings({
    peer <- suppressWarnings(cores_oracle()(methods = machine_methods, which = "all"))
    mine <- availableCores(methods = machine_methods, which = "all")
    expect_identical(mine[names(peer)], peer)
    more <- mine[setdiff(names(mine), names(peer))]
    expect_true(all(more > mine[["system"]]))
  })
})

setting_methods <- c(
  "mc.cores", "BiocParallel", "_R_CHECK_LIMIT_CORES_", "Bioconductor", "LSF", "PJM", "PBS", "SGE",
  "Slurm", "fallback", "custom", "mc.cores+1", "MUSTER_TEST_ANY"
)

environments <- list(
  none = character(),
  Slurm_task = c(SLURM_CPUS_PER_TASK = "3", SLURM_CPUS_ON_NODE = "8"),
  Slurm_node = c(SLURM_CPUS_ON_NODE = "8", SLURM_JOB_NUM_NODES = "1"),
  Slurm_node_only = c(SLURM_CPUS_ON_NODE = "8"),
  Slurm_old = c(SLURM_NNODES = "3", SLURM_TASKS_PER_NODE = "5(x2),1", SLURM_CPUS_ON_NODE = "8"),
  Slurm_new = c(SLURM_JOB_NUM_NODES = "2", SLURM_NNODES = "1", SLURM_TASKS_PER_NODE = "2,7"),
  SGE = c(NSLOTS = " 6 "),
  PBS = c(PBS_NUM_PPN = "4", NCPUS = "2"),
  PBS_pro = c(NCPUS = "2"),
  LSF = c(LSB_DJOB_NUMPROC = "5"),
  PJM = c(PJM_VNODE_CORE = "8", PJM_PROC_BY_NODE = "2"),
  PJM_proc = c(PJM_PROC_BY_NODE = "2"),
  check = c("_R_CHECK_LIMIT_CORES_" = "warn", NSLOTS = "6"),
  no_check = c("_R_CHECK_LIMIT_CORES_" = "False", NSLOTS = "6"),
  Bioconductor = c(BIOCPARALLEL_WORKER_NUMBER = "7", IS_BIOC_BUILD_MACHINE = "true"),
  Bioconductor_old = c(BBS_HOME = "TRUE"),
  prefixed = c(R_PARALLELLY_NSLOTS = "3", R_FUTURE_NCPUS = "2"),
  any = c(MUSTER_TEST_ANY = "9"),
  blank = c(NSLOTS = "", PBS_NUM_PPN = " ", MUSTER_TEST_ANY = "")
)

settings <- list(
  list(),
  list(mc.cores = 0L),
  list(mc.cores = 5),
  list(parallelly.availableCores.fallback = 2L),
  list(parallelly.availableCores.custom = function() 2.9, mc.cores = 3L),
  list(parallelly.availableCores.custom = function() NA, future.availableCores.fallback = 1L),
  list(future.availableCores.methods.excludes = "Slurm,PBS"),
  list(MUSTER_TEST_ANY = 4L)
)
# Number 1 is none, 4 the fallback.

# Asks both with pairs of environments and settings: all of one, with the first few of the
# other. ask: a function of a counting function. Gives the pairs where they differ.
differences <- function(ask, few_environments, few_settings) {
  pairs <- unique(rbind(
    expand.grid(env = names(environments), at = few_settings, stringsAsFactors = FALSE),
    expand.grid(env = few_environments, at = seq_along(settings), stringsAsFactors = FALSE)
  ))
  differ <- vapply(seq_len(nrow(pairs)), function(row) {
    options <- settings[[pairs$at[row]]]
    mc.cores <- options$mc.cores
    options$mc.cores <- NULL
    env <- environments[[pairs$env[row]]]
    with_cores_settings(env = env, mc.cores = mc.cores, options = options, {
      !identical(ask(availableCores), suppressWarnings(ask(cores_oracle())))
    })
  }, NA)
  paste(pairs$env, "with setting", pairs$at)[differ]
}

test_that("L3: all settings count as for parallelly, in a grid of them", {
  ask <- function(count) {
    counts <- lapply(c("all", "min", "max"), function(which) {
      count(methods = setting_methods, which = which)
    })
    c(counts, list(count(methods = setting_methods, which = "all", na.rm = FALSE)))
  }
  found <- differences(ask, c("Slurm_task", "any"), c(1L, 4L))
  expect_identical(found, character())
})

test_that("L3: all of availableCores(which = \"all\") is parallelly's, in a grid of settings", {
  skip_without_feature("proc")
  skip_if(!nzchar(Sys.which("nproc")), "there's no nproc to compare with")
  ask <- function(count) {
    # Limits that aren't below the machine's count of CPUs are dropped by parallelly.
    cores <- count(which = "all")
    binding <- !names(cores) %in% cgroup_methods | cores <= cores[["system"]]
    # HTCondor is silent here.
    list(cores[binding], count(), count(which = "max", methods = c("system", setting_methods)))
  }
  expect_identical(differences(ask, c("none", "check"), 1L), character())
})

test_that("L3: omit, fraction, max and default count as for parallelly, which drops names", {
  values <- list(
    list(), list(omit = 1), list(omit = 1.9), list(omit = 100L), list(fraction = 0.5),
    list(fraction = 0.3, omit = 1), list(max = 2), list(max = 2.7), list(max = Inf),
    list(fraction = 0.9, omit = 2, max = 3), list(default = 3L), list(default = c(x = 3L), max = 2)
  )
  for (env in environments[c("none", "SGE", "Bioconductor")]) {
    with_cores_settings(env = env, for (value in values) {
      arguments <- c(list(methods = setting_methods, which = "max"), value)
      expect_identical(
        unname(do.call(availableCores, arguments)), unname(do.call(cores_oracle(), arguments))
      )
    })
  }
})

test_that("L3: the fallback counts as for parallelly, also beside the machine", {
  for (fallback in c(1L, 5L)) {
    options <- list(parallelly.availableCores.fallback = fallback)
    for (env in environments[c("none", "SGE", "check")]) {
      asked <- list(
        c("system", "fallback"), c("system", "/proc/self/status", "SGE", "fallback"),
        c("SGE", "fallback"), "fallback", c("_R_CHECK_LIMIT_CORES_", "fallback")
      )
      for (methods in asked) {
        with_cores_settings(env = env, options = options, {
          expect_identical(
            availableCores(methods = methods), cores_oracle()(methods = methods),
            info = paste(methods)
          )
        })
      }
    }
  }
})

test_that("L3: connections count as for parallelly", {
  with_cores_settings({
    peer <- cores_oracle()
    for (method in c("connections", "connections-5", "connections-100000")) {
      expect_identical(availableCores(methods = method), peer(methods = method))
      expect_identical(
        availableCores(constraints = method, methods = "SGE", which = "all"),
        peer(constraints = method, methods = "SGE", which = "all")
      )
    }
  })
})

test_that("L3: constraint multicore counts as for parallelly", {
  cases <- list(
    list(character(), list()),
    list(c(RSTUDIO = "1"), list()),
    list(c(RSTUDIO = "1", RSTUDIO_TERM = "x"), list()),
    list(c(RSTUDIO = "1"), list(parallelly.supportsMulticore.disableOn = "rstudio_terminal")),
    list(c(RSTUDIO = "1"), list(parallelly.fork.enable = TRUE)),
    list(character(), list(parallelly.fork.enable = FALSE))
  )
  for (case in cases) {
    with_cores_settings(env = c(case[[1L]], NSLOTS = "3"), options = case[[2L]], {
      count <- suppressWarnings(cores_oracle()("multicore", methods = "SGE"))
      expect_identical(availableCores("multicore", methods = "SGE"), count, info = paste(case))
    })
  }
})

# Files that schedulers write, by the variable that names them.
host_files <- function(test) {
  dir <- tempfile("cores-hosts-")
  dir.create(dir)
  on.exit(unlink(dir, recursive = TRUE))
  lines <- list(
    PBS_NODEFILE = c("n3", "n1", "n1", "n2"),
    PE_HOSTFILE = c("n2 3 all.q@n2 UNDEFINED", "n1 2 all.q@n1 UNDEFINED", "n10 1 all.q@n10 <NULL>"),
    PJM_O_NODEINF = c("n2", "n1", "n3")
  )
  files <- vapply(names(lines), function(name) {
    path <- file.path(dir, name)
    writeLines(lines[[name]], path)
    path
  }, "")
  test(files)
}

jobs <- function(files) {
  list(
    c(files["PBS_NODEFILE"], PBS_NP = "4", PBS_NUM_NODES = "2", PBS_NUM_PPN = "2"),
    c(files["PE_HOSTFILE"], NSLOTS = "6"),
    c(files["PJM_O_NODEINF"], PJM_VNODE_CORE = "2", PJM_VNODE = "3"),
    c(LSB_HOSTS = "b a a c", LSB_DJOB_NUMPROC = "4"),
    c(LSB_HOSTS = " b, a,a  c "),
    c(SLURM_JOB_NODELIST = "n1,n[03-05]", SLURM_JOB_CPUS_PER_NODE = "2(x2),3,2"),
    c(SLURM_NODELIST = "n[1-2]", SLURM_TASKS_PER_NODE = "2(x2)", SLURM_CPUS_PER_TASK = "1"),
    c(SLURM_JOB_NODELIST = "n[1-2]", SLURM_JOB_CPUS_PER_NODE = "4,2", SLURM_CPUS_PER_TASK = "2"),
    c(SLURM_CPUS_PER_TASK = "3"),
    c(NSLOTS = "2"),
    c(MUSTER_TEST_ANY = "h1,h2 h3"),
    character()
  )
}

test_that("L3: workers of jobs are parallelly's", {
  methods <- c(
    "mc.cores", "BiocParallel", "_R_CHECK_LIMIT_CORES_", "LSF", "PJM", "PBS", "SGE", "Slurm",
    "custom", "MUSTER_TEST_ANY"
  )
  host_files(function(files) {
    for (env in jobs(files)) {
      for (mc.cores in list(NULL, 3L)) {
        with_cores_settings(env = env, mc.cores = mc.cores, {
          ask <- function(list_workers) {
            lapply(c("auto", "max", "all"), function(which) {
              list_workers(methods = methods, which = which)
            })
          }
          # parallelly takes a list of hosts for a number too, and says that it isn't one.
          peer <- suppressWarnings(ask(cores_oracle("availableWorkers")))
          expect_identical(ask(availableWorkers), peer, info = paste(names(env), env))
        })
      }
    }
  })
})

test_that("L3: workers of jobs are parallelly's beside the machine's", {
  methods <- c("LSF", "PJM", "PBS", "SGE", "Slurm", "nproc", "system")
  host_files(function(files) {
    for (env in jobs(files)) {
      with_cores_settings(env = env, {
        peer <- cores_oracle("availableWorkers")
        ask <- function(list_workers) {
          list(
            list_workers(methods = methods), list_workers(methods = "system", omit = 1L),
            list_workers(constraints = "connections-100000", methods = methods)
          )
        }
        expect_identical(ask(availableWorkers), ask(peer))
      })
    }
  })
})

test_that("L3: a scheduler's lists that parallelly warns of are warned of", {
  bad <- list(
    c(SLURM_JOB_NODELIST = "n[1-2]"),
    c(SLURM_JOB_NODELIST = "n[1-2]", SLURM_JOB_CPUS_PER_NODE = "2"),
    c(SLURM_JOB_NODELIST = "n[1-2]", SLURM_JOB_CPUS_PER_NODE = "2,x"),
    c(SLURM_JOB_NODELIST = "n[1-2]", SLURM_JOB_CPUS_PER_NODE = "4,1", SLURM_CPUS_PER_TASK = "2"),
    c(SLURM_JOB_NODELIST = "n1,n[1", SLURM_JOB_CPUS_PER_NODE = "2"),
    c(PBS_NODEFILE = "/nowhere/at/all"), c(PE_HOSTFILE = "/nowhere/at/all"),
    c(PJM_O_NODEINF = "/nowhere/at/all")
  )
  methods <- c("PJM", "PBS", "SGE", "Slurm")
  for (env in bad) {
    with_cores_settings(env = env, {
      expect_warning(
        mine <- availableWorkers(methods = methods, which = "all"), class = "muster_warning_input"
      )
      peer <- suppressWarnings(cores_oracle("availableWorkers")(methods = methods, which = "all"))
      expect_identical(mine, peer, info = paste(env))
    })
  }
})

# What the help pages list under "Differences": both sides, so that the list stays true.
test_that("L3: parallelly differs where the help says so", {
  count <- function(env, ..., options = list()) {
    with_cores_settings(env = env, options = options, {
      suppressWarnings(list(
        mine = availableCores(...),
        peer = tryCatch(cores_oracle()(...), error = function(e) "error")
      ))
    })
  }
  expect_identical(
    count(c(BBS_HOME = "/home/biocbuild/BBS"), methods = "Bioconductor"),
    list(mine = c(Bioconductor = 4L), peer = c(current = 1L))
  )
  for (value in c("0", "-1")) {
    expect_identical(
      count(c(NSLOTS = value), methods = "SGE"), list(mine = c(current = 1L), peer = "error")
    )
  }
  expect_identical(
    count(c(NSLOTS = "2.5"), methods = "SGE"), list(mine = c(current = 1L), peer = c(SGE = 2L))
  )
  expect_identical(
    count(c(NSLOTS = "4"), methods = "SGE", fraction = 0.5), list(mine = c(SGE = 2L), peer = 2L)
  )
  expect_identical(
    count(c(NSLOTS = "4", NCPUS = "2"), methods = c("SGE", "PBS"), which = "all", max = 3),
    list(mine = c(SGE = 3L, PBS = 2L), peer = 2L)
  )
  expect_identical(
    count(character(), methods = c("SGE", "PBS"), na.rm = FALSE)$mine, c(SGE = NA_integer_)
  )
  expect_length(count(character(), methods = c("SGE", "PBS"), na.rm = FALSE)$peer, 0L)
})

test_that("L3: parallelly's workers differ where the help says so", {
  list_workers <- function(env, ..., options = list()) {
    with_cores_settings(env = env, options = options, {
      suppressWarnings(list(
        mine = availableWorkers(...), peer = cores_oracle("availableWorkers")(...)
      ))
    })
  }
  here <- function(times) rep("localhost", times)
  expect_identical(
    list_workers(c(NSLOTS = "3"), methods = c("SGE", "PBS"), which = "min"),
    list(mine = here(3L), peer = "localhost")
  )
  expect_identical(
    list_workers(c(LSB_MCPU_HOSTS = "a 2"), methods = "LSF"),
    list(mine = c("a", "a"), peer = "localhost")
  )
  expect_identical(
    list_workers(c(MUSTER_TEST_ANY = "2"), methods = "MUSTER_TEST_ANY"),
    list(mine = here(2L), peer = "2")
  )
  lists <- c(SLURM_JOB_NODELIST = "a[1-2]b[3-4]", SLURM_JOB_CPUS_PER_NODE = "1(x4)")
  options <- list(parallelly.slurm_expand_nodelist.manual = TRUE)
  answers <- list_workers(lists, methods = "Slurm", options = options)
  expect_identical(answers$mine, c("a1b3", "a1b4", "a2b3", "a2b4"))
  expect_false(identical(answers$peer, answers$mine))
})
