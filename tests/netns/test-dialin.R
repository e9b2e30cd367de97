# Hosts that dial in: full queues, packets that are lost, connections of which one end knows
# nothing, and hostile peers. dialin.c plays the session, its hosts and the peers; it fails unless
# each host gets in once, and hears the session's last word.

test_that("S4 backlog overflow: 1,000 hosts call at once at a queue of 8, and all get in", {
  limit_time(120)
  told <- play_dialin("crowd", 1000)
  expect_identical(told$hosts, 1000)
  expect_gt(told$overflows, 0)
  expect_gt(told$attempts, 1000)
  cat(sprintf("    %.0f connections, %.0f of them found a full queue, %.1f s\n",
    told$attempts, told$overflows, told$ms / 1000))
})

test_that("S4 backlog overflow: so do hosts that the kernel answers by resets", {
  limit_time(120)
  told <- play_dialin("reset", 100)
  expect_identical(told$hosts, 100)
  expect_gt(told$overflows, 0)
})

test_that("S4 dropped SYN: hosts call until one arrives", {
  limit_time(120)
  told <- play_dialin("syn", 50)
  expect_identical(told$hosts, 50)
  expect_gte(told$attempts, 150)
})

test_that("S4 RST: hosts call until somebody listens", {
  limit_time(120)
  told <- play_dialin("refused", 50)
  expect_identical(told$hosts, 50)
  expect_gte(told$attempts, 150)
})

test_that("S4 dropped final ACK: hosts that believe in a connection open another", {
  limit_time(120)
  told <- play_dialin("ack", 50)
  expect_identical(told$hosts, 50)
  expect_gte(told$attempts, 100)
})

test_that("S4 half-open on the session's side: hosts that are gone keep nobody out", {
  limit_time(120)
  expect_identical(play_dialin("host-forgets", 20)$hosts, 20)
})

test_that("S4 half-open on the host's side: hosts that the session has forgotten come back", {
  limit_time(120)
  told <- play_dialin("session-forgets", 20)
  expect_identical(told$hosts, 20)
  expect_gte(told$attempts, 30)
})

test_that("S4 a firewall begins to drop, before hosts are in and afterwards, and ends", {
  limit_time(120)
  told <- play_dialin("fire-wall", 20, here = "10.9.0.1/24")
  expect_identical(told$hosts, 20)
  expect_gte(told$attempts, 60)
})

test_that("S5 10,000 hostile connections: none gets in, hosts do, and nothing stays", {
  limit_time(300)
  told <- play_dialin("hostile", 20, 10000, timeout_s = 280)
  expect_identical(told$hosts, 20)
  # The residents have never called again.
  expect_identical(told$attempts, 20)
  expect_identical(told$peers, 10000)
  expect_gt(told$told, 0)
  expect_gt(told$visits, 16)
  expect_lt(told$fds_most, told$turn + 100)
  expect_lt(told$kb_more, 4096)
  if (nzchar(Sys.which("openssl"))) expect_gt(told$clients, 0)
  cat(sprintf("    %.0f visits meanwhile, %.0f runs of openssl s_client, %.0f kB more, %.1f s\n",
    told$visits, told$clients, told$kb_more, told$ms / 1000))
})
