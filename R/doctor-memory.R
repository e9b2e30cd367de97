# Memory, and file systems in it: /dev/shm and TMPDIR.

memory_info <- function(machine) {
  # In kB of 1024 bytes.
  1024 * number_fields(doctor_lines(machine, "proc", "meminfo"))
}

known_field <- function(fields, name, file) {
  value <- fields[name]
  if (is.na(value)) {
    not_known(paste0(file, " has no ", name, "."))
  }
  unname(value)
}

doctor_memory <- function(machine) {
  info <- memory_info(machine)
  total <- known_field(info, "MemTotal", "meminfo")
  free <- known_field(info, "MemAvailable", "meminfo")
  verdict <- verdict_low(free / total, 0.1, 0.03)
  finding(
    paste(bytes_text(free), "of", bytes_text(total), "available"), verdict,
    "A worker takes 50 MB plus its packages and data; without free memory it is killed.",
    unless_good(verdict, "ps aux --sort=-rss | head # what takes it"),
    c(available_bytes = free, total_bytes = total)
  )
}

doctor_swap <- function(machine) {
  info <- memory_info(machine)
  total <- known_field(info, "SwapTotal", "meminfo")
  used <- total - known_field(info, "SwapFree", "meminfo")
  part <- if (total > 0) used / total else 0
  verdict <- verdict_high(part, 0.25, 0.75)
  finding(
    if (total > 0) paste0(bytes_text(total), ", ", percent_text(part), " in use") else "none",
    verdict,
    "Workers whose pages are in swap answer thousands of times slower, and seem to hang.",
    unless_good(verdict, "vmstat 1 # columns si and so; then start fewer workers"),
    c(used_bytes = used, total_bytes = total)
  )
}

# ---- file systems

# Docker's default is 64 MB.
shm_small <- 64 * 1024^2

doctor_shm <- function(machine) {
  why <- paste0(
    "muster's own shared memory doesn't live here, but that of other packages, Python ",
    "and MPI does; when it is full they are killed by SIGBUS."
  )
  mount <- mount_of(machine, "/dev/shm")
  if (mount$point != "/dev/shm") {
    return(finding("not mounted", "attention", why, "mount -t tmpfs tmpfs /dev/shm"))
  }
  disk <- machine$disk("/dev/shm")
  free <- disk[2L]
  verdict <- if (free < 1e6) {
    "bad"
  } else if (disk[1L] <= shm_small || free < 0.1 * disk[1L]) {
    "attention"
  } else {
    "good"
  }
  finding(
    paste(bytes_text(free), "of", bytes_text(disk[1L]), "free"), verdict, why,
    unless_good(verdict, "mount -o remount,size=50% /dev/shm # docker run --shm-size=2g"),
    c(free_bytes = free, total_bytes = disk[1L])
  )
}

# File systems with files on another machine.
network_types <- c(
  "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p",
  "fuse.sshfs", "fuse.glusterfs", "orangefs", "panfs"
)

doctor_tmpdir <- function(machine) {
  dir <- machine$tmpdir
  disk <- machine$disk(dir)
  mount <- tryCatch(mount_of(machine, dir), muster_error_unknown = function(e) NULL)
  files <- if (disk[3L] > 0) disk[4L] / disk[3L] else 1
  remote <- isTRUE(mount$type %in% network_types)
  no_exec <- "noexec" %in% mount$options
  verdict <- worst(
    verdict_low(disk[2L], 1e9, 1e8), verdict_low(files, 0.05, 0.01),
    if (no_exec || remote) "attention" else "good"
  )
  finding(
    paste0(
      dir, ": ", bytes_text(disk[2L]), " free",
      if (files < 0.05) paste0(", ", percent_text(files), " of files free"),
      if (!is.null(mount)) paste0(", ", mount$type),
      if (no_exec) ", noexec"
    ),
    verdict,
    paste0(
      "Workers have their temporary directories here. On tmpfs files take memory; with noexec ",
      "packages can't be built; over a network all of it is slow and locks may hang."
    ),
    unless_good(verdict, "export TMPDIR=/another/directory # before R starts"),
    c(free_bytes = disk[2L], total_bytes = disk[1L], free_files = disk[4L], files = disk[3L])
  )
}

# The mount of a path: list(point, type, options). See proc(5), mountinfo. The last one for a mount
# point hides the others.
mount_of <- function(machine, path) {
  lines <- doctor_lines(machine, "proc", "self/mountinfo")
  halves <- strsplit(lines, " - ", fixed = TRUE)
  left <- strsplit(vapply(halves, `[`, "", 1L), " ", fixed = TRUE)
  points <- cgroup_unescape(vapply(left, `[`, "", 5L))
  holds <- !is.na(points) & (points == "/" | startsWith(paste0(path, "/"), paste0(points, "/")))
  at <- which(holds)
  if (!length(at)) {
    not_known(paste0("self/mountinfo has no mount for ", path, "."))
  }
  longest <- at[nchar(points[at]) == max(nchar(points[at]))]
  at <- longest[length(longest)]
  list(
    point = points[at],
    type = sub(" .*$", "", halves[[at]][2L]),
    options = strsplit(left[[at]][6L], ",", fixed = TRUE)[[1L]]
  )
}
