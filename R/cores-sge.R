# Grid Engine (SGE and its descendants): `qsub -pe <environment> <slots>`.

cores_sge <- function() cores_env_count("NSLOTS")

# Hosts of the job, each as often as it has slots, in the order of their names; NULL if
# there's no list. Lines of the file: host, slots, queue, processors.
workers_sge <- function() {
  file <- workers_file("PE_HOSTFILE")
  if (is.null(file)) {
    return(NULL)
  }
  fields <- strsplit(file$lines, "[ \t]+", useBytes = TRUE)
  hosts <- vapply(fields, `[`, "", 1L)
  counts <- vapply(fields, function(field) cores_whole(field[2L]), 1L)
  if (anyNA(counts) || any(counts < 1L)) {
    return(workers_reject(file, "a host and a number of slots in each line"))
  }
  order <- order(hosts, counts)
  hosts <- workers_repeat(hosts[order], counts[order], file$source)
  slots <- cores_sge()$count
  if (!is.na(slots) && length(hosts) < slots) {
    cores_warn(
      paste0(file$source, " lists ", length(hosts), " slots, but `NSLOTS` says ", slots, "."),
      "The file takes precedence."
    )
  }
  hosts
}
