# In workers: tidyr's verbs. dplyr-tidyr.R has the session's side.

# One part, by tidyr itself. args: of the verb; selections are code, as all_of(c("x", "y")).
tidyr_part <- function(part, step, args) {
  if (is_empty(part) || is_open(part)) {
    return(open_frame(empty_frame()))
  }
  if (any(vapply(part, is_int64, NA))) requireNamespace("bit64", quietly = TRUE)
  check_classes(part)
  types <- NULL
  for (name in intersect(names(step$model), names(part))) {
    part[[name]] <- like_column(step$model[[name]], .subset2(part, name))
  }
  if (frame_rows(part)) types <- vapply(part, full_type, "")
  rows <- plain_frame(part)
  if (length(step$by)) rows <- dplyr::group_by(rows, !!!lapply(step$by, as.name))
  args <- lapply(args, function(one) {
    if (inherits(one, "muster_code")) rlang::new_quosure(body(one), environment(one)) else one
  })
  code <- rlang::call2(getExportedValue("tidyr", step$verb), rows, !!!args)
  run <- function() {
    plain_frame(dplyr::ungroup(rlang::eval_tidy(code, env = asNamespace("tidyselect"))))
  }
  if (!frame_rows(part)) {
    # What tidyr says of no rows is about nothing that the user has.
    return(tryCatch(run(), error = function(e) open_frame(part[step$by])))
  }
  done <- withCallingHandlers(run(),
    # It may be about the types of this part's columns.
    error = function(e) if (is.null(step$model)) replan(NULL),
    warning = function(w) {
      # Its numbers of rows are those in the part.
      text <- conditionMessage(w)
      plain <- sub("( in [0-9]+ rows) \\[[^]]*\\]", "\\1 of a part", text)
      if (plain != text) {
        warning(plain, call. = FALSE) # tidy: relayed
        tryInvokeRestart("muffleWarning")
      }
    }
  )
  attr(done, "told") <- list(row_types = types)
  done
}

# In one row: the type of the values in each of these columns, if it is a list that has some.
part_types <- function(part, names) {
  types <- lapply(stats::setNames(nm = intersect(names, names(part))), function(name) {
    column <- .subset2(part, name)
    if (is.list(column) && !is.data.frame(column)) {
      each <- lapply(Filter(Negate(is.null), as.list(column)), vctrs::vec_ptype)
      if (length(each)) Reduce(vctrs::vec_ptype2, unique(each))
    }
  })
  new_frame(list(types = list(types)), 1L)
}

part_distinct <- function(part, names) {
  if (is_empty(part) || is_open(part)) {
    return(open_frame(empty_frame()))
  }
  plain_frame(dplyr::distinct(take_columns_of(part, names)))
}

# In one row: whether several rows have the same values of these columns.
part_doubles <- function(part, names) {
  distinct <- part_distinct(part, names)
  new_frame(list(twice = frame_rows(distinct) < frame_rows(part)), 1L)
}

# Two rows: the first value of each of these columns that isn't missing, and the last.
part_edges <- function(part, names) {
  n <- frame_rows(part)
  if (!n) {
    return(open_frame(empty_frame()))
  }
  rows <- expand_strings(take_columns_of(part, names))
  first <- tidyr::fill(rows, dplyr::everything(), .direction = "up")
  last <- tidyr::fill(rows, dplyr::everything(), .direction = "down")
  bind_frames(list(take_rows(first, 1L), take_rows(last, n)))
}

# before, after: a row with what is there before the part, after it, or NULL.
fill_between <- function(part, names, way, before = NULL, after = NULL) {
  n <- frame_rows(part)
  if (!n) {
    return(part)
  }
  rows <- expand_strings(take_columns_of(part, names))
  all <- bind_frames(Filter(Negate(is.null), list(before, rows, after)))
  all <- tidyr::fill(all, dplyr::everything(), .direction = way)
  filled <- take_range(all, if (is.null(before)) 1L else 2L, n)
  for (name in names) part[[name]] <- filled[[name]]
  part
}

# Values for what is missing; there: a column that is TRUE in rows that were there, which are left
# as they are, or NULL. model: see row_stage().
fill_made <- function(part, fill, there, model) {
  if (!frame_rows(part)) {
    return(if (is.null(there)) part else take_columns_of(part, setdiff(names(part), there)))
  }
  for (name in intersect(names(fill), names(part))) {
    part[[name]] <- like_column(model[[name]], .subset2(part, name))
  }
  done <- plain_frame(tidyr::replace_na(part, fill[intersect(names(fill), names(part))]))
  if (is.null(there)) {
    return(done)
  }
  made <- is.na(.subset2(part, there))
  for (name in intersect(names(fill), names(part))) {
    column <- .subset2(part, name)
    column[made] <- .subset2(done, name)[made]
    part[[name]] <- column
  }
  take_columns_of(part, setdiff(names(part), there))
}
