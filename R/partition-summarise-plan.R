# What partition_summarise() makes of expressions: which parts of them can be folded before rows
# travel (worker-fold.R), and what needs whole groups (worker-summarise.R). Pure, but for looking up
# variables.
#
# An expression is folded if it consists of aggregates of columns, constants, and base R's functions
# that have a value for each row (partition-rows-code.R), inside of the aggregates and around them.
# Anything else is evaluated for each group, as it stands: that is always right, and costs more.

aggregate_folds <- list(
  n = list("count"), sum = list("sum"), mean = list("sum", "count"), min = list("min"),
  max = list("max"), var = list("sum", "square", "count"), sd = list("sum", "square", "count"),
  any = list("sum", "count", "rows"), all = list("sum", "count", "rows"), first = list("first"),
  last = list("last"), n_distinct = list("distinct")
)

# Where R finds them, and which packages' functions of that name do the same. n() and the like are
# muster's own where there is none.
aggregate_homes <- list(
  base = c("sum", "mean", "min", "max", "any", "all"), stats = c("var", "sd"),
  dplyr = c("n", "n_distinct", "first", "last")
)
own_aggregates <- aggregate_homes$dplyr

# exprs: list(name, code, env) each; columns: of the data; whole: numbers of the expressions that
# folds aren't right for; all: whether whole groups have all columns. Returns the plan, see
# worker-fold.R. Results that need whole groups have no code, but:
#   fun: a function whose body is the expression.
#   needs: the columns that it names; before: the results; pronoun: whether it uses `.data`.
#   own: of muster's own functions, those that it may call.
plan_results <- function(exprs, columns, whole = integer(), all = FALSE) {
  plan <- new.env(parent = emptyenv())
  plan$codes <- plan$folds <- plan$aggregates <- list()
  results <- list()
  for (k in seq_along(exprs)) {
    one <- exprs[[k]]
    at <- list(
      plan = plan, columns = columns, before = results, env = one$env, result = k, all = all,
      seen = one$seen
    )
    code <- if (!k %in% whole) outer_code(one$code, at)
    results[[k]] <- if (is.null(code)) {
      whole_result(one, at)
    } else {
      list(name = one$name, code = code)
    }
  }
  codes <- unlist(lapply(plan$codes, all.vars))
  list(
    codes = plan$codes, folds = plan$folds, aggregates = plan$aggregates, results = results,
    columns = unique(c(codes, unlist(lapply(results, `[[`, "needs")))), all = columns
  )
}

# An expression for whole groups. before: earlier results that it names.
whole_result <- function(one, at) {
  names <- c(names_in(one$code), pronoun_names(one$code))
  before <- intersect(names, result_names(at))
  all <- at$all || any_column(one$code)
  needs <- setdiff(if (all) at$columns else intersect(names, at$columns), before)
  own <- Filter(function(name) is_own(name, at$env), intersect(names, own_aggregates))
  list(
    name = one$name, needs = needs, before = before, own = own, pronoun = ".data" %in% names,
    fun = code_function(c(needs, before), own_calls(one$code), at$env)
  )
}

# The names of earlier results; those that an expression doesn't see have none.
result_names <- function(at) {
  names <- vapply(at$before, `[[`, "", "name")
  if (!is.null(at$seen)) names[seq_along(names) > at$seen] <- ""
  names
}

# Whether code has `.data` without the name of a column.
any_column <- function(code) {
  if (is.call(code)) {
    is.null(pronoun_name(code, ".data")) && any(vapply(as.list(code), any_column, NA))
  } else {
    identical(code, quote(.data))
  }
}

pronoun_names <- function(code) {
  if (is.call(code)) c(pronoun_name(code, ".data"), unlist(lapply(as.list(code), pronoun_names)))
}

# The name in .data$name, .data[["name"]] and their like, or NULL.
pronoun_name <- function(code, pronoun) {
  if (!is.call(code) || length(code) != 3L || !identical(code[[2L]], as.name(pronoun))) {
    return(NULL)
  }
  name <- code[[3L]]
  if (identical(code[[1L]], quote(`$`)) && (is.symbol(name) || is.character(name))) {
    as.character(name)
  } else if (identical(code[[1L]], quote(`[[`)) && is.character(name) && length(name) == 1L) {
    name
  }
}

# dplyr::n() works in dplyr's verbs alone.
own_calls <- function(code) {
  if (!is.call(code)) {
    return(code)
  }
  if (identical(code, quote(dplyr::n()))) {
    return(quote(n()))
  }
  parts <- as.list(code)
  calls <- vapply(parts, is.call, NA)
  parts[calls] <- lapply(parts[calls], own_calls)
  as.call(parts)
}

