# dplyr's joins: see dplyr-verbs.R. Rows with the same key meet in one part, and what dplyr says of
# a row's matches is said there, by muster itself (worker-join.R), whichever dplyr there is.

inner_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, suffix = c(".x", ".y"), ...,
                                        keep = NULL, na_matches = c("na", "never"),
                                        multiple = "all", unmatched = "drop",
                                        relationship = NULL) {
  join_verb("inner_join", x, y, by, list(...), join_arguments())
}

left_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, suffix = c(".x", ".y"), ...,
                                       keep = NULL, na_matches = c("na", "never"),
                                       multiple = "all", unmatched = "drop",
                                       relationship = NULL) {
  join_verb("left_join", x, y, by, list(...), join_arguments())
}

right_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, suffix = c(".x", ".y"), ...,
                                        keep = NULL, na_matches = c("na", "never"),
                                        multiple = "all", unmatched = "drop",
                                        relationship = NULL) {
  join_verb("right_join", x, y, by, list(...), join_arguments())
}

full_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, suffix = c(".x", ".y"), ...,
                                       keep = NULL, na_matches = c("na", "never"),
                                       multiple = "all", relationship = NULL) {
  join_verb("full_join", x, y, by, list(...), join_arguments())
}

semi_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, ...,
                                       na_matches = c("na", "never")) {
  among_verb("semi_join", x, y, by, list(...), join_arguments())
}

anti_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, ...,
                                       na_matches = c("na", "never")) {
  among_verb("anti_join", x, y, by, list(...), join_arguments())
}

# Each row of x with its matches as a data frame, in a column that is a list.
nest_join.muster_partition <- function(x, y, by = NULL, copy = FALSE, keep = NULL, name = NULL,
                                       ..., na_matches = c("na", "never"), unmatched = "drop") {
  call <- dplyr_call("nest_join")
  name <- check_string(if (is.null(name)) rlang::as_label(rlang::enexpr(y)) else name, "name", call)
  if (...length()) refuse_argument(c(names(list(...)), "...")[1L], call)
  opened <- check_partition(x, "x", call)
  if (is_unequal(by)) {
    given <- list(keep = keep, na_matches = na_matches, unmatched = unmatched, name = name)
    return(unequal_join("nest_join", x, y, by, given, call))
  }
  groups <- groups_of(x)
  by <- join_by_of(by, x, y, call)
  y <- join_side(y, opened, call)
  given <- list(copy = copy, keep = keep, na_matches = na_matches, unmatched = unmatched,
    multiple = "all", suffix = c("", "_other"))
  form <- join_form("nest_join", names(x), y$stage$columns, by, given, call)
  shown <- if (form$keep) y$stage$columns else setdiff(y$stage$columns, by)
  # Before version 1.1 dplyr had tibbles there, whatever y was.
  tibbles <- utils::packageVersion("dplyr") < "1.1.0" || y$stage$as == "tibble"
  form$nest <- list(name = name, columns = shown, tibbles = tibbles)
  done <- join_tables(opened, y, names(by), unname(by), c(TRUE, FALSE), call, form = form)
  with_groups(done, setdiff(groups, name))
}

# Those of the calling method that say how to join.
join_arguments <- function(method = parent.frame()) {
  all <- c("copy", "suffix", "keep", "na_matches", "multiple", "unmatched", "relationship")
  mget(intersect(all, ls(method)), method)
}

# more: what is none of the arguments. given: the arguments.
join_verb <- function(verb, x, y, by, more, given) {
  call <- dplyr_call(verb)
  if (length(more)) refuse_argument(c(names(more), "...")[1L], call)
  if (is_unequal(by)) {
    return(unequal_join(verb, x, y, by, given, call))
  }
  opened <- check_partition(x, "x", call)
  groups <- groups_of(x)
  by <- join_by_of(by, x, y, call)
  y <- join_side(y, opened, call)
  form <- join_form(verb, names(x), y$stage$columns, by, given, call)
  all <- c(verb %in% c("left_join", "full_join"), verb %in% c("right_join", "full_join"))
  done <- join_tables(opened, y, names(by), unname(by), all, call, form = form)
  # As in dplyr, a group is none if its column, which `y` has too, got an ending.
  with_groups(done, intersect(groups, names(done)))
}

