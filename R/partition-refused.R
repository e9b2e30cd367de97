# R's functions that have no value for data on the workers.
#
# They take what is there, so most would fail with words of their own, and some give the value for
# something else: is.na() tells that a handle is not missing. One method refuses all generics of
# packages base, stats and utils for which muster has none, and so all functions made of these, as
# sapply() of as.list(), which the error names then.

# The generics of one of these packages, by their code.
generics_of <- function(package) {
  there <- asNamespace(package)
  names <- if (package == "base") ls(there, all.names = TRUE) else getNamespaceExports(there)
  found <- Filter(function(name) {
    fun <- get(name, there)
    is.function(fun) && !is.primitive(fun) && "UseMethod" %in% all.names(body(fun))
  }, names)
  sort(c(found, if (package == "base") internal_generics()))
}

# Those that R dispatches in C: primitives, groups of them, and calls of .Internal(), of which R
# has no list.
internal_generics <- function() {
  c(
    .S3PrimitiveGenerics, "Math", "Ops", "Summary", "Complex", "matrixOps",
    "as.vector", "is.unsorted", "lengths", "nchar", "rep.int", "rep_len", "unlist"
  )
}

# Those of a package that may be of any version, by its code, too, and not those that it has from
# others.
own_generics <- function(package) {
  there <- asNamespace(package)
  Filter(function(name) identical(environment(get(name, there)), there), generics_of(package))
}

# Made when muster is installed: to look through their code takes a tenth of a second.
all_generics <- sapply(c("base", "stats", "utils"), generics_of, simplify = FALSE)

# What their defaults say is true of the data: no matrix, no levels, its columns' names.
true_generics <- c("is.array", "is.matrix", "is.numeric", "levels", ".DollarNames")

# Written into R's table at once: registerS3method() would take as long for one as this for all.
register_refusals <- function(package) {
  if (!isNamespaceLoaded("muster")) {
    return(invisible()) # it was unloaded since
  }
  generics <- all_generics[[package]]
  if (is.null(generics)) generics <- own_generics(package)
  methods <- paste0(setdiff(generics, true_generics), ".muster_partition")
  methods <- methods[!vapply(methods, exists, NA, envir = asNamespace("muster"), inherits = FALSE)]
  table <- get(".__S3MethodsTable__.", asNamespace(package))
  list2env(sapply(methods, function(name) refuse_function, simplify = FALSE), table)
}

refuse_function <- function(...) {
  name <- .Generic
  call <- sys.call()
  if (endsWith(name, "<-")) refuse_change(call(name))
  # R's calls of methods have the method's name, or the generic's.
  own <- paste0(c(name, "Math", "Ops", "Summary", "Complex"), ".muster_partition")
  of_caller <- is_call_of(call, c(name, own))
  at <- sys.parent()
  while (at > 0L && of_caller && length(caller <- r_function(at, name))) {
    of_caller <- is_call_of(sys.call(at), caller)
    name <- caller
    at <- sys.parents()[at]
  }
  what <- if (grepl("^[A-Za-z.]", name)) paste0(name, "()") else paste0("`", name, "`")
  instead <- Filter(function(one) name %in% one$of, replacements)
  abort_muster("input", paste0(what, " isn't possible for data on workers."),
    hints = c(if (length(instead)) instead[[1L]]$hint else replacements$any$hint,
      "partition_collect() brings the rows to the session, for all that R can do."),
    argument = "x", call = call(name)
  )
}

# The name of the function of a frame, if it is of one of these packages and calls another by name,
# or else nothing: lapply() calls as.list(), and what it is given as FUN.
r_function <- function(at, calls) {
  fun <- sys.function(at)
  name <- sys.call(at)[[1L]]
  name <- if (is.call(name)) as.character(name)[3L] else if (is.symbol(name)) as.character(name)
  home <- environmentName(topenv(environment(fun)))
  if (!is.null(name) && home %in% names(all_generics) && calls %in% all.names(body(fun)) &&
    identical(get0(name, asNamespace(home)), fun)) {
    name
  }
}

replacements <- list(
  rows = list(of = c("subset", "na.omit", "na.exclude", "complete.cases"),
    hint = "dplyr::filter() keeps rows, as does partition_map() with a function of a part."),
  columns = list(of = c("transform", "within"),
    hint = "dplyr::mutate() makes columns, as does partition_map() with a function of a part."),
  order = list(of = c("sort", "order", "rev", "sort_by"), hint = "partition_sort() orders rows."),
  longer = list(of = c("gather", "gather_"), hint = "pivot_longer() has the same rows."),
  wider = list(of = c("spread", "spread_"), hint = "pivot_wider() has the same columns."),
  join = list(of = "merge", hint = "partition_join() has columns of both, by a key."),
  bind = list(of = "c", hint = "dplyr::union_all(x, y) has the rows of both."),
  groups = list(of = c("aggregate", "by", "split", "tapply", "rowsum", "ave"),
    hint = "partition_summarise() and partition_reduce() have a value for each group."),
  any = list(of = character(), hint = paste(
    "partition_summarise() has values of all rows, partition_map() what a function makes of each",
    "part."
  ))
)
