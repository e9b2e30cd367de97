# Listen queues, retransmits and cards: made up, and made to happen.

# A healthy machine whose counters differ from look to look.
growing_machine <- function(before, after) {
  rest <- c(
    ListenOverflows = 0, ListenDrops = 0, TCPReqQFullDrop = 0, TCPReqQFullDoCookies = 0,
    OutSegs = 0, RetransSegs = 0
  )
  looks <- 0L
  machine_at(healthy_root(), counters = function() {
    looks <<- looks + 1L
    now <- list(before, after)[[looks]]
    replace(rest, names(now), now)
  })
}

test_that("F1: overflows in the interval are bad, since boot their average counts", {
  counters <- list(listen_overflows = "ListenOverflows", listen_drops = "ListenDrops",
    syn_queue_full = "TCPReqQFullDrop")
  for (item in names(counters)) {
    some <- function(n) stats::setNames(n, counters[[item]])
    expect_verdict(item, "good", made_counters(some(0)))
    # The machine runs for ten days: one overflow isn't shown as a fault for ever.
    row <- expect_verdict(item, "good", made_counters(some(1)))
    expect_match(row$value, "^1 in the 10 days since boot")
    expect_identical(row$command, "")
    expect_verdict(item, "good", made_counters(some(999)))
    row <- expect_verdict(item, "attention", made_counters(some(4000)))
    expect_match(row$value, "^4,000 in the 10 days since boot")
    expect_match(row$command, "^(sysctl -w net|muster doctor --interval)")
    # On the first day the average is over a whole day, without a time of boot as well.
    for (uptime in list("600.00 1.00", NA)) {
      boot <- list("proc/uptime" = uptime)
      expect_verdict(item, "good", c(boot, made_counters(some(99))))
      expect_verdict(item, "attention", c(boot, made_counters(some(100))))
    }
    old <- examine(growing_machine(some(7000), some(7000)), 0.01, item)
    expect_identical(old$verdict, "good")
    expect_match(old$value, "^7,000 in the 10 days since boot, none of them in the last 0")
    new <- examine(growing_machine(some(7), some(9)), 0.01, item)
    expect_identical(new$verdict, "bad")
    expect_match(new$value, "^9 in the 10 days since boot, 2 of them in the last 0")
    expect_identical(new$figures[[1L]][c("total", "grown")], c(total = 9, grown = 2))
  }
})

test_that("A6: the listener that dropped connections is named, and the advice is for it", {
  dropped <- function(drops, backlog) {
    made <- made_listeners(c(0, 0), backlog, port = c(80, 8787), drops = drops)
    list(listeners = function() made)
  }
  judge <- function(verdict, readers, somaxconn = 4096, item = "listen_overflows") {
    files <- c(made_counters(ListenOverflows = 12, ListenDrops = 12),
      list("proc/sys/net/core/somaxconn" = somaxconn))
    do.call(expect_verdict, c(list(item, verdict, files), readers))
  }
  # Its own backlog is the limit: somaxconn doesn't help it.
  row <- judge("attention", dropped(c(0, 12), 128))
  expect_match(row$value, "; 127.0.0.1:8787 dropped 12 (queue of 128)", fixed = TRUE)
  expect_match(row$command, "^ss -ltnp 'sport = :8787' # raise the backlog")
  expect_identical(row$persist, "")
  expect_identical(row$figures[[1L]][["listeners_that_dropped"]], 1)
  expect_identical(judge("attention", dropped(c(0, 12), 128), item = "listen_drops")$command,
    row$command)
  # somaxconn is.
  row <- judge("attention", dropped(c(0, 12), 4096))
  expect_match(row$command, "^sysctl -w net.core.somaxconn=16384 # then restart the program")
  expect_identical(row$persist, "net.core.somaxconn = 16384")
  # At the advised limit only fewer connections, or a faster program, help.
  expect_match(judge("attention", dropped(c(0, 12), 16384), 16384)$command, "^ss -ltnp")
  row <- judge("good", dropped(c(0, 0), 4096))
  expect_match(row$value, "no current listener dropped any")
  # A kernel before 4.7 doesn't tell.
  row <- judge("good", dropped(NA, 4096))
  expect_match(row$value, "12 in the 10 days since boot$")
  row <- judge("attention", dropped(c(5, 12), 128))
  expect_match(row$value, "8787 dropped 12 .*127.0.0.1:80 dropped 5")
})

