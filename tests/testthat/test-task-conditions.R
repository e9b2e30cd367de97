# Conditions that the session signals while tasks still run: those of class "immediateCondition".

# later keeps a thread for descriptors, muster a pipe, and foreach an option, once they were used.
if (has_later()) {
  later::later_fd(function(ready) NULL, .Call(ffi_notify, FALSE), timeout = 0)
  later::run_now(1)
}
if (requireNamespace("foreach", quietly = TRUE)) foreach::registerDoSEQ()

immediate <- function(text, class = NULL) {
  structure(class = c("mine", "immediateCondition", class, "condition"),
    list(message = text, call = NULL)
  )
}

# Signals one, and gives whether the session answers it while this runs.
ask <- function(gate, condition) {
  signalCondition(condition)
  end <- Sys.time() + 60
  while (!file.exists(gate) && Sys.time() < end) Sys.sleep(0.01) # tidy: in a worker
  file.exists(gate)
}

# What code signals, and its value.
hears <- function(code, act = function(c) NULL) {
  said <- character()
  value <- withCallingHandlers(code, mine = function(c) {
    said <<- c(said, conditionMessage(c))
    act(c)
  })
  list(said = said, value = value)
}

test_cluster("whatever waits signals at once what tasks, maps and loops signal", {
  cl <- local_cluster(2)
  folder <- local_folder()
  gates <- file.path(folder, 1:12)
  now <- immediate("now")
  answered <- function(code, gate) {
    got <- hears(code, function(c) file.create(gate))
    expect_identical(unique(got$said), "now")
    expect_true(any(unlist(got$value)))
  }
  answered(cluster_map(cl, gates[1], ask, now), gates[1])
  answered(task_value(task_map(cl, rep(gates[2], 2), ask, now)), gates[2])
  submit <- function(gate, n) lapply(seq_len(n), function(i) task_submit(cl, ask, gate, now))
  answered(task_value(submit(gates[3], 1)[[1]]), gates[3])
  answered(tasks_collect(submit(gates[4], 3)), gates[4])
  answered(tasks_any(submit(gates[5], 3)), gates[5])
  answered(task_wait(submit(gates[6], 3)), gates[6])
  answered(task_wait(submit(gates[7], 3), any = TRUE, timeout = 60), gates[7])
  mixed <- c(submit(gates[8], 1), list(task_map(cl, gates[8], ask, now)))
  answered(task_wait(mixed), gates[8])
  polled <- submit(gates[9], 1)
  answered({
    wait_until(task_done(polled))
    task_value(polled[[1]])
  }, gates[9])
  map <- task_map(cl, gates[10], ask, now)
  answered({
    wait_until(task_done(map))
    task_value(map)
  }, gates[10])
  # Very many: the first that aren't done are heard.
  many <- c(lapply(1:1200, function(i) task_submit(cl, sqrt, i)), submit(gates[11], 2))
  answered(task_wait(many), gates[11])
  # Here, too.
  expect_identical(hears(cluster_map(NULL, 1, function(i) signalCondition(now)))$said, "now")
  here <- cluster_start(0)
  expect_identical(hears(task_submit(here, function() signalCondition(now)))$said, "now")
})

test_cluster("a loop of foreach, a promise and a part of a partition are heard as well", {
  cl <- local_cluster(2)
  gate <- file.path(local_folder(), "gate")
  now <- immediate("now")
  opens <- function(code) {
    got <- hears(code, function(c) file.create(gate))
    unlink(gate)
    expect_true(all(unlist(got$value)))
    expect_identical(unique(got$said), "now")
  }
  p <- partition_scatter(cl, data.frame(x = 1:2))
  opens(partition_collect(partition_map(p, function(d) {
    data.frame(done = ask(gate, now))
  }))$done)
  if (requireNamespace("foreach", quietly = TRUE)) {
    `%dopar%` <- foreach::`%dopar%`
    registerDoMuster(cl)
    defer(function() foreach::registerDoSEQ())
    opens(foreach::foreach(i = 1:2) %dopar% ask(gate, now))
  }
  if (has_later()) {
    got <- NULL
    opens({
      promises::then(task_submit(cl, ask, gate, now), function(value) got <<- value)
      end <- now_seconds() + 60
      while (is.null(got) && now_seconds() < end) later::run_now(0.1)
      got
    })
  }
})

test_cluster("each is signalled once, in order, before the answer and its warnings", {
  cl <- local_cluster(2)
  speak <- function(i) {
    for (k in 1:3) signalCondition(immediate(paste0(i, k)))
    warning("after")
    i
  }
  order <- character()
  note <- function(c) {
    order <<- c(order, if (inherits(c, "warning")) "warning" else conditionMessage(c))
    if (inherits(c, "warning")) invokeRestart("muffleWarning")
  }
  value <- withCallingHandlers(task_value(task_submit(cl, speak, 7)), mine = note, warning = note)
  expect_identical(order, c("71", "72", "73", "warning"))
  expect_identical(value, 7)
  order <- character()
  value <- withCallingHandlers(cluster_map(cl, 1:50, speak), mine = note, warning = note)
  expect_identical(value, as.list(1:50))
  expect_setequal(order[order != "warning"], outer(1:50, 1:3, paste0))
  expect_length(order, 200L)
  # All of them, also if they come faster than they are handled.
  got <- hears(task_value(task_submit(cl, function() {
    for (k in 1:3000) signalCondition(immediate(k))
  })))
  expect_identical(got$said, as.character(1:3000))
})

