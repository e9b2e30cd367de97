# dplyr's rowwise(): see dplyr-verbs.R. A handle of this class has each of its rows as a group, and
# `ids`, columns that summarise() keeps. Each part has whole groups as it is, so dplyr evaluates the
# parts where they are.

rowwise.muster_partition <- function(data, ...) {
  call <- dplyr_call("rowwise")
  ids <- if (is_rowwise(data)) character() else groups_of(data)
  if (length(ids) && ...length()) {
    abort_muster("input", "Can't name columns in rowwise(): the data has groups.",
      hints = "ungroup() first, or leave them out: the groups' columns are kept.",
      argument = "...", call = call
    )
  }
  if (...length()) ids <- names(data)[selected(data, rlang::enquos(...), call)]
  as_rowwise(data, ids)
}

is_rowwise <- function(p) inherits(p, "muster_rowwise")

# Whether rows have groups: a verb's code then needn't have a value for each row by itself.
has_groups <- function(p) is_rowwise(p) || length(groups_of(p)) > 0L

as_rowwise <- function(p, ids) {
  held <- held_by(p)
  held$groups <- NULL
  held$ids <- unique(ids)
  new_handle(held, c("muster_rowwise", "muster_partition"))
}

# The groups of p, as far as their columns are still there; or each row as one.
with_groups_of <- function(handle, p) {
  if (is_rowwise(p)) {
    return(as_rowwise(handle, intersect(ids_of(p), names(handle))))
  }
  with_groups(handle, intersect(groups_of(p), names(handle)))
}

ids_of <- function(p) as.character(held_by(p)$ids)

# The groups of other data, which verbs of dplyr or muster's see.
group_vars.muster_rowwise <- function(x) ids_of(x)

groups.muster_rowwise <- function(x) lapply(ids_of(x), as.name)

# ---- Evaluated by dplyr, where the rows are

# Where parts have columns of other types, each would have its own values for the same code: then
# they get the types that all rows have together, as in row_stage(). Values of other types than
# those of other parts are put together as dplyr does.
rowwise_parts <- function(p, verb, exprs, call) {
  refuse_numbers(exprs, call)
  opened <- check_partition(p, ".data", call)
  job <- verb_job(opened, exprs, call)
  stream <- map_stream(TRUE, opened$cl, call)
  run <- function(model) {
    step <- list(kind = "call", how = "verb", verb = verb, by = ids_of(p), rowwise = TRUE,
      model = model, name = paste0(verb, "()"))
    verb_stages(opened, step, exprs, call, job, stream)
  }
  ran <- tryCatch(run(NULL), muster_replan = function(e) run(prototype(p, call)))
  done <- parts_alike(ran, call)
  # Rows only went away.
  if (verb == "filter") {
    stage <- open_handle(done)$stage
    stage$keyed <- opened$stage$keyed
  }
  as_rowwise(done, ids_of(p))
}

parts_alike <- function(ran, call) {
  types <- lapply(ran$answers, `[[`, "made_types")
  if (length(unique(types[lengths(types) > 0L])) < 2L) {
    return(ran$handle)
  }
  opened <- open_handle(ran$handle)
  some <- opened$stage$rows > 0
  steps <- same_steps(list(list(kind = "inner", fun = "sample_row", args = list()),
    list(kind = "give")))
  rows <- lapply(collect_parts(opened, call, steps)[some], function(one) expand_strings(one$data))
  model <- tryCatch(dplyr::bind_rows(rows), error = function(e) {
    abort_muster("input", "Rows of different parts have values that can't be in one column.",
      details = message_of(e), argument = "...", call = call
    )
  })
  step <- list(kind = "inner", fun = "like_parts", args = list(plain_frame(model[0L, ])))
  near_stage(opened, list(step), call)
}

summarise.muster_rowwise <- function(.data, ..., .by = NULL, .groups = NULL) {
  call <- dplyr_call("summarise")
  by_columns(.data, rlang::enquo(.by), ".by", call)
  kept <- check_choice(if (is.null(.groups)) "keep" else .groups, ".groups",
    c("keep", "drop", "rowwise"), call
  )
  exprs <- quo_exprs(rlang::enquos(...), call, names(.data))
  exprs <- chosen_exprs(.data, "summarise", exprs, call)
  exprs <- c(exprs, list(list(name = ".groups", code = "drop", env = baseenv())))
  done <- rowwise_parts(.data, "summarise", exprs, call)
  switch(kept, keep = with_groups(done, ids_of(.data)), drop = with_groups(done, NULL), done)
}

# ---- Rows and columns as they are

ungroup.muster_rowwise <- function(x, ...) {
  if (...length()) refuse_argument("...", dplyr_call("ungroup"))
  with_groups(x, NULL)
}

group_by.muster_rowwise <- function(.data, ..., .add = FALSE, .drop = TRUE) {
  dplyr::group_by(with_groups(.data, ids_of(.data)), ..., .add = .add, .drop = .drop)
}

select.muster_rowwise <- function(.data, ...) by_ids(.data, dplyr::select, ...)

rename.muster_rowwise <- function(.data, ...) by_ids(.data, dplyr::rename, ...)

rename_with.muster_rowwise <- function(.data, .fn, .cols = dplyr::everything(), ...) {
  by_ids(.data, dplyr::rename_with, .fn, {{ .cols }}, ...)
}

relocate.muster_rowwise <- function(.data, ..., .before = NULL, .after = NULL) {
  by_ids(.data, dplyr::relocate, ..., .before = {{ .before }}, .after = {{ .after }})
}

arrange.muster_rowwise <- function(.data, ..., .by_group = FALSE, .locale = NULL) {
  by_ids(.data, dplyr::arrange, ..., .by_group = .by_group, .locale = .locale)
}

# With the columns of the ids as groups, which stay and get new names as these.
by_ids <- function(p, verb, ...) {
  done <- verb(with_groups(p, ids_of(p)), ...)
  as_rowwise(done, groups_of(done))
}
