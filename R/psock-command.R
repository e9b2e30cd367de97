# The command that launches a worker without muster, as text, in three forms. See
# psock-make.R for what a node's options are.
#
#   shown  what dryrun and reports of failures show: as parallelly has it, all in one line
#   hand   what manual shows: the worker reads the rest, see psock-stock-secret.R
#   run    the same as a shell runs it here, which gives its process to it

# What R's own worker is told: which port, how long.
work_call <- paste0(
  "workRSOCK<-tryCatch(parallel:::.workRSOCK,error=function(e)parallel:::.slaveRSOCK);",
  "workRSOCK()"
)

# worker_command() gives the command of the machine where the worker runs.
# port: where it is to connect.
worker_command <- function(o, port, strategy, form = "shown") {
  here <- form == "run" && o$local && !o$raw
  if (form != "shown" && !o$raw) {
    o$rscript <- with_input(o$rscript)
  }
  inner <- o$shells[1L]
  plain <- grepl("^Rscript([.]exe)?$", basename(o$rscript[1L]), ignore.case = TRUE)
  packages <- o$packages
  assigned <- !o$raw & cumall(is_assignment(o$rscript))
  words <- rscript_text(o)
  code <- c(if (form == "shown") setup_code(o) else hear_call, work_code(o))
  code <- paste("-e", vapply(code, quoted, "", shell = inner))
  told <- c(
    paste0("MASTER=", quoted_if_needed(o$master, inner)), paste0("PORT=", port),
    paste0("OUT=", if (nzchar(o$outfile)) quoted_if_needed(o$outfile, inner)),
    paste0("TIMEOUT=", number_text(o$timeout)), paste0("XDR=", o$xdr),
    paste0("SETUPTIMEOUT=", number_text(o$connect_timeout)),
    paste0("SETUPSTRATEGY=", strategy)
  )
  paste(c(
    if (!plain && !is.na(packages)) paste0("R_DEFAULT_PACKAGES=", packages),
    if (!here) words[assigned], if (here) "exec",
    # As parallelly has it. csh has a command of its own with that name, of other arguments.
    if (!is.na(o$renice)) {
      paste0(if (form == "shown") "nice --adjustment=" else "env nice -n ", o$renice)
    },
    words[!assigned], o$rscript_args,
    if (plain && !is.na(packages)) paste0("--default-packages=", packages),
    code, told
  ), collapse = " ")
}

# Variables that the command itself assigns are put into its environment when it runs here: on the
# shell's command line they would be visible.
launch_variables <- function(o) {
  if (o$local && !o$raw) o$rscript[cumall(is_assignment(o$rscript))]
}

number_text <- function(x) format(x, scientific = FALSE, digits = 15L)

# The words of `rscript` for a shell. What the user marked by I() is shell text already.
rscript_text <- function(o) {
  if (o$raw) {
    return(o$rscript)
  }
  assigned <- is_assignment(o$rscript)
  ifelse(assigned,
    vapply(o$rscript, quoted_assignment, "", shell = o$shells[1L]),
    quoted(o$rscript, o$shells[1L])
  )
}

# R code for the worker, in the order in which it runs: settings and start-up code first, then the
# call that makes it a worker. string: how strings are written.
setup_code <- function(o, string = string_code) {
  set <- o$envs[!is.na(o$envs)]
  unset <- names(o$envs)[is.na(o$envs)]
  libraries <- vapply(o$libraries, function(one) {
    if (one == "*") ".libPaths()" else string(one)
  }, "")
  c(
    if (!is.null(o$socket_options)) {
      paste0("options(socketOptions=", string(o$socket_options), ")")
    },
    if (length(unset)) paste0("Sys.unsetenv(c(", paste(string(unset), collapse = ", "), "))"),
    if (length(set)) {
      pairs <- paste0(string(names(set)), "=", string(set), collapse = ", ")
      paste0("Sys.setenv(", pairs, ")")
    },
    if (length(libraries)) paste0(".libPaths(c(", paste(libraries, collapse = ","), "))"),
    o$startup
  )
}

