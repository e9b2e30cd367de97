#' Summaries of groups
#'
#' `partition_summarise()` evaluates expressions for each group of rows with equal keys, as
#' `dplyr::summarise()` does for a data frame: `delay = mean(arr_delay, na.rm = TRUE)` becomes a
#' column `delay` with a row for each group.
#'
#' In an expression, columns are variables, and so are the results before it. Everything else is
#' found where `partition_summarise()` is called. `.data$x` and `.data[[name]]` are columns, and
#' `.env$x` is a variable even if a column has that name. `n()` is the number of rows,
#' `n_distinct(x)` that of different values, `first(x)` and `last(x)` are values of the first and
#' the last row: muster's own, unless you have such functions, as those of dplyr.
#'
#' The value for a group is what R gives for its rows in their order. It must be a single one;
#' `list()` makes a single value of anything, as in `fit = list(lm(y ~ x))`. For several rows for
#' each group see [partition_reduce()].
#'
#' The time zone, the order of strings, the language of dates and the options `contrasts`, `digits`,
#' `digits.secs`, `na.action`, `OutDec`, `scipen` and `useFancyQuotes` are those that the session
#' has when `partition_summarise()` is called. If a worker's host doesn't have the session's locale,
#' there is a warning.
#'
#' @section What travels:
#' Only the columns that the expressions name. A column that is used and not named, as in
#' `get(paste0("x", 1))`, is noticed, and then all travel.
#'
#' Where an expression consists of `n()`, `sum()`, `mean()`, `min()`, `max()`, `var()`, `sd()`,
#' `any()`, `all()`, `first()`, `last()` and `n_distinct()`, each worker evaluates these for its own
#' rows, before any travel (where that leaves at most half of the rows, of a part or of all parts
#' that a worker has): very large and very uneven groups cost no more than others. They may be of
#' expressions, and in expressions: `sum(x * y) / sum(y)`, `mean(delay > 15, na.rm = TRUE)`,
#' `max(x) - min(x)`. This holds for arithmetic, comparisons, mathematical functions, `ifelse()`,
#' `is.na()`, `%in%`, `substr()` and the like of base R, and variables of length 1; for
#' logical, integer, numeric, integer64, Date, POSIXct and difftime columns, `first()`, `last()`
#' and `n_distinct()` also for strings and factors. With anything else an expression is
#' evaluated for each group, and the columns that it names travel.
#' If you give functions of these names of your own, yours are called.
#'
#' @section Numbers:
#' Sums are exact and then rounded once; means, variances and standard deviations are within a few
#' units in the last place. Neither depends on the order of rows, or on the number of parts or
#' workers, and nothing is lost when numbers cancel or an intermediate sum overflows:
#' `sum(c(1e16, 1, -1e16))` is 1. A sum of integers past R's integers is numeric, not `NA`. `NA` and
#' `NaN` propagate as in base R; if a group has both, `NA` wins. A sum of integer64 is integer64,
#' and an error past 2^63; a mean is numeric; package bit64 isn't needed for them. `min()` and
#' `max()` of no numbers are `Inf` and `-Inf`, without a warning. Variances of numbers beyond 2^480
#' or closer to 0 than 2^-480 are R's own, and so are those of other groups then.
#'
#' @param .p A handle from [partition_scatter()] or a related function.
#' @param ... Expressions with names, which become columns. Without a name, the code is the name.
#'   May be passed on from a caller's `...`.
#' @param .by The key: names of columns, as code (`carrier`, `c(year, month)`) or strings. A name
#'   that isn't a column's is a variable with such strings. By default the groups that
#'   `dplyr::group_by()` gave `.p`; without any, all rows are one group. For keys and their order
#'   see [partition_shuffle()].
#' @param .parts Number of parts of the result, from 1 to 4096. By default, as many as the data has;
#'   fewer where all expressions are evaluated before rows travel, and little is left of them.
#' @param .speculate As for [partition_reduce()].
#' @param .seed As for [partition_reduce()]: with it, each group has a random stream of its own,
#'   another one if there is another number of parts.
#' @param .on_error `"stop"`, the default: the first group for which an expression raises an error
#'   ends the call. `"return"`: that group has `NA` for what needs the whole group, and the error's
#'   message in a column `.error`, which is `NA` for the others.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()], with the key's
#'   columns and one for each expression.
#' @section Errors:
#' Those of [partition_reduce()]. `muster_error_input` also for two expressions of one name, one
#' with the name of a key, and a value that isn't a single one, which names the group.
#' @section Cost:
#' As for [partition_shuffle()]. What each worker can evaluate for its own rows takes some 5 ns for
#' each row and aggregate, anything else some microseconds for each group, and its own time.
#' @section Source:
#' `dplyr::summarise()` gives the form. Exact sums: see the header of src/shuffle/sum.h. Folding
#' before rows travel: Dean and Ghemawat's combiners, MapReduce (OSDI 2004).
#' @seealso [partition_reduce()] for a function of a group's rows.
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' heavy <- 3.2
#' s <- partition_summarise(p,
#'   .by = cyl, n = n(), power = mean(hp), spread = sd(mpg), heavy = mean(wt > heavy),
#'   middle = median(mpg), slope = coef(lm(mpg ~ wt))[["wt"]]
#' )
#' partition_collect(s)
#' cluster_stop(cl)
#' @export
partition_summarise <- function(.p, ..., .by = NULL, .parts = NULL,
                                .on_error = c("stop", "return"), .seed = FALSE,
                                .speculate = TRUE) {
  call <- sys.call()
  p <- check_partition(.p, ".p", call)
  envs <- argument_envs(sys.function(), call, parent.frame())
  by <- by_of(substitute(.by), envs(name = ".by"), p$stage$columns, call)
  if (missing(.by)) by <- groups_of(.p)
  exprs <- dots_code(substitute(list(...)), envs)
  summarise_parts(p, exprs, by, call, .parts, .on_error, .seed, .speculate)
}

