# Loading and unloading. Loading starts no process, no thread and no timer.

# What this session, worker or fork server knows of itself.
the <- new.env(parent = emptyenv())
the$worker <- FALSE # is this process a worker?
the$boot_libraries <- character() # of a worker: what .libPaths() was when R had started
the$servers <- list() # fork servers of this session: list(key, pointer, env, pid)
the$hosts <- list() # links to other hosts: list(key, pointer, command, facts), by key
the$host_keys <- 0L # how many keys were given
the$reached <- character() # keys of hosts that a start is about to use
the$joins <- FALSE # is join_hosts() at work?
the$begun <- list() # fork servers that boot for it, see begin_joins()
the$watch <- NULL # what it remembers of jobs that are pending
the$plain <- TRUE # no cluster yet without workers, with `scale`, or with streams
the$scales <- FALSE # did any cluster have `scale`?
the$launches <- 0L # how many commands of launchers were run
the$temp_root <- NULL # of a host process
the$base <- NULL # of a fork server and its workers: where its workers have their directories
the$servers_pid <- 0L # the process that they belong to
the$failed <- NULL # the last error that task_debug() can evaluate again
the$named <- character() # large objects that messages have named
the$kept <- NULL # of a fork server and its workers: what renew_worker() needs
the$cli_waits <- FALSE # of the same: has package cli no thread yet?
the$stream <- NULL # what the own streams of workers are made of
the$stream_pid <- 0L # the process whose workers they are
the$maps <- list() # of task_map() that may not be over, as of ffi_hide
the$own_groups <- 0 # how many groups of own_group() there were
the$streams <- list() # that clusterSetRNGStream() has set, by cluster and worker
the$exports <- list() # what workers were given: by cluster and name, list(content, ranks)
the$exported <- NULL # of the message that gave it last: list(key, content)
the$drawn <- the$drawn_told <- FALSE # random numbers without a seed; the user was told so
the$attached <- character() # packages that a job wanted, in a worker
the$variables <- NULL # the environment when it was last looked at, see note_variables()
the$variables_changed <- character() # names of variables that have changed since muster was loaded
the$boot_options <- NULL # of a fork server and its workers: options when R had started
the$own <- NULL # of a worker: what it started with, see note_own_context()
the$brought <- list() # of a worker: options that contexts have brought and left there
the$steps <- list() # of a worker: what to do to enter its last context, and to leave it
the$methods <- NULL # that the user has registered: list(counts, s3), see own_methods()
the$search <- NULL # what a worker had attached when it was ready
the$dev_loads <- list() # packages that are under load_all() here: list(ns, load, code) by name
the$dev <- list() # of a worker: packages that are under load_all() in the session, by name
the$jobs <- new.env(parent = emptyenv()) # of a worker: what the session sent once, by number
the$failing <- NULL # of a worker: the group whose function failed: list(text, key)
the$parts <- list() # of a worker: parts of data, by stage and task
the$warm <- double() # weights of those in memory, by the same: the one used last at the end
the$fixed <- double() # weights of those that can't be elsewhere
the$without_rows <- NULL # of a worker: what a verb of dplyr's gave for no rows, see dplyr_verb()
the$tight <- FALSE # of a worker: is there little memory?
the$warned <- NULL # of a worker: kinds of locale that its host doesn't have, see set_locale()
the$folds <- 0 # how many summaries have been folded
the$folded <- NULL # of a worker: partial results that are used next, see part_fold()
the$widened <- FALSE # of a worker: see widen_heap()
the$rested <- 0 # bytes taken out of memory since R last collected for that
the$shuffles <- list() # of clusters: stages and their plan, by id
the$shuffles_pid <- 0L # the process that they belong to
the$future_clusters <- list() # that plans of futures have started: list(options, cl)
the$results <- NULL # of the last map, if it was ended early
the$loop_cluster <- NULL # hides list(workers, cl), which registerDoMuster() has started
the$loops <- FALSE # of a worker: did it evaluate a loop of foreach's?
the$plans <- list() # of clusters whose workers come from a fork server, by id
the$promises <- list() # of tasks: environments with task, resolve, reject, loop, settled
the$promises_pid <- NULL # the process that they belong to
the$listens <- list() # by id of an event loop that waits for tasks: a function that ends that
the$turns <- integer() # ids of event loops that will look for tasks in their next turn
the$paced <- NULL # the last map's job, and what its elements took: list(job, seconds)
the$signals <- NULL # connections of this session with itself, see node_con()
the$verb <- NULL # the verb of parallel's that waits, see new_verb()
the$default <- FALSE # does makeCluster() start muster?
the$defined <- FALSE # does S4 know the classes of clusters?
the$pid <- 0L # the process that loaded muster
the$unloaded <- FALSE

.onLoad <- function(libname, pkgname) {
  the$pid <- Sys.getpid()
  the$static_apply <- get0("staticClusterApply", asNamespace("parallel"))
  the$receive_one <- get0("recvOneData.SOCKcluster", asNamespace("parallel"))
  the$dynamic_apply <- get0("dynamicClusterApply", asNamespace("parallel"))
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
  the$servers <- list() # R functions stay where somebody holds them
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