work_code <- function(o) {
  c(if (!is.null(o$calls)) paste0("invisible(", string_code(o$calls, "'"), ")"), o$call)
}

# A string as R code. A value with quotes of both kinds must survive.
string_code <- function(x, quote = "\"") encodeString(unname(x), quote = quote)

# The same of ASCII only, in one line: exactly these bytes, whatever the worker's locale is.
byte_code <- function(x) {
  vapply(unname(x), function(one) {
    bytes <- charToRaw(one)
    code <- as.integer(bytes)
    plain <- code >= 32L & code < 127L & code != 34L & code != 92L
    text <- sprintf("\\x%02x", code)
    text[plain] <- rawToChar(bytes[plain], multiple = TRUE)
    paste0("\"", paste(text, collapse = ""), "\"")
  }, "", USE.NAMES = FALSE)
}

# ---- Remote machines

# remote_command() gives the whole command for this machine: how to reach the host, and what to
# run there.
remote_command <- function(o, port, command, run = FALSE) {
  paste(login_command(o, port, run), quoted(command, o$shells[2L]))
}

# run: as it is run, so that a login which can't succeed ends instead of asking at a
# terminal, and a tunnel that can't be made ends the login.
login_command <- function(o, port, run = FALSE) {
  paste(c(
    quoted(o$rshcmd),
    if (!is.null(o$rshlogfile)) paste("-E", quoted(o$rshlogfile)),
    if (o$revtunnel) paste0("-R ", tunnel_port(o, port), ":localhost:", port),
    if (length(o$user)) paste("-l", quoted_if_needed(o$user)),
    if (!is.na(o$host_port)) paste("-p", o$host_port),
    o$rshopts,
    if (run && is_openssh(o)) "-o BatchMode=yes -o ExitOnForwardFailure=yes",
    quoted_if_needed(o$host)
  ), collapse = " ")
}

is_openssh <- function(o) identical(basename(o$rshcmd[1L]), "ssh")

# Each worker of a host has a port of its own at the far end of the tunnel.
tunnel_port <- function(o, port) port + o$rank - 1L
worker_port <- function(o, port) if (o$revtunnel) tunnel_port(o, port) else port

# command_here() gives what is run here to launch a worker.
command_here <- function(o, port, strategy, form = "shown") {
  run <- form == "run"
  command <- worker_command(o, worker_port(o, port), strategy, form)
  if (o$local) command else paste0(if (run) "exec ", remote_command(o, port, command, run))
}

# The command for a report, without the values of variables.
reported_command <- function(o, port, strategy) {
  o$envs <- o$envs[is.na(o$envs)]
  command_here(o, port, strategy)
}

# What dryrun and manual print. told: lines for the worker's input, NULL in a dry run.
launch_text <- function(o, port, strategy = "sequential", told = NULL) {
  form <- if (is.null(told)) "shown" else "hand"
  command <- worker_command(o, worker_port(o, port), strategy, form)
  rule <- strrep("-", 70L)
  if (o$local) {
    return(c(
      rule,
      paste0("Manually, start worker #", o$rank, " on local machine ", sQuote(o$host), " with:"),
      "", told_by_hand(command, told, o$shells[1L]), ""
    ))
  }
  c(
    rule,
    paste0("Manually, (i) login into external machine ", sQuote(o$host), ":"),
    "", paste0("  ", login_command(o, port)), "",
    paste0("and (ii) start worker #", o$rank, " from there:"),
    "", told_by_hand(command, told, o$shells[1L]), "",
    paste0(
      "Alternatively, start worker #", o$rank,
      " from the local machine by combining both steps in a single call:"
    ),
    "", told_by_hand(remote_command(o, port, command), told), ""
  )
}
