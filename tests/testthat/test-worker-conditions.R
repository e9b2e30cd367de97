# Warnings and messages of tasks, maps and parts: what R does with them in a worker, and what the
# session gets.

# In another R, since test_that()'s handlers would muffle what lapply() is to do with a warning.
# Gives for each case what lapply() and muster's verbs make of it: the value, and what handlers
# around the verb see.
outcomes_of_cases <- function() {
  # With options set while code is evaluated.
  with_warn <- function(warn, code) {
    before <- options(warn = warn)
    on.exit(options(before))
    code
  }
  # What code writes to its own message sink; "" if nothing.
  sunk <- function(code) {
    to <- textConnection("text", "w", local = TRUE)
    sink(to, type = "message")
    on.exit({
      sink(type = "message")
      close(to)
    })
    code
    paste(text, collapse = "|")
  }
  told <- function(code) tryCatch(code, error = function(e) paste("error:", conditionMessage(e)))
  cases <- list(
    converted = function(x) with_warn(2, told(as.integer("x"))),
    condition = function(x) with_warn(2, told(warning(simpleWarning("bad")))),
    left = function(x) with_warn(2, warning("bad")),
    nested = function(x) {
      with_warn(2, told(tryCatch(warning("bad"), message = function(m) "a message")))
    },
    handled = function(x) with_warn(2, tryCatch(warning("bad"), warning = function(w) "handled")),
    inner = function(x) {
      with_warn(2, tryCatch(told(warning("bad")), warning = function(w) "the outer one"))
    },
    suppressed = function(x) with_warn(2, suppressWarnings({
      warning("bad")
      "went on"
    })),
    restarted = function(x) with_warn(2, withRestarts(
      withCallingHandlers(warning("bad"), warning = function(w) invokeRestart("ours", "restarted")),
      ours = identity
    )),
    seen = function(x) with_warn(2, {
      seen <- 0
      told(withCallingHandlers(warning("bad"), warning = function(w) seen <<- seen + 1))
      seen
    }),
    first_of_two = function(x) with_warn(0, {
      warning("one")
      with_warn(2, told(warning("two")))
      message("three")
      warning("four", call. = FALSE)
      "done"
    }),
    negative = function(x) with_warn(-1, {
      warning("not shown")
      "went on"
    }),
    at_once = function(x) with_warn(1, {
      warning("shown")
      "went on"
    }),
    message = function(x) sunk(message("note")),
    captured = function(x) {
      text <- utils::capture.output(message("note"), type = "message")
      message("outside")
      text
    },
    sunk = function(x) with_warn(1, sunk(warning("odd", call. = FALSE))),
    deferred = function(x) with_warn(0, sunk(warning("odd", call. = FALSE))),
    immediate = function(x) {
      with_warn(0, sunk(warning("odd", call. = FALSE, immediate. = TRUE)))
    },
    negative_immediate = function(x) {
      with_warn(-1, sunk(warning("odd", call. = FALSE, immediate. = TRUE)))
    },
    negative_sunk = function(x) with_warn(-1, sunk(warning("odd", call. = FALSE))),
    suppressed_in_sink = function(x) sunk(suppressMessages(message("note"))),
    signalled = function(x) {
      signalCondition(simpleWarning("only signalled"))
      signalCondition(simpleMessage("this too"))
      "went on"
    },
    fields = function(x) {
      warning(structure(class = c("own", "warning", "condition"),
        list(message = "mine", call = NULL, level = 7)
      ))
      "went on"
    },
    expression = function(x) {
      before <- options(warning.expression = quote(message("in its place")))
      on.exit(options(before))
      warning("odd")
      "went on"
    },
    number = function(x) sink.number(type = "message"),
    # The last ones: what isn't put back stays set for what comes next.
    sets = function(x) {
      options(warn = 2)
      "set"
    },
    after_it = function(x) told(as.integer("x"))
  )
  record <- function(run) {
    seen <- list()
    value <- tryCatch(
      withCallingHandlers(run(),
        condition = function(c) {
          if (inherits(c, c("warning", "message"))) {
            text <- sub(" [(]element 1[)]$", "", conditionMessage(c))
            seen[[length(seen) + 1L]] <<- list(class(c), text, c$level)
          }
        }
      ),
      muster_error_remote = function(e) paste("stopped:", conditionMessage(e$condition)),
      error = function(e) paste("stopped:", conditionMessage(e))
    )
    list(value = value, seen = seen)
  }
  cl <- cluster_start(1)
  on.exit(cluster_stop(cl))
  part <- partition_scatter(cl, data.frame(x = 1), parts = 1)
  verbs <- list(
    lapply = function(f) lapply(1, f)[[1L]],
    cluster_map = function(f) cluster_map(cl, 1, f)[[1L]],
    task = function(f) task_value(task_submit(cl, f, 1)),
    partition = function(f) {
      made <- partition_map(part, function(rows) data.frame(value = f(rows$x)))
      partition_collect(made)$value
    },
    parLapply = function(f) parallel::parLapply(cl, 1, f)[[1L]]
  )
  lapply(cases, function(f) lapply(verbs, function(verb) record(function() verb(f))))
}

