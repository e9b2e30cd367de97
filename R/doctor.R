#' Look a machine over that is to run clusters
#'
#' @description
#' Reports settings, limits and counters of this machine that decide whether a cluster on it
#' starts, keeps its workers and isn't delayed: each with a verdict, why it matters, and
#' the command that mends it. It changes nothing, needs no privilege, sends nothing to the
#' network and starts no process.
#'
#' @param interval Number of seconds from 0 up, by default 0: with more than 0 it looks twice,
#'   so far apart, and tells what counters grew by in between. Listen queues are as deep as the
#'   deeper of the two looks.
#' @param items `NULL` (default) for all items, or a character vector of the names in the table
#'   below. `"card"` stands for all network cards.
#'
#' @returns A data frame of class `"muster_doctor"` with one row for each item and columns of
#'   type character:
#'   - `item`: its name; network cards are `"card:eth0"` and so on;
#'   - `value`: what was found; the reason where nothing was;
#'   - `verdict`: `"good"`, `"attention"`, `"bad"` or `"unknown"`;
#'   - `why`: what it matters to a cluster;
#'   - `command`: what mends it, `""` if there is nothing to do. Some good settings have one
#'     too: what the source below advises against bursts of connections. Commands of the
#'     system (`sysctl -w`, `echo`, `mount`) want root and last until the next boot; in a
#'     container they belong on its host. None is ever run;
#'   - `group`: the heading that it is printed under.
#'
#' @section Verdicts:
#' An item is good where none of its other verdicts holds, and unknown where the system
#' doesn't tell: in a container much of `/proc/sys/net` isn't there, on macOS all that is
#' read from `/proc`. "Grew" means in `interval`.
#'
#' `r doctor_rules_table()`
#'
#' @section Source:
#' MR3's documentation, page "Fetch delays", for `net.core.somaxconn` (from 128 to 16384),
#' `net.ipv4.tcp_max_syn_backlog` (to 65536), `net.ipv4.tcp_fin_timeout` (to 30), and turning
#' a card's scatter-gather off as the last step. Linux's defaults of today (4096, by memory,
#' 60, on) count as good until a counter says otherwise; the command that follows the page is
#' given all the same.
#'
#' The kernel's documents "IP Sysctl", "SNMP counter", "Control Group v2" and "Transparent
#' Hugepage Support"; the manual pages sock_diag(7), tcp(7), proc(5), getrlimit(2). That a
#' listener holds one connection more than its backlog was measured on Linux 6.18.
#'
#' @section Cost:
#' Some 60 small files of `/proc` and `/sys`, the list of listeners from the kernel, and one
#' file for each process: below 0.2 s, on top of `interval`. Where TMPDIR is on a network file
#' system that is gone, it waits as long as that does. No process is started.
#'
#' @section Errors:
#' `muster_error_input` if `interval` is no number of seconds from 0 up or `items` has a name
#' that isn't in the table. What can't be read is no error: its verdict is `"unknown"`.
#' @seealso [availableCores()]
#' @examples
#' doctor()
#'
#' # As a plain table: what asks for attention.
#' found <- doctor(items = c("somaxconn", "listen_overflows", "listen_queues", "open_files"))
#' found[found$verdict %in% c("attention", "bad"), c("item", "value", "command")]
#' @export
doctor <- function(interval = 0, items = NULL) {
  interval <- check_interval(interval)
  items <- check_items(items)
  examine(doctor_machine(), interval, items)
}

check_interval <- function(interval, call = sys.call(-1)) {
  if (identical(interval, 0) || identical(interval, 0L)) {
    return(0)
  }
  ok <- is.numeric(interval) && length(interval) == 1L && !is.na(interval) && interval >= 0 &&
    is.finite(interval)
  if (!ok) {
    abort_input("interval", "a number of seconds from 0 up", interval, call)
  }
  as.double(interval)
}

