# How a worker of makeClusterPSOCK() is started.
#
#   fork   forked by a fork server that was booted with these settings
#   spawn  muster's own worker, booted by the user's command over an inherited socket; all where
#          forking isn't safe
#   stock  R's own worker, over TCP: on other hosts, in containers, by hand
#
# Muster's own workers support every setting that a user may ask for here. A stock worker is
# needed when R isn't this R, or when the sockets can't be inherited.

psock_route <- function(o) {
  if (!o$local || o$manual || !identical(o$call, work_call)) {
    return(list(kind = "stock"))
  }
  words <- command_words(o)
  arguments <- if (!is.null(words)) argument_words(o$rscript_args)
  if (is.null(arguments)) {
    return(list(kind = "stock"))
  }
  assigned <- cumall(is_assignment(words))
  program <- words[!assigned]
  wrapper <- program[-length(program)]
  if (length(wrapper) && !hands_over(wrapper)) {
    return(list(kind = "stock"))
  }
  nice <- length(wrapper) == 0L || is_nice(wrapper)
  list(
    kind = if (nice && .Call(ffi_can_fork)) "fork" else "spawn",
    wrapper = c(nice_words(o$renice), full_path(wrapper)),
    variables = words[assigned], arguments = arguments$options, code = arguments$code
  )
}

cumall <- function(x) cumsum(!x) == 0L

# The command that starts our own R, in words; NULL if it is another R's, or if only a
# shell can tell.
command_words <- function(o) {
  words <- if (o$raw) shell_words(o$rscript) else o$rscript
  last <- words[length(words)]
  own <- file.path(R.home("bin"), "Rscript")
  if (length(last) && (last == own || is_same_file(last, own))) words
}

is_same_file <- function(command, file) {
  path <- Sys.which(command)
  nzchar(path) && basename(command) == "Rscript" && normalizePath(path) == normalizePath(file)
}

# What `rscript_args` are to R itself: list(options, code). NULL if it takes Rscript.
argument_words <- function(text) {
  words <- shell_words(text)
  if (is.null(words) && length(text)) {
    return(NULL)
  }
  options <- code <- character()
  i <- 1L
  while (i <= length(words)) {
    word <- words[i]
    if (word == "-e") {
      if (i == length(words)) {
        return(NULL)
      }
      i <- i + 1L
      code <- c(code, words[i])
    } else if (grepl("^--[a-z]", word) && !grepl(not_for_r, word)) {
      options <- c(options, word)
    } else {
      return(NULL)
    }
    i <- i + 1L
  }
  list(options = options, code = code)
}

not_for_r <- "^--(args|file|verbose|version|help|default)"

is_nice <- function(wrapper) basename(wrapper[1L]) == "nice"

# Not those that close inherited descriptors, or run the command elsewhere. Other such commands
# are recognized when their workers fail, see psock_try().
hands_over <- function(wrapper) {
  known <- c(
    "sudo", "su", "doas", "docker", "podman", "apptainer", "singularity", "udocker", "udocker.py",
    "ssh", "flatpak", "wine", "chroot", "nsenter", "srun", "qrsh", "kubectl", "lxc-attach"
  )
  nzchar(Sys.which(wrapper[1L])) && !any(basename(wrapper) %in% known)
}

nice_words <- function(renice) {
  if (!is.na(renice)) c(unname(Sys.which("nice")), "-n", renice)
}

full_path <- function(wrapper) {
  if (length(wrapper)) c(unname(Sys.which(wrapper[1L])), wrapper[-1L])
}

# ---- Muster's own workers

# local_plan() gives the plan of cluster_start() for workers with these options.
local_plan <- function(o, route, count, call) {
  code <- c(route$code, o$startup)
  setup <- if (length(code)) parse(text = code, keep.source = FALSE)
  boot <- o$envs[is_read_at_boot(names(o$envs))]
  boot <- ifelse(is.na(boot), names(boot), paste0(names(boot), "=", boot))
  usual <- "datasets,utils,grDevices,graphics,stats,methods"
  list(
    groups = list(list(workers = count)), packages = NULL, load = code_packages(setup),
    setup = setup, setup_name = if (length(route$code)) "rscript_args" else "rscript_startup",
    start = route$kind, threads = 1L,
    policy = check_policy(getOption("muster.healing", "state"), 2L, 10, Inf, call), call = call,
    boot = some_of(list(
      wrapper = route$wrapper, arguments = route$arguments,
      packages = if (!identical(o$packages, usual)) o$packages,
      variables = c(route$variables, unname(boot)),
      libraries = if (length(o$libraries)) o$libraries
    )),
    libraries = if (length(o$libraries)) o$libraries,
    variables = o$envs, outfile = if (nzchar(o$outfile)) o$outfile,
    window = if (o$strategy == "sequential") 1L, start_timeout = o$connect_timeout
  )
}

# Default settings count as none, so that workers with them share one fork server.
some_of <- function(list) {
  list <- Filter(length, list)
  if (length(list)) list
}

# Packages that code will load, as far as the code shows: the fork server loads them once, and the
# code then finds them loaded.
code_packages <- function(code) {
  found <- character()
  look <- function(part) {
    if (!is.call(part)) {
      return()
    }
    name <- if (is.symbol(part[[1L]])) as.character(part[[1L]]) else ""
    loads <- c("library", "require", "loadNamespace", "requireNamespace", "::", ":::")
    if (name %in% loads && length(part) > 1L) {
      package <- part[[2L]]
      by_name <- name %in% c("library", "require", "::", ":::") && is.null(part$character.only)
      if (is.character(package) || (by_name && is.symbol(package))) {
        found <<- c(found, as.character(package))
      }
    }
    for (one in as.list(part)[-1L]) {
      if (!missing(one)) look(one)
    }
  }
  for (part in as.list(code)) look(part)
  found <- unique(found)
  found[nzchar(vapply(found, package_path, ""))]
}
