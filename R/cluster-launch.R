# From a plan to a running cluster: chooses the launchers and handles failures.
#
# A plan is what cluster_start() was told. Its workers come in groups, one for each host: `groups`
# is a list of list(workers, host); host: NULL on this machine, else list(command, name, key).

# What this process knows of its clusters.
the_cluster <- new.env(parent = emptyenv())
the_cluster$plain <- TRUE # no cluster yet without workers, with `scale`, or with streams
the_cluster$scales <- FALSE # did any cluster have `scale`?
the_cluster$plans <- list() # of those whose workers come from a fork server, by id
the_cluster$servers <- list() # fork servers: list(key, pointer, env, pid)
the_cluster$servers_pid <- 0L # the process that they belong to
the_cluster$stream <- NULL # what the own streams of workers are made of
the_cluster$stream_pid <- 0L # the process whose workers they are
the_cluster$streams <- list() # that clusterSetRNGStream() has set, by cluster and worker
the_cluster$drawn <- FALSE # were random numbers drawn without a seed?
the_cluster$drawn_told <- FALSE # was the user told so?
the_cluster$verb <- NULL # the verb of parallel's that waits, see new_verb()
the_cluster$awaited <- NULL # what it waits for, see tell_awaited()

# group_plan() gives the plan of one group: with its own `workers` and `host`.
group_plan <- function(plan, group) {
  plan$workers <- group$workers
  plan$host <- group$host
  plan$groups <- list(group)
  plan
}

# start_cluster() starts workers as planned. A group on this machine is started with "spawn" if the
# fork server refuses and the user didn't insist on "fork". Returns list(pointer, id, nodes, groups,
# of): groups is list(start, plan) of each, `of` each node's group.
start_cluster <- function(plan, may_fall_back) {
  plans <- put_to_sleep(lapply(plan$groups, group_plan, plan = plan), plan$scale)
  check_room(plans, plan$call)
  before <- the_host$reached
  the_host$reached <- c(before, unlist(lapply(plans, function(one) one$host$key)))
  complete <- FALSE
  on.exit({
    .Call(ffi_sites_drop, as.integer(setdiff(the_host$reached, before)))
    the_host$reached <- before
    # Directories of workers that were killed before they could report them.
    if (!complete) sweep_temp_dirs()
    if (has_hosts()) drop_hosts()
  })
  plans <- reach_hosts(plans, c(plan$enough, Inf)[1L])
  check_room(plans, plan$call)
  plan$workers <- sum(vapply(plans, `[[`, 0L, "workers"))
  opened <- open_groups(plan, plans, may_fall_back)
  complete <- TRUE
  opened
}

# again: whether one more attempt is allowed if a server ended meanwhile, or didn't respond and
# had to be ended.
open_groups <- function(plan, plans, may_fall_back, again = TRUE) {
  groups <- group_sources(plans, may_fall_back)
  outcome <- .Call(
    ffi_cluster_open, Map(with_site, groups, plans),
    min(sum(vapply(groups, `[[`, 0L, "window")), plan$window), plan_timeout(plan), plan$policy
  )
  if (!is.null(outcome$pointer)) {
    later <- vapply(plans, is_later, NA)
    asleep <- vapply(plans, is_asleep, NA)
    for_start <- c("later", "asleep", "enough", "scale", "idle_s")
    plans <- lapply(plans, function(one) one[setdiff(names(one), for_start)])
    for (one in plans) own_link(one, outcome$id)
    plans_keep(outcome$id, plans, vapply(groups, `[[`, "", "base"))
    if (any(asleep)) begin_scaling(outcome$id, plan$idle_s, plan$call)
    outcome$groups <- Map(function(one, group, later) {
      moves <- later || is_queued(one) # its host may change
      list(start = group$start, plan = plan_to_keep(one), moves = moves)
    }, plans, groups, later)
    outcome$of <- rep(seq_along(groups), vapply(groups, `[[`, 0L, "workers"))
    return(outcome)
  }
  at <- failed_group(outcome, groups)
  if (identical(outcome$fail, "launch") && errno_is_threads(outcome$errno)) {
    plans[[at]] <- spawned_plan(plans[[at]], "It has more than one thread.", may_fall_back)
    return(open_groups(plan, plans, may_fall_back, again))
  }
  server <- groups[[at]]$server
  why <- if (is.null(server)) {
    NULL
  } else if (isTRUE(.Call(ffi_server_state, server)$silent)) {
    "The fork server didn't respond; starting another one."
  } else if (is_server_gone(outcome)) {
    "The fork server ended; starting another one."
  }
  if (again && !is.null(why)) {
    inform_muster("server", why)
    return(open_groups(plan, plans, may_fall_back, again = FALSE))
  }
  abort_start(outcome, plan, server, plans[[at]]$host$name)
}

