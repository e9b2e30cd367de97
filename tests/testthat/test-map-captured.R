# Its options stay: this test isn't where they come from.
invisible(requireNamespace("data.table", quietly = TRUE))
invisible(requireNamespace("dplyr", quietly = TRUE))

# What functions carry and use arrives as it is: each of these functions gives what lapply() gives
# here, or an error. The workers have other variables of the same names.

# Code in which `v`, a vector, or `helper`, a function that uses `w`, is used in many ways.
uses <- list(
  plain = "function(i) sum(v) + i",
  branch = "function(i, flip = FALSE) { if (flip) v <- 0; sum(v) }",
  else_branch = "function(i) { if (i > 99) v <- 0 else u <- 1; sum(v) }",
  both = "function(i) { if (i > 99) v <- 0 else v <- 1; sum(v) }",
  for_never = "function(i) { for (k in integer()) v <- 0; sum(v) }",
  for_variable = "function(i) { for (v in NULL) 0; sum(v) }",
  for_value = "function(i) { s <- 0; for (k in v[1:3]) s <- s + k; s }",
  while_never = "function(i) { while (i > 99) v <- 0; sum(v) }",
  repeat_left = "function(i) { repeat { if (i < 99) break; v <- 0 }; sum(v) }",
  repeat_later = "function(i) { n <- 0; repeat { if (n > 0) break; n <- sum(v); v <- 0 }; n }",
  and = "function(i) { i > 99 && { v <- 0; TRUE }; sum(v) }",
  or = "function(i) { i < 99 || { v <- 0; TRUE }; sum(v) }",
  switched = "function(i) { switch(as.character(i), `99` = { v <- 0 }, 1); sum(v) }",
  lazy = "function(i) { f <- function(x) 1; f(v <- 0); sum(v) }",
  tried = "function(i) { tryCatch({ stop(); v <- 0 }, error = identity); sum(v) }",
  in_condition = "function(i) { if ((n <- sum(v)) > 0) n else 0 }",
  default = "function(i, w = v) sum(w)",
  default_later = "function(i, w = z) { z <- sum(v); w + z }",
  default_early = "function(i, w = v) { w; v <- 0; sum(w) }",
  on_exit = "function(i) { out <- new.env(); (function() on.exit(out$s <- sum(v)))(); out$s }",
  local = "function(i) local({ u <- sum(v); u + i })",
  closure = "function(i) { f <- function() sum(v); f() + i }",
  closures = "function(i) (function(j) (function(k) sum(v) + k)(j))(i)",
  closure_early = "function(i) { f <- function() sum(v); n <- f(); v <- 0; n + sum(v) }",
  replaced = "function(i) { v[1] <- i; sum(v) }",
  named = "function(i) { names(v)[2] <- \"b\"; names(v)[2] }",
  attributed = "function(i) { attr(v, \"at\") <- i; attr(v, \"at\") + sum(v) }",
  assigned_outside = "function(i) { v[1] <<- i; sum(v) }",
  read_before = "function(i) { n <- sum(v); v <- 0; n }",
  removed = "function(i) { v <- 0; rm(v); sum(v) }",
  removed_by_name = "function(i) { v <- 0; rm(list = \"v\"); sum(v) }",
  delayed = "function(i) { delayedAssign(\"u\", sum(v)); u }",
  got = "function(i) sum(get(\"v\"))",
  got0 = "function(i) sum(get0(\"v\", ifnotfound = 0))",
  got_if = "function(i) if (exists(\"v\")) sum(get(\"v\")) else 0",
  got_many = "function(i) sum(mget(\"v\", inherits = TRUE)[[1]])",
  parsed = "function(i) sum(eval(parse(text = \"v\")))",
  parsed_call = "function(i) eval(str2lang(\"sum(v) + i\"))",
  quoted = "function(i) sum(eval(quote(v)))",
  evaluated = "function(i) evalq(sum(v))",
  spliced = "function(i) eval(bquote(sum(v) + .(i)))",
  substituted = "function(i) eval(substitute(sum(x), list(x = as.name(\"v\"))))",
  expression = "function(i) eval(expression(sum(v)))",
  formula = "function(i) nrow(stats::model.frame(~v)) + sum(stats::model.frame(~v)[[1]])",
  formula_text = "function(i) sum(stats::model.frame(stats::as.formula(paste(\"~\", \"v\")))[[1]])",
  reformulated = "function(i) sum(stats::model.frame(stats::reformulate(\"v\"))[[1]])",
  with = "function(i) with(list(u = 1), sum(v) + u)",
  transformed = "function(i) sum(transform(data.frame(a = 1), b = sum(v))$b)",
  vapply = "function(i) sum(vapply(1:3, function(k) v[k], 0))",
  reduced = "function(i) Reduce(function(a, k) a + v[k], 1:3, 0)",
  mapped = "function(i) unlist(Map(function(k) v[k] + i, 1:2))",
  called = "function(i) helper(i)",
  called_by_name = "function(i) do.call(\"helper\", list(i))",
  called_by_text = "function(i) match.fun(\"helper\")(i)",
  called_by_string = "function(i) \"helper\"(i)",
  applied_by_name = "function(i) sapply(i, \"helper\")",
  called_past = "function(i) { helper <- 1; helper(i) + helper }",
  replaced_function = "function(i) { f <- if (i > 99) identity else helper; f(i) }",
  recursive = "function(i, n = 2) if (n == 0) sum(v) else sys.function()(i, n - 1)",
  here = "function(i) sum(environment(sys.function())$v)",
  listed = "function(i) \"v\" %in% ls(environment(sys.function()))",
  method = "function(i) summary(structure(list(i), class = \"ours\"))",
  operator = "function(i) i %plus% 1",
  condition = "function(i) tryCatch(stop(sum(v)), error = conditionMessage)",
  string_only = "function(i) paste(\"v\", i)"
)

