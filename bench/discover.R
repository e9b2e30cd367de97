# How long until a block of addresses is searched for a service?
#
# A /24 on an Ethernet of its own (two network namespaces) of which four hosts answer and the
# rest doesn't exist, timeout 0.02 s: discover() beside PCP's pmfind on the same network; the
# limit is the timeout itself. And 65,534 addresses of a loopback /16 that all refuse, beside
# a bare loop of non-blocking connects in C. Hosts are played by tests/netns/ether.c.

measure <- function(quick) {
  wrap <- c("unshare", "-rn", "tests/netns/namespace.sh", "-p", "-a", "10.9.0.1/24", "--")
  program <- build_ether()
  raw <- fresh(call("measure_inside", program, quick), "bench/discover.R", 900, wrap)
  list(raw = raw, rows = discover_rows(raw), notes = discover_notes(raw))
}

build_ether <- function() {
  program <- file.path(tempdir(), "ether")
  cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
  stopifnot(system2("sh", c("-c", shQuote(paste(cc[1L], "-O1 -o", program,
    "tests/netns/ether.c")))) == 0L)
  program
}

hosts <- paste0("10.9.0.", c(10, 77, 140, 254))

measure_inside <- function(program, quick) {
  suppressPackageStartupMessages(library(muster))
  ether <- pipe(paste(c("exec nsenter -t", Sys.getenv("MUSTER_NETNS_PEER"), "-n", program,
    "vb0", paste0(hosts, "=open"), ">/dev/null"), collapse = " "), "w")
  on.exit(close(ether))
  Sys.sleep(1) # it listens
  rounds <- if (quick) 1L else 11L
  slow <- if (quick) 0L else 3L
  rbind(
    block_24("/24, timeout 0.02, no retry", c(muster = rounds, pmfind = min(rounds, 7L)),
      retries = 0),
    block_24("/24, timeout 0.02, default", c(muster = rounds, pmfind = min(rounds, 7L))),
    block_24("/24, 10 at once, no retry", c(muster = rounds, pmfind = slow), retries = 0,
      in_flight = 10),
    block_24("/24, 1 at once, no retry", c(muster = max(slow, 1L)), retries = 0, in_flight = 1),
    refused_16(rounds)
  )
}

block_24 <- function(case, counts, ..., in_flight = NULL) {
  threads <- if (!is.null(in_flight)) paste0(",maxThreads=", in_flight)
  mechanism <- paste0("probe=10.9.0.0/24,timeout=0.02", threads)
  if (!nzchar(Sys.which("pmfind"))) counts <- counts["muster"]
  interleave(case, counts, function(arm) {
    if (arm == "muster") {
      took <- time_of(found <- discover("10.9.0.0/24", 44321, in_flight = in_flight, ...))
      found <- found$address[found$status == "open"]
    } else {
      took <- time_of(out <- suppressWarnings(
        system2("pmfind", c("-m", mechanism, "-s", "pmcd"), stdout = TRUE)
      ))
      found <- sub("^ *pcp://(.*):[0-9]+$", "\\1", grep("://", out, value = TRUE))
    }
    # A busy machine may cost one; a figure for less isn't one for this question.
    if (length(intersect(found, hosts)) < 3L) stop(arm, " missed hosts: ", toString(found))
    took
  })
}

refused_16 <- function(rounds) {
  case <- "65,534 refused addresses"
  interleave(case, c(muster = rounds, `bare connects` = rounds), function(arm) {
    if (arm == "muster") {
      took <- time_of(found <- discover("127.9.0.0/16", 9))
      stopifnot(all(found$status == "refused"))
      took
    } else {
      bare <- .Call(native$probes, 127 * 2^24 + 9 * 2^16 + 1, 65534L, 9L)
      stopifnot(bare[2L] == 65534)
      bare[1L]
    }
  })
}

discover_rows <- function(raw) {
  at_most <- function(seconds, ratio = 0) {
    text <- paste0("at most ", show_s(seconds), if (ratio > 0) paste0(", ratio at least ", ratio))
    bar(text, function(ours, theirs, by) ours <= seconds && (ratio == 0 || isTRUE(by >= ratio)))
  }
  row <- function(case, bar) {
    if (any(raw$case == case & raw$arm == "pmfind")) {
      compare(raw, case, "pmfind", bar = bar)
    } else {
      alone(raw, case, bar = bar)
    }
  }
  rbind(
    row("/24, timeout 0.02, no retry", at_most(0.05, 60)),
    row("/24, timeout 0.02, default", at_most(0.08, 60)),
    row("/24, 10 at once, no retry", at_most(0.6)),
    row("/24, 1 at once, no retry", at_most(5.3)),
    compare(raw, "65,534 refused addresses", "bare connects", bar = bar(
      "under 2 s, at least 40 % of the bare speed",
      function(ours, theirs, ratio) ours < 2 && ratio >= 0.4
    ))
  )
}

discover_notes <- function(raw) {
  c(
    "Floor of a /24 with absent hosts: the timeout, 20 ms for each round of attempts.",
    if (!any(raw$arm == "pmfind")) "pmfind isn't installed (Debian: pcp)."
  )
}