with_site <- function(group, plan) {
  site <- if (is.null(plan$host)) 0L else as.integer(plan$host$key)
  c(group[c("workers", "source", "setup")], list(site = site))
}

# The number of the group whose worker couldn't be started.
failed_group <- function(outcome, groups) {
  last <- cumsum(vapply(groups, `[[`, 0L, "workers"))
  c(which(last >= c(outcome$peer$worker, 1L)[1L]), 1L)[1L]
}

# Where the workers of each group come from: list(workers, source, setup, start, window, base,
# server) each. Fork servers on other hosts boot at once, after the one here.
group_sources <- function(plans, may_fall_back) {
  later <- vapply(plans, is_later, NA)
  far <- vapply(plans, function(plan) !is.null(plan$host), NA) & !later
  here <- !far & !later
  sources <- vector("list", length(plans))
  sources[later] <- lapply(plans[later], source_later)
  sources[here] <- lapply(plans[here], source_here, may_fall_back = may_fall_back)
  if (any(far)) {
    refused <- spawn_reason(TRUE)
    servers <- if (is.null(refused)) host_servers(plans[far]) else list(list(refused = refused))
    sources[far] <- Map(source_there, plans[far], servers)
  }
  sources
}

source_here <- function(plan, may_fall_back) {
  if (plan$start == "fork") {
    refused <- spawn_reason()
    server <- if (is.null(refused)) server_for(plan) else list(refused = refused)
    if (is.null(server$refused)) {
      setup <- worker_orders(plan, plan$packages[is_late(plan$packages)], server$base, server$env)
      return(forked_source(plan, server, setup))
    }
    plan <- spawned_plan(plan, server$refused, may_fall_back)
  }
  base <- temp_dir("booted", plan$call)
  list(
    workers = plan$workers, source = boot_command("worker", plan$boot, plan$threads, base),
    setup = worker_orders(plan, plan$packages, base, NULL),
    start = "spawn", window = spawn_window(), base = ""
  )
}

source_there <- function(plan, server) {
  if (!is.null(server$refused)) abort_refused(plan, server$refused)
  forked_source(plan, server, late_orders(plan, server))
}

late_orders <- function(plan, server) {
  host_orders(plan, plan$packages[is_late(plan$packages)], server)
}

is_later <- function(plan) isTRUE(plan$later)

# Of a host that isn't there yet, see host-tend.R.
source_later <- function(plan) {
  list(
    workers = plan$workers, source = NULL, setup = NULL, start = "fork", window = window_fork,
    base = "", server = NULL
  )
}

forked_source <- function(plan, server, setup) {
  list(
    workers = plan$workers, source = server$pointer, setup = setup,
    start = "fork", window = window_fork, base = server$base, server = server$pointer
  )
}

# The plan for workers that are booted, since a fork server refused; raises if it mustn't be.
spawned_plan <- function(plan, reason, may_fall_back) {
  if (!may_fall_back || !is.null(plan$host)) abort_refused(plan, reason)
  inform_muster("spawn", "Workers are booted one by one (start = \"spawn\").", details = reason)
  plan$start <- "spawn"
  plan
}

abort_refused <- function(plan, reason) {
  abort_muster("launch", "The fork server refused.",
    details = reason,
    hints = if (is.null(plan$host)) {
      "Use start = \"spawn\", or omit `start` to have it chosen for you."
    } else {
      "Workers on other hosts are forked: load such packages in `setup`."
    },
    host = plan$host$name, call = plan$call
  )
}

# A reason not to fork that is known before anything starts, or NULL. A host has a muster of its
# own, but passes descriptors on, as this session does.
spawn_reason <- function(elsewhere = FALSE) {
  if (!.Call(ffi_can_fork)) {
    return("Forking R isn't safe on this system.")
  }
  if (!elsewhere && is_dev()) "Package muster is under load_all()."
}

plan_timeout <- function(plan) {
  if (is.null(plan$start_timeout)) start_timeout() else plan$start_timeout
}

start_timeout <- function() {
  check_seconds(getOption("muster.start_timeout", 120), "options(muster.start_timeout)",
    call = NULL
  )
}

# The server attaches packages up to the first that it must not load; workers attach
# the rest, so the user's order is kept. Packages that can be loaded in advance are.
is_late <- function(packages) cumsum(packages %in% never_preloaded()) > 0L
never_preloaded <- function() c(not_preloaded, names(dev_packages()))
server_for <- function(plan) {
  late <- is_late(plan$packages)
  load <- setdiff(c(plan$packages[late], plan$load), never_preloaded())
  fork_server(plan$packages[!late], load, plan$call, plan$boot, plan$workers)
}

