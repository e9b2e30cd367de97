# Workers that outlived their session. muster's own end with it, even stopped ones: only a process
# that a worker started in a new session (setsid), or one that can't be killed now (a frozen group,
# a hanging file system), can be left. Workers of makeCluster() are left while they compute.
#
# They are recognized by their command lines: muster's by the session's process id after boot.R,
# parallel's by the function that they run. They are shown but never killed: a process id doesn't
# tell whose work would be lost.

doctor_leftover <- function(machine) {
  marked <- marked_processes(machine)
  left <- c(leftover_muster(machine, marked), leftover_psock(machine, marked))
  pids <- names(left)
  shown <- utils::head(left, 10L)
  finding(
    if (length(left)) {
      paste0(
        paste0(names(shown), " (", shown, ")", collapse = ", "),
        if (length(left) > length(shown)) paste(" and", length(left) - length(shown), "more")
      )
    } else {
      "none"
    },
    if (length(left)) "attention" else "good",
    "Workers whose session is gone hold memory and CPU, and nobody waits for their answers.",
    if (length(left)) paste("kill -KILL", paste(pids, collapse = " ")) else "",
    c(processes = length(left))
  )
}

# Command lines with one of the marks, one word per line, by process id.
marked_processes <- function(machine) {
  pids <- list.files(machine$proc, "^[0-9]+$")
  if (!length(pids)) {
    not_known(paste0(machine$proc, " lists no processes."))
  }
  lines <- .Call(ffi_command_lines, file.path(machine$proc, pids, "cmdline"),
    c("boot.R\n--args\n", ":::.workRSOCK", ":::.slaveRSOCK"))
  names(lines) <- pids
  lines[!is.na(lines)]
}

leftover_muster <- function(machine, marked) {
  found <- character()
  for (pid in names(marked)) {
    words <- strsplit(marked[[pid]], "\n", fixed = TRUE)[[1L]]
    at <- match("--args", words)
    session <- words[at + 2L]
    is_ours <- !is.na(at) && words[at + 1L] %in% c("server", "worker") &&
      grepl("^[0-9]+$", session)
    if (is_ours && !has_session(machine, pid, session)) {
      found[pid] <- paste("of session", session)
    }
  }
  found
}

# Is there a session with this process id that began before the worker did? TRUE if unknown: in
# another process namespace the id means another process.
has_session <- function(machine, pid, session) {
  status <- read_kernel_file(file.path(machine$proc, pid, "status"))
  ids <- strsplit(grep("^NSpid:", status, value = TRUE), "[ \t]+")
  if (!length(status) || (length(ids) && length(ids[[1L]]) > 2L)) {
    return(TRUE)
  }
  began <- began_at(machine, pid)
  session_began <- began_at(machine, session)
  is.na(began) || (!is.na(session_began) && session_began <= began)
}

# Start time in clock ticks since boot; NA for a zombie or a process that is gone.
began_at <- function(machine, pid) {
  line <- read_kernel_file(file.path(machine$proc, pid, "stat"))[1L]
  words <- strsplit(sub("^.*[)] ", "", line), " ", fixed = TRUE)[[1L]]
  if (length(words) < 20L || words[1L] %in% c("Z", "X")) NA_real_ else as.numeric(words[20L])
}

# A worker of makeCluster() has one TCP connection, to its session. When the session is gone the
# other end is closed, which the worker notices when it next reads.
leftover_psock <- function(machine, marked) {
  found <- character()
  for (pid in names(marked)[grepl("RSOCK", marked, fixed = TRUE)]) {
    states <- tcp_states(machine, pid)
    if (length(states) && all(states == "08")) {
      found[pid] <- "of makeCluster()"
    }
  }
  found
}

# States of a process's TCP connections, as in /proc/net/tcp; none if its descriptors can't be read.
tcp_states <- function(machine, pid) {
  fds <- list.files(file.path(machine$proc, pid, "fd"), full.names = TRUE)
  links <- Sys.readlink(fds)
  inodes <- sub("^socket:\\[([0-9]+)\\]$", "\\1", links[grepl("^socket:", links)])
  if (!length(inodes)) {
    return(character())
  }
  tables <- file.path(machine$proc, "net", c("tcp", "tcp6"))
  lines <- unlist(lapply(tables, function(table) read_kernel_file(table)[-1L]))
  words <- strsplit(trimws(lines), "[ \t]+")
  words <- words[lengths(words) >= 10L]
  inode <- vapply(words, `[`, "", 10L)
  vapply(words, `[`, "", 4L)[inode %in% inodes]
}
