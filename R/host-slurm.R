# Workers in jobs of Slurm: the command that asks for one, and what is told while it is pending.

#' Workers in jobs of Slurm
#'
#' Describes workers in jobs of Slurm. Give the result to [cluster_start()], alone or beside others.
#' Each job is asked for by one `srun`, whose input and output are the link to the workers there: no
#' port, no script, no file. Jobs end, and pending ones are taken back, when the cluster stops, when
#' the session ends, however it ends, and when you press Ctrl-C while [cluster_start()] waits.
#'
#' Inside a job (in `sbatch`'s script, in `salloc`'s shell, in `srun --pty R`), `launch_slurm()`
#' asks for nothing: it uses all nodes that the job has, with a worker for each of its CPUs.
#' `launch_slurm(jobs = 2, workers = 8)` asks for new jobs there, too.
#'
#' [cluster_start()] waits until all jobs run, or as many as its argument `wait` wants, and says
#' which are pending and why, as squeue does. `getOption("muster.start_timeout")` counts from the
#' moment when a job runs.
#'
#' A job that ends (`scancel`, its time or memory limit, a node that fails, preemption) is the loss
#' of a host, see Healing in [cluster_start()]: one message says why, and the job is asked for
#' again. While that one is pending, however long, the others do the work.
#'
#' Workers leave a job a minute before its time limit (a tenth of its time if that is less, but at
#' least ten seconds). They finish what they have been given, and move to the next job with what
#' they know, see Healing in [cluster_start()]; nothing is lost, and nothing counts as tried. A
#' message of class `muster_message_leaving` tells. A task that takes longer than that is lost at
#' the limit. The workers of a job that this session is in end with it.
#'
#' @param jobs How many jobs: a whole number from 1 to 1,000. `NULL` (default): no new ones inside a
#'   job of Slurm, one elsewhere.
#' @param workers How many workers in each job, or on each node of this one: a whole number from 1
#'   to 10,000. As many CPUs are asked for. `NULL` (default): as many as the job gets CPUs, which
#'   is one unless `options` say more.
#' @param ... Must be empty: the arguments after it must be named.
#' @param partition,account The partition and the account of the jobs: strings. `NULL` (default):
#'   Slurm's default.
#' @param memory,time The jobs' memory on their node, and their time limit: strings as for `srun
#'   --mem` and `srun --time`, as `"16G"` and `"1:30:00"`. `NULL` (default): Slurm's default.
#' @param options More options of srun: a character vector of text for a shell, as in
#'   `c("--gres=gpu:1", "--exclusive")`.
#' @param prologue,rscript As for [launch_ssh()]; by default the Rscript of this session's R, by its
#'   path. The jobs get this session's environment variables.
#' @param queue_timeout How long a job may be pending, in seconds: then [cluster_start()] raises an
#'   error, and workers of a job that was asked for again are given up. Default: without limit.
#' @returns An object of class `"muster_launcher"`.
#' @section Errors:
#' `muster_error_input`: an argument has the wrong type, or is for new jobs where none is asked for.
#' [cluster_start()] raises `muster_error_launch` when Slurm refuses a job or ends it, and
#' `muster_error_timeout` when one is pending for longer than `queue_timeout`, or runs and doesn't
#' answer within `getOption("muster.start_timeout")` seconds (default 120). Both have fields
#' `command`, `output` (the last lines that srun printed) and `reason`: `"partition"`, `"account"`,
#' `"request"` (Slurm has no such resources, or can never start the job), `"slurm"` (it can't be
#' asked), `"pending"`,
#' `"cancelled"`, `"time"`, `"memory"`, `"node"` (it failed), `"preempted"`, `"prologue"` (it ended
#' the shell, or its exit status isn't 0 and no Rscript can be run after it), `"R"` (no Rscript can
#' be run there), `"muster"` (it isn't installed there), `"version"` (another one is), or `"other"`.
#' No job is left.
#' @section Cost:
#' None. When the cluster starts: a job in the queue; then the time in which R loads muster there,
#' see [launch_command()]. While jobs are pending, squeue is asked after one second, later twice a
#' minute; for the time that a job has left, two seconds after its start and when that is nearly
#' over. A job ends fifteen minutes after its session's machine has vanished.
#' @section Source:
#' Muster's own. Packages batchtools, clustermq and crew.cluster submit scripts that are made from
#' templates, whose workers connect back or write files.
#' @seealso [launch_command()] for other schedulers, [launch_ssh()].
#' @examples
#' launch_slurm(jobs = 4, workers = 16, time = "1:00:00", memory = "32G")
#' \dontrun{
#' # Begin with four workers here; 64 others join as their jobs start.
#' cl <- cluster_start(list(4, launch_slurm(jobs = 4, workers = 16, time = "1:00:00")), wait = 4)
#' }
#' @export
launch_slurm <- function(jobs = NULL, workers = NULL, ..., partition = NULL, account = NULL,
                         memory = NULL, time = NULL, options = character(), prologue = NULL,
                         rscript = file.path(R.home("bin"), "Rscript"), queue_timeout = Inf) {
  call <- sys.call()
  check_dots(...,
    hints = paste0(
      "Arguments: jobs, workers, partition, account, memory, time, options, prologue, rscript, ",
      "queue_timeout. All but the first two must be named."
    ), call = call
  )
  if (!is.null(jobs)) jobs <- check_count(jobs, "jobs", max = 1000L, call = call)
  if (!is.null(workers)) workers <- check_count(workers, "workers", max = 10000L, call = call)
  asked <- list(partition = partition, account = account, mem = memory, time = time)
  asked <- asked[lengths(asked) > 0L]
  if (is.numeric(time)) {
    abort_muster("input", "`time` must be a string: a number doesn't say of what.",
      hints = "As for srun: \"60\" are minutes; \"1:30:00\", \"2-12\" (two days and twelve hours).",
      argument = "time", call = call
    )
  }
  for (name in names(asked)) {
    check_string(asked[[name]], if (name == "mem") "memory" else name, call)
  }
  options <- check_texts(options, "options", call)
  check_string(rscript, "rscript", call)
  prologue <- check_texts(prologue, "prologue", call)
  queue_timeout <- check_seconds(queue_timeout, "queue_timeout", infinite = TRUE, call = call)
  inside <- nzchar(Sys.getenv("SLURM_JOB_ID"))
  if (is.null(jobs) && inside) {
    if (length(asked)) {
      abort_muster("input", "Memory, time, partition and account are for new jobs.",
        details = paste0("This session is in job ", Sys.getenv("SLURM_JOB_ID"), " of Slurm."),
        hints = "`jobs` asks for new ones.", call = call
      )
    }
    return(new_launcher(slurm_steps(workers, options, prologue, rscript, call)))
  }
  asked <- sprintf("--%s=%s", names(asked), vapply(asked, quoted_if_needed, ""))
  words <- c(if (!is.null(workers)) paste0("-c", workers), asked, options)
  host <- list(
    command = slurm_command(words, prologue, rscript), by = "slurm",
    unset = if (inside) slurm_variables(), queued = TRUE, queue_timeout = queue_timeout,
    time = time
  )
  one <- list(workers = workers, host = host)
  new_launcher(rep(list(one), if (is.null(jobs)) 1L else jobs))
}

