# In workers: dplyr's verbs. adapt-dplyr.R has the session's side.

# Columns that are made or removed, one after the other. exprs: list(name, code), see row_codes().
mutate_rows <- function(x, exprs) {
  x <- with_columns(x, row_names(exprs))
  n <- frame_rows(x)
  columns <- as.list(unclass(x))
  attr(columns, "row.names") <- attr(columns, "open") <- NULL
  for (one in exprs) columns[[one$name]] <- row_column(one, columns, n)
  new_frame(columns, n)
}

filter_rows <- function(x, exprs) {
  x <- with_columns(x, row_names(exprs))
  kept <- rep(TRUE, frame_rows(x))
  for (one in exprs) {
    value <- row_column(one, x, frame_rows(x))
    if (!is.logical(value)) {
      part_error(paste0("A condition of filter() must be logical, not ", describe(value), "."))
    }
    kept <- kept & value
  }
  if (all(kept %in% TRUE)) x else take_rows(x, which(kept))
}

# Columns that expressions name, but for those that were made before.
row_names <- function(exprs) {
  named <- made <- character()
  for (one in exprs) {
    named <- c(named, setdiff(all.vars(one$code), made))
    made <- c(made, one$name)
  }
  unique(named)
}

# A column from code with a value for each row; NULL removes it.
row_column <- function(one, columns, n) {
  code <- one$code
  if (is.null(code)) {
    return(NULL)
  }
  if (is.symbol(code)) {
    return(needed_column(columns, as.character(code)))
  }
  if (!is.language(code)) {
    return(rep(code, n))
  }
  columns <- lapply(stats::setNames(nm = all.vars(code)), function(name) .subset2(columns, name))
  tryCatch(rows_value(code, columns, n), error = function(e) {
    # A column may not be what it is in parts with rows.
    if (n == 0L) {
      return(logical())
    }
    if (!inherits(e, "muster_not_by_row")) stop(e) # tidy: passed on
    text <- gsub("base::", "", deparse(code)[1L], fixed = TRUE)
    part_error(paste0(
      "`", text, "` can't be had for each row by itself, with columns of these classes and these ",
      "arguments: group_by() first, or use partition_map() if it can."
    ))
  })
}

rename_columns <- function(x, from, to) {
  x <- take_columns_of(x, from)
  names(x) <- to
  x
}

# A verb for one part. Without rows, dplyr may still know the columns; what it says then is about
# nothing that the user has.
dplyr_verb <- function(part, step, funs) {
  if (frame_rows(part)) {
    return(dplyr_part(part, step, funs))
  }
  if (is_empty(part) || is_open(part)) {
    return(open_frame(part))
  }
  suppressWarnings(suppressMessages(
    tryCatch(dplyr_part(part, step, funs), error = function(e) open_frame(part))
  ))
}

# One part, in which all groups are whole. funs: functions whose bodies are the expressions.
dplyr_part <- function(part, step, funs) {
  quos <- lapply(funs, function(fun) rlang::new_quosure(body(fun), environment(fun)))
  names(quos) <- names(funs)
  # Without their methods is.na() and others would take them for numbers.
  named <- unlist(lapply(funs, function(fun) all.vars(body(fun))))
  if (any(vapply(part, is_int64, NA))) requireNamespace("bit64", quietly = TRUE)
  check_classes(part[intersect(names(part), named)])
  part <- dplyr::group_by(plain_frame(part), !!!lapply(step$by, as.name))
  verb <- getExportedValue("dplyr", step$verb)
  done <- plain_frame(dplyr::ungroup(rlang::eval_tidy(rlang::call2(verb, part, !!!quos))))
  # An expression without a name may have columns of any.
  made <- step$verb %in% c("mutate", "transmute") && length(step$by)
  if (made && !identical(done[step$by], plain_frame(part)[step$by])) {
    part_error(paste0(step$verb, "() can't change columns that are groups."))
  }
  done
}
