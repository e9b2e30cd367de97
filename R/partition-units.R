# Units of time differences: those of a column are the same in all parts, in the session and in
# workers.
#
# Problem: R chooses the units of a difference of times from its values. Code that is evaluated for
# each group or each part so has seconds here and days there, and as.numeric() of the difference
# gives numbers that can't be told apart afterwards.
#
# Way chosen: dplyr's rule for what is put together, seconds where units differ. A stage whose parts
# have other units than each other is followed by one that converts them (run_stage()), so all verbs
# find one unit. Code of the same verb that uses such a column has read it by then: the verb is
# evaluated again, and converts the column before that code (with_one_unit()).
#
# Not chosen: refusing differences without units. Those of a group are R's own, and are right.

is_span <- function(x) identical(oldClass(x), "difftime")

# The units of x's time differences, by name, or NULL. A part without rows has no say.
units_of <- function(x) {
  spans <- if (frame_rows(x)) vapply(x, is_span, NA)
  if (any(spans)) vapply(unclass(x)[spans], attr, "", "units", exact = TRUE)
}

# The common unit of several ones.
one_unit <- function(units) {
  units <- unique(units)
  if (length(units) > 1L) "secs" else units
}

# The names of the columns whose units differ. units: from units_of(), one for each part.
mixed_units <- function(units) {
  units <- unlist(unname(units))
  names <- unique(names(units))
  Filter(function(name) length(unique(units[names(units) == name])) > 1L, names)
}

# Differences in another unit; anything else as it is.
in_unit <- function(x, unit) {
  if (is_span(x) && !identical(attr(x, "units", exact = TRUE), unit)) units(x) <- unit
  x
}

# A step of muster's own: these columns in seconds.
columns_in_seconds <- function(x, names) {
  for (name in intersect(names, names(x))) x[[name]] <- in_unit(.subset2(x, name), "secs")
  x
}

# Columns of which some are time differences, with one unit for these. Those without rows have a say
# only if all are.
alike_spans <- function(columns) {
  spans <- vapply(columns, is_span, NA)
  if (!any(spans)) {
    return(columns)
  }
  some <- spans & lengths(columns) > 0L
  units <- vapply(columns[if (any(some)) some else spans], attr, "", "units", exact = TRUE)
  unit <- one_unit(units)
  numbers <- vapply(columns, function(x) is.numeric(x) && !is.object(x) && length(x) > 0L, NA)
  if (length(unique(units)) > 1L && any(numbers)) {
    part_error(paste0(
      "A column can't have numbers and time differences of several units: ",
      toString(unique(units)), "."
    ))
  }
  columns[spans] <- lapply(columns[spans], in_unit, unit)
  columns
}

# Evaluates a verb until the code of each result has read those before it in one unit for all
# groups. names: of the results, in order. uses(k): whether code after result k may read it.
# run(units): evaluates it with these results, by name, in these units, and returns a list with
# `mixed`, the names of results whose units differ among groups.
with_one_unit <- function(names, uses, run) {
  units <- character()
  repeat {
    ran <- run(units)
    at <- which(names %in% setdiff(ran$mixed, names(units)))
    at <- at[vapply(at, uses, NA)]
    if (!length(at)) {
      return(ran)
    }
    # Those after it may be others then.
    units[names[at[1L]]] <- "secs"
  }
}
