# How workers evaluate calls, and what becomes of errors: as in workers of makeCluster().

test_cluster("functions can be given by name, and are looked for as in other workers", {
  expect_answers(list(
    call = list(list(3, 3), function(cl) clusterCall(cl, "sum", 1, 2)),
    operator = list(list(3, 3), function(cl) clusterCall(cl, "+", 1, 2)),
    apply = list(list(1, 2), function(cl) clusterApply(cl, c(1, 4), "sqrt")),
    balanced = list(list(1, 2), function(cl) clusterApplyLB(cl, c(1, 4), "sqrt")),
    lapply = list(list(1, 2), function(cl) parLapply(cl, c(1, 4), "sqrt")),
    sapply = list(c(1, 2), function(cl) parSapply(cl, c(1, 4), "sqrt")),
    map = list(list(3, 5), function(cl) clusterMap(cl, "sum", 1:2, c(2, 3))),
    of_worker = list(list("mine", "mine"), function(cl) {
      clusterEvalQ(cl, my_own <- function() "mine")
      clusterCall(cl, "my_own")
    }),
    unknown = list(
      "error: 2 nodes produced errors; first error: could not find function \"no_such\"",
      function(cl) clusterCall(cl, "no_such", 1)
    ),
    qualified = list(
      "error: 2 nodes produced errors; first error: could not find function \"base::sum\"",
      function(cl) clusterCall(cl, "base::sum", 1)
    )
  ))
})

test_cluster("what is neither function nor name is refused as in other workers", {
  wrong <- list(5, NULL, TRUE, quote(sum), quote(function(x) x), c("sum", "mean"), character())
  expect_as_psock(lapply(stats::setNames(wrong, seq_along(wrong)), function(fun) {
    function(cl) clusterCall(cl, fun, 1)
  }))
})

test_cluster("arguments are matched by name and position, odd names too", {
  expect_as_psock(list(
    names = function(cl) {
      clusterCall(cl, function(...) names(list(...)), a = 1, 2, `b c` = 3, `if` = 4, .x = 5)
    },
    partial = function(cl) clusterCall(cl, function(alpha = 1, ...) alpha, al = 4),
    default = function(cl) clusterCall(cl, function(a, b = a * 2) a + b, 1),
    missing = function(cl) clusterCall(cl, function(x, y) c(missing(x), missing(y)), 1),
    dots = function(cl) clusterCall(cl, function(...) ...length(), 1, 2, 3),
    like_inner = function(cl) clusterCall(cl, function(fun, args, tag) c(fun, args, tag),
      args = 1, tag = 2, 3),
    many = function(cl) do.call(clusterCall, c(list(cl, sum), as.list(1:500))),
    unused = function(cl) sub("argument.*", "argument", tryCatch(
      clusterCall(cl, function() 1, 2), error = conditionMessage)),
    lazy = function(cl) clusterCall(cl, function(x, y) x, 1, quote(stop("never"))),
    substituted = function(cl) clusterCall(cl, function(x) x, quote(a$b[[c]]))
  ))
})

test_cluster("calls are evaluated in a frame of their own below parallel's namespace", {
  expect_as_psock(list(
    assigned = function(cl) {
      clusterCall(cl, assign, "assigned", 1)
      clusterEvalQ(cl, exists("assigned"))
    },
    next_call = function(cl) {
      clusterCall(cl, assign, "assigned", 1)
      clusterCall(cl, exists, "assigned")
    },
    evaluated = function(cl) {
      clusterEvalQ(cl, evaluated <- 2)
      list(clusterEvalQ(cl, exists("evaluated", globalenv(), inherits = FALSE)),
        clusterCall(cl, get, "evaluated"))
    },
    superassigned = function(cl) {
      clusterCall(cl, function() superassigned <<- 3)
      clusterEvalQ(cl, superassigned)
    },
    eval_call = function(cl) clusterCall(cl, eval, quote(x <- 1)),
    global = function(cl) clusterEvalQ(cl, identical(environment(), globalenv())),
    topenv = function(cl) clusterCall(cl, eval, quote(environmentName(topenv()))),
    parent = function(cl) {
      clusterCall(cl, function() environmentName(parent.env(parent.frame())))
    },
    inner = function(cl) clusterCall(cl, exists, "workLoop"),
    attached = function(cl) {
      clusterCall(cl, library, "stats4", character.only = TRUE)
      clusterEvalQ(cl, exists("mle"))
    },
    kept = function(cl) {
      clusterEvalQ(cl, options(muster.test = "kept"))
      clusterCall(cl, getOption, "muster.test")
    },
    invisible = function(cl) clusterCall(cl, function() invisible(3)),
    returned = function(cl) clusterCall(cl, function() {
      on.exit(left <<- "left")
      return(exists("left"))
    }),
    left = function(cl) clusterEvalQ(cl, left),
    recall = function(cl) clusterCall(cl, function(n) if (n < 2) 1 else n * Recall(n - 1), 5)
  ))
})

# ---- errors

