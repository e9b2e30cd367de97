# Limits that somebody set on the processes of this session: a user, by option mc.cores; R CMD
# check and Bioconductor's machines, while packages are checked.

# ---- Option mc.cores

# With it users limit parallel::mclapply() and its like.
#
# It counts the processes besides this one, but 0 stands for this one alone, so that 0 and
# 1 both mean 1; parallelly does the same. Fractions are cut off, as mclapply() does. Package
# parallel sets the option from MC_CORES when it is loaded; the variable is read here for
# the case that it was set later.

# plus: 1 for method "mc.cores+1", which takes the option at its word.
cores_mc <- function(plus = 0L) {
  value <- getOption("mc.cores")
  name <- "mc.cores"
  kind <- "Option"
  if (is.null(value)) {
    found <- cores_env("MC_CORES")
    if (is.null(found)) {
      return(cores_of_worker())
    }
    value <- found$text
    name <- found$name
    kind <- "Environment variable"
  }
  if (length(value) == 1L && is.atomic(value) && is.na(value)) {
    return(cores_silent("option mc.cores is NA"))
  }
  count <- cores_whole(if (is.numeric(value)) trunc(value) else value)
  if (is.na(count) || count < 0L) {
    cores_warn_count(paste0(kind, " `", name, "`"), 0L, value)
    return(cores_silent(tolower(kind), " ", name, " is ignored: ", describe(value)))
  }
  more <- if (plus) paste0(" and ", plus, " more") else if (!count) ", this process alone" else ""
  cores_answer(max(count + plus, 1L), tolower(kind), " ", name, " = ", describe(value), more)
}

# A worker is one of several: it may use the threads that it was started with, not the machine's
# cores. Its OMP_NUM_THREADS says how many that are.
cores_of_worker <- function() {
  if (!the$worker) {
    return(cores_silent("option mc.cores and MC_CORES aren't set"))
  }
  threads <- suppressWarnings(as.integer(Sys.getenv("OMP_NUM_THREADS")))
  count <- if (is.na(threads) || threads < 1L) 1L else threads
  cores_answer(count, "threads of this worker of a cluster: ", count)
}

# ---- Checks

# R's own rule, in parallel:::.check_ncores(): any value but "" and "false", in any
# case, allows 2 processes; "warn" says only how a third is answered.
cores_check_limit <- function() {
  name <- "_R_CHECK_LIMIT_CORES_"
  value <- Sys.getenv(name, unset = "")
  if (!nzchar(value)) {
    return(cores_silent(name, " isn't set"))
  }
  if (is_false(value)) {
    return(cores_silent(cores_quote(name, value)))
  }
  cores_answer(2L, cores_quote(name, value))
}

# Package BiocParallel's variable for its number of workers.
cores_biocparallel <- function() cores_env_count("BIOCPARALLEL_WORKER_NUMBER")

# Bioconductor's build machines allow a package 4 processes. They set BBS_HOME to a
# directory, and since Bioconductor 3.16 IS_BIOC_BUILD_MACHINE to a truth value.
cores_bioconductor <- function() {
  names <- c("IS_BIOC_BUILD_MACHINE", "BBS_HOME")
  values <- Sys.getenv(names, unset = "")
  set <- c(isTRUE(as.logical(values[[1L]])), nzchar(values[[2L]]) && !is_false(values[[2L]]))
  if (!any(set)) {
    return(cores_silent(paste(names, collapse = ", "), " aren't set"))
  }
  at <- which(set)[1L]
  cores_answer(4L, cores_quote(names[at], values[[at]]))
}

# tolower() would stop at bytes that aren't valid in this locale.
is_false <- function(text) grepl("^false$", text, ignore.case = TRUE, useBytes = TRUE)
