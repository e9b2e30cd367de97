# Links to the host processes of other hosts, and fork servers there. Everything here takes the plan
# of one group of workers, see group_plan().

# ---- The link to a host

# The link counts as broken after so many seconds without a byte; relays exchange signs of life six
# times as often.
host_silence <- 60

is_starting <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  !is.null(link) && identical(.Call(ffi_remote_state, link$pointer)$state, "starting")
}

# begin_link() runs the command that leads to the plan's host, unless that is done.
begin_link <- function(plan) {
  key <- plan$host$key
  known <- the_host$hosts[[key]]
  if (!is.null(known) && .Call(ffi_remote_state, known$pointer)$state != "gone") {
    return()
  }
  end_link(plan)
  name <- launch_name()
  plan$host$command <- filled_command(plan, name)
  # When SIGTERM comes the shell outlives its child, which may have a job to take back: with the
  # shell, all of its group would be killed.
  script <- paste0("trap 'exit 143' TERM\n", plan$host$command)
  if (by_slurm(plan$host)) script <- slurm_script(plan$host$command, plan$host$unset, name)
  pointer <- .Call(
    ffi_remote_start, if (is.null(plan$host$name)) "" else plan$host$name,
    list("/bin/sh", c("sh", "-c", script), character()),
    c(if (may_wait(plan)) forever_s else plan_timeout(plan), host_silence, may_wait(plan)),
    by_slurm(plan$host) || grepl("\\bsrun\\b", script) # they leave TCP's delays on
  )
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno), "Can't run the command that leads to a host.",
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, host = plan$host$name, command = plan$host$command, call = plan$call
    )
  }
  the_host$hosts[[key]] <- list(
    key = key, pointer = pointer, command = plan$host$command, name = name,
    begun_s = proc.time()[["elapsed"]]
  )
}

# Until it runs, a job that is pending has no time to keep, see watch_jobs().
forever_s <- 1e9

end_link <- function(plan) {
  key <- plan$host$key
  if (!is.null(the_host$hosts[[key]])) .Call(ffi_remote_end, the_host$hosts[[key]]$pointer)
  the_host$hosts[[key]] <- NULL
}

# own_link() has the link end when the cluster with this id is collected.
own_link <- function(plan, id) {
  link <- the_host$hosts[[c(plan$host$key, "none")[1L]]]
  if (!is.null(link)) .Call(ffi_remote_owner, link$pointer, as.integer(id))
}

# host_link() gives list(key, pointer, command, facts) of the plan's host: the one that there is, or
# another.
host_link <- function(plan) {
  begin_link(plan)
  finish_link(plan)
}

is_up <- function(link) identical(.Call(ffi_remote_state, link$pointer)$state, "up")

is_linked <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  !is.null(link) && is_up(link)
}

