# Links to the host processes of other hosts, and fork servers there. Everything here takes the plan
# of one group of workers, see group_plan().

# ---- The link to a host

# The link counts as broken after so many seconds without a byte; its ends exchange signs of life
# six times as often.
host_silence <- 60

# begin_link() runs the command that leads to the plan's host, or awaits one that dials in.
begin_link <- function(plan) {
  if (by_dialin(plan$host)) {
    return(await_host(plan))
  }
  key <- plan$host$key
  set_link_aside(key)
  name <- launch_name()
  plan$host$command <- filled_command(plan, name)
  # When SIGTERM comes the shell outlives its child, which may have a job to take back: with the
  # shell, all of its group would be killed.
  script <- paste0("trap 'exit 143' TERM\n", plan$host$command)
  if (by_slurm(plan$host)) script <- slurm_script(plan$host$command, plan$host$unset, name)
  # An interrupt must not leave a command that nobody ends.
  suspendInterrupts({
    pointer <- .Call(
      ffi_remote_start, if (is.null(plan$host$name)) "" else plan$host$name,
      list("/bin/sh", c("sh", "-c", script), character()),
      c(
        if (may_wait(plan)) forever_s else plan_timeout(plan), host_silence, may_wait(plan),
        by_slurm(plan$host) || grepl("\\bsrun\\b", script)
      ),
      as.integer(key)
    )
    if (!is.list(pointer)) {
      the_host$hosts[[key]] <- list(
        key = key, pointer = pointer, command = plan$host$command, name = name,
        begun_s = proc.time()[["elapsed"]]
      )
    }
  })
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno), "Can't run the command that leads to a host.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, host = plan$host$name, command = plan$host$command, call = plan$call
    )
  }
}

# The time of a job that is pending is kept by its site, see src/sched/site.h.
forever_s <- 1e9

end_link <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  if (!is.null(link)) .Call(ffi_remote_end, link$pointer)
  the_host$hosts[[plan$host$key]] <- NULL
}

# A link that workers leave stays until they have: then it is ended, see drop_left().
set_link_aside <- function(key) {
  link <- the_host$hosts[[key]]
  the_host$hosts[[key]] <- NULL
  if (!is.null(link)) the_host$left[[link$name]] <- link
}

# own_link() has the link end when the cluster with this id is collected.
own_link <- function(plan, id) {
  link <- the_host$hosts[[c(plan$host$key, "none")[1L]]]
  if (!is.null(link)) .Call(ffi_remote_owner, link$pointer, as.integer(id))
}

link_state <- function(plan) .Call(ffi_remote_state, the_host$hosts[[plan$host$key]]$pointer)

# finish_link() gives list(key, pointer, command, name, facts) of a plan's host, which has told its
# facts.
finish_link <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  state <- link_state(plan)
  plan$host$command <- link$command # as it was run
  if (is.null(state$facts)) abort_link(state, plan)
  if (is.null(link$facts)) {
    link$facts <- state$facts
    check_facts(link$facts, plan, state$output)
    .Call(
      ffi_remote_is, link$pointer, link$facts$build,
      c(c(plan$host$name, link$facts$node)[1L], link$facts$job),
      identical(link$facts$processes, process_space())
    )
    note_host_end(plan, link, NULL)
    the_host$hosts[[link$key]] <- link
  }
  link
}

# "host "node1"", if it has a name, or has told one.
host_shown <- function(plan) {
  told <- the_host$hosts[[plan$host$key]]$facts$node
  name <- c(plan$host$name, told)[1L]
  if (is.null(name)) "the host" else paste0("host \"", name, "\"")
}

