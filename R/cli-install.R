# muster_cli_install(): the muster command in a folder of the user's.

#' Install the muster command
#'
#' Writes a small script, `muster`, into a folder, so that a shell finds the command
#' ([muster_cli()] says what it does). The script calls the R and the muster library that are in use
#' now. Call the function again after either has moved.
#'
#' @param dir Path of a folder, default `"~/.local/bin"`. It is created if it doesn't exist. If it
#'   isn't in `PATH`, a message says how to add it.
#' @returns The script's path, invisibly.
#' @section Errors:
#' `muster_error_input`: `dir` isn't a path, or can't be written to, or a file that muster didn't
#' write is in the way. Symbolic links count as such files. After an error, nothing has been
#' written.
#' @section Source:
#' The default is the folder for a user's programs in the XDG Base Directory Specification.
#' @seealso [muster_cli()]
#' @examples
#' dir <- tempfile()
#' file <- muster_cli_install(dir)
#' system2(file, "--version")
#' unlink(dir, recursive = TRUE)
#' @export
muster_cli_install <- function(dir = "~/.local/bin") {
  call <- sys.call()
  file <- file.path(check_path(dir, "dir", call), "muster")
  check_own_file(file, call)
  install_file(command_script(), file, call)
  # The folder exists now, so that its path can be told in full.
  file <- normalizePath(file)
  inform_muster("install", paste0("The muster command is ", file, "."),
    hints = path_hint(file), file = file
  )
  invisible(file)
}

# muster recognizes its own file by this line.
install_mark <- "Written by muster::muster_cli_install(), which replaces it when called again."

check_path <- function(x, name, call) {
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x) || grepl("\n", x)) {
    abort_input(name, "the path of a folder", x, call)
  }
  path.expand(x)
}

check_own_file <- function(file, call) {
  if (in_the_way(file)) {
    abort_muster("input", "Can't install the muster command: a file is in the way.",
      details = paste0(file, " wasn't written by muster_cli_install()."),
      hints = "Remove or rename it, or choose another folder.", file = file, call = call
    )
  }
}

in_the_way <- function(file) {
  # Sys.readlink() also sees links to nothing, which writing would follow.
  link <- Sys.readlink(file)
  if (!is.na(link) && nzchar(link)) {
    return(TRUE)
  }
  if (!file.exists(file)) {
    return(FALSE)
  }
  if (dir.exists(file)) {
    return(TRUE)
  }
  first <- tryCatch(
    suppressWarnings(readLines(file, n = 3L, warn = FALSE, skipNul = TRUE)),
    error = function(e) character()
  )
  !any(grepl(install_mark, first, fixed = TRUE, useBytes = TRUE))
}

# The new file takes the old one's place at once: a shell that runs the old one reads on there.
install_file <- function(lines, file, call) {
  dir.create(dirname(file), recursive = TRUE, showWarnings = FALSE)
  new <- tempfile(".muster-", dirname(file))
  on.exit(unlink(new))
  written <- tryCatch(suppressWarnings({
    writeLines(lines, new)
    Sys.chmod(new, "755", use_umask = FALSE)
    file.rename(new, file)
  }), error = function(e) FALSE)
  if (!isTRUE(written)) {
    abort_muster("input", paste0("Can't write ", file, "."),
      hints = "Choose a folder that you may write to.", file = file, call = call
    )
  }
}

# ---- the script

command_script <- function() {
  quoted <- function(file) shQuote(normalizePath(file, mustWork = FALSE), "sh")
  c(
    "#!/bin/sh",
    paste("#", install_mark),
    paste0("rscript=", quoted(file.path(R.home("bin"), "Rscript"))),
    paste0("program=", quoted(system.file("exec", "muster", package = "muster"))),
    "if [ ! -x \"$rscript\" ] || [ ! -f \"$program\" ]; then",
    "  echo \"muster: R or its package muster isn't where it was; call\" >&2",
    "  echo \"muster::muster_cli_install() again\" >&2",
    "  exit 2",
    "fi",
    "exec \"$rscript\" \"$program\" \"$@\""
  )
}

# The steps that remain until a shell finds this command by name.
path_hint <- function(command) {
  dir <- dirname(command)
  path <- strsplit(Sys.getenv("PATH"), ":", fixed = TRUE)[[1L]]
  if (!dir %in% normalizePath(path[nzchar(path)], mustWork = FALSE)) {
    return(paste0("Its folder isn't in PATH. Put this line into ~/.profile (bash) or ~/.zprofile ",
      "(zsh): export PATH=", shQuote(dir, "sh"), ":\"$PATH\""))
  }
  found <- normalizePath(Sys.which("muster"), mustWork = FALSE)
  if (!identical(unname(found), command)) {
    return(paste0("Shells find another program of this name first: ", found, "."))
  }
}
