# discover() on a network of its own: absent, far, lossy, silent and barred hosts, beside
# pmfind on the same network, and a real PCP server.
build_ether()

four <- c("10.9.0.10" = "open", "10.9.0.77" = "open", "10.9.0.140" = "open", "10.9.0.254" = "open")

test_that("P1: open, refused, silent, barred, far and absent hosts of a /24 are told apart", {
  limit_time(60)
  run <- run_ether(
    c("10.9.0.10" = "open", "10.9.0.20" = "open:15", "10.9.0.30" = "refused",
      "10.9.0.40" = "silent", "10.9.0.50" = "barred"),
    quote({
      found <- discover("10.9.0.0/24", 44321)
      tell(found = as.data.frame(found))
    })
  )
  found <- run$told$found
  expect_identical(found$address, paste0("10.9.0.", 1:254))
  status <- stats::setNames(found$status, found$address)
  expect_identical(unname(status[paste0("10.9.0.", c(1, 10, 30, 40, 50))]),
    c("refused", "open", "refused", "silent", "unreachable"))
  # P2: a host at 15 ms is found within 20.
  expect_identical(status[["10.9.0.20"]], "open")
  expect_gte(found$rtt_ms[20L], 14)
  expect_match(found$error[50L], "host|route", ignore.case = TRUE)
  expect_identical(sum(status == "silent"), 249L)
  expect_true(all(found$attempts[status == "silent"] == 2L))
})

test_that("P2, P3: a /24 of four hosts takes its timeout, for each that is asked at once", {
  limit_time(120)
  run <- run_ether(four, quote({
    ask <- function(...) stopifnot(sum(discover("10.9.0.0/24", 44321, ...)$status == "open") >= 3)
    tell(
      once = elapsed(ask(retries = 0)), one = elapsed(ask(retries = 0, in_flight = 1))
    )
  }))
  expect_gte(run$told$once, 0.02)
  expect_gte(run$told$one, 250 * 0.02)
})

test_that("P2: with a fifth of first SYNs lost no host is missed in 100 scans", {
  limit_time(180)
  hosts <- stats::setNames(rep("lossy", 40L), paste0("10.9.0.", 101:140))
  run <- run_ether(hosts, quote({
    missed <- function(scans, ...) {
      sum(vapply(seq_len(scans), function(i) {
        sum(discover("10.9.0.101-140", 44321, ...)$status != "open")
      }, 0))
    }
    without <- missed(20, retries = 0)
    # A busy machine may keep the hosts themselves from answering within 20 ms.
    for (round in 1:3) {
      with <- missed(100)
      if (with == 0) break
    }
    tell(with = with, without = without)
  }), timeout_s = 120)
  expect_identical(run$told$with, 0)
  expect_gt(run$told$without, 40) # a fifth of 800, that is; and a tenth at the least
  expect_gt(run$told$dropped / run$told$syns, 0.1)
})

test_that("P1: what pmfind finds, discover() finds, and nothing else", {
  limit_time(120)
  skip_without_pcp()
  hosts <- c(four, "10.9.0.30" = "refused", "10.9.0.40" = "silent", "10.9.0.50" = "barred")
  run <- run_ether(hosts, quote({
    theirs <- pmfind("probe=10.9.0.0/24,timeout=0.1")
    found <- discover("10.9.0.0/24", 44321, edges = TRUE)
    ours <- utils::capture.output(
      status <- muster_cli(c("-m", "probe=10.9.0.0/24,timeout=0.1"), quit = FALSE)
    )
    tell(theirs = theirs, ours = found$address[found$status == "open"], cli = ours)
  }))
  expect_setequal(run$told$theirs, names(four))
  expect_setequal(run$told$ours, run$told$theirs)
  # These hosts accept and speak no PCP: our command tells, pmfind doesn't.
  expect_identical(run$told$cli, "No pmcd servers discovered")
})

