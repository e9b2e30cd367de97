# Kernel and CPUs.

# A container's filter may refuse what the version has: so features are tried.
doctor_kernel <- function(machine) {
  built_with <- machine$built_with()
  features <- machine$features()
  if (!all(built_with)) {
    return(doctor_built(names(built_with)[!built_with], features))
  }
  release <- doctor_lines(machine, "proc", "sys/kernel/osrelease")[1L]
  verdict <- if (all(features)) "good" else "attention"
  lost <- names(features)[!features]
  finding(
    paste0(release, if (length(lost)) paste0(", without ", paste(lost, collapse = " and "))),
    verdict,
    paste0(
      "Without pidfd (Linux 5.3) a worker's end is seen later; without memfd (3.17) large ",
      "vectors are copied through sockets. A container's seccomp filter may forbid them."
    ),
    unless_good(verdict, "a newer kernel, or docker run --security-opt seccomp=unconfined"),
    features + 0
  )
}

# On systems other than Linux, or in a build without some features.
doctor_built <- function(lacks, features) {
  finding(
    paste("built without", paste(lacks, collapse = ", ")), "attention",
    paste0(
      "muster doesn't use Linux's own features: workers are booted one by one, a lost session or ",
      "worker is seen later, large vectors are copied through sockets. Flags such as ",
      "-DMST_PORTABLE do that on Linux, too."
    ),
    "Linux, and muster installed without -DMST_PORTABLE or -DMST_NO_...",
    features + 0
  )
}

# ---- CPUs

doctor_cpu_count <- function(machine) {
  cores_system(doctor_cores(machine),
    detect = function(...) not_known("The number of CPUs is unknown.")
  )$count
}

doctor_cpus <- function(machine) {
  total <- doctor_cpu_count(machine)
  cores <- machine$cores()
  verdict <- if (cores < total) "attention" else "good"
  finding(
    paste0(
      count_text(total), ", availableCores() is ", unname(cores),
      if (length(names(cores))) paste0(" (", names(cores), ")")
    ),
    verdict,
    paste0(
      "This process may use fewer CPUs than there are. Code that asks detectCores() starts ",
      "too many workers, which then wait for each other."
    ),
    unless_good(verdict, "use availableCores() in place of parallel::detectCores()"),
    c(cpus = total, available = unname(cores))
  )
}

doctor_load <- function(machine) {
  line <- doctor_lines(machine, "proc", "loadavg")[1L]
  load <- suppressWarnings(as.numeric(strsplit(line, " ", fixed = TRUE)[[1L]][1L]))
  if (is.na(load)) {
    not_known("loadavg holds no number.")
  }
  total <- doctor_cpu_count(machine)
  verdict <- verdict_high(load / total, 1.5, 4)
  finding(
    paste0(
      format(load, decimal.mark = "."), " for ", count_text(total),
      if (total == 1L) " CPU" else " CPUs"
    ),
    verdict,
    "More programs want to run than there are CPUs: workers wait for their turn.",
    unless_good(verdict, "ps aux --sort=-pcpu | head # what runs"),
    c(load = load, cpus = total)
  )
}