# One step on each node of the job that this session is in.
slurm_steps <- function(workers, options, prologue, rscript, call) {
  hosts <- workers_slurm()
  if (!length(hosts)) {
    abort_muster("input", "Can't tell which nodes this job of Slurm has.",
      details = "SLURM_JOB_NODELIST isn't in the environment, or isn't a list of nodes.",
      hints = "`jobs` asks for new jobs.", call = call
    )
  }
  nodes <- unique(hosts)
  lapply(nodes, function(node) {
    n <- if (is.null(workers)) sum(hosts == node) else workers
    # The session's own step must not be in the way.
    words <- c("--overlap", "-w", quoted_if_needed(node), paste0("-c", n), options)
    list(
      workers = as.integer(n),
      host = list(command = slurm_command(words, prologue, rscript), name = node, by = "slurm")
    )
  })
}

# Variables by which Slurm tells a job what it is, and from which srun would take what to ask for.
slurm_variables <- function() {
  names <- grep("^(SLURM|SLURMD|SRUN)_[A-Z0-9_]+$", names(Sys.getenv()), value = TRUE)
  setdiff(names, "SLURM_CONF")
}

# c(srun and its options, what it is to run on a node).
slurm_command <- function(words, prologue, rscript) {
  run <- paste(quoted_if_needed(rscript), "-e 'muster::muster_host()'")
  if (length(prologue)) run <- after_prologue(prologue, run)
  c(paste(c("srun -u -n1 -N1 --mpi=none", words), collapse = " "), run)
}

