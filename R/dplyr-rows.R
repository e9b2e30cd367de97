# dplyr's mutate(), transmute() and filter(): see dplyr-verbs.R.

mutate.muster_partition <- function(.data, ..., .by = NULL,
                                    .keep = c("all", "used", "unused", "none"),
                                    .before = NULL, .after = NULL) {
  call <- dplyr_call("mutate")
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  keeps <- c("all", "used", "unused", "none")
  keep <- check_choice(if (missing(.keep)) "all" else .keep, ".keep", keeps, call)
  p <- if (length(by)) with_groups(.data, by) else .data
  # With groups dplyr names them, or has several columns of one.
  grouped <- has_groups(p)
  quos <- rlang::enquos(..., .named = !grouped)
  refuse_options(quos, ".seed", call)
  exprs <- quo_exprs(quos, call, names(p), rlang::have_name(rlang::enquos(...)))
  places <- list(.before = rlang::enquo(.before), .after = rlang::enquo(.after))
  places <- lapply(Filter(Negate(rlang::quo_is_null), places), function(quo) {
    names(p)[selected(p, list(quo), call)]
  })
  done <- if (grouped) {
    options <- c(list(.keep = keep), places)
    options <- Map(function(name, value) list(name = name, code = value, env = baseenv()),
      names(options), options
    )
    verb_parts(p, "mutate", c(exprs, unname(options)), call)
  } else {
    mutate_keeping(p, exprs, keep, places, call)
  }
  if (length(by)) with_groups(done, NULL) else done
}

# mutate() without groups. Code with a value for each row names what it uses.
mutate_keeping <- function(p, exprs, keep, places, call) {
  note <- new.env(parent = emptyenv())
  done <- mutate_ungrouped(p, exprs, call, note)
  made <- vapply(note$exprs, `[[`, "", "name")
  used <- unlist(lapply(note$exprs, function(one) c(all.vars(one$code), pronoun_names(one$code))))
  if (length(places)) {
    new <- setdiff(names(done), names(p))
    at <- lapply(places, tidyselect::all_of)
    done <- dplyr::relocate(done, tidyselect::all_of(new), .before = !!at$.before,
      .after = !!at$.after
    )
  }
  kept <- switch(keep,
    all = names(done), none = made, used = c(used, made),
    unused = c(setdiff(names(done), used), made)
  )
  if (all(names(done) %in% kept)) done else done[intersect(names(done), kept)]
}

# The groups that `.by` names for one verb. by: from enquo().
by_columns <- function(p, by, name, call) {
  if (rlang::quo_is_null(by)) {
    return(NULL)
  }
  if (has_groups(p)) {
    abort_muster("input", paste0("Can't use `", name, "`: the data has groups."),
      hints = "ungroup() first, or leave it out.", argument = name, call = call
    )
  }
  names(p)[selected(p, list(by), call)]
}

transmute.muster_partition <- function(.data, ...) {
  call <- dplyr_call("transmute")
  grouped <- has_groups(.data)
  quos <- rlang::enquos(..., .named = !grouped)
  refuse_options(quos, c(".keep", ".before", ".after", ".seed"), call)
  exprs <- quo_exprs(quos, call, names(.data), rlang::have_name(rlang::enquos(...)))
  if (grouped) {
    return(verb_parts(.data, "transmute", exprs, call))
  }
  note <- new.env(parent = emptyenv())
  done <- mutate_ungrouped(.data, exprs, call, note)
  kept <- unique(vapply(note$exprs, `[[`, "", "name"))
  done[intersect(kept, names(done))]
}

filter.muster_partition <- function(.data, ..., .by = NULL, .preserve = FALSE) {
  call <- dplyr_call("filter")
  if (!isFALSE(.preserve)) refuse_argument(".preserve", call)
  quos <- rlang::enquos(...)
  by <- by_columns(.data, rlang::enquo(.by), ".by", call)
  if (length(by)) {
    done <- dplyr::filter(with_groups(.data, by), !!!quos)
    return(with_groups(done, NULL))
  }
  if (any(nzchar(names(quos)))) {
    abort_input("...", "conditions without names, as in x == 1", names(quos), call)
  }
  exprs <- quo_exprs(quos, call, names(.data))
  if (!length(exprs)) {
    return(.data)
  }
  if (has_groups(.data)) {
    return(verb_parts(.data, "filter", exprs, call))
  }
  opened <- check_partition(.data, ".data", call)
  for (k in seq_along(exprs)) {
    if (is_call_of(exprs[[k]]$code, "across")) exprs[[k]]$code[[1L]] <- quote(if_all)
    exprs[[k]]$code <- condition_code(exprs[[k]], .data, call)
    exprs[[k]]$name <- paste0("condition ", k)
  }
  code <- row_codes(.data, exprs, call)
  row_stage(.data, "filter_rows", code, call, opened$stage$keyed)
}

