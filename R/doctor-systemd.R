# How other programs of the system affect sessions and their files: systemd's login manager and its
# out-of-memory daemon, cleaners of temporary directories, and whether the clock is right.

# The lines "Name=value" of a settings file and its drop-ins, as systemd reads them: sorted by name;
# a file in /etc replaces one of the same name in /run, and that one in /usr/lib. Empty if there are
# none.
systemd_lines <- function(machine, name) {
  roots <- file.path(c(machine$lib, machine$run, machine$etc), "systemd")
  main <- file.path(roots[c(1L, 3L)], name)
  main <- utils::tail(main[file.exists(main)], 1L)
  more <- conf_files(file.path(roots, paste0(name, ".d")))
  unlist(lapply(c(main, more), read_kernel_file))
}

# The settings files of several folders, sorted by name; for each name the one in the last folder.
conf_files <- function(folders) {
  # One by one: list.files() sorts by whole paths.
  files <- unlist(lapply(folders, list.files, "[.]conf$", full.names = TRUE))
  last <- files[!duplicated(basename(files), fromLast = TRUE)]
  last[order(basename(last), method = "radix")]
}

# The last value of a setting, NA if there is none. systemd's files give defaults in comments.
systemd_value <- function(lines, name, default = FALSE) {
  pattern <- paste0("^", if (default) "#[ \t]*", name, "[ \t]*=[ \t]*")
  found <- grep(pattern, lines, value = TRUE)
  if (length(found)) trimws(sub(pattern, "", found[length(found)])) else NA_character_
}

runs_systemd <- function(machine) dir.exists(file.path(machine$run, "systemd", "system"))

# Is there a process whose program has this name?
runs_program <- function(machine, name) {
  pids <- list.files(machine$proc, "^[0-9]+$")
  lines <- .Call(ffi_command_lines, file.path(machine$proc, pids, "cmdline"), name)
  any(grepl(paste0("^([^\n]*/)?", name, "(\n|$)"), lines[!is.na(lines)]))
}

doctor_logout <- function(machine) {
  why <- paste0(
    "With KillUserProcesses=yes, logging out ends everything that was started in that login, ",
    "also under nohup, screen and tmux: a session that computes overnight, and its workers."
  )
  lines <- systemd_lines(machine, "logind.conf")
  if (!length(lines) || !runs_systemd(machine)) {
    if (!dir.exists(machine$run)) not_known(paste0(machine$run, " isn't there."))
    return(finding("no logind", "good", why, figures = c(kill_user_processes = 0)))
  }
  set <- systemd_value(lines, "KillUserProcesses")
  if (is.na(set)) set <- systemd_value(lines, "KillUserProcesses", default = TRUE)
  kills <- if (is.na(set)) NA else tolower(set) %in% c("yes", "true", "on", "1", "y", "t")
  if (is.na(kills)) {
    not_known("logind.conf doesn't set KillUserProcesses.")
  }
  users <- function(name, default) {
    value <- systemd_value(lines, name)
    strsplit(if (is.na(value)) default else value, "[ \t]+")[[1L]]
  }
  only <- users("KillOnlyUsers", "")
  spared <- machine$user %in% users("KillExcludeUsers", "root") ||
    (any(nzchar(only)) && !machine$user %in% only)
  verdict <- if (kills && !spared) "attention" else "good"
  finding(
    paste0(
      "KillUserProcesses=", if (kills) "yes" else "no",
      if (kills && spared) paste0(", but not for ", machine$user)
    ),
    verdict, why,
    unless_good(verdict, paste0(
      "loginctl enable-linger && systemd-run --user --scope tmux # then start R in it"
    )),
    c(kill_user_processes = kills + 0, spared = spared + 0)
  )
}