# slurm_script() gives a script for sh that runs srun and outlives it. srun must not be killed: its
# job would stay. SIGTERM comes when the session has ended. Then a running job ends by itself, since
# its input does; a pending one is taken back, and so is one whose srun doesn't end.
slurm_script <- function(srun, unset, name) {
  paste(c(
    if (length(unset)) paste(c("unset", unset), collapse = " "),
    "over= job= code=0",
    paste0(
      "take_back() { scancel -Q -u \"$(id -un)\" -n ", name, " \"$@\" >/dev/null 2>&1; }"
    ),
    "end() { over=yes; [ -z \"$job\" ] || finish; }",
    "finish() {",
    "  kill -CONT $job; take_back -t PENDING; ended 20 && return; kill -TERM $job",
    "  ended 10 && return; take_back; kill -KILL $job",
    "} 2>/dev/null",
    "ended() {",
    "  n=0; while kill -0 $job && [ $n -lt $1 ]; do sleep 0.1; n=$((n + 1)); done; ! kill -0 $job",
    "}",
    "trap end TERM INT HUP",
    "exec 3<&0 4>&1 </dev/null >&2",
    paste(srun, "<&3 >&4 3<&- 4>&- &"),
    "job=$!; exec 3<&- 4>&-; [ -z \"$over\" ] || finish",
    "while wait $job; code=$?; kill -0 $job 2>/dev/null; do :; done",
    "[ $code -lt 128 ] || take_back",
    "exit $code"
  ), collapse = "\n")
}

# ---- While jobs are pending

is_queued <- function(plan) isTRUE(plan$host$queued)

# Whether its command may wait in a queue: host-queue.R has those that aren't Slurm's.
may_wait <- function(plan) is_queued(plan) || isTRUE(plan$host$waits)

# look_at_job() gives "12 (Resources)" if the job of a plan is pending. One that squeue doesn't know
# runs, or has ended: then it is NULL.
look_at_job <- function(plan, jobs) {
  key <- plan$host$key
  job <- jobs[[the_host$hosts[[key]]$name]]
  the_host$hosts[[key]]$job <- job
  if (is.null(job)) {
    return(NULL)
  }
  if (grepl(never_starts, job[["reason"]])) abort_never(plan, the_host$hosts[[key]], job)
  paste0(job[["id"]], " (", job[["reason"]], ")")
}

# abort_queued() raises the error of a command that has waited for longer than it may.
abort_queued <- function(plan, link) {
  if (by_dialin(plan$host)) abort_nobody(plan, link)
  if (!is_queued(plan)) abort_waiting(plan, link)
  abort_muster("timeout",
    paste0("Job ", link$job[["id"]], " of Slurm was pending for ", plan$host$queue_timeout, " s."),
    details = paste0("Its reason: ", link$job[["reason"]], "."),
    hints = c(
      "`queue_timeout` of launch_slurm() allows more.", paste("The command:", link$command)
    ),
    command = link$command, reason = "pending", job = link$job[["id"]], call = plan$call
  )
}

# Reasons of squeue for which a job stays pending until somebody changes it, or the cluster.
never_starts <- paste0(
  "^(PartitionConfig|Partition(Node|Time)Limit|BadConstraints|InvalidAccount|InvalidQOS|",
  "AccountNotAllowed|QOSNotAllowed|JobHeld.*|DependencyNeverSatisfied|MaxMemPerLimit|",
  "(Assoc|QOS)Max[A-Za-z]*PerJob[A-Za-z]*)$"
)

