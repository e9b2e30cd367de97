# Limits that hold while packages are checked: by R CMD check and on Bioconductor's machines.

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
