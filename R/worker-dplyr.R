# In workers: dplyr's verbs. dplyr-verbs.R has the session's side.

# Columns that are made or removed, one after the other. exprs: list(name, code), see row_codes();
# model: see row_stage().
mutate_rows <- function(x, exprs, model) {
  x <- row_frame(x, exprs, model)
  n <- frame_rows(x)
  columns <- as.list(unclass(x))
  attr(columns, "row.names") <- attr(columns, "open") <- attr(columns, "row_types") <- NULL
  for (one in exprs) columns[[one$name]] <- row_column(one, columns, n, model)
  with_row_types(new_frame(columns, n), x, exprs)
}

filter_rows <- function(x, exprs, model) {
  x <- row_frame(x, exprs, model)
  kept <- rep(TRUE, frame_rows(x))
  for (one in exprs) {
    value <- row_column(one, x, frame_rows(x), model)
    if (!is.logical(value)) {
      part_error(paste0("A condition of filter() must be logical, not ", describe(value), "."))
    }
    kept <- kept & value
  }
  with_row_types(if (all(kept %in% TRUE)) x else take_rows(x, which(kept)), x, exprs)
}

# The columns that expressions name, with the types of model.
row_frame <- function(x, exprs, model) {
  x <- with_columns(x, row_names(exprs))
  for (name in intersect(names(model), names(x))) {
    x[[name]] <- like_column(model[[name]], .subset2(x, name))
  }
  x
}

# For the session: the types of the columns that expressions name in x.
with_row_types <- function(done, x, exprs) {
  names <- intersect(row_names(exprs), names(x))
  attr(done, "row_types") <- if (frame_rows(x)) {
    vapply(stats::setNames(nm = names), function(name) type_text(.subset2(x, name)), "")
  }
  done
}

