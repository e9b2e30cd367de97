# The kernel's counters. A count since boot doesn't tell when something happened: only two readings
# show what happens now. So a count that grew between them is bad, and a count since boot needs
# attention only if it is high for that time.

# One reading. A value that can't be read is replaced by the reason, or NA.
doctor_look <- function(machine) {
  list(
    counters = tryCatch(machine$counters(), error = conditionMessage),
    listeners = tryCatch(machine$listeners(), error = conditionMessage),
    cgroup_oom = tryCatch(cgroup_oom_kills(machine), error = function(e) NA_real_),
    cgroup_cpu = tryCatch(cgroup_cpu_stat(machine), error = function(e) cpu_stat_none),
    system_oom = tryCatch(system_oom_kills(machine), error = function(e) NA_real_),
    uptime_s = uptime(machine), time = proc.time()[["elapsed"]]
  )
}

# Seconds since boot, NA if unknown.
uptime <- function(machine) {
  line <- read_kernel_file(file.path(machine$proc, "uptime"))[1L]
  pattern <- "^([0-9]+([.][0-9]+)?)( .*)?$"
  if (length(line) && grepl(pattern, line)) as.numeric(sub(pattern, "\\1", line)) else NA_real_
}

# The machine with two readings: now, and before if there was an interval.
look_twice <- function(machine, interval) {
  before <- NULL
  if (interval > 0) {
    before <- doctor_look(machine)
    Sys.sleep(interval)
  }
  machine$now <- doctor_look(machine)
  machine$before <- before
  machine$seconds <- if (is.null(before)) 0 else machine$now$time - before$time
  machine
}

# A counter now, and its growth: list(total, grown); grown is NA without an interval.
counted <- function(machine, name) counted_by(machine, function(look) counter_at(look, name))

counted_by <- function(machine, read) {
  total <- read(machine$now)
  grown <- if (is.null(machine$before)) NA_real_ else total - read(machine$before)
  list(total = total, grown = grown)
}

counter_at <- function(look, name) {
  if (is.character(look$counters)) {
    not_known(look$counters)
  }
  value <- look$counters[name]
  if (is.na(value)) {
    not_known(paste0("This kernel doesn't count ", name, "."))
  }
  unname(value)
}

# A burst of connections that overflows a queue counts hundreds; stray ones are a few per day.
tcp_a_day <- 100
# An average of more than one out-of-memory kill per day isn't an accident.
kills_a_day <- 1

# Without an interval only the average since boot is known; on the first day, the total.
counted_verdict <- function(machine, count, a_day) {
  if (!is.na(count$grown)) {
    return(if (count$grown > 0) "bad" else "good")
  }
  if (often_since_boot(machine, count$total, a_day)) "attention" else "good"
}

often_since_boot <- function(machine, total, a_day) {
  days <- machine$now$uptime_s / 86400
  total > 0 && total >= a_day * max(1, days, na.rm = TRUE)
}

# "12 in the 3 days since boot, 2 of them in the last 5 s".
counted_text <- function(machine, count, since = since_boot(machine)) {
  paste0(
    count_text(count$total), " ", since,
    if (!is.na(count$grown)) {
      paste0(
        ", ", if (count$grown == 0) "none" else count_text(count$grown), " of them in the last ",
        seconds_text(machine$seconds, 2L)
      )
    }
  )
}

since_boot <- function(machine) {
  seconds <- machine$now$uptime_s
  if (is.na(seconds)) "since boot" else paste("in the", span_text(seconds), "since boot")
}

# "50 s", "3 hours", "12 days".
span_text <- function(seconds) {
  if (seconds < 120) {
    return(paste(round(seconds), "s"))
  }
  size <- c(minutes = 60, hours = 3600, days = 86400)
  unit <- max(which(seconds >= 2 * size))
  paste(count_text(seconds / size[[unit]]), names(size)[unit])
}

counted_figures <- function(machine, count) {
  c(
    total = count$total, since_boot_s = machine$now$uptime_s,
    grown = count$grown, interval_s = if (is.na(count$grown)) NA_real_ else machine$seconds
  )
}
