# Listen queues, and TCP retransmissions.
#
# A listener's queue holds min(backlog, somaxconn) connections: the program's number, cut by the
# kernel when it begins to listen. So raising somaxconn only helps if the two are equal. The kernel
# counts the packets that each listener has dropped since it began to listen, nearly all because of
# a full queue: this shows which one overflowed.

doctor_overflows <- function(machine) {
  count <- counted(machine, "ListenOverflows")
  blamed <- if (count$total > 0) dropping(machine)
  verdict <- worst(
    counted_verdict(machine, count, tcp_a_day), if (NROW(blamed)) "attention" else "good"
  )
  finding(
    paste0(counted_text(machine, count), dropped_text(machine, blamed, count$total)), verdict,
    paste0(
      "Each time, a client met a full listen queue. It tries again after a second or more, and ",
      "a shuffle waits for its slowest connection."
    ),
    unless_good(verdict, overflow_command(machine, blamed)),
    c(counted_figures(machine, count), listeners_that_dropped = dropped_count(blamed))
  )
}

doctor_drops <- function(machine) {
  count <- counted(machine, "ListenDrops")
  blamed <- if (count$total > 0) dropping(machine)
  verdict <- worst(
    counted_verdict(machine, count, tcp_a_day), if (NROW(blamed)) "attention" else "good"
  )
  overflows <- or_na(counter_at(machine$now, "ListenOverflows"))
  finding(
    paste0(counted_text(machine, count), dropped_text(machine, blamed, count$total)), verdict,
    paste0(
      "All connections that listeners dropped: because of a full queue, or because there was ",
      "no memory or no place among the handshakes."
    ),
    unless_good(verdict, if (isTRUE(overflows >= count$total / 2)) {
      overflow_command(machine, blamed)
    } else {
      set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog)
    }),
    c(counted_figures(machine, count), listeners_that_dropped = dropped_count(blamed))
  )
}

syn_queue_count <- function(look) {
  counter_at(look, "TCPReqQFullDrop") + counter_at(look, "TCPReqQFullDoCookies")
}

doctor_syn_queue <- function(machine) {
  count <- counted_by(machine, syn_queue_count)
  verdict <- counted_verdict(machine, count, tcp_a_day)
  finding(
    counted_text(machine, count), verdict,
    paste0(
      "These handshakes met a full queue of half-open connections and were dropped or ",
      "answered by a cookie. If the last packet of one with a cookie is lost, nothing repairs it."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog)),
    counted_figures(machine, count)
  )
}

# ---- the queues that overflowed

# The listeners that dropped packets: in the interval if some did, else since they began to listen.
# NULL if unknown.
dropping <- function(machine) {
  now <- tryCatch(listener_table(machine$now$listeners), muster_error_unknown = function(e) NULL)
  if (is.null(now) || (nrow(now) && all(is.na(now$drops)))) {
    return(NULL)
  }
  blamed <- now[which(now$drops > 0), , drop = FALSE]
  if (is.list(machine$before$listeners)) {
    before <- listener_table(machine$before$listeners)
    known <- before$drops[match(now$inode, before$inode)]
    grown <- now$drops - ifelse(is.na(known), 0, known)
    if (any(grown > 0, na.rm = TRUE)) {
      now$drops <- grown
      blamed <- now[which(grown > 0), , drop = FALSE]
    }
  }
  blamed[order(-blamed$drops), , drop = FALSE]
}

dropped_count <- function(blamed) if (is.null(blamed)) NA_real_ else nrow(blamed)

# "; 0.0.0.0:8787 (R 4711) dropped 12 (queue of 128)". Finding the names needs the descriptors of
# all processes, so it is done only here.
dropped_text <- function(machine, blamed, total) {
  if (is.null(blamed) || total == 0) {
    return("")
  }
  if (!nrow(blamed)) {
    return("; no current listener dropped any")
  }
  first <- utils::head(blamed, 3L)
  texts <- paste0(
    address_text(first$address, first$port), owner_text(machine, first$inode), " dropped ",
    count_text(first$drops), " (queue of ", count_text(first$backlog), ")"
  )
  more <- nrow(blamed) - nrow(first)
  paste0("; ", paste(texts, collapse = ", "), if (more > 0) paste(" and", more, "more"))
}

# A fix for these listeners: a higher somaxconn if that is their limit, else the program's backlog.
overflow_command <- function(machine, blamed) {
  most <- or_na(doctor_number(machine, "proc", "sys/net/core/somaxconn"))
  raise <- set_sysctl("net.core.somaxconn", f2_somaxconn)
  if (is.null(blamed)) {
    return(paste(raise, "# helps programs that ask for a longer queue"))
  }
  if (!nrow(blamed)) {
    return("muster doctor --interval 60 # while the cluster works: names the listener")
  }
  if (isTRUE(most < f2_somaxconn) && any(blamed$backlog >= most)) {
    return(paste(raise, "# then restart the program that listens"))
  }
  port <- format(blamed$port[1L], scientific = FALSE)
  paste0("ss -ltnp 'sport = :", port, "' # raise the backlog in this program's own settings")
}