# Code with if_any() and if_all() as the conditions of each column.
condition_code <- function(one, p, call) {
  if (!is.call(one$code)) {
    return(one$code)
  }
  if (!is_call_of(one$code, c("if_any", "if_all"))) {
    parts <- as.list(one$code)
    inner <- vapply(parts, is.call, NA) & seq_along(parts) > 1L
    one$code[inner] <- lapply(parts[inner], function(part) {
      condition_code(replace(one, "code", list(part)), p, call)
    })
    return(one$code)
  }
  any <- is_call_of(one$code, "if_any")
  one$code[[1L]] <- quote(across)
  codes <- lapply(across_exprs(one, TRUE, p, call), `[[`, "code")
  if (!length(codes)) {
    return(!any || any_of_none())
  }
  Reduce(function(one, other) call(if (any) "|" else "&", one, other), codes)
}

# if_any() of no columns: versions of dplyr differ.
any_of_none <- function() {
  one <- new_frame(list(x = TRUE), 1L)
  dplyr::mutate(one, any = dplyr::if_any(dplyr::all_of(character()), isTRUE))$any
}

# note: an environment that gets the expressions of each column, or NULL.
mutate_ungrouped <- function(p, exprs, call, note = NULL) {
  # across() chooses from what there is when its turn comes.
  at <- which(vapply(exprs, function(one) is_call_of(one$code, "across"), NA))[1L]
  if (!is.na(at)) {
    first <- if (at > 1L) mutate_ungrouped(p, exprs[seq_len(at - 1L)], call, note) else p
    batch <- apart(across_exprs(exprs[[at]], !exprs[[at]]$named, first, call), names(first))
    return(mutate_ungrouped(first, c(batch, exprs[-seq_len(at)]), call, note))
  }
  chooses <- vapply(exprs, function(one) {
    any(c("if_any", "if_all") %in% called_names(one$code))
  }, NA)
  at <- setdiff(which(chooses), 1L)[1L]
  if (!is.na(at)) {
    first <- mutate_ungrouped(p, exprs[seq_len(at - 1L)], call, note)
    return(mutate_ungrouped(first, exprs[-seq_len(at - 1L)], call, note))
  }
  exprs <- lapply(exprs, function(one) replace(one, "code", list(condition_code(one, p, call))))
  # An aggregate of what is made here needs that on all rows before.
  made <- character()
  for (k in seq_along(exprs)) {
    one <- exprs[[k]]
    at <- list(columns = c(names(p), made), before = list(), env = one$env)
    calls <- aggregate_calls(one$code, at)
    totals <- unlist(lapply(calls, function(code) c(all.vars(code), pronoun_names(code))))
    # Code that isn't known may find columns without their names.
    whole <- !all(vapply(calls, folds_alone, NA, at))
    if (length(made) && (whole || any(totals %in% made))) {
      first <- mutate_ungrouped(p, exprs[seq_len(k - 1L)], call, note)
      return(mutate_ungrouped(first, exprs[-seq_len(k - 1L)], call, note))
    }
    made <- c(made, one$name)
  }
  if (!is.null(note)) note$exprs <- c(note$exprs, exprs)
  opened <- check_partition(p, ".data", call)
  code <- row_codes(p, exprs, call)
  changed <- vapply(exprs, `[[`, "", "name")
  keyed <- opened$stage$keyed
  done <- row_stage(p, "mutate_rows", code, call, if (!any(keyed %in% changed)) keyed)
  with_groups(done, groups_of(p))
}

# Where parts have columns of other types, each would have its own values for the same code: then
# they get the types that all rows have together.
row_stage <- function(p, fun, code, call, keyed) {
  opened <- check_partition(p, ".data", call)
  run <- function(model) {
    step <- list(kind = "inner", fun = fun, args = list(code, model))
    near_stage(opened, list(step), call, keyed)
  }
  tryCatch(run(NULL), muster_replan = function(e) {
    model <- prototype(p, call)
    run(model[intersect(row_names(code), names(model))])
  })
}

