# What doctor() reads, and how its items report their findings.
#
# Each item is a function of a machine: the places of the kernel's trees, and readers for facts that
# aren't in files. Tests pass other trees and other readers. An item returns one finding, or a named
# list of them (one for each network card). If something can't be read, not_known() ends that item
# but not the others: its verdict is "unknown", its value the reason.

# proc, sys, cgroup: where these trees are mounted; etc: where the hosts file is.
# ...: other readers, by name.
doctor_machine <- function(proc = proc_place(), sys = sys_place(),
                           cgroup = file.path(sys, "fs", "cgroup"), ...) {
  machine <- list(
    proc = proc, sys = sys, cgroup = cgroup, etc = "/etc",
    listeners = function() known_or(.Call(ffi_diag_listeners)),
    counters = function() known_or(.Call(ffi_diag_counters, proc)),
    card = function(name) known_or(.Call(ffi_card, name)),
    disk = function(path) known_or(.Call(ffi_disk, path)),
    mappings = function() .Call(ffi_mappings, proc),
    features = function() .Call(ffi_features),
    built_with = function() .Call(ffi_built_with),
    threads = function() .Call(ffi_threads_count),
    cores = function() availableCores(),
    programs = function(names) Sys.which(names),
    variables = function() Sys.getenv(),
    loaded = function() loadedNamespaces(),
    blas = function() basename(extSoftVersion()[["BLAS"]]),
    tmpdir = dirname(tempdir()), host = Sys.info()[["nodename"]]
  )
  given <- list(...)
  machine[names(given)] <- given
  machine
}

# The same places for availableCores().
doctor_cores <- function(machine) {
  cores_machine(machine$proc, machine$cgroup, file.path(machine$sys, "devices", "system", "cpu"))
}

# C readers return a string with the reason if they have no value.
known_or <- function(value) if (is.character(value)) not_known(value) else value

not_known <- function(reason) abort_muster("unknown", reason)

# ---- reading

# Lines of a file, given by its path below a tree.
doctor_lines <- function(machine, tree, path) {
  file <- file.path(machine[[tree]], path)
  lines <- read_kernel_file(file)
  if (!length(lines)) {
    # With the path on a real machine, whatever the tree.
    not_known(paste0(file, if (file.exists(file)) " can't be read." else " isn't there."))
  }
  lines
}

# The whole numbers of a file's first line.
doctor_numbers <- function(machine, tree, path) {
  line <- doctor_lines(machine, tree, path)[1L]
  words <- strsplit(trimws(line), "[ \t]+")[[1L]]
  if (!length(words) || !all(grepl("^-?[0-9]+$", words))) {
    not_known(paste0(file.path(machine[[tree]], path), " holds no number."))
  }
  as.numeric(words)
}

doctor_number <- function(machine, tree, path) doctor_numbers(machine, tree, path)[1L]

# Lines "name number", "name: number kB" as a named numeric vector.
number_fields <- function(lines) {
  pattern <- "^([^ \t:]+):?[ \t]+([0-9]+)([ \t].*)?$"
  lines <- grep(pattern, lines, value = TRUE)
  stats::setNames(as.numeric(sub(pattern, "\\2", lines)), sub(pattern, "\\1", lines))
}

# ... or NA if that is unknown: for details of a finding.
or_na <- function(code) tryCatch(code, muster_error_unknown = function(e) NA_real_)

# ---- results of an item

# value: text. why: why it matters for a cluster, in sentences. command: what fixes it. figures: the
# numbers in value, each with a name and, if it has one, a unit: for JSON.
finding <- function(value, verdict, why, command = "", figures = numeric()) {
  list(value = value, verdict = verdict, why = why, command = command, figures = figures)
}

# Verdict of a number that is worse the higher it is, or the lower.
verdict_high <- function(x, attention, bad) {
  if (x >= bad) "bad" else if (x >= attention) "attention" else "good"
}
verdict_low <- function(x, attention, bad) {
  if (x < bad) "bad" else if (x < attention) "attention" else "good"
}

worst <- function(...) {
  verdicts <- c(...)
  c("bad", "attention", "good")[min(match(verdicts, c("bad", "attention", "good")))]
}

count_text <- function(x) format(round(x), big.mark = ",", decimal.mark = ".", trim = TRUE)
percent_text <- function(part) {
  if (part > 0 && part < 0.001) {
    return("below 0.1 %")
  }
  paste(format(100 * part, digits = 2L, decimal.mark = ".", scientific = FALSE), "%")
}

# Limits that are powers of 1024.
binary_text <- function(bytes) {
  power <- min(4, max(0, floor(log(max(bytes, 1), 1024))))
  number <- format(bytes / 1024^power, digits = 3L, decimal.mark = ".")
  paste(number, c("bytes", "KiB", "MiB", "GiB", "TiB")[power + 1])
}

set_sysctl <- function(name, value) paste0("sysctl -w ", name, "=", value)

# Lines for a file in /etc/sysctl.d that apply a command's setting at each boot: "net.core.somaxconn
# = 16384". Empty for other commands.
sysctl_file <- "/etc/sysctl.d/90-muster.conf"
sysctl_lines <- function(command) {
  if (!startsWith(command, "sysctl -w ")) {
    return(character())
  }
  pattern <- "[a-z0-9_.-]+=(\"[^\"]*\"|[^ \"]+)"
  settings <- regmatches(command, gregexpr(pattern, sub(" #.*$", "", command)))[[1L]]
  gsub("\"", "", sub("=", " = ", settings, fixed = TRUE), fixed = TRUE)
}

# A command, unless the verdict is good.
unless_good <- function(verdict, command) if (verdict == "good") "" else command
