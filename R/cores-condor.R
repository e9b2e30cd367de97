# HTCondor: `request_cpus = 4` in the submit file.
#
# HTCondor describes the slot that a job runs in, in the file that _CONDOR_MACHINE_AD names;
# one of its lines is "Cpus = 4". By default it limits a job to shares of CPU time only, which
# bind when others want the rest, so nothing else on the machine would tell.

cores_condor <- function() {
  found <- cores_env("_CONDOR_MACHINE_AD")
  if (is.null(found)) {
    return(cores_silent("_CONDOR_MACHINE_AD isn't set"))
  }
  lines <- read_kernel_file(found$text)
  pattern <- "^Cpus *= *([0-9]+) *$"
  line <- grep(pattern, lines, ignore.case = TRUE, value = TRUE)
  count <- if (length(line) == 1L) cores_whole(sub(pattern, "\\1", line, ignore.case = TRUE))
  if (is.null(count) || is.na(count) || count < 1L) {
    return(cores_silent("no number of Cpus in ", found$text))
  }
  cores_answer(count, "\"", line, "\" in ", found$text)
}
