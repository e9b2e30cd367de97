# muster doctor: doctor() from the command line.

cli_doctor_help <- c(
  "Usage: muster doctor [OPTION...]",
  "",
  "Looks at kernel settings, listen queues, limits and more of what clusters depend on. Changes",
  "nothing and needs no privilege.",
  "",
  "  --interval SECONDS      look twice, and tell what counters grew by in between",
  "  --item NAME[,NAME...]   these items only; may come again",
  "  --json                  print JSON",
  "  --quiet                 print nothing: the status tells",
  "  --help                  show this",
  "",
  "Status: 0 all is well or unknown, 1 something wants attention or is bad, 2 wrong usage."
)

cli_doctor <- function(args) {
  given <- cli_parse(args, c("interval", "item"), c("json", "quiet", "help"),
    c(q = "quiet", h = "help")
  )
  options <- given$options
  if (length(given$rest)) cli_usage("there is no argument \"", given$rest[1L], "\" here")
  if (isTRUE(options$help)) {
    return(list(text = cli_doctor_help, status = 0L))
  }
  interval <- if (is.null(options$interval)) 0 else cli_number(options$interval, "interval")
  items <- if (!is.null(options$item)) unlist(strsplit(options$item, ",", fixed = TRUE))
  report_text(doctor(interval, items), options)
}

report_text <- function(found, options) {
  text <- if (isTRUE(options$json)) {
    c("{", paste0("  \"rows\": ", json_rows(as.data.frame(unclass(found)))), "}")
  } else if (!isTRUE(options$quiet)) {
    utils::capture.output(print(found))
  }
  list(text = text, status = as.integer(any(found$verdict %in% c("attention", "bad"))))
}
