# The muster command, called as a function and as a program.
build_hosts()

cli <- function(...) {
  status <- NULL
  text <- utils::capture.output(status <- muster_cli(c(...), quit = FALSE))
  list(status = status, text = text)
}

# Errors go to standard error.
quiet_cli <- function(...) {
  file <- tempfile()
  on.exit(unlink(file))
  code <- paste0("muster::muster_cli(", deparse1(c(...)), ")")
  local_variables(R_LIBS = paste(.libPaths(), collapse = ":"))
  status <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)),
    stdout = file, stderr = file
  )
  list(status = status, text = readLines(file))
}

test_cluster("P1: muster probe tells what is open, and its status whether something is", {
  port <- local_hosts(c("127.1.0.1" = "open"))
  run <- cli("probe", "127.1.0.0/30", "--port", port, "--timeout", "0.1")
  expect_identical(run$status, 0L)
  expect_match(run$text[1L], "^2 probes in .* s: 1 open, 1 refused$")
  expect_match(run$text[2L], paste0("^open +127.1.0.1:", port))
  expect_length(run$text, 2L)
  expect_length(cli("probe", "127.1.0.0/30", "--port", port, "--all")$text, 3L)
  expect_identical(cli("probe", "127.1.0.2", paste0("--port=", port))$status, 1L)
  quiet <- cli("probe", "127.1.0.1", "-p", port, "--quiet")
  expect_identical(quiet, list(status = 0L, text = character()))
})

test_cluster("muster probe --json prints JSON that others read", {
  port <- local_hosts(c("127.1.0.1" = "open"))
  run <- cli("probe", "127.1.0.0/30", "--port", port, "--json", "--all")
  skip_if_not_installed("jsonlite")
  json <- jsonlite::fromJSON(run$text)
  expect_identical(json$probes, 2L)
  expect_identical(json$counts$open, 1L)
  expect_identical(json$rows$address, c("127.1.0.1", "127.1.0.2"))
  expect_identical(json$rows$status, c("open", "refused"))
  expect_identical(json$rows$host, c(NA, NA))
  none <- cli("probe", "127.1.0.2", "--port", port, "--json")
  expect_identical(jsonlite::fromJSON(none$text)$rows, list())
  odd <- "a\"b\\c\n\u0001\u00e9"
  expect_identical(jsonlite::fromJSON(json_string(odd)), odd)
})

test_cluster("P1, P2, P3: pmfind's form is understood", {
  port <- local_hosts(
    c("127.1.0.1" = paste0("say:", pcp_hello), "127.1.0.2" = "open"), 44321L
  )
  skip_if(is.na(port), "something else uses PCP's port")
  run <- cli("probe", "-m", "probe=127.1.0.0/30,timeout=1,maxThreads=2", "-s", "pmcd")
  expect_identical(run$status, 0L)
  expect_identical(run$text, c("Discovered pmcd servers:", "  pcp://127.1.0.1:44321"))
  expect_identical(cli("-m", "probe=127.1.0.0/30,timeout=1")$text, run$text)
  none <- cli("probe", "-m", "probe=127.1.0.2/32,timeout=0.05", "-m", "probe=127.1.0.3/32")
  expect_identical(none, list(status = 1L, text = "No pmcd servers discovered"))
  plan <- pmfind_arguments(list(mechanism = "probe=127.1.0.0/24"), character())
  expect_identical(plan$timeout, 0.02)
  expect_true(plan$edges) # its range has the first and the last address
})

test_that("help is there, and wrong usage is told with status 2", {
  expect_match(cli("--help")$text[1L], "^Usage: muster COMMAND")
  expect_identical(cli("--help")$status, 0L)
  help <- cli("probe", "--help")
  expect_identical(help$status, 0L)
  for (option in c(cli_probe_flags, setdiff(cli_probe_valued, "overall"))) {
    expect_match(paste(help$text, collapse = "\n"), paste0("--", option), fixed = TRUE)
  }
  expect_match(cli("--version")$text, "^muster [0-9.]+$")
  for (args in list(
    character(), "dance", "probe", c("probe", "127.0.0.1"), c("probe", "127.0.0.1", "--port"),
    c("probe", "127.0.0.1", "--port", "x"), c("probe", "127.0.0.1", "--port", "1", "--colour"),
    c("probe", "-m", "shell"), c("probe", "-m", "probe=127.0.0.1/32", "-s", "gopher"),
    c("probe", "1.1.1.1", "--port", "1")
  )) {
    error <- tryCatch(cli_run(args), muster_error = identity)
    expect_true(inherits(error, "muster_error") || identical(error$status, 2L))
  }
  run <- quiet_cli("probe", "127.0.0.1/99", "--port", "1")
  expect_identical(run$status, 2L)
  expect_match(run$text[1L], "^muster: `targets` has a target")
})