type_text <- function(column) {
  type <- c(typeof(column), oldClass(column), attr(column, "tzone"), attr(column, "units"))
  paste(type, collapse = " ")
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
row_column <- function(one, columns, n, model) {
  code <- one$code
  if (is.null(code)) {
    return(NULL)
  }
  if (is.symbol(code)) {
    return(needed_column(columns, as.character(code)))
  }
  if (!is.language(code)) {
    return(take_rows(list(code), rep(1L, n))[[1L]])
  }
  columns <- lapply(stats::setNames(nm = all.vars(code)), function(name) .subset2(columns, name))
  tryCatch(rows_value(code, columns, n), error = function(e) {
    # A column may not be what it is in parts with rows.
    if (n == 0L) {
      return(logical())
    }
    # One that is all NA may be of another type in other parts.
    none <- vapply(columns, function(x) is.logical(x) && all(is.na(x)), NA)
    if (is.null(model) && any(none)) replan(NULL)
    if (!inherits(e, "muster_not_by_row")) stop(e) # tidy: passed on
    kinds <- vapply(columns, describe_class, "")
    part_error(paste0(
      "Can't tell whether `", shown_code(code), "` has a value for each row, whatever the others ",
      "are", if (length(kinds)) paste0(", where ", toString(paste0("`", names(kinds), "` is ",
        kinds))), ". group_by() has each group's rows together; partition_map() has each part's.",
      if (has_own_units(code, columns)) paste0(
        " The units of a difference of times depend on all rows: difftime(a, b, units = \"secs\") ",
        "has the same units everywhere."
      )
    ))
  })
}

# As the user wrote it, on one line: values of the session's that it has by now as code.
shown_code <- function(code) {
  text <- deparse(code_of_values(code), 60L)
  paste0(gsub("base::", "", text[1L], fixed = TRUE), if (length(text) > 1L) " ...")
}

code_of_values <- function(code) {
  if (is.call(code)) {
    parts <- as.list(code)
    parts[-1L] <- lapply(parts[-1L], code_of_values)
    return(as.call(parts))
  }
  if (is.atomic(code) && length(code) > 6L) {
    return(call("c", utils::head(code, 3L), quote(...)))
  }
  if (is_date(code)) {
    make <- as.name(if (inherits(code, "Date")) "as.Date" else "as.POSIXct")
    return(call(as.character(make), format(code)))
  }
  code
}

# Whether code may have a difference of times whose units R chooses.
has_own_units <- function(code, columns) {
  times <- vapply(c(columns, as.list(code)), inherits, NA, "POSIXct")
  any(times) && any(c("-", "difftime") %in% all.names(code))
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
  known <- left_columns(part, step, funs)
  if (is_empty(part) || is_open(part)) {
    return(open_frame(part[known]))
  }
  # Where groups are few most parts have none, and each would take its 10 ms.
  asked <- list(step$job, step$verb, step$by, step$rowwise, step$model, part)
  if (!identical(the_worker$without_rows$asked, asked)) {
    done <- suppressWarnings(suppressMessages(
      tryCatch(dplyr_part(part, step, funs), error = function(e) open_frame(part[known]))
    ))
    # Functions of groups may give rows for none.
    if (length(step$by) || isTRUE(step$rowwise)) done <- take_rows(done, integer())
    the_worker$without_rows <- list(asked = asked, done = done)
  }
  the_worker$without_rows$done
}

# R loads a package's environments when they are first used. An interrupt at that moment, as when
# another worker has done the task, would leave one without its functions for good: dplyr's data
# mask is loaded before.
dplyr_ready <- function() {
  if (!isTRUE(the_worker$dplyr_ready)) {
    one <- new_frame(list(x = 1L), 1L)
    dplyr::mutate(dplyr::rowwise(dplyr::filter(one, TRUE)), y = 1L)
    the_worker$dplyr_ready <- TRUE
  }
}

# The columns of a part without rows that the result surely has.
left_columns <- function(part, step, funs) {
  by <- intersect(step$by, names(part))
  codes <- lapply(funs, body)
  switch(step$verb,
    summarise = , transmute = , do = , group_modify = by,
    mutate = if (is.null(codes$.keep) || identical(codes$.keep, "all")) {
      setdiff(names(part), names(codes)[vapply(codes, is.null, NA)])
    } else {
      by
    },
    names(part)
  )
}

# One part, in which all groups are whole. funs: functions whose bodies are the expressions. step:
# verb, by; rowwise: whether each row is a group, then model has the types that columns must have.
dplyr_part <- function(part, step, funs) {
  noted <- new.env(parent = emptyenv())
  quos <- verb_quos(funs, step, noted, names(part))
  # Without their methods is.na() and others would take them for numbers.
  named <- unlist(lapply(funs, function(fun) all.vars(body(fun))))
  if (any(vapply(part, is_int64, NA))) requireNamespace("bit64", quietly = TRUE)
  check_classes(part[intersect(names(part), named)])
  sliced <- if (!is.null(step$slice)) sliced_rows(part, step)
  if (!is.null(sliced)) {
    return(sliced)
  }
  types <- NULL
  if (isTRUE(step$rowwise)) {
    for (name in intersect(names(step$model), names(part))) {
      part[[name]] <- like_column(step$model[[name]], .subset2(part, name))
    }
    if (frame_rows(part)) types <- vapply(part, full_type, "")
    part <- dplyr::rowwise(plain_frame(part), !!!lapply(step$by, as.name))
  } else {
    part <- dplyr::group_by(plain_frame(part), !!!lapply(step$by, as.name))
  }
  verb <- if (step$verb == "group_modify" && length(step$by)) {
    modified_groups
  } else {
    getExportedValue("dplyr", step$verb)
  }
  done <- plain_frame(dplyr::ungroup(rlang::eval_tidy(rlang::call2(verb, part, !!!quos))))
  # An expression without a name may have columns of any.
  made <- step$verb %in% c("mutate", "transmute") && length(step$by)
  if (made && !identical(done[step$by], plain_frame(part)[step$by])) {
    part_error(paste0(step$verb, "() can't change columns that are groups."))
  }
  told <- if (!is.null(types)) {
    list(row_types = types, made_types = if (frame_rows(done)) vapply(done, full_type, ""))
  }
  if (length(noted)) told$noted <- unlist(as.list(noted))
  attr(done, "told") <- told
  done
}

# Quosures of functions. step: units of some results, by name, and `noted`, the numbers of those
# whose units go to the environment `noted`: by an expression after them, whose NULL is no column.
verb_quos <- function(funs, step, noted, columns) {
  names <- names(funs)
  hidden <- utils::tail(make.unique(c(columns, names, "noted")), 1L)
  unlist(lapply(seq_along(funs), function(k) {
    code <- body(funs[[k]])
    if (names[k] %in% names(step$units)) code <- rlang::call2(in_unit, code, step$units[[names[k]]])
    quo <- rlang::new_quosure(code, environment(funs[[k]]))
    if (!k %in% step$noted) {
      return(stats::setNames(list(quo), names[k]))
    }
    note <- function(x) {
      if (is_span(x)) assign(as.character(k), attr(x, "units", exact = TRUE), noted)
      NULL
    }
    look <- rlang::new_quosure(rlang::call2(note, as.name(names[k])), baseenv())
    stats::setNames(list(quo, look), c(names[k], hidden))
  }), recursive = FALSE)
}

# With a factor's levels.
full_type <- function(column) {
  levels <- attr(column, "levels", exact = TRUE)
  paste(c(type_text(column), if (!is.null(levels)) rlang::hash(levels)), collapse = " ")
}

# A row that has the types of a part's columns: a logical NA is of any type.
sample_row <- function(x) {
  if (!frame_rows(x)) {
    return(x)
  }
  row <- take_rows(x, NA_integer_)
  for (name in names(x)) {
    column <- .subset2(x, name)
    if (is.logical(column) && !is.object(column) && !all(is.na(column))) row[[name]] <- TRUE
  }
  row
}

like_parts <- function(x, model) {
  if (!frame_rows(x)) {
    return(model)
  }
  if (any(vapply(x, is_int64, NA))) requireNamespace("bit64", quietly = TRUE)
  plain_frame(dplyr::bind_rows(model, x))
}
