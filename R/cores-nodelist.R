# Compressed lists of host names: "node[01-04,7],x2[1-2]" for node01, ..., node04, node7, x21, x22.
#
# Slurm writes them. Its program `scontrol show hostnames` would expand them, but starting it
# costs a process, and it isn't on every machine. A name may have several brackets, also in
# its middle, and then stands for all combinations, the last bracket running fastest.
# A number is filled up with zeros to the width of its range's first one. Slurm counts
# blanks before a number as zeros, and so do we.
#
# The text is a stranger's: lengths are limited before anything is expanded, and patterns
# don't backtrack.

# Slurm itself stops at 65,533 nodes.
nodelist_max <- 100000L

# Names of hosts in the list's order. What can't be understood is left out with a warning.
nodelist_expand <- function(text, source) {
  # Bytes, because a variable may hold what isn't valid in this locale.
  pieces <- gregexpr("(?:\\[[^]]*+\\]?|[^][, \t\r\n]++|\\])++", text, perl = TRUE, useBytes = TRUE)
  specs <- regmatches(text, pieces)[[1L]]
  hosts <- as.list(specs)
  room <- nodelist_max - length(specs)
  # Plain names are the rule in long lists, and are there already.
  for (at in grep("[][]", specs, useBytes = TRUE)) {
    expanded <- nodelist_expand_one(specs[at], max(room, 1))
    hosts[at] <- list(expanded)
    room <- room - length(expanded)
  }
  bad <- lengths(hosts) == 0L | !grepl("^[ -~]+$", specs, perl = TRUE, useBytes = TRUE)
  if (any(bad)) {
    cores_warn(
      paste0("Part of ", source, " must be a list of nodes such as node[01-04,7], not ",
             describe(specs[bad][1L]), "."),
      "It is omitted from the available workers.",
      value = specs[bad]
    )
  }
  unlist(hosts[!bad], use.names = FALSE)
}

# All names that one item of the list stands for, NULL if it can't be understood or
# stands for more than `most` names.
nodelist_expand_one <- function(spec, most) {
  brackets <- gregexpr("\\[[^]]*\\]", spec, useBytes = TRUE)
  groups <- regmatches(spec, brackets)[[1L]]
  literals <- regmatches(spec, brackets, invert = TRUE)[[1L]]
  if (any(grepl("[][]", literals, useBytes = TRUE))) {
    return(NULL)
  }
  names <- literals[1L]
  for (at in seq_along(groups)) {
    inside <- substring(groups[at], 2L, nchar(groups[at], "bytes") - 1L)
    numbers <- nodelist_numbers(inside, most / length(names))
    if (is.null(numbers)) {
      return(NULL)
    }
    numbers <- paste0(numbers, literals[at + 1L])
    names <- paste0(rep(names, each = length(numbers)), numbers)
  }
  names
}

# "01-03,7" as "01", "02", "03", "7"; NULL for anything else, and for more than `most`.
nodelist_numbers <- function(text, most) {
  list <- "^ *+[0-9]{1,15}(?:- *+[0-9]{1,15})?(?:, *+[0-9]{1,15}(?:- *+[0-9]{1,15})?)*+$"
  if (!grepl(list, text, perl = TRUE, useBytes = TRUE)) {
    return(NULL)
  }
  ranges <- strsplit(gsub(" ", "0", text, fixed = TRUE), ",", fixed = TRUE)[[1L]]
  low <- sub("-.*", "", ranges)
  first <- as.numeric(low)
  last <- as.numeric(sub(".*-", "", ranges))
  if (any(last < first) || sum(last - first + 1) > most || any(nchar(low) > 100L)) {
    return(NULL)
  }
  numbers <- Map(function(from, to, width) sprintf("%0*.0f", width, seq(from, to)),
    first, last, nchar(low)
  )
  unlist(numbers, use.names = FALSE)
}
