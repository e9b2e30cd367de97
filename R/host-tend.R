# What sites need (src/sched/site.h, which decides when): commands that are run, fork servers that
# boot, queues that are looked at, words. Nothing here waits for a host.
#
# A site that needs something is list(at, plan, value, is): `at` names it, and what it was then, see
# tend.c; the plan is the group's, see group_plan().

# tend_hosts() is called from C while somebody waits and a site of some cluster needs something. It
# may be called again while it is at work: nothing is given twice.
tend_hosts <- function() {
  plans_drop()
  drop_left()
  carry_out_all(NULL, function(at) {
    kept <- the_cluster$plans[[as.character(at[2L])]]
    if (!is.null(kept)) kept$plans[[at[3L]]]
  }, list(fail = fail_site, serve = serve_site, take = take_server))
  drop_gone_servers()
}

# numbers: of sites that are about to start, or NULL. on: list(fail(one, error), serve(one),
# take(one)). What an interrupt prevents is still to do. What is to be said is said last: its
# handlers may wait, and come here again.
carry_out_all <- function(numbers, plan_of, on) {
  left <- list()
  on.exit(for (one in left) tell_site(one, "undone", what))
  repeat {
    suspendInterrupts({
      due <- .Call(ffi_sites_next, numbers)
      what <- due$what
      left <- sites_due(due)
    })
    if (!length(left)) break
    for (i in seq_along(left)) left[[i]]$plan <- plan_of(left[[i]]$at)
    left <- Filter(function(one) !is.null(one$plan), left)
    if (what == site_do[["look"]]) {
      look_at_queues(left, on$fail)
      left <- list()
    } else if (what == site_do[["look_left"]]) {
      look_at_limits(left)
      left <- list()
    }
    while (length(left)) {
      carry_out(what, left[[1L]], on)
      left <- left[-1L]
    }
    say_words()
  }
}

sites_due <- function(due) {
  if (is.null(due)) {
    return(list())
  }
  at <- matrix(due$at, 5L)
  lapply(seq_len(ncol(at)), function(i) {
    list(at = at[, i], value = due$value[i], is = due$is[i])
  })
}

carry_out <- function(what, one, on) {
  act <- switch(names(site_do)[site_do == what],
    say_gone = say_gone, say_leaves = say_leaves, ask = ask_for_host, take = on$take,
    serve = on$serve, why = find_out_why
  )
  if (!.Call(ffi_site_same, one$at)) {
    return()
  }
  said <- tryCatch(act(one), error = function(e) {
    if (is_time_limit(e)) stop(e) else e # tidy: raised above
  })
  if (inherits(said, "error")) said <- on$fail(one, said)
  say_later(said)
}

say_later <- function(said) {
  if (is.function(said)) the_host$words <- c(the_host$words, said)
}

# Of setTimeLimit(): the user's, in the session's language.
is_time_limit <- function(e) {
  limits <- c(
    "reached elapsed time limit", "reached CPU time limit", "reached session elapsed time limit",
    "reached session CPU time limit"
  )
  conditionMessage(e) %in% c(limits, gettext(limits, domain = "R"))
}

# A handler may raise: then the rest is said later.
say_words <- function() {
  while (length(the_host$words)) {
    say <- the_host$words[[1L]]
    the_host$words <- the_host$words[-1L]
    say()
  }
}

tell_site <- function(one, fact, value = 0) {
  .Call(ffi_site_tell, one$at, site_facts[[fact]], as.double(value))
}

# site_terms() describes a plan's site for ffi_site_new().
site_terms <- function(plan) {
  most_s <- if (may_wait(plan)) c(plan$host$queue_timeout, Inf)[1L] else Inf
  c(
    may_wait(plan), is_queued(plan), plan$policy[1L] > 0, is_asleep(plan), plan_timeout(plan),
    most_s, is_asleep(plan)
  )
}

new_site <- function(plan) {
  if (!.Call(ffi_site_new, as.integer(plan$host$key), site_terms(plan))) {
    abort_muster("limit", "There is no memory for a host.", host = plan$host$name,
      call = plan$call
    )
  }
}

# ---- Hosts that are asked for

# These give a function that says what happened, or nothing. They raise why the site doesn't get
# what it needs.

ask_for_host <- function(one) begin_link(one$plan)

find_out_why <- function(one) {
  link <- the_host$hosts[[one$plan$host$key]]
  plan <- one$plan
  plan$host$command <- link$command
  if (one$value == site_whys[["queue"]]) abort_queued(plan, link)
  .Call(ffi_remote_wait, link$pointer, 0) # for its last words, if it has ended
  abort_link(link_state(plan), plan)
}

serve_site <- function(one) {
  plan <- one$plan
  if (is.null(plan$host)) {
    server <- server_for(plan)
    if (!is.null(server$refused)) abort_refused(plan, server$refused)
    base <- the_cluster$plans[[as.character(one$at[2L])]]$bases[one$at[3L]]
    temp_dir(basename(base), plan$call)
    return(adopt_server(one, server))
  }
  suspendInterrupts(the_host$begun[[plan$host$key]] <- begin_host_server(plan))
  if (!is.null(the_host$begun[[plan$host$key]]$server)) take_server(one)
}

