# makeNodePSOCK(): the arguments of one worker, checked and completed. psock-route.R decides how
# its worker is started.

#' @rdname makeClusterPSOCK
#' @export
makeNodePSOCK <- function(worker = getOption2("parallelly.localhost.hostname", "localhost"),
                          master = NULL, port,
                          connectTimeout = getOption2(
                            "parallelly.makeNodePSOCK.connectTimeout", 2 * 60
                          ),
                          timeout = getOption2(
                            "parallelly.makeNodePSOCK.timeout", 30 * 24 * 60 * 60
                          ),
                          rscript = NULL, homogeneous = NULL, rscript_args = NULL,
                          rscript_envs = NULL, rscript_libs = NULL, rscript_startup = NULL,
                          rscript_call = getOption2("parallelly.makeNodePSOCK.rscript_call", NULL),
                          rscript_sh = c("auto", "cmd", "sh", "none"),
                          default_packages = c(
                            "datasets", "utils", "grDevices", "graphics", "stats",
                            if (methods) "methods"
                          ),
                          methods = TRUE,
                          socketOptions = getOption2(
                            "parallelly.makeNodePSOCK.socketOptions", "no-delay"
                          ),
                          useXDR = getOption2("parallelly.makeNodePSOCK.useXDR", FALSE),
                          outfile = "/dev/null", renice = NA_integer_,
                          rshcmd = getOption2("parallelly.makeNodePSOCK.rshcmd", NULL),
                          user = NULL, revtunnel = NA, rshlogfile = NULL,
                          rshopts = getOption2("parallelly.makeNodePSOCK.rshopts", NULL),
                          rank = 1L, manual = FALSE, dryrun = FALSE, quiet = FALSE,
                          setup_strategy = getOption2(
                            "parallelly.makeNodePSOCK.setup_strategy", "parallel"
                          ),
                          calls = getOption2("parallelly.makeNodePSOCK.calls", FALSE),
                          action = c("launch", "options"), verbose = FALSE) {
  call <- sys.call()
  action <- check_choice(action, "action", c("launch", "options"), call)
  calls <- check_flag(calls, "calls", call)
  # dots of makeClusterPSOCK() come with the names of formals, so these are all of them.
  given <- list(
    worker = worker, master = master, port = if (missing(port)) "auto" else port,
    connectTimeout = connectTimeout, timeout = timeout, rscript = rscript,
    homogeneous = homogeneous, rscript_args = rscript_args, rscript_envs = rscript_envs,
    rscript_libs = rscript_libs, rscript_startup = rscript_startup,
    rscript_call = rscript_call, rscript_sh = rscript_sh,
    default_packages = check_default_packages(default_packages, methods, call),
    socketOptions = socketOptions, useXDR = useXDR, outfile = outfile, renice = renice,
    rshcmd = rshcmd, user = user, revtunnel = revtunnel, rshlogfile = rshlogfile,
    rshopts = rshopts, rank = rank, manual = manual, dryrun = dryrun, quiet = quiet,
    setup_strategy = setup_strategy, verbose = verbose,
    calls = if (calls) paste0("calls:", paste(calls_text(sys.calls()), collapse = "->"))
  )
  o <- node_options(given, call)
  if (action == "options") {
    return(o)
  }
  psock_start(list(o), port = o$port, tries = 1L, delay = 0, validate = TRUE, auto_stop = FALSE,
    call = call)[[1L]]
}

calls_text <- function(calls) {
  names <- vapply(calls, function(call) {
    if (is.symbol(call[[1L]])) as.character(call[[1L]]) else "<anonymous>"
  }, "")
  utils::head(names, -1L)
}

# methods = FALSE takes one away from the default.
check_default_packages <- function(packages, methods, call) {
  check_flag(methods, "methods", call)
  ok <- is.null(packages) || (is.character(packages) && !anyNA(packages) &&
    all(grepl("^([[:alpha:]][[:alnum:].]*|[*])$", packages)))
  if (!ok) {
    abort_input("default_packages", "NULL or names of packages", packages, call)
  }
  if (is.null(packages)) {
    return(NULL)
  }
  unique(unlist(lapply(packages, function(one) {
    if (one == "*") getOption("defaultPackages") else one
  })))
}

