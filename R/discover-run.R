# A scan from its start to its data frame. C code does the work (src/discover); it is called in
# slices here, so that progress is shown and the results survive whatever ends the scan.

# How long C code goes on before R looks at progress.
scan_slice_s <- 0.1

new_scan <- function(wanted, without, edges, ports, policy, service, resolve, call) {
  scan <- list(
    wanted = wanted, ports = ports, resolve = resolve, begin = now_seconds(), call = call,
    pointer = NULL, service = service, told = new.env(parent = emptyenv())
  )
  if (length(wanted$ranges)) {
    pointer <- .Call(
      ffi_scan_open, wanted$ranges, without$ranges, edges, ports, policy,
      services[[if (is.function(service)) "call" else service]]
    )
    if (is.list(pointer)) {
      abort_muster("limit", paste0("Can't start the scan: ", pointer$error, "."),
        errno = pointer$errno, call = call
      )
    }
    scan$pointer <- pointer
  }
  scan
}

run_scan <- function(scan, progress) {
  if (is.null(scan$pointer)) {
    return(scan_result(scan))
  }
  on.exit(.Call(ffi_scan_close, scan$pointer))
  tryCatch(
    {
      go_on(scan, progress)
      scan_result(scan, scan$resolve)
    },
    interrupt = function(e) {
      e$found <- scan_result(scan)
      raise_interrupt(e)
    },
    error = function(e) {
      e$found <- scan_result(scan)
      raise_condition(e)
    }
  )
}

# What an unhandled interrupt does.
raise_interrupt <- function(condition) {
  signalCondition(condition)
  inform_muster("interrupt", paste0(
    "Interrupted. The condition's field `found` has the results so far, see ?discover."
  ))
  invokeRestart("abort")
}

go_on <- function(scan, progress) {
  probes <- .Call(ffi_scan_state, scan$pointer)[1L]
  progress <- new_progress(progress, probes, "probes")
  on.exit(if (!is.null(progress)) end_progress(progress))
  repeat {
    outcome <- .Call(ffi_scan_run, scan$pointer, scan_slice_s)
    if (is.list(outcome)) {
      abort_muster(if (outcome$call == "socket") "limit" else "internal",
        paste0("The scan ended early: ", outcome$error, "."),
        hints = paste(
          "Free some descriptors or raise the limit, see `ulimit -n`;",
          "the error's field `found` has the results so far."
        ),
        errno = outcome$errno, call = scan$call
      )
    }
    if (outcome == "done") {
      return(invisible())
    }
    if (outcome == "ask") {
      ask_service(scan)
    }
    if (!is.null(progress)) {
      show_progress(progress, .Call(ffi_scan_state, scan$pointer)[2L])
    }
  }
}

# Lets the user's function judge a connection.
ask_service <- function(scan) {
  asked <- .Call(ffi_scan_asked, scan$pointer)
  on.exit(socket_close(asked$socket))
  good <- tryCatch(isTRUE(scan$service(asked$socket, asked$seconds)),
    muster_error_timeout = function(e) NA,
    error = function(e) {
      first <- strsplit(conditionMessage(e), "\n", fixed = TRUE)[[1L]][1L]
      assign(paste(asked$address, asked$port), first, envir = scan$told)
      FALSE
    }
  )
  .Call(ffi_scan_judge, scan$pointer, good)
}

# ---- the data frame

reason_words <- c(
  mute = "accepted, but sent nothing in time", ended = "accepted, and closed",
  wrong = "accepted, but sent a wrong answer"
)

scan_result <- function(scan, resolve = FALSE) {
  rows <- if (is.null(scan$pointer)) no_rows() else found_rows(scan)
  if (resolve) {
    rows$host <- resolve_hosts(rows)
  }
  if (length(scan$wanted$lost)) {
    rows <- rbind(rows, lost_rows(scan))
  }
  structure(rows,
    class = c("muster_discovery", "data.frame"), elapsed_s = now_seconds() - scan$begin
  )
}

found_rows <- function(scan) {
  found <- .Call(ffi_scan_findings, scan$pointer)
  data.frame(
    address = found$address, port = found$port,
    host = unname(scan$wanted$hosts[found$address])[seq_along(found$address)],
    status = enum_name(found_is, found$found), rtt_ms = found$rtt_ms, attempts = found$attempts,
    error = told_words(error_words(found), found, scan$told), stringsAsFactors = FALSE
  )
}

error_words <- function(found) {
  words <- rep(NA_character_, length(found$number))
  for (number in setdiff(unique(found$number), 0L)) {
    words[found$number == number] <- .Call(ffi_errno_text, number)
  }
  reason <- enum_name(found_reasons, found$reason)
  told <- !is.na(reason)
  words[told] <- reason_words[reason[told]]
  words
}

# What the user's function signalled instead of an answer.
told_words <- function(words, found, told) {
  keys <- ls(told, all.names = TRUE)
  if (length(keys)) {
    at <- match(keys, paste(found$address, found$port))
    foreign <- found$found[at] %in% found_is[["foreign"]]
    words[at[foreign]] <- unlist(mget(keys[foreign], envir = told), use.names = FALSE)
  }
  words
}

resolve_hosts <- function(rows) {
  asks <- rows$status %in% c("open", "foreign") & is.na(rows$host)
  addresses <- unique(rows$address[asks])
  names <- .Call(ffi_address_name, addresses)
  rows$host[asks] <- names[match(rows$address[asks], addresses)]
  rows$host
}

# Names that couldn't be looked up, a row for each port.
lost_rows <- function(scan) {
  lost <- scan$wanted$lost
  n <- length(lost) * length(scan$ports)
  rows <- no_rows()[rep(NA_integer_, n), ]
  if (n > 0L) {
    rows$host <- rep(names(lost), each = length(scan$ports))
    rows$port <- rep(scan$ports, length(lost))
    rows$status <- "unreachable"
    rows$attempts <- 0L
    rows$error <- rep(unname(lost), each = length(scan$ports))
    rownames(rows) <- NULL
  }
  rows
}

no_rows <- function() {
  data.frame(
    address = character(), port = integer(), host = character(), status = character(),
    rtt_ms = numeric(), attempts = integer(), error = character(), stringsAsFactors = FALSE
  )
}
