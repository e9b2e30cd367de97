# Only print methods print.

#' @export
print.muster_cluster <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.muster_cluster <- function(x, ...) {
  nodes <- unclass(x)
  if (!length(nodes)) {
    return("muster cluster with no workers")
  }
  states <- vapply(nodes, node_state, "")
  starts <- unique(vapply(nodes, .subset2, "", "start"))
  words <- c(fork = "forked", spawn = "booted")[starts]
  paste0(
    if (any(states == "copied")) "copy of a ", "muster cluster with ", workers_text(nodes),
    hosts_counted(vapply(nodes, .subset2, "", "host"), states %in% away_states),
    " (", paste(c(words, threads_text(nodes)), collapse = ", "), ")", states_text(nodes, states)
  )
}

# " on host 'a'", " on hosts 'a' (4), 'b' (2)", or "" where none is there.
hosts_counted <- function(hosts, away) {
  hosts <- hosts[!away]
  counts <- table(factor(hosts, unique(hosts)))
  if (length(counts) < 2L) {
    return(if (length(counts)) paste(" on host", sQuote(hosts[1L])))
  }
  paste(" on hosts", paste0(sQuote(names(counts)), " (", counts, ")", collapse = ", "))
}

# "4 workers", or "2 of 4 workers (2, 3)" if the cluster has other workers too.
workers_text <- function(nodes) {
  groups <- by_cluster(nodes)
  all <- if (length(groups) == 1L) .Call(ffi_cluster_status, groups[[1L]]$pointer)
  if (is.list(all)) {
    ranks <- groups[[1L]]$ranks
    others <- setdiff(which(vapply(all, `[[`, "", "state") != "stopped"), ranks)
    if (length(others)) {
      all <- length(others) + length(nodes)
      return(paste0(length(nodes), " of ", all, " workers (", numbers_text(ranks), ")"))
    }
  }
  number_of(length(nodes), "worker")
}

# Of workers that are on no host.
away_states <- c("pending", "asleep")

# "" for a usable worker (even while it is being replaced), "stopped", "lost" or "copied".
node_state <- function(node) {
  look <- .Call(ffi_node_look, node)
  if (is.list(look)) {
    if (look$state %in% c("lost", away_states)) look$state else ""
  } else if (is_ended(look)) {
    "stopped"
  } else {
    "copied"
  }
}

states_text <- function(nodes, states) {
  ranks <- vapply(nodes, .subset2, 0L, "rank")
  if (any(states == "copied")) {
    ", which only the process that started it can use"
  } else if (all(states == "stopped")) {
    ", stopped"
  } else {
    paste0(
      for_state(ranks, states, "pending"), for_state(ranks, states, "asleep"),
      for_state(ranks, states, "stopped"), for_state(ranks, states, "lost")
    )
  }
}

for_state <- function(ranks, states, state) {
  at <- states == state
  if (any(at)) paste0(", ", ranks_text(ranks[at]), " ", state)
}

ranks_text <- function(ranks) {
  paste(if (length(ranks) == 1L) "worker" else "workers", numbers_text(ranks))
}

# "1 to 4, 7"
numbers_text <- function(ranks) {
  runs <- split(ranks, cumsum(c(1L, diff(ranks) != 1L)))
  texts <- vapply(runs, function(run) {
    ends <- range(run)
    if (length(run) > 2L) paste(ends[1L], "to", ends[2L]) else paste(run, collapse = ", ")
  }, "")
  paste(texts, collapse = ", ")
}

# Packages accept a limit on their threads silently, so it is shown here.
threads_text <- function(x) {
  threads <- unique(unlist(lapply(x, .subset2, "threads")))
  if (length(threads) == 1L) {
    paste0(threads, if (threads == 1L) " thread" else " threads", if (length(x) > 1L) " each")
  }
}

#' @export
print.muster_node <- function(x, ...) {
  cat("muster worker ", .subset2(x, "rank"), " on host ", sQuote(.subset2(x, "host")),
    ", pid ", .subset2(x, "pid"), node_state_text(node_state(x)), "\n",
    sep = ""
  )
  invisible(x)
}

node_state_text <- function(state) {
  if (state == "copied") {
    " (a copy, which only the process that started it can use)"
  } else if (nzchar(state)) {
    paste0(", ", state)
  }
}
