# What the kernel's files say of this machine and process, read when a source first needs it
# and once a count: several sources read the same file.
#
# The places are settable, so that trees of foreign machines can be tried: in
# `cores_places` for all that follows, or by argument.

cores_places <- new.env(parent = emptyenv())

# Called when muster is loaded.
cores_places_set <- function() {
  cores_places$proc <- proc_place()
  cores_places$sys <- file.path(sys_place(), "fs", "cgroup")
  cores_places$cpu <- file.path(sys_place(), "devices", "system", "cpu")
}

# proc, sys, cpu: where procfs, the control groups and the CPUs' directories are.
# logical: do a core's threads count, or only cores?
# The list of CPUs that are online, that of CPUs allowed and the own control groups are
# given as text: NA, or no lines, where the kernel doesn't tell.
cores_machine <- function(proc = cores_places$proc, sys = cores_places$sys,
                          cpu = cores_places$cpu, logical = TRUE) {
  machine <- new.env(parent = emptyenv())
  machine$proc <- proc
  machine$sys <- sys
  machine$cpu <- cpu
  machine$logical <- logical
  delayedAssign("online", one_line(read_kernel_file(file.path(cpu, "online"))),
    assign.env = machine
  )
  delayedAssign("allowed", read_allowed(proc), assign.env = machine)
  delayedAssign("cgroups", cgroup_own(proc), assign.env = machine)
  machine
}

one_line <- function(lines) if (length(lines) == 1L) lines else NA_character_

read_allowed <- function(proc) {
  field <- "Cpus_allowed_list:\t"
  lines <- read_kernel_file(file.path(proc, "self", "status"))
  one_line(substring(lines[startsWith(lines, field)], nchar(field) + 1L))
}

# Lines of a file in /proc or /sys; none if it is missing or can't be read. Lines
# that aren't valid in this locale (a process or cgroup may bear any bytes as its
# name) are dropped, as regular expressions would stop at them.
read_kernel_file <- function(path) {
  if (!file.exists(path)) {
    return(character())
  }
  # The warning of a failed open is muffled, not caught: leaving file() by a jump
  # would leak the connection, and R would complain of it at the next collection.
  lines <- tryCatch(
    suppressWarnings(readLines(path, warn = FALSE)),
    error = function(e) character()
  )
  lines[validEnc(lines)]
}

# Lists of CPUs -------------------------------------------------------------------
# The kernel writes "0-3,8,10-11": ranges that rise and don't overlap.

# First and last number of each range, or NULL for an empty list and for anything else. The
# same few texts come again and again, so their ranges are kept.
cpu_list_ranges <- function(text) {
  if (length(text) != 1L || is.na(text) || !nzchar(text)) {
    return(NULL)
  }
  if (nchar(text, "bytes") > 1000L) {
    return(cpu_list_parse(text)) # R's names end at 10,000 bytes
  }
  kept <- cpu_lists[[text]]
  if (is.null(kept)) {
    if (length(cpu_lists) >= 100L) {
      rm(list = names(cpu_lists), envir = cpu_lists)
    }
    kept <- list(cpu_list_parse(text))
    cpu_lists[[text]] <- kept
  }
  kept[[1L]]
}

cpu_lists <- new.env(parent = emptyenv())

cpu_list_parse <- function(text) {
  list <- "^[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*$"
  if (!grepl(list, text, perl = TRUE)) {
    return(NULL)
  }
  ranges <- strsplit(text, ",", fixed = TRUE)[[1L]]
  first <- as.numeric(sub("-.*", "", ranges, perl = TRUE))
  last <- as.numeric(sub(".*-", "", ranges, perl = TRUE))
  if (any(last < first) || any(first[-1L] <= last[-length(last)])) {
    return(NULL)
  }
  list(first = first, last = last)
}

# Number of CPUs in a list, NA where it's none.
cpu_list_count <- function(text) {
  ranges <- cpu_list_ranges(text)
  if (is.null(ranges)) NA_integer_ else as.integer(sum(ranges$last - ranges$first + 1))
}

# Number of CPUs that two lists share, NA where one is none.
cpu_list_common <- function(text, other) {
  a <- cpu_list_ranges(text)
  b <- cpu_list_ranges(other)
  if (is.null(a) || is.null(b)) {
    return(NA_integer_)
  }
  overlap <- outer(a$last, b$last, pmin) - outer(a$first, b$first, pmax) + 1
  as.integer(sum(pmax(overlap, 0)))
}

# The CPUs' numbers. Linux has at most 8192; past 65536 it is no list of CPUs.
cpu_list_expand <- function(text) {
  ranges <- cpu_list_ranges(text)
  if (is.null(ranges) || sum(ranges$last - ranges$first + 1) > 65536) {
    return(integer())
  }
  as.integer(unlist(Map(seq, ranges$first, ranges$last)))
}