# The rows of x with a row of y, or without.
among_verb <- function(verb, x, y, by, more = list(), given = list()) {
  call <- dplyr_call(verb)
  if (length(more)) refuse_argument(c(names(more), "...")[1L], call)
  if (is_unequal(by)) {
    return(unequal_join(verb, x, y, by, given, call))
  }
  opened <- check_partition(x, "x", call)
  groups <- groups_of(x)
  by <- join_by_of(by, x, y, call)
  never <- never_matches(given, call)
  y <- join_side(y, opened, call)
  check_join_columns(names(x), y$stage$columns, by, call)
  no <- c(FALSE, FALSE)
  form <- list(never = never, multiple = "first", single = no, matched = no, among = verb)
  done <- join_tables(opened, y, names(by), unname(by), no, call, form = form)
  with_groups(done, groups)
}

# ---- Inequalities

is_unequal <- function(by) inherits(by, "dplyr_join_by") && !all(by$condition == "==")

# dplyr joins each part, of rows whose equal keys meet there. Without equal keys, or with a small y,
# each part of x has all rows of y.
unequal_join <- function(verb, x, y, by, given, call) {
  opened <- check_partition(x, "x", call)
  groups <- groups_of(x)
  y <- join_side(y, opened, call)
  for (name in setdiff(by$x, names(x))) abort_column(name, names(x), "by", call)
  for (name in setdiff(by$y, y$stage$columns)) abort_column(name, y$stage$columns, "by", call)
  args <- given[!names(given) %in% "copy" & !vapply(given, is.null, NA)]
  meeting <- needs_meeting(verb, given, call)
  form <- list(whole = length(meeting) > 0L, join = list(
    verb = verb, by = by, args = args, x = names(x), y = y$stage$columns
  ))
  equal <- by$condition == "=="
  if (any(equal)) {
    keys <- list(check_by(by$x[equal], call), check_by(by$y[equal], call))
    all <- c(FALSE, FALSE)
    done <- join_tables(opened, y, keys[[1L]], keys[[2L]], all, call, form = form)
  } else if (length(meeting)) {
    abort_muster("input",
      paste0("`", meeting[1L], "` isn't possible without an equality in `by`."),
      hints = "Add one to join_by(), as in join_by(group, x >= y), or exchange `x` and `y`.",
      argument = "by", call = call
    )
  } else {
    done <- small_join(opened, y, character(), character(), FALSE, call, form)
    if (is.null(done)) done <- spread_join(opened, on_workers(y, opened, call), form, call)
  }
  with_groups(done, intersect(groups, names(done)))
}

spread_join <- function(x, y, form, call) {
  sides <- lapply(list(x, y), split_stage, by = character(), parts = 1L)
  steps <- function(task) {
    list(list(kind = "gather", part = 1L, tasks = c(task, task), form = form))
  }
  gather_stage(x, x$stage$count, steps, sides, call, weights = x$stage$rows)$handle
}

# What isn't possible where each part of x has all rows of y: none knows which of them have no
# match.
needs_meeting <- function(verb, given, call) {
  c(
    if (verb %in% c("right_join", "full_join")) paste0(verb, "()"),
    if (join_matched(verb, given$unmatched, call)[2L]) "unmatched = \"error\"",
    if (join_single(given$relationship, call)[2L]) "relationship"
  )
}

# ---- Arguments

# Columns of y by those of x.
join_by_of <- function(by, x, y, call) {
  if (is.null(by)) {
    by <- intersect(names(x), names(y))
    if (!length(by)) {
      abort_muster("input", "`x` and `y` have no column of the same name: give `by`.",
        argument = "by", call = call
      )
    }
    inform_muster("join", paste0("Joining by ", paste0("`", by, "`", collapse = ", "), "."))
  }
  if (inherits(by, "dplyr_join_by")) {
    by <- stats::setNames(by$y, by$x)
  }
  by_y <- unname(check_by(by, call))
  by_x <- if (is.null(names(by))) by_y else ifelse(nzchar(names(by)), names(by), by_y)
  stats::setNames(by_y, check_by(by_x, call))
}

