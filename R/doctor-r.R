# This R session: threads of its libraries, packages that make forking unsafe; programs that start
# workers elsewhere.

thread_settings <- c(
  "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"
)

doctor_threads <- function(machine) {
  most <- machine$threads()[2L]
  cores <- machine$cores()
  blas <- tryCatch(machine$blas(), error = function(e) "")
  set <- machine$variables()[thread_settings]
  set <- set[!is.na(set) & nzchar(set)]
  verdict <- verdict_high(most, cores + 1, 4 * cores + 1)
  finding(
    paste0(
      if (most > 0) paste0("up to ", most, if (most == 1L) " thread" else " threads"),
      if (most <= 0) "none known",
      if (nzchar(blas)) paste0(", BLAS ", blas),
      if (length(set)) paste0(", ", paste0(names(set), "=", set, collapse = " "))
    ),
    verdict,
    paste0(
      "Linear algebra and OpenMP in this session use this many threads. muster's workers use ",
      "`threads = 1`; those of makeCluster() and mclapply() use as many each, and then they ",
      "wait for each other."
    ),
    unless_good(verdict, paste0("export OMP_NUM_THREADS=", max(1L, cores), " # before R starts")),
    c(threads = most, cores = unname(cores))
  )
}

# Why not to fork a process that has loaded them.
fork_hazards <- c(
  rJava = "a Java virtual machine, whose threads a child lacks",
  tcltk = "Tcl's notifier, a thread",
  reticulate = "Python in the process, with threads and locks",
  torch = "a pool of threads, and CUDA that can't be used in a child",
  tensorflow = "a pool of threads, and CUDA that can't be used in a child",
  keras = "TensorFlow's pool of threads",
  arrow = "pools of threads for computing and reading",
  duckdb = "threads of the database, whose file a child shares",
  polars = "a pool of threads",
  RcppParallel = "a pool of threads (TBB)",
  later = "a timer thread",
  httpuv = "a thread that serves connections",
  nanonext = "threads that serve sockets",
  mirai = "threads that serve sockets",
  clustermq = "ZeroMQ's threads and sockets",
  sparklyr = "a connection to Spark that children would share",
  RPostgres = "connections that children would share",
  RMariaDB = "connections that children would share",
  odbc = "connections that children would share",
  rgl = "a window's connection that children would share",
  dqrng = "a generator whose state all children would share"
)

doctor_fork <- function(machine) {
  found <- intersect(names(fork_hazards), machine$loaded())
  threads <- machine$threads()[1L]
  in_gui <- identical(unname(machine$variables()["RSTUDIO"]), "1")
  verdict <- if (length(found) || threads > 1L || in_gui) "attention" else "good"
  parts <- c(
    if (length(found)) paste0(found, ": ", fork_hazards[found]),
    if (isTRUE(threads > 1L)) paste(threads, "threads run in this session"),
    if (in_gui) "RStudio's session has threads and connections of its own"
  )
  finding(
    if (length(parts)) paste(parts, collapse = "; ") else "nothing known",
    verdict,
    paste0(
      "mclapply() and mcparallel() fork this session, and its children may hang or crash for ",
      "these reasons. muster's workers are forked from a clean process."
    ),
    unless_good(verdict, "use cluster_start() in place of mclapply()"),
    c(packages = length(found), threads = threads)
  )
}

# ---- programs

doctor_ssh <- function(machine) {
  path <- machine$programs("ssh")
  agent <- machine$variables()["SSH_AUTH_SOCK"]
  found <- nzchar(path)
  finding(
    if (!found) {
      "not found"
    } else {
      paste0(path, if (!is.na(agent) && nzchar(agent)) ", with an agent")
    },
    if (found) "good" else "attention",
    "It starts workers on other hosts.",
    if (found) "" else "apt-get install openssh-client # or dnf install openssh-clients"
  )
}

# The program that submits jobs, and a variable that is set in its jobs.
schedulers <- list(
  Slurm = c("sbatch", "SLURM_JOB_ID"),
  PBS = c("qsub", "PBS_JOBID"),
  SGE = c("qsub", "SGE_TASK_ID"),
  LSF = c("bsub", "LSB_JOBID"),
  HTCondor = c("condor_submit", "_CONDOR_JOB_AD"),
  Kubernetes = c("kubectl", "KUBERNETES_SERVICE_HOST")
)

doctor_schedulers <- function(machine) {
  programs <- vapply(schedulers, `[`, "", 1L)
  paths <- machine$programs(unique(programs))
  variables <- machine$variables()
  inside <- vapply(schedulers, function(s) {
    value <- variables[s[2L]]
    !is.na(value) && nzchar(value)
  }, NA, USE.NAMES = TRUE)
  has <- stats::setNames(nzchar(paths[match(programs, unique(programs))]), names(schedulers))
  # Two schedulers have a program named qsub: the job's variable, if any, tells which one it is.
  if (has[["PBS"]]) has[[if (inside[["SGE"]]) "PBS" else "SGE"]] <- FALSE
  texts <- ifelse(has, paste0(names(schedulers), " (", programs, ")"), names(schedulers))
  texts <- ifelse(inside, paste0(texts, ", this session is one of its jobs"), texts)
  # Only in Kubernetes can a job lack its program by design.
  lost <- inside & !has & names(schedulers) != "Kubernetes"
  finding(
    if (any(has | inside)) paste(texts[has | inside], collapse = "; ") else "none",
    if (any(lost)) "attention" else "good",
    "They start workers on other machines; inside a job, its limits apply.",
    if (any(lost)) "module load the scheduler's programs, or add them to PATH" else ""
  )
}