# Whether a function is muster's here: nobody else's, or dplyr's n().
is_own <- function(name, env) {
  found <- get0(name, env, mode = "function")
  is.null(found) || (name == "n" && is_exported(found, name, "dplyr"))
}

is_exported <- function(fun, name, package) {
  isNamespaceLoaded(package) && name %in% getNamespaceExports(package) &&
    identical(fun, getExportedValue(package, name))
}

# ---- Around aggregates

# The code of a result, see worker-fold.R, or NULL if it can't be folded.
outer_code <- function(code, at) {
  name <- column_name(code, at)
  if (!is.null(name)) {
    before <- match(name, result_names(at))
    if (!is.na(before)) {
      folded <- !is.null(at$before[[before]]$code)
      return(if (folded) as.name(paste0("r", before)))
    }
    return(if (!name %in% at$columns && is.symbol(code)) constant_of(code, at))
  }
  if (!is.call(code)) {
    return(constant_of(code, at))
  }
  aggregate <- add_aggregate(code, at)
  if (!is.null(aggregate)) {
    return(aggregate)
  }
  row_call(code, at, outer_code)
}

# A symbol's name, or that in .data[[...]], which may be a constant.
column_name <- function(code, at) {
  if (is.symbol(code)) {
    return(as.character(code))
  }
  if (is.call(code) && length(code) == 3L && identical(code[1:2], quote(`[[`(.data))[1:2])) {
    name <- constant_of(code[[3L]], at)
    return(if (is.character(name)) name)
  }
  pronoun_name(code, ".data")
}

# A call of a function with a value for each row, with its arguments' codes; or a constant. NULL if
# it is neither.
row_call <- function(code, at, code_of) {
  constant <- constant_of(code, at)
  if (!is.null(constant)) {
    return(constant)
  }
  name <- base_name(code, at, all_row_functions)
  if (is.null(name)) {
    return(listed_call(code, at, code_of))
  }
  parts <- as.list(code)[-1L]
  codes <- lapply(seq_along(parts), function(k) {
    if (name == "%in%" && k == 2L) constant_of(parts[[k]], at, Inf) else code_of(parts[[k]], at)
  })
  if (any(vapply(codes, is.null, NA)) ||
    !is_row_call(name, names(parts), !vapply(codes, is.language, NA))) {
    return(NULL)
  }
  as.call(c(as.name(name), stats::setNames(codes, names(parts))))
}

# The name of the function that a call calls, if it is one of these of base R.
base_name <- function(code, at, names) {
  head <- code[[1L]]
  explicit <- is.call(head) && identical(head[[1L]], quote(`::`)) &&
    identical(head[[2L]], quote(base))
  name <- if (is.symbol(head)) as.character(head) else if (explicit) as.character(head[[3L]])
  if (is.null(name) || !name %in% names) {
    return(NULL)
  }
  if (explicit || identical(get0(name, at$env, mode = "function"), get(name, baseenv()))) name
}

# ---- Constants: code without columns, evaluated now

constant_functions <- c(
  all_row_functions, names(row_calls$base), "c", ":", "Sys.Date", "Sys.time", "max", "min", "sum",
  "mean", "length", "rep", "rev", "seq", "seq_len", "seq_along", "unique", "sort"
)

# An atomic vector of length 1, or up to `most`, or NULL. It has no class, but for dates and times,
# and what is a value already.
constant_of <- function(code, at, most = 1) {
  if (!is_constant(code, at)) {
    return(NULL)
  }
  value <- tryCatch(eval(code, at$env), error = function(e) NULL)
  # As match() sees the set that it looks in.
  if (most > 1 && is.factor(value)) value <- as.character(value)
  if (is_bare(value)) {
    attributes(value) <- NULL
  } else if (!is_date(value) && !(is.atomic(code) && is_known(value))) {
    return(NULL)
  }
  if (length(value) == 1L || (length(value) > 0L && most > 1)) value
}

is_constant <- function(code, at) {
  if (is.symbol(code)) {
    name <- as.character(code)
    return(nzchar(name) && !name %in% c(at$columns, result_names(at)) && exists(name, at$env))
  }
  if (!is.call(code)) {
    return(is.atomic(code))
  }
  if (!is.null(base_name(code, at, "$"))) {
    return(is_constant_place(code[[2L]], at))
  }
  if (!is.null(base_name(code, at, c("[[", "[")))) {
    return(is_constant_place(code[[2L]], at) &&
      all(vapply(as.list(code)[-(1:2)], is_constant, NA, at)))
  }
  !is.null(base_name(code, at, constant_functions)) &&
    all(vapply(as.list(code)[-1L], is_constant, NA, at))
}

