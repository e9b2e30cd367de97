# Progress as users see it: on a terminal, in a file, in documents and tests; and what workers
# tell before their answer.

piece_of_line <- "[0-9]+/[0-9]+ \\|"

test_cluster("worker output, messages and errors never break the line of progress", {
  skip_without_terminal()
  bytes <- terminal_bytes(user_code(c(
    "cl <- cluster_start(2)",
    "x <- cluster_map(cl, 1:60, function(i) {",
    "  if (i %% 20 == 0) cat('hello from', i, '\\n')",
    "  if (i == 50) tools::pskill(Sys.getpid(), 9L)",
    "  Sys.sleep(0.04)",
    "}, .progress = 'Fitting\\nmodels', .on_error = 'return')",
    "cat('MAP\\n')",
    "x <- try(cluster_map(cl, 1:60, function(i) {",
    "  if (i > 50) stop('bad') else Sys.sleep(0.04)",
    "}, .progress = TRUE))",
    "cat('END\\n')"
  )))
  screen <- screen_of(bytes)
  expect_false(any(grepl(piece_of_line, screen)), label = bytes)
  for (i in c(20, 40, 60)) {
    expect_match(screen, paste0("^worker [12]: hello from ", i, " *$"), all = FALSE)
  }
  expect_match(screen, "^Worker [12] \\(pid [0-9]+\\) was lost: ", all = FALSE)
  expect_match(screen, "^Error in cluster_map", all = FALSE)
  expect_match(bytes, "\rFitting models \\[=* *\\] [0-9]+/60 \\| [0-9.]+/s, [0-9]+ s left")
  expect_true(all(c("MAP", "END") %in% screen))
})

test_cluster("all verbs that wait show how far they are, where the option asks for it", {
  skip_without_terminal()
  bytes <- terminal_bytes(user_code(c(
    "options(muster.progress = 'Mine')",
    "cl <- cluster_start(2)",
    "wait <- function(i, ...) Sys.sleep(if (length(i) == 1 && isTRUE(i > 6)) 0.5 else 0.15)",
    "end <- function(name) cat('END', name, '\\n')",
    "x <- clusterApply(cl, 1:8, wait); end('clusterApply')",
    "x <- try(clusterApplyLB(cl, 1:8, function(i, f) {",
    "  f(i)",
    "  if (i == 8) stop('bad')",
    "}, wait)); end('clusterApplyLB')",
    "x <- parLapply(cl, 1:8, wait); end('parLapply')",
    "x <- parLapplyLB(cl, 1:8, wait); end('parLapplyLB')",
    "x <- clusterCall(cl, function() Sys.sleep(if (Sys.getpid() %% 2) 0.8 else 1.2))",
    "end('clusterCall')",
    "p <- partition_scatter(cl, data.frame(a = 1:8), parts = 8)",
    "x <- partition_collect(partition_map(p, function(d) { Sys.sleep(0.3); d }))",
    "end('partition_map')",
    "tasks <- lapply(1:8, function(i) task_submit(cl, Sys.sleep, 0.3))",
    "x <- task_wait(tasks); end('task_wait')",
    "options(muster.progress = FALSE)",
    "x <- clusterApplyLB(cl, 1:8, wait); end('FALSE')"
  )))
  expect_false(any(grepl(piece_of_line, screen_of(bytes))), label = bytes)
  parts <- strsplit(bytes, "END ", fixed = TRUE)[[1L]]
  names(parts) <- c(sub(" .*", "", parts[-1L]), "rest")
  for (name in c(
    "clusterApply", "clusterApplyLB", "parLapply", "parLapplyLB", "partition_map", "task_wait"
  )) {
    expect_match(parts[[name]], "\rMine \\[=* *\\] [0-9]/8 \\| ", label = name)
  }
  expect_match(parts[["clusterCall"]], "\rMine \\[=* *\\] [01]/2 \\| ")
  expect_no_match(parts[["FALSE"]], piece_of_line)
})

