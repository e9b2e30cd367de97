# Runs the scripts in tests/transcripts/ against the installed muster and compares what each
# prints, and what goes over the wire in wire.R, with tests/transcripts/expected/:
#   Rscript tools/transcripts.R [--record DIRECTORY] [SCRIPT...]
# --record writes what came there instead. The transcripts are of 0.1.0's last commit but for
# what tests/transcripts/CHANGES.md names, with the reasons.
# Each section of a transcript is one test. Linux only: reads /proc.

arguments <- commandArgs(trailingOnly = TRUE)
record <- NULL
if (length(arguments) >= 2L && arguments[1L] == "--record") {
  record <- normalizePath(arguments[2L], mustWork = TRUE)
  arguments <- arguments[-(1:2)]
}
home <- "tests/transcripts"
scripts <- c("calls", "recv", "random", "tasks", "losses", "nodes", "map", "wire")
if (length(arguments)) scripts <- arguments
counts <- c(passed = 0L, failed = 0L, skipped = 0L)
note <- function(verdict, text = NULL) {
  counts[verdict] <<- counts[verdict] + 1L
  if (length(text)) cat(verdict, ": ", text, "\n", sep = "")
}
done <- function() {
  cat(sprintf("transcripts: %d passed, %d failed, %d skipped\n",
    counts[["passed"]], counts[["failed"]], counts[["skipped"]]))
  quit("no", status = as.integer(counts[["failed"]] > 0L))
}
if (!file.exists("/proc/self/stat")) {
  note("skipped", "there is no /proc")
  done()
}
folder <- tempfile("transcripts-")
dir.create(folder)

# ---- the wire

# The library that records frames, or NULL where there is no compiler.
build_recorder <- function() {
  library <- file.path(folder, "wire.so")
  compiler <- Sys.getenv("CC", "cc")
  words <- c("-std=gnu11", "-O1", "-shared", "-fPIC", "-o", library, file.path(home, "wire.c"),
    "-ldl", "-lpthread")
  status <- suppressWarnings(system2(compiler, words))
  if (status == 0L) library
}

# Payloads of these kinds have pids, paths and builds in them: HELLO, SETUP, READY, FAILED,
# STATE and the fork server's.
private_kinds <- c(1:4, 11L, 32:37)
kind_names <- c(`1` = "HELLO", `2` = "SETUP", `3` = "READY", `4` = "FAILED", `5` = "EXEC",
  `6` = "VALUE", `7` = "BYE", `8` = "REFUSE", `9` = "SEED", `10` = "CHECKPOINT",
  `11` = "CHECKPOINTED",
  `12` = "JOB", `13` = "DROP", `18` = "CANCEL", `19` = "LINK", `32` = "SERVER_READY",
  `34` = "FORK", `35` = "FORKED", `36` = "FORK_FAILED", `37` = "EXITED")
bytes_by_r <- "R bytes: "

# What R's bytes depend on besides the objects.
bytes_key <- function() paste0(bytes_by_r, getRversion(), ", ", .Platform$endian)

# Frames by channel: what a channel carries in each direction has an order, both together don't.
# The fork server's frames about several workers have none.
wire_transcript <- function(file) {
  frames <- utils::read.table(file, col.names = c("channel", "way", "kind", "flags", "attempt",
    "cluster", "worker", "epoch", "call", "length", "hash"), colClasses = "character")
  # Signs of life; and signals to what a lost worker may have left, which aren't sent if its end is
  # heard before that of its channel.
  frames <- frames[!frames$kind %in% c("16", "17", "38"), ]
  # A cluster's first job is its tasks' context, which has the session's directory.
  private <- frames$kind %in% private_kinds | (frames$kind == "12" & frames$call == "1")
  frames$length[private] <- "-"
  frames$hash[private] <- "-"
  form <- paste("%-12s flags %s attempt %s cluster %s worker %s epoch %s call %s",
    "length %s hash %s")
  lines <- sprintf(form, kind_names[frames$kind], frames$flags, frames$attempt, frames$cluster,
    frames$worker, frames$epoch, frames$call, frames$length, frames$hash)
  channels <- split(seq_len(nrow(frames)), frames$channel)
  names(channels) <- vapply(channels, channel_name, "", frames)
  channels <- channels[order(names(channels), method = "radix")]
  c(bytes_key(), unlist(lapply(names(channels), function(name) {
    at <- channels[[name]]
    lapply(c("sent", "received"), function(way) {
      told <- lines[at[frames$way[at] == way]]
      if (name == "server") told <- sort(told, method = "radix")
      c(paste("##", name, way), told)
    })
  })))
}

