# Lists of hosts that schedulers write to a file, and the repeating of hosts.

# As many as a session of muster could start, a hundred times over.
workers_max <- 1000000L

# The file that an environment variable names: list(source, lines), where blank lines are left
# out; NULL if the variable isn't set or the file can't be read, which is warned of.
workers_file <- function(name) {
  found <- cores_env(name)
  if (is.null(found)) {
    return(NULL)
  }
  if (!utils::file_test("-f", found$text)) {
    cores_warn(
      paste0("Environment variable `", found$name, "` names a file that doesn't exist, ",
             describe(found$text), "."),
      "It is ignored when listing the available workers.",
      value = found$text
    )
    return(NULL)
  }
  lines <- cores_trim(read_kernel_file(found$text))
  list(source = paste0("The file of `", found$name, "`"), lines = lines[nzchar(lines)])
}

workers_reject <- function(file, must) {
  cores_warn(
    paste0(file$source, " must have ", must, "."),
    "It is ignored when listing the available workers."
  )
  NULL
}

# Hosts of a file that has one in each line, NULL if it has something else.
workers_plain <- function(file) {
  if (any(grepl("[ \t]", file$lines, useBytes = TRUE))) {
    return(workers_reject(file, "one host in each line"))
  }
  if (length(file$lines)) file$lines
}

# Each host as often as it counts; NULL past the limit.
workers_repeat <- function(hosts, counts, source) {
  if (sum(as.numeric(counts)) > workers_max) {
    cores_warn(
      paste0(source, " grants more than ", format(workers_max, big.mark = ",",
             decimal.mark = ".", scientific = FALSE), " workers."),
      "It is ignored when listing the available workers."
    )
    return(NULL)
  }
  rep(hosts, counts)
}
