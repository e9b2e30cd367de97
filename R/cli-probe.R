# muster probe: discover() from the command line, in our form and in pmfind's.

cli_probe_help <- c(
  "Usage: muster probe TARGET... --port PORT [OPTION...]",
  "       muster probe -m (--mechanism) probe=BLOCK[,timeout=S][,maxThreads=N] [-s SERVICE]",
  "",
  "Tries to connect to each address of the targets: addresses, blocks (10.15.16.0/24), ranges",
  "(10.0.0.1-50), host names, files that list these (./hosts).",
  "",
  "  --port PORT[,PORT...]   ports to probe",
  "  --timeout SECONDS       of each attempt, default 0.02; or auto",
  "  --retries N             more attempts at silent addresses, default 1",
  "  --in-flight N           attempts at once",
  "  --rate N                attempts a second",
  "  --service SERVICE       what must answer: tcp (default), pcp, psock, tls",
  "  --exclude TARGET        addresses to skip; may be repeated",
  "  --resolve               look up the names of what was found",
  "  --edges                 also probe the first and last address of blocks",
  "  --public                allow addresses on the public internet",
  "  --max N                 allow so many addresses, default 65,536",
  "  --all                   show every address, not only what is open",
  "  --json                  print JSON",
  "  --quiet                 print nothing, only set the status",
  "  --help                  show this",
  "",
  "As pmfind: -m with one or more blocks, -s (--service) pmcd (default) or pmproxy, -q",
  "(--quiet), -r (--resolve), -t SECONDS: stop after this time and show what was found.",
  "",
  "Status: 0 something is open, 1 nothing is, 2 wrong usage. Nothing is sent but what a connect",
  "takes. Scanning other people's networks may be forbidden: see ?discover in R."
)

cli_probe_valued <- c(
  "port", "timeout", "retries", "in-flight", "rate", "service", "exclude", "mechanism",
  "overall", "max"
)
cli_probe_flags <- c("resolve", "edges", "public", "all", "json", "quiet", "help")
cli_probe_short <- c(
  m = "mechanism", s = "service", q = "quiet", r = "resolve", t = "overall", p = "port", h = "help"
)

cli_probe <- function(args) {
  given <- cli_parse(args, cli_probe_valued, cli_probe_flags, cli_probe_short)
  options <- given$options
  if (isTRUE(options$help)) {
    return(list(text = cli_probe_help, status = 0L))
  }
  as_pmfind <- !is.null(options$mechanism)
  read <- if (as_pmfind) pmfind_arguments else probe_arguments
  plan <- read(options, given$rest)
  if (!is.null(options$max)) {
    before <- options(muster.discover_max = cli_number(options$max, "max"))
    on.exit(options(before))
  }
  found <- cli_discover(plan, options$overall)
  open <- found[which(found$status == "open"), ]
  list(
    text = if (!isTRUE(options$quiet)) probe_text(found, open, options, as_pmfind),
    status = as.integer(nrow(open) == 0L)
  )
}

# An interrupt or the time limit of -t ends a scan, and the results so far are printed.
cli_discover <- function(arguments, overall) {
  if (!is.null(overall)) {
    limit <- cli_number(sub("s(ec(onds?)?)?$", "", utils::tail(overall, 1L)), "t")
    if (limit <= 0) cli_usage("option -t must be a number of seconds above 0")
    setTimeLimit(elapsed = limit, transient = TRUE)
    on.exit(setTimeLimit())
  }
  ended <- function(e) {
    hint <- if (!is.null(e[["address"]])) {
      "--public allows them, if you may scan them; ?discover in R says why you must say so."
    } else if (!is.null(e[["addresses"]])) {
      paste0("--max ", format(e[["addresses"]], scientific = FALSE), " probes them all.")
    }
    # The error's own hint is for R.
    if (!is.null(hint)) {
      abort_muster("input", sub("\n.*", "", conditionMessage(e)), hints = hint, call = NULL)
    }
    if (is.null(e$found) || inherits(e, "muster_error")) raise_condition(e)
    e$found
  }
  tryCatch(do.call(discover, arguments), interrupt = function(e) e$found, error = ended)
}

