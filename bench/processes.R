# What the kernel says of processes, and foreign ones that keep it busy. From /proc.

# Those of pids that run; a zombie doesn't, it only waits for its parent.
running <- function(pids) {
  pids[vapply(pids, function(pid) !process_state(pid) %in% c("", "Z", "X"), NA)]
}

# The fields of /proc/PID/stat after the name, which may hold blanks; "" if it is gone.
process_stat <- function(pid) {
  line <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "stat"), 1L)),
    error = function(e) ""
  )
  if (!length(line)) line <- ""
  strsplit(sub("^.*[)] ", "", line), " ", fixed = TRUE)[[1L]]
}

process_state <- function(pid) c(process_stat(pid), "")[1L]

await_gone <- function(pids, timeout_s = 60) {
  end <- now() + timeout_s
  while (length(pids <- running(pids))) {
    if (now() > end) {
      stop(length(pids), " processes still run after ", timeout_s, " s", call. = FALSE)
    }
    Sys.sleep(0.001)
  }
}

# All children of a process, their children, and so on.
descendants <- function(pid) {
  all <- as.integer(list.files("/proc", "^[0-9]+$"))
  parent <- vapply(all, function(x) suppressWarnings(as.integer(process_stat(x)[2L])), 1L)
  found <- integer()
  next_ones <- all[parent %in% pid]
  while (length(next_ones)) {
    found <- c(found, next_ones)
    next_ones <- all[parent %in% next_ones]
  }
  found
}

# Proportional set sizes: a page that k processes share counts 1/k for each.
pss_mb <- function(pids) {
  vapply(pids, function(pid) {
    lines <- readLines(file.path("/proc", pid, "smaps_rollup"))
    as.numeric(gsub("[^0-9]", "", grep("^Pss:", lines, value = TRUE))) / 1024
  }, numeric(1))
}

# Processor time of all threads of some processes, in seconds, to the nanosecond.
cpu_s <- function(pids) {
  files <- Sys.glob(file.path("/proc", pids, "task", "*", "schedstat"))
  ns <- vapply(files, function(file) {
    as.numeric(sub(" .*", "", readLines(file, 1L)))
  }, numeric(1))
  sum(ns) / 1e9
}

# Runs code while `count` foreign processes compute. Should nobody end them, the limit
# on their processor time does.
with_busy <- function(count, code) {
  loop <- "(ulimit -t 300; while :; do :; done) </dev/null >/dev/null 2>&1 & echo $!"
  pids <- integer()
  on.exit(for (pid in pids) tools::pskill(pid, tools::SIGKILL))
  for (i in seq_len(count)) pids <- c(pids, as.integer(system(loop, intern = TRUE)))
  force(code)
}
