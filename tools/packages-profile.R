# R's profile in the tests of tools/packages.R: notes each cluster that is started, and with
# MUSTER_PACKAGES=muster has muster start it.
#
# Functions of parallel, snow and parallelly are replaced in this process and its workers only:
# no package's source is changed, and registerClusterType() of R 4.5 reaches makeCluster()
# without a type and nothing else. Packages that import these functions are loaded later, so they
# import the replacements. Clusters of makeForkCluster() are parallel's in both runs: their
# workers must have the session's variables.

local({
  with_muster <- identical(Sys.getenv("MUSTER_PACKAGES"), "muster")
  note <- function(what) cat(what, "\n", file = Sys.getenv("MUSTER_PACKAGES_BOOK"), append = TRUE)

  replace_in <- function(package, name, replacement) {
    spaces <- list(asNamespace(package))
    attached <- paste0("package:", package)
    if (attached %in% search()) spaces <- c(spaces, as.environment(attached))
    for (space in spaces) {
      if (exists(name, space, inherits = FALSE)) {
        unlockBinding(name, space)
        assign(name, replacement, space)
        lockBinding(name, space)
      }
    }
  }

  # What muster offers R for makeCluster(), with all that callers give.
  of_muster <- function(spec, ...) {
    note("muster")
    get("start_cluster_type", asNamespace("muster"))(spec, ...)
  }

  # For makePSOCKcluster() of parallel and makeSOCKcluster() of snow.
  by_names <- function(package, name) {
    original <- get(name, asNamespace(package))
    replace_in(package, name, function(names = getOption("Ncpus", 2L), ...) {
      if (with_muster) return(of_muster(names, ...))
      note(package)
      original(names, ...)
    })
  }

  # The original of makeCluster() calls one of those.
  by_type <- function(package, default) {
    original <- get("makeCluster", asNamespace(package))
    replace_in(package, "makeCluster", function(spec = 2L, type = default, ...) {
      if (with_muster && type %in% c("PSOCK", "SOCK")) {
        of_muster(spec, ...)
      } else {
        original(spec, type, ...)
      }
    })
  }

  when_loaded <- function(package, do) {
    if (isNamespaceLoaded(package)) do()
    setHook(packageEvent(package, "onLoad"), function(...) do())
  }

  loadNamespace("parallel")
  by_type("parallel", "PSOCK")
  by_names("parallel", "makePSOCKcluster")
  when_loaded("snow", function() {
    by_type("snow", "SOCK")
    by_names("snow", "makeSOCKcluster")
  })
  when_loaded("parallelly", function() {
    original <- get("makeClusterPSOCK", asNamespace("parallelly"))
    replace_in("parallelly", "makeClusterPSOCK", function(...) {
      note(if (with_muster) "muster" else "parallelly")
      (if (with_muster) muster::makeClusterPSOCK else original)(...)
    })
  })
})
