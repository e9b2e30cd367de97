# Loading and unloading. Loading starts no process, no thread and no timer.

# What this session, worker or fork server knows of itself.
the <- new.env(parent = emptyenv())
the$worker <- FALSE # is this process a worker?
the$boot_libraries <- character() # of a worker: what .libPaths() was when R had started
the$servers <- list() # fork servers of this session: list(key, pointer, env, pid)
the$servers_pid <- 0L # the process that they belong to
the$named <- character() # what large objects users were told of
the$kept <- NULL # of a fork server and its workers: what renew_worker() needs
the$cli_waits <- FALSE # of the same: has package cli no thread yet?
the$jobs <- list() # of a worker: what the session sent once, by number
the$parts <- list() # of a worker: parts of data, by stage and task
the$shuffles <- list() # of clusters: stages and their plan, by id
the$shuffles_pid <- 0L # the process that they belong to
the$plans <- list() # of clusters whose workers come from a fork server, by id
the$signals <- NULL # connections of this session with itself, see node_con()
the$verb <- NULL # the verb of parallel's that waits, see new_verb()
the$default <- FALSE # does makeCluster() start muster?
the$pid <- 0L # the process that loaded muster
the$unloaded <- FALSE

.onLoad <- function(libname, pkgname) {
  the$pid <- Sys.getpid()
  the$static_apply <- get0("staticClusterApply", asNamespace("parallel"))
  the$receive_one <- get0("recvOneData.SOCKcluster", asNamespace("parallel"))
  the$dynamic_apply <- get0("dynamicClusterApply", asNamespace("parallel"))
  map_around$ffi_map_elements <- ffi_map_elements
  cores_places_set()
  the$build <- build_text(file.path(libname, pkgname))
  .Call(ffi_build_set, the$build)
  # Runs when R ends, also by quit() and at the end of a script.
  reg.finalizer(the, function(e) if (!e$unloaded) end_session(), onexit = TRUE)
  register_cluster_type()
}

.onUnload <- function(libpath) {
  end_session()
  the$unloaded <- TRUE # its finalizer must not look for native code any more
  library.dynam.unload("muster", libpath)
}

# Session and workers must run the same build: what SETUP and EXEC mean may
# change between two. The library file's time tells a reinstalled package.
build_text <- function(path) {
  file <- file.path(path, "libs", .Platform$r_arch, paste0("muster", .Platform$dynlib.ext))
  time <- if (is_dev()) "dev" else format(as.numeric(file.mtime(file)), nsmall = 3, digits = 16)
  substr(paste("muster", utils::packageVersion("muster", dirname(path)), time), 1L, 62L)
}

# Is this package under pkgload::load_all()? Then workers must load it so too.
is_dev <- function(ns = topenv()) {
  exists(".__DEVTOOLS__", envir = ns, inherits = FALSE)
}

end_session <- function() {
  if (!the$worker) {
    if (the$pid == Sys.getpid()) signals_close()
    .Call(ffi_session_end, 2)
    if (the$pid == Sys.getpid()) {
      unlink(temp_root(), recursive = TRUE)
    }
  }
}
