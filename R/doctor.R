#' Check whether a machine is ready to run clusters
#'
#' @description
#' Reports the settings, limits and counters of this machine that decide whether a cluster on it
#' starts, keeps its workers and runs without delays. Each has a verdict, the reason why it
#' matters, and the command that fixes it. `doctor()` changes nothing, needs no privilege, sends
#' nothing to the network and starts no process.
#'
#' @param interval Number of seconds from 0 up, by default 0. Above 0, `doctor()` looks twice,
#'   this far apart, and reports by how much the counters grew in between. For listen queues, the
#'   longer of the two lengths counts.
#' @param items `NULL` (default) for all items, or a character vector of names from the table
#'   below. `"card"` stands for all network cards.
#'
#' @returns A data frame of class `"muster_doctor"` with one row for each item:
#'   - `item`: its name; network cards are `"card:eth0"` and so on;
#'   - `value`: what was found, or why nothing could be found;
#'   - `verdict`: `"good"`, `"attention"`, `"bad"` or `"unknown"`;
#'   - `why`: why it matters to a cluster;
#'   - `command`: what fixes it, `""` if there is nothing to do. Some good settings have a command
#'     too: the advice of the first source below for bursts of connections. Commands of the system
#'     (`sysctl -w`, `echo`, `mount`) need root and last until the next boot; in a container, run
#'     them on its host. `doctor()` never runs any;
#'   - `group`: the heading that it is printed under;
#'   - `persist`: for a command with `sysctl -w`, the lines for a file such as
#'     `/etc/sysctl.d/90-muster.conf` that make the same setting at each boot, else `""`;
#'   - `figures`: a list with the numbers in `value`, each a named numeric vector. Names end in
#'     the unit (`_bytes`, `_s`); `NA` means not known, `Inf` no limit; settings that are on or
#'     off are 1 or 0.
#'
#'   Attributes `host`, `time`, `version` and `interval_s` give the host, the time, muster's
#'   version and the interval. `print(found, explain = TRUE)` shows the reasons of all items; by
#'   default only those that need attention are explained.
#'
#' @section Verdicts:
#' An item is good unless one of its other verdicts applies, and unknown where the system
#' doesn't tell: in a container, much of `/proc/sys/net` is missing; on macOS, all of `/proc` is.
#' "It grew" means during `interval`.
#'
#' A count since boot doesn't tell when something happened. On its own it needs attention only if
#' its average is high ("a day" means per day since boot, counting at least one day). To see what
#' happens now, set `interval` and run `doctor()` while the cluster works: a counter that grew is
#' bad, and the average no longer counts.
#'
#' `r doctor_rules_table()`
#'
#' @section Which listener:
#' A listener's queue holds as many connections as its program asks for (the `backlog` of
#' listen(2)), but at most `net.core.somaxconn`. Raising that setting helps only listeners that
#' are limited by it, and only after their programs have been restarted. The kernel counts the
#' packets that each listener dropped since it began to listen, so `listen_overflows` names the
#' listeners whose queue was full, with program and process id where you may see them, and its
#' command addresses what limits them: `somaxconn`, or the program's own setting.
#'
#' @section JSON:
#' `muster doctor --json` prints one object:
#'   - `schema`: `"muster-doctor/1"`; the number changes when the name or the meaning of a field
#'     changes;
#'   - `host`, `time` (UTC, as in `"2026-01-31T12:00:00Z"`), `version` (muster's), `interval_s`;
#'   - `counts`: how many items have each verdict;
#'   - `rows`: an array of objects with the columns above. `figures` is an object of numbers; a
#'     number that isn't known is `null`, and so is a limit that doesn't exist.
#'
#' @section Source:
#' Advice on `net.core.somaxconn` (from 128 to 16384), `net.ipv4.tcp_max_syn_backlog` (to
#' 65536), `net.ipv4.tcp_fin_timeout` (to 30) and on turning a card's scatter-gather off as the
#' last step: the page "Fetch delays" in the documentation of MR3, a program that runs Hive's
#' queries on Hadoop and Kubernetes. Linux's current defaults (4096, by memory, 60, on) count as
#' good until a counter says otherwise; the command is shown anyway.
#'
#' Meaning of the kernel's files: "IP Sysctl", "SNMP counter", "Control Group v2" and
#' "Documentation for /proc/sys/vm/" in the Linux kernel's documentation, and the Linux manual
#' pages sock_diag(7) (socket monitoring), tcp(7) (the TCP protocol), listen(2), proc(5) (the
#' files of `/proc`), getrlimit(2) (resource limits) and sysctl.d(5) (kernel settings at boot).
#' That a listener holds one connection more than its backlog was measured on Linux 6.18.
#'
#' @section Cost:
#' Reads about 60 small files of `/proc`, `/sys` and `/etc`, the list of listeners from the
#' kernel, and two files for each process: less than 0.3 s, plus `interval`. If a listener
#' overflowed, it also reads the descriptors of all processes that you may inspect. If TMPDIR is
#' on a network file system that doesn't respond, `doctor()` waits as long as the file system
#' does. No process is started.
#'
#' @section Errors:
#' `muster_error_input` if `interval` isn't a number of seconds from 0 up, or `items` has a name
#' that isn't in the table. An item that can't be read isn't an error: its verdict is `"unknown"`.
#' @seealso [availableCores()], [muster_cli()] for `muster doctor` in a shell and its status.
#' @examples
#' doctor()
#'
#' # As a plain table: what needs attention.
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

# All items in the order of display: list(group, look).
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
      card = doctor_cards, loopback = doctor_loopback, localhost = doctor_localhost
    ),
    in_group("Limits of this process",
      open_files = doctor_open_files, system_files = doctor_system_files,
      processes = doctor_processes, address_space = doctor_address_space,
      max_map_count = doctor_max_map_count
    ),
    in_group("Control group",
      cgroup_cpu = doctor_cgroup_cpu, cgroup_memory = doctor_cgroup_memory,
      cgroup_oom = doctor_cgroup_oom, cgroup_pids = doctor_cgroup_pids
    ),
    in_group("Memory and files",
      memory = doctor_memory, swap = doctor_swap, oom_kills = doctor_oom_kills, shm = doctor_shm,
      tmpdir = doctor_tmpdir
    ),
    in_group("Machine", kernel = doctor_kernel, cpus = doctor_cpus, load = doctor_load),
    in_group("R and programs",
      threads = doctor_threads, fork = doctor_fork, ssh = doctor_ssh,
      schedulers = doctor_schedulers, leftover = doctor_leftover
    )
  )
}

# A machine's findings, as returned by doctor().
examine <- function(machine, interval = 0, items = names(doctor_items())) {
  machine <- look_twice(machine, interval)
  known <- doctor_items()
  rows <- lapply(items, function(name) item_rows(name, known[[name]], machine))
  structure(do.call(rbind, rows),
    class = c("muster_doctor", "data.frame"), host = machine$host, time = Sys.time(),
    version = utils::packageVersion("muster"), interval_s = machine$seconds
  )
}

item_rows <- function(name, item, machine) {
  # An error in one item must not cost the user the others.
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
  rows <- data.frame(
    item = ids, value = column("value"), verdict = column("verdict"), why = column("why"),
    command = column("command"), group = rep_len(item$group, length(ids))
  )
  rows$persist <- vapply(rows$command, function(command) {
    paste(sysctl_lines(command), collapse = "\n")
  }, "", USE.NAMES = FALSE)
  rows$figures <- unname(lapply(found, function(one) one$figures))
  rows
}

unknown_why <- "The system doesn't provide this, so there is no verdict."