check_items <- function(items, call = sys.call(-1)) {
  known <- names(doctor_items())
  if (is.null(items)) {
    return(known)
  }
  items <- check_strings(items, "items", call)
  if (!length(items)) {
    abort_input("items", "NULL or at least one name", items, call)
  }
  lost <- setdiff(items, known)
  if (length(lost)) {
    abort_muster("input", paste0("`items` has no item ", dQuote(lost[1L], FALSE), "."),
      hints = paste("Items:", paste(known, collapse = ", ")),
      argument = "items", call = call
    )
  }
  unique(items)
}

# All items in the order in which they are shown: list(group, look).
doctor_items <- function() {
  in_group <- function(group, ...) {
    lapply(list(...), function(look) list(group = group, look = look))
  }
  c(
    in_group("Listen queues",
      somaxconn = doctor_somaxconn, tcp_max_syn_backlog = doctor_syn_backlog,
      tcp_syncookies = doctor_syncookies, tcp_fin_timeout = doctor_fin_timeout,
      tcp_abort_on_overflow = doctor_abort_on_overflow, listen_overflows = doctor_overflows,
      listen_drops = doctor_drops, syn_queue_full = doctor_syn_queue,
      listen_queues = doctor_listen_queues
    ),
    in_group("Network",
      retransmits = doctor_retransmits, ports = doctor_ports, neighbours = doctor_neighbours,
      conntrack = doctor_conntrack, socket_memory = doctor_socket_memory, card = doctor_cards,
      loopback = doctor_loopback, localhost = doctor_localhost
    ),
    in_group("Limits of this process",
      open_files = doctor_open_files, system_files = doctor_system_files,
      processes = doctor_processes,
      locked_memory = doctor_locked_memory, stack = doctor_stack,
      address_space = doctor_address_space, file_size = doctor_file_size,
      cpu_time = doctor_cpu_time
    ),
    in_group("Control group",
      cgroup_cpu = doctor_cgroup_cpu, cgroup_memory = doctor_cgroup_memory,
      cgroup_oom = doctor_cgroup_oom, cgroup_pids = doctor_cgroup_pids
    ),
    in_group("Memory and files",
      memory = doctor_memory, swap = doctor_swap, overcommit = doctor_overcommit,
      oom_kills = doctor_oom_kills, huge_pages = doctor_huge_pages, shm = doctor_shm,
      tmpdir = doctor_tmpdir
    ),
    in_group("Machine",
      kernel = doctor_kernel, clock = doctor_clock, cpus = doctor_cpus, load = doctor_load,
      numa = doctor_numa
    ),
    in_group("R and programs",
      threads = doctor_threads, fork = doctor_fork, ssh = doctor_ssh,
      schedulers = doctor_schedulers, leftover = doctor_leftover
    )
  )
}

# A machine's findings as doctor() returns them.
examine <- function(machine, interval = 0, items = names(doctor_items())) {
  machine <- look_twice(machine, interval)
  known <- doctor_items()
  rows <- lapply(items, function(name) item_rows(name, known[[name]], machine))
  structure(do.call(rbind, rows), class = c("muster_doctor", "data.frame"))
}

item_rows <- function(name, item, machine) {
  # Nothing that one item meets may cost the user the others.
  found <- tryCatch(item$look(machine), error = function(e) {
    finding(conditionMessage(e), "unknown", unknown_why)
  })
  if (!is.null(found$verdict)) {
    found <- list(found)
    ids <- name
  } else {
    ids <- paste0(name, ":", names(found))
  }
  column <- function(part) {
    vapply(found, function(one) as.character(one[[part]]), "", USE.NAMES = FALSE)
  }
  data.frame(
    item = ids, value = column("value"), verdict = column("verdict"), why = column("why"),
    command = column("command"), group = rep_len(item$group, length(ids))
  )
}

unknown_why <- "The system doesn't tell, so there is no verdict."
