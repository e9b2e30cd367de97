# In workers: packages under pkgload::load_all() in the session. They aren't in any library, and
# their functions only name their namespace. So each is loaded as in the session, from its sources,
# before something that names it is read here: src/ffi/value/named.c looks for the names.

# packages: list(path, attached, needs, load, code) by name, see dev_packages(). Those that the
# session has loaded anew since, and those that import from them, are loaded anew when they are
# named next.
expect_dev <- function(packages) {
  before <- the_worker$dev
  the_worker$dev <- packages
  stale <- Filter(function(name) {
    isNamespaceLoaded(name) && !identical(before[[name]]$load, packages[[name]]$load)
  }, names(packages))
  repeat {
    more <- Filter(function(name) any(packages[[name]]$needs %in% stale), names(packages))
    if (all(more %in% stale)) break
    stale <- union(more, stale)
  }
  for (name in stale[vapply(stale, isNamespaceLoaded, NA)]) unload_dev(name)
  .Call(ffi_named_set, setdiff(names(packages), loadedNamespaces()))
}

unload_dev <- function(name) {
  the_worker$dev_attached[[name]] <- NULL
  tryCatch(getExportedValue("pkgload", "unload")(name, quiet = TRUE), error = function(e) NULL)
}

# Called when a job has come: messages that follow may name what it tells of.
look_for_dev <- function(job) {
  bytes <- job$bytes
  if (is.raw(bytes) && length(bytes) > 200L &&
    length(grepRaw(context_mark, bytes[1:200], fixed = TRUE))) {
    .Call(ffi_named_set, character()) # the context itself names them
    expect_dev(job_get(job$number)$dev)
  }
}

# Also called from C code, before it reads something that names the package.
load_dev <- function(name) {
  if (isNamespaceLoaded(name) || name %in% the_worker$loading) {
    return(invisible())
  }
  the_worker$loading <- c(the_worker$loading, name)
  on.exit(the_worker$loading <- setdiff(the_worker$loading, name))
  dev <- the_worker$dev[[name]]
  for (other in dev$needs) load_dev(other)
  tryCatch(
    getExportedValue("pkgload", "load_all")(dev$path, quiet = TRUE, attach = dev$attached),
    error = function(e) {
      stop_setup(paste0("Can't load package \"", name, "\" from ", dev$path, ": ", message_of(e)))
    }
  )
  check_dev(name, dev)
  .Call(ffi_named_set, setdiff(names(the_worker$dev), loadedNamespaces()))
  # As for packages of jobs: a replacement worker does it itself.
  if (!is.null(the_worker$search)) .Call(ffi_worker_track)
}

# Its files may have changed since the session loaded them.
check_dev <- function(name, dev) {
  if (identical(dev_code(name), dev$code)) {
    return(invisible())
  }
  unload_dev(name)
  abort_muster("stale",
    paste0("Package \"", name, "\" has changed since the session loaded it from ", dev$path, "."),
    details = "A worker, which loads it now, would have other code than the session.",
    hints = "Call load_all() again.", call = NULL
  )
}

# load_all() attaches more than the package exports.
attach_dev <- function(name) {
  load_dev(name)
  place <- paste0("package:", name)
  if (place %in% search()) {
    return(invisible())
  }
  what <- the_worker$dev_attached[[name]]
  if (is.null(what)) what <- asNamespace(name)
  hidden <- grep("^[.]__", ls(what, all.names = TRUE), value = TRUE)
  what <- mget(setdiff(ls(what, all.names = TRUE), hidden), what)
  # R CMD check rejects attach() in packages, because it changes the user's search path; here it is
  # the worker's.
  do.call("attach", list(what, name = place, warn.conflicts = FALSE), quote = TRUE)
}

# Call it before the package is detached.
keep_dev <- function(name) {
  if (name %in% names(the_worker$dev)) {
    the_worker$dev_attached[[name]] <- as.environment(paste0("package:", name))
  }
}
