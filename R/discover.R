#' Find services by trying to connect
#'
#' `discover()` tries to connect to every address in the given blocks, ranges and hosts, and
#' reports which addresses listen, which are up but refuse, which can't be reached and which don't
#' answer. A single thread makes all attempts at once: 254 addresses, most of which don't exist,
#' take twice the timeout, 0.04 s.
#'
#' A host is sent only what a connect needs (and, for `service = "tls"`, the handshake), and
#' connections are closed at once. Still, a scan may set off alarms, and scanning other people's
#' networks may be forbidden by their rules or by law.
#'
#' Every address and port gets one status:
#' * `"open"`: it accepts connections, and proved to be the service if one was asked for.
#' * `"refused"`: the host is up, but nothing listens on the port.
#' * `"unreachable"`: the network or a host on the way says that it can't be reached, or this
#'   system doesn't allow the attempt; `error` says why. A name that can't be looked up also gets
#'   this status.
#' * `"silent"`: no answer to any attempt: the host doesn't exist, its answer takes longer than
#'   `timeout`, or a firewall drops the packets.
#' * `"foreign"`: something accepts connections but isn't the service; `error` says why.
#' * `NA`: undecided, because the scan ended too early.
#'
#' @param targets Character vector. Each is an address (IPv4 or IPv6), a block
#'   (`"10.15.16.0/24"`, `"fd00::/120"`), a range (`"10.0.0.1-10.0.0.50"`, or
#'   `"10.0.0.1-50"` for the last number), a host name, all of whose addresses are probed, or a
#'   file of targets: a path with a `/` in it, such as `"./hosts"`. Each line of the file begins
#'   with a target, as in hostfiles; the rest of the line, empty lines and `#` comments are
#'   ignored. An address that is named twice is probed once. IPv6 blocks have at most 2^24
#'   addresses (`/104`).
#' @param port Whole numbers from 1 to 65535: the ports to probe on each address.
#' @param timeout Seconds, above 0, default 0.02: how long one attempt may take in total, for the
#'   connect and the proof of the service. Or `"auto"`: the timeout follows the measured round
#'   trips (their smoothed mean plus four times their deviation), from 0.1 to 10 s, and is 1 s
#'   until something has answered.
#' @param retries Whole number from 0 to 31, default 1: how many more attempts a silent address
#'   gets, each on a new socket, after all others have had theirs. Otherwise a single lost packet
#'   would hide a host: the system itself resends it only after a second.
#' @param in_flight Whole number from 1, or `NULL`: the number of simultaneous attempts. The
#'   default and the maximum are the number of free descriptors, minus a quarter of them or 64,
#'   which are left for other uses; the default is also at most 1024 (256 if `service` is a
#'   function).
#' @param rate Number above 0, or `NULL`, the default, for no limit: attempts started per second.
#' @param service What proves the service:
#'   * `"tcp"` (default): it accepts a connection.
#'   * `"pcp"`: a server of Performance Co-Pilot sends its first packet.
#'   * `"psock"`: an R session sends a new worker its first command, as [parallel::makeCluster()]
#'     does while it waits for workers in parallel set-up. The command isn't run, and nothing is
#'     sent. The session sees a worker that disconnects at once, which does no harm. A session in
#'     sequential set-up sends nothing, so it is `"foreign"`, and would mistake the probe for its
#'     worker: don't scan ports on which such a session waits.
#'   * `"tls"`: it completes a TLS handshake, with any certificate. Needs muster built with
#'     OpenSSL.
#'   * a function, called as `service(socket, seconds)` with a connection like that of
#'     [socket_connect()], whose timeout is the rest of this attempt's, in seconds. `TRUE` means
#'     open; any other value, and any error, means foreign; a `muster_error_timeout` leads to
#'     another attempt. The connection is closed afterwards. The calls run one after the other, so
#'     a slow function makes a slow scan.
#' @param exclude Targets, as above, that aren't probed: `NULL` for none. Blocks are excluded
#'   whole.
#' @param progress Whether to show progress after 2 s: `TRUE`, `FALSE`, or `NULL` for only in a
#'   terminal. With package cli, it is a bar.
#' @param resolve `TRUE` looks up the names of addresses that are open or foreign, one after the
#'   other, through the system's resolver; that may take seconds for each name. Default `FALSE`.
#' @param edges `TRUE` also probes the first and last address of IPv4 blocks up to `/30`, which
#'   name the network and its broadcast. Default `FALSE`.
#' @param public `TRUE` allows addresses on the public internet. Default `FALSE`: a typing error
#'   in a block would otherwise send packets to people who didn't ask for them and may take
#'   that as an attack. Private (10/8, 172.16/12, 192.168/16, fc00::/7), shared
#'   (100.64/10), loopback and link-local addresses are always allowed.
#'
#' @returns A data frame of class `muster_discovery` with one row for each address and port, in
#'   order of addresses (IPv4 first) and, for each, of `port`:
#'   `address`, `port` (integer), `host` (the name that was given, or with `resolve` the name that
#'   was found; else `NA`), `status` (character, see above), `rtt_ms` (milliseconds until the
#'   connect was answered, `NA` if it wasn't), `attempts` (integer) and `error` (`NA`, or the
#'   reason). Names without an address come last. It has methods for [base::print()] and, with
#'   package ggplot2, [base::plot()]. Attribute `elapsed_s`: the scan's duration in seconds.
#'
#' @section Errors:
#' `muster_error_input`: an argument isn't as described, a target is malformed, a public address
#' is among the targets, or no address is left. `muster_error_limit`: more than 65,536 addresses
#' (`options(muster.discover_max =)` allows more; an interactive session is asked instead), an
#' IPv6 block that is too large, more than 2^24 addresses times ports, or the system gave no
#' sockets for 5 s. `muster_warning_lookup`: a name has no address; all other targets are probed.
#' Errors during the scan, and an interrupt (Ctrl-C), have a field `found`: the data frame with
#' the results so far, as in `tryCatch(discover(...), interrupt = function(e) e$found)`.
#'
#' @section Source:
#' The idea, `timeout` and its default, and the limit on simultaneous attempts: the `probe`
#' mechanism of `pmfind` in Performance Co-Pilot, mailing list of the project, July 2014.
#' `"auto"`: RFC 6298 and nmap's rule. Differences from `pmfind`: one thread; silent addresses are
#' tried again; status and reason for each address; the service is proved, not guessed from an
#' accepted connect; network and broadcast addresses are left out.
#'
#' @section Cost:
#' `timeout * (1 + retries)` seconds as long as there are no more than `in_flight` addresses, and
#' that many seconds for each `in_flight` addresses otherwise; 10 us of processor time for each
#' attempt; 8 bytes for each row during the scan. When sockets run out, the scan waits 0.1 s and
#' goes on with as many as there are. Addresses on this machine's own link that don't answer hold
#' an entry of the kernel's neighbour table for 3 s; at most half of that table is used (512
#' addresses by default), so large blocks of your own network take 3 s for each 512 absent hosts.
#'
#' Names are looked up one after the other before the scan begins, which takes as long as the
#' system's resolver does. Meanwhile, clusters of this session go on as they do while R computes.
#'
#' @examples
#' discover("127.0.0.0/29", port = 1)
#' @export
discover <- function(targets, port, timeout = 0.02, retries = 1, in_flight = NULL, rate = NULL,
                     service = "tcp", exclude = NULL, progress = NULL, resolve = FALSE,
                     edges = FALSE, public = FALSE) {
  call <- sys.call()
  service <- check_service(service, call)
  ports <- check_ports(port, call)
  policy <- check_scan_policy(timeout, retries, in_flight, rate, service, call)
  check_flag(resolve, "resolve", call)
  check_flag(edges, "edges", call)
  check_flag(public, "public", call)
  if (!is.null(progress)) check_flag(progress, "progress", call)
  wanted <- read_targets(targets, "targets", edges, call)
  without <- read_targets(exclude, "exclude", TRUE, call)
  check_targets(wanted, without, edges, public, call)
  scan <- new_scan(wanted, without, edges, ports, policy, service, resolve, call)
  run_scan(scan, progress)
}

