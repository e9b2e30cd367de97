# CPUs of the machine, and those which this process may run on.
#
# parallel::detectCores() starts a shell, which takes milliseconds, and may answer
# NA. On Linux the kernel's files say the same in microseconds, so detectCores()
# is left for systems without them (macOS), and asked once a session.
#
# read_kernel_file() and cpu_list_count() also serve cores-cgroup.R.

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

# Number of CPUs in a list as the kernel writes it, such as "0-3,8,10-11": ranges
# that rise and don't overlap. NA for an empty list and for anything else.
cpu_list_count <- function(text) {
  list <- "^[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*$"
  if (length(text) != 1L || !grepl(list, text, perl = TRUE)) {
    return(NA_integer_)
  }
  ranges <- strsplit(text, ",", fixed = TRUE)[[1L]]
  first <- as.numeric(sub("-.*", "", ranges, perl = TRUE))
  last <- as.numeric(sub(".*-", "", ranges, perl = TRUE))
  if (any(last < first) || any(first[-1L] <= last[-length(last)])) {
    return(NA_integer_)
  }
  as.integer(sum(last - first + 1))
}

# CPUs of the machine that are online, or NA. The directory in `cpu` is asked before
# /proc/cpuinfo because the latter grows by a kilobyte or more with each CPU.
cores_system <- function(proc = "/proc", cpu = "/sys/devices/system/cpu",
                         detect = cores_detect) {
  count <- cpu_list_count(read_kernel_file(file.path(cpu, "online")))
  if (is.na(count)) {
    count <- sum(startsWith(read_kernel_file(file.path(proc, "cpuinfo")), "processor"))
  }
  if (count > 0L) count else detect()
}

# CPUs that the scheduler may put this process on (taskset, sched_setaffinity,
# cpusets), or NA where the kernel doesn't tell. The mask may hold CPUs which are
# offline; that doesn't matter to the least, as cores_system() counts only the others.
cores_affinity <- function(proc = "/proc") {
  field <- "Cpus_allowed_list:\t"
  lines <- read_kernel_file(file.path(proc, "self", "status"))
  line <- lines[startsWith(lines, field)]
  if (length(line) != 1L) {
    return(NA_integer_)
  }
  cpu_list_count(substring(line, nchar(field) + 1L))
}

cores_detected <- new.env(parent = emptyenv())

# parallel::detectCores() made safe: an integer from 1 up, or NA. The first answer
# is kept, as each one costs a process. `ask` is given by tests.
cores_detect <- function(ask = parallel::detectCores, memory = cores_detected) {
  if (is.null(memory$count)) {
    count <- tryCatch(suppressWarnings(as.integer(ask())), error = function(e) NA_integer_)
    memory$count <- if (length(count) == 1L && !is.na(count) && count >= 1L) count else NA_integer_
  }
  memory$count
}
