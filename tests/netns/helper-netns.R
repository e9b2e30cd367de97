# Helpers of the tests in this folder: R sessions in network namespaces of their own, where
# hosts can be absent, silent or many. No packet leaves them. See namespace.sh.

source("../full/helper-full.R", local = TRUE)

can_make_namespaces <- function() {
  suppressWarnings(system2("unshare", c("-rn", "ip", "link", "set", "lo", "up"),
    stdout = FALSE, stderr = FALSE
  )) == 0L
}

skip_without_namespaces <- function() {
  skip_if_not(can_make_namespaces(), "no network namespace can be made here")
}

# run_netns() runs code in an R session in a network namespace of its own, as
# run_session() does, within timeout_s. here: addresses with their bits, such as
# "10.9.0.1/24", of an interface va0. there: NULL, or addresses of the other end, vb0, which
# is in a second namespace then; there_run(command) is how code runs a command in it.
run_netns <- function(code, here = NULL, there = NULL, ..., timeout_s = 60,
                      frame = parent.frame()) {
  skip_without_namespaces()
  run_session(code, wrap = netns_wrap(here, there), ..., timeout_s = timeout_s, frame = frame)
}

start_netns <- function(code, here = NULL, there = NULL, ..., frame = parent.frame()) {
  skip_without_namespaces()
  start_session(code, wrap = netns_wrap(here, there), ..., frame = frame)
}

netns_wrap <- function(here, there) {
  c(
    "unshare", "-rn", normalizePath("namespace.sh"), if (!is.null(there)) "-p",
    rbind(rep("-a", length(here)), here), rbind(rep("-b", length(there)), there), "--"
  )
}

# For code that runs in a namespace: a command in the second one, in the background.
there_run <- quote({
  there_run <- function(command, ...) {
    processx::process$new("nsenter", c("-t", Sys.getenv("MUSTER_NETNS_PEER"), "-n", command),
      ...)
  }
})
