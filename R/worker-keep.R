# What packages made in a fork server's temporary directory when they were loaded.
#
# A package that calls tempfile() in its load hook remembers a path in the server's
# directory. Every worker would use that one path, overwrite other workers' files there, and
# delete files that others still need. So the server looks, once, where packages keep such paths
# (in their namespaces, options and environment variables), and each worker puts its own directory
# in their place, with a copy of each file: see worker-renew.R.
#
# Paths that can't be seen from R (in C++, in the frames of functions) stay as they are. For
# these the server's directory stays, and with it a second copy of the files, since the first may
# be changed or deleted by a worker, as by a finalizer that runs when the worker ends.

# More than this isn't copied to each worker: the server refuses instead.
kept_bytes_max <- 16e6

# The search for paths ends here, so that a package with very much data can't hold up a start.
kept_bindings_max <- 1e5
kept_depth_max <- 3L

# Packages of R itself keep no such paths.
packages_of_r <- c(
  "base", "compiler", "datasets", "grDevices", "graphics", "grid", "methods", "parallel",
  "splines", "stats", "stats4", "tcltk", "tools", "utils"
)

# The server's own directory lies in one that sweep_temp_dirs() leaves alone.
server_home <- function(base) file.path(base, "server")

kept_files <- function() {
  list.files(tempdir(), all.files = TRUE, recursive = TRUE, include.dirs = TRUE, no.. = TRUE)
}

kept_refusal <- function() {
  bytes <- sum(file.size(file.path(tempdir(), kept_files())), na.rm = TRUE)
  if (bytes > kept_bytes_max) {
    paste0(
      "Packages or startup files made temporary files of ", round(bytes / 1e6),
      " MB, which each worker would have to copy."
    )
  }
}

# keep_tempdir() gives what renew_worker() needs, and leaves R with a temporary directory
# that is gone, so that each worker makes its own. The old one stays, unless nobody can know it.
keep_tempdir <- function(base, tmpdir) {
  old <- tempdir()
  files <- kept_files()
  if (!length(files) && !length(others_namespaces())) {
    unlink(old, recursive = TRUE)
    return(list())
  }
  dirs <- unique(c(normalizePath(old), old))
  dirs <- dirs[order(-nchar(dirs))] # one may be a part of the other
  kept <- list(
    dir = old, dirs = dirs, files = files, copies = file.path(server_home(base), "copies"),
    bindings = find_bindings(dirs), options = names_with(options(), dirs),
    variables = setdiff(names_with(Sys.getenv(), dirs), c("TMPDIR", "R_SESSION_TMPDIR"))
  )
  copy_files(old, kept$copies, files)
  # R makes another directory only when its own is gone.
  aside <- paste0(old, "-aside")
  file.rename(old, aside)
  own_tempdir(server_home(base), tmpdir)
  unlink(tempdir(), recursive = TRUE)
  file.rename(aside, old)
  kept
}

# Files that are there already are left alone. What has no size may be a pipe or a socket,
# whose reading would wait for ever.
copy_files <- function(from, to, files) {
  is_dir <- dir.exists(file.path(from, files))
  for (dir in file.path(to, c(".", files[is_dir]))) {
    dir.create(dir, showWarnings = FALSE, recursive = TRUE, mode = "0700")
  }
  files <- files[!is_dir]
  files <- files[!file.exists(file.path(to, files))]
  empty <- file.size(file.path(from, files)) %in% 0
  file.create(file.path(to, files[empty]))
  file.copy(file.path(from, files[!empty]), file.path(to, files[!empty]), copy.date = TRUE)
  invisible()
}

# ---- Where paths are kept

names_with <- function(values, dirs) {
  values <- as.list(values)
  names(values)[vapply(values, has_path, NA, dirs = dirs)]
}

has_path <- function(value, dirs, depth = 0L) {
  if (is.character(value)) {
    holds <- function(dir) any(grepl(dir, value, fixed = TRUE, useBytes = TRUE))
    return(any(vapply(dirs, holds, NA)))
  }
  is_plain_list(value) && depth < kept_depth_max &&
    any(vapply(unclass(value), has_path, NA, dirs = dirs, depth = depth + 1L))
}

is_plain_list <- function(value) typeof(value) == "list" && !isS4(value) && length(value) < 1000L

others_namespaces <- function() setdiff(loadedNamespaces(), c(packages_of_r, "muster"))

# find_bindings() gives list(list(env =, name =), ...): which variables of packages hold a
# path in one of these directories, by themselves or in a list. From namespaces it goes on into
# the environments that these hold, a few steps deep.
find_bindings <- function(dirs) {
  packages <- others_namespaces()
  attached <- intersect(paste0("package:", packages), search())
  level <- c(lapply(packages, asNamespace), lapply(attached, as.environment))
  seen <- found <- list()
  looked_at <- 0L
  for (depth in 0:kept_depth_max) {
    inner <- list()
    for (env in level) {
      values <- tryCatch(values_at_load(env), error = function(e) NULL)
      looked_at <- looked_at + length(values)
      if (looked_at > kept_bindings_max) {
        return(found)
      }
      hits <- names(values)[vapply(values, has_path, NA, dirs = dirs)]
      found <- c(found, lapply(hits, function(name) list(env = env, name = name)))
      inner <- c(inner, unlist(lapply(unname(values), environments_of)))
    }
    seen <- c(seen, level)
    inner <- Filter(is_inner, inner)
    level <- inner[!duplicated(c(seen, inner))[-seq_along(seen)]]
  }
  found
}

# The environments that a value leads to.
environments_of <- function(value) {
  if (is.environment(value)) {
    list(value)
  } else if (is.function(value)) {
    list(environment(value)) # NULL for a primitive
  } else if (is_plain_list(value)) {
    Filter(is.environment, unclass(value))
  }
}

is_inner <- function(env) {
  is.environment(env) && !isNamespace(env) && !identical(env, globalenv()) &&
    !identical(env, emptyenv()) && !identical(env, baseenv()) &&
    is.null(attr(env, "name", exact = TRUE)) # as attached packages and imports have it
}

# The values of an environment that may have been made when the package was loaded. What was
# made when the package was installed is a promise to read it from the package's file:
# reading all of it would take long, and what it is stays as it was. But environments are filled
# at load, and are known by the few bytes that they take in that file.
values_at_load <- function(env) {
  names <- setdiff(ls(env, all.names = TRUE, sorted = FALSE), "...")
  names <- names[!startsWith(names, ".__") | names == ".__enclos_env__"] # tables of S3 and S4
  names <- names[!vapply(names, bindingIsActive, NA, env = env)]
  # One call with all of the variables, in which substitute() puts promises' code or values.
  values <- as.list(do.call(substitute, list(as.call(lapply(c("list", names), as.name)), env)))[-1L]
  names(values) <- names
  is_read <- vapply(values, is_short_read, NA)
  values[is_read] <- mget(names[is_read], env)
  values[vapply(values, function(value) {
    is.character(value) || is.list(value) || is.environment(value) || is.function(value)
  }, NA)]
}

is_short_read <- function(code) {
  is.call(code) && identical(code[[1L]], as.name("lazyLoadDBfetch")) && code[[2L]][2L] < 100L
}