test_cluster("errors have the text that clusters of makeCluster() give", {
  fail_if <- function(i, which) if (i %in% which) stop("element ", i, " failed") else i
  expect_as_psock(list(
    one = function(cl) clusterCall(cl[1], function() stop("alone")),
    all = function(cl) clusterCall(cl, function() stop("all of us")),
    second = function(cl) clusterApply(cl, 1:4, fail_if, 2),
    several = function(cl) clusterApply(cl, 1:4, fail_if, c(2, 3)),
    balanced = function(cl) clusterApplyLB(cl, 1:5, fail_if, 3),
    balanced_all = function(cl) clusterApplyLB(cl, 1:5, function(i) stop("same")),
    lapply = function(cl) parLapply(cl, 1:4, fail_if, 3),
    map = function(cl) clusterMap(cl, fail_if, 1:4, 4),
    eval = function(cl) clusterEvalQ(cl, stop("in the expression")),
    missing_object = function(cl) clusterEvalQ(cl, no_such_object),
    missing_function = function(cl) clusterEvalQ(cl, no_such_function()),
    base = function(cl) clusterCall(cl, log, "text"),
    no_text = function(cl) clusterCall(cl, function() stop()),
    lines = function(cl) clusterCall(cl, function() stop("two\nlines")),
    long = function(cl) clusterCall(cl, function() stop(strrep("long ", 3000))),
    percent = function(cl) clusterCall(cl, function() stop("100 %s %d")),
    utf8 = function(cl) clusterCall(cl, function() stop("\u00e9t\u00e9 \u4e2d")),
    latin1 = function(cl) clusterCall(cl, stop, marked(c(0xe9, 0x74, 0xe9), "latin1")),
    condition = function(cl) clusterCall(cl, function() {
      stop(structure(class = c("custom", "error", "condition"),
        list(message = "a custom one", call = NULL)))
    }),
    warning_made_error = function(cl) clusterEvalQ(cl, {
      on.exit(options(warn = 0))
      options(warn = 2)
      as.integer("x")
    }),
    deep = function(cl) {
      clusterCall(cl[1], function() {
        options(expressions = 500)
        on.exit(options(expressions = 5000))
        f <- function() f()
        f()
      })
    },
    try_error = function(cl) clusterCall(cl, function() try(stop("as a value"), silent = TRUE)),
    caught = function(cl) clusterCall(cl, function() {
      tryCatch(stop("caught"), error = conditionMessage)
    }),
    error_object = function(cl) clusterCall(cl, function() simpleError("an object")),
    finally = function(cl) {
      tryCatch(clusterCall(cl, function() tryCatch(stop("x"), finally = done <<- "done")),
        error = function(e) NULL)
      clusterEvalQ(cl, done)
    }
  ))
})

test_cluster("errors with odd messages come back as errors, and the cluster can be used", {
  # Workers of makeCluster() die of some of these.
  odd <- list(
    two = c("first", "second"), number = 5, null = NULL, list = list("a"), none = character(),
    na = NA_character_
  )
  cl <- local_cluster()
  for (name in names(odd)) {
    error <- expect_error(clusterCall(cl, function(text) {
      stop(structure(class = c("odd", "error", "condition"), list(message = text, call = NULL)))
    }, odd[[name]]), "2 nodes produced errors", info = name)
    expect_identical(clusterCall(cl, function() 1), list(1, 1))
  }
  expect_error(clusterCall(cl, function() {
    registerS3method("conditionMessage", "odd", function(c) stop("even this fails"))
    stop(structure(class = c("odd", "error", "condition"), list(message = "x", call = NULL)))
  }), "2 nodes produced errors")
  expect_error(clusterCall(cl, function() {
    stop(structure(class = c("odd2", "error", "condition"), list(message = 5, call = NULL)))
  }), "5$")
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
})

test_cluster("warnings, messages and output of workers fail nothing", {
  local_settings(warn = 2)
  expect_answers(list(
    warning = list(list(1, 1), function(cl) clusterCall(cl, function() {
      warning("careful")
      1
    })),
    message = list(list(2, 2), function(cl) clusterCall(cl, function() {
      message("by the way")
      cat("text", file = stderr())
      print("more text")
      2
    })),
    much = list(list(3, 3), function(cl) clusterCall(cl, function() {
      writeLines(rep(strrep("x", 99), 20000))
      3
    })),
    signalled = list(list(4, 4), function(cl) clusterCall(cl, function() {
      signalCondition(structure(class = c("custom", "condition"), list(message = "", call = NULL)))
      4
    }))
  ))
})

test_cluster("after an error each later call gets its own answer", {
  cl <- local_cluster()
  for (i in 1:5) {
    expect_error(clusterApply(cl, 1:3, function(j) stop("no ", j)), "3 nodes produced errors")
    expect_identical(clusterCall(cl, identity, i), list(i, i))
    expect_error(clusterApplyLB(cl, 1:7, function(j) if (j == 2) stop("no")), "one node")
    expect_identical(clusterApplyLB(cl, 1:3, identity), list(1L, 2L, 3L))
  }
})