# exprs: list(name, code, env) each.
summarise_parts <- function(p, exprs, by, call, parts = NULL, on_error = "stop", seed = FALSE,
                            speculate = TRUE) {
  parts <- check_parts(parts, call, NULL, ".parts")
  returns <- check_choice(on_error, ".on_error", c("stop", "return"), call) == "return"
  check_flag(speculate, ".speculate", call)
  stream <- map_stream(seed, p$cl, call)
  exprs <- check_exprs(exprs, by, returns, p$stage$columns, call)
  # Without rows, columns may have been forgotten.
  if (sum(p$stage$rows) && !returns) check_variables_of(exprs, p$stage$columns, call)
  whole <- integer()
  all <- FALSE
  repeat {
    plan <- plan_results(exprs, p$stage$columns, whole, all)
    plan$returns <- returns
    done <- tryCatch(
      with_one_unit(vapply(exprs, `[[`, "", "name"), reads_result(plan), function(units) {
        plan$units <- units
        run_summaries(p, by, plan, parts, call, stream, seed, speculate)
      }),
      muster_replan = identity
    )
    if (!inherits(done, "muster_replan")) {
      return(done$handle)
    }
    # Types that differ from part to part make all doubtful.
    whole <- if (isFALSE(done$folds)) seq_along(exprs) else union(whole, done$whole)
    all <- all || isTRUE(done$all)
  }
}

# A function that tells whether a result after result k uses it.
reads_result <- function(plan) {
  force(plan)
  function(k) {
    any(vapply(plan$results[-seq_len(k)], function(one) {
      (if (is.null(one$code)) plan$results[[k]]$name else paste0("r", k)) %in%
        c(one$before, all.vars(one$code))
    }, NA))
  }
}

# list(handle, mixed), see with_one_unit().
run_summaries <- function(p, by, plan, parts, call, stream, seed, speculate) {
  if (!length(by)) parts <- 1L
  funs <- lapply(plan$results, `[[`, "fun")
  plan$results <- lapply(plan$results, function(one) one[names(one) != "fun"])
  whole <- Filter(Negate(is.null), funs)
  if (!length(whole)) {
    the_partition$folds <- the_partition$folds + 1
    fold <- list(kind = "fold", by = by, plan = plan, asks = FALSE, tag = the_partition$folds)
    if (is.null(parts)) {
      folded <- folded_parts(p, fold, call)
      parts <- folded$parts
      done <- direct_summaries(p, by, plan, parts, folded$groups, call)
      if (!is.null(done)) {
        return(list(handle = done))
      }
    }
    final <- list(kind = "inner", fun = "fold_final", args = list(by, plan))
    return(summary_units(shuffle_stages(p, by, parts, call, list(fold), list(final))))
  }
  if (is.null(parts)) parts <- p$stage$count
  job <- make_job(whole[[1L]], list(funs = funs), NULL, FALSE, p$cl, call)
  if (is.null(seed)) job$quiet <- TRUE
  take <- list(list(
    kind = "inner", fun = "take_columns_of", args = list(unique(c(by, plan$columns)))
  ))
  post <- list(list(kind = "call", how = "summarise", by = by, plan = plan, name = "..."))
  summary_units(shuffle_stages(p, by, parts, call, take, post, job, stream, speculate))
}

summary_units <- function(ran) {
  units <- mixed_units(lapply(ran$answers, `[[`, "units"))
  c(ran, list(mixed = c(units, unlist(lapply(ran$answers, `[[`, "mixed")))))
}

# In how many parts the groups of folded rows are: in fewer than the data has where what parts fold
# to is little, since each pair of parts takes 20 us. As the order of keys, this depends on the data
# alone. Inf groups where a shuffle is best.
folded_parts <- function(p, fold, call) {
  count <- p$stage$count
  if (count <= 8L) {
    return(list(parts = count, groups = Inf))
  }
  steps <- same_steps(list(replace(fold, "asks", TRUE)))
  answers <- ask_parts(p, new_stage(p$shuffle, count, steps, near = p$stage), call)
  rows <- sum(vapply(answers, `[[`, 0, "rows"))
  parts <- as.integer(min(count, max(1, ceiling(rows / 2^16))))
  groups <- if (rows < 2^17) Inf else max(vapply(answers, `[[`, 0, "groups"))
  list(parts = parts, groups = groups)
}

