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
      warning("not shown", call. = FALSE)
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
