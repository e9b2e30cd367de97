# Aggregates as text, parsed in the session for partition_reduce().

# "sum(x, na.rm = TRUE)" becomes list(name, how, column, na_rm). env: where to evaluate na.rm's
# value, the caller's.
parse_aggregates <- function(fun, env, call) {
  names <- names(fun)
  if (is.null(names) || anyNA(names) || !all(nzchar(names)) || anyDuplicated(names)) {
    abort_muster("input", "Aggregates must have names, all different: c(total = \"sum(x)\").",
      argument = ".fun", call = call
    )
  }
  lapply(seq_along(fun), function(i) {
    c(list(name = names[i]), parse_aggregate(fun[[i]], env, call))
  })
}

parse_aggregate <- function(text, env, call) {
  code <- tryCatch(str2lang(text), error = function(e) NULL)
  how <- if (is.call(code) && is.symbol(code[[1L]])) as.character(code[[1L]])
  if (is.null(how) || !how %in% names(fold_parts)) {
    abort_aggregate(text, call)
  }
  arguments <- as.list(code)[-1L]
  names <- names(arguments)
  if (is.null(names)) names <- rep("", length(arguments))
  wrong <- setdiff(names, c("", if (how != "n") c("x", "na.rm")))
  if (length(wrong)) {
    abort_muster("input",
      paste0("`", how, "` can't have an argument `", wrong[1L], "` in \"", text, "\"."),
      hints = aggregate_hint, argument = ".fun", call = call
    )
  }
  columns <- arguments[names != "na.rm"]
  flags <- arguments[names == "na.rm"]
  if (length(columns) != (how != "n") || length(flags) > 1L ||
    !all(vapply(columns, is_column, NA))) {
    abort_aggregate(text, call)
  }
  list(
    how = how, column = if (length(columns)) as.character(columns[[1L]]),
    na_rm = length(flags) == 1L && aggregate_flag(flags[[1L]], text, env, call)
  )
}

# A name, but not the empty one of a missing argument.
is_column <- function(code) is.symbol(code) && nzchar(as.character(code))

aggregate_hint <- paste(
  "Available are sum(x), mean(x), min(x) and max(x) of one column, with or without",
  "`na.rm = TRUE`, and n(). For anything else, use a function."
)

abort_aggregate <- function(text, call) {
  abort_muster("input", paste0("Can't read the aggregate \"", text, "\"."),
    hints = aggregate_hint, argument = ".fun", call = call
  )
}

# na.rm's value: a variable, T, any expression.
aggregate_flag <- function(code, text, env, call) {
  wrong <- function(details) {
    abort_muster("input", paste0("`na.rm` must be TRUE or FALSE in \"", text, "\"."),
      details = details, argument = ".fun", call = call
    )
  }
  if (identical(code, quote(expr = ))) {
    wrong("It has no value.")
  }
  flag <- tryCatch(eval(code, env), error = function(e) wrong(conditionMessage(e)))
  if (!isTRUE(flag) && !isFALSE(flag)) {
    wrong(paste0("It is ", describe(flag), "."))
  }
  # Drops its names, which would travel along.
  isTRUE(flag)
}

# Result names become columns next to the key's.
check_results <- function(names, by, call) {
  twice <- intersect(names, by)
  if (length(twice)) {
    abort_muster("input", paste0("An aggregate can't have the name of the key, `", twice[1L], "`."),
      argument = ".fun", call = call
    )
  }
}

# An aggregate's text is complete: further arguments would have no effect.
check_no_more <- function(more, combine, call) {
  if (length(more)) {
    name <- names(more)[1L]
    named <- !is.null(name) && !is.na(name) && nzchar(name)
    abort_muster("input",
      paste0("Aggregates take no further arguments", if (named) paste0(": `", name, "`"), "."),
      hints = "Write it in the text: c(total = \"sum(x, na.rm = TRUE)\").",
      argument = if (named) name else "...", call = call
    )
  }
  if (!is.null(combine)) {
    abort_muster("input", "`.combine` must be NULL for aggregates, which are combined anyway.",
      argument = ".combine", call = call
    )
  }
}