# node_options() checks what makeNodePSOCK() was given and fills in what follows from it:
# a list of class "muster_node_options", with what was given in `given`.
node_options <- function(given, call) {
  host <- check_remote_host(given$worker, call)
  rank <- check_count(given$rank, "rank", max = 65535L, call = call)
  manual <- check_flag(given$manual, "manual", call)
  rshcmd <- if (!host$local) check_rshcmd(given$rshcmd, call)
  revtunnel <- check_revtunnel(given$revtunnel, host$local, rshcmd, call)
  master <- check_master(given$master, host$local, revtunnel, call)
  homogeneous <- check_homogeneous(given$homogeneous, host, master, revtunnel, call)
  shells <- check_shells(given$rscript_sh, call)
  rscript <- check_rscript(given$rscript, homogeneous, host$local, call)
  structure(class = "muster_node_options", list(
    given = given, rank = rank, host = host$host, host_port = host$port, local = host$local,
    master = master, port = given$port, revtunnel = revtunnel, rshcmd = rshcmd,
    rshopts = check_texts(given$rshopts, "rshopts", call),
    rshlogfile = check_rshlogfile(given$rshlogfile, host$local, call),
    user = check_user(given$user, call), homogeneous = homogeneous, shells = shells,
    rscript = rscript, raw = inherits(given$rscript, "AsIs"),
    rscript_args = check_texts(given$rscript_args, "rscript_args", call),
    envs = check_envs(given$rscript_envs, call),
    libraries = check_strings(given$rscript_libs, "rscript_libs", call),
    startup = check_code(given$rscript_startup, "rscript_startup", call),
    call = check_call(given$rscript_call, call), calls = given$calls,
    packages = packages_text(given$default_packages),
    socket_options = check_socket_options(given$socketOptions, call),
    xdr = check_flag(given$useXDR, "useXDR", call),
    outfile = check_outfile(given$outfile, call),
    renice = check_renice(given$renice, call),
    connect_timeout = check_seconds(given$connectTimeout, "connectTimeout", call = call),
    timeout = check_seconds(given$timeout, "timeout", call = call),
    manual = manual, dryrun = check_flag(given$dryrun, "dryrun", call),
    quiet = check_flag(given$quiet, "quiet", call),
    strategy = check_choice(
      given$setup_strategy, "setup_strategy", c("parallel", "sequential"), call
    ),
    verbose = check_flag(given$verbose, "verbose", call)
  ))
}

packages_text <- function(packages) {
  if (is.null(packages)) NA_character_ else paste(packages, collapse = ",")
}

# ---- Hosts

# list(host, port, local). ssh would treat a host name that looks like an option as an option.
check_remote_host <- function(worker, call, name = "worker") {
  ok <- is.character(worker) && length(worker) == 1L && !is.na(worker) && nzchar(worker) &&
    !startsWith(worker, "-") && !grepl("[[:space:][:cntrl:]'\"`$;&|<>()\\\\]", worker)
  if (!ok) {
    abort_input(name, "the name or address of a host", worker, call,
      hints = "It can't begin with \"-\" or contain blanks, quotes or other shell characters."
    )
  }
  local <- attr(worker, "localhost", exact = TRUE)
  worker <- as.vector(worker)
  port <- NA_integer_
  found <- regmatches(worker, regexec("^([^:]+|\\[[^]]+\\]):([0-9]{1,5})$", worker))[[1L]]
  if (length(found)) {
    worker <- found[2L]
    port <- as.integer(found[3L])
    if (!is_port(port)) {
      abort_input(name, "a host, or a host with a port from 1 to 65535", worker, call)
    }
  }
  if (is.null(local)) {
    local <- is.na(port) && is_local_host(worker)
  }
  check_flag(local, "localhost", call)
  list(host = gsub("^\\[|\\]$", "", worker), port = port, local = local)
}

is_local_host <- function(host) {
  own <- Sys.info()[["nodename"]]
  host %in% c("localhost", "127.0.0.1", own) || host %in% names_beside(own)
}