test_that("A6: in the interval, the listener is named whose drops grew", {
  looks <- 0L
  machine <- machine_at(healthy_root(),
    listeners = function() {
      looks <<- looks + 1L
      made_listeners(c(0, 0), 128, port = c(80, 8787), drops = list(c(50, 3), c(50, 7))[[looks]])
    },
    counters = function() {
      c(ListenOverflows = 50 + 4 * looks, ListenDrops = 50 + 4 * looks)
    }
  )
  row <- examine(machine, 0.01, "listen_overflows")
  expect_identical(row$verdict, "bad")
  expect_match(row$value, "127.0.0.1:8787 dropped 4 (queue of 128)", fixed = TRUE)
  expect_false(grepl(":80 ", row$value, fixed = TRUE))
})

test_that("A6: a listener's program is named where its descriptors can be seen", {
  files <- changed_files("proc/4711/comm" = "Rserve", "proc/4711/fd" = NULL,
    "proc/4712/comm" = "R", "proc/4712/fd" = NULL)
  machine <- made_machine(files)
  file.symlink("socket:[2]", file.path(machine$proc, "4711", "fd", "7"))
  file.symlink("/dev/null", file.path(machine$proc, "4712", "fd", "0"))
  expect_identical(owner_text(machine, c(1, 2)), c("", " (Rserve 4711)"))
})

test_that("a kernel that doesn't count something is unknown in it alone", {
  files <- list("proc/net/netstat" = c("TcpExt: ListenDrops", "TcpExt: 3"))
  expect_verdict("listen_drops", "good", files)
  row <- expect_verdict("listen_overflows", "unknown", files)
  expect_match(row$value, "doesn't count ListenOverflows")
})

test_that("a listener's queue is judged against its backlog", {
  queue <- function(depth, backlog, ...) {
    list(listeners = function() made_listeners(depth, backlog, ...))
  }
  judge <- function(verdict, readers) {
    do.call(expect_verdict, c(list("listen_queues", verdict, list()), readers))
  }
  expect_match(judge("good", queue(numeric(), numeric()))$value, "nothing listens")
  judge("good", queue(1, 2))
  judge("good", queue(63, 128))
  judge("attention", queue(64, 128))
  judge("attention", queue(128, 128))
  row <- judge("bad", queue(c(0, 129), c(128, 128)))
  expect_identical(row$value, "127.0.0.1:8787 129 of 128 (2 listeners, 129 waiting, 0 half-open)")
  row <- judge("bad", queue(3, 2, address = "::1", port = 80))
  expect_match(row$value, "[::1]:80 3 of 2", fixed = TRUE)
  row <- judge("bad", queue(rep(6, 9), rep(5, 9)))
  expect_match(row$value, "and 4 more")
  row <- expect_verdict("listen_queues", "unknown", list(),
    listeners = function() not_known("the kernel doesn't list sockets"))
  expect_identical(row$value, "the kernel doesn't list sockets")
})

test_that("with an interval the deeper of two looks counts", {
  looks <- 0L
  machine <- machine_at(healthy_root(), listeners = function() {
    looks <<- looks + 1L
    made_listeners(c(6, 0)[looks], 5)
  })
  expect_identical(examine(machine, 0.01, "listen_queues")$verdict, "bad")
})

test_that("retransmits are judged by their part, in the interval where there is one", {
  expect_verdict("retransmits", "good", made_counters(RetransSegs = 9999))
  expect_verdict("retransmits", "attention", made_counters(RetransSegs = 10000))
  expect_verdict("retransmits", "attention", made_counters(RetransSegs = 49999))
  row <- expect_verdict("retransmits", "bad", made_counters(RetransSegs = 50000))
  expect_match(row$value, "50,000 in the 10 days since boot (5 % of those sent)", fixed = TRUE)
  expect_verdict("retransmits", "good", made_counters(OutSegs = 999, RetransSegs = 900))
  grown <- function(out, again) {
    before <- c(OutSegs = 1e6, RetransSegs = 100)
    examine(growing_machine(before, before + c(out, again)), 0.01, "retransmits")$verdict
  }
  expect_identical(grown(1000, 9), "good")
  expect_identical(grown(1000, 10), "attention")
  expect_identical(grown(1000, 50), "bad")
  expect_identical(grown(999, 900), "good") # too few to tell
})

test_that("F2: scatter-gather is advised to be off, as the last step, where packets are lost", {
  row <- expect_verdict("card", "good")
  expect_identical(row$item, "card:eth0")
  expect_match(row$value, "scatter-gather on, tso on, gso on, gro not told, 10,000 Mbit/s")
  expect_match(row$why, "last step")
  expect_identical(row$command, "")
  row <- expect_verdict("card", "attention", made_counters(RetransSegs = 10000))
  expect_match(row$command, "^ethtool -K eth0 sg off")
  off <- function(name) made_card(sg = FALSE)
  row <- expect_verdict("card", "attention", made_counters(RetransSegs = 10000), card = off)
  expect_match(row$command, "^ethtool -S eth0")
  errors <- function(n) list("proc/net/dev" = made_cards("eth0", n))
  expect_verdict("card", "good", errors(99))
  expect_verdict("card", "attention", errors(100))
})