small <- c(1, 2, 4)
large <- seq(0, 1, length.out = 2e5)

# Makes each function in a frame of its own, with v there or in the global environment. Names of
# the places say where v is, and how large.
make_there <- function(code, v) {
  around <- new.env(parent = globalenv())
  if (!is.null(v)) {
    local(envir = around, {
      w <- 3
      helper <- function(i) i + w
      summary.ours <- function(object, ...) sum(v) + object[[1]]
      `%plus%` <- function(a, b) a + b + sum(v)
      ballast <- numeric(2e5)
    })
    assign("v", v, around)
  }
  eval(parse(text = code, keep.source = FALSE), around)
}
places <- list(
  frame_small = function(code) make_there(code, small),
  frame_large = function(code) make_there(code, large),
  global_small = function(code) {
    assign("v", small, globalenv())
    make_there(code, NULL)
  },
  global_large = function(code) {
    assign("v", large, globalenv())
    make_there(code, NULL)
  }
)
names_there <- c("v", "w", "helper", "summary.ours", "%plus%")

# "error" for any. An assignment outside stays here: each gets a function of its own.
outcome <- function(value) tryCatch(value, error = function(e) "error")

test_cluster("V1 to V4: functions find in a worker what they find here, or it is an error", {
  cl <- local_cluster(2)
  # The workers' own of these names are wrong.
  clusterCall(cl, function(names) {
    for (name in names) assign(name, function(...) "the worker's", globalenv())
    assign("v", -1, globalenv())
  }, names_there)
  defer(function() rm(list = intersect(names_there, ls(globalenv())), envir = globalenv()))
  local(envir = globalenv(), {
    w <- 3
    helper <- function(i) i + w
    summary.ours <- function(object, ...) sum(v) + object[[1]]
    `%plus%` <- function(a, b) a + b + sum(v)
  })
  verbs <- list(
    lapply = function(f) lapply(2, f)[[1L]],
    cluster_map = function(f) cluster_map(cl, 2, f)[[1L]],
    task = function(f) task_value(task_submit(cl, f, 2)),
    partition_map = function(f) {
      p <- partition_scatter(cl, data.frame(i = 2), parts = 1L)
      partition_collect(partition_map(p, function(d, f) data.frame(x = f(d$i)), f))$x
    }
  )
  errors <- character()
  for (place in names(places)) {
    for (use in names(uses)) {
      of_verb <- lapply(verbs, function(verb) outcome(verb(places[[place]](uses[[use]]))))
      for (verb in names(verbs)[-1L]) {
        what <- paste(use, place, verb)
        if (identical(of_verb[[verb]], "error") && !identical(of_verb$lapply, "error")) {
          errors <- c(errors, what)
        } else {
          expect_identical(of_verb[[verb]], of_verb$lapply, info = what)
        }
      }
    }
  }
  # Only a large variable that nothing but a string or quoted code names stays behind, or the code
  # of a method for a class that only a string names.
  behind <- c(
    "got", "got0", "got_if", "got_many", "parsed", "parsed_call", "quoted", "substituted",
    "formula_text", "reformulated", "method"
  )
  expect_setequal(errors, paste(
    behind, "global_large", rep(names(verbs)[-1L], each = length(behind))
  ))
})

