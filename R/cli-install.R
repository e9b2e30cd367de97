# muster_cli_install(): the muster command in a folder of the user's, with its man page and
# completion.

#' Install the muster command
#'
#' Writes a small script, `muster`, into a folder, so that a shell finds the command
#' ([muster_cli()] says what it does), and beside it a man page and completion for bash and zsh.
#' The script calls the R and the muster library that are in use now. Call the function again
#' after either has moved, or to get the completion and the man page of a new version.
#'
#' Files go to these places, where programs look for them if `dir` is in `PATH`:
#'
#' | file | what it is |
#' | --- | --- |
#' | `<dir>/muster` | the command |
#' | `<share>/man/man1/muster.1` | `man muster` |
#' | `<share>/bash-completion/completions/muster` | completion for bash |
#' | `<share>/zsh/site-functions/_muster` | completion for zsh |
#'
#' bash finds the completion automatically where package bash-completion is installed and `share`
#' is `~/.local/share`; otherwise put `source <share>/bash-completion/completions/muster` into
#' `~/.bashrc`. For zsh put `fpath=(<share>/zsh/site-functions $fpath)` into `~/.zshrc`, before
#' `compinit`.
#'
#' @param dir Path of a folder, default `"~/.local/bin"`. It is created if it doesn't exist. If it
#'   isn't in `PATH`, a message says how to add it.
#' @param share Path of the folder for man page and completion, or `NULL` for none of them.
#'   Default: a folder `share` beside `dir` if `dir` is called `bin`, otherwise inside `dir`.
#' @returns The files' paths, invisibly: a character vector with the names `command` and, unless
#'   `share` is `NULL`, `man`, `bash` and `zsh`.
#' @section Errors:
#' `muster_error_input`: `dir` or `share` isn't a path, or can't be written to, or a file that
#' muster didn't write is in the way. Symbolic links count as such files. After an error, nothing
#' has been written.
#' @section Source:
#' The places are those of manpath(1), of bash-completion's README and of the XDG Base Directory
#' Specification.
#' @seealso [muster_cli()]
#' @examples
#' dir <- tempfile()
#' files <- muster_cli_install(dir)
#' system2(files[["command"]], "--version")
#' unlink(dir, recursive = TRUE)
#' @export
muster_cli_install <- function(dir = "~/.local/bin", share = default_share(dir)) {
  call <- sys.call()
  dir <- check_path(dir, "dir", call)
  share <- if (!is.null(share)) check_path(share, "share", call)
  texts <- list(command = command_script())
  files <- c(command = file.path(dir, "muster"))
  if (!is.null(share)) {
    texts <- c(texts, list(
      man = c(paste(".\\\"", install_mark), man_page()),
      bash = c(paste("#", install_mark), bash_completion()),
      zsh = c("#compdef muster", paste("#", install_mark), zsh_completion())
    ))
    files <- c(files, man = file.path(share, "man", "man1", "muster.1"),
      bash = file.path(share, "bash-completion", "completions", "muster"),
      zsh = file.path(share, "zsh", "site-functions", "_muster"))
  }
  check_own_files(files, call)
  for (name in names(files)) {
    install_file(texts[[name]], files[[name]], if (name == "command") "755" else "644", call)
  }
  # Folders exist now, so that their paths can be told in full.
  files <- stats::setNames(normalizePath(files), names(files))
  tell_installed(files)
  invisible(files)
}

default_share <- function(dir) {
  if (!is.character(dir) || length(dir) != 1L || is.na(dir)) {
    return(NULL) # `dir` is an error
  }
  beside <- basename(path.expand(dir)) == "bin"
  file.path(if (beside) dirname(path.expand(dir)) else dir, "share")
}

# muster recognizes its own files by this line.
install_mark <- "Written by muster::muster_cli_install(), which replaces it when called again."

check_path <- function(x, name, call) {
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x) || grepl("\n", x)) {
    abort_input(name, "the path of a folder", x, call)
  }
  path.expand(x)
}

check_own_files <- function(files, call) {
  foreign <- Filter(function(file) in_the_way(file), files)
  if (length(foreign)) {
    abort_muster("input", "Can't install the muster command: a file is in the way.",
      details = paste0(foreign, " wasn't written by muster_cli_install()."),
      hints = "Remove or rename it, or choose another folder.",
      file = unname(foreign), call = call
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
install_file <- function(lines, file, mode, call) {
  dir.create(dirname(file), recursive = TRUE, showWarnings = FALSE)
  new <- tempfile(".muster-", dirname(file))
  on.exit(unlink(new))
  written <- tryCatch(suppressWarnings({
    writeLines(lines, new)
    Sys.chmod(new, mode, use_umask = FALSE)
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

# ---- what the user is told

tell_installed <- function(files) {
  command <- files[["command"]]
  inform_muster("install", paste0("The muster command is ", command, "."),
    hints = c(path_hint(command), completion_hint(files)), files = files
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

completion_hint <- function(files) {
  if ("zsh" %in% names(files)) {
    paste0("Completion: in bash, source ", files[["bash"]], "; for zsh see ?muster_cli_install.")
  }
}