# Launches in flight. Forks are quick, but each has three descriptors in transit; booting keeps a
# core busy, and two per core make use of the time spent waiting for files.
window_fork <- 32L
spawn_window <- function() max(4L, 2L * as.integer(availableCores()))

# The instructions that a worker gets at its start; worker_setup() carries them out. base: the
# directory for its temporary directory. env: the variables with which the fork server booted,
# NULL for a booted worker.
worker_orders <- function(plan, packages, base, env) {
  note_variables()
  c(healing_orders(plan), list(
    directory = getwd(),
    umask = Sys.umask(NA),
    libraries = if (is.null(plan$libraries)) .libPaths() else plan$libraries,
    variables = chosen_variables(variable_changes(env), plan),
    packages = packages,
    dev = dev_packages(),
    threads = if (is.null(env)) 0L else plan$threads,
    thread_variables = if (!is.null(env) && plan$threads != 1L) thread_variables(plan$threads),
    tmpdir = Sys.getenv("TMPDIR", NA),
    base = base,
    setup = plan$setup,
    setup_name = plan$setup_name,
    outfile = plan$outfile,
    share_min = share_min()
  ))
}

# A worker that comes back without its calls ("fresh") must not draw the same numbers again.
healing_orders <- function(plan) {
  list(track = plan$policy[1L] > 0, stream = if (plan$policy[1L] == 1) own_stream())
}

# The word that the streams of this session's workers are made of: see ffi/worker/stream.c. In a
# forked child it is another one.
own_stream <- function() {
  if (!identical(the_cluster$stream_pid, Sys.getpid())) {
    the_cluster$stream <- .Call(ffi_stock_word)
    the_cluster$stream_pid <- Sys.getpid()
  }
  the_cluster$stream
}

# Variables that differ from those the fork server booted with.
variable_changes <- function(booted) {
  if (is.null(booted)) {
    return(list(set = character(), unset = character()))
  }
  now <- session_variables()
  same <- names(now) %in% names(booted) & now == booted[names(now)]
  list(set = now[!(same %in% TRUE)], unset = setdiff(names(booted), names(now)))
}

# Adds the plan's variables: a variable that R was booted with keeps that value.
chosen_variables <- function(changes, plan) {
  fixed <- c(sub("=.*", "", plan$boot$variables), names(plan$variables))
  chosen <- !is.na(plan$variables)
  list(
    set = c(changes$set[!names(changes$set) %in% fixed], plan$variables[chosen]),
    unset = c(setdiff(changes$unset, fixed), names(plan$variables)[!chosen]),
    fixed = fixed
  )
}

# The environment as workers should have it: without variables that belong to one process. Not
# with Sys.getenv(), which fails when a variable isn't valid text.
session_variables <- function() {
  variables <- .Call(ffi_environment)
  own <- c(
    "R_SESSION_TMPDIR", "R_TESTS", "R_DEFAULT_PACKAGES", "TMPDIR", "MUSTER_BOOT", "_",
    thread_names
  )
  variables[!names(variables) %in% own]
}

thread_names <- c(
  "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
  "VECLIB_MAXIMUM_THREADS"
)
thread_variables <- function(threads) paste0(thread_names, "=", threads)

# All temporary directories of workers are in directories inside this session's own,
# so that R removes them at a normal end: one for each fork server, which removes it
# at any other end, and one for all workers that were booted.
# Not tempdir(check = TRUE): if no new directory can be made, R is left with none, and the next
# tempdir() ends the session.
# A host process has another.
temp_root <- function() {
  if (is.null(the_host$temp_root)) file.path(tempdir(), "muster") else the_host$temp_root
}

temp_dir <- function(name, call) {
  dir <- file.path(temp_root(), name)
  if (!dir.exists(dir)) {
    suppressWarnings(dir.create(dir, recursive = TRUE, mode = "0700"))
  }
  # A full disk lets mkdir pass on some file systems and fails every worker later.
  if (!dir.exists(dir) || !can_write(dir)) {
    abort_muster("launch", "Can't create a directory for the workers' temporary files.",
      details = paste0(dir_problem(tempdir()), ": ", dir), # a host's lines are shortened
      hints = "Free some space there, or set TMPDIR to another directory before R starts.",
      path = dir, call = call
    )
  }
  dir
}

can_write <- function(dir) .Call(ffi_can_write, tempfile("probe", dir))

