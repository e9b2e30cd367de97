# Helpers for test-doctor-*.R: made-up machines.

# A machine whose trees hold `files` (lines by path, such as "proc/loadavg"; NULL makes a
# directory) and go when the block ends. ...: readers in place of these.
made_machine <- function(files, ..., frame = parent.frame()) {
  root <- tempfile("machine-")
  defer(function() unlink(root, recursive = TRUE), frame)
  write_tree(root, files)
  machine_at(root, ...)
}

write_tree <- function(root, files) {
  for (tree in c("proc", "sys")) {
    dir.create(file.path(root, tree), recursive = TRUE, showWarnings = FALSE)
  }
  for (name in names(files)) {
    path <- file.path(root, name)
    is_folder <- is.null(files[[name]])
    dir.create(if (is_folder) path else dirname(path), recursive = TRUE, showWarnings = FALSE)
    if (is.numeric(files[[name]])) files[[name]] <- sprintf("%.0f", files[[name]])
    if (!is_folder) writeLines(files[[name]], path)
  }
}

machine_at <- function(root, ...) {
  readers <- list(
    listeners = function() made_listeners(), card = function(name) made_card(),
    disk = function(path) c(1e11, 5e10, 1e6, 9e5),
    features = function() c(pidfd = TRUE, memfd = TRUE),
    built_with = function() c(pidfd = TRUE, memfd = TRUE), threads = function() c(1L, 1L),
    cores = function() 4L, programs = function(names) {
      stats::setNames(ifelse(names == "ssh", "/usr/bin/ssh", ""), names)
    },
    variables = function() character(), loaded = function() c("base", "muster"),
    blas = function() "libblas.so", tmpdir = "/tmp", host = "server"
  )
  given <- list(...)
  readers[names(given)] <- given
  readers$etc <- file.path(root, "etc")
  do.call(doctor_machine, c(list(file.path(root, "proc"), file.path(root, "sys")), readers))
}

made_listeners <- function(depth = numeric(), backlog = numeric(), address = "127.0.0.1",
                           port = 8787, drops = 0) {
  n <- length(depth)
  list(
    address = rep_len(address, n), port = rep_len(port, n), depth = depth, backlog = backlog,
    half_open = rep_len(0, n), inode = as.numeric(seq_len(n)), uid = rep_len(0, n),
    drops = rep_len(drops, n)
  )
}

made_card <- function(sg = TRUE) {
  c(
    "scatter-gather" = sg, "tcp-segmentation-offload" = TRUE,
    "generic-segmentation-offload" = TRUE, "generic-receive-offload" = NA,
    "rx-checksumming" = TRUE, "tx-checksumming" = TRUE, link = TRUE, up = TRUE
  )
}

# The text of /proc/net/dev with a million packets for each card.
made_cards <- function(names, errors = 1) {
  c(
    "Inter-|   Receive                     |  Transmit",
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs",
    "    lo:  100  500000 0 0 0 0 0 0  100  500000 0 0 0 0 0 0",
    sprintf("%6s: 100  500000 %d 0 0 0 0 0  100  500000 0 0 0 0 0 0", names, errors)
  )
}

# The texts of /proc/net/netstat and snmp; counters by name.
made_counters <- function(...) {
  values <- c(
    ListenOverflows = 0, ListenDrops = 0, TCPReqQFullDrop = 0, TCPReqQFullDoCookies = 0,
    OutSegs = 1e6, RetransSegs = 100
  )
  given <- c(...)
  values[names(given)] <- given
  pair <- function(group, names) {
    c(
      paste0(group, ": ", paste(names, collapse = " ")),
      paste0(group, ": ", paste(format(values[names], scientific = FALSE, trim = TRUE),
        collapse = " "))
    )
  }
  of_tcp <- c("OutSegs", "RetransSegs")
  list(
    "proc/net/netstat" = pair("TcpExt", setdiff(names(values), of_tcp)),
    "proc/net/snmp" = pair("Tcp", of_tcp)
  )
}

limits_lines <- function(...) {
  values <- c(
    "Max processes" = "100000", "Max open files" = "65536", "Max address space" = "unlimited"
  )
  given <- c(...)
  values[names(given)] <- given
  c(
    "Limit                     Soft Limit           Hard Limit           Units     ",
    sprintf("%-25s %-20s %-20s units     ", names(values), values, values)
  )
}

