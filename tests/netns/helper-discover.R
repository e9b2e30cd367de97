# Helpers of test-discover.R: hosts on an Ethernet that a program plays, and PCP's programs.

# Compiles ether.c into this session's temporary directory.
build_ether <- function() {
  program <- file.path(tempdir(), "ether")
  if (has_compiler() && !file.exists(program)) {
    cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
    system2("sh", c("-c", shQuote(paste(cc[1L], "-O1 -o", program, "ether.c"))))
  }
  program
}

skip_without_ether <- function() {
  skip_if_not(file.exists(build_ether()), "no C compiler here")
}

skip_without_pcp <- function() {
  skip_if_not(nzchar(Sys.which("pmfind")), "there is no pmfind, from PCP")
}

# For code in a namespace of run_netns(): starts hosts on the other end, and ends them.
ether_prelude <- quote({
  ether_start <- function(program, hosts) {
    ether <- processx::process$new("nsenter", c("-t", Sys.getenv("MUSTER_NETNS_PEER"), "-n",
      program, "vb0", paste0(names(hosts), "=", hosts)), stdin = "|", stdout = "|")
    ether$poll_io(10000)
    stopifnot(identical(ether$read_output_lines(), "ready"))
    ether
  }
  ether_end <- function(ether) {
    close(ether$get_input_connection())
    ether$poll_io(5000)
    counts <- scan(text = ether$read_all_output_lines(), quiet = TRUE)
    c(syns = counts[1L], dropped = counts[2L])
  }
  # Addresses that pmfind finds.
  pmfind <- function(mechanism) {
    out <- suppressWarnings(system2("pmfind", c("-m", mechanism, "-s", "pmcd"), stdout = TRUE))
    sort(sub("^ *pcp://(.*):[0-9]+$", "\\1", grep("://", out, value = TRUE)))
  }
})

# Runs code against these hosts of 10.9.0.0/24.
run_ether <- function(hosts, code, ..., frame = parent.frame()) {
  skip_without_ether()
  body <- bquote({
    .(ether_prelude)
    hosts <- .(hosts)
    ether <- ether_start(.(build_ether()), hosts)
    .(code)
    counts <- ether_end(ether)
    tell(syns = counts[["syns"]], dropped = counts[["dropped"]])
  })
  expect_done(run_netns(body, here = "10.9.0.1/24", there = character(), ...,
    frame = frame))
}