# Whether code is an object of the session that an element is taken from: l in l$id, names in
# names[1]. `.data` is none.
is_constant_place <- function(code, at) {
  is.list(code) || (!identical(code, quote(.data)) && is_constant(code, at))
}

# ---- Aggregates

# The symbol of an aggregate, which is added to the plan; NULL if the code isn't one that folds.
add_aggregate <- function(code, at) {
  how <- aggregate_name(code, at)
  parts <- if (!is.null(how)) aggregate_parts(how, code, at)
  if (is.null(parts)) {
    return(NULL)
  }
  plan <- at$plan
  number <- if (is.null(parts$code)) 0L else item_in(plan, "codes", parts$code)
  folds <- vapply(aggregate_folds[[how]], function(kind) {
    # Rows count whatever is missing; other counts are those of what isn't.
    counts <- kind == "rows" || (kind == "count" && !parts$na_rm && !how %in% c("any", "all"))
    fold <- list(kind = kind, code = number, na_rm = parts$na_rm || how %in% c("any", "all"))
    if (counts) fold <- list(kind = "count", code = 0L, na_rm = FALSE)
    item_in(plan, "folds", fold)
  }, 0L)
  one <- list(how = how, code = number, na_rm = parts$na_rm, folds = folds)
  same <- vapply(plan$aggregates, function(other) identical(other[names(one)], one), NA)
  k <- if (any(same)) which(same) else length(plan$aggregates) + 1L
  if (!any(same)) plan$aggregates[[k]] <- c(one, list(results = integer()))
  plan$aggregates[[k]]$results <- union(plan$aggregates[[k]]$results, at$result)
  as.name(paste0("a", k))
}

item_in <- function(plan, list, item) {
  # 0 and -0 differ.
  same <- vapply(plan[[list]], identical, NA, item, num.eq = FALSE)
  if (any(same)) {
    return(which(same))
  }
  plan[[list]] <- c(plan[[list]], list(item))
  length(plan[[list]])
}

# Which aggregate a call is, or NULL.
aggregate_name <- function(code, at) {
  head <- code[[1L]]
  package <- NULL
  if (is.call(head) && identical(head[[1L]], quote(`::`))) {
    package <- as.character(head[[2L]])
    head <- head[[3L]]
  }
  name <- if (is.symbol(head)) as.character(head) else ""
  if (!name %in% names(aggregate_folds)) {
    return(NULL)
  }
  homes <- names(Filter(function(names) name %in% names, aggregate_homes))
  if (!is.null(package)) {
    return(if (package %in% homes) name)
  }
  found <- get0(name, at$env, mode = "function")
  ours <- if (is.null(found)) name %in% own_aggregates else is_exported(found, name, homes)
  if (ours && (name != "mean" || has_base_methods(at$env))) name
}

# mean() looks for methods even for plain numbers.
has_base_methods <- function(env) {
  for (type in c("integer", "double", "numeric", "logical")) {
    if (exists(paste0("mean.", type), env, mode = "function")) {
      return(FALSE)
    }
  }
  identical(get0("mean.default", env, mode = "function"), base::mean.default)
}

# list(code, na_rm), or NULL.
aggregate_parts <- function(how, code, at) {
  parts <- as.list(code)[-1L]
  names <- if (is.null(names(parts))) rep("", length(parts)) else names(parts)
  if (how == "n") {
    return(if (!length(parts)) list(na_rm = FALSE))
  }
  flags <- names == "na.rm"
  if (sum(!flags) != 1L || sum(flags) > 1L || !names[!flags] %in% c("", "x") ||
    (any(flags) && how %in% c("first", "last"))) {
    return(NULL)
  }
  na_rm <- if (any(flags)) constant_of(parts[[which(flags)]], at) else FALSE
  if (!isTRUE(na_rm) && !isFALSE(na_rm)) {
    return(NULL)
  }
  inner <- inner_code(parts[[which(!flags)]], at)
  if (length(all.vars(inner))) list(code = inner, na_rm = na_rm)
}

# Code of columns, with a value for each row, or NULL.
inner_code <- function(code, at) {
  name <- column_name(code, at)
  if (!is.null(name)) {
    if (name %in% result_names(at)) {
      return(NULL)
    }
    if (name %in% at$columns) {
      return(as.name(name))
    }
  }
  if (is.call(code)) row_call(code, at, inner_code) else constant_of(code, at)
}
