# CPUs that job schedulers, option mc.cores and R CMD check grant.
#
# Nothing here may fail: a variable of the environment is often set by somebody else, for
# some other purpose. What can't be used is ignored, and said once per value.

# The variable that each scheduler sets, by the method's name in availableCores().
cores_schedulers <- c(
  Slurm = "SLURM_CPUS_PER_TASK", # sbatch --cpus-per-task
  SGE = "NSLOTS",                # qsub -pe; all Grid Engines
  PBS = "PBS_NUM_PPN"            # qsub -l nodes=1:ppn=; TORQUE
)

# CPUs granted by a scheduler, or NA if it doesn't say.
cores_scheduler <- function(method) {
  variable <- cores_schedulers[[method]]
  text <- Sys.getenv(variable, unset = NA)
  if (is.na(text)) {
    return(NA_integer_)
  }
  count <- cores_whole(text)
  if (is.na(count) || count < 1L) {
    cores_warn_ignored(paste0("Environment variable `", variable, "`"), 1L, text)
    return(NA_integer_)
  }
  count
}

# Option mc.cores, or NA. It counts the processes besides this one, but 0 stands for
# this one alone, so that 0 and 1 both mean 1; parallelly does the same. Fractions
# are cut off, as mclapply() does. Package parallel sets the option from MC_CORES when it
# is loaded; the variable is read here for the case that it was set later.
cores_mc <- function() {
  value <- getOption("mc.cores")
  source <- "Option `mc.cores`"
  if (is.null(value)) {
    value <- Sys.getenv("MC_CORES", unset = NA)
    source <- "Environment variable `MC_CORES`"
  }
  if (length(value) == 1L && is.atomic(value) && is.na(value)) {
    return(NA_integer_)
  }
  count <- cores_whole(if (is.numeric(value)) trunc(value) else value)
  if (is.na(count) || count < 0L) {
    cores_warn_ignored(source, 0L, value)
    return(NA_integer_)
  }
  max(count, 1L)
}

# R's own rule, in parallel:::.check_ncores(): any value but "" and "false", in any
# case, allows 2 processes; "warn" says only how a third is answered.
cores_check_limit <- function() {
  value <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_", unset = ""))
  if (value %in% c("", "false")) NA_integer_ else 2L
}

# A whole number given as a number or as decimal digits, or NA.
cores_whole <- function(value) {
  if (length(value) != 1L) {
    return(NA_integer_)
  }
  if (is.character(value)) {
    # Bytes, because a variable may hold what isn't valid in this locale.
    digits <- grepl("^[ \t]*[0-9]+[ \t]*$", value, useBytes = TRUE)
    value <- if (digits) as.numeric(value) else NA_real_
  }
  if (!is.numeric(value) || is.na(value) || abs(value) > .Machine$integer.max) {
    return(NA_integer_)
  }
  as.integer(value)
}

cores_warned <- new.env(parent = emptyenv())

# Says once a session that a value is ignored.
cores_warn_ignored <- function(source, min, value) {
  message <- paste0(
    source, " must be a whole number from ", min, " up, not ", describe(value), "."
  )
  if (!message %in% cores_warned$messages) {
    cores_warned$messages <- c(cores_warned$messages, message)
    warn_muster("input", message,
      hints = "It is ignored in counting the available cores; correct or unset it.",
      value = value
    )
  }
}