# It kills a whole control group, that is, the session with all its workers, if the group waits for
# memory more than half of the time (its default limit is 50 or 60 % over 30 s).
doctor_oomd <- function(machine) {
  why <- paste0(
    "systemd-oomd kills a whole control group, a session with all of its workers, when the ",
    "group spends more than half of its time waiting for memory, before memory is used up."
  )
  if (!dir.exists(machine$proc)) not_known(paste0(machine$proc, " isn't there."))
  if (!length(list.files(machine$proc, "^[0-9]+$"))) {
    not_known(paste0(machine$proc, " lists no processes."))
  }
  is_there <- dir.exists(file.path(machine$run, "systemd", "oom")) ||
    runs_program(machine, "systemd-oomd")
  part <- or_na(memory_pressure(machine))
  if (!is_there) {
    return(finding("not running", "good", why, figures = c(running = 0, pressure = part)))
  }
  verdict <- if (is.na(part)) "good" else verdict_high(part, 0.1, 0.4)
  finding(
    paste0(
      "running, memory pressure ", if (is.na(part)) "not known" else percent_text(part)
    ),
    verdict, why,
    unless_good(verdict,
      "systemd-run --user --scope -p ManagedOOMPreference=omit R # or start fewer workers"),
    c(running = 1, pressure = part)
  )
}

# The share of the last 10 s in which all processes of the own group waited for memory.
memory_pressure <- function(machine) {
  groups <- controller_dirs(machine, "memory")
  parts <- vapply(file.path(groups$dirs, "memory.pressure"), function(file) {
    line <- grep("^full ", read_kernel_file(file), value = TRUE)
    pattern <- "^full avg10=([0-9.]+) .*$"
    found <- length(line) == 1L && grepl(pattern, line)
    if (found) suppressWarnings(as.numeric(sub(pattern, "\\1", line))) / 100 else NA_real_
  }, 0)
  # The own group's: the groups above it belong to others as well.
  own <- utils::tail(parts, 1L)
  if (is.na(own)) not_known("The control group has no memory.pressure.")
  unname(own)
}

# ---- cleaners of temporary directories

day_s <- 86400

doctor_tmp_cleaner <- function(machine) {
  cleaners <- list(
    tmpfiles = tmpfiles_age(machine), tmpreaper = tmpreaper_age(machine),
    tmpwatch = tmpwatch_age(machine)
  )
  ages <- vapply(cleaners, `[[`, 0, "age")
  from <- vapply(cleaners, `[[`, "", "from")
  why <- paste0(
    "R keeps files of a session and of its workers in a directory Rtmp... there. A cleaner ",
    "deletes files unused for longer than its limit, even those of running sessions."
  )
  if (!dir.exists(machine$etc)) not_known(paste0(machine$etc, " isn't there."))
  if (all(is.na(ages))) {
    return(finding(paste("none for", machine$tmpdir), "good", why, figures = c(age_s = Inf)))
  }
  at <- which.min(ages)
  verdict <- verdict_low(ages[[at]], 7 * day_s, day_s)
  finding(
    paste0(machine$tmpdir, ": files unused for ", span_text(ages[[at]]), " go (", from[[at]], ")"),
    verdict, why,
    unless_good(verdict, c(
      "echo 'x /tmp/Rtmp*' > /etc/tmpfiles.d/R.conf",
      "echo \"TMPREAPER_PROTECT_EXTRA='/tmp/Rtmp*'\" >> /etc/tmpreaper.conf",
      "export TMPDIR=/another/directory # before R starts"
    )[at]),
    c(age_s = ages[[at]])
  )
}

no_cleaner <- list(age = NA_real_, from = "")

# systemd-tmpfiles: the age of the line for the directory, or the nearest one above it.
tmpfiles_age <- function(machine) {
  folders <- c(
    file.path(machine$lib, "tmpfiles.d"), file.path(machine$run, "tmpfiles.d"),
    file.path(machine$etc, "tmpfiles.d")
  )
  files <- conf_files(folders)
  if (!length(files) || !runs_systemd(machine)) {
    return(no_cleaner)
  }
  words <- unlist(lapply(files, function(file) {
    lines <- grep("^[ \t]*[A-Za-z]", read_kernel_file(file), value = TRUE)
    lapply(strsplit(trimws(lines), "[ \t]+"), function(line) c(basename(file), line))
  }), recursive = FALSE)
  field <- function(i) vapply(words, `[`, "", i)
  kinds <- gsub("[^A-Za-z]", "", field(2L))
  paths <- sub("(.)/$", "\\1", gsub("\"", "", field(3L), fixed = TRUE))
  kept <- kinds %in% c("x", "X") & covers_session(paths, machine$tmpdir)
  cleans <- kinds %in% c("d", "D", "e", "v", "q", "Q") & above(paths, machine$tmpdir)
  if (any(kept) || !any(cleans)) {
    return(no_cleaner)
  }
  # The line of the nearest directory applies, and the first of several for one path.
  at <- which(cleans)[which.max(nchar(paths[cleans]))]
  list(
    age = tmpfiles_span(words[[at]][7L]), from = paste("systemd-tmpfiles,", words[[at]][1L])
  )
}

