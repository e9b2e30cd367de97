# CPUs that control groups grant to this process: quotas and sets, cgroup v1 and v2.
#
# Problem: each cgroup from the process's own up to the root may set a limit, and
# the tightest one holds. The kernel reports the own cgroup in /proc/self/cgroup, as a
# path within a hierarchy; v1 has a hierarchy per controller, v2 has one for all,
# and a hybrid system has both.
#
# Way chosen: look for the own cgroup at the usual mount points, read the limit at each
# level, take the least. Only where the own cgroup isn't found there is
# /proc/self/mountinfo read, to learn which part of the hierarchy is mounted where (a
# container without a cgroup namespace of its own is told its path on the host,
# but sees only its part). Not chosen: mountinfo first, since on a host of containers
# it has hundreds of lines. CPU shares and weights are no limits, so they don't count.
#
# Cost: a line of /proc/self/cgroup per hierarchy, one or two small files a level.
# A path has at most 4096 bytes, which bounds the levels.

# Least number of CPUs granted by any cgroup, or NA if none sets a limit.
# proc, sys: where procfs and the cgroup hierarchies are mounted; tests give their own.
cores_cgroup <- function(proc = "/proc", sys = "/sys/fs/cgroup") {
  limits <- cgroup_limits(proc, sys)
  if (length(limits)) min(limits) else NA_integer_
}

# The least limit of each kind that is set: a named integer vector, the names being
# parallelly's names of these methods.
cgroup_limits <- function(proc, sys) {
  lines <- read_kernel_file(file.path(proc, "self", "cgroup"))
  pattern <- "^[0-9]+:([^:]*):(/.*)$"
  lines <- grep(pattern, lines, value = TRUE)
  fields <- sub(pattern, "\\1", lines)
  paths <- sub(pattern, "\\2", lines)
  limits <- c(
    cgroups.cpuset = cgroup_v1_limit("cpuset", cgroup_v1_cpuset, fields, paths, proc, sys),
    cgroups.cpuquota = cgroup_v1_limit("cpu", cgroup_v1_quota, fields, paths, proc, sys)
  )
  if (any(fields == "")) {
    v2_dirs <- cgroup_dirs(paths[fields == ""][1L], cgroup_v2_root(sys), proc, "cgroup2")
    limits <- c(limits,
      cgroups2.cpuset.cpus.effective = cgroup_least(v2_dirs, cgroup_v2_cpuset),
      cgroups2.cpu.max = cgroup_least(v2_dirs, cgroup_v2_quota)
    )
  }
  limits[!is.na(limits)]
}

cgroup_v1_limit <- function(controller, read, fields, paths, proc, sys) {
  # A hierarchy may serve several controllers: "cpu,cpuacct".
  has <- vapply(strsplit(fields, ",", fixed = TRUE), function(names) controller %in% names, NA)
  if (!any(has)) {
    return(NA_integer_)
  }
  roots <- file.path(sys, c(controller, fields[has][1L]))
  cgroup_least(cgroup_dirs(paths[has][1L], roots, proc, "cgroup", controller), read)
}

cgroup_least <- function(dirs, read) {
  counts <- vapply(dirs, read, 1L, USE.NAMES = FALSE)
  counts <- counts[!is.na(counts)]
  if (length(counts)) min(counts) else NA_integer_
}

# Hybrid systems mount v2 beside the v1 controllers, in "unified".
cgroup_v2_root <- function(sys) {
  unified <- file.path(sys, "unified")
  if (!file.exists(file.path(sys, "cgroup.controllers")) && dir.exists(unified)) unified else sys
}

# Where limits are read ------------------------------------------------------

# Directories of the own cgroup and those above it, up to the root of the mount.
# path: as in /proc/self/cgroup. roots: usual mount points, the first one there counts.
cgroup_dirs <- function(path, roots, proc, type, controller = NULL) {
  root <- roots[dir.exists(roots)][1L]
  usual <- if (!is.na(root)) cgroup_levels(root, path)
  if (length(usual) && dir.exists(usual[length(usual)])) {
    return(usual)
  }
  for (mount in cgroup_mounts(proc, type, controller)) {
    levels <- cgroup_levels(mount$point, cgroup_path_below(path, mount$root))
    if (length(levels) && dir.exists(levels[length(levels)])) {
      return(levels)
    }
  }
  # The own cgroup is out of sight; those above it that are in sight hold all the same.
  usual
}

