# What scripts here share: tell() evaluates code and prints a canonical transcript: its
# value, each message and warning that was signalled, its error: classes, names of fields and
# the values of those that are the same in each run. Sourced by each script, which runs alone:
#   Rscript tests/transcripts/calls.R

Sys.setenv(LANGUAGE = "en")
options(width = 96L, warn = 1L, keep.source = FALSE, muster.quiet = FALSE,
  muster.checkpoints = FALSE) # when one is worth it is a matter of time
suppressPackageStartupMessages({
  library(parallel)
  library(muster)
})
folder <- tempfile("transcript-")
dir.create(folder)
path <- function(name) file.path(folder, name)

# Paths, process ids and times that stand in words.
masked <- function(text) {
  text <- gsub(folder, "<folder>", text, fixed = TRUE)
  text <- gsub("/tmp/[^ \"']*", "<path>", text)
  text <- gsub("pid [0-9]+", "pid <pid>", text)
  text <- gsub("<(pointer: )?0x[0-9a-f]+>", "<address>", text)
  gsub("[0-9.]+ (s|seconds)\\b", "<time> s", text)
}

words <- function(x) {
  if (inherits(x, "condition")) {
    return(paste0("<condition ", paste(class(x), collapse = "/"), ">"))
  }
  if (is.list(x) && any(vapply(x, inherits, NA, "condition"))) {
    return(paste0("list(", paste(vapply(x, words, ""), collapse = ", "), ")"))
  }
  masked(paste(trimws(deparse(x, 500L, control = c("keepNA", "keepInteger", "niceNames",
    "showAttributes"))), collapse = " "))
}

# Random numbers by their sum of bytes: 12 digits are the same on all machines.
digest <- function(x) {
  file <- path("digest")
  writeLines(c(paste(names(unlist(x)), collapse = " "), sprintf("%.12g", unlist(x))), file)
  paste0("<digest ", tools::md5sum(file)[[1L]], ">")
}

# Facts of a condition that don't depend on the run. Texts are told for the conditions of others.
stable <- c("element", "exit_code", "killed_by", "oom", "range", "results", "signal", "worker",
  "remote_call", "condition", "argument", "reference")
tell_condition <- function(what, condition) {
  cat(what, ": ", paste(class(condition), collapse = " "), "\n", sep = "")
  fields <- sort(setdiff(names(condition), c("message", "call")), method = "radix")
  for (field in fields) {
    value <- condition[[field]]
    known <- if (field %in% setdiff(stable, hidden)) words(value) else "-"
    cat("  ", field, " = ", known, "\n", sep = "")
    if (inherits(value, "condition")) cat("    ", masked(conditionMessage(value)), "\n", sep = "")
  }
  if (!any(startsWith(class(condition), "muster_"))) {
    cat("  ", masked(trimws(conditionMessage(condition))), "\n", sep = "")
  }
}

# show: how the value is printed. chance: fields that depend on which worker was free first.
hidden <- character()
tell <- function(label, code, show = words, chance = character()) {
  hidden <<- chance
  cat("## ", label, "\n", sep = "")
  told <- withCallingHandlers(
    tryCatch(cat("= ", show(code), "\n", sep = ""), error = function(e) tell_condition("error", e)),
    warning = function(w) {
      tell_condition("warning", w)
      invokeRestart("muffleWarning")
    },
    message = function(m) {
      tell_condition("message", m)
      invokeRestart("muffleMessage")
    }
  )
  invisible(told)
}

# For workers: waits for a file of the session's, or of another worker's.
wait_for <- function(file) {
  for (i in seq_len(3000L)) {
    if (file.exists(file)) {
      return(TRUE)
    }
    Sys.sleep(0.01) # tidy: waits for a file
  }
  FALSE
}

# Ends its worker at the first attempt, of which the file tells.
kill_once <- function(file, signal = 9L) {
  if (!file.exists(file)) {
    file.create(file)
    tools::pskill(Sys.getpid(), signal)
    Sys.sleep(30) # tidy: the worker's work
  }
  TRUE
}

# Kills a worker and waits until the system has done so.
kill_now <- function(node) {
  pid <- node$pid
  tools::pskill(pid, 9L)
  for (i in seq_len(3000L)) {
    stat <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "stat"))),
      error = function(e) "gone) Z "
    )
    if (!length(stat) || grepl("[)] [ZX] ", stat)) break
    Sys.sleep(0.01) # tidy: waits for an end
  }
}

for (name in c("wait_for", "kill_once")) {
  f <- get(name)
  environment(f) <- globalenv()
  assign(name, f, envir = globalenv())
}
reg.finalizer(environment(), function(e) unlink(folder, recursive = TRUE), onexit = TRUE)