check_join_columns <- function(x_names, y_names, by, call) {
  missing <- setdiff(names(by), x_names)
  if (length(missing) && length(x_names)) abort_column(missing[1L], x_names, "by", call)
  missing <- setdiff(by, y_names)
  if (length(missing) && length(y_names)) abort_column(missing[1L], y_names, "by", call)
}

# What dplyr's arguments mean for one part, for worker-join.R.
#   never: NA isn't equal to NA.
#   multiple: which matches of a row of x there are: "all", "first" or "last".
#   single: whether a row of x, one of y, may have one match only.
#   matched: whether each row of x, of y, must have one.
#   whole: whether all rows of a key must be in one task.
#   x, y: the columns of either that there are, with their new names.
#   keep: whether the keys of both are there.
join_form <- function(verb, x_names, y_names, by, given, call) {
  check_flag(given$copy, "copy", call)
  check_join_columns(x_names, y_names, by, call)
  keep <- if (is.null(given$keep)) FALSE else check_flag(given$keep, "keep", call)
  suffix <- given$suffix
  if (!is.character(suffix) || length(suffix) != 2L || anyNA(suffix)) {
    abort_input("suffix", "two strings", suffix, call)
  }
  multiple <- given$multiple
  if (identical(multiple, "warning")) refuse_argument("multiple = \"warning\"", call)
  if (is.null(multiple)) multiple <- "all"
  multiple <- check_choice(multiple, "multiple", c("all", "any", "first", "last", "error"), call)
  single <- join_single(given$relationship, call)
  if (multiple == "error") single[1L] <- TRUE
  matched <- join_matched(verb, given$unmatched, call)
  form <- list(
    never = never_matches(given, call), single = single, matched = matched,
    multiple = switch(multiple, any = "first", error = "all", multiple),
    whole = single[2L] || matched[2L], keep = keep
  )
  form <- c(form, join_names(x_names, y_names, by, suffix, keep))
  made <- c(names(form$x), names(form$y))
  if (anyDuplicated(made)) {
    abort_muster("input", paste0(
      "The join would have two columns `", made[anyDuplicated(made)], "`."
    ), hints = "Give another `suffix`.", argument = "suffix", call = call)
  }
  form
}

never_matches <- function(given, call) {
  choices <- c("na", "never")
  na <- if (is.null(given$na_matches)) choices else given$na_matches
  check_choice(na, "na_matches", choices, call) == "never"
}

join_single <- function(relationship, call) {
  if (is.null(relationship)) {
    return(c(FALSE, FALSE))
  }
  choices <- c("many-to-many", "many-to-one", "one-to-many", "one-to-one")
  check_choice(relationship, "relationship", choices, call)
  c(endsWith(relationship, "to-one"), startsWith(relationship, "one-to"))
}

# As in dplyr, only of the table whose rows could be dropped.
join_matched <- function(verb, unmatched, call) {
  if (is.null(unmatched)) unmatched <- "drop"
  two <- verb == "inner_join" && length(unmatched) == 2L
  for (one in if (two) unmatched else list(unmatched)) {
    check_choice(one, "unmatched", c("drop", "error"), call)
  }
  rep_len(unmatched, 2L) == "error" &
    c(verb %in% c("inner_join", "right_join"), verb %in% c("inner_join", "left_join", "nest_join"))
}

# The columns of x and of y that the result has, by their names there, as dplyr makes them up.
join_names <- function(x_names, y_names, by, suffix, keep) {
  new <- x_names
  others <- if (keep) y_names else c(names(by), setdiff(y_names, c(names(by), by)))
  at <- keep | !x_names %in% names(by)
  new[at] <- suffixed(x_names[at], others, suffix[1L])
  y_new <- suffixed(y_names, x_names, suffix[2L])
  shown <- keep | !y_names %in% by
  list(x = stats::setNames(x_names, new), y = stats::setNames(y_names[shown], y_new[shown]))
}

suffixed <- function(names, others, suffix) {
  if (!nzchar(suffix)) {
    return(names)
  }
  for (i in seq_along(names)) {
    while (names[i] %in% c(others, names[seq_len(i - 1L)])) names[i] <- paste0(names[i], suffix)
  }
  names
}