# ---- Arguments

# With names, and with columns instead of pronouns.
check_exprs <- function(exprs, by, returns, columns, call) {
  names <- vapply(exprs, function(one) {
    if (nzchar(one$name)) one$name else paste(deparse(one$code, 60L), collapse = " ")
  }, "")
  if (!length(exprs) && !length(by)) {
    abort_input("...", "expressions, or a key as `.by`", NULL, call)
  }
  twice <- c(names[duplicated(names)], intersect(names, by))
  if (length(twice)) {
    abort_muster("input",
      paste0("There would be two columns `", twice[1L], "`."),
      hints = "Give them names that differ.",
      argument = "...", call = call
    )
  }
  own <- c(".by", ".parts", ".on_error", ".seed", ".speculate")
  for (name in names[startsWith(names, ".") & nchar(names) > 4L]) {
    near <- own[startsWith(own, name) | utils::adist(name, own) <= 1][1L]
    if (!is.na(near)) {
      abort_muster("input", paste0("`", name, "` isn't an argument of ", call_name(call), "()."),
        hints = paste0("Do you mean `", near, "`?"), argument = name, call = call
      )
    }
  }
  if (returns && ".error" %in% c(names, by)) {
    abort_muster("input", "With `.on_error = \"return\"`, `.error` is for the errors' messages.",
      argument = "...", call = call
    )
  }
  lapply(seq_along(exprs), function(k) {
    one <- exprs[[k]]
    known <- c(columns, names[seq_len(k - 1L)])
    one$name <- names[k]
    if (!is.null(one$code)) one$code <- check_pronouns(one$code, one$env, known, call)
    one
  })
}

check_variables_of <- function(exprs, columns, call) {
  names <- vapply(exprs, `[[`, "", "name")
  for (k in seq_along(exprs)) {
    known <- c(columns, names[seq_len(k - 1L)])
    check_variables(exprs[[k]]$code, exprs[[k]]$env, known, call)
  }
}

# Variables that code surely uses, since functions known here do, must be somewhere. Elsewhere names
# may mean anything.
check_variables <- function(code, env, known, call) {
  if (is.symbol(code)) {
    name <- as.character(code)
    if (nzchar(name) && !name %in% c(known, ".data") && !exists(name, env)) {
      abort_nowhere(name, known, call)
    }
  } else if (is.call(code)) {
    at <- list(env = env)
    if (!is.null(base_name(code, at, constant_functions)) || !is.null(aggregate_name(code, at))) {
      for (part in as.list(code)[-1L]) check_variables(part, env, known, call)
    }
  }
}

abort_nowhere <- function(name, columns, call) {
  abort_muster("input", paste0(
    "There is no column or variable `", name, "`; columns are ", column_list(columns), "."
  ), argument = "...", call = call)
}

# Columns that .data names must be there (known: NULL: not checked); .env$x becomes its value.
check_pronouns <- function(code, env, known, call) {
  if (!is.call(code)) {
    return(code)
  }
  name <- pronoun_name(code, ".data")
  if (!is.null(name)) {
    if (!is.null(known) && !name %in% known) abort_column(name, known, "...", call)
    return(code)
  }
  name <- pronoun_name(code, ".env")
  if (is.null(name)) {
    calls <- vapply(as.list(code), is.call, NA)
    if (any(calls)) code[calls] <- lapply(as.list(code)[calls], check_pronouns, env, known, call)
    return(code)
  }
  if (!exists(name, env)) {
    abort_muster("input", paste0("There is no variable `", name, "`, as in `.env$", name, "`."),
      argument = "...", call = call
    )
  }
  value <- get(name, env)
  if (is.language(value)) call("quote", value) else value
}

abort_column <- function(name, known, argument, call) {
  abort_muster("input",
    paste0("There is no column `", name, "`; there are ", column_list(known), "."),
    argument = argument, call = call
  )
}

# The names of columns in code: symbols, strings, c() of these, or what gives strings.
by_of <- function(code, env, columns, call) {
  if (is.null(code)) {
    return(character())
  }
  parts <- if (is.call(code) && identical(code[[1L]], quote(c))) as.list(code)[-1L] else list(code)
  by <- unlist(lapply(parts, function(part) {
    name <- if (is.symbol(part)) as.character(part) else pronoun_name(part, ".data")
    if (!is.null(name) && name %in% columns) {
      return(name)
    }
    names <- tryCatch(eval(part, env), error = function(e) {
      if (!is.null(name)) abort_column(name, columns, ".by", call)
      abort_muster("input", "`.by` must be names of columns, as code or strings.",
        details = conditionMessage(e), argument = ".by", call = call
      )
    })
    if (!is.null(names) && !is.character(names)) {
      abort_input(".by", "names of columns", names, call)
    }
    names
  }))
  if (!all(names(by) %in% "")) abort_input(".by", "names of columns, without other names", by, call)
  if (!length(by)) character() else check_by(unname(by), call, ".by")
}
