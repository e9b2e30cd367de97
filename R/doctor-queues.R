# Listen queues, and what TCP has to send twice.

# What was counted since boot may be long past; what grew while doctor() looked is now.
doctor_overflows <- function(machine) {
  count <- counted(machine, "ListenOverflows")
  verdict <- counted_verdict(count)
  finding(
    counted_text(machine, count), verdict,
    paste0(
      "A client met a full listen queue each time. It tries again after a second, and a ",
      "shuffle of which one connection waits is a shuffle that waits."
    ),
    unless_good(verdict, set_sysctl("net.core.somaxconn", f2_somaxconn))
  )
}

doctor_drops <- function(machine) {
  count <- counted(machine, "ListenDrops")
  verdict <- counted_verdict(count)
  finding(
    counted_text(machine, count), verdict,
    paste0(
      "All connections that a listener dropped: overflows, and those for want of memory ",
      "or of a place among the handshakes."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog))
  )
}

syn_queue_count <- function(look) {
  counter_at(look, "TCPReqQFullDrop") + counter_at(look, "TCPReqQFullDoCookies")
}

doctor_syn_queue <- function(machine) {
  total <- syn_queue_count(machine$now)
  grown <- if (is.null(machine$before)) NA_real_ else total - syn_queue_count(machine$before)
  count <- list(total = total, grown = grown)
  verdict <- counted_verdict(count)
  finding(
    counted_text(machine, count), verdict,
    paste0(
      "So many handshakes met a full queue of half-open connections and were dropped, or ",
      "answered by a cookie: one whose last packet is lost then is never repaired."
    ),
    unless_good(verdict, set_sysctl("net.ipv4.tcp_max_syn_backlog", f2_syn_backlog))
  )
}

counted_verdict <- function(count) {
  if (isTRUE(count$grown > 0)) "bad" else if (count$total > 0) "attention" else "good"
}

# ---- queues of listeners now

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
    listeners_text(all, is_full, is_half), verdict,
    paste0(
      "Connections that wait to be accepted, of those that the listener's backlog allows. A ",
      "program that is too slow to accept them, or that is stopped, makes all others wait."
    ),
    unless_good(verdict, "ss -ltnp # names the programs")
  )
}

listener_table <- function(columns) {
  if (is.character(columns)) {
    not_known(columns)
  }
  as.data.frame(columns)
}

# The deeper of two looks at the same sockets.
deepest <- function(now, before) {
  at <- match(now$inode, before$inode)
  now$depth <- pmax(now$depth, before$depth[at], na.rm = TRUE)
  now$half_open <- pmax(now$half_open, before$half_open[at], na.rm = TRUE)
  now
}

listeners_text <- function(all, is_full, is_half) {
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
  texts <- sprintf("%s %.0f of %.0f", address_text(first$address, first$port), first$depth,
    first$backlog)
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

# ---- what was sent twice

# Few segments say nothing of a rate.
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
  # The interval's rate is what counts, where enough was sent in it.
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
      "0.2 s later or more. Above 1 % look for a bad cable, a full switch or a wrong MTU."
    ),
    unless_good(verdict, "ip -s link # errors and drops; then ss -ti # which connections")
  )
}
