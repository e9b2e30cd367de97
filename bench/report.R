# Where figures go: raw times to bench/raw/<name>.csv, the table of a question into
# its section of bench/README.md, both with what they were measured on.

# ---- What it was measured on -----------------------------------------------------------

facts <- function() {
  c(
    date = format(Sys.Date()),
    commit = commit_text(),
    machine = machine_text(),
    kernel = paste(Sys.info()[["sysname"]], sub("-.*", "", Sys.info()[["release"]])),
    R = as.character(getRversion()),
    versions_of(c(
      "muster", "parallelly", "mirai", "nanonext", "future", "future.apply", "crew",
      "multidplyr", "data.table"
    )),
    "load at start" = sub(" .*", "", readLines("/proc/loadavg", 1L))
  )
}

machine_text <- function() {
  cpu <- readLines("/proc/cpuinfo")
  model <- c(sub("^.*: *", "", grep("^model name", cpu, value = TRUE)), "unknown model")[1L]
  memory <- grep("^MemTotal:", readLines("/proc/meminfo"), value = TRUE)
  gib <- as.numeric(gsub("[^0-9]", "", memory)) / 1024^2
  sprintf("%d cores (%s), %.0f GiB", parallel::detectCores(), model, gib)
}

versions_of <- function(packages) {
  version <- function(package) {
    tryCatch(as.character(packageVersion(package)), error = function(e) "not installed")
  }
  vapply(packages, version, "")
}

# Reads only: git takes no lock.
commit_text <- function() {
  git <- function(...) {
    arguments <- c("--no-optional-locks", ...)
    tryCatch(
      suppressWarnings(system2("git", arguments, stdout = TRUE, stderr = FALSE)),
      error = function(e) character()
    )
  }
  commit <- git("rev-parse", "--short=12", "HEAD")
  if (length(commit) != 1L) {
    return("unknown")
  }
  changed <- length(git("status", "--porcelain", "--", "R", "src", "inst", "DESCRIPTION")) > 0L
  paste0(commit, if (changed) " with changes")
}

# ---- Raw times ---------------------------------------------------------------------------

write_raw <- function(name, raw, facts, quick) {
  dir.create("bench/raw", showWarnings = FALSE)
  file <- file.path("bench/raw", paste0(if (quick) "quick-", name, ".csv"))
  output <- file(file, "w")
  on.exit(close(output))
  writeLines(paste0("# ", names(facts), ": ", facts), output)
  raw$value <- signif(raw$value, 6L)
  write.csv(raw, output, row.names = FALSE)
}

# ---- The table -----------------------------------------------------------------------------

# A question's section, as lines of Markdown.
section <- function(name, question, result, facts) {
  command <- paste0("`Rscript bench/run.R ", name, "`")
  header <- c(
    "what", "muster", "beside it", "its figure", "ratio (interval)", "runs, coverage",
    "limit", "bar", "again"
  )
  cells <- cbind(as.matrix(result$rows), command)
  lines <- c(header_line(header), apply(cells, 1L, table_line))
  c(
    paste0("## ", name, ": ", question), "", lines, "",
    if (length(result$notes)) c(paste("-", result$notes), ""),
    paste0(paste(names(facts), facts, collapse = "; "), ".")
  )
}

table_line <- function(cells) paste0("| ", paste(cells, collapse = " | "), " |")
header_line <- function(header) c(table_line(header), table_line(rep("---", length(header))))

# Puts the section between its markers; the other sections stay as they are.
write_section <- function(name, lines, file = "bench/README.md") {
  text <- readLines(file)
  marks <- paste0("<!-- ", c("begin", "end"), ": ", name, " -->")
  at <- match(marks, text)
  if (anyNA(at) || at[1L] > at[2L]) {
    stop(file, " has no markers for ", name, call. = FALSE)
  }
  text <- c(text[seq_len(at[1L])], lines, text[at[2L]:length(text)])
  writeLines(text, paste0(file, ".new"))
  file.rename(paste0(file, ".new"), file)
}