test_cluster("an interrupt leaves nothing of the line, and the prompt works", {
  skip_without_terminal()
  interrupts <- function(verb) {
    paste0(
      "x <- ", verb, "(cl, 1:60, function(i, pid) { if (i == 40) tools::pskill(pid, 2L); ",
      "Sys.sleep(0.04) }, Sys.getpid())"
    )
  }
  bytes <- terminal_bytes(user_code(c(
    "cl <- cluster_start(2)", interrupts("cluster_map"),
    "cat('AFTER', 1, '\\n')", interrupts("clusterApplyLB"),
    "cat('AFTER', 2, is.null(getOption('interrupt')), '\\n')",
    "unlist(clusterCall(cl, function() 7))", "cluster_stop(cl)", "q('no')"
  )), interactive = TRUE)
  screen <- screen_of(bytes)
  expect_match(bytes, paste0("\r\\[=* *\\] ", piece_of_line)) # without being asked for
  expect_false(any(grepl(piece_of_line, screen)), label = bytes)
  expect_match(screen, "AFTER 1", all = FALSE)
  expect_match(screen, "AFTER 2 TRUE", all = FALSE)
  expect_match(screen, "[1] 7 7", fixed = TRUE, all = FALSE)
})

test_cluster("the line follows the width of the terminal", {
  skip_without_terminal()
  for (columns in c(120, 40, 20)) {
    bytes <- terminal_bytes(user_code(c(
      "progress <- muster:::new_progress('A label', 1000)",
      "progress$due <- 0; progress$begin <- progress$begin - 10",
      "muster:::show_progress(progress, 250)", "muster:::end_progress(progress)"
    )), columns = columns)
    line <- regmatches(bytes, regexpr("\rA label[^\033]*", bytes))
    expect_lt(nchar(line) - 1L, columns)
    expect_identical(grepl("250/1000 \\| 2[0-5][.0-9]*/s, 3[0-9] s left$", line), columns > 20)
    expect_identical(grepl("[==", line, fixed = TRUE), columns > 40)
  }
})

test_cluster("without a terminal, in documents and in tests nothing is shown unless asked for", {
  out <- shown_by(c(
    "cl <- cluster_start(2)", "element <- function(i) Sys.sleep(0.03)",
    "by_option <- function(name) {",
    "  message('BEGIN ', name)",
    "  x <- cluster_map(cl, 1:30, element)",
    "  x <- clusterApplyLB(cl, 1:30, element)",
    "}",
    "by_option('auto')",
    "options(muster.progress = 'Fit')", "by_option('label')",
    "options(knitr.in.progress = TRUE)", "by_option('knitr')",
    "message('BEGIN asked')", "x <- cluster_map(cl, 1:30, element, .progress = TRUE)",
    "options(knitr.in.progress = NULL)",
    "Sys.setenv(TESTTHAT = 'true')", "by_option('testthat')", "Sys.unsetenv('TESTTHAT')",
    "Sys.setenv('_R_CHECK_PACKAGE_NAME_' = 'mine')", "by_option('check')",
    "options(muster.quiet = TRUE)", "Sys.unsetenv('_R_CHECK_PACKAGE_NAME_')",
    "by_option('quiet')", "message('BEGIN end')"
  ))
  part <- cumsum(grepl("^BEGIN", out))
  parts <- lapply(split(out, part), `[`, -1L)
  names(parts) <- sub("BEGIN ", "", grep("^BEGIN", out, value = TRUE))
  for (name in c("auto", "knitr", "testthat", "check", "quiet")) {
    expect_identical(parts[[name]], character(), label = name)
  }
  expect_match(parts$label, "^Fit: [0-9]+ of 30 elements, ")
  expect_gt(length(parts$label), 1L)
  expect_match(parts$asked, "^[0-9]+ of 30 elements, ")
})