abort_never <- function(plan, link, job) {
  abort_muster("launch",
    paste0("Job ", job[["id"]], " of Slurm can never start: ", job[["reason"]], "."),
    hints = c(
      "See `scontrol show job` and sinfo, and the arguments of launch_slurm().",
      paste("The command:", link$command)
    ),
    command = link$command, reason = "request", job = job[["id"]], output = "", call = plan$call
  )
}

# pending_jobs() asks squeue: c(id, reason) of each pending job with one of these names, by name.
pending_jobs <- function(names) {
  states <- "PENDING,CONFIGURING,REQUEUED,REQUEUE_HOLD,RESV_DEL_HOLD,SPECIAL_EXIT"
  lines <- squeue(names, states, "%j|%i|%r")
  parts <- Filter(function(part) length(part) == 3L, strsplit(lines, "|", fixed = TRUE))
  stats::setNames(
    lapply(parts, function(part) c(id = part[2L], reason = part[3L])),
    vapply(parts, `[`, "", 1L)
  )
}

# squeue() gives what squeue prints of jobs with these names; nothing where it fails, or takes more
# than 20 s.
squeue <- function(names, states, format) {
  user <- Sys.info()[["effective_user"]]
  command <- with_limit(20, c("squeue",
    "-h", "-u", shQuote(user), "-t", states, "-n", paste(names, collapse = ","),
    "-o", shQuote(format)
  ))
  tryCatch(
    suppressWarnings(system2(command[1L], command[-1L], stdout = TRUE, stderr = FALSE)),
    error = function(e) character()
  )
}

# slurm_left() asks how long the jobs of these names may still run, in seconds: Inf without a limit,
# or where Slurm doesn't say.
slurm_left <- function(names) {
  lines <- if (length(names)) squeue(names, "RUNNING", "%j|%L")
  parts <- strsplit(grep("^[^|]+[|]([0-9]+-)?[0-9]+(:[0-9]+)*$", lines, value = TRUE), "[|]")
  left_s <- vapply(parts, function(part) {
    times <- as.numeric(rev(strsplit(part[2L], "[-:]")[[1L]]))
    sum(times * c(1, 60, 3600, 86400)[seq_along(times)])
  }, 0)
  left_s <- left_s[match(names, vapply(parts, `[`, "", 1L))]
  left_s[is.na(left_s)] <- Inf
  left_s
}

# slurm_end() asks why a job of this name has ended: a reason of slurm_failures, or NULL. What srun
# prints may come without its daemon's word for it.
slurm_end <- function(name) {
  reasons <- c(
    CANCELLED = "cancelled", TIMEOUT = "time", DEADLINE = "time", OUT_OF_MEMORY = "memory",
    NODE_FAIL = "node", BOOT_FAIL = "node", PREEMPTED = "preempted"
  )
  for (try in 1:20) {
    state <- squeue(name, "all", "%T")
    if (!identical(state, "COMPLETING") && !identical(state, "RUNNING")) break
    Sys.sleep(0.1)
  }
  if (length(state) == 1L && state %in% names(reasons)) reasons[[state]]
}

# tell_pending() says so if what waits has changed since it last did. hosts: of those that dial in,
# how many.
tell_pending <- function(pending, slurm, hosts, most = 4L) {
  text <- if (hosts > 0L) waiting_text(hosts) else ""
  if (length(pending)) {
    left <- length(pending) - most
    text <- paste0(
      if (nzchar(text)) paste0(text, "
"),
      if (slurm) "Waiting for Slurm to start " else "Waiting for ",
      number_of(length(pending), "job"), if (!slurm) " to start", ": ",
      paste(utils::head(pending, most), collapse = ", "),
      if (left > 0L) paste(" and", left, "more"), "."
    )
  }
  changed <- text != the_host$told
  the_host$told <- text
  if (changed && nzchar(text)) inform_muster("pending", text, jobs = pending)
}
