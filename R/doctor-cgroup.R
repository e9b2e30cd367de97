# Limits of control groups, and what they have done to this process: v1, v2, and each level from its
# own group up to the visible root. See cores-cgroup.R.

# The directories of a controller's groups, the root first, and their version: list(version, dirs).
# A hybrid system has some controllers in v1 and the rest in v2.
controller_dirs <- function(machine, controller) {
  doctor_lines(machine, "proc", "self/cgroup") # raises the reason if there are none
  places <- doctor_cores(machine)
  version <- 1L
  dirs <- cgroup_own_dirs(places, controller)
  if (is.null(dirs)) {
    version <- 2L
    dirs <- cgroup_own_dirs(places, "")
  }
  if (is.null(dirs)) {
    not_known(paste0("No control group has controller ", controller, "."))
  }
  dirs <- Filter(dir.exists, dirs)
  if (!length(dirs)) {
    not_known(paste0("The control group isn't visible below ", machine$cgroup, "."))
  }
  list(version = version, dirs = dirs)
}

# A file's number in each directory, NA for "max" or a missing file.
group_numbers <- function(dirs, name) {
  vapply(file.path(dirs, name), function(file) {
    line <- read_kernel_file(file)[1L]
    if (length(line) && grepl("^[0-9]{1,19}$", line)) as.numeric(line) else NA_real_
  }, 0, USE.NAMES = FALSE)
}

# One of the named numbers of a file in each directory, NA if it is missing.
group_fields <- function(dirs, file, name) {
  vapply(file.path(dirs, file), function(path) {
    unname(number_fields(read_kernel_file(path))[name])
  }, 0, USE.NAMES = FALSE)
}

# ---- CPU

doctor_cgroup_cpu <- function(machine) {
  count <- cgroup_cpus(machine)
  controller_dirs(machine, "cpu") # raises the reason if unknown
  now <- machine$now$cgroup_cpu
  stat <- if (is.null(machine$before)) now else now - machine$before$cgroup_cpu
  part <- if (isTRUE(stat[["periods"]] > 0)) stat[["throttled"]] / stat[["periods"]] else NA_real_
  verdict <- if (is.na(part)) "good" else verdict_high(part, 0.05, 0.5)
  finding(
    paste0(
      if (is.na(count)) "no limit" else paste(count, if (count == 1L) "CPU" else "CPUs"),
      if (!is.na(part)) paste0(", throttled in ", percent_text(part), " of the periods")
    ),
    verdict,
    paste0(
      "A quota stops all processes of the group for the rest of each 0.1 s once it is used up: ",
      "workers stand still together. availableCores() heeds it, detectCores() doesn't."
    ),
    unless_good(verdict, "start fewer workers: cluster_start(availableCores())"),
    c(cpus = as.numeric(count), periods = stat[["periods"]], throttled = stat[["throttled"]])
  )
}

# The minimum over all CPU sets and quotas, NA if there are none.
cgroup_cpus <- function(machine) {
  places <- doctor_cores(machine)
  counts <- vapply(names(cgroup_kinds), function(kind) cores_cgroup(places, kind)$count, 1L)
  if (all(is.na(counts))) NA_integer_ else min(counts, na.rm = TRUE)
}

# Of the group that was throttled the most.
cpu_stat_none <- c(periods = NA_real_, throttled = NA_real_)
cgroup_cpu_stat <- function(machine) {
  groups <- controller_dirs(machine, "cpu")
  periods <- group_fields(groups$dirs, "cpu.stat", "nr_periods")
  throttled <- group_fields(groups$dirs, "cpu.stat", "nr_throttled")
  at <- which(periods > 0 & !is.na(throttled))
  if (!length(at)) {
    return(cpu_stat_none)
  }
  at <- at[which.max(throttled[at] / periods[at])]
  c(periods = periods[at], throttled = throttled[at])
}

# ---- memory

# v1 writes "no limit" as a number close to 2^63.
memory_unlimited <- 2^60

