# Helpers of the tests of discover(): real listeners on 127/8 that are open, silent, late,
# resetting, or say something else. See hosts.c.

# Compiles hosts.c, once. Call it at the top of a file, so that no test counts the program
# among what it leaves.
build_hosts <- function(source = testthat::test_path("hosts.c")) {
  if (file.exists(hosts_program()) || !file.exists("/proc/self/stat")) {
    return(invisible())
  }
  cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
  suppressWarnings(system2("sh", c("-c", shQuote(paste(
    cc[1L], "-O1 -o", shQuote(hosts_program()), shQuote(source)
  ))), stdout = FALSE, stderr = FALSE))
}

hosts_program <- function() file.path(tempdir(), "discover-hosts")

# Starts hosts, ended with the calling block: local_hosts(c("127.1.0.1" = "open")). The port
# that all of them listen on.
local_hosts <- function(kinds, port = 0L, frame = parent.frame()) {
  testthat::skip_if_not(file.exists(hosts_program()), "no C compiler here, or not Linux")
  told <- tempfile("hosts-")
  words <- shQuote(c(hosts_program(), port, paste0(names(kinds), "=", kinds)))
  hosts <- pipe(paste("exec", paste(words, collapse = " "), ">", shQuote(told)), "w")
  defer(function() {
    close(hosts)
    unlink(told)
  }, frame)
  wait_until(file.exists(told) && length(readLines(told, warn = FALSE)) > 0L)
  as.integer(readLines(told, warn = FALSE)[1L])
}

hex <- function(bytes) paste(as.character(as.raw(bytes)), collapse = "")

pcp_hello <- hex(c(0, 0, 0, 20, 0, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 14, 0x44))

# What the rows of some addresses have in a column.
at <- function(found, address, column = "status") {
  found[[column]][match(address, found$address)]
}
