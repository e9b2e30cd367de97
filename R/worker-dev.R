# In workers: packages under pkgload::load_all() in the session. They aren't in any library, and
# their functions only name their namespace. So each is loaded as in the session, from its sources,
# before something that names it is read here: src/ffi/value/named.c looks for the names.

# packages: list(path, attached, needs) by name, see dev_packages().
expect_dev <- function(packages) {
  the$dev <- packages
  .Call(ffi_named_set, names(packages))
}

# Also called from C code, before it reads something that names the package.
load_dev <- function(name) {
  if (isNamespaceLoaded(name) || name %in% the$loading) {
    return(invisible())
  }
  the$loading <- c(the$loading, name)
  on.exit(the$loading <- setdiff(the$loading, name))
  dev <- the$dev[[name]]
  for (other in dev$needs) load_dev(other)
  tryCatch(
    getExportedValue("pkgload", "load_all")(dev$path, quiet = TRUE, attach = dev$attached),
    error = function(e) {
      stop_setup(paste0("Can't load package \"", name, "\" from ", dev$path, ": ", message_of(e)))
    }
  )
  .Call(ffi_named_set, setdiff(names(the$dev), loadedNamespaces()))
  # As for packages of jobs: a replacement worker does it itself.
  if (!is.null(the$search)) .Call(ffi_worker_track)
}

# load_all() attaches more than the package exports.
attach_dev <- function(name) {
  load_dev(name)
  place <- paste0("package:", name)
  if (place %in% search()) {
    return(invisible())
  }
  what <- the$dev_attached[[name]]
  if (is.null(what)) what <- asNamespace(name)
  hidden <- grep("^[.]__", ls(what, all.names = TRUE), value = TRUE)
  what <- mget(setdiff(ls(what, all.names = TRUE), hidden), what)
  # R CMD check rejects attach() in packages, because it changes the user's search path; here it is
  # the worker's.
  do.call("attach", list(what, name = place, warn.conflicts = FALSE), quote = TRUE)
}

# Call it before the package is detached.
keep_dev <- function(name) {
  if (name %in% names(the$dev)) {
    the$dev_attached[[name]] <- as.environment(paste0("package:", name))
  }
}
