# Where other packages look for methods on muster's nodes and clusters: generics of snow and
# parallelly, and parallel's class SOCKcluster.

# ---- Generics of packages that may be loaded

# The generics for which muster has methods, by package and class. They are registered when such a
# package is loaded, before muster or after it, as far as its version has the generic. NAMESPACE's
# S3method() won't do: with a version that lacks one of them, muster couldn't be loaded; and it
# makes all of them at once, a quarter of the time that loading takes, in each session and worker.
#
# snow's contract: its verbs, and so doSNOW, have generics of their own, equal to parallel's.
# answer_in_place() handles recvOneData() of a cluster.
foreign_generics <- list(
  snow = list(
    muster_node = c("sendData", "recvData", "closeNode"),
    muster_stock_node = c("sendData", "recvData", "closeNode"),
    muster_cluster = c("recvOneData", "stopCluster"),
    muster_joined = c("recvOneData", "stopCluster")
  ),
  parallelly = list(
    muster_node = c("isNodeAlive", "killNode", "cloneNode", "isForkedNode", "isLocalhostNode"),
    muster_stock_node = c(
      "isNodeAlive", "killNode", "cloneNode", "isForkedNode", "isLocalhostNode"
    )
  ),
  future = list(
    muster_future = "tweak",
    MusterFuture = c("getFutureBackendConfigs", "resolved", "result"),
    MusterFutureBackend = c(
      "interruptFuture", "launchFuture", "nbrOfFreeWorkers", "nbrOfWorkers", "stopWorkers"
    )
  ),
  promises = list(muster_task = c("as.promise", "is.promising")),
  dplyr = list(
    muster_partition = c(
      "add_count", "anti_join", "arrange", "collect", "compute", "count", "distinct", "do",
      "filter", "full_join", "group_by", "group_data", "group_indices", "group_keys",
      "group_map", "group_modify", "group_size", "group_split", "group_trim", "group_vars",
      "groups", "inner_join", "intersect", "left_join", "mutate", "n_groups", "nest_by",
      "nest_join", "pull", "relocate", "rename", "rename_with", "right_join", "rowwise",
      "sample_frac", "sample_n", "select", "semi_join", "setdiff", "setequal", "slice",
      "slice_head", "slice_max", "slice_min", "slice_sample", "slice_tail", "summarise",
      "tally", "tbl_vars", "transmute", "ungroup", "union", "union_all"
    ),
    muster_rowwise = c(
      "arrange", "group_by", "group_vars", "groups", "relocate", "rename", "rename_with",
      "select", "summarise", "ungroup"
    )
  ),
  tidyr = list(
    muster_partition = c(
      "complete", "drop_na", "expand", "extract", "fill", "nest", "pivot_longer", "pivot_wider",
      "replace_na", "separate", "separate_rows", "uncount", "unite", "unnest"
    )
  )
)

register_foreign_methods <- function() {
  for (package in names(foreign_generics)) when_loaded(package, register_methods)
}

# Calls fun(package) when the package is loaded: now, if it is, and whenever that happens.
when_loaded <- function(package, fun) {
  if (isNamespaceLoaded(package)) fun(package)
  setHook(packageEvent(package, "onLoad"), function(package, ...) fun(package))
}

register_methods <- function(package) {
  if (!isNamespaceLoaded("muster")) {
    return(invisible()) # it was unloaded since
  }
  muster <- asNamespace("muster")
  there <- asNamespace(package)
  for (class in names(foreign_generics[[package]])) {
    for (generic in foreign_generics[[package]][[class]]) {
      if (exists(generic, there, inherits = FALSE) || generic %in% getNamespaceExports(there)) {
        method <- get(paste(generic, class, sep = "."), muster)
        registerS3method(generic, class, method, envir = there)
      }
    }
  }
}

# ---- Class SOCKcluster

# Class SOCKcluster comes after muster's own in its clusters: from R 4.5 on, parallel has methods
# for it that users call, stopCluster() among them, and R takes the first that it finds. Packages
# that look at class(cl)[1] alone (rgenoud) are given `structure(cl, class = c("SOCKcluster",
# class(cl)))`: ?cluster_start says so.
#
# For such a cluster R finds parallel's recvOneData(), or snow's equal one, which wait on the nodes'
# connections and would read from one of them. muster's nodes have none, so the first look at `con`
# from there answers in the method's place.

cluster_class <- function(own) {
  define_classes()
  c(own, "SOCKcluster", "cluster")
}

# S4 code (BiocParallel, for one) finds the classes by these definitions, which are made when the
# package is installed. In the namespace itself R would define them whenever it loads muster: that
# takes a third of the time, in each session and worker.
class_definitions <- local({
  where <- new.env(parent = baseenv())
  assign(".packageName", "muster", where)
  methods::setOldClass(c("muster_psock", "muster_cluster", "SOCKcluster", "cluster"), where = where)
  methods::setOldClass(c("muster_joined", "SOCKcluster", "cluster"), where = where)
  where
})

# Defines them, once in a process: before the first cluster is there.
define_classes <- function() {
  if (!the_parallel$defined) {
    the_parallel$defined <- TRUE
    methods::cacheMetaData(class_definitions, attach = TRUE)
  }
}

# parallel's and snow's methods that wait for the first answer.
waits_for_one <- function(f) {
  name <- "recvOneData.SOCKcluster"
  identical(f, the_parallel$receive_one) ||
    (isNamespaceLoaded("snow") && identical(f, get0(name, asNamespace("snow"))))
}

# Called when a node's `con` is asked for. Where one of these methods asks, muster's own is
# called with the method's cluster, and the method returns what that gives.
answer_in_place <- function() {
  n <- sys.nframe()
  # The nearest frames: this function, con_of(), the binding, what lapply() calls, lapply().
  for (i in seq(n - 5L, length.out = min(4L, max(0L, n - 5L)), by = -1L)) {
    if (waits_for_one(sys.function(i))) {
      frame <- sys.frame(i)
      cl <- frame$cl
      one <- if (inherits(cl, "muster_joined")) {
        recvOneData.muster_joined(cl)
      } else {
        recvOneData.muster_cluster(cl)
      }
      do.call("return", list(one), envir = frame)
    }
  }
}
