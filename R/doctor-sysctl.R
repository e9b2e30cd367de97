# The kernel's settings for TCP. Figures of the advice: MR3's page "Fetch delays", which
# found them against listen queues that overflow in a shuffle.

f2_somaxconn <- 16384
f2_syn_backlog <- 65536
f2_fin_timeout <- 30
f2_page <- "MR3's page \"Fetch delays\" advises "

# Linux's default is 4096 since 5.4 and was 128. That it is too low for this machine shows
# in the counter of overflows.
doctor_somaxconn <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/core/somaxconn")
  overflowed <- isTRUE(or_na(counter_at(machine$now, "ListenOverflows")) > 0)
  verdict <- if (n <= 128) {
    "bad"
  } else if (n < 4096 || (n < f2_somaxconn && overflowed)) {
    "attention"
  } else {
    "good"
  }
  finding(
    count_text(n), verdict,
    paste0(
      "No listener's queue is longer than this, whatever it asks for. When many workers ",
      "connect at once and it is full, each waits a second or more. ", f2_page, "16384."
    ),
    if (n < f2_somaxconn) set_sysctl("net.core.somaxconn", f2_somaxconn) else ""
  )
}

doctor_syn_backlog <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_max_syn_backlog")
  full <- isTRUE(or_na(syn_queue_count(machine$now)) > 0)
  verdict <- if (n <= 128) {
    "bad"
  } else if (n < 1024 || (n < f2_syn_backlog && full)) {
    "attention"
  } else {
    "good"
  }
  finding(
    count_text(n), verdict,
    paste0(
      "So many handshakes may be under way for a listener; more of them are dropped, or ",
      "answered by a cookie. ", f2_page, "65536."
    ),
    if (n < f2_syn_backlog) set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog) else ""
  )
}

doctor_syncookies <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_syncookies")
  verdict <- if (n == 1) "good" else "attention"
  finding(
    paste(n, c("(never)", "(when the queue is full)", "(always)")[match(n, 0:2, 2L)]), verdict,
    paste0(
      "Without cookies a full queue of handshakes drops connections; with cookies always, ",
      "connections lose options that make them quick."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_syncookies", 1))
  )
}

# The default of 60 is good as long as connections that are closing don't take many ports.
doctor_fin_timeout <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_fin_timeout")
  part <- or_na(ports_in_use(machine) / ports_count(machine))
  crowded <- isTRUE(part >= 0.1)
  verdict <- if (n > 60 || (n > f2_fin_timeout && crowded)) "attention" else "good"
  finding(
    paste(n, "s"), verdict,
    paste0(
      "So long does a connection that was closed here wait for the other end to close it ",
      "too. A cluster that often connects anew fills its ports and memory with them. ",
      f2_page, "30."
    ),
    if (n > f2_fin_timeout) set_sysctl("net.ipv4.tcp_fin_timeout", f2_fin_timeout) else ""
  )
}

doctor_abort_on_overflow <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_abort_on_overflow")
  verdict <- if (n == 0) "good" else "attention"
  finding(
    paste(n, if (n == 0) "(clients try again)" else "(clients are reset)"), verdict,
    paste0(
      "If it is on, a burst of connections that fills a listen queue fails workers, ",
      "where otherwise it only delays them."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_abort_on_overflow", 0))
  )
}

# ---- ports

ports_range <- function(machine) {
  range <- doctor_numbers(machine, "proc", "sys/net/ipv4/ip_local_port_range")
  if (length(range) != 2L || range[2L] < range[1L]) {
    not_known("sys/net/ipv4/ip_local_port_range holds no range.")
  }
  range
}

ports_count <- function(machine) diff(ports_range(machine)) + 1

# Connections that have or keep a port, of all peers together: an upper bound.
ports_in_use <- function(machine) {
  line <- grep("^TCP:", doctor_lines(machine, "proc", "net/sockstat"), value = TRUE)
  sum(vapply(c("inuse", "tw"), function(name) socket_figure(line, name), 0))
}

socket_figure <- function(line, name) {
  pattern <- paste0("^.* ", name, " ([0-9]+).*$")
  if (length(line) != 1L || !grepl(pattern, line)) {
    not_known(paste0("net/sockstat has no figure \"", name, "\"."))
  }
  as.numeric(sub(pattern, "\\1", line))
}

doctor_ports <- function(machine) {
  range <- ports_range(machine)
  count <- ports_count(machine)
  used <- or_na(ports_in_use(machine))
  part <- if (is.na(used)) 0 else used / count
  verdict <- worst(verdict_low(count, 10000, 1000), verdict_high(part, 0.5, 0.9))
  finding(
    paste0(
      range[1L], " to ", range[2L], ", ",
      if (is.na(used)) "use not known" else paste("at most", percent_text(min(part, 1)), "in use")
    ),
    verdict,
    paste0(
      "Each connection to one address and port takes one of these, and keeps it for a ",
      "minute after its end; when they are used up, connecting fails (EADDRNOTAVAIL)."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.ip_local_port_range", "\"10240 65535\""))
  )
}

