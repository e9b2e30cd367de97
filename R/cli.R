# The muster command: which commands there are, what they print, how they end.

# One line a command: run(arguments) gives list(text, status), or raises an error;
# about is for the help.
cli_commands <- function() {
  list(
    probe = list(run = cli_probe, about = "find services by trying to connect"),
    doctor = list(run = cli_doctor, about = "check whether this machine is ready to run clusters"),
    host = list(run = cli_host, about = "serve a session on another host")
  )
}

#' The muster command
#'
#' The function behind the command `muster`. [muster_cli_install()] installs the command, so that
#' your shell finds it; without it `Rscript -e 'muster::muster_cli()' probe ...` does the same.
#'
#' ```
#' muster probe 10.15.16.0/24 --port 44321 --timeout 0.02
#' muster probe -m probe=10.15.16.0/24,timeout=0.02,maxThreads=10 -s pmcd
#' muster probe --help
#' muster doctor --interval 10
#' muster doctor --json --fail-on bad
#' ssh node1 muster host
#' ```
#'
#' The second form is that of `pmfind`, Performance Co-Pilot's own program: replace `pmfind` with
#' `muster probe`. The output then has `pmfind`'s format, the whole block is probed, including its
#' first and last address, and only addresses that answer as a PCP server are listed.
#'
#' @param args Character vector: the arguments; by default, those of the command line.
#' @param quit `TRUE` ends R with the status, which is the default in scripts.
#' @returns Invisibly, the status: 0 if something was found, or all is well; 1 if nothing was
#'   found, or the worst verdict of [doctor()] is `attention`; 2 if the arguments can't be
#'   understood or the command failed; 3 if [doctor()] has a verdict `bad`. With `--fail-on bad`,
#'   `muster doctor` gives 0 for `attention`, with `--fail-on never` for both. Text goes to
#'   standard output, errors and warnings to standard error.
#' @section Errors:
#' None: they are printed, and the status is 2.
#' @section Source:
#' Options `-m`, `-q`, `-r`, `-s` and `-t` and the status: the manual page pmfind(1).
#' @examples
#' muster_cli(c("probe", "127.0.0.1", "--port", "1"), quit = FALSE)
#' @export
muster_cli <- function(args = commandArgs(trailingOnly = TRUE), quit = !interactive()) {
  before <- options(warn = 1)
  on.exit(options(before))
  done <- tryCatch(cli_run(args), error = function(e) {
    message_text <- paste0("muster: ", conditionMessage(e))
    list(errors = message_text, status = 2L)
  })
  if (length(done$errors)) writeLines(done$errors, con = base::stderr())
  if (length(done$text)) writeLines(done$text)
  if (quit) {
    quit(save = "no", status = done$status)
  }
  invisible(done$status)
}

cli_run <- function(args) {
  commands <- cli_commands()
  # pmfind's options without a command mean what they mean to pmfind.
  if (length(args) && grepl("^(-[mqrst]|--mechanism)", args[1L])) {
    args <- c("probe", args)
  }
  if (!length(args)) {
    return(list(errors = cli_help(commands), status = 2L))
  }
  if (args[1L] %in% c("-h", "--help", "help")) {
    return(list(text = cli_help(commands), status = 0L))
  }
  if (args[1L] == "--version") {
    return(list(text = paste("muster", utils::packageVersion("muster")), status = 0L))
  }
  if (!args[1L] %in% names(commands)) {
    cli_usage(paste0("unknown command \"", args[1L], "\"; see muster --help"))
  }
  commands[[args[1L]]]$run(args[-1L])
}

cli_host_help <- c(
  "Usage: muster host",
  "       muster host --connect ADDRESS:PORT --key FILE [--timeout SECONDS]",
  "",
  "Serves a session on this host, as muster_host() in R. Without options: what a command that is",
  "given to launch_command() runs; standard input and output belong to the session.",
  "",
  "  --connect ADDRESS:PORT  join a session that listens there, see launch_dialin()",
  "  --key FILE              the key that both ends prove; only you may read the file",
  "  --timeout SECONDS       give up if no session answers within them, default 600",
  "  --help                  show this"
)

cli_host <- function(args) {
  given <- cli_parse(args, c("connect", "key", "timeout"), "help", c(h = "help"))
  if (length(given$rest)) cli_usage("unexpected argument \"", given$rest[1L], "\"")
  if (isTRUE(given$options$help)) {
    return(list(text = cli_host_help, status = 0L))
  }
  options <- given$options
  if (is.null(options$connect) != is.null(options$key)) {
    cli_usage("--connect and --key belong together")
  }
  timeout <- if (is.null(options$timeout)) 600 else cli_number(options$timeout, "timeout")
  muster_host(options$connect, options$key, timeout)
  list(status = 0L)
}

cli_help <- function(commands) {
  c(
    "Usage: muster COMMAND [ARGUMENT...]", "",
    sprintf("  %-9s %s", names(commands), vapply(commands, `[[`, "", "about")),
    "", "muster COMMAND --help says more. Status: 0 found or healthy, 1 nothing found or",
    "something needs attention, 2 wrong usage, 3 something is bad."
  )
}

cli_usage <- function(...) {
  abort_muster("input", paste0(...), call = NULL)
}

# Splits arguments into list(options, rest). An option with a value is "--name value",
# "--name=value" or "-n value"; `valued` and `flags` name them, `short` has the long name of
# each letter. An option may come again: its values are in order.
cli_parse <- function(args, valued, flags, short = character()) {
  options <- list()
  rest <- character()
  i <- 1L
  while (i <= length(args)) {
    arg <- args[i]
    i <- i + 1L
    if (arg == "--") {
      rest <- c(rest, args[seq_along(args) >= i])
      break
    }
    if (!grepl("^-.", arg)) {
      rest <- c(rest, arg)
      next
    }
    name <- sub("=.*", "", sub("^--?", "", arg))
    if (!startsWith(arg, "--")) name <- if (name %in% names(short)) short[[name]] else arg
    if (name %in% flags && !grepl("=", arg, fixed = TRUE)) {
      options[[name]] <- TRUE
    } else if (name %in% valued) {
      glued <- startsWith(arg, "--") && grepl("=", arg, fixed = TRUE)
      if (!glued && i > length(args)) cli_usage("option ", arg, " needs a value")
      value <- if (glued) sub("^[^=]*=", "", arg) else args[i]
      if (!glued) i <- i + 1L
      options[[name]] <- c(options[[name]], value)
    } else {
      cli_usage("unknown option \"", arg, "\"")
    }
  }
  list(options = options, rest = rest)
}

cli_number <- function(text, name) {
  number <- suppressWarnings(as.numeric(text))
  if (length(number) != 1L || is.na(number)) {
    cli_usage("option --", name, " must be a number, not \"", paste(text, collapse = " "), "\"")
  }
  number
}
