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

# The kinds of limits, by parallelly's names of these methods: in which hierarchy each is, ""
# being v2's, and how it's read.
cgroup_kinds <- list(
  cgroups.cpuset = list(controller = "cpuset", read = function(dir) cgroup_v1_cpuset(dir)),
  cgroups.cpuquota = list(controller = "cpu", read = function(dir) cgroup_v1_quota(dir)),
  cgroups2.cpuset.cpus = list(
    controller = "", read = function(dir) cgroup_cpuset(dir, "cpuset.cpus")
  ),
  cgroups2.cpuset.cpus.effective = list(
    controller = "", read = function(dir) cgroup_cpuset(dir, "cpuset.cpus.effective")
  ),
  cgroups2.cpu.max = list(controller = "", read = function(dir) cgroup_v2_quota(dir))
)

# The smallest limit of one kind on this process, with its reason.
cores_cgroup <- function(machine, kind) {
  controller <- cgroup_kinds[[kind]]$controller
  dirs <- cgroup_own_dirs(machine, controller)
  if (is.null(dirs)) {
    version <- if (nzchar(controller)) paste0("v1 for \"", controller, "\"") else "v2"
    return(cores_silent("no control group of ", version))
  }
  limits <- lapply(dirs, cgroup_kinds[[kind]]$read)
  counts <- vapply(limits, `[[`, 1L, "count")
  tightest <- which.min(counts)
  if (length(tightest)) limits[[tightest]] else cores_silent("no limit is set")
}

# The own cgroups: the hierarchies' controllers, as "cpu,cpuacct", and the paths within.
cgroup_own <- function(proc) {
  lines <- read_kernel_file(file.path(proc, "self", "cgroup"))
  pattern <- "^[0-9]+:([^:]*):(/.*)$"
  lines <- grep(pattern, lines, value = TRUE)
  list(fields = sub(pattern, "\\1", lines), paths = sub(pattern, "\\2", lines))
}

# The directories that may limit this process by a controller of v1, or in v2, "", found once a
# count; NULL if it is in no such hierarchy.
cgroup_own_dirs <- function(machine, controller) {
  key <- paste0("dirs of ", controller)
  if (is.null(machine[[key]])) {
    own <- machine$cgroups
    # A hierarchy may serve several controllers: "cpu,cpuacct". v2's serves none by name.
    serves <- function(names) controller %in% (if (length(names)) names else "")
    at <- which(vapply(strsplit(own$fields, ",", fixed = TRUE), serves, NA))[1L]
    if (is.na(at)) {
      return(NULL)
    }
    path <- own$paths[at]
    machine[[key]] <- as.character(if (nzchar(controller)) {
      roots <- file.path(machine$sys, c(controller, own$fields[at]))
      cgroup_dirs(path, roots, machine$proc, "cgroup", controller)
    } else {
      cgroup_dirs(path, cgroup_v2_root(machine$sys), machine$proc, "cgroup2")
    })
  }
  machine[[key]]
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
  # The own cgroup isn't visible; the limits of visible ones above it still apply.
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
# Each function takes a cgroup's directory and returns an answer, silent if it sets no limit.

cgroup_cpuset <- function(dir, name) {
  file <- file.path(dir, name)
  text <- one_line(read_kernel_file(file))
  count <- cpu_list_count(text)
  if (is.na(count)) cores_silent("") else cores_answer(count, describe(text), " in ", file)
}

# Before Linux 3.17 there is no effective set, and the one asked for is in force.
cgroup_v1_cpuset <- function(dir) {
  answer <- cgroup_cpuset(dir, "cpuset.effective_cpus")
  if (is.na(answer$count)) cgroup_cpuset(dir, "cpuset.cpus") else answer
}

cgroup_v1_quota <- function(dir) {
  file <- file.path(dir, "cpu.cfs_quota_us")
  quota <- one_line(read_kernel_file(file))
  if (is.na(quota) || quota == "-1") {
    return(cores_silent(""))
  }
  period <- one_line(read_kernel_file(file.path(dir, "cpu.cfs_period_us")))
  cgroup_quota_answer(quota, period, file)
}

# One line: quota, or "max" for none, and period.
cgroup_v2_quota <- function(dir) {
  file <- file.path(dir, "cpu.max")
  fields <- strsplit(one_line(read_kernel_file(file)), " ", fixed = TRUE)[[1L]]
  if (length(fields) == 2L) cgroup_quota_answer(fields[1L], fields[2L], file) else cores_silent("")
}

# CPUs in a quota of CPU time per period, both in microseconds, as text. Rounded to the nearest
# whole number, as parallelly does: two workers on 1.5 CPUs get more done than one.
cgroup_quota_answer <- function(quota, period, file) {
  # The kernel never writes 0 for either.
  whole <- "^[1-9][0-9]{0,14}$"
  if (!all(grepl(whole, c(quota, period), perl = TRUE))) {
    return(cores_silent(""))
  }
  cpus <- as.numeric(quota) / as.numeric(period)
  count <- min(max(floor(cpus + 0.5), 1), .Machine$integer.max)
  cores_answer(count, quota, " of each ", period, " us, ", round(cpus, 2), " CPUs, in ", file)
}