# ---- tables

# Neighbours on the link, IPv4 and IPv6; the fuller of the two counts. Their limits are
# told only in the machine's first network namespace, not in a container's.
doctor_neighbours <- function(machine) {
  limit4 <- doctor_number(machine, "proc", "sys/net/ipv4/neigh/default/gc_thresh3")
  limit6 <- or_na(doctor_number(machine, "proc", "sys/net/ipv6/neigh/default/gc_thresh3"))
  table4 <- neighbour_table(machine, "arp_cache")
  table6 <- neighbour_table(machine, "ndisc_cache")
  parts <- c(table4[["entries"]] / limit4, table6[["entries"]] / limit6)
  part <- max(c(0, parts), na.rm = TRUE)
  fulls <- sum(table4[["fulls"]], table6[["fulls"]], na.rm = TRUE)
  verdict <- worst(
    verdict_high(part, 0.5, 0.9), if (fulls > 0 || limit4 < 512) "attention" else "good"
  )
  finding(
    paste0(
      percent_text(min(part, 1)), " of ", count_text(limit4), " entries",
      if (fulls > 0) paste0(", ", count_text(fulls), " times full")
    ),
    verdict,
    paste0(
      "Each host on the link takes an entry, one that doesn't answer for three seconds. When ",
      "the table is full, packets of the whole machine are dropped: a scan of a large ",
      "network fills it."
    ),
    unless_good(verdict, paste0(
      set_sysctl("net.ipv4.neigh.default.gc_thresh3", max(4096, 4 * limit4)), " ",
      "net.ipv4.neigh.default.gc_thresh2=", max(2048, 2 * limit4)
    ))
  )
}

# Lines of hexadecimal columns, one for each CPU; entries are the same in all of them.
neighbour_table <- function(machine, name) {
  none <- c(entries = NA_real_, fulls = NA_real_)
  lines <- read_kernel_file(file.path(machine$proc, "net", "stat", name))
  words <- strsplit(trimws(lines), "[ \t]+")
  if (length(words) < 2L || !"entries" %in% words[[1L]]) {
    return(none)
  }
  column <- function(name) {
    at <- match(name, words[[1L]])
    as.numeric(strtoi(vapply(words[-1L], `[`, "", at), 16L))
  }
  fulls <- if ("table_fulls" %in% words[[1L]]) sum(column("table_fulls")) else NA_real_
  c(entries = column("entries")[1L], fulls = fulls)
}

doctor_conntrack <- function(machine) {
  path <- "sys/net/netfilter/nf_conntrack_max"
  why <- paste0(
    "The firewall keeps an entry for each connection, and for a SYN without answer two ",
    "minutes; when the table is full, new connections are dropped."
  )
  if (!dir.exists(file.path(machine$proc, "sys", "net"))) {
    not_known(paste0(file.path(machine$proc, "sys", "net"), " isn't there."))
  }
  if (!file.exists(file.path(machine$proc, path))) {
    return(finding("connections aren't tracked", "good", why))
  }
  most <- doctor_number(machine, "proc", path)
  used <- doctor_number(machine, "proc", "sys/net/netfilter/nf_conntrack_count")
  part <- if (most > 0) used / most else 0 # 0 is no limit
  verdict <- verdict_high(part, 0.7, 0.95)
  finding(
    paste(percent_text(part), "of", count_text(most), "entries"), verdict, why,
    unless_good(verdict, set_sysctl("net.netfilter.nf_conntrack_max", 4 * most))
  )
}

doctor_socket_memory <- function(machine) {
  most <- doctor_numbers(machine, "proc", "sys/net/ipv4/tcp_mem")[3L]
  line <- grep("^TCP:", doctor_lines(machine, "proc", "net/sockstat"), value = TRUE)
  used <- socket_figure(line, "mem")
  aborts <- or_na(counter_at(machine$now, "TCPAbortOnMemory"))
  part <- used / most
  verdict <- worst(
    verdict_high(part, 0.5, 0.9), if (isTRUE(aborts > 0)) "attention" else "good"
  )
  finding(
    paste0(
      percent_text(part), " of ", count_text(most), " pages",
      if (isTRUE(aborts > 0)) paste0(", ", count_text(aborts), " connections were ended for it")
    ),
    verdict,
    "When TCP has used up its memory, it slows all connections down and ends some.",
    unless_good(verdict, set_sysctl("net.ipv4.tcp_mem", paste0(
      "\"", paste(format(2 * most * c(0.5, 0.75, 1), scientific = FALSE, trim = TRUE),
        collapse = " "), "\""
    )))
  )
}