# ---- arguments

# Connections that may wait for the function that judges a service.
service_at_once <- 256

check_service <- function(service, call) {
  if (is.function(service)) {
    return(service)
  }
  known <- setdiff(names(services), "call") # that is: a function finds out
  if (!is.character(service) || length(service) != 1L || !service %in% known) {
    abort_input("service", paste0(
      "one of ", paste0("\"", known, "\"", collapse = ", "), " or a function"
    ), service, call)
  }
  if (service == "tls" && !.Call(ffi_has_tls)) {
    abort_input("service", "another service, because muster was built without OpenSSL", service,
      call,
      hints = "Install OpenSSL's headers (libssl-dev, openssl-devel), then reinstall muster."
    )
  }
  service
}

check_ports <- function(port, call) {
  check_given(port, "port", call)
  ok <- is.numeric(port) && length(port) > 0L && !anyNA(port) && all(port == trunc(port)) &&
    all(port >= 1) && all(port <= 65535)
  if (!ok) {
    abort_input("port", "whole numbers from 1 to 65535", port, call)
  }
  unique(as.integer(port))
}

# For C code: simultaneous attempts (0: its own choice), attempts per probe, seconds per attempt (0:
# auto), seconds between two starts.
check_scan_policy <- function(timeout, retries, in_flight, rate, service, call) {
  if (!identical(timeout, "auto")) {
    ok <- is.numeric(timeout) && length(timeout) == 1L && !is.na(timeout) &&
      timeout >= 1e-6 && timeout <= 86400
    if (!ok) {
      abort_input("timeout", "a number of seconds above 0 (at most 86400), or \"auto\"",
        timeout, call
      )
    }
  }
  retries <- check_count(retries, "retries", 0L, 31L, call)
  if (!is.null(in_flight)) in_flight <- check_count(in_flight, "in_flight", 1L, 1e6L, call)
  if (!is.null(rate)) {
    ok <- is.numeric(rate) && length(rate) == 1L && !is.na(rate) && rate >= 1e-3
    if (!ok) {
      abort_input("rate", "NULL or a number of attempts a second, at least 0.001", rate, call)
    }
  }
  c(
    if (!is.null(in_flight)) in_flight else if (is.function(service)) service_at_once else 0,
    retries + 1,
    if (identical(timeout, "auto")) 0 else timeout,
    if (is.null(rate)) 0 else 1 / rate
  )
}
