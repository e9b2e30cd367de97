# Network cards: their offloads and errors; the loopback interface.

# Names, packets and errors from /proc/net/dev. /sys may be mounted from another network namespace,
# and then isn't ours.
card_table <- function(machine) {
  lines <- doctor_lines(machine, "proc", "net/dev")
  lines <- grep("^ *[^ :|]+: *[0-9]", lines, value = TRUE)
  words <- strsplit(trimws(sub("^[^:]*:", "", lines)), " +")
  figure <- function(at) suppressWarnings(as.numeric(vapply(words, `[`, "", at)))
  data.frame(
    name = trimws(sub(":.*$", "", lines)),
    packets = figure(2L) + figure(10L), errors = figure(3L) + figure(11L)
  )
}

# One finding for each hardware card.
doctor_cards <- function(machine) {
  table <- card_table(machine)
  base <- file.path(machine$sys, "class", "net")
  # Bridges, tunnels and the ends of containers' links have no device; a container has nothing else,
  # so its eth0 counts.
  real <- file.exists(file.path(base, table$name, "device")) | grepl("^(eth|en)", table$name)
  if (!any(real)) {
    not_known("There is no network card.")
  }
  table <- table[real, , drop = FALSE]
  found <- lapply(seq_len(nrow(table)), function(i) doctor_card(machine, table[i, ]))
  stats::setNames(found, table$name)
}

doctor_card <- function(machine, card) {
  name <- card$name
  features <- machine$card(name)
  on <- function(feature) features[[feature]] %in% TRUE
  errors <- if (card$packets < segments_min) 0 else card$errors / card$packets
  lossy <- card_retransmits(machine)
  suspect <- isTRUE(errors >= 1e-4) || lossy
  sg <- on("scatter-gather")
  shown <- features[c(
    "scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload",
    "generic-receive-offload"
  )]
  names(shown) <- c("scatter-gather", "tso", "gso", "gro")
  finding(
    paste0(
      paste(names(shown), ifelse(is.na(shown), "not told", ifelse(shown, "on", "off")),
        collapse = ", "),
      card_speed(machine, name),
      if (isTRUE(errors > 0)) paste0(", ", percent_text(errors), " of packets with errors"),
      if (identical(features[["link"]], FALSE)) ", no link"
    ),
    if (suspect) "attention" else "good",
    paste0(
      "Some drivers corrupt or delay packets that they gather from pieces. ", f2_page,
      "to turn scatter-gather off, as the last step when fetches still stall after all ",
      "others. It costs throughput."
    ),
    if (!suspect) {
      ""
    } else if (sg) {
      paste("ethtool -K", name, "sg off # the last step")
    } else {
      paste("ethtool -S", name, "# what kind of errors")
    },
    c(shown + 0, mbit_s = card_mbit(machine, name), packets = card$packets, errors = card$errors)
  )
}

card_retransmits <- function(machine) {
  part <- tryCatch(retransmit_parts(machine), muster_error_unknown = function(e) NA_real_)
  isTRUE(max(c(0, part), na.rm = TRUE) >= 0.01)
}

# Cards without a cable, and virtual ones, report -1 or nothing.
card_mbit <- function(machine, name) {
  mbit <- or_na(doctor_number(machine, "sys", file.path("class/net", name, "speed")))
  if (isTRUE(mbit > 0)) mbit else NA_real_
}

card_speed <- function(machine, name) {
  mbit <- card_mbit(machine, name)
  if (is.na(mbit)) "" else paste0(", ", count_text(mbit), " Mbit/s")
}

doctor_loopback <- function(machine) {
  is_up <- machine$card("lo")[["up"]]
  if (is.na(is_up)) {
    not_known("It is unknown whether interface lo is up.")
  }
  finding(
    if (is_up) "up" else "down", if (is_up) "good" else "bad",
    "Clusters over sockets (makeCluster()) reach their workers on this machine through it.",
    if (is_up) "" else "ip link set lo up",
    c(up = is_up + 0)
  )
}

# parallel tells its workers to connect to "localhost". If the hosts file lacks it, the answer comes
# from a name server, which may be slow, unreachable, or wrong.
doctor_localhost <- function(machine) {
  lines <- sub("#.*$", "", doctor_lines(machine, "etc", "hosts"))
  words <- strsplit(trimws(lines), "[ \t]+")
  has <- vapply(words, function(x) "localhost" %in% x[-1L], NA)
  addresses <- unique(vapply(words[has], `[`, "", 1L))
  verdict <- if (length(addresses) && all(grepl("^(127[.]|::1$)", addresses))) {
    "good"
  } else {
    "attention"
  }
  finding(
    if (length(addresses)) paste(addresses, collapse = ", ") else "not in the hosts file",
    verdict,
    paste0(
      "Workers of makeCluster() connect to it. If it isn't an address of this machine, they ",
      "hang until their timeout."
    ),
    unless_good(verdict, "echo '127.0.0.1 localhost' >> /etc/hosts # and remove other entries")
  )
}