test_cluster("messages and warnings among them do what they do in the session, and no more", {
  cl <- local_cluster(1)
  shown <- capture.output(type = "message", task_value(task_submit(cl, function() {
    message(immediate("told\n", "message"))
  })))
  expect_identical(shown, "told")
  expect_warning(task_value(task_submit(cl, function() warning(immediate("careful", "warning")))),
    "careful", class = "mine"
  )
  # Only signalled: nobody shows them.
  shown <- capture.output(type = "message", got <- hears(task_value(task_submit(cl, function() {
    signalCondition(immediate("seen", "message"))
    4
  }))))
  expect_identical(shown, character())
  expect_identical(got, list(said = "seen", value = 4))
  # What R makes of a warning in the worker stays there.
  got <- task_submit(cl, function() {
    old <- options(warn = 2)
    on.exit(options(old))
    tryCatch(warning(immediate("wrong", "warning")), error = function(e) "an error")
  })
  expect_identical(suppressWarnings(task_value(got)), "an error")
  # An error, and what the task handles itself, are none of them.
  error <- tryCatch(task_value(task_submit(cl, function() stop(immediate("bad", "error")))),
    mine = identity
  )
  expect_s3_class(error, "muster_error_remote")
  own <- task_submit(cl, function() {
    tryCatch(signalCondition(immediate("own")), mine = function(c) 1)
  })
  expect_identical(hears(task_value(own)), list(said = character(), value = 1))
  # Calls of package parallel have nobody who would hear them.
  call <- function() {
    signalCondition(immediate("unheard"))
    5
  }
  expect_identical(hears(clusterCall(cl, call)), list(said = character(), value = list(5)))
})