# "/a", "/a/b", ... below a root, the root first. None if the path leads out of the
# root: ".." says that the process is outside its cgroup namespace, so that the
# root's limits aren't its own.
cgroup_levels <- function(root, path) {
  names <- strsplit(path, "/", fixed = TRUE)[[1L]]
  names <- names[nzchar(names)]
  if (is.na(path) || any(names == "..")) {
    return(character())
  }
  Reduce(file.path, names, root, accumulate = TRUE)
}

# What is left of a path below a directory, NA if it isn't below it.
cgroup_path_below <- function(path, dir) {
  dir <- sub("/$", "", dir)
  below <- startsWith(paste0(path, "/"), paste0(dir, "/"))
  if (below) substring(path, nchar(dir) + 1L) else NA_character_
}

# Mounts of a hierarchy, from /proc/self/mountinfo: a list of list(root, point), where
# `root` is the cgroup that is seen at directory `point`. See proc(5) for the fields.
cgroup_mounts <- function(proc, type, controller = NULL) {
  lines <- read_kernel_file(file.path(proc, "self", "mountinfo"))
  lines <- grep(paste0(" - ", type, " "), lines, fixed = TRUE, value = TRUE)
  mounts <- strsplit(lines, " ", fixed = TRUE)
  if (!is.null(controller)) {
    mounts <- Filter(function(fields) {
      controller %in% strsplit(fields[length(fields)], ",", fixed = TRUE)[[1L]]
    }, mounts)
  }
  lapply(mounts, function(fields) {
    list(root = cgroup_unescape(fields[4L]), point = cgroup_unescape(fields[5L]))
  })
}

# The kernel writes blanks and backslashes in octal; systemd's names have backslashes.
cgroup_unescape <- function(text) {
  text <- gsub("\\040", " ", text, fixed = TRUE)
  gsub("\\134", "\\", text, fixed = TRUE)
}

# What one cgroup says ---------------------------------------------------------
# Each function takes a cgroup's directory and returns a number of CPUs, or NA.

# Before Linux 3.17 there is no effective set, and the one asked for is in force.
cgroup_v1_cpuset <- function(dir) {
  count <- cpu_list_count(read_kernel_file(file.path(dir, "cpuset.effective_cpus")))
  if (is.na(count)) cpu_list_count(read_kernel_file(file.path(dir, "cpuset.cpus"))) else count
}

cgroup_v1_quota <- function(dir) {
  quota <- read_kernel_file(file.path(dir, "cpu.cfs_quota_us"))
  if (identical(quota, "-1")) {
    return(NA_integer_)
  }
  cgroup_quota_count(quota, read_kernel_file(file.path(dir, "cpu.cfs_period_us")))
}

cgroup_v2_cpuset <- function(dir) {
  cpu_list_count(read_kernel_file(file.path(dir, "cpuset.cpus.effective")))
}

# One line: quota, or "max" for none, and period.
cgroup_v2_quota <- function(dir) {
  line <- read_kernel_file(file.path(dir, "cpu.max"))
  fields <- if (length(line) == 1L) strsplit(line, " ", fixed = TRUE)[[1L]]
  if (length(fields) == 2L) cgroup_quota_count(fields[1L], fields[2L]) else NA_integer_
}

# Whole CPUs in a quota of CPU time per period, both in microseconds, as text. A part
# of a CPU isn't counted, as the process that uses it would be throttled; but one
# process must run, so less than one CPU is one.
cgroup_quota_count <- function(quota, period) {
  # The kernel never writes 0 for either.
  whole <- "^[1-9][0-9]{0,14}$"
  if (length(quota) != 1L || length(period) != 1L ||
    !all(grepl(whole, c(quota, period), perl = TRUE))) {
    return(NA_integer_)
  }
  count <- as.numeric(quota) %/% as.numeric(period)
  as.integer(min(max(count, 1), .Machine$integer.max))
}