test_that("each card has its row, and one without a device none", {
  # One that is in /sys alone is of another namespace.
  files <- changed_files(
    "sys/class/net/ib0/device" = NULL, "sys/class/net/ib7/device" = NULL,
    "proc/net/dev" = made_cards(c("eth0", "ens3", "ib0", "docker0", "wg0"))
  )
  found <- examine(made_machine(files), items = "card")
  expect_setequal(found$item, c("card:ens3", "card:eth0", "card:ib0"))
  row <- expect_verdict("card", "unknown", list("proc/net/dev" = made_cards(character())))
  expect_identical(row$value, "There is no network card.")
  expect_verdict("card", "unknown", card = function(name) not_known("Operation not supported"))
})

test_that("this machine's loopback tells its features, and no other name does", {
  skip_without_feature("socket states")
  features <- .Call(ffi_card, "lo")
  expect_identical(features[["scatter-gather"]], TRUE)
  expect_named(features, names(made_card()))
  for (name in c("no-such-card", "", strrep("x", 300))) {
    expect_type(.Call(ffi_card, name), "character")
  }
})

test_that("a loopback that is down is bad", {
  lo <- function(up) function(name) replace(made_card(), "up", up)
  expect_verdict("loopback", "good", card = lo(TRUE))
  expect_identical(expect_verdict("loopback", "bad", card = lo(FALSE))$command, "ip link set lo up")
  expect_verdict("loopback", "unknown", card = lo(NA))
})

test_that("localhost must be this machine, by the hosts file", {
  hosts <- function(...) list("etc/hosts" = c(...))
  expect_verdict("localhost", "good", hosts("::1\tlocalhost ip6-localhost", "127.0.0.1 localhost"))
  expect_verdict("localhost", "attention", hosts("127.0.0.1 server", "# 127.0.0.1 localhost"))
  other <- hosts("127.0.0.1 localhost", "10.1.2.3 localhost")
  row <- expect_verdict("localhost", "attention", other)
  expect_match(row$value, "10.1.2.3")
  expect_verdict("localhost", "unknown", list("etc/hosts" = NA))
})

# ---- made to happen

# R's own server sockets ask for a backlog of 4096 or more, so this one is filled by
# clients from outside of it, as many as its limit lets in.
test_cluster("F1: a real queue that overflows between two looks is found by `interval`", {
  skip_without_proc()
  skip_if_not(nzchar(Sys.which("python3")), "there is no python3 to make a small backlog")
  folder <- local_folder()
  told <- file.path(folder, "port")
  code <- c(
    "import socket, sys, time",
    "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(2)",
    "open(sys.argv[1] + '.new', 'w').write(str(s.getsockname()[1]))",
    "import os; os.rename(sys.argv[1] + '.new', sys.argv[1])",
    "time.sleep(0.5); c = []",
    "for i in range(8):",
    "    k = socket.socket(); k.setblocking(False)",
    "    k.connect_ex(s.getsockname()); c.append(k)",
    "sys.stdin.read()"
  )
  writeLines(code, file.path(folder, "listener.py"))
  connection <- pipe(paste("exec python3", file.path(folder, "listener.py"), told), "w")
  defer(function() close(connection))
  wait_until(file.exists(told))
  port <- readLines(told, warn = FALSE)
  found <- doctor(1.5, c("listen_overflows", "listen_drops", "listen_queues"))
  skip_if(found$verdict[3L] == "unknown", "the kernel doesn't list sockets")
  expect_identical(found$verdict, c("bad", "bad", "bad"))
  expect_match(found$value[1L], "since boot, [1-9][0-9]* of them in the last [1-9]")
  skip_if(is.na(found$figures[[1L]][["listeners_that_dropped"]]), "Linux before 4.7")
  # Which listener it was, in which program, and that somaxconn is not what limits it.
  who <- paste0("127[.]0[.]0[.]1:", port, " \\(python3[^ ]* [0-9]+\\)")
  expect_match(found$value[1L], paste0(who, " dropped [1-9][0-9]* \\(queue of 2\\)"))
  expect_match(found$command[1L], paste0("sport = :", port, "' # raise the backlog"), fixed = TRUE)
  expect_match(found$value[3L], paste0(who, " 3 of 2"))
})