probe_arguments <- function(options, targets) {
  if (!length(targets)) cli_usage("probe needs a target; see muster probe --help")
  if (is.null(options$port)) cli_usage("probe needs --port")
  ports <- unlist(strsplit(options$port, ",", fixed = TRUE))
  one <- function(name, default) {
    if (is.null(options[[name]])) default else cli_number(options[[name]], name)
  }
  list(
    targets = targets, port = vapply(ports, cli_number, 0, "port", USE.NAMES = FALSE),
    timeout = if (identical(options$timeout, "auto")) "auto" else one("timeout", 0.02),
    retries = one("retries", 1), in_flight = one("in-flight", NULL), rate = one("rate", NULL),
    service = if (is.null(options$service)) "tcp" else options$service,
    exclude = options$exclude, resolve = isTRUE(options$resolve), edges = isTRUE(options$edges),
    public = isTRUE(options$public)
  )
}

# ---- pmfind's form

pmfind_services <- list(
  pmcd = list(port = 44321, service = "pcp", scheme = "pcp"),
  pmproxy = list(port = 44322, service = "tcp", scheme = "proxy")
)

# "probe=BLOCK,timeout=S,maxThreads=N", any of it again.
pmfind_arguments <- function(options, rest) {
  if (length(rest)) cli_usage("-m can't be combined with other targets, such as \"", rest[1L], "\"")
  service <- pmfind_service(options)
  parts <- unlist(strsplit(options$mechanism, ",", fixed = TRUE))
  names <- sub("=.*", "", parts)
  values <- sub("^[^=]*=", "", parts)
  wrong <- !names %in% c("probe", "timeout", "maxThreads") | !grepl("=", parts, fixed = TRUE)
  if (any(wrong) || !"probe" %in% names) {
    cli_usage("-m must be probe=BLOCK[,timeout=SECONDS][,maxThreads=N]",
      if (any(wrong)) paste0(", not \"", parts[wrong][1L], "\"")
    )
  }
  last <- function(name, default) {
    value <- utils::tail(values[names == name], 1L)
    if (length(value)) cli_number(value, name) else default
  }
  list(
    targets = values[names == "probe"], port = service$port, service = service$service,
    timeout = last("timeout", 0.02), in_flight = last("maxThreads", NULL), edges = TRUE,
    resolve = isTRUE(options$resolve), public = isTRUE(options$public)
  )
}

pmfind_service <- function(options) {
  name <- if (is.null(options$service)) "pmcd" else utils::tail(options$service, 1L)
  if (!name %in% names(pmfind_services)) {
    cli_usage("-s must be one of ", paste(names(pmfind_services), collapse = ", "),
      ", not \"", name, "\""
    )
  }
  c(name = name, pmfind_services[[name]])
}

pmfind_text <- function(open, options) {
  service <- pmfind_service(options)
  if (!nrow(open)) {
    return(paste("No", service$name, "servers discovered"))
  }
  where <- ifelse(grepl(":", open$address, fixed = TRUE), paste0("[", open$address, "]"),
    open$address
  )
  where <- ifelse(is.na(open$host), where, open$host)
  c(
    paste0("Discovered ", service$name, " servers:"),
    paste0("  ", service$scheme, "://", where, ":", open$port)
  )
}

# ---- output

probe_text <- function(found, open, options, as_pmfind) {
  rows <- if (isTRUE(options$all)) found else open
  if (isTRUE(options$json)) {
    return(probe_json(found, rows))
  }
  if (as_pmfind) {
    return(pmfind_text(open, options))
  }
  c(
    discovery_head(found),
    vapply(seq_len(nrow(rows)), function(i) row_text(rows[i, ]), "")
  )
}

probe_json <- function(found, rows) {
  counts <- table(factor(found$status, names(found_is)))
  counts <- paste0(json_string(names(counts)), ": ", as.integer(counts), collapse = ", ")
  c(
    "{",
    paste0("  \"elapsed_s\": ", json_values(attr(found, "elapsed_s")), ","),
    paste0("  \"probes\": ", nrow(found), ","),
    paste0("  \"counts\": {", counts, "},"),
    paste0("  \"rows\": ", json_rows(as.data.frame(unclass(rows)[names(rows)]))),
    "}"
  )
}