abort_link <- function(state, plan) {
  timed_out <- state$state == "starting" || state$why == "timeout"
  was <- !is.null(state$facts)
  ended <- state$how != exits[["none"]]
  output <- paste0(state$output, state$skipped)
  known <- why_ended(plan, state, output)
  if (identical(known$reason, "prologue")) abort_prologue(plan, state, output, known)
  abort_muster(if (timed_out) "timeout" else "launch",
    if (timed_out) {
      paste0("No answer came from ", host_shown(plan), " within ", plan_timeout(plan), " s.")
    } else if (was) {
      paste0(capitalised(host_shown(plan)), " ended while its workers started.")
    } else if (by_dialin(plan$host)) {
      "A host dialled in, and its connection ended before it had said what it is."
    } else {
      paste0("The command didn't lead to muster on ", host_shown(plan), ".")
    },
    details = c(
      if (state$why != "closed" && nzchar(state$error)) paste0("The reason: ", state$error, "."),
      if (ended) paste0("It ended: ", end_text(state), "."),
      printed_lines(output)
    ),
    hints = c(
      known$hint, paste("The command:", plan$host$command),
      if (!was && !by_dialin(plan$host)) {
        "It must run muster::muster_host() there; try it by hand: it prints <muster host 1>."
      }
    ),
    host = plan$host$name, command = plan$host$command, pid = state$pid,
    exit_code = exit_field(state, "code"), signal = exit_field(state, "signal"),
    output = output, reason = known$reason, call = plan$call
  )
}

# link_loss() says why a link that there was is gone.
link_loss <- function(plan, link) {
  .Call(ffi_remote_wait, link$pointer, 1) # for its last words
  state <- .Call(ffi_remote_state, link$pointer)
  known <- why_ended(plan, state, state$output)
  said <- known$said
  if (identical(known$reason, "time") && !is.null(plan$host$time)) {
    said <- sub("[.]$", paste0(" (", plan$host$time, ")."), said)
  }
  note_host_end(plan, link, if (is.null(said)) "Its host is gone." else said)
  if (!is.null(said)) {
    return(said)
  }
  c(
    if (state$why != "closed" && nzchar(state$error)) paste0("The reason: ", state$error, "."),
    if (state$how != exits[["none"]]) paste0("Its command ended: ", end_text(state), "."),
    output_lines(state$output, 5L)
  )
}

# What both ends must have in common: the protocol between session and workers, and R's objects.
check_facts <- function(facts, plan, output) {
  ours <- host_facts()
  same <- c(
    "muster" = identical(facts$version, ours$version),
    "R" = identical(facts$r, ours$r),
    "byte order" = identical(facts$endian, ours$endian)
  )
  if (!all(same)) {
    fields <- c("muster" = "version", "R" = "r", "byte order" = "endian")[names(same)[!same]]
    abort_muster("launch", paste0("Can't use ", host_shown(plan), ": it has another version."),
      details = c(
        paste0(
          names(fields), ": ", unlist(facts[fields]), " there, ", unlist(ours[fields]), " here"
        ),
        if (!is.null(prologue_text(output))) printed_lines(output)
      ),
      hints = paste0(
        "Install the same version there",
        if (by_ssh(plan$host) && same[["R"]]) ", or give launch_ssh() `install = TRUE`", "."
      ),
      host = plan$host$name, command = plan$host$command, reason = "version",
      differs = names(fields), call = plan$call
    )
  }
}

# ---- Fork servers there

# host_servers() gives a fork server on each plan's host: all that are missing boot at once. A link
# may have ended since its host was reached, or end while a server is asked for; then the host is
# reached again, once.
host_servers <- function(plans) {
  begun <- list()
  complete <- FALSE
  on.exit(if (!complete) for (one in begun) end_begun(one))
  gone <- vapply(plans, function(plan) link_state(plan)$state == "gone", NA)
  if (any(gone)) reach_hosts(plans[gone], Inf)
  for (plan in plans) begun <- c(begun, list(begin_host_server(plan)))
  servers <- Map(finish_host_server, plans, begun, !gone)
  complete <- TRUE
  servers
}

end_begun <- function(begun) {
  if (typeof(begun$pointer) == "externalptr") end_server(begun$pointer, "")
}

