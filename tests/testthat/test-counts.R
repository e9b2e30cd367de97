# What a call, a task, a piece and a loss cost, counted: instructions, system calls and bytes are
# nearly the same on each machine, however busy it is. Each limit is what was counted when it was
# set, and some per cent. A change that needs more raises the limit, and its message says so.

skip_without_command <- function(command) {
  skip_if_limited()
  skip_on_cran()
  if (!nzchar(Sys.which(command))) skip(paste("there is no", command))
}

# Runs a session with a cluster `cl` and a function `f`, below another program.
run_below <- function(command, args, code, folder) {
  script <- file.path(folder, "script.R")
  writeLines(c(
    "suppressMessages(library(muster))",
    # No fork server that warms up meanwhile.
    "utils::assignInNamespace(\"early_workers_max\", 0L, \"muster\")",
    "cl <- cluster_start(2)",
    "f <- compiler::cmpfun(function(i) i)",
    "rounds <- function(n, op) eval(bquote(for (k in seq_len(.(n))) .(op)), globalenv())",
    code, "cluster_stop(cl)"
  ), script)
  log <- file.path(folder, "log")
  # Each variable costs a task some instructions.
  local_variables(MUSTER_TEST_HOST = NA)
  status <- system2(command, c(args, shQuote(script)), stdout = log, stderr = log)
  if (status != 0L) skip(paste(command, "fails here:", tail(readLines(log), 1L)))
}

local_folder <- function(frame = parent.frame()) {
  folder <- tempfile("counts")
  dir.create(folder)
  defer(function() unlink(folder, recursive = TRUE), frame)
  folder
}

# ---- instructions

# The instructions of the session for each of some operations, named. What 1,100 rounds take more
# than 100, since the loop is compiled first.
count_instructions <- function(ops) {
  folder <- local_folder()
  mark <- "invisible(.Call(muster:::ffi_is_unknown, globalenv(), \"f\"))"
  rounds <- function(op, n) sprintf("rounds(%dL, quote(%s))", n, op)
  counted <- lapply(ops, function(op) {
    c(rep(rounds(op, 20L), 5L), mark, rounds(op, 100L), mark, rounds(op, 1100L), mark)
  })
  below <- paste0("valgrind --tool=callgrind --dump-before=ffi_is_unknown ",
    "--callgrind-out-file=", folder, "/counts"
  )
  run_below(
    file.path(R.home("bin"), "R"), c("--vanilla", "-s", "-d", shQuote(below), "-f"),
    unlist(counted), folder
  )
  files <- file.path(folder, paste0("counts.", seq_len(3L * length(ops))))
  totals <- vapply(files, function(file) {
    as.numeric(sub("totals: ", "", grep("^totals: ", readLines(file), value = TRUE)))
  }, 0, USE.NAMES = FALSE)
  totals <- matrix(totals, 3L)
  setNames(round((totals[3L, ] - totals[2L, ]) / 1000), names(ops))
}

test_cluster("W: a task takes no more instructions in the session than it did", {
  skip_without_command("valgrind")
  skip_if_not(getRversion() >= "4.2.0" && getRversion() < "4.3.0", "counted on R 4.2")
  counted <- count_instructions(c(
    submit = "task_submit(cl, f, 1)",
    value = "{ if (k == 1L) done <- task_submit(cl, f, 1); task_value(done) }"
  ))
  # Two weeks of small additions had made them 62,900 and 25,000. 2,000 are the comparison of
  # options and variables with the last task's.
  expect_lt(counted[["submit"]], 34800)
  expect_lt(counted[["value"]], 9500)
})

# ---- system calls and bytes

# For each of some operations, n times: the system calls that didn't only find that nothing is
# there yet, and the bytes that were sent; by the session's thread, and by all others.
count_system_calls <- function(ops, n = 100L) {
  folder <- local_folder()
  trace <- file.path(folder, "trace")
  rounds <- function(op, n) sprintf("rounds(%dL, quote(%s))", n, op)
  counted <- lapply(names(ops), function(name) {
    mark <- sprintf("invisible(file.exists(\"counts-%s\"))", name)
    c(rounds(ops[[name]], 10L), mark, rounds(ops[[name]], n), mark)
  })
  run_below(
    "strace", c("-f", "-o", trace, file.path(R.home("bin"), "Rscript"), "--vanilla"),
    unlist(counted), folder
  )
  lines <- readLines(trace, warn = FALSE)
  vapply(names(ops), function(name) {
    at <- grep(sprintf("\"counts-%s\"", name), lines)
    session <- sub(" .*", " ", lines[at[1L]])
    between <- lines[seq(at[1L] + 1L, at[length(at)] - 1L)]
    found <- !grepl("EAGAIN|Timeout|unfinished|epoll_wait.* = 0$", between)
    own <- startsWith(between, session)
    sends <- grepl("(sendmsg|write).* = [0-9]+$", between)
    sent <- function(lines) sum(as.numeric(sub(".* = ", "", lines)))
    c(
      session = sum(found & own), others = sum(found & !own),
      sent = sent(between[sends & own]), answered = sent(between[sends & !own])
    ) / n
  }, double(4L))
}

test_cluster("W: calls, tasks, maps and losses make no more system calls than they did", {
  skip_without_command("strace")
  counted <- count_system_calls(c(
    call = "clusterCall(cl, f, 1)", task = "task_value(task_submit(cl, f, 1))",
    map = "cluster_map(cl, 1:100, f)"
  ))
  # One for each task or piece asks for the working directory.
  expect_true(all(counted["session", ] < c(11, 9, 80)))
  expect_true(all(counted["others", ] < c(17, 9.5, 105)))
  expect_true(all(counted["sent", ] < c(530, 270, 2300)))
  expect_true(all(counted["answered", ] < c(500, 95, 3400)))
  lost <- count_system_calls(c(
    loss = "{ tools::pskill(clusterCall(cl[1], Sys.getpid)[[1]], 9L); clusterCall(cl, f, 1) }"
  ), 10L)
  expect_true(all(lost < c(320, 420, 15000, 4000)))
})
