# CPUs of the machine.
#
# parallel::detectCores() starts a shell, which takes milliseconds, and may answer
# NA. On Linux the kernel's files say the same in microseconds, so detectCores()
# is left for systems without them (macOS), and asked once a session.

# An option stands in for the machine's number where one wants to try what
# happens on a larger or smaller one.
cores_system <- function(machine, detect = cores_detect) {
  option <- cores_option("availableCores.system", type = "integer")
  if (!is.null(option)) {
    return(cores_named_answer("option availableCores.system", option))
  }
  if (!machine$logical) {
    answer <- cores_physical(machine)
    if (!is.na(answer$count)) {
      return(answer)
    }
  } else {
    count <- cpu_list_count(machine$online)
    if (!is.na(count)) {
      return(cores_answer(count, describe(machine$online), " in ", machine$cpu, "/online"))
    }
    # Asked second, as it grows by a kilobyte or more with each CPU.
    count <- sum(startsWith(read_kernel_file(file.path(machine$proc, "cpuinfo")), "processor"))
    if (count > 0L) {
      return(cores_answer(count, count, " processors in ", machine$proc, "/cpuinfo"))
    }
  }
  count <- detect(logical = machine$logical)
  if (is.na(count)) cores_silent("detectCores() is NA") else cores_answer(count, "detectCores()")
}

# Cores, each of which may run several threads and then counts as several CPUs. The
# kernel lists with each CPU those of its core, itself among them.
cores_physical <- function(machine) {
  online <- cpu_list_expand(machine$online)
  topology <- file.path(machine$cpu, paste0("cpu", online), "topology")
  files <- file.path(topology, "core_cpus_list") # since Linux 5.3
  if (!length(online) || !file.exists(files[1L])) {
    files <- file.path(topology, "thread_siblings_list")
  }
  cores <- unlist(lapply(if (length(online)) files, read_kernel_file))
  if (!length(cores) || length(cores) != length(online)) {
    return(cores_silent("no topology in ", machine$cpu))
  }
  count <- length(unique(cores))
  cores_answer(count, count, " cores of ", length(online), " CPUs in ", machine$cpu)
}

cores_detected <- new.env(parent = emptyenv())

# parallel::detectCores() made safe: an integer from 1 up, or NA. The first answer
# is kept, as each one costs a process. `ask` is given by tests.
cores_detect <- function(ask = parallel::detectCores, memory = cores_detected, logical = TRUE) {
  key <- if (logical) "logical" else "physical"
  if (is.null(memory[[key]])) {
    count <- tryCatch(suppressWarnings(as.integer(ask(logical = logical))),
      error = function(e) NA_integer_
    )
    valid <- length(count) == 1L && !is.na(count) && count >= 1L
    memory[[key]] <- if (valid) count else NA_integer_
  }
  memory[[key]]
}