test_that("V5: warnings and messages do in workers what they do below lapply()", {
  skip_on_cran()
  outcomes <- in_new_r(outcomes_of_cases)
  for (name in names(outcomes)) {
    case <- outcomes[[name]]
    for (verb in c("cluster_map", "task", "partition")) {
      expect_identical(case[[verb]], case$lapply, info = paste(name, verb))
    }
    # R's own verb tells errors in its own words, and no conditions.
    if (name != "left") {
      expect_identical(case$parLapply$value, case$lapply$value, info = paste(name, "parLapply"))
    }
  }
  texts <- vapply(outcomes, function(case) as.character(case$cluster_map$value)[1L], "")
  expect_identical(texts[c("converted", "left", "captured", "sunk", "immediate", "deferred")], c(
    converted = "error: (converted from warning) NAs introduced by coercion",
    left = "stopped: (converted from warning) bad", captured = "note", sunk = "Warning: odd",
    immediate = "Warning: odd", deferred = ""
  ))
})

# What R prints in the session, where it prints warnings at once.
printed_by_cases <- function() {
  options(warn = 1)
  cases <- list(
    told = function(x) {
      message("a message")
      warning("a warning", call. = FALSE)
    },
    signalled = function(x) {
      signalCondition(simpleWarning("only signalled"))
      signalCondition(simpleMessage("this too"))
    },
    negative = function(x) {
      before <- options(warn = -1)
      on.exit(options(before))
      # More than a worker keeps, which isn't told either.
      for (i in 1:10) {
        warning(structure(class = c("warning", "condition"),
          list(message = "not shown", call = NULL, data = raw(4e6))
        ))
      }
    }
  )
  cl <- cluster_start(1)
  on.exit(cluster_stop(cl))
  lapply(cases, function(f) {
    lapply(list(
      lapply = function() lapply(1, f),
      task = function() task_value(task_submit(cl, f, 1))
    ), function(run) utils::capture.output(invisible(run()), type = "message"))
  })
}

test_that("V5: what R wouldn't print isn't printed in the session either", {
  skip_on_cran()
  printed <- in_new_r(printed_by_cases)
  for (name in names(printed)) {
    expect_identical(printed[[name]]$task, printed[[name]]$lapply, info = name)
  }
  expect_identical(printed$told$task, c("a message", "Warning: a warning"))
})

# The conditions that code signals, in their order. None is shown.
conditions_of <- function(code) {
  seen <- list()
  withCallingHandlers(code,
    warning = function(w) {
      seen[[length(seen) + 1L]] <<- w
      tryInvokeRestart("muffleWarning")
    },
    message = function(m) {
      seen[[length(seen) + 1L]] <<- m
      tryInvokeRestart("muffleMessage")
    }
  )
  seen
}

texts_of <- function(conditions) trimws(vapply(conditions, conditionMessage, ""))

test_cluster("V8: a thousand warnings and messages arrive, in their order", {
  cl <- local_cluster(2)
  f <- function(i) {
    warning("warning ", i)
    message("message ", i)
    i
  }
  whole <- function(x) for (i in x) f(i)
  environment(whole) <- list2env(list(f = f), parent = globalenv())
  # A map's pieces are told as they are done.
  expected <- texts_of(conditions_of(lapply(1:1000, f)))
  shown <- capture.output(type = "message", {
    map <- texts_of(conditions_of(cluster_map(cl, 1:1000, f)))
    task <- texts_of(conditions_of(task_value(task_submit(cl, whole, 1:1000))))
    part <- partition_scatter(cl, data.frame(i = 1:1000), parts = 1)
    made <- conditions_of(partition_collect(partition_map(part, function(rows, f) {
      data.frame(i = vapply(rows$i, f, 0L))
    }, f)))
  })
  expect_identical(task, expected)
  expect_identical(texts_of(made), expected)
  at <- function(texts) as.integer(sub("^[a-z]+ ", "", texts))
  expect_identical(map[order(at(map))], expected)
  expect_identical(shown, character())
  expect_identical(nrow(cluster_logs(cl)), 0L)
})

test_cluster("V8: conditions past the bound are counted, told once, and in the log", {
  cl <- local_cluster(1)
  f <- function() {
    for (i in 1:10) {
      warning(structure(class = c("own", "warning", "condition"),
        list(message = paste("large", i), call = NULL, data = raw(4e6))
      ))
    }
    message("note 1\nof two lines")
    message("note 2")
    message(rawToChar(as.raw(c(0x66, 0xfc)))) # no UTF-8
    "value"
  }
  shown <- capture.output(type = "message", {
    seen <- conditions_of(value <- task_value(task_submit(cl, f)))
  })
  expect_identical(value, "value")
  # The one that crosses the bound, 32 MB, is kept.
  expect_identical(texts_of(seen)[-10L], paste("large", 1:9))
  told <- seen[[10L]]
  expect_s3_class(told, c("muster_warning_dropped", "muster_warning", "warning"))
  expect_identical(told$worker, 1L)
  expect_identical(told$dropped, c(own = 1, simpleMessage = 3))
  expect_match(conditionMessage(told), "^Worker 1 .* 4 of them are lost")
  lines <- c("Warning: large 10", "note 1", "of two lines", "note 2")
  expect_identical(cluster_logs(cl)$line[1:4], lines)
  expect_identical(nrow(cluster_logs(cl)), 5L)
  expect_identical(shown, character())
  # The next task begins anew.
  again <- conditions_of(task_value(task_submit(cl, remote(function() warning("one")))))
  expect_identical(texts_of(again), "one")
})