# The names on the same line of /etc/hosts as this one.
names_beside <- function(name, file = "/etc/hosts") {
  lines <- tryCatch(suppressWarnings(readLines(file, warn = FALSE)), error = function(e) NULL)
  words <- strsplit(sub("#.*", "", lines), "[[:space:]]+")
  unlist(Filter(function(line) name %in% line, words))
}

check_rshcmd <- function(rshcmd, call) {
  rshcmd <- check_texts(rshcmd, "rshcmd", call)
  if (!length(rshcmd)) {
    rshcmd <- "<ssh>"
  }
  if (!all(grepl("^<.*>$", rshcmd))) {
    path <- Sys.which(rshcmd[1L])
    return(c(if (nzchar(path) && rshcmd[1L] == "ssh") path else rshcmd[1L], rshcmd[-1L]))
  }
  for (client in rshcmd) {
    found <- switch(client,
      "<ssh>" = Sys.which("ssh"),
      "<putty-plink>" = Sys.which("plink"),
      "<rstudio-ssh>" = Sys.which(file.path(Sys.getenv("RSTUDIO_MSYS_SSH"), "ssh")),
      ""
    )
    if (nzchar(found)) {
      return(c(unname(found), if (client == "<putty-plink>") "-ssh"))
    }
  }
  abort_muster("launch", "Can't start workers on other hosts: there is no ssh here.",
    details = paste0("Looked for ", paste(rshcmd, collapse = ", "), " on the PATH."),
    hints = "Install an ssh client, or name another command with `rshcmd`.", call = call
  )
}

check_revtunnel <- function(revtunnel, local, rshcmd, call) {
  if (!is.logical(revtunnel) || length(revtunnel) != 1L) {
    abort_input("revtunnel", "TRUE, FALSE or NA", revtunnel, call)
  }
  if (local) {
    return(FALSE)
  }
  if (is.na(revtunnel)) grepl("^(ssh|plink)([.]exe)?$", basename(rshcmd[1L])) else revtunnel
}

check_master <- function(master, local, revtunnel, call) {
  if (is.null(master)) {
    return(if (local || revtunnel) "localhost" else Sys.info()[["nodename"]])
  }
  ok <- is.character(master) && length(master) == 1L && !is.na(master) &&
    grepl("^[A-Za-z0-9_.:%-]+$", master) && !startsWith(master, "-")
  if (!ok) {
    abort_input("master", "NULL or the name or address of this host", master, call)
  }
  master
}

check_homogeneous <- function(homogeneous, host, master, revtunnel, call) {
  if (!is.null(homogeneous)) {
    return(check_flag(homogeneous, "homogeneous", call))
  }
  is_address <- grepl("^[0-9]{1,3}([.][0-9]{1,3}){3}$|:", host$host)
  host$local || (!revtunnel && is_local_host(master)) ||
    !(is_address || grepl(".", host$host, fixed = TRUE))
}

check_user <- function(user, call) {
  if (is.null(user)) {
    return(character())
  }
  if (!is.character(user) || length(user) != 1L || is.na(user) || !nzchar(user) ||
    grepl("[[:cntrl:]]", user) || startsWith(user, "-")) {
    abort_input("user", "NULL or a user's name", user, call)
  }
  user
}

check_rshlogfile <- function(file, local, call) {
  if (is.null(file) || isFALSE(file) || local) {
    return(NULL)
  }
  if (isTRUE(file)) {
    return(tempfile("makeClusterPSOCK-", fileext = ".log"))
  }
  if (!is.character(file) || length(file) != 1L || is.na(file) || !nzchar(file)) {
    abort_input("rshlogfile", "NULL, TRUE, FALSE or a file", file, call)
  }
  file
}

# ---- R on the worker

check_shells <- function(shells, call) {
  if (identical(shells, c("auto", "cmd", "sh", "none"))) {
    shells <- "auto"
  }
  ok <- is.character(shells) && length(shells) %in% 1:2 &&
    all(shells %in% c("auto", "cmd", "sh", "none"))
  if (!ok) {
    abort_input("rscript_sh", "one or two of \"auto\", \"cmd\", \"sh\", \"none\"", shells, call)
  }
  shells[shells == "auto"] <- "sh"
  rep_len(shells, 2L)
}

