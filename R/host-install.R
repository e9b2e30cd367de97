# muster on hosts that lack it: launch_ssh(install = TRUE). This muster's sources, which configure
# has packed, are sent there and installed into a library of their own in the user's cache.

source_file <- function() file.path(getNamespaceInfo("muster", "path"), "source", "muster.tar.gz")

# R code for that library's path there, one for each build of muster, R and platform. No code that a
# login shell is given has single quotes or "!".
library_there <- function() {
  build <- paste0(getNamespaceVersion("muster"), "-", substr(tools::md5sum(source_file()), 1L, 8L))
  paste0(
    'file.path(tools::R_user_dir("muster", "cache"), paste0("', build,
    '-R", getRversion()[, 1:2], "-", R.version$platform))'
  )
}

host_code <- function(install) {
  if (!install) {
    return("muster::muster_host()")
  }
  paste0(".libPaths(c(", library_there(), ", .libPaths())); muster::muster_host()")
}

# install_code() reads the sources from standard input. Another session may do the same, so the
# library gets its name when it is complete.
install_code <- function() {
  paste(c(
    paste0("l <- ", library_there()),
    'if (dir.exists(l)) quit("no")',
    'd <- tempfile("muster-")',
    'p <- file.path(d, "muster")',
    "dir.create(p, recursive = TRUE)",
    'f <- file.path(d, "muster.tar.gz")',
    paste0('writeBin(readBin(file("stdin", "rb"), "raw", ', file.size(source_file()), "), f)"),
    "untar(f, exdir = p)",
    'n <- tempfile("new-", dirname(l))',
    "dir.create(n, recursive = TRUE)",
    paste0(
      's <- system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", ',
      'paste0("--library=", shQuote(n)), shQuote(p)))'
    ),
    "unlink(d, recursive = TRUE)",
    "if (s == 0) s <- 1 - (file.rename(n, l) || dir.exists(l))",
    "unlink(n, recursive = TRUE)",
    'quit("no", s)'
  ), collapse = "; ")
}

check_install <- function(install, call) {
  check_flag(install, "install", call = call)
  if (install && !file.exists(source_file())) {
    abort_muster("input", "`install` needs muster's sources, which this build doesn't have.",
      details = if (is_dev()) "Package muster is under load_all()." else source_file(),
      hints = "Install muster on the hosts by hand.", argument = "install", call = call
    )
  }
  install
}

# can_install() tells whether a host that failed would be usable with muster installed.
can_install <- function(plan, failed) {
  !is.null(plan$host$install) &&
    (identical(failed$reason, "muster") || identical(failed$differs, "muster"))
}

install_timeout_s <- 900

# A command that is ended after so many seconds, with status 124, where the system has a program for
# that. system2(timeout = ) takes Ctrl-C away from R, or ends it.
with_limit <- function(seconds, command) {
  c(if (nzchar(Sys.which("timeout"))) c("timeout", "--foreground", seconds), command)
}

install_there <- function(plan) {
  inform_muster("install", paste0(
    "Installing muster on ", host_shown(plan), ", which takes about a minute, once."
  ))
  command <- with_limit(install_timeout_s, c("/bin/sh", "-c", shQuote(plan$host$install)))
  output <- suppressWarnings(system2(command[1L], command[-1L],
    stdin = source_file(), stdout = TRUE, stderr = TRUE
  ))
  status <- attr(output, "status")
  if (!is.null(status)) {
    abort_muster("launch", paste0("Can't install muster on ", host_shown(plan), "."),
      details = c(
        if (status == 124L) paste("It took longer than", install_timeout_s, "s."),
        output_lines(paste(output, collapse = "\n"))
      ),
      hints = c(
        "R's packages are compiled there: it needs a C compiler and make (Debian: r-base-dev).",
        paste("The command:", plan$host$install)
      ),
      host = plan$host$name, command = plan$host$install, reason = "install",
      output = paste(output, collapse = "\n"), call = plan$call
    )
  }
  NULL
}