doctor_cgroup_memory <- function(machine) {
  groups <- controller_dirs(machine, "memory")
  is_v1 <- groups$version == 1L
  limit <- group_numbers(groups$dirs, if (is_v1) "memory.limit_in_bytes" else "memory.max")
  limit[limit >= memory_unlimited] <- NA_real_
  why <- paste0(
    "At its limit the kernel kills a process of the group: often the largest worker, or ",
    "the session. Files that could be dropped aren't counted as used."
  )
  if (all(is.na(limit))) {
    return(finding("no limit", "good", why, figures = c(limit_bytes = Inf)))
  }
  used <- group_numbers(groups$dirs, if (is_v1) "memory.usage_in_bytes" else "memory.current")
  prefix <- if (is_v1) "total_" else ""
  for (kind in paste0(prefix, c("active_file", "inactive_file"))) {
    dropped <- group_fields(groups$dirs, "memory.stat", kind)
    used <- used - ifelse(is.na(dropped), 0, dropped)
  }
  used <- pmax(used, 0)
  # The tightest level counts; if its use is unknown, its limit.
  left <- ifelse(is.na(used), limit, limit - used)
  at <- which.min(left)
  part <- if (is.na(used[at])) 0 else used[at] / limit[at]
  share <- limit[at] / machine$cores()
  verdict <- worst(
    verdict_high(part, 0.8, 0.95), if (share < worker_bytes) "attention" else "good"
  )
  finding(
    paste0(
      binary_text(limit[at]),
      if (is.na(used[at])) ", use unknown" else paste0(", ", percent_text(part), " used"),
      if (share < worker_bytes) paste0(", ", binary_text(share), " for each CPU")
    ),
    verdict, why,
    unless_good(
      verdict, "raise the limit (docker run --memory, sbatch --mem), or start fewer workers"
    ),
    c(limit_bytes = limit[at], used_bytes = used[at], limit_bytes_per_cpu = unname(share))
  )
}

# The memory of a worker with some packages and a little data.
worker_bytes <- 256 * 1024^2

doctor_cgroup_oom <- function(machine) {
  groups <- controller_dirs(machine, "memory")
  total <- machine$now$cgroup_oom
  if (is.na(total)) {
    not_known(if (groups$version == 1L) {
      "memory.oom_control has no count (Linux before 4.13)."
    } else {
      "The control group has no memory.events; the root group never has."
    })
  }
  oom_finding(machine, "cgroup_oom", "since the group began", 0, paste0(
    "Processes that the kernel killed in this control group, or in one around it, because it ",
    "was out of memory. A worker that ends by signal 9 for no other reason is one of them."
  ))
}

# v2 has the file in each group but the root, and it covers the groups below; v1's covers one group.
# The highest level with a count includes the others.
cgroup_oom_kills <- function(machine) {
  groups <- controller_dirs(machine, "memory")
  file <- if (groups$version == 1L) "memory.oom_control" else "memory.events"
  kills <- group_fields(groups$dirs, file, "oom_kill")
  if (all(is.na(kills))) NA_real_ else max(kills, na.rm = TRUE)
}

doctor_oom_kills <- function(machine) {
  if (is.na(machine$now$system_oom)) {
    not_known("vmstat has no count of out-of-memory kills (Linux before 4.13).")
  }
  oom_finding(machine, "system_oom", since_boot(machine), kills_a_day, paste0(
    "Processes that the kernel killed because the machine, or one of its control groups, was ",
    "out of memory."
  ))
}

system_oom_kills <- function(machine) {
  unname(number_fields(read_kernel_file(file.path(machine$proc, "vmstat")))["oom_kill"])
}

oom_finding <- function(machine, name, since, a_day, why) {
  count <- counted_by(machine, function(look) look[[name]])
  verdict <- counted_verdict(machine, count, a_day)
  finding(
    counted_text(machine, count, since), verdict, why,
    unless_good(verdict, "dmesg -T | grep -i 'killed process' # which; then start fewer workers"),
    counted_figures(machine, count)
  )
}

# ---- processes

doctor_cgroup_pids <- function(machine) {
  groups <- controller_dirs(machine, "pids")
  most <- group_numbers(groups$dirs, "pids.max")
  used <- group_numbers(groups$dirs, "pids.current")
  why <- "Threads count as processes here; at the limit no worker starts."
  if (all(is.na(most))) {
    return(finding("no limit", "good", why, figures = c(limit = Inf)))
  }
  left <- most - ifelse(is.na(used), 0, used)
  at <- which.min(left)
  cores <- machine$cores()
  verdict <- verdict_low(left[at], max(128, 2 * cores), 2 * cores + 16)
  finding(
    paste0(
      count_text(most[at]), if (!is.na(used[at])) paste0(", ", count_text(used[at]), " in use")
    ),
    verdict, why,
    unless_good(verdict, "docker run --pids-limit=4096, or TasksMax= of the systemd unit"),
    c(limit = most[at], used = used[at])
  )
}
