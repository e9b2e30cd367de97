# IBM Spectrum LSF and OpenLava: `bsub -n 8`.

cores_lsf <- function() cores_env_count("LSB_DJOB_NUMPROC")

# Hosts of the job in LSF's order, one for each slot; NULL if there's no list. LSB_HOSTS
# has a word for each slot; LSB_MCPU_HOSTS, for jobs where that gets too long, has pairs
# of host and number of slots.
workers_lsf <- function() {
  found <- cores_env("LSB_HOSTS")
  if (!is.null(found)) {
    hosts <- cores_split(found$text, "[, \t\n]+")
    return(workers_repeat(hosts, rep(1L, length(hosts)), paste0("`", found$name, "`")))
  }
  found <- cores_env("LSB_MCPU_HOSTS")
  if (is.null(found)) {
    return(NULL)
  }
  words <- cores_split(found$text, "[ \t\n]+")
  first <- seq(1L, length(words), by = 2L)
  counts <- vapply(words[first + 1L], cores_whole, 1L, USE.NAMES = FALSE)
  source <- paste0("Environment variable `", found$name, "`")
  if (anyNA(counts) || any(counts < 1L)) {
    cores_warn_ignored(source, "pairs of a host and a number of slots", found$text)
    return(NULL)
  }
  workers_repeat(words[first], counts, source)
}
