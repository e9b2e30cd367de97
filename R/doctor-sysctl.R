# The kernel's TCP settings. The recommended numbers are from the documentation of MR3, a program
# that runs Hive queries: its page "Fetch delays" chose them against listen queues that overflow in
# a shuffle.

f2_somaxconn <- 16384
f2_syn_backlog <- 65536
f2_fin_timeout <- 30
f2_page <- "For shuffles, the documentation of MR3 (page \"Fetch delays\") advises "

# Linux's default is 4096 since 5.4 and was 128. It is too low if it limits a listener that dropped
# connections; see doctor-queues.R.
doctor_somaxconn <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/core/somaxconn")
  listeners <- tryCatch(listener_table(machine$now$listeners),
    muster_error_unknown = function(e) NULL)
  overflowed <- somaxconn_overflowed(machine, n, listeners)
  verdict <- if (n <= 128) {
    "bad"
  } else if (n < 4096 || (n < f2_somaxconn && overflowed)) {
    "attention"
  } else {
    "good"
  }
  at_limit <- if (is.null(listeners)) NA_real_ else sum(listeners$backlog >= n)
  finding(
    paste0(
      count_text(n),
      if (isTRUE(at_limit > 0)) paste0(", the limit of ", at_limit, " of ", nrow(listeners),
        if (nrow(listeners) == 1L) " listener" else " listeners")
    ),
    verdict,
    paste0(
      "A listener's queue holds what its program asks for (its backlog), but no more than this. ",
      "When it is full, each further connection waits a second or more. Raising it helps ",
      "programs that ask for more, once they are restarted. ", f2_page, "16384."
    ),
    if (n < f2_somaxconn) set_sysctl("net.core.somaxconn", f2_somaxconn) else "",
    c(limit = n, listeners = NROW(listeners), listeners_at_limit = at_limit)
  )
}

# Did a queue overflow that would have been longer without this limit? If the kernel doesn't tell
# which listener dropped connections, many overflows are taken as a yes.
somaxconn_overflowed <- function(machine, n, listeners) {
  if (is.null(listeners) || (nrow(listeners) && all(is.na(listeners$drops)))) {
    total <- or_na(counter_at(machine$now, "ListenOverflows"))
    return(!is.na(total) && often_since_boot(machine, total, tcp_a_day))
  }
  any(listeners$backlog >= n & (!listeners$drops %in% c(0, NA) |
    listeners$depth > listeners$backlog))
}

doctor_syn_backlog <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_max_syn_backlog")
  was_full <- tryCatch(
    counted_verdict(machine, counted_by(machine, syn_queue_count), tcp_a_day) != "good",
    muster_error_unknown = function(e) FALSE
  )
  verdict <- if (n <= 128) {
    "bad"
  } else if (n < 1024 || (n < f2_syn_backlog && was_full)) {
    "attention"
  } else {
    "good"
  }
  finding(
    count_text(n), verdict,
    paste0(
      "This many handshakes may be pending for a listener; further ones are dropped, or ",
      "answered with a cookie. ", f2_page, "65536."
    ),
    if (n < f2_syn_backlog) set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog) else "",
    c(limit = n)
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
    unless_good(verdict, set_sysctl("net.ipv4.tcp_syncookies", 1)),
    c(setting = n)
  )
}

# The default of 60 is good as long as closing connections don't use many ports.
doctor_fin_timeout <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_fin_timeout")
  part <- or_na(ports_in_use(machine) / ports_count(machine))
  crowded <- isTRUE(part >= 0.1)
  verdict <- if (n > 60 || (n > f2_fin_timeout && crowded)) "attention" else "good"
  finding(
    paste(n, "s"), verdict,
    paste0(
      "A connection that was closed here waits this long for the other end to close it too. ",
      "A cluster that often makes new connections fills its ports and memory with them. ",
      f2_page, "30."
    ),
    if (n > f2_fin_timeout) set_sysctl("net.ipv4.tcp_fin_timeout", f2_fin_timeout) else "",
    c(seconds = n)
  )
}

doctor_abort_on_overflow <- function(machine) {
  n <- doctor_number(machine, "proc", "sys/net/ipv4/tcp_abort_on_overflow")
  verdict <- if (n == 0) "good" else "attention"
  finding(
    paste(n, if (n == 0) "(clients try again)" else "(clients are reset)"), verdict,
    paste0(
      "If it is on, a burst of connections that fills a listen queue makes workers fail, ",
      "where otherwise it only delays them."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_abort_on_overflow", 0)),
    c(setting = n)
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

# Connections that occupy a port, for all peers together: an upper bound.
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
      if (is.na(used)) "use unknown" else paste("at most", percent_text(min(part, 1)), "in use")
    ),
    verdict,
    paste0(
      "Each connection to one address and port takes one of these, and keeps it for a ",
      "minute after its end; when they are used up, connecting fails (EADDRNOTAVAIL)."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.ip_local_port_range", "\"10240 65535\"")),
    c(first = range[1L], last = range[2L], in_use_most = used)
  )
}

# ---- tables

# Neighbours on the link, for IPv4 and IPv6; the fuller table counts. Their limits are visible only
# in the machine's first network namespace, not in a container's.
doctor_neighbours <- function(machine) {
  limit4 <- doctor_number(machine, "proc", "sys/net/ipv4/neigh/default/gc_thresh3")
  limit6 <- or_na(doctor_number(machine, "proc", "sys/net/ipv6/neigh/default/gc_thresh3"))
  table4 <- neighbour_table(machine, "arp_cache")
  table6 <- neighbour_table(machine, "ndisc_cache")
  parts <- c(table4[["entries"]] / limit4, table6[["entries"]] / limit6)
  part <- max(c(0, parts), na.rm = TRUE)
  fulls <- sum(table4[["fulls"]], table6[["fulls"]], na.rm = TRUE)
  often <- often_since_boot(machine, fulls, tcp_a_day)
  verdict <- worst(
    verdict_high(part, 0.5, 0.9), if (often || limit4 < 512) "attention" else "good"
  )
  finding(
    paste0(
      percent_text(min(part, 1)), " of ", count_text(limit4), " entries",
      if (fulls > 0) paste0(", ", count_text(fulls), " times full ", since_boot(machine))
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
    )),
    c(
      entries_ipv4 = table4[["entries"]], limit_ipv4 = limit4,
      entries_ipv6 = table6[["entries"]], limit_ipv6 = limit6, times_full = fulls
    )
  )
}

# Lines of hexadecimal columns, one per CPU; entries are the same in each.
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
