# Makes parallel::makeCluster() start muster's workers, where R lets packages register a type.

#' Have makeCluster() start muster's workers
#'
#' After `muster_default()`, `parallel::makeCluster(n)` without a `type` starts a muster cluster,
#' even when other people's code calls it. R supports that from version 4.5 on
#' (`registerClusterType()`). With an older R nothing changes, and a message says so. Package
#' parallel itself is never changed.
#'
#' @param on `TRUE`, the default, or `FALSE` for R's own default.
#' @returns invisibly, `TRUE` if `makeCluster()` now starts muster's workers, `FALSE` if it starts
#'   R's own.
#' @section Errors:
#' `muster_error_input`: `on` is neither `TRUE` nor `FALSE`.
#' @section Source:
#' `registerClusterType()` of package parallel, R 4.5.
#' @examples
#' muster_default()
#' muster_default(FALSE)
#' @export
muster_default <- function(on = TRUE) {
  check_flag(on, "on", sys.call())
  register <- cluster_type_register()
  if (is.null(register)) {
    if (on) {
      inform_muster("default",
        paste0("makeCluster() in R ", getRversion(), " can't start muster's workers by default."),
        hints = c(
          "R 4.5 can. Until then: cl <- muster::makeClusterPSOCK(n), or cluster_start(n).",
          "Pass that cluster to functions that take one, or call setDefaultCluster(cl)."
        )
      )
    }
    return(invisible(FALSE))
  }
  if (on) {
    suppressWarnings(register("MUSTER", start_cluster_type, make.default = TRUE))
    the_parallel$default <- TRUE
  } else if (the_parallel$default) {
    # Back to R's own type, with the starter that R registers.
    starter <- get("makePSOCKcluster", asNamespace("parallel"))
    suppressWarnings(register("PSOCK", starter, make.default = TRUE))
    the_parallel$default <- FALSE
  }
  invisible(on)
}

# parallel's function to register a type of clusters, NULL before R 4.5.
cluster_type_register <- function() {
  parallel <- asNamespace("parallel")
  if ("registerClusterType" %in% getNamespaceExports(parallel)) {
    get("registerClusterType", envir = parallel)
  }
}

# R >= 4.5: parallel::makeCluster(n, type = "MUSTER"). A second registration warns that it replaces
# the first, which is what is wanted here and in muster_default().
register_cluster_type <- function() {
  register <- cluster_type_register()
  if (!is.null(register)) {
    suppressWarnings(register("MUSTER", start_cluster_type))
  }
}

# What makeCluster() passes to a starter: the number or names of hosts, and options, of which only
# those that make sense here are used. parallel's other options say how another R is found and
# booted (R 4.2.2 to 4.5, ls(parallel:::defaultClusterOptions)).
start_cluster_type <- function(spec, ...) {
  given <- list(...)
  if (missing(spec) || is.null(spec)) {
    spec <- availableCores()
  }
  if (is.numeric(given[["setup_timeout"]])) given$connectTimeout <- given[["setup_timeout"]]
  no_meaning <- c("rhome", "rlibs", "rprog", "scriptdir", "setup_timeout", "snowlib", "useRscript")
  given <- given[!names(given) %in% no_meaning]
  known <- intersect(names(given), names(formals(makeNodePSOCK)))
  if (is.list(spec)) {
    cluster_of_list(spec, given[known], sys.call())
  } else if (is.character(spec) || length(known)) {
    do.call("makeClusterPSOCK", c(list(spec), given[known]))
  } else {
    do.call("cluster_start", c(list(spec), given))
  }
}

# As parallel and snow take it: hosts, or lists of a host and options for its worker alone.
cluster_of_list <- function(spec, options, call) {
  nodes <- lapply(spec, function(one) if (is.list(one)) one else list(host = one))
  hosts <- lapply(nodes, `[[`, "host")
  good <- vapply(hosts, function(host) is.character(host) && length(host) == 1L, NA)
  if (!length(nodes) || !all(good)) {
    abort_input("spec", "a number, names of hosts, or a list of hosts and lists with `host`",
      spec, call
    )
  }
  own <- lapply(nodes, function(node) {
    node[intersect(setdiff(names(node), "host"), names(formals(makeNodePSOCK)))]
  })
  if (!any(lengths(own))) {
    return(do.call("makeClusterPSOCK", c(list(unlist(hosts)), options)))
  }
  clusters <- list()
  # Nothing is left of those before one that can't start.
  on.exit(for (cl in clusters) parallel::stopCluster(cl))
  for (i in seq_along(hosts)) {
    options_of <- options
    options_of[names(own[[i]])] <- own[[i]]
    clusters[[i]] <- do.call("makeClusterPSOCK", c(hosts[i], options_of))
  }
  on.exit()
  do.call(c, clusters)
}
