# Handles respond like data frames: number of rows and columns, names, first rows. Only what is
# shown is sent to the session.

#' @export
dim.muster_partition <- function(x) {
  names <- names(x)
  c(as.integer(held_by(x)$rows), if (is.null(names)) NA_integer_ else length(names))
}

#' @export
dimnames.muster_partition <- function(x) list(NULL, names(x))

# NULL for a copy, which doesn't know its columns.
#' @export
names.muster_partition <- function(x) {
  opened <- open_handle(x)
  if (!is.null(opened)) opened$stage$columns
}

#' @export
length.muster_partition <- function(x) length(names(x))

#' @export
`[.muster_partition` <- function(x, i, j, ...) {
  call <- sys.call()
  p <- check_partition(x, "x", call)
  if (nargs() > 2L) {
    if (!missing(i)) {
      abort_muster("input", "Can't select rows with `[`, only columns.",
        hints = "partition_map(x, function(part) part[part$n > 1, ]) selects rows.",
        argument = "i", call = call
      )
    }
    i <- if (missing(j)) p$stage$columns else j
  } else if (missing(i)) {
    return(x)
  }
  columns <- chosen_columns(p$stage$columns, i, call)
  step <- list(kind = "inner", fun = "take_columns_of", args = list(columns))
  done <- start_stage(p$cl, p$stage$count, same_steps(list(step)), p$stage, list(), call)
  with_groups_of(done, x)
}

# Columns are on the workers: without these methods there would be NULL. What a handle consists of
# is there by its names.
#' @export
`$.muster_partition` <- function(x, name) handle_field(x, name, sys.call())

#' @export
`[[.muster_partition` <- function(x, i, ...) handle_field(x, i, sys.call())

handle_field <- function(x, name, call) {
  held <- held_by(x)
  field <- is.character(name) && length(name) == 1L && name %in% c(names(held), "groups")
  if (!field || name %in% names(x)) refuse_column(name, call)
  held[[name]]
}

#' @export
`$<-.muster_partition` <- function(x, name, value) refuse_change(sys.call())

#' @export
`[[<-.muster_partition` <- function(x, i, value) refuse_change(sys.call())

#' @export
`[<-.muster_partition` <- function(x, i, j, value) refuse_change(sys.call())

#' @export
`names<-.muster_partition` <- function(x, value) refuse_change(sys.call())

refuse_change <- function(call) {
  abort_muster("input", "Data on workers can't be changed in place.",
    hints = c(
      "partition_map() and dplyr::mutate() make other columns, dplyr::rename() other names.",
      "Each gives a handle to new data."
    ), argument = "x", call = call
  )
}

#' @export
rbind.muster_partition <- function(..., deparse.level = 1) {
  refuse_binding("rbind", "dplyr::union_all(x, y) has the rows of both.")
}

#' @export
cbind.muster_partition <- function(..., deparse.level = 1) {
  refuse_binding("cbind", "partition_join() has columns of both, by a key.")
}

refuse_binding <- function(fun, hint) {
  abort_muster("input", paste0(fun, "() isn't possible for data on workers."), hints = hint,
    argument = "...", call = call(fun)
  )
}

refuse_column <- function(name, call) {
  name <- if (is.character(name)) deparse(name) else format(name)
  abort_muster("input", "Can't take a column out of data on workers.",
    hints = paste0("partition_collect(p[", name, "]) brings it to the session, as does ",
      "dplyr::pull(p, ", name, ")."),
    argument = "i", call = call
  )
}

# Columns selected as in data frames: by name, number or logical value.
chosen_columns <- function(names, i, call) {
  if (is.character(i)) {
    missing <- setdiff(i, names)
  } else {
    at <- stats::setNames(seq_along(names), names)
    chosen <- tryCatch(at[i], error = function(e) NA)
    missing <- if (anyNA(chosen)) utils::head(c(setdiff(as.character(i), seq_along(names)), i), 1L)
    i <- names[chosen]
  }
  if (length(missing)) {
    abort_muster("input",
      paste0("There is no column `", missing[1L], "`; there are ", column_list(names), "."),
      argument = "i", call = call
    )
  }
  if (anyDuplicated(i)) abort_input("i", "columns, each once", i, call)
  i
}

# utils isn't imported for these methods alone: that would slow the first R after a login.
#' @exportS3Method utils::head
head.muster_partition <- function(x, n = 6L, ...) end_rows(x, n, FALSE, sys.call())

#' @exportS3Method utils::tail
tail.muster_partition <- function(x, n = 6L, ...) end_rows(x, n, TRUE, sys.call())

# What the handle refers to, and its first rows as tibble or data.table show them: as many columns
# as the line has room for, each with its type.
#' @export
print.muster_partition <- function(x, ..., n = 6L) {
  cat(format(x), "\n", sep = "")
  rows <- if (identical(handle_state(open_handle(x)), "there")) {
    tryCatch(plain_frame(end_rows(x, n, FALSE, sys.call())), muster_error = function(e) NULL)
  }
  if (length(rows)) cat(rows_text(rows, names(x), getOption("width")), sep = "\n")
  invisible(x)
}

