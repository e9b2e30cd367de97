# muster doctor: doctor() from the command line.

cli_doctor_help <- c(
  "Usage: muster doctor [OPTION...]",
  "",
  "Checks kernel settings, listen queues, limits and more that clusters depend on. Changes",
  "nothing and needs no privilege.",
  "",
  "  --interval SECONDS      measure twice, and show how much counters grew",
  "  --item NAME[,NAME...]   only these items; may be repeated",
  "  --fail-on VERDICT       attention (default), bad, or never: the mildest verdict for",
  "                          which the status is not 0",
  "  --json                  print JSON: see ?doctor in R",
  "  --quiet                 print nothing, only set the status",
  "  --help                  show this",
  "",
  "Status: 0 good or unknown, 1 something needs attention, 2 wrong usage or failed,",
  "3 something is bad. With --fail-on bad, 0 or 3; with --fail-on never, 0."
)

cli_doctor <- function(args) {
  given <- cli_parse(args, c("interval", "item", "fail-on"), c("json", "quiet", "help"),
    c(q = "quiet", h = "help")
  )
  options <- given$options
  if (length(given$rest)) cli_usage("unexpected argument \"", given$rest[1L], "\"")
  if (isTRUE(options$help)) {
    return(list(text = cli_doctor_help, status = 0L))
  }
  options[["fail-on"]] <- doctor_fail_on(options[["fail-on"]])
  interval <- if (is.null(options$interval)) 0 else cli_number(options$interval, "interval")
  items <- if (!is.null(options$item)) unlist(strsplit(options$item, ",", fixed = TRUE))
  report_text(doctor(interval, items), options)
}

doctor_fail_on <- function(given) {
  verdict <- if (is.null(given)) "attention" else utils::tail(given, 1L)
  if (!verdict %in% c("attention", "bad", "never")) {
    cli_usage("option --fail-on must be attention, bad or never, not \"", verdict, "\"")
  }
  verdict
}

# 2 is wrong usage, as in all commands.
doctor_statuses <- c(attention = 1L, bad = 3L)

report_text <- function(found, options) {
  text <- if (isTRUE(options$json)) {
    doctor_json(found)
  } else if (!isTRUE(options$quiet)) {
    utils::capture.output(print(found))
  }
  list(text = text, status = doctor_status(found$verdict, doctor_fail_on(options[["fail-on"]])))
}

doctor_status <- function(verdicts, fail_on) {
  counted <- switch(fail_on, attention = c("attention", "bad"), bad = "bad", never = character())
  max(0L, doctor_statuses[intersect(counted, verdicts)])
}

# ?doctor, "JSON" says what stands in it.
doctor_json <- function(found) {
  counts <- table(factor(found$verdict, c("good", "attention", "bad", "unknown")))
  counts <- paste0(json_string(names(counts)), ": ", as.integer(counts), collapse = ", ")
  time <- format(attr(found, "time"), "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")
  rows <- as.data.frame(unclass(found)[setdiff(names(found), "figures")])
  figures <- vapply(found$figures, json_object, "")
  c(
    "{",
    "  \"schema\": \"muster-doctor/1\",",
    paste0("  \"host\": ", json_string(attr(found, "host")), ","),
    paste0("  \"time\": ", json_string(time), ","),
    paste0("  \"version\": ", json_string(as.character(attr(found, "version"))), ","),
    paste0("  \"interval_s\": ", json_values(attr(found, "interval_s")), ","),
    paste0("  \"counts\": {", counts, "},"),
    paste0("  \"rows\": ", json_rows(rows, list(figures = figures))),
    "}"
  )
}
