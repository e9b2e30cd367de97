# Clusters whose hosts come and go: `scale` of cluster_start(). When is decided in C, see
# src/sched/scale.h, which lets hosts go also at the prompt; hosts are asked for here.

# ---- What cluster_start() was told

# NULL, or c(least, most).
check_scale <- function(scale, healing, call) {
  if (is.null(scale)) {
    return(NULL)
  }
  good <- is.numeric(scale) && length(scale) == 2L && !anyNA(scale) &&
    all(scale >= 0 & scale <= 10000 & scale == trunc(scale)) && scale[1L] <= scale[2L] &&
    scale[2L] > 0
  if (!good) {
    abort_input("scale",
      "NULL, or two whole numbers: how many workers at least, and at most (up to 10,000)",
      scale, call
    )
  }
  if (healing == 0) {
    abort_muster("input", "`scale` needs healing.",
      details = "With `healing = FALSE`, workers that are gone don't come back.",
      argument = "scale", call = call
    )
  }
  as.integer(scale)
}

# scaled_groups() gives groups with as many workers as `scale` has at most: the last host's command
# is run again and again where each run leads to another host.
scaled_groups <- function(groups, scale, call) {
  if (is.null(scale)) {
    return(groups)
  }
  if (all(vapply(groups, function(group) is.null(group$host), NA))) {
    abort_muster("input", "`scale` is for workers on other hosts.",
      hints = "Workers on this machine start in milliseconds: start a cluster when you need it.",
      argument = "scale", call = call
    )
  }
  if (any(vapply(groups, function(group) is.null(group$workers), NA))) {
    abort_muster("input", "With `scale`, the number of workers on each host must be known.",
      hints = "Launchers have an argument `workers`.", argument = "scale", call = call
    )
  }
  workers <- vapply(groups, `[[`, 0L, "workers")
  last <- groups[[length(groups)]]
  more <- ceiling((scale[2L] - sum(workers)) / last$workers)
  if (more > 0 && leads_to_others(last$host)) {
    groups <- c(groups, lapply(seq_len(more), function(i) with_key(last)))
    workers <- c(workers, rep(last$workers, more))
  }
  if (sum(workers) < scale[2L]) {
    abort_muster("input",
      paste0("`scale` allows ", scale[2L], " workers; the hosts have ", sum(workers), "."),
      argument = "scale", call = call
    )
  }
  before <- cumsum(workers) - workers
  groups <- groups[before < scale[2L]]
  n <- length(groups)
  groups[[n]]$workers <- min(workers[n], scale[2L] - before[n])
  groups
}

leads_to_others <- function(host) {
  isTRUE(host$queued) || (is.null(host$by) && !is.null(host) && has_mark(host$command, "{name}"))
}

# put_to_sleep() marks the plans whose hosts aren't needed for the least number of workers. Workers
# on this machine always stay.
put_to_sleep <- function(plans, scale) {
  if (is.null(scale)) {
    return(plans)
  }
  far <- vapply(plans, function(plan) !is.null(plan$host), NA)
  workers <- vapply(plans, `[[`, 0L, "workers")
  before <- sum(workers[!far]) + cumsum(workers * far) - workers * far
  lapply(seq_along(plans), function(i) {
    if (far[i] && before[i] >= scale[1L]) plans[[i]]$asleep <- plans[[i]]$later <- TRUE
    plans[[i]]
  })
}

is_asleep <- function(plan) isTRUE(plan$asleep)

# Of a cluster that has just started.
begin_scaling <- function(id, idle_s, call) {
  the_cluster$plain <- FALSE
  the_cluster$scales <- the_cluster$plans[[as.character(id)]]$scales <- TRUE
  if (!.Call(ffi_cluster_scale, id, idle_s)) {
    abort_muster("limit", "There is no memory for a cluster with `scale`.", call = call)
  }
}

# A task was submitted, and nobody may wait for it soon.
wake_for_task <- function(id) {
  scales <- isTRUE(the_cluster$plans[[as.character(id)]]$scales)
  if (scales && .Call(ffi_cluster_wakes, as.integer(id))) tend_hosts()
}

# ---- Hosts with data

# keep_hosts() has the hosts of these nodes be there until let_hosts_go() gets its value.
keep_hosts <- function(cl) {
  id <- .subset2(cl[[1L]], "id")
  if (!isTRUE(the_cluster$plans[[as.character(id)]]$scales)) {
    return(NULL)
  }
  groups <- unique(.Call(ffi_nodes_groups, cl))
  kept <- list(id = id, groups = groups[!is.na(groups)])
  .Call(ffi_cluster_keep, id, kept$groups, 1L)
  kept
}

let_hosts_go <- function(kept) {
  if (!is.null(kept)) .Call(ffi_cluster_keep, kept$id, kept$groups, -1L)
}
