# Ctrl-C at random moments of starts, typed at a terminal: the prompt comes back, nothing is left.
# MUSTER_MOMENTS: how many for each launcher.

source("../testthat/helper-terminal.R", local = TRUE)

# An interactive R at a terminal of script(1): list(type, has, mark, tmpdir). type(text) types it;
# has(text) waits until its output since the last time has that text, and gives the seconds.
typed_session <- function(frame = parent.frame()) {
  out <- tempfile()
  tmpdir <- local_folder(frame)
  mark <- basename(tempfile("mark-"))
  local_variables(TERM = "xterm", R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = tmpdir,
    MUSTER_TEST_MARK = mark)
  R <- paste("stty -echo;", r_command("-q --no-save --no-restore --no-readline"))
  terminal <- pipe(paste("exec script -fqec", shQuote(R), "/dev/null >", out, "2>&1"), "w")
  defer(function() {
    for (pid in marked_pids(list(mark = mark))) tools::pskill(pid, tools::SIGKILL)
    suppressWarnings(close(terminal))
    unlink(out)
  }, frame)
  seen <- 0
  has <- function(text) {
    begun <- proc.time()[["elapsed"]]
    wait_until({
      bytes <- if (file.exists(out)) readBin(out, "raw", 1e8) else raw()
      at <- grepRaw(text, bytes, offset = seen + 1, fixed = TRUE)
      length(at) > 0L
    })
    seen <<- at + nchar(text) - 1
    proc.time()[["elapsed"]] - begun
  }
  type <- function(text) {
    writeChar(text, terminal, eos = NULL)
    flush(terminal)
  }
  list(type = type, has = has, mark = mark, tmpdir = tmpdir)
}

# A launcher as code, and the text of what it starts. command: that of a host.
starts <- c(
  fork = "2", many = "16", spawn = "2, start = 'spawn'",
  command = "list(1, launch_command(command, 2, 'far'))",
  queue = "launch_command(paste('srun -u -n1 -J one --partition=full', command), 1, 'far')",
  slurm = "launch_slurm(jobs = 1, workers = 1)",
  pending = "launch_slurm(jobs = 1, workers = 1, partition = 'full')"
)

# A host by ssh, as far as there is an sshd: code for the session, with its mark and its directory.
ssh_start <- function(session, frame = parent.frame()) {
  there <- tryCatch(local_sshd(frame = frame), skip = function(e) NULL)
  if (is.null(there)) {
    return(NULL)
  }
  args <- list(there$host, 1L,
    prologue = c(host_prologue(), paste0("export MUSTER_TEST_MARK=", session$mark),
      paste0("export TMPDIR=", shQuote(session$tmpdir))),
    rscript = file.path(R.home("bin"), "Rscript"), options = there$options
  )
  file <- tempfile()
  saveRDS(args, file)
  c(ssh = paste0("do.call(launch_ssh, readRDS(", deparse(file), "))"))
}

test_that("E Ctrl-C at any moment of a start gives the prompt, and leaves nothing", {
  skip_without_terminal()
  local_seed(61)
  clients <- local_clients()
  moments <- as.integer(Sys.getenv("MUSTER_MOMENTS", "10"))
  session <- typed_session()
  session$type(paste0(
    "suppressMessages(library(muster)); command <- ",
    paste(deparse(sub("exec ", "", host_command()), 500L), collapse = ""),
    "; cluster_stop(cluster_start(2)); cat('rea', 'dy\\n', sep = '')\n"
  ))
  session$has("ready")
  before <- length(marked_pids(session))
  files <- list.files(session$tmpdir)
  slowest <- 0
  starts <- c(starts, ssh_start(session))
  for (name in names(starts)) {
    for (i in seq_len(moments)) {
      session$type(paste0("cl <- cluster_start(", starts[[name]], ")\n"))
      Sys.sleep(stats::runif(1, 0, 1.5)) # tidy: the moment
      session$type("\003")
      session$type("cat('pro', 'mpt\\n', sep = '')\n")
      slowest <- max(slowest, session$has("prompt"))
      session$type("if (exists('cl')) { cluster_stop(cl); rm(cl) }; cat('go', 'ne\\n', sep = '')\n")
      session$has("gone")
    }
    pending <- file.path(clients, "pending")
    wait_until(length(marked_pids(session)) <= before && !file.exists(pending))
    expect_lte(length(marked_pids(session)), before, label = name)
    expect_false(file.exists(pending), label = name)
    expect_identical(setdiff(list.files(session$tmpdir), files), character(), label = name)
  }
  message("The slowest prompt came after ", format(slowest, digits = 2), " s.")
  session$type("cluster_stop(cluster_start(1)); cat('still ', 'works\\n', sep = '')\n")
  session$has("still works")
})