# finish_link() waits for the link that begin_link() has begun.
finish_link <- function(plan) {
  link <- the_host$hosts[[plan$host$key]]
  if (!is.null(link$facts)) {
    return(link)
  }
  plan$host$command <- link$command # as it was run
  up <- FALSE
  on.exit(if (!up) end_link(plan))
  watch <- new_queue_watch()
  while (is_starting(plan)) wait_for_some(list(plan), watch)
  if (!.Call(ffi_remote_wait, link$pointer, plan_timeout(plan))) {
    abort_link(.Call(ffi_remote_state, link$pointer), plan)
  }
  link$facts <- .Call(ffi_remote_state, link$pointer)$facts
  check_facts(link$facts, plan, .Call(ffi_remote_state, link$pointer)$output)
  .Call(
    ffi_remote_is, link$pointer, link$facts$build,
    c(c(plan$host$name, link$facts$node)[1L], link$facts$job),
    identical(link$facts$processes, process_space())
  )
  note_host_end(plan, link, NULL)
  up <- TRUE
  if (is_queued(plan) && plan$policy[1L] > 0) link$look_s <- proc.time()[["elapsed"]] + 2
  the_host$hosts[[link$key]] <- link
  plan_look()
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
  ended <- state$how != exits[["none"]]
  output <- paste0(state$output, state$skipped)
  known <- why_ended(plan, state, output)
  if (identical(known$reason, "prologue")) abort_prologue(plan, state, output, known)
  abort_muster(if (timed_out) "timeout" else "launch",
    if (timed_out) {
      paste0("No answer came from ", host_shown(plan), " within ", plan_timeout(plan), " s.")
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
      "It must run muster::muster_host() there; try it by hand: it prints <muster host 1>."
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

# host_servers() gives a fork server on each plan's host: all that are missing boot at once. again:
# a link may end while a server is asked for; then the host is reached again.
host_servers <- function(plans, again = TRUE) {
  begun <- list()
  complete <- FALSE
  on.exit(if (!complete) end_begun(begun))
  for (plan in plans) begun <- c(begun, list(begin_host_server(plan)))
  servers <- Map(finish_host_server, plans, begun, again)
  complete <- TRUE
  servers
}

end_begun <- function(begun) {
  for (one in begun) {
    if (typeof(one$pointer) == "externalptr") end_server(one$pointer, "")
  }
}

# list(server) that there is, or list(pointer, link, key) of one that boots.
begin_host_server <- function(plan) {
  link <- host_link(plan)
  late <- is_late(plan$packages)
  packages <- plan$packages[!late]
  load <- setdiff(c(plan$packages[late], plan$load), not_preloaded)
  key <- paste(c(link$key, packages, "-", load, deparse(plan$boot)), collapse = "\n")
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
  list(pointer = .Call(ffi_remote_server, link$pointer, order, setup), link = link, key = key)
}

finish_host_server <- function(plan, begun, again) {
  if (!is.null(begun$server)) {
    return(begun$server)
  }
  server <- tryCatch(wait_for_host_server(plan, begun), error = identity)
  if (inherits(server, "error")) {
    if (again && !is_up(begun$link)) {
      return(finish_host_server(plan, begin_host_server(plan), again = FALSE))
    }
    stop(server) # tidy: raised above
  }
  if (is.null(server$refused)) {
    the_cluster$servers <- c(the_cluster$servers, list(server))
  }
  server
}

wait_for_host_server <- function(plan, begun) {
  pointer <- begun$pointer
  if (is.null(pointer)) {
    plan$host$command <- begun$link$command
    abort_link(.Call(ffi_remote_state, begun$link$pointer), plan)
  }
  if (is.list(pointer)) {
    abort_muster(launch_kind(pointer$errno),
      paste0("Can't ask ", host_shown(plan), " for a fork server."),
      details = paste0(pointer$call, ": ", pointer$error), hints = errno_hint(pointer$errno),
      errno = pointer$errno, host = plan$host$name, call = plan$call
    )
  }
  waited <- tryCatch(
    wait_for_server(pointer, "", plan$call, function() {
      list(key = begun$key, pointer = pointer, base = "", env = character(), host = begun$link)
    }),
    muster_error = function(e) e
  )
  if (inherits(waited, "error")) raise_condition(at_host(waited, plan))
  waited
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

# Links are ended with the last cluster that has workers there: then the host process ends, and the
# job or container with it.
drop_hosts <- function() {
  plans_drop()
  keys <- function(kept) lapply(kept$plans, function(one) one$host$key)
  used <- unlist(lapply(the_cluster$plans, keys))
  for (key in setdiff(names(the_host$hosts), c(used, the_host$reached))) {
    leaves <- the_host$hosts[[key]]$leaves
    if (is.null(leaves) || !leaves$id %in% names(the_cluster$plans)) drop_host(key)
  }
}

drop_host <- function(key) {
  link <- the_host$hosts[[key]]
  there <- vapply(the_cluster$servers, function(server) identical(server$host$key, key), NA)
  left <- vapply(the_cluster$servers[there], function(server) !end_server(server$pointer, ""), NA)
  if (!any(left)) {
    the_cluster$servers <- the_cluster$servers[!there]
    the_host$hosts[[key]] <- NULL
    .Call(ffi_remote_end, link$pointer)
  }
}

# ---- Hosts that come later

# Called from C when a link has come up or is gone, and once a second, while a cluster waits for a
# host; and when plan_look() has said. It may be called while it waits for a fork server.
join_hosts <- function() {
  if (the_host$joins) {
    return(begin_joins())
  }
  the_host$joins <- TRUE
  on.exit({
    the_host$joins <- FALSE
    plan_look()
  })
  leave_hosts()
  wake_hosts()
  if (is.null(the_host$watch)) the_host$watch <- new_queue_watch()
  for (one in later_groups()) {
    if (is.null(the_host$hosts[[one$plan$host$key]]) && may_ask_again(one)) {
      failed <- tryCatch(begin_link(one$plan), error = identity)
      own_link(one$plan, one$id)
      if (inherits(failed, "error")) join_host(one$plan, one$id, one$group, failed)
    }
  }
  later <- later_groups()
  late <- watch_jobs(Filter(is_starting, lapply(later, `[[`, "plan")), the_host$watch)
  for (job in late) the_host$begun[[job$plan$host$key]] <- job$error
  on.exit(end_joins(), add = TRUE)
  joined <- character() # each once: what fails now is asked for again later
  repeat {
    begin_joins()
    ready <- Filter(function(one) {
      !is.null(the_host$begun[[one$plan$host$key]]) && !paste(one$id, one$group) %in% joined
    }, later_groups())
    if (!length(ready)) break
    one <- ready[[1L]]
    key <- one$plan$host$key
    begun <- the_host$begun[[key]]
    the_host$begun[[key]] <- list() # not another one meanwhile
    join_host(one$plan, one$id, one$group, begun)
    the_host$begun[[key]] <- NULL
    joined <- c(joined, paste(one$id, one$group))
  }
  if (!length(later_groups())) the_host$watch <- NULL
}

# begin_joins() has a fork server boot on each host whose link has come up or is gone.
# the_host$begun has what begin_host_server() gives, or the error, by the host's key. It is called
# again while one of them is waited for, so that they boot at once.
begin_joins <- function() {
  for (one in later_groups()) {
    key <- one$plan$host$key
    is_new <- is.null(the_host$begun[[key]]) && !is.null(the_host$hosts[[key]])
    if (is_new && !is_starting(one$plan)) {
      the_host$begun[[key]] <- tryCatch(begin_join(one$plan), error = identity)
    }
  }
}

begin_join <- function(plan) {
  finish_link(plan)
  begin_host_server(plan)
}

end_joins <- function() {
  end_begun(the_host$begun)
  the_host$begun <- list()
}

# ---- Hosts that are lost

# await_host() has a group wait for its host, which is gone: its workers are pending until it joins.
# FALSE if the cluster is gone.
await_host <- function(plan, id, group) {
  id <- as.character(id)
  link <- the_host$hosts[[plan$host$key]]
  gone <- !is.null(link) && !is_starting(plan) # else another cluster has asked for it
  where <- host_shown(plan)
  lost <- if (gone) link_loss(plan, link)
  if (gone) end_link(plan)
  awaited <- await_group(id, group)
  if (gone) {
    inform_muster("server", paste0(capitalised(where), " is gone; it is asked for again."),
      details = lost
    )
  }
  join_hosts()
  awaited
}

# FALSE if the cluster is gone.
await_group <- function(id, group) {
  await_later(id, group)
  .Call(ffi_cluster_await, as.integer(id), group)
}

await_later <- function(id, group) {
  the_cluster$plans[[id]]$later <- union(the_cluster$plans[[id]]$later, group)
  tries <- list(at_s = -Inf, paused_s = 0, pause_s = 1)
  the_cluster$plans[[id]]$tries[[as.character(group)]] <- tries
}

may_ask_again <- function(one) {
  tries <- the_cluster$plans[[one$id]]$tries[[as.character(one$group)]]
  is.null(tries) || proc.time()[["elapsed"]] >= tries$at_s
}

# ask_later() decides what follows when a lost host couldn't be reached: TRUE if it is asked for
# again, after a pause that doubles. All pauses together are as long as a host may take to start.
ask_later <- function(plan, id, group, failed) {
  group <- as.character(group)
  tries <- the_cluster$plans[[id]]$tries[[group]]
  if (is.null(tries)) {
    return(FALSE)
  }
  paused_s <- tries$paused_s + tries$pause_s
  again <- paused_s <= plan_timeout(plan) && !isTRUE(failed$reason %in% lasting_reasons)
  the_cluster$plans[[id]]$tries[[group]] <- if (again) {
    list(
      at_s = proc.time()[["elapsed"]] + tries$pause_s, paused_s = paused_s,
      pause_s = 2 * tries$pause_s
    )
  }
  again
}

# A host that fails for one of these reasons does so the next time, too.
lasting_reasons <- c(
  "name", "key", "login", "prologue", "R", "muster", "version", "partition", "account", "request",
  "pending"
)

# ---- Hosts that end soon

# leave_hosts() has workers leave hosts that were told to end, and jobs before their time limit.
# Another is asked for; until it is there, they are pending.
leave_hosts <- function() {
  plans_drop()
  for (key in names(the_host$hosts)) {
    leaves <- the_host$hosts[[key]]$leaves
    left <- is.null(leaves) ||
      .Call(ffi_cluster_move, leaves$id, leaves$group, the_host$hosts[[key]]$pointer) > 0L
    if (!left) drop_host(key)
  }
  groups <- linked_groups()
  ends <- vapply(groups, function(one) .Call(ffi_remote_leaves, one$link$pointer), NA)
  for (one in groups[ends]) {
    leave_host(one$plan, one$id, one$group, one$link, "was told to end; another one is asked for.")
  }
  now_s <- proc.time()[["elapsed"]]
  due <- Filter(function(one) now_s >= c(one$link$look_s, Inf)[1L], groups[!ends])
  left_s <- slurm_left(vapply(due, function(one) one$link$name, ""))
  for (i in seq_along(due)) look_at_limit(due[[i]], left_s[i])
}

# list(id, group, plan, link) of each group that has a host and heals.
linked_groups <- function() {
  groups <- do.call(c, lapply(names(the_cluster$plans), function(id) {
    plans <- the_cluster$plans[[id]]$plans
    lapply(seq_along(plans), function(group) {
      link <- the_host$hosts[[c(plans[[group]]$host$key, "none")[1L]]]
      list(id = id, group = group, plan = plans[[group]], link = link)
    })
  }))
  Filter(function(one) !is.null(one$link) && one$plan$policy[1L] > 0, groups)
}

look_at_limit <- function(due, left_s) {
  link <- due$link
  link$margin_s <- c(link$margin_s, min(60, max(10, left_s / 10)))[1L]
  if (left_s <= link$margin_s) {
    leave_host(due$plan, due$id, due$group, link, paste0(
      "ends in ", round(left_s), " s; another one is asked for."
    ), "The job of ")
  } else {
    # Slurm may not have answered, and an administrator may shorten a limit.
    link$look_s <- proc.time()[["elapsed"]] + min(left_s - link$margin_s, 600)
    the_host$hosts[[link$key]] <- link
  }
}

# leave_host() has a group wait for another host, and its workers move there: each ends as soon as
# it has answered what it was given.
leave_host <- function(plan, id, group, link, why, what = "") {
  where <- host_shown(plan)
  link <- set_link_aside(link, id, group)
  await_group(id, group)
  .Call(ffi_cluster_move, as.integer(id), group, link$pointer)
  inform_muster("leaving", paste(capitalised(paste0(what, where)), why))
}

# A link that workers leave stays, under another key, until all have.
set_link_aside <- function(link, id, group) {
  key <- link$key
  link$key <- paste(key, link$name)
  link$leaves <- list(id = as.integer(id), group = group)
  link$look_s <- NULL
  the_host$hosts[[key]] <- NULL
  the_host$hosts[[link$key]] <- link
  the_cluster$servers <- lapply(the_cluster$servers, function(server) {
    if (identical(server$host$key, key)) {
      server$host$key <- link$key
      server$key <- paste(link$key, server$key)
    }
    server
  })
  link
}

# Has join_hosts() called again when it is needed.
plan_look <- function() {
  soon_s <- vapply(as.list(the_host$hosts), function(link) {
    if (is.null(link$leaves)) c(link$look_s, Inf)[1L] - proc.time()[["elapsed"]] else 0.2
  }, 0)
  .Call(ffi_remotes_look, min(forever_s, soon_s))
}

# list(id, group, plan) of each group of a cluster whose host isn't there yet.
later_groups <- function() {
  plans_drop()
  do.call(c, lapply(names(the_cluster$plans), function(id) {
    kept <- the_cluster$plans[[id]]
    lapply(kept$later, function(group) {
      list(id = id, group = group, plan = kept$plans[[group]])
    })
  }))
}

# begun: of its fork server, or why there is none.
join_host <- function(plan, id, group, begun) {
  joined <- tryCatch(
    {
      if (inherits(begun, "error")) stop(begun) # tidy: raised above
      server <- finish_host_server(plan, begun, again = FALSE)
      if (!is.null(server$refused)) abort_refused(plan, server$refused)
      server
    },
    error = identity
  )
  where <- host_shown(plan)
  failed <- inherits(joined, "error")
  if (failed) end_link(plan)
  kept <- the_cluster$plans[[id]]
  if (is.null(kept)) {
    return(invisible()) # the cluster is gone meanwhile
  }
  if (failed && ask_later(plan, id, group, joined)) {
    return(invisible())
  }
  if (failed) abort_unless_others(kept, conditionMessage(joined))
  waiting <- .Call(
    ffi_cluster_adopt, as.integer(id), group, if (!failed) joined$pointer,
    if (!failed) late_orders(plan, joined)
  )
  if (is.null(waiting)) {
    return(invisible()) # the cluster is gone, or the server, which is asked for again
  }
  the_cluster$plans[[id]]$later <- setdiff(kept$later, group)
  the_cluster$plans[[id]]$tries[[as.character(group)]] <- NULL
  the_cluster$plans[[id]]$refused[[as.character(group)]] <- if (failed) conditionMessage(joined)
  if (failed) the_cluster$plans[[id]]$lost <- union(kept$lost, group)
  if (failed) {
    inform_muster("server", paste0("No workers can start on ", where, "."),
      details = conditionMessage(joined),
      hints = "They are given up. cluster_resize() tries again."
    )
  } else if (waiting > 0L) {
    inform_muster("joined", paste0(
      capitalised(where), " has joined: ", number_of(waiting, "worker"), "."
    ), workers = waiting)
  }
}