# Removes directories that belong to no living worker, unless a starting worker hasn't reported
# its directory yet. Files that packages left in fork servers stay.
sweep_temp_dirs <- function() {
  known <- .Call(ffi_session_tempdirs)
  if (!is.null(known)) {
    dirs <- list.files(temp_root(), full.names = TRUE)
    found <- list.files(dirs, full.names = TRUE)
    unlink(setdiff(found, c(known, server_home(dirs))), recursive = TRUE)
  }
  drop_booted_dir()
}

dir_problem <- function(path) {
  if (!dir.exists(path)) {
    "this session's temporary directory was removed; tempdir(check = TRUE) creates another"
  } else if (file.access(path, 2L) != 0L) {
    "not writable (read-only, or not allowed)"
  } else {
    "no space left, or a limit on files was reached"
  }
}

# ---- How R is started

# R's own program where its wrapper's variables are known (this saves the shell
# script), else the wrapper.
r_program <- function() {
  program <- file.path(R.home("bin"), "exec", Sys.getenv("R_ARCH"), "R")
  known <- nzchar(Sys.getenv("R_HOME")) && nzchar(Sys.getenv("LD_LIBRARY_PATH"))
  if (known && file.access(program, 1L) == 0L) program else file.path(R.home("bin"), "R")
}

# boot_command() gives list(program, arguments, variables) that start R as a fork server or
# as a worker. boot says what differs from the usual: list(wrapper, arguments, packages,
# variables, libraries), NULL for nothing.
# wrapper: a command, an absolute path first, that ends by running what follows it.
# arguments: more of R's. packages: the value of R_DEFAULT_PACKAGES, NA for R's own default.
# variables: "NAME=value", or "NAME" to take it away. libraries: see expand_libraries().
boot_command <- function(role, boot, threads, base) {
  program <- r_program()
  arguments <- r_arguments(role, boot$arguments)
  if (length(boot$wrapper)) {
    arguments <- c(boot$wrapper, program, arguments[-1L])
    program <- boot$wrapper[1L]
  }
  fixed <- sub("=.*", "", boot$variables)
  variables <- boot_variables(threads, base, boot$packages)
  if (role == "server" && !nzchar(Sys.getenv(cli_variable))) {
    variables <- c(variables, paste0(cli_variable, "=", cli_word))
  }
  list(program, arguments, c(variables[!sub("=.*", "", variables) %in% fixed], boot$variables))
}

# Variables with which R boots: packages as for the workers of makeCluster(), and not
# the startup file of a test that R CMD check runs ("NAME" alone takes one away).
boot_variables <- function(threads, base, packages = NULL) {
  if (is.null(packages)) {
    packages <- "datasets,utils,grDevices,graphics,stats,methods"
  }
  c(
    thread_variables(threads), paste0("TMPDIR=", base), "MUSTER_BOOT=yes", "R_TESTS",
    paste0("R_DEFAULT_PACKAGES", if (!is.na(packages)) paste0("=", packages))
  )
}

# The number of cells up to which R doesn't collect when it boots. R's own is 350,000: less than
# what muster's boot takes, so R would collect then, and let the heap grow by chance. Of 350, 420,
# 450 and 480 thousand, many small objects in a forked worker take the least memory with this
# (66 MB, 105 by R's own) and 29,000 page faults instead of 47,000; other jobs take what they took.
worker_cells <- "450k"

# The bytes of vectors up to which R doesn't collect in a worker that holds parts. A full collection
# takes 30 ms there, and parts that stay bring one each time that vectors come near this. So it is
# more than R's own 64 MB where there is memory for that much garbage. Other workers keep R's own:
# memory that is used again costs no page faults.
worker_heap <- function() {
  free <- .Call(ffi_share_free)
  each <- free / cpu_list_count(cores_machine()$online) / 32
  known <- !is.na(each) && free < 2^62
  if (known) min(max(each, 2^26), 2^28) else 2^26
}

# Not by system.file(), which takes one of R's connections.
boot_file <- function() {
  files <- file.path(getNamespaceInfo("muster", "path"), c("boot.R", "inst/boot.R"))
  files[file.exists(files)][1L]
}

# The same options as Rscript's; profile files are read.
r_arguments <- function(role, more = NULL) {
  c(
    "R", "--no-echo", "--no-restore", "--no-save",
    if (!nzchar(Sys.getenv("R_NSIZE"))) paste0("--min-nsize=", worker_cells), more,
    paste0("--file=", boot_file()),
    "--args", role, Sys.getpid(), if (is_dev()) dev_path("muster") else "",
    dirname(getNamespaceInfo("muster", "path"))
  )
}