# Expressions that don't see each other's results.
apart <- function(exprs, names) {
  made <- vapply(exprs, `[[`, "", "name")
  if (!any(unlist(lapply(exprs, function(one) all.vars(one$code))) %in% made)) {
    return(exprs)
  }
  now <- utils::tail(make.unique(c(names, made, rep("new", length(made)))), length(made))
  named <- function(name, code) list(name = name, code = code, env = baseenv())
  c(
    Map(function(one, name) replace(one, "name", name), exprs, now),
    Map(named, made, lapply(now, as.name)), lapply(now, named, NULL)
  )
}

# list(name, code) for each expression: code with a value for each row, in which aggregates of all
# rows and other things that don't depend on columns are values already.
row_codes <- function(p, exprs, call) {
  columns <- names(p)
  done <- list()
  for (one in exprs) {
    if (is.null(one$code)) {
      done <- c(done, list(list(name = one$name, code = NULL)))
      columns <- setdiff(columns, one$name)
      next
    }
    # What was made before is no column of p, for aggregates.
    made <- vapply(done, `[[`, "", "name")
    code <- with_totals(p, one, setdiff(columns, made), call)
    at <- list(plan = NULL, columns = columns, before = list(), env = one$env)
    code <- inner_code(code, at)
    if (is.null(code)) refuse_code(one$code, at, call)
    done <- c(done, list(list(name = one$name, code = code)))
    columns <- union(columns, one$name)
  }
  done
}

# Code with the values of its aggregates of all rows.
with_totals <- function(p, one, columns, call) {
  calls <- aggregate_calls(one$code, list(columns = columns, before = list(), env = one$env))
  if (!length(calls)) {
    return(one$code)
  }
  calls <- unique(calls)
  # An error shows the name.
  names <- make.unique(vapply(calls, function(code) {
    paste(deparse(own_calls(code), 60L), collapse = " ")
  }, ""))
  exprs <- Map(function(name, code) list(name = name, code = code, env = one$env), names, calls)
  opened <- check_partition(p, ".data", call)
  # What folds draws no random numbers.
  at <- list(columns = columns, before = list(), env = one$env)
  seed <- !all(vapply(calls, folds_alone, NA, at))
  totals <- summarise_parts(opened, unname(exprs), character(), call, seed = seed)
  totals <- collect_frame(open_handle(totals), call)
  # Columns of one row, with their classes: `[[` has no method for some.
  replaced(one$code, calls, as.list(totals))
}

aggregate_calls <- function(code, at) {
  if (!is.call(code)) {
    return(list())
  }
  if (folds_alone(code, at) || is_total(code, at)) {
    return(list(code))
  }
  # Nowhere else: inside of other functions names may mean something else.
  known <- !is.null(base_name(code, at, constant_functions)) || is_formula(code) ||
    !is.null(row_call_of(code, at))
  if (!known) {
    return(list())
  }
  unlist(lapply(as.list(code)[-1L], aggregate_calls, at), recursive = FALSE)
}

# Whether a call is an aggregate that summarise() folds.
folds_alone <- function(code, at) {
  at$plan <- new.env(parent = emptyenv())
  at$plan$codes <- at$plan$folds <- at$plan$aggregates <- list()
  !is.null(add_aggregate(code, at))
}

# Further functions with one value for all rows.
total_homes <- list(
  base = c("length", "prod"), stats = c("median", "quantile", "IQR", "mad", "weighted.mean", "cor")
)

# Whether a call of columns has one value for all rows, whatever its arguments are: that of an
# aggregate, which summarise() evaluates as it stands.
is_total <- function(code, at) {
  if (!any(c(all.vars(code), pronoun_names(code)) %in% c(at$columns, ".data"))) {
    return(FALSE)
  }
  if (!is.null(aggregate_name(code, at))) {
    return(TRUE)
  }
  head <- code[[1L]]
  package <- NULL
  if (is.call(head) && identical(head[[1L]], quote(`::`))) {
    package <- as.character(head[[2L]])
    head <- head[[3L]]
  }
  if (!is.symbol(head)) {
    return(FALSE)
  }
  name <- as.character(head)
  homes <- names(Filter(function(names) name %in% names, total_homes))
  if (!is.null(package)) {
    return(package %in% homes)
  }
  length(homes) > 0L && is_exported(get0(name, at$env, mode = "function"), name, homes)
}

replaced <- function(code, calls, values) {
  for (k in seq_along(calls)) {
    if (identical(code, calls[[k]])) {
      return(values[[k]])
    }
  }
  if (!is.call(code)) {
    return(code)
  }
  parts <- vapply(as.list(code), is.call, NA)
  if (any(parts)) code[parts] <- lapply(as.list(code)[parts], replaced, calls, values)
  code
}