test_cluster("what is evaluated again after a loss says nothing twice", {
  skip_without_checkpoints()
  cl <- local_cluster(2)
  folder <- local_folder()
  speak <- function(i) {
    signalCondition(immediate(paste(i, "begins")))
    died <- file.path(folder, "died")
    if (i == 5 && !file.exists(died)) {
      file.create(died)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    signalCondition(immediate(paste(i, "ends")))
    i
  }
  all <- as.vector(outer(1:12, c("begins", "ends"), paste))
  got <- healed(hears(cluster_map(cl, 1:12, speak)))$value
  expect_identical(sort(got$said), sort(all))
  expect_identical(got$value, as.list(1:12))
  unlink(file.path(folder, "died"))
  got <- healed(hears(task_value(task_submit(cl, speak, 5))))$value
  expect_identical(got, list(said = c("5 begins", "5 ends"), value = 5))
  # Both copies of a late element.
  map <- new.env()
  map$n <- 2L
  say <- function(element, count) list(element, count, list(immediate(paste(element, count))))
  got <- hears(for (said in list(say(1, 1), say(1, 1), say(2, 1), say(1, 2), say(1, 2))) {
    tell_element_said(map, said)
  })
  expect_identical(got$said, c("1 1", "2 1", "1 2"))
})

test_cluster("a handler may jump, and a time limit counts while a task speaks", {
  cl <- local_cluster(2)
  speak <- function(i) {
    signalCondition(immediate("stop here"))
    i
  }
  got <- suppressMessages(tryCatch(cluster_map(cl, 1:10, speak), mine = conditionMessage))
  expect_identical(got, "stop here")
  expect_type(cluster_results(), "list")
  map <- task_map(cl, 1:10, speak)
  got <- tryCatch(task_value(map), mine = conditionMessage)
  expect_identical(got, "stop here")
  expect_error(task_value(map), class = "muster_error_cancelled")
  task <- task_submit(cl, speak, 3)
  expect_identical(tryCatch(task_value(task), mine = conditionMessage), "stop here")
  expect_identical(task_value(task), 3)
  endless <- task_submit(cl, function() {
    repeat {
      signalCondition(immediate("still"))
      Sys.sleep(0.01)
    }
  })
  expect_error(task_value(endless, timeout = 0.3), class = "muster_error_timeout")
  expect_false(task_wait(endless, timeout = 0.1))
  task_cancel(endless)
  expect_identical(cluster_map(cl, 1:4, function(i) i), as.list(1:4))
})

test_cluster("tasks that speak faster than handlers listen hold up nobody", {
  cl <- local_cluster(2)
  endless <- function(i) {
    repeat signalCondition(immediate("still"))
  }
  slowly <- function(code) {
    hears(code, function(c) Sys.sleep(0.01))$value # tidy: more comes than it hears
  }
  task <- task_submit(cl, endless, 1)
  expect_false(slowly(task_done(task)))
  expect_false(slowly(task_wait(task, timeout = 0.1)))
  expect_error(slowly(task_value(task, timeout = 0.1)), class = "muster_error_timeout")
  expect_error(slowly(tasks_collect(list(task), timeout = 0.1)), class = "muster_error_timeout")
  other <- task_submit(cl, sqrt, 4)
  expect_identical(slowly(tasks_race(list(task, other))), 2)
  task_cancel(task)
  map <- task_map(cl, 1:2, endless)
  expect_error(slowly(task_value(map, timeout = 0.1)), class = "muster_error_timeout")
  expect_false(slowly(task_done(map)))
  task_cancel(map)
})

test_cluster("Ctrl-C while a handler runs leaves a map of task_map() alone", {
  cl <- local_cluster(2)
  for (nth in 1:40) {
    calls <- 0
    map <- task_map(cl, 1:20, function(i) {
      signalCondition(immediate("x"))
      warning("y")
      i
    })
    interrupt <- function(c) {
      calls <<- calls + 1
      if (calls == nth) tools::pskill(Sys.getpid(), tools::SIGINT)
      if (inherits(c, "warning")) invokeRestart("muffleWarning")
    }
    ask <- function() withCallingHandlers(task_value(map), mine = interrupt, warning = interrupt)
    # After the last of them the map may be over before R looks for the interrupt.
    got <- tryCatch(ask(), interrupt = identity)
    if (nth <= 30) expect_s3_class(got, "interrupt")
    expect_identical(tryCatch(ask(), interrupt = function(c) ask()), as.list(1:20))
  }
})

test_cluster("what is said before a map's first element, and by children, does no harm", {
  cl <- local_cluster(1)
  clusterEvalQ(cl, setHook(packageEvent("stats4", "attach"), function(...) {
    class <- c("mine", "immediateCondition", "condition")
    signalCondition(structure(class = class, list(message = "attached", call = NULL)))
  }))
  f <- function(i) {
    signalCondition(immediate(as.character(i)))
    is.function(mle)
  }
  if (!"package:stats4" %in% search()) {
    library(stats4) # tidy: the map uses it
    defer(function() detach("package:stats4"))
  }
  got <- hears(cluster_map(cl, 1:2, f))
  expect_setequal(got$said, c("attached", "1", "2"))
  expect_identical(got$value, list(TRUE, TRUE))
  got <- hears(task_value(task_submit(cl, .retries = 0, function() {
    signalCondition(immediate("before"))
    values <- parallel::mclapply(1:2, mc.cores = 2, function(j) {
      large <- immediate("child", "large")
      large$bytes <- raw(1e5)
      for (k in 1:50) signalCondition(large)
      j
    })
    signalCondition(immediate("after"))
    values
  })))
  expect_identical(got, list(said = c("before", "after"), value = list(1L, 2L)))
})

test_cluster("a worker's own cluster passes on what its tasks say", {
  cl <- local_cluster(1)
  got <- hears(task_value(task_submit(cl, function() {
    inner <- muster::cluster_start(1)
    on.exit(muster::cluster_stop(inner))
    muster::task_value(muster::task_submit(inner, function() signalCondition(immediate("deep"))))
    2
  })))
  expect_identical(got, list(said = "deep", value = 2))
})

test_that("progress of package progressr moves while tasks, maps and loops run", {
  # In another process: it sets options when it is loaded.
  lacks <- function(package) !nzchar(system.file(package = package))
  testthat::skip_if(lacks("progressr"), "package progressr isn't installed")
  out <- shown_by(c(
    "library(progressr)", "cl <- cluster_start(2)",
    "count <- function(code) {",
    "  types <- character()",
    "  withCallingHandlers(",
    "    with_progress(code, enable = TRUE, handlers = handler_void()),",
    "    progression = function(p) types <<- c(types, p$type)",
    "  )",
    "  paste(sum(types == 'update'), sum(types == 'finish'))",
    "}",
    "f <- function() {",
    "  p <- progressor(20)",
    "  cluster_map(cl, 1:20, function(i) p(i))",
    "}",
    "message('map ', count(f()))",
    "f <- function() {",
    "  p <- progressor(4)",
    "  tasks_collect(lapply(1:4, function(i) task_submit(cl, function(i) p(i), i)))",
    "}",
    "message('tasks ', count(f()))",
    "f <- function() {",
    "  p <- progressor(3)",
    "  task_value(task_submit(cl, function() for (i in 1:3) p()))",
    "}",
    "message('task ', count(f()))",
    "if (!requireNamespace('foreach', quietly = TRUE)) q('no')",
    "library(foreach)", "registerDoMuster(cl)",
    "f <- function() {",
    "  p <- progressor(6)",
    "  foreach(i = 1:6) %dopar% p()",
    "}",
    "message('foreach ', count(f()))"
  ))
  shown <- paste(out, collapse = "\n")
  expect_true(all(c("map 20 1", "tasks 4 1", "task 3 1") %in% out), label = shown)
  testthat::skip_if(lacks("foreach"), "package foreach isn't installed")
  expect_true("foreach 6 1" %in% out, label = shown)
})