test_cluster("a terminal that can't go back, and output that goes elsewhere, get no line", {
  skip_without_terminal()
  bytes <- terminal_bytes(user_code(c(
    "kind <- function(...) cat('KIND', muster:::progress_kind(...), '\\n')",
    "kind(TRUE)", "kind('auto')", # nobody types
    "Sys.setenv(TERM = 'dumb')", "kind(TRUE)", "Sys.setenv(TERM = 'xterm')",
    "to <- file(tempfile(), 'w'); sink(to, type = 'message')", "kind(TRUE)",
    "sink(type = 'message')", "options(knitr.in.progress = TRUE)", "kind('mine')",
    "options(knitr.in.progress = NULL, muster.progress = TRUE)", "kind(NULL)",
    "options(muster.quiet = TRUE)", "kind(NULL)", "kind(TRUE)"
  )))
  kinds <- grep("KIND", screen_of(bytes), value = TRUE)
  expect_identical(
    trimws(sub("KIND", "", kinds)), c("bar", "", "lines", "lines", "lines", "bar", "", "bar")
  )
})

test_cluster("what `.progress` and the option may be", {
  expect_null(check_progress(NULL, ".progress", NULL))
  for (wanted in list(TRUE, FALSE, "auto", "a label")) {
    expect_null(check_progress(wanted, ".progress", NULL))
  }
  for (wanted in list(NA, 1, c("a", "b"), NA_character_, list(TRUE))) {
    expect_error(check_progress(wanted, ".progress", NULL), class = "muster_error_input")
    local_settings(muster.progress = wanted)
    expect_identical(progress_option(), "auto")
  }
  expect_identical(progress_label("a\tb\n c "), "a b c")
  expect_identical(progress_label(TRUE), "")
})

# ---- conditions that come before the answer

says_early <- function(gate) {
  # As future looks for the session's node.
  for (frame in sys.frames()) {
    node <- get0("master", frame, mode = "list", inherits = FALSE)
    if (inherits(node, "SOCKnode")) {
      parallel:::sendData(node, list(type = "VALUE", value = "early", success = TRUE))
      break
    }
  }
  end <- Sys.time() + 60
  while (!file.exists(gate) && Sys.time() < end) Sys.sleep(0.01) # tidy: the worker's work
  if (file.exists(gate)) "late" else "never"
}

test_cluster("what a worker says before its answer comes before it, to the verb that asked", {
  cl <- local_cluster(2)
  gate <- file.path(local_folder(), "gate")
  parallel:::sendCall(cl[[1]], remote(says_early), list(gate))
  wait_until(isTRUE(socketSelect(list(cl[[1]]$con), FALSE, 0)))
  expect_identical(parallel:::recvData(cl[[1]])$value, "early")
  expect_false(socketSelect(list(cl[[1]]$con), FALSE, 0))
  file.create(gate)
  expect_identical(parallel:::recvData(cl[[1]])$value, "late")
  # What nobody takes goes with its verb; tasks have nobody who would take it.
  parallel:::sendCall(cl[[1]], remote(says_early), list(gate))
  expect_identical(parallel:::recvData(cl[[1]])$value, "early")
  expect_identical(parallel:::recvData(cl[[1]])$value, "late")
  expect_identical(task_value(task_submit(cl, remote(says_early), gate), timeout = 60), "late")
  expect_identical(clusterCall(cl, function() 7), list(7, 7))
})

test_cluster("conditions that future relays at once, and progressr's, arrive live", {
  # In another process: these packages set options when they are loaded.
  lacks <- function(package) !nzchar(system.file(package = package))
  testthat::skip_if(lacks("future"), "package future isn't installed")
  out <- shown_by(c(
    "library(future)", "cl <- cluster_start(2)", "plan(cluster, workers = cl)",
    "gate <- tempfile()",
    "waits <- function(gate) {",
    "  end <- Sys.time() + 60",
    "  while (!file.exists(gate) && Sys.time() < end) Sys.sleep(0.01)",
    "  file.exists(gate)",
    "}",
    "signals <- function(gate) {",
    "  class <- c('mine', 'immediateCondition', 'condition')",
    "  signalCondition(structure(list(message = 'now', call = NULL), class = class))",
    "  waits(gate)",
    "}",
    "value <- withCallingHandlers(value(future(signals(gate))), mine = function(c) {",
    "  file.create(gate)",
    "})",
    "message('future ', value)",
    "if (!requireNamespace('progressr', quietly = TRUE)) q('no')",
    "unlink(gate)",
    "value <- withCallingHandlers(",
    "  progressr::with_progress({",
    "    step <- progressr::progressor(2)",
    "    value(future({ step('first'); waits(gate) }))",
    "  }, enable = TRUE, handlers = progressr::handler_void()),",
    "  progression = function(p) if (identical(p$message, 'first')) file.create(gate)",
    ")",
    "message('progressr ', value)"
  ))
  expect_true("future TRUE" %in% out, label = paste(out, collapse = "\n"))
  testthat::skip_if(lacks("progressr"), "package progressr isn't installed")
  expect_true("progressr TRUE" %in% out, label = paste(out, collapse = "\n"))
})

