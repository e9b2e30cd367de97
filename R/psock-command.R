# The command that launches a worker without muster, as text: what dryrun and manual show,
# and what is run. See psock-nodes.R for what a node's options are.

# What R's own worker is told: which port, how long.
work_call <- paste0(
  "workRSOCK<-tryCatch(parallel:::.workRSOCK,error=function(e)parallel:::.slaveRSOCK);",
  "workRSOCK()"
)

# worker_command() gives the command of the machine where the worker runs.
# port: where it is to connect. mark: a word that names it, NULL for none. run: as it is
# run by a shell here, which gives its process to it.
worker_command <- function(o, port, strategy, mark = NULL, run = FALSE) {
  inner <- o$shells[1L]
  plain <- grepl("^Rscript([.]exe)?$", basename(o$rscript[1L]), ignore.case = TRUE)
  packages <- o$packages
  assigned <- !o$raw & cumall(is_assignment(o$rscript))
  words <- rscript_text(o)
  code <- paste("-e", vapply(worker_code(o), quoted, "", shell = inner))
  told <- c(
    paste0("MASTER=", quoted_if_needed(o$master, inner)), paste0("PORT=", port),
    paste0("OUT=", if (nzchar(o$outfile)) quoted_if_needed(o$outfile, inner)),
    paste0("TIMEOUT=", number_text(o$timeout)), paste0("XDR=", o$xdr),
    paste0("SETUPTIMEOUT=", number_text(o$connect_timeout)),
    paste0("SETUPSTRATEGY=", strategy), mark
  )
  paste(c(
    if (!plain && !is.na(packages)) paste0("R_DEFAULT_PACKAGES=", packages),
    words[assigned], if (run && !o$raw) "exec",
    if (!is.na(o$renice)) paste0("nice --adjustment=", o$renice),
    words[!assigned], o$rscript_args,
    if (plain && !is.na(packages)) paste0("--default-packages=", packages),
    code, told
  ), collapse = " ")
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

# R code for the worker, in the order in which it runs.
worker_code <- function(o) {
  set <- o$envs[!is.na(o$envs)]
  unset <- names(o$envs)[is.na(o$envs)]
  libraries <- vapply(o$libraries, function(one) {
    if (one == "*") ".libPaths()" else string_code(one)
  }, "")
  c(
    if (!is.null(o$socket_options)) {
      paste0("options(socketOptions=", string_code(o$socket_options), ")")
    },
    if (length(unset)) paste0("Sys.unsetenv(c(", paste(string_code(unset), collapse = ", "), "))"),
    if (length(set)) {
      pairs <- paste0(string_code(names(set)), "=", string_code(set), collapse = ", ")
      paste0("Sys.setenv(", pairs, ")")
    },
    if (length(libraries)) paste0(".libPaths(c(", paste(libraries, collapse = ","), "))"),
    o$startup,
    if (!is.null(o$calls)) paste0("invisible(", string_code(o$calls, "'"), ")"),
    o$call
  )
}

# A string as R code. A value with quotes of both kinds must survive.
string_code <- function(x, quote = "\"") encodeString(unname(x), quote = quote)

# ---- Remote machines

# remote_command() gives the whole command of this machine: how to get there, and what to
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

# launch_command() gives what is run here to launch a worker.
launch_command <- function(o, port, strategy, mark = NULL, run = FALSE) {
  command <- worker_command(o, worker_port(o, port), strategy, mark, run && o$local)
  if (o$local) command else paste0(if (run) "exec ", remote_command(o, port, command, run))
}

# What dryrun and manual print.
launch_text <- function(o, port, strategy = "sequential", mark = NULL) {
  command <- worker_command(o, worker_port(o, port), strategy, mark)
  rule <- strrep("-", 70L)
  if (o$local) {
    return(c(
      rule,
      paste0("Manually, start worker #", o$rank, " on local machine ", sQuote(o$host), " with:"),
      "", paste0("  ", command), ""
    ))
  }
  c(
    rule,
    paste0("Manually, (i) login into external machine ", sQuote(o$host), ":"),
    "", paste0("  ", login_command(o, port)), "",
    paste0("and (ii) start worker #", o$rank, " from there:"),
    "", paste0("  ", command), "",
    paste0(
      "Alternatively, start worker #", o$rank,
      " from the local machine by combining both steps in a single call:"
    ),
    "", paste0("  ", remote_command(o, port, command)), ""
  )
}