# The words of the command: "*" is Rscript.
check_rscript <- function(rscript, homogeneous, local, call) {
  own <- if (homogeneous) file.path(R.home("bin"), "Rscript") else "Rscript"
  if (is.null(rscript)) {
    return(own)
  }
  given <- rscript
  rscript <- as.vector(unclass(rscript))
  if (!is.character(rscript) || !length(rscript) || anyNA(rscript) || !all(nzchar(rscript))) {
    abort_input("rscript", "NULL or the words of a command, with \"*\" for Rscript", given, call)
  }
  rscript[rscript == "*"] <- own
  path <- if (local && !inherits(given, "AsIs")) Sys.which(rscript[1L]) else ""
  if (nzchar(path)) {
    rscript[1L] <- path
  }
  unname(rscript)
}

check_texts <- function(x, name, call) {
  if (is.null(x)) {
    return(character())
  }
  if (!is.atomic(x) || anyNA(x)) {
    abort_input(name, "NULL or a character vector", x, call)
  }
  as.character(x)
}

# Named values, NA for those to be unset. Elements without a name are copied from here.
check_envs <- function(envs, call) {
  if (!length(envs)) {
    return(stats::setNames(character(), character()))
  }
  if (!is.character(envs)) {
    abort_input("rscript_envs", "NULL or a character vector", envs, call)
  }
  names <- if (is.null(names(envs))) rep("", length(envs)) else names(envs)
  copied <- !nzchar(names)
  names[copied] <- envs[copied]
  if (anyNA(names) || any(!nzchar(names) | grepl("=", names, fixed = TRUE))) {
    abort_muster("input", "`rscript_envs` must have names that a variable can have.",
      details = "An element without a name is the name of a variable to copy.",
      argument = "rscript_envs", call = call
    )
  }
  envs[copied] <- Sys.getenv(names[copied], NA)
  gone <- copied & is.na(envs)
  if (any(gone)) {
    warn_muster("input", paste0(
      "There is no environment variable ", paste(sQuote(names[gone]), collapse = ", "),
      " to copy to workers."
    ), argument = "rscript_envs", variables = names[gone], call = call)
  }
  stats::setNames(envs, names)[!gone]
}

# R code as strings, one for each element.
check_code <- function(code, name, call) {
  if (is.null(code)) {
    return(NULL)
  }
  parts <- if (is.list(code) || is.expression(code)) as.list(code) else list(code)
  unlist(lapply(parts, function(part) {
    text <- if (is.character(part)) part else if (is.language(part)) deparse(part)
    if (is.null(text) || anyNA(text)) {
      abort_input(name, "R expressions, or strings of R code", part, call)
    }
    text <- paste(text, collapse = "\n")
    # Code that can't be parsed would end each worker.
    tryCatch(parse(text = text, keep.source = FALSE), error = function(e) {
      abort_muster("input", paste0("`", name, "` must be R code."),
        details = conditionMessage(e), argument = name, call = call
      )
    })
    paste0("invisible({", text, "})")
  }))
}

check_call <- function(code, call) {
  if (is.null(code)) {
    return(work_call)
  }
  text <- if (is.language(code)) deparse(code) else code
  if (!is.character(text) || anyNA(text)) {
    abort_input("rscript_call", "NULL, an expression or R code", code, call)
  }
  paste(text, collapse = "\n")
}

check_socket_options <- function(options, call) {
  if (is.null(options) || identical(options, "NULL")) {
    return(NULL)
  }
  if (!is.character(options) || length(options) != 1L || is.na(options)) {
    abort_input("socketOptions", "NULL or a string such as \"no-delay\"", options, call)
  }
  options
}

check_outfile <- function(outfile, call) {
  if (is.null(outfile)) {
    return("")
  }
  if (!is.character(outfile) || length(outfile) != 1L || is.na(outfile)) {
    abort_input("outfile", "NULL or a file", outfile, call)
  }
  outfile
}

check_renice <- function(renice, call) {
  if (length(renice) == 1L && is.atomic(renice) && is.na(renice)) {
    return(NA_integer_)
  }
  check_count(renice, "renice", min = -20L, max = 19L, call = call)
}
