# CPUs that the kernel may run this process on: set by taskset, by a job scheduler or by
# a CPU set.

# Those that the kernel allows, or NA where it doesn't tell. The mask may hold CPUs which
# are offline; that doesn't matter to the least, as cores_system() counts only the others.
cores_affinity <- function(machine) {
  count <- cpu_list_count(machine$allowed)
  if (is.na(count)) {
    return(cores_silent("no Cpus_allowed_list in ", machine$proc, "/self/status"))
  }
  cores_answer(count, "Cpus_allowed_list ", describe(machine$allowed), " in ", machine$proc,
    "/self/status"
  )
}

# What the program `nproc` prints, without the variables of OpenMP that it heeds: CPUs that
# are allowed and online. The kernel's files say so without a process; the program is asked
# only where they don't, once a session.
cores_nproc <- function(machine, ask = run_nproc, memory = cores_detected) {
  count <- cpu_list_common(machine$allowed, machine$online)
  if (!is.na(count) && count > 0L) {
    return(cores_answer(count, "CPUs both in Cpus_allowed_list ", describe(machine$allowed),
      " and online, ", describe(machine$online)
    ))
  }
  if (!grepl("^linux", R.version$os)) {
    return(cores_silent("there's no nproc on this system"))
  }
  if (is.null(memory$nproc)) {
    text <- tryCatch(suppressWarnings(ask()), error = function(e) character())
    memory$nproc <- if (length(text)) cores_whole(text[[1L]]) else NA_integer_
  }
  if (is.na(memory$nproc)) {
    return(cores_silent("nproc gives no number"))
  }
  cores_answer(memory$nproc, "nproc")
}

run_nproc <- function() {
  system("unset OMP_NUM_THREADS OMP_THREAD_LIMIT; exec nproc 2>/dev/null", intern = TRUE)
}