# take_server() gives a site the fork server that has booted.
take_server <- function(one) {
  plan <- one$plan
  begun <- the_host$begun[[plan$host$key]]
  if (is.null(begun)) {
    return(serve_site(one)) # an interrupt came between this and its server's adoption
  }
  the_host$begun[[plan$host$key]] <- NULL
  server <- finish_host_server(plan, begun, again = FALSE, wait_s = 0)
  if (!is.null(server$refused)) abort_refused(plan, server$refused)
  adopt_server(one, server)
}

adopt_server <- function(one, server) {
  far <- !is.null(one$plan$host)
  id <- as.character(one$at[2L])
  waiting <- .Call(
    ffi_cluster_adopt, one$at[2L], one$at[3L], server$pointer,
    if (far) late_orders(one$plan, server)
  )
  if (is.null(waiting)) {
    return(NULL) # the cluster is gone, or the server, which is asked for again
  }
  the_cluster$plans[[id]]$refused[[as.character(one$at[3L])]] <- NULL
  where <- site_shown(one$plan)
  if (one$is == site_is[["replaced"]]) {
    function() {
      inform_muster("server", paste0(
        "The fork server ", if (far) paste0("on ", where, " "),
        "was gone; another one was started."
      ))
    }
  } else if (waiting > 0L) {
    function() {
      inform_muster("joined", paste0(
        capitalised(where), " has joined: ", number_of(waiting, "worker"), "."
      ), workers = waiting)
    }
  }
}

site_shown <- function(plan) if (is.null(plan$host)) "this machine" else host_shown(plan)

# A host that fails for one of these reasons does so the next time, too.
lasting_reasons <- c(
  "name", "key", "login", "R", "muster", "version", "prologue", "partition", "account", "request",
  "pending"
)

# fail_site() tells what follows when a site didn't get what it needs. It gives what is to be said.
fail_site <- function(one, error) {
  plan <- one$plan
  where <- site_shown(plan)
  replaced <- one$is == site_is[["replaced"]]
  drop_begun(plan)
  suspendInterrupts({
    ends <- tell_site(one, "failed", isTRUE(error$reason %in% lasting_reasons))
    if (!is.null(plan$host) && !replaced) end_link(plan)
  })
  why <- conditionMessage(error)
  if (identical(ends, site_ends[["is_error"]])) {
    abort_muster("lost",
      "Can't replace workers: their fork server is gone, and no other can start.",
      details = why, hints = "cluster_stop() this cluster and start another.", call = verb_call()
    )
  }
  if (identical(ends, site_ends[["is_lost"]])) {
    the_cluster$plans[[as.character(one$at[2L])]]$refused[[as.character(one$at[3L])]] <- why
    no_server <- replaced || is.null(plan$host)
    return(function() {
      inform_muster("server",
        paste0(
          if (no_server) "No fork server can start on " else "No workers can start on ", where, "."
        ),
        details = why,
        hints = paste(
          if (no_server) "Its workers" else "They", "are given up. cluster_resize() tries again."
        )
      )
    })
  }
}

# drop_begun() ends the fork server that boots on a plan's host.
drop_begun <- function(plan) {
  key <- c(plan$host$key, "none")[1L]
  if (!is.null(the_host$begun[[key]])) end_begun(the_host$begun[[key]])
  the_host$begun[[key]] <- NULL
}

# ---- Hosts that end

say_gone <- function(one) {
  plan <- one$plan
  where <- host_shown(plan)
  link <- the_host$hosts[[plan$host$key]]
  lost <- if (!is.null(link)) link_loss(plan, link)
  drop_begun(plan)
  end_link(plan)
  function() {
    inform_muster("server", paste0(capitalised(where), " is gone; it is asked for again."),
      details = lost
    )
  }
}

say_leaves <- function(one) {
  where <- host_shown(one$plan)
  limit <- one$value > 0
  set_link_aside(one$plan$host$key)
  function() {
    inform_muster("leaving", paste0(
      capitalised(paste0(if (limit) "The job of ", where)), " ",
      if (limit) paste("ends in", round(one$value), "s") else "was told to end",
      "; another one is asked for."
    ))
  }
}

look_at_limits <- function(sites) {
  names <- vapply(sites, function(one) the_host$hosts[[one$plan$host$key]]$name, "")
  left_s <- slurm_left(names)
  for (i in seq_along(sites)) tell_site(sites[[i]], "left_ns", left_s[i])
}

# ---- Queues

# look_at_queues() tells which commands wait in a queue.
look_at_queues <- function(sites, fail) {
  slurm <- vapply(sites, function(one) is_queued(one$plan), NA)
  jobs <- if (any(slurm)) {
    pending_jobs(vapply(sites[slurm], function(one) the_host$hosts[[one$plan$host$key]]$name, ""))
  }
  said <- lapply(sites, function(one) {
    tryCatch(
      {
        found <- if (by_dialin(one$plan$host)) {
          NA # it waits until it has joined
        } else if (is_queued(one$plan)) {
          look_at_job(one$plan, jobs)
        } else {
          look_at_output(one$plan)
        }
        tell_site(one, if (is.null(found)) "runs" else "pending", !is_queued(one$plan))
        found
      },
      muster_error = function(error) say_later(fail(one, error))
    )
  })
  awaited <- any(vapply(sites, function(one) by_dialin(one$plan$host), NA))
  tell_pending(unlist(Filter(is.character, said)), all(slurm), if (awaited) awaited_hosts() else 0L)
}