# names: of all columns.
rows_text <- function(rows, names, width) {
  cells <- lapply(names, function(name) {
    column <- .subset2(rows, name)
    text <- c(name, paste0("<", type_name(column), ">"), column_cells(column))
    left <- is.character(column) || is.factor(column)
    format(text, justify = if (left) "left" else "right")
  })
  wide <- cumsum(vapply(cells, function(text) nchar(text[1L], "width") + 1L, 0L))
  shown <- max(1L, sum(wide <= width))
  others <- names[-seq_len(shown)]
  types <- vapply(others, function(name) type_name(.subset2(rows, name)), "")
  trimmed <- if (length(others)) {
    strwrap(paste0(
      "and ", number_of(length(others), "more column"), ": ",
      paste0(others, " <", types, ">", collapse = ", ")
    ), width)
  }
  c(trimws(do.call(paste, cells[seq_len(shown)]), "right"), utils::head(trimmed, 5L))
}

column_cells <- function(column) {
  if (!NROW(column)) {
    return(character())
  }
  if (is.list(column) || length(dim(column)) == 2L) {
    return(vapply(seq_len(NROW(column)), function(i) {
      one <- if (is.data.frame(column) || is.matrix(column)) column[i, ] else column[[i]]
      paste0("<", type_name(one), " [", length(one), "]>")
    }, ""))
  }
  if (is_int64(column) && !requireNamespace("bit64", quietly = TRUE)) {
    return(rep("?", length(column)))
  }
  text <- if (is.character(column)) encodeString(column) else format(column)
  text[is.na(column)] <- "NA"
  long <- nchar(text, "width") > 30L
  text[long] <- paste0(strtrim(text[long], 27L), "...")
  trimws(text)
}

type_name <- function(column) {
  if (is.data.frame(column)) {
    return("data frame")
  }
  if (is.object(column)) {
    names <- c(factor = "fct", ordered = "ord", integer64 = "int64")
    class <- class(column)[1L]
    return(if (class %in% names(names)) names[[class]] else class)
  }
  names <- c(logical = "lgl", integer = "int", double = "dbl", character = "chr", complex = "cplx")
  type <- typeof(column)
  if (type %in% names(names)) type <- names[[type]]
  if (is.matrix(column)) paste0(type, "[,", ncol(column), "]") else type
}

# n rows from one end, in their order; if n is negative, all but -n rows of the other end.
end_rows <- function(x, n, from_end, call) {
  p <- check_partition(x, "x", call)
  if (!is.numeric(n) || length(n) != 1L || is.na(n)) abort_input("n", "one whole number", n, call)
  counts <- end_counts(p$stage$rows, n, from_end)
  frames <- lapply(collect_parts(p, call, end_steps(counts, from_end)), `[[`, "data")
  grouped_rows(as_kind(expand_strings(bind_frames(frames)), p$stage$as), x)
}

# As dplyr's data frame with the groups of a handle, where dplyr is there.
grouped_rows <- function(rows, p) {
  if (!has_groups(p) || !requireNamespace("dplyr", quietly = TRUE)) {
    return(rows)
  }
  by <- if (is_rowwise(p)) dplyr::rowwise else dplyr::group_by
  by(rows, !!!lapply(if (is_rowwise(p)) ids_of(p) else groups_of(p), as.name))
}

# How many rows of each part are among the first n, or the last.
end_counts <- function(rows, n, from_end) {
  wanted <- if (n < 0) max(0, sum(rows) + ceiling(n)) else min(floor(n), sum(rows))
  if (from_end) rows <- rev(rows)
  counts <- pmax(0, pmin(rows, wanted - (cumsum(rows) - rows)))
  if (from_end) rev(counts) else counts
}

end_steps <- function(counts, from_end) {
  force(counts)
  force(from_end)
  function(task) {
    args <- list(counts[task], from_end)
    list(list(kind = "inner", fun = "take_end", args = args), list(kind = "give"))
  }
}

#' @exportS3Method utils::str
str.muster_partition <- function(object, ...) {
  dim <- dim(object)
  cat(format(object), "\n", sep = "")
  if (!is.na(dim[2L])) {
    cat("the first rows:\n")
    utils::str(plain_frame(end_rows(object, 10L, FALSE, sys.call())), ...)
  }
  invisible()
}

# Columns are sent to the session one by one.
#' @export
summary.muster_partition <- function(object, ...) {
  p <- check_partition(object, "object", sys.call())
  names <- p$stage$columns
  shown <- lapply(names, function(name) {
    summary(as.data.frame(object[name]), ...)
  })
  if (!length(shown)) {
    return(summary(empty_frame()))
  }
  lines <- max(vapply(shown, nrow, 0L))
  cells <- vapply(shown, function(one) {
    c(as.character(one), rep(NA_character_, lines - nrow(one)))
  }, character(lines))
  table <- matrix(cells, lines, dimnames = list(rep("", lines), vapply(shown, colnames, "")))
  structure(table, class = "table")
}