# An object made of closures; the frame as an object; a helper that a helper made.
shared_state <- list(
  listed = function(ballast) {
    total <- 0
    api <- list(add = function(v) {
      total <<- total + v
      invisible()
    })
    function(i) {
      api$add(i)
      total
    }
  },
  itself = function(ballast) {
    n <- 0
    self <- environment()
    function(i) {
      self$n <- i
      n
    }
  },
  nested = function(ballast) {
    n <- 0
    make <- function() function(v) n <<- n + v
    bump <- make()
    function(i) {
      bump(i)
      n
    }
  },
  attribute = function(ballast) {
    n <- 0
    f <- function(i) {
      attr(held, "bump")(i)
      n
    }
    held <- structure(1, bump = function(v) n <<- n + v)
    f
  },
  active = function(ballast) {
    n <- 0
    makeActiveBinding("twice", function() 2 * n, environment())
    function(i) {
      n <<- n + i
      twice
    }
  },
  locked = function(ballast) {
    n <- 4
    lockBinding("n", environment())
    function(i) tryCatch(n <<- i, error = function(e) n)
  },
  memoised = function(ballast) {
    known <- new.env()
    function(i) {
      if (is.null(known[[as.character(i)]])) assign(as.character(i), i^2, known)
      known[[as.character(i)]]
    }
  }
)

test_cluster("V3: frames that functions share are one in a worker, whatever lies beside", {
  cl <- local_cluster(1)
  for (name in names(shared_state)) {
    for (size in c(10, 2e5)) {
      make <- function() {
        maker <- shared_state[[name]]
        environment(maker) <- globalenv()
        ballast <- numeric(size)
        made <- maker(ballast)
        force(environment(made)$ballast)
        made
      }
      want <- lapply(c(1, 2, 3), make())
      expect_identical(cluster_map(cl, c(1, 2, 3), make())[[1L]], want[[1L]], info = name)
      expect_identical(task_value(task_submit(cl, make(), 1)), want[[1L]], info = name)
      f <- make()
      expect_identical(task_value(task_submit(cl, lapply, c(1, 2, 3), f)), want, info = name)
    }
  }
})

test_cluster("V2: formulas made of strings see the frame around the function", {
  cl <- local_cluster(2)
  clusterCall(cl, function() {
    assign("age", stats::runif(2e5), globalenv())
    assign("dose", stats::runif(2e5), globalenv())
  })
  fit_all <- function(n, apply) {
    age <- stats::runif(n)
    dose <- stats::runif(n)
    y <- age + 2 * dose
    one <- function(v) unname(stats::coef(stats::lm(stats::as.formula(paste("y ~", v)))))
    unlist(apply(c("age", "dose"), one))
  }
  environment(fit_all) <- globalenv()
  for (n in c(1000, 2e5)) {
    local_seed(n)
    here <- fit_all(n, lapply)
    local_seed(n)
    expect_identical(fit_all(n, function(x, f) cluster_map(cl, x, f)), here)
  }
})

test_cluster("promises that code names are evaluated once, here; others not at all", {
  local_seed(1)
  cl <- local_cluster(2)
  evaluated <- 0L
  count <- function(value) {
    evaluated <<- evaluated + 1L
    value
  }
  map_with <- function(cl, f, ..., unused, by = 1) cluster_map(cl, 1:4, function(i) f(i, ...) + by)
  k <- 10
  got <- map_with(cl, function(i, a) i * a, count(2), unused = stop(), by = count(k))
  expect_identical(got, list(12, 14, 16, 18))
  expect_identical(evaluated, 2L)
  drawn <- map_with(cl, function(i) 0, by = stats::rnorm(1))
  expect_length(unique(drawn), 1L)
  # One that fails does so where it is used.
  expect_identical(map_with(cl, function(i) if (i > 9) by else i, by = 0), list(1, 2, 3, 4))
  late <- function(cl, bad) cluster_map(cl, 1:2, function(i) if (i > 9) bad else i)
  expect_identical(late(cl, stop("bad")), list(1L, 2L))
})

test_cluster("what stays behind for its size says so when it is touched, and how to have it", {
  cl <- local_cluster(1)
  defer(function() rm("behind", envir = globalenv()))
  assign("behind", numeric(1e6), globalenv())
  error <- tryCatch(cluster_map(cl, 1, function(i) length(get("behind"))), error = identity)
  expect_s3_class(error$condition, "muster_error_limit")
  expect_match(conditionMessage(error), "`behind` of the session's global environment isn't here")
  expect_match(conditionMessage(error), "force(behind)", fixed = TRUE)
  expect_identical(cluster_map(cl, 1, function(i) {
    force(behind)
    length(get("behind"))
  }), list(1000000L))
  # An assignment makes it a variable, for as long as the call lasts; the worker's own comes back.
  clusterCall(cl, function() assign("behind", "the worker's", globalenv()))
  assigned <- cluster_map(cl, 1, function(i) {
    assign("behind", 5, globalenv())
    get("behind")
  })
  expect_identical(assigned, list(5))
  expect_identical(clusterCall(cl, function() get("behind", globalenv())), list("the worker's"))
})