test_cluster("where output is caught, it has what workers print", {
  cl <- local_cluster(1)
  out <- utils::capture.output(cluster_map(cl, 1:2, remote(function(i) {
    cat("element", i, "\n")
    NULL
  })))
  expect_identical(out[1:2], c("worker 1: element 1 ", "worker 1: element 2 "))
  # Calls of parallel's and tasks as well, and not after the sink.
  out <- utils::capture.output(r <- clusterEvalQ(cl, cat("called\n")))
  expect_identical(out, "worker 1: called")
  said <- shown_by(c(
    "cl <- cluster_start(1)", "r <- capture.output(x <- clusterEvalQ(cl, cat('in\\n')))",
    "r <- clusterEvalQ(cl, cat('out\\n'))"
  ))
  expect_identical(grep("worker 1", said, value = TRUE), "worker 1: out")
})

test_that("muster's bar gives way to progressr's", {
  skip_without_terminal()
  skip_without("progressr")
  map <- c(
    "library(progressr)", "cl <- cluster_start(1)", "slow <- function(i, p) {",
    "  if (is.function(p)) p()", "  Sys.sleep(0.1)", "}",
    "f <- function(p) invisible(cluster_map(cl, 1:15, slow, p, .progress = 'own'))"
  )
  own <- terminal_bytes(user_code(c(map, "f(NULL)")))
  expect_match(own, "own [^|]*[1-9][0-9]?/15")
  other <- terminal_bytes(user_code(c(map,
    "with_progress({ p <- progressor(15); f(p) }, handlers = handler_void(), enable = TRUE)"
  )))
  # Until its first condition comes.
  expect_no_match(other, "own [^|]*[1-9][0-9]?/15")
})

test_that("after Ctrl-C a task says that it goes on, and a call what it waits for", {
  skip_without_terminal()
  bytes <- terminal_bytes(user_code(c(
    "cl <- cluster_start(1)", "me <- Sys.getpid()", "gate <- tempfile()",
    "waits <- function(me, gate) {", "  tools::pskill(me, 2L)",
    "  while (!file.exists(gate)) Sys.sleep(0.01)", "  1", "}",
    "task <- task_submit(cl, waits, me, gate, .label = 'fit')",
    "value <- task_value(task)",
    "opens <- function(m) file.create(gate)",
    "x <- withCallingHandlers(clusterEvalQ(cl, 2), muster_message_behind = opens)",
    "cat('values', task_value(task), unlist(x), '\\n')"
  )), interactive = TRUE)
  expect_match(bytes, "Task `fit` goes on: task_value() waits for it again", fixed = TRUE)
  expect_match(bytes, "Worker 1 first evaluates task `fit` (", fixed = TRUE)
  expect_match(bytes, "values 1 2", fixed = TRUE)
})

test_cluster("a call that waits says of which map its worker evaluates elements first", {
  cl <- local_cluster(2)
  gate <- file.path(local_folder(), "gate")
  hold <- remote(function(i, gate) while (!file.exists(gate)) Sys.sleep(0.01)) # tidy: until opened
  expect_silent(tell_behind(cl))
  map <- task_map(cl, 1:2, hold, gate = gate, .label = "fits")
  wait_until(length(evaluated_of(map, 1:2)) == 2L)
  said <- function(cl) tryCatch(tell_behind(cl), muster_message_behind = conditionMessage)
  expect_match(said(cl), "^Worker [12] first evaluates elements of map `fits` \\(")
  expect_match(said(cl[2L]), "^Worker 2 ")
  file.create(gate)
  task_wait(map)
  expect_silent(tell_behind(cl))
})
