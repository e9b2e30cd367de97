# dplyr's questions about groups, and what has no answer on the workers: see dplyr-verbs.R.

# The keys in dplyr's order, in the session, with their numbers of rows as the last column.
group_counts <- function(p, call) {
  by <- groups_of(p)
  if (!length(by)) {
    return(new_frame(list(n = sum(open_handle(p)$stage$rows)), 1L))
  }
  name <- utils::tail(make.unique(c(by, "n")), 1L)
  expr <- list(name = name, code = quote(dplyr::n()), env = baseenv())
  done <- summarise_parts(check_partition(p, ".data", call), list(expr), by, call)
  collect_frame(open_handle(arrange_by(done, lapply(by, column_key), call)), call)
}

n_groups.muster_partition <- function(x) frame_rows(group_counts(x, dplyr_call("n_groups")))

group_size.muster_partition <- function(x) {
  counts <- group_counts(x, dplyr_call("group_size"))
  as.integer(counts[[length(counts)]])
}

group_keys.muster_partition <- function(.tbl, ...) {
  call <- dplyr_call("group_keys")
  if (...length()) .tbl <- dplyr::group_by(.tbl, ...)
  as_kind(group_counts(.tbl, call)[groups_of(.tbl)], "tibble")
}

# ---- Refused: a group's number, or a list of all groups

group_indices.muster_partition <- function(.data, ...) refuse_group_verb("group_indices")
group_split.muster_partition <- function(.tbl, ...) refuse_group_verb("group_split")
group_map.muster_partition <- function(.data, .f, ...) refuse_group_verb("group_map")
group_trim.muster_partition <- function(.tbl, ...) refuse_group_verb("group_trim")
nest_by.muster_partition <- function(.data, ...) refuse_group_verb("nest_by")

refuse_group_verb <- function(verb) {
  abort_muster("input", paste0("`", verb, "()` isn't possible for data on workers."),
    hints = c(
      "group_modify() gives rows for each group, do() and summarise() with list() any value.",
      "partition_collect() brings the rows to the session, for all that dplyr can do."
    ),
    argument = verb, call = dplyr_call(verb)
  )
}