test_cluster("A9 large objects that travel are named once", {
  cl <- local_cluster(1)
  large <- NULL
  fun <- local({
    large <- raw(1.1e8)
    function(i) large[i]
  }, new.env(parent = globalenv()))
  expect_message(
    expect_identical(cluster_map(cl, 1, fun), list(as.raw(0))),
    "`large` (110 MB), which your function uses", fixed = TRUE, class = "muster_message_large"
  )
  expect_silent(cluster_map(cl, 1, fun))
})

test_cluster("V9: variables of attached frames, functions of attached environments, S3 methods", {
  cl <- local_cluster(2)
  attach(data.frame(height = c(1, 2, 3)), name = "survey")
  defer(function() detach("survey"))
  helpers <- attach(NULL, name = "helpers")
  defer(function() detach("helpers"))
  local(envir = helpers, {
    twice <- function(x) 2 * x
    fourfold <- function(x) twice(twice(x))
  })
  defer(function() rm(list = c("summary.ours", "area", "area.square"), envir = globalenv()))
  local(envir = globalenv(), {
    summary.ours <- function(object, ...) "ours"
    area <- function(x) UseMethod("area")
    area.square <- function(x) x$side^2
  })
  in_global <- function(f) {
    environment(f) <- globalenv()
    f
  }
  expect_identical(cluster_map(cl, 1:2, in_global(function(i) height[i])), list(1, 2))
  expect_identical(cluster_map(cl, 1:2, in_global(function(i) fourfold(i))), list(4, 8))
  expect_identical(task_value(task_submit(cl, in_global(function(i) fourfold(i)), 3)), 12)
  # What is behind the global environment doesn't see it.
  local(first <- function() letters[1], envir = helpers)
  uses_first <- in_global(function(i) first())
  expect_identical(cluster_map(cl, 1, uses_first), list("a"))
  assign("letters", "mine", globalenv())
  defer(function() rm("letters", envir = globalenv()))
  expect_error(cluster_map(cl, 1, uses_first), "uses `letters`", class = "muster_error_input")
  ours <- structure(list(), class = "ours")
  expect_identical(cluster_map(cl, list(ours), in_global(function(x) summary(x))), list("ours"))
  of_string <- in_global(function(i) summary(structure(list(), class = "ours")))
  expect_identical(task_value(task_submit(cl, of_string, 1)), "ours")
  squares <- list(structure(list(side = 3), class = "square"))
  expect_identical(cluster_map(cl, squares, in_global(function(x) area(x))), list(9))
})

test_cluster("V10: functions as elements find their globals, however many they are", {
  cl <- local_cluster(1)
  defer(function() rm("scale", envir = globalenv()))
  assign("scale", 100, globalenv())
  f <- function() class(scale)
  environment(f) <- globalenv()
  call_it <- function(f) f()
  environment(call_it) <- globalenv()
  expect_identical(unique(cluster_map(cl, rep(list(f), 10001), call_it)), list("numeric"))
})

test_cluster("code of data.table, dplyr and R6 gives what it gives here", {
  cl <- local_cluster(1)
  in_global <- function(f) {
    environment(f) <- globalenv()
    f
  }
  # Packages that nothing asks for, but that may be here.
  is_there <- function(name) requireNamespace(name, quietly = TRUE)
  code <- function(text) eval(parse(text = text, keep.source = FALSE), parent.frame())
  defer(function() rm(list = intersect("dt", ls(globalenv())), envir = globalenv()))
  if (requireNamespace("data.table", quietly = TRUE)) {
    assign("dt", data.table::data.table(k = rep(1:3, 4), x = as.numeric(1:12)), globalenv())
    f <- in_global(function(i) {
      data.table::setkeyv(dt, "k")
      dt[k == i, sum(x)]
    })
    # Where data.table isn't attached, `[` is data.table's only for its own data.
    expect_identical(cluster_map(cl, 1:2, f), lapply(1:2, f))
  }
  if (is_there("dplyr")) {
    limit <- 2
    f <- code("function(i) nrow(dplyr::filter(data.frame(x = 1:5), x > limit + i))")
    expect_identical(cluster_map(cl, 1:2, f), lapply(1:2, f))
  }
  if (is_there("R6")) {
    add <- function(by) {
      self$n <- self$n + by
      invisible(self)
    }
    Counter <- getExportedValue("R6", "R6Class")("Counter", public = list(n = 0, add = add))
    counter <- Counter$new()
    f <- function(i) counter$add(i)$n
    expect_identical(cluster_map(cl, 2, f), list(2))
    expect_identical(cluster_map(cl, 3, function(i) Counter$new()$add(i)$n), list(3))
  }
})
