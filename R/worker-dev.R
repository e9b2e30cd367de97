# In workers: packages that are under pkgload::load_all() in the session. No library has them, and a
# function of theirs names its namespace only. So each is loaded as there, from its sources, once
# something that is to be read here names it: src/ffi/value/named.c looks for that.

# packages: list(path, attached, needs) by name, see dev_packages().
expect_dev <- function(packages) {
  the$dev <- packages
  .Call(ffi_named_set, names(packages))
}

# Called from C code as well, before what names the package is read.
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
  # As with packages that a job wants, a replacement worker does it by itself.
  if (!is.null(the$search)) .Call(ffi_worker_track)
}

# What load_all() has attached is more than what the package exports.
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
  # R CMD check wants no attach() in packages, whose search path this isn't.
  do.call("attach", list(what, name = place, warn.conflicts = FALSE), quote = TRUE)
}

# Before it is detached.
keep_dev <- function(name) {
  if (name %in% names(the$dev)) {
    the$dev_attached[[name]] <- as.environment(paste0("package:", name))
  }
}