# Is a path the directory, or one above it?
above <- function(paths, dir) {
  !is.na(paths) & startsWith(paste0(dir, "/"), paste0(sub("/$", "", paths), "/"))
}

# Does a pattern spare the directories of R's sessions?
covers_session <- function(patterns, dir) {
  session <- file.path(dir, "RtmpAbc123")
  patterns[is.na(patterns)] <- ""
  spared <- vapply(patterns, function(pattern) {
    nzchar(pattern) && grepl(utils::glob2rx(pattern), session)
  }, NA, USE.NAMES = FALSE)
  spared | (patterns == dir)
}

# "10d", "1h30min", "~5d", "m:30s" in seconds; NA if missing or invalid.
tmpfiles_span <- function(text) {
  text <- sub("^([abcmABCM]+:)?~?", "", if (is.na(text)) "-" else text)
  if (!grepl("^([0-9]+[a-z]*)+$", text)) {
    return(NA_real_)
  }
  parts <- regmatches(text, gregexpr("[0-9]+[a-z]*", text))[[1L]]
  numbers <- as.numeric(sub("[a-z]*$", "", parts))
  units <- sub("^[0-9]+", "", parts)
  size <- c(1, 1, 60, 60, 3600, 3600, day_s, 7 * day_s, 1e-3, 1e-6)
  names <- c("", "s", "m", "min", "h", "hr", "d", "w", "ms", "us")
  sum(numbers * size[match(units, names)])
}

# Debian's tmpreaper: a daily job that does nothing while SHOWWARNING is true.
tmpreaper_age <- function(machine) {
  lines <- read_kernel_file(file.path(machine$etc, "tmpreaper.conf"))
  value <- function(name) {
    text <- systemd_value(lines, name)
    if (is.na(text)) "" else gsub("['\"]|[ \t]*#.*$", "", text)
  }
  dirs <- strsplit(value("TMPREAPER_DIRS"), "[ \t]+")[[1L]]
  dirs <- sub("(/[.])?/*$", "", if (length(dirs)) dirs else "/tmp")
  spares <- strsplit(value("TMPREAPER_PROTECT_EXTRA"), "[ \t]+")[[1L]]
  runs <- file.exists(file.path(machine$etc, "cron.daily", "tmpreaper"))
  if (!length(lines) || !runs || tolower(value("SHOWWARNING")) == "true" ||
        !any(above(dirs, machine$tmpdir)) || any(covers_session(spares, machine$tmpdir))) {
    return(no_cleaner)
  }
  set <- value("TMPREAPER_TIME")
  list(age = tmpfiles_span(if (nzchar(set)) set else "7d"), from = "tmpreaper")
}

# Red Hat's tmpwatch, before 7: a daily script with ages in its command line.
tmpwatch_age <- function(machine) {
  lines <- read_kernel_file(file.path(machine$etc, "cron.daily", "tmpwatch"))
  pattern <- "^.*[ \t]([0-9]+[dhm])[ \t]+(.*[ \t])?/tmp([ \t].*)?$"
  found <- grep(pattern, lines, value = TRUE)
  if (!length(found) || !above("/tmp", machine$tmpdir)) {
    return(no_cleaner)
  }
  list(age = tmpfiles_span(sub(pattern, "\\1", found[1L])), from = "tmpwatch")
}

# ---- the clock

doctor_clock_sync <- function(machine) {
  found <- machine$clock_sync()
  synced <- found[1L] != 0
  finding(
    if (synced) {
      paste0("synchronised, wrong by at most ", seconds_text(found[2L], 2L))
    } else {
      "not synchronised"
    },
    if (synced) "good" else "attention",
    paste0(
      "Hosts of a cluster need the same time: otherwise logs can't be compared, certificates ",
      "are refused, and files on a network look older or newer than they are."
    ),
    if (synced) "" else "systemctl enable --now systemd-timesyncd # or chrony; in a VM on its host",
    c(synchronised = synced + 0, error_s_max = if (synced) found[2L] else NA_real_)
  )
}