# list(server) that there is, or list(pointer, link, key) of one that boots.
begin_host_server <- function(plan) {
  link <- finish_link(plan)
  late <- is_late(plan$packages)
  packages <- plan$packages[!late]
  load <- setdiff(c(plan$packages[late], plan$load), not_preloaded)
  key <- paste(c(link$name, packages, "-", load, deparse(plan$boot)), collapse = "\n")
  drop_gone_servers()
  for (server in the_cluster$servers) {
    if (identical(server$key, key) && server_ready(server$pointer)) {
      return(list(server = server))
    }
  }
  order <- list(name = basename(tempfile("server-")), boot = plan$boot)
  setup <- list(
    libraries = "*", packages = packages, load = load, tmpdir = link$facts$tmpdir,
    base = file.path(link$facts$root, order$name), early = plan$workers <= early_workers_max
  )
  pointer <- .Call(ffi_remote_server, link$pointer, order, setup)
  if (is.null(pointer)) abort_link(.Call(ffi_remote_state, link$pointer), plan)
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno),
      paste0("Can't ask ", host_shown(plan), " for a fork server."),
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, host = plan$host$name, call = plan$call
    )
  }
  list(pointer = pointer, link = link, key = key)
}

# wait_s: for how long it may still boot.
finish_host_server <- function(plan, begun, again, wait_s = start_timeout()) {
  if (!is.null(begun$server)) {
    return(begun$server)
  }
  server <- tryCatch(
    wait_for_server(begun$pointer, "", plan$call, function() {
      list(key = begun$key, pointer = begun$pointer, base = "", env = character(),
        host = begun$link
      )
    }, wait_s),
    error = identity
  )
  if (inherits(server, "error")) {
    if (again && identical(.Call(ffi_remote_state, begun$link$pointer)$state, "gone")) {
      reach_hosts(list(plan), Inf)
      return(finish_host_server(plan, begin_host_server(plan), again = FALSE))
    }
    raise_condition(at_host(server, plan))
  }
  if (is.null(server$refused)) {
    the_cluster$servers <- c(the_cluster$servers, list(server))
  }
  server
}

# As worker_orders(), where paths, libraries and variables are the host's own.
host_orders <- function(plan, packages, server) {
  c(healing_orders(plan), list(
    directory = getwd(), # if the host has it
    umask = NA,
    libraries = "*",
    variables = chosen_variables(list(set = character(), unset = character()), plan),
    packages = packages,
    dev = list(),
    threads = plan$threads,
    thread_variables = if (plan$threads != 1L) thread_variables(plan$threads),
    tmpdir = server$host$facts$tmpdir,
    base = NULL, # its fork server's
    setup = plan$setup,
    setup_name = plan$setup_name,
    outfile = plan$outfile,
    share_min = share_min()
  ))
}

# ---- Links that nobody needs any more

# Links are ended with the last cluster that has workers there: then the host process ends, and the
# job or container with it.
drop_hosts <- function() {
  plans_drop()
  keys <- function(kept) lapply(kept$plans, function(one) one$host$key)
  used <- c(unlist(lapply(the_cluster$plans, keys)), the_host$reached)
  for (link in the_host$hosts) {
    if (!link$key %in% used && drop_link(link)) the_host$hosts[[link$key]] <- NULL
  }
  for (link in the_host$left) {
    if (!link$key %in% used && drop_link(link)) the_host$left[[link$name]] <- NULL
  }
  drop_listeners(used)
}

# Whether drop_hosts() may have something to do: without hosts, clusters are stopped without it.
has_hosts <- function() {
  length(the_host$hosts) + length(the_host$left) + length(the_host$listeners) > 0L
}

# drop_left() clears away links that have ended since workers left them.
drop_left <- function() {
  is_over <- function(link) {
    state <- .Call(ffi_remote_state, link$pointer)
    is.null(state) || (state$left && state$state == "gone")
  }
  for (link in Filter(is_over, the_host$hosts)) set_link_aside(link$key)
  for (link in Filter(is_over, the_host$left)) {
    if (drop_link(link)) the_host$left[[link$name]] <- NULL
  }
}

# FALSE if a worker still needs it.
drop_link <- function(link) {
  there <- vapply(the_cluster$servers, function(server) {
    identical(server$host$name, link$name)
  }, NA)
  left <- vapply(the_cluster$servers[there], function(server) !end_server(server$pointer, ""), NA)
  if (any(left)) {
    return(FALSE)
  }
  the_cluster$servers <- the_cluster$servers[!there]
  .Call(ffi_remote_end, link$pointer)
  TRUE
}