test_that("A6: attention and bad have statuses of their own, and --fail-on chooses", {
  # The worst verdict, and the status by default, with bad and with never.
  cases <- list(
    list(c("good", "unknown"), 0L, 0L, 0L), list(c("good", "attention"), 1L, 0L, 0L),
    list(c("bad", "attention"), 3L, 3L, 0L), list("bad", 3L, 3L, 0L)
  )
  for (case in cases) {
    frame <- data.frame(item = "a", verdict = case[[1L]])
    status <- function(...) report_text(frame, list(quiet = TRUE, ...))$status
    expect_identical(status(), case[[2L]])
    expect_identical(status("fail-on" = "attention"), case[[2L]])
    expect_identical(status("fail-on" = "bad"), case[[3L]])
    expect_identical(status("fail-on" = c("bad", "never")), case[[4L]]) # the last one counts
    expect_null(report_text(frame, list(quiet = TRUE))$text)
    expect_match(report_text(frame, list())$text[2L], case[[1L]][1L])
  }
  expect_identical(quiet_cli("doctor", "--fail-on", "worse")$status, 2L)
  help <- paste(cli("doctor", "--help")$text, collapse = "\n")
  expect_match(help, "Status: 0 good or unknown, 1 something needs attention, 2 wrong usage.*3 ")
})

test_that("A6: muster doctor --json has numbers, host, time, version and schema", {
  run <- cli("doctor", "--item", "memory,swap,load", "--json", "--fail-on", "never")
  expect_identical(run$status, 0L)
  skip_if_not_installed("jsonlite")
  json <- jsonlite::fromJSON(run$text, simplifyVector = FALSE)
  expect_identical(names(json),
    c("schema", "host", "time", "version", "interval_s", "counts", "rows"))
  expect_identical(json$schema, "muster-doctor/1")
  expect_identical(json$host, Sys.info()[["nodename"]])
  expect_identical(json$version, as.character(utils::packageVersion("muster")))
  taken <- as.POSIXct(json$time, "UTC", "%Y-%m-%dT%H:%M:%SZ")
  expect_false(is.na(taken))
  expect_identical(sum(unlist(json$counts)), 3L)
  expect_setequal(names(json$rows[[1L]]),
    c("item", "value", "verdict", "why", "command", "group", "persist", "figures"))
  skip_without_feature("proc")
  total <- doctor(items = "memory")$figures[[1L]][["total_bytes"]]
  expect_equal(json$rows[[1L]]$figures$total_bytes, total)
})

test_that("numbers that aren't known, and limits that don't exist, are null in JSON", {
  expect_identical(json_object(c(a_bytes = 1e12, b = NA, c = Inf, d = 0.5)),
    "{\"a_bytes\": 1e+12, \"b\": null, \"c\": null, \"d\": 0.5}")
  expect_identical(json_object(numeric()), "{}")
})

test_that("muster doctor tells what doctor() finds", {
  run <- cli("doctor", "--item", "kernel,cpus", "--json")
  found <- doctor(items = c("kernel", "cpus"))
  expect_identical(run$status, doctor_status(found$verdict, "attention"))
  expect_match(paste(run$text, collapse = ""), "\"kernel\".*\"cpus\"")
  expect_identical(cli("doctor", "--quiet", "--item", "load")$text, character())
  expect_match(cli("doctor", "--help")$text[1L], "^Usage: muster doctor")
  expect_identical(cli("doctor", "more")$status, 2L)
  expect_identical(cli("doctor", "--interval", "soon")$status, 2L)
  expect_identical(cli("doctor", "--item", "nonsense")$status, 2L)
})

test_cluster("the time of -t ends a scan, and what was found is told", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent"))
  run <- cli("probe", "127.1.0.1-2", "--port", port, "--timeout", "60", "-t", "0.5s")
  expect_identical(run$status, 0L)
  expect_match(run$text[1L], "1 open, 1 not decided$")
})

test_cluster("exec/muster runs from wherever it is installed", {
  program <- system.file("exec", "muster", package = "muster")
  skip_if(!nzchar(program), "the program isn't installed")
  path <- paste(R.home("bin"), Sys.getenv("PATH"), sep = ":")
  local_variables(R_LIBS = paste(.libPaths()[-1L], collapse = ":"), PATH = path)
  out <- suppressWarnings(system2(program, c("probe", "127.0.0.1", "--port", "1"), stdout = TRUE))
  expect_identical(attr(out, "status"), 1L)
  expect_match(out, "^1 probe in .* s: 1 refused$")
})

test_that("muster host takes no arguments", {
  expect_match(cli("host", "--help")$text[1L], "^Usage: muster host")
  expect_identical(cli("host", "node1")$status, 2L)
})

test_that("U9: hints of the command are its own options", {
  public <- quiet_cli("probe", "192.0.2.1", "--port", "1")
  expect_identical(public$status, 2L)
  expect_match(paste(public$text, collapse = "\n"), "such as 192.0.2.1.\\ni --public allows them")
  many <- quiet_cli("probe", "127.0.0.0/29", "--port", "1", "--max", "4")
  expect_identical(many$status, 2L)
  expect_match(paste(many$text, collapse = "\n"), "has 6 addresses.\\ni --max 6 probes them all")
  expect_false(any(grepl("options(", c(public$text, many$text), fixed = TRUE)))
  expect_identical(cli("probe", "127.0.0.0/29", "--port", "1", "--max", "6")$status, 1L)
})
