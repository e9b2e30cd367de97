# From the options of nodes to a cluster: muster's own workers in groups of the same kind,
# R's own ones beside them.

# psock_start() gives the cluster. Raises what its parts raise; then nothing is left.
psock_start <- function(options, port, tries, delay, validate, auto_stop, call) {
  tries <- if (options[[1L]]$strategy == "sequential") tries else 1L
  for (attempt in seq_len(tries - 1L)) {
    cl <- tryCatch(psock_try(options, port, validate, auto_stop, call),
      muster_error_launch = identity, muster_error_timeout = identity
    )
    if (!inherits(cl, "error")) {
      return(cl)
    }
    verbose_message(options[[1L]], paste0(
      "Attempt ", attempt, " of ", tries, " failed: ", conditionMessage(cl)
    ))
    Sys.sleep(delay)
  }
  psock_try(options, port, validate, auto_stop, call)
}

psock_try <- function(options, port, validate, auto_stop, call) {
  nodes <- vector("list", length(options))
  complete <- FALSE
  on.exit(if (!complete) stop_any(Filter(Negate(is.null), nodes)))
  groups <- node_groups(options)
  for (group in groups) {
    o <- options[[group$at[1L]]]
    if (group$route$kind != "stock") {
      verbose_message(o, paste0(
        "Starting ", length(group$at), " of muster's own workers (", group$route$kind, ")"
      ))
      nodes[group$at] <- tryCatch(start_own(o, group, validate, auto_stop, call),
        muster_error_launch = function(e) {
          if (group$route$kind != "spawn" || !is_not_handed_over(e)) raise_condition(e)
          inform_muster("stock", "R's own workers are used: muster's can't be started this way.",
            details = paste0(
              group$route$wrapper[1L], " doesn't pass on the descriptors that it inherits."
            )
          )
          start_stock(options[group$at], port, validate, auto_stop, call)
        }
      )
    }
  }
  stock <- unlist(lapply(groups, function(group) if (group$route$kind == "stock") group$at))
  if (length(stock)) {
    stock <- sort(stock)
    nodes[stock] <- start_stock(options[stock], port, validate, auto_stop, call)
  }
  complete <- TRUE
  join_nodes(nodes)
}

verbose_message <- function(o, text) {
  if (o$verbose) inform_muster("verbose", text)
}

# Groups of nodes that differ only in rank: list(list(at, route)).
node_groups <- function(options) {
  groups <- list()
  for (i in seq_along(options)) {
    o <- without_rank(options[[i]])
    same <- Find(function(g) identical(groups[[g]]$options, o), seq_along(groups))
    if (is.null(same)) {
      groups <- c(groups, list(list(at = i, options = o, route = psock_route(o))))
    } else {
      groups[[same]]$at <- c(groups[[same]]$at, i)
    }
  }
  groups
}

without_rank <- function(o) {
  o$rank <- o$given$rank <- o$given$calls <- NULL
  o
}

# ---- Muster's own workers

start_own <- function(o, group, validate, auto_stop, call) {
  plan <- local_plan(o, group$route, length(group$at), call)
  opened <- tryCatch(start_cluster(plan, may_fall_back = TRUE),
    muster_error_launch = function(e) raise_condition(with_command(e, o, group$route))
  )
  if (!auto_stop) {
    the_worker$kept <- c(the_worker$kept, opened$pointer)
  }
  nodes <- new_nodes(opened$nodes, opened, opened$groups, opened$of)
  info <- if (validate) parallel::clusterCall(new_cluster(nodes[1L]), session_facts)[[1L]]
  # Written once for all nodes; otherwise each would have its own copy.
  facts <- list2env(list(info = info, options = o), parent = topenv())
  for (node in nodes) {
    makeActiveBinding("options", light_function(quote(options), node, facts), node)
    makeActiveBinding("session_info", light_function(quote(info_of(info, node)), node, facts), node)
  }
  nodes
}

# A worker whose command closed its connections looks gone to the session, which ends it before it
# can report anything.
is_not_handed_over <- function(e) identical(e$signal, tools::SIGKILL) && identical(e$output, "")

# The settings that a failed start was made with, where they can be the reason.
with_command <- function(e, o, route) {
  wrapper <- paste(route$wrapper, collapse = " ")
  if (nzchar(wrapper)) {
    e$message <- paste0(e$message, "\ni R was started by: ", wrapper, " R ...")
    e$command <- wrapper
  }
  e
}

# What a worker reports about itself, in parallelly's format.
session_facts <- function() {
  list(
    process = list(pid = Sys.getpid()), r = unclass(R.version),
    system = as.list(Sys.info()), l10n = l10n_info(), extSoftVersion = extSoftVersion(),
    pwd = getwd(), tempdir = tempdir(), libs = .libPaths(), pkgs = NULL
  )
}

# Workers of one group differ only in their process and its directory.
info_of <- function(info, node) {
  if (is.null(info) || is.null(node)) {
    return(NULL)
  }
  info$process$pid <- node$pid
  now <- .Call(ffi_node_look, node)
  if (is.list(now) && nzchar(now$tempdir)) {
    info$tempdir <- now$tempdir
  }
  info
}