# A server on which nothing is amiss.
healthy_files <- function() {
  sysctl <- c(
    "net/core/somaxconn" = "16384", "net/ipv4/tcp_max_syn_backlog" = "65536",
    "net/ipv4/tcp_syncookies" = "1", "net/ipv4/tcp_fin_timeout" = "30",
    "net/ipv4/tcp_abort_on_overflow" = "0",
    "net/ipv4/ip_local_port_range" = "32768\t60999",
    "net/ipv4/neigh/default/gc_thresh3" = "1024",
    "net/ipv6/neigh/default/gc_thresh3" = "1024",
    "kernel/threads-max" = "200000", "kernel/pid_max" = "4194304",
    "kernel/osrelease" = "6.1.0-18-amd64", "vm/max_map_count" = "65530"
  )
  names(sysctl) <- paste0("proc/sys/", names(sysctl))
  c(as.list(sysctl), made_counters(), list(
    "proc/net/sockstat" = c(
      "sockets: used 300", "TCP: inuse 20 orphan 0 tw 30 alloc 40 mem 50", "UDP: inuse 2 mem 1"
    ),
    "proc/net/stat/arp_cache" = c(
      "entries  allocs   table_fulls ", "00000010  00000099  00000000 ",
      "00000010  00000001  00000000 "
    ),
    "proc/self/limits" = limits_lines(), "proc/self/fd" = NULL,
    "proc/self/cgroup" = "0::/user/job",
    "proc/self/mountinfo" = c(
      "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw",
      "25 22 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw",
      "26 22 8:2 / /tmp rw,nosuid shared:3 - ext4 /dev/sda2 rw"
    ),
    "proc/loadavg" = "0.50 0.40 0.30 2/400 12345",
    "proc/meminfo" = c(
      "MemTotal:       16000000 kB", "MemAvailable:   12000000 kB",
      "SwapTotal:       8000000 kB", "SwapFree:        7900000 kB"
    ),
    "proc/vmstat" = c("nr_free_pages 5", "oom_kill 0"),
    "proc/1/cmdline" = "init", "proc/uptime" = "864000.50 1000.00", # ten days
    "proc/self/maps" = rep_len("a mapping", 100),
    "sys/fs/cgroup/cgroup.controllers" = "cpu memory pids",
    "sys/fs/cgroup/user/memory.max" = "max",
    "sys/fs/cgroup/user/memory.events" = c("low 0", "oom 0", "oom_kill 0"),
    "sys/fs/cgroup/user/job/memory.max" = "8589934592",
    "sys/fs/cgroup/user/job/memory.current" = "2147483648",
    "sys/fs/cgroup/user/job/memory.stat" = c("active_file 0", "inactive_file 1073741824"),
    "sys/fs/cgroup/user/job/memory.events" = c("low 0", "oom 0", "oom_kill 0"),
    "sys/fs/cgroup/user/job/pids.max" = "4096", "sys/fs/cgroup/user/job/pids.current" = "20",
    "sys/fs/cgroup/user/job/cpu.max" = "400000 100000",
    "sys/fs/cgroup/user/job/cpu.stat" = c("nr_periods 1000", "nr_throttled 3"),
    "sys/class/net/eth0/device" = NULL, "sys/class/net/eth0/speed" = "10000",
    "proc/net/dev" = made_cards("eth0"), "proc/sys/fs/file-nr" = "1000\t0\t200000",
    "etc/hosts" = c("127.0.0.1 localhost", "127.0.1.1 server.example server"),
    "sys/devices/system/cpu/online" = "0-3"
  ))
}

# A healthy server with some files changed; a name whose value is NA goes away.
changed_files <- function(...) {
  files <- healthy_files()
  changes <- list(...)
  for (name in names(changes)) {
    gone <- identical(changes[[name]], NA)
    if (gone) files[[name]] <- NULL else files[name] <- list(changes[[name]])
  }
  files
}

# The one row of an item on such a machine. Its tree is written once and changed for
# each row, since there are hundreds.
row_of <- function(item, changes = list(), ...) {
  healthy <- healthy_files()
  root <- healthy_root()
  changes <- as.list(changes)
  paths <- file.path(root, names(changes))
  on.exit({
    unlink(paths, recursive = TRUE)
    lost <- vapply(names(healthy), function(name) {
      any(name == names(changes) | startsWith(name, paste0(names(changes), "/")))
    }, NA)
    write_tree(root, healthy[lost])
  })
  if (length(changes)) unlink(paths, recursive = TRUE)
  write_tree(root, changes[!vapply(changes, identical, NA, NA)])
  found <- examine(machine_at(root, ...), items = item)
  testthat::expect_identical(nrow(found), 1L)
  found
}

healthy_tree <- new.env()
healthy_root <- function() {
  if (is.null(healthy_tree$root)) {
    healthy_tree$root <- tempfile("healthy-")
    write_tree(healthy_tree$root, healthy_files())
  }
  healthy_tree$root
}

expect_verdict <- function(item, verdict, changes = list(), ...) {
  row <- row_of(item, changes, ...)
  testthat::expect_identical(row$verdict, verdict, info = paste(item, row$value))
  invisible(row)
}
