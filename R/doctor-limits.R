# Limits on this process (ulimit), from /proc/self/limits.

# Soft and hard limit of one line, Inf for none.
process_limit <- function(machine, name) {
  lines <- doctor_lines(machine, "proc", "self/limits")
  line <- lines[startsWith(lines, name)]
  words <- strsplit(trimws(substring(line, nchar(name) + 1L)), "[ \t]+")
  if (length(line) != 1L || length(words[[1L]]) < 2L) {
    not_known(paste0("self/limits has no line \"", name, "\"."))
  }
  values <- words[[1L]][1:2]
  if (!all(grepl("^([0-9]+|unlimited)$", values))) {
    not_known(paste0("self/limits has no number in \"", name, "\"."))
  }
  limits <- as.numeric(ifelse(values == "unlimited", "Inf", values))
  c(soft = limits[1L], hard = limits[2L])
}

limit_text <- function(x, text = count_text) if (is.finite(x)) text(x) else "no limit"

# A session has three descriptors for each worker, plus some of its own.
descriptors_per_worker <- 3
descriptors_spare <- 64

doctor_open_files <- function(machine) {
  limit <- process_limit(machine, "Max open files")
  open <- length(list.files(file.path(machine$proc, "self", "fd")))
  workers <- max(0, floor((limit[["soft"]] - open - descriptors_spare) / descriptors_per_worker))
  verdict <- verdict_low(workers, 256, machine$cores())
  raised <- if (is.finite(limit[["hard"]])) min(65536, limit[["hard"]]) else 65536
  finding(
    paste0(
      limit_text(limit[["soft"]]), " (hard ", limit_text(limit[["hard"]]), "), ", open,
      " open: ", if (is.finite(workers)) paste("room for", count_text(workers), "workers")
      else "room for any number of workers"
    ),
    verdict,
    paste0(
      "A session uses three descriptors for each of its workers. When they run out, no worker ",
      "starts and no file opens."
    ),
    if (verdict == "good") {
      ""
    } else if (raised > limit[["soft"]]) {
      paste("ulimit -n", format(raised, scientific = FALSE), "# before R starts")
    } else {
      "echo '* - nofile 65536' > /etc/security/limits.d/nofile.conf # then log in again"
    },
    c(soft = limit[["soft"]], hard = limit[["hard"]], open = open, room_for_workers = workers)
  )
}

# All processes of the machine together: used, 0, limit.
doctor_system_files <- function(machine) {
  numbers <- doctor_numbers(machine, "proc", "sys/fs/file-nr")
  if (length(numbers) != 3L) {
    not_known("sys/fs/file-nr doesn't hold three numbers.")
  }
  part <- numbers[1L] / numbers[3L]
  verdict <- verdict_high(part, 0.7, 0.9)
  finding(
    paste0(
      count_text(numbers[1L]), " open, ",
      # systemd sets it to 2^63 - 1.
      if (numbers[3L] >= 2^60) "no limit" else paste(count_text(numbers[3L]), "allowed")
    ),
    verdict,
    "When the whole machine's files are used up, no process can open or connect (ENFILE).",
    unless_good(verdict, set_sysctl("fs.file-max", format(2 * numbers[3L], scientific = FALSE))),
    c(open = numbers[1L], limit = numbers[3L])
  )
}

# Each worker has two threads, and threads count. /proc/loadavg counts the whole machine's, which is
# at least the user's number.
doctor_processes <- function(machine) {
  limit <- process_limit(machine, "Max processes")[["soft"]]
  total <- or_na(doctor_number(machine, "proc", "sys/kernel/threads-max"))
  pids <- or_na(doctor_number(machine, "proc", "sys/kernel/pid_max"))
  least <- min(limit, total, pids, na.rm = TRUE)
  running <- or_na(threads_running(machine))
  left <- least - if (is.na(running)) 0 else running
  cores <- machine$cores()
  verdict <- verdict_low(left, max(512, 2 * cores), 2 * cores + 16)
  finding(
    paste0(
      limit_text(limit), if (least < limit) paste0(", the system's ", count_text(least)),
      if (!is.na(running)) paste0("; ", count_text(running), " threads run")
    ),
    verdict,
    paste0(
      "A worker is a process with two threads or more. At the limit a start fails with \"",
      "Resource temporarily unavailable\"."
    ),
    if (verdict == "good") {
      ""
    } else if (least < limit) {
      paste(set_sysctl("kernel.threads-max", 65536), "kernel.pid_max=65536")
    } else {
      "ulimit -u 4096 # before R starts"
    },
    c(limit = limit, system_limit = min(c(Inf, total, pids), na.rm = TRUE), running = running)
  )
}

threads_running <- function(machine) {
  line <- doctor_lines(machine, "proc", "loadavg")[1L]
  pattern <- "^[^/]*/([0-9]+).*$"
  if (!grepl(pattern, line)) {
    not_known("loadavg has no number of threads.")
  }
  as.numeric(sub(pattern, "\\1", line))
}

doctor_address_space <- function(machine) {
  limit <- process_limit(machine, "Max address space")[["soft"]]
  verdict <- verdict_low(limit, Inf, 4 * 1024^3)
  finding(
    limit_text(limit, binary_text), verdict,
    paste0(
      "It counts what is mapped, not what is used: shared vectors and the stacks of ",
      "threads reach it long before memory is short. Limit memory by a control group."
    ),
    unless_good(verdict, "ulimit -v unlimited # before R starts"),
    c(limit_bytes = limit)
  )
}

# Each block of shared memory, and each library, is a mapping in every process that reads it.
doctor_max_map_count <- function(machine) {
  now <- machine$mappings()
  limit <- doctor_number(machine, "proc", "sys/vm/max_map_count")
  part <- if (is.na(now[1L]) || limit <= 0) 0 else now[1L] / limit
  verdict <- worst(verdict_high(part, 0.5, 0.9), if (limit < 65530) "attention" else "good")
  finding(
    paste0(
      count_text(limit), if (!is.na(now[1L])) paste0(", ", count_text(now[1L]), " in use here")
    ),
    verdict,
    paste0(
      "The memory mappings that a process may have: one for each block of shared vectors, ",
      "several for each library. At the limit R reports that it can't allocate memory, although ",
      "much is free."
    ),
    unless_good(verdict, set_sysctl("vm.max_map_count", mappings_enough(limit))),
    c(limit = limit, used = now[1L])
  )
}