# The first frame that the session sends tells whose channel it is.
channel_name <- function(at, frames) {
  kinds <- as.integer(frames$kind[at])
  if (any(kinds >= 32L)) {
    return("server")
  }
  first <- at[frames$way[at] == "sent"][1L]
  sprintf("%s of worker %s.%s.%s", if (any(kinds %in% 18:19)) "control" else "data",
    frames$cluster[first], frames$worker[first], frames$epoch[first])
}

# Another R writes other bytes: their lengths and hashes say nothing then.
without_bytes <- function(lines) sub(" length .*$", "", lines[!startsWith(lines, bytes_by_r)])

# ---- scripts

run_script <- function(script, recorder) {
  out <- file.path(folder, paste0(script, ".out"))
  frames <- file.path(folder, paste0(script, ".frames"))
  variables <- c("LC_ALL=C.UTF-8",
    if (script == "wire") paste0(c("MUSTER_WIRE=", "LD_PRELOAD="), c(frames, recorder)))
  err <- file.path(folder, paste0(script, ".err"))
  status <- system2("env", shQuote(c(variables, file.path(R.home("bin"), "Rscript"),
    file.path(home, paste0(script, ".R")))), stdout = out, stderr = err)
  lines <- readLines(out, encoding = "UTF-8", warn = FALSE)
  # What a worker says of itself at its end.
  lines <- lines[!grepl("^worker [0-9]+: ", lines)]
  if (status != 0L) {
    lines <- c(lines, paste("ended with status", status))
    writeLines(utils::tail(readLines(err, warn = FALSE), 20L))
  }
  if (script == "wire" && file.exists(frames)) lines <- c(lines, wire_transcript(frames))
  lines
}

# Lists of lines, one for each section, named by its first line.
sections <- function(lines) {
  first <- startsWith(lines, "## ")
  number <- cumsum(first)
  parts <- split(lines, factor(number, levels = unique(number)))
  names(parts) <- make.unique(vapply(parts, `[`, "", 1L))
  parts
}

compare <- function(script, lines, expected) {
  if (script == "wire" && !identical(lines[startsWith(lines, bytes_by_r)],
    expected[startsWith(expected, bytes_by_r)])) {
    lines <- without_bytes(lines)
    expected <- without_bytes(expected)
    note("skipped", "wire: payloads are compared by the R that recorded them only")
  }
  got <- sections(lines)
  wanted <- sections(expected)
  for (name in union(names(wanted), names(got))) {
    if (identical(got[[name]], wanted[[name]])) {
      note("passed")
    } else {
      note("failed", c(script, ", ", name))
      show_difference(wanted[[name]], got[[name]])
    }
  }
}

show_difference <- function(wanted, got) {
  files <- file.path(folder, c("wanted", "got"))
  writeLines(as.character(wanted), files[1L])
  writeLines(as.character(got), files[2L])
  writeLines(suppressWarnings(system2("diff", shQuote(c("-u", files)), stdout = TRUE))[-(1:3)])
}

recorder <- NULL
for (script in scripts) {
  if (script == "wire") {
    recorder <- build_recorder()
    if (is.null(recorder)) {
      note("skipped", "wire: there is no compiler that makes a shared library")
      next
    }
  }
  lines <- run_script(script, recorder)
  to <- if (is.null(record)) file.path(home, "expected") else record
  file <- file.path(to, paste0(script, ".txt"))
  if (is.null(record)) {
    compare(script, lines, readLines(file, encoding = "UTF-8"))
  } else {
    writeLines(lines, file)
  }
}
unlink(folder, recursive = TRUE)
done()
