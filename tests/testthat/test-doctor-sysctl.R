# The kernel's settings: each verdict on both sides of its threshold. F2's figures.

sysctl <- function(name, value) stats::setNames(list(value), paste0("proc/sys/", name))

test_that("F2: somaxconn of 128 is bad, 16384 is advised", {
  name <- "net/core/somaxconn"
  row <- expect_verdict("somaxconn", "bad", sysctl(name, 128))
  expect_identical(row$command, "sysctl -w net.core.somaxconn=16384")
  expect_match(row$why, "MR3.*16384")
  expect_verdict("somaxconn", "attention", sysctl(name, 129))
  expect_verdict("somaxconn", "attention", sysctl(name, 4095))
  # Linux's default is good until a queue overflows that it limits.
  row <- expect_verdict("somaxconn", "good", sysctl(name, 4096))
  expect_identical(row$command, "sysctl -w net.core.somaxconn=16384")
  listener <- function(backlog, drops, depth = 0) {
    function() made_listeners(depth, backlog, drops = drops)
  }
  overflowed <- function(n) c(sysctl(name, n), made_counters(ListenOverflows = 1))
  row <- expect_verdict("somaxconn", "attention", overflowed(16383), listeners = listener(16383, 1))
  expect_identical(row$value, "16,383, the limit of 1 of 1 listener")
  row <- expect_verdict("somaxconn", "good", overflowed(16384), listeners = listener(16384, 1))
  expect_identical(row$command, "")
})

test_that("A6: somaxconn isn't blamed for queues that are short by their program's choice", {
  name <- "net/core/somaxconn"
  judge <- function(verdict, backlog, drops, depth = 0, overflows = 1e6) {
    expect_verdict("somaxconn", verdict,
      c(sysctl(name, 4096), made_counters(ListenOverflows = overflows)),
      listeners = function() {
        made_listeners(rep_len(depth, length(backlog)), backlog, drops = drops)
      })
  }
  judge("good", 128, 5000)
  judge("good", 4096, 0)
  judge("attention", 4096, 5000)
  judge("attention", c(128, 4096), c(0, 1))
  judge("attention", 4096, 0, depth = 4097)
  row <- judge("good", c(128, 4095), c(9, 9))
  expect_match(row$why, "what its program asks for (its backlog), but no more than this",
    fixed = TRUE)
  # Where no listener's drops are told, the count since boot has to do.
  judge("attention", 4096, NA)
  judge("good", 4096, NA, overflows = 1)
})

test_that("F2: tcp_max_syn_backlog is advised to be 65536", {
  name <- "net/ipv4/tcp_max_syn_backlog"
  row <- expect_verdict("tcp_max_syn_backlog", "bad", sysctl(name, 128))
  expect_identical(row$command, "sysctl -w net.ipv4.tcp_max_syn_backlog=65536")
  expect_verdict("tcp_max_syn_backlog", "attention", sysctl(name, 1023))
  row <- expect_verdict("tcp_max_syn_backlog", "good", sysctl(name, 1024))
  expect_identical(row$command, "sysctl -w net.ipv4.tcp_max_syn_backlog=65536")
  expect_verdict("tcp_max_syn_backlog", "good",
    c(sysctl(name, 65535), made_counters(TCPReqQFullDoCookies = 2)))
  full <- made_counters(TCPReqQFullDoCookies = 2000)
  expect_verdict("tcp_max_syn_backlog", "attention", c(sysctl(name, 65535), full))
  expect_verdict("tcp_max_syn_backlog", "good", c(sysctl(name, 65536), full))
})

test_that("F2: tcp_fin_timeout is advised to be 30", {
  name <- "net/ipv4/tcp_fin_timeout"
  command <- "sysctl -w net.ipv4.tcp_fin_timeout=30"
  row <- expect_verdict("tcp_fin_timeout", "attention", sysctl(name, 61))
  expect_identical(row$command, command)
  row <- expect_verdict("tcp_fin_timeout", "good", sysctl(name, 60))
  expect_identical(row$command, command)
  row <- expect_verdict("tcp_fin_timeout", "good", sysctl(name, 30))
  expect_identical(row$command, "")
  crowded <- list("proc/net/sockstat" = "TCP: inuse 100 orphan 0 tw 3000 alloc 9 mem 1")
  expect_verdict("tcp_fin_timeout", "attention", c(sysctl(name, 31), crowded))
  expect_verdict("tcp_fin_timeout", "good", c(sysctl(name, 30), crowded))
  expect_verdict("tcp_fin_timeout", "good", c(sysctl(name, 60), list("proc/net/sockstat" = NA)))
})

test_that("resets on overflow and cookies never or always ask for attention", {
  name <- "net/ipv4/tcp_abort_on_overflow"
  expect_verdict("tcp_abort_on_overflow", "good", sysctl(name, 0))
  expect_verdict("tcp_abort_on_overflow", "attention", sysctl(name, 1))
  name <- "net/ipv4/tcp_syncookies"
  expect_verdict("tcp_syncookies", "attention", sysctl(name, 0))
  expect_verdict("tcp_syncookies", "good", sysctl(name, 1))
  expect_verdict("tcp_syncookies", "attention", sysctl(name, 2))
})

test_that("ephemeral ports are judged by their number and their use", {
  range <- function(n) sysctl("net/ipv4/ip_local_port_range", paste0("10000\t", 9999 + n))
  expect_verdict("ports", "good", range(10000))
  expect_verdict("ports", "attention", range(9999))
  expect_verdict("ports", "attention", range(1000))
  row <- expect_verdict("ports", "bad", range(999))
  expect_match(row$command, "ip_local_port_range=\"10240 65535\"")
  used <- function(inuse, tw) {
    line <- sprintf("TCP: inuse %d orphan 0 tw %d mem 1", inuse, tw)
    c(range(10000), list("proc/net/sockstat" = line))
  }
  expect_verdict("ports", "good", used(4000, 999))
  expect_verdict("ports", "attention", used(4000, 1000))
  expect_verdict("ports", "bad", used(1000, 8000))
  row <- expect_verdict("ports", "good", c(range(20000), list("proc/net/sockstat" = NA)))
  expect_match(row$value, "use unknown")
  expect_verdict("ports", "unknown", sysctl("net/ipv4/ip_local_port_range", "5"))
  expect_verdict("ports", "unknown", sysctl("net/ipv4/ip_local_port_range", "500 5"))
})

test_that("neighbour tables are judged by the fuller one, and by whether they were full", {
  table <- function(entries, fulls = 0, name = "arp_cache") {
    stats::setNames(list(c("entries  allocs   table_fulls ",
      sprintf("%08x  00000000  %08x ", entries, fulls))), paste0("proc/net/stat/", name))
  }
  expect_verdict("neighbours", "good", table(511))
  expect_verdict("neighbours", "attention", table(512))
  expect_verdict("neighbours", "attention", table(921))
  row <- expect_verdict("neighbours", "bad", table(922))
  expect_match(row$command, "gc_thresh3=4096")
  expect_verdict("neighbours", "bad", table(1000, name = "ndisc_cache"))
  row <- expect_verdict("neighbours", "good", table(5, fulls = 3))
  expect_match(row$value, "3 times full in the 10 days since boot")
  expect_verdict("neighbours", "attention", table(5, fulls = 1001))
  expect_verdict("neighbours", "good", sysctl("net/ipv4/neigh/default/gc_thresh3", 512))
  expect_verdict("neighbours", "attention", sysctl("net/ipv4/neigh/default/gc_thresh3", 511))
  expect_verdict("neighbours", "good", list("proc/net/stat/arp_cache" = NA))
})
