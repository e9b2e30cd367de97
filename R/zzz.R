# Loading and unloading. Loading starts no process, no thread and no timer.

# What this session, worker or fork server knows of itself.
the <- new.env(parent = emptyenv())
the$worker <- FALSE # is this process a worker?
the$pid <- 0L # the process that loaded muster
the$unloaded <- FALSE

.onLoad <- function(libname, pkgname) {
  the$pid <- Sys.getpid()
  the_parallel$static_apply <- get0("staticClusterApply", asNamespace("parallel"))
  the_parallel$receive_one <- get0("recvOneData.SOCKcluster", asNamespace("parallel"))
  the_parallel$dynamic_apply <- get0("dynamicClusterApply", asNamespace("parallel"))
  map_around$ffi_map_elements <- ffi_map_elements
  cores_places_set()
  note_variables()
  the$build <- build_text(file.path(libname, pkgname))
  if (!.Call(ffi_build_set, the$build, topenv())) load_code(topenv())
  list2env(.Call(ffi_enums), topenv())
  # Runs when R ends, also by quit() and at the end of a script.
  reg.finalizer(the, function(e) if (!e$unloaded) end_session(), onexit = TRUE)
  register_cluster_type()
  register_foreign_methods()
  for (package in c(names(all_generics), "tidyr")) when_loaded(package, register_refusals)
}

# The native code stays: R calls it for objects of muster's that are still there (finalizers, and
# methods of vectors over shared memory, which dyn.unload() would take away). They end here.
.onUnload <- function(libpath) {
  the$unloaded <- TRUE # its finalizer must not end a session that begins later
  reject_promises()
  end_session()
  .Call(ffi_stock_end, 2)
  the_cluster$servers <- list() # R functions stay where somebody holds them
}

# The code that stays from before is that of another build, and R and the system's loader take a
# file that they know by its name for the same. By another name they load what is there now.
load_code <- function(ns) {
  file <- getNamespaceInfo(ns, "DLLs")$muster[["path"]]
  repeat {
    file <- file.path(dirname(file), ".", basename(file))
    known <- Filter(function(dll) identical(dll[["path"]], file), getLoadedDLLs())
    dll <- if (length(known)) known[[1L]] else dyn.load(file)
    entries <- getDLLRegisteredRoutines(dll)$.Call
    if (do.call(".Call", list(entries$ffi_build_set, the$build, ns))) break
  }
  for (entry in entries) assign(entry$name, entry, envir = ns)
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

# .onLoad binds named integers from C's enums in the namespace: outcomes, exits, piece_do and all
# others that src/ffi/entry/enums.c lists. The name that C has for such a number, NA for none:
enum_name <- function(enum, number) names(enum)[match(number, enum)]

end_session <- function() {
  if (!the$worker) {
    own <- the$pid == Sys.getpid()
    if (own) signals_close()
    .Call(ffi_session_end, 2, if (own) 1 else 0)
    if (own) {
      drop_shuffles()
      unlink(temp_root(), recursive = TRUE)
    }
  }
}

# ---- What this build can do

# What muster was compiled to use of this system: src/base/mst_features.h. Elsewhere than on
# Linux, or in a build that does without it (-DMST_NO_EPOLL and its like), some of it isn't there.

# One of the names of ffi_built_with().
is_built_with <- function(feature) .Call(ffi_built_with)[[feature]]

# Where the kernel tells what it knows. Linux has these folders even in a build that does without:
# below a device no file exists, for any user.
proc_place <- function() kernel_place("/proc")
sys_place <- function() kernel_place("/sys")
kernel_place <- function(folder) {
  hidden <- !is_built_with("proc") && Sys.info()[["sysname"]] == "Linux"
  if (hidden) "/dev/null" else folder
}