test_that("P1: a real PCP server is found and proved, in its own words", {
  limit_time(60)
  skip_without_pcp()
  pcp <- Sys.getenv("PCP_DIR") # "" where it is installed
  pmcd <- file.path(pcp, "usr/lib/pcp/bin/pmcd")
  agent <- file.path(pcp, "usr/lib/pcp/pmdas/pmcd/pmda_pmcd.so")
  skip_if_not(all(file.exists(c(pmcd, agent))), "there is no pmcd, from PCP")
  folder <- local_folder()
  writeLines("root {\n\tsample 29:0:0\n}", file.path(folder, "pmns"))
  writeLines(paste("pmcd", 2, "dso", "pmcd_init", agent, sep = "\t"), file.path(folder, "conf"))
  run <- expect_done(run_netns(bquote({
    server <- processx::process$new("nsenter", c("-t", Sys.getenv("MUSTER_NETNS_PEER"), "-n",
      .(pmcd), "-f", "-A", "-U", "root", "-n", .(file.path(folder, "pmns")), "-c",
      .(file.path(folder, "conf")), "-l", .(file.path(folder, "log")), "-s",
      .(file.path(folder, "socket"))),
      env = c("current", PCP_RUN_DIR = .(folder)))
    for (i in 1:100) {
      found <- discover("10.9.0.0/29", 44321, timeout = 0.1, service = "pcp")
      if (any(found$status == "open") || !server$is_alive()) break
      Sys.sleep(0.1) # tidy: the server starts
    }
    ours <- utils::capture.output(
      muster_cli(c("probe", "-m", "probe=10.9.0.0/29,timeout=0.1"), quit = FALSE)
    )
    psock <- discover("10.9.0.0/29", 44321, timeout = 0.1, service = "psock")
    tell(alive = server$is_alive(), found = as.data.frame(found), ours = ours,
      psock = psock$status, log = readLines(.(file.path(folder, "log"))))
    server$kill()
  }), here = "10.9.0.1/24", there = "10.9.0.5/24"))
  skip_if_not(run$told$alive, paste(c("pmcd doesn't run here:", run$told$log), collapse = " "))
  open <- run$told$found[run$told$found$status == "open", ]
  expect_identical(open$address, "10.9.0.5")
  expect_identical(run$told$ours, c("Discovered pmcd servers:", "  pcp://10.9.0.5:44321"))
  expect_identical(run$told$psock[5L], "foreign")
})

test_that("P1: a session that waits for workers is found, and its cluster starts anyway", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    master <- processx::process$new("Rscript", c("-e", paste(
      "cl <- parallel::makeCluster(1, port = 11999, manual = FALSE, setup_strategy = 'parallel',",
      "rscript = 'sleep', rscript_args = '20', setup_timeout = 10)"
    )))
    for (i in 1:100) {
      found <- discover("127.0.0.1", 11999, timeout = 0.2, service = "psock")
      if (found$status == "open") break
      Sys.sleep(0.05) # tidy: the session starts
    }
    tell(status = found$status, error = found$error)
    master$kill_tree()
  })))
  expect_identical(run$told$status, "open")
})

test_that("P3: absent hosts of one's own link never fill the table of neighbours", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    took <- system.time(found <- discover("10.9.0.0/22", 80, retries = 0))[["elapsed"]]
    tell(took = took, status = unique(found$status[found$address != "10.9.0.1"]))
  }), here = "10.9.0.1/22", there = character()))
  expect_identical(run$told$status, "silent")
  # 1,022 addresses, 512 at most in 3 s.
  expect_gt(run$told$took, 3)
})

test_that("an absent host of one's own link is unreachable for those who wait", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    found <- discover("10.9.0.7", 80, timeout = 8, retries = 0)
    tell(status = found$status, error = found$error, took = attr(found, "elapsed_s"))
  }), here = "10.9.0.1/24", there = "10.9.0.2/24"))
  expect_identical(run$told$status, "unreachable")
  expect_match(run$told$error, "route|host", ignore.case = TRUE)
})

test_that("without a network addresses are unreachable, with the system's reason", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    found <- discover(c("10.9.0.1-3", "fd00::1"), 80)
    tell(status = found$status, error = found$error)
  })))
  expect_identical(run$told$status, rep("unreachable", 4L))
  expect_match(run$told$error, "unreachable|assign", ignore.case = TRUE)
})

test_that("P3: 65,534 refused addresses take no more memory than 20 MB", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    peak <- function() {
      as.numeric(gsub("[^0-9]", "", grep("VmHWM", readLines("/proc/self/status"), value = TRUE)))
    }
    invisible(discover("127.0.0.0/30", 9))
    gc()
    before <- peak()
    found <- discover("127.9.0.0/16", 9)
    tell(status = table(found$status), grown_kb = peak() - before)
  })))
  expect_identical(c(run$told$status), c(refused = 65534L))
  expect_lt(run$told$grown_kb, 20000)
})