# " (R 4711)" for each socket: the program that has it open, "" if unknown.
owner_text <- function(machine, inodes) {
  texts <- rep("", length(inodes))
  for (pid in list.files(machine$proc, "^[0-9]+$")) {
    links <- Sys.readlink(list.files(file.path(machine$proc, pid, "fd"), full.names = TRUE))
    at <- which(texts == "" & sprintf("socket:[%.0f]", inodes) %in% links)
    name <- read_kernel_file(file.path(machine$proc, pid, "comm"))
    texts[at] <- paste0(" (", paste(c(name[seq_along(name) == 1L], pid), collapse = " "), ")")
    if (all(nzchar(texts))) break
  }
  texts
}

# ---- present queues of listeners

doctor_listen_queues <- function(machine) {
  all <- listener_table(machine$now$listeners)
  if (is.list(machine$before$listeners)) {
    all <- deepest(all, listener_table(machine$before$listeners))
  }
  # The kernel holds one more than the backlog.
  is_full <- all$depth > all$backlog
  is_half <- !is_full & all$depth > 1 & all$depth >= all$backlog / 2
  verdict <- if (any(is_full)) "bad" else if (any(is_half)) "attention" else "good"
  finding(
    listeners_text(machine, all, is_full, is_half), verdict,
    paste0(
      "Connections that wait to be accepted, of those that the listener's queue can hold. A ",
      "program that is stopped or too slow to accept them makes all others wait."
    ),
    unless_good(verdict, "ss -ltnp # names the programs"),
    c(
      listeners = nrow(all), waiting = sum(all$depth), half_open = sum(all$half_open),
      full = sum(is_full), half_full = sum(is_half)
    )
  )
}

listener_table <- function(columns) {
  if (is.character(columns)) {
    not_known(columns)
  }
  as.data.frame(columns)
}

# The larger depth of two readings of the same sockets.
deepest <- function(now, before) {
  at <- match(now$inode, before$inode)
  now$depth <- pmax(now$depth, before$depth[at], na.rm = TRUE)
  now$half_open <- pmax(now$half_open, before$half_open[at], na.rm = TRUE)
  now
}

listeners_text <- function(machine, all, is_full, is_half) {
  if (!nrow(all)) {
    return("nothing listens")
  }
  shown <- all[is_full | is_half, , drop = FALSE]
  shown <- shown[order(shown$backlog - shown$depth), , drop = FALSE]
  total <- paste0(
    count_text(nrow(all)), if (nrow(all) == 1L) " listener, " else " listeners, ",
    count_text(sum(all$depth)), " waiting, ", count_text(sum(all$half_open)), " half-open"
  )
  if (!nrow(shown)) {
    return(total)
  }
  first <- utils::head(shown, 5L)
  texts <- sprintf("%s%s %.0f of %.0f", address_text(first$address, first$port),
    owner_text(machine, first$inode), first$depth, first$backlog)
  more <- nrow(shown) - nrow(first)
  paste0(
    paste(texts, collapse = ", "), if (more > 0) paste(" and", more, "more"), " (", total, ")"
  )
}

address_text <- function(address, port) {
  ifelse(grepl(":", address, fixed = TRUE),
    sprintf("[%s]:%.0f", address, port), sprintf("%s:%.0f", address, port)
  )
}

# ---- retransmissions

# A rate needs at least this many segments.
segments_min <- 1000

retransmit_parts <- function(machine) {
  sent <- counted(machine, "OutSegs")
  again <- counted(machine, "RetransSegs")
  part <- function(again, sent) {
    if (!is.na(sent) && sent >= segments_min) again / sent else NA_real_
  }
  c(total = part(again$total, sent$total), grown = part(again$grown, sent$grown))
}

doctor_retransmits <- function(machine) {
  again <- counted(machine, "RetransSegs")
  parts <- retransmit_parts(machine)
  # The interval's rate counts if enough was sent in it.
  part <- if (is.na(parts[["grown"]])) parts[["total"]] else parts[["grown"]]
  verdict <- if (is.na(part)) "good" else verdict_high(part, 0.01, 0.05)
  shown <- vapply(parts[!is.na(parts)], percent_text, "")
  finding(
    paste0(
      counted_text(machine, again),
      if (length(shown)) paste0(" (", paste(shown, collapse = ", then "), " of those sent)")
    ),
    verdict,
    paste0(
      "Segments that were lost on the way or not answered in time, and were sent again ",
      "after 0.2 s or more. Above 1 %, look for a bad cable, a full switch or a wrong MTU."
    ),
    unless_good(verdict, "ip -s link # errors and drops; then ss -ti # which connections"),
    c(counted_figures(machine, again), part_total = parts[["total"]],
      part_interval = parts[["grown"]])
  )
}
