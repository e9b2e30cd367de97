# Selections of columns in dplyr's verbs, whose predicates see the columns of all rows.
#
# A predicate that asks for the type alone sees a column without rows. For any other, as
# where(~ any(is.na(.x))), each column comes to the session, one at a time. Then the names stand in
# the predicate's place, in the session and in what dplyr evaluates on the workers, where it would
# see a part's rows.

# The columns from which a verb chooses. names: theirs. types(): a data frame of them without rows,
# or with some. column(name): one with all rows. leave_types: whether predicates that ask for types
# stay in the code. late: whether other columns may be there when a predicate is asked.
column_source <- function(p, call, names = base::names(p)) {
  types <- NULL
  list(
    names = names, call = call, leave_types = FALSE, late = FALSE,
    types = function() {
      if (is.null(types)) types <<- prototype(p, call)
      types
    },
    column = function(name) collect_frame(open_handle(p[name]), call)[[1L]]
  )
}

# A selection with names in place of its predicates. code: of one, or a quosure.
chosen_code <- function(code, env, source) {
  if (rlang::is_quosure(code)) {
    env <- rlang::quo_get_env(code)
    return(rlang::new_quosure(chosen_code(rlang::quo_get_expr(code), env, source), env))
  }
  if (is_call_of(code, c("c", "(", "!", "-", "&", "|", ":"))) {
    for (k in seq_along(code)[-1L]) {
      if (!identical(code[[k]], quote(expr = ))) code[[k]] <- chosen_code(code[[k]], env, source)
    }
    return(code)
  }
  value <- selecting_value(code, env, source)
  if (!is.function(value) && !is_formula(value)) {
    return(code)
  }
  fun <- rlang::as_function(value, env = env)
  by_type <- asks_for_type(fun)
  if (by_type && source$leave_types) {
    return(code)
  }
  if (source$late && !by_type) refuse_late(code, source$call)
  names <- source$names[chosen_columns_of(fun, by_type, code, source)]
  as.call(list(quote(tidyselect::all_of), names))
}

# What code stands for, if that may be a predicate; or else NULL.
selecting_value <- function(code, env, source) {
  if (is.function(code) || is_formula(code)) {
    return(code)
  }
  if (is.symbol(code)) {
    name <- as.character(code)
    # Functions by other names are no predicates to tidyselect.
    return(if (startsWith(name, "is") && !name %in% source$names) get0(name, env))
  }
  plain <- c("starts_with", "ends_with", "contains", "matches", "num_range", "one_of",
    "everything", "last_col", "all_of", "any_of", "$", "[[")
  if (!is.call(code) || is_call_of(code, plain)) {
    return(NULL)
  }
  if (is_call_of(code, "where") && length(code) == 2L) {
    value <- rlang::eval_tidy(code[[2L]], env = env)
    return(if (is.character(value)) rlang::as_function(value, env = env) else value)
  }
  # Errors are tidyselect's, which evaluates it again.
  helpers <- list2env(as.list(tidyselect::vars_select_helpers), parent = env)
  tryCatch(tidyselect::with_vars(source$names, rlang::eval_tidy(code, env = helpers)),
    error = function(e) NULL
  )
}

chosen_columns_of <- function(fun, by_type, code, source) {
  vapply(source$names, function(name) {
    answer <- fun(if (by_type) source$types()[[name]] else source$column(name))
    if (!is.logical(answer) || length(answer) != 1L || is.na(answer)) {
      abort_input("...", paste0(
        "columns, or predicates that are TRUE or FALSE for each column: `", deparse(code)[1L],
        "` for column `", name, "` must"
      ), answer, source$call)
    }
    answer
  }, NA)
}

refuse_late <- function(code, call) {
  abort_muster("input",
    paste0("`", deparse(code)[1L], "` can't be asked of columns made before it in the same verb."),
    hints = c(
      "Make them with another verb before this one.",
      "Predicates that ask for the type, as where(is.numeric), can."
    ),
    argument = "...", call = call
  )
}

# ---- Predicates that ask for the type

type_functions <- list(
  base = c("is.numeric", "is.character", "is.factor", "is.ordered", "is.logical", "is.integer",
    "is.double", "is.complex", "is.raw", "is.list", "is.atomic", "is.object", "is.data.frame",
    "is.function", "inherits", "class", "oldClass", "typeof", "mode", "storage.mode"),
  rlang = c("is_character", "is_logical", "is_integer", "is_double", "is_list", "is_atomic",
    "is_vector", "is_bare_character", "is_bare_logical", "is_bare_integer", "is_bare_double",
    "is_bare_numeric", "is_bare_list", "is_bare_atomic", "inherits_any", "inherits_all",
    "inherits_only"),
  lubridate = c("is.Date", "is.POSIXct", "is.POSIXt", "is.difftime", "is.instant",
    "is.timepoint", "is.period", "is.duration")
)

# Functions of such values, and of constants.
type_operators <- c("!", "&&", "||", "&", "|", "(", "{", "==", "!=", "%in%", "any", "all", "xor",
  "isTRUE", "isFALSE", "if", "[", "[[", "identical", "c")

asks_for_type <- function(fun) {
  if (is_type_function(fun)) {
    return(TRUE)
  }
  if (!is.function(fun) || is.primitive(fun)) {
    return(FALSE)
  }
  lambda <- inherits(fun, "rlang_lambda_function")
  arguments <- if (lambda) c(".x", ".", "..1") else names(formals(fun))
  (lambda || length(arguments) == 1L) && is_of_type(body(fun), arguments, environment(fun))
}

is_type_function <- function(fun, homes = names(type_functions)) {
  any(vapply(homes, function(home) {
    isNamespaceLoaded(home) && any(vapply(type_functions[[home]], function(name) {
      identical(get0(name, asNamespace(home)), fun)
    }, NA))
  }, NA))
}

# Whether code has a value that depends on its argument's type alone. Calls without the argument
# do: they say nothing of the rows.
is_of_type <- function(code, arguments, env) {
  if (!any(all.names(code) %in% arguments)) {
    return(!any(c("...", "sys.call", "sys.function", "parent.frame", "environment", "match.call",
      "get", "mget", "get0", "eval", "evalq", "missing", "nargs") %in% all.names(code)))
  }
  if (!is.call(code)) {
    return(FALSE)
  }
  fun <- tryCatch(if (is.symbol(code[[1L]])) {
    get0(as.character(code[[1L]]), env, mode = "function")
  } else if (is_call_of(code[[1L]], "::")) {
    eval(code[[1L]], baseenv())
  }, error = function(e) NULL)
  own <- as.list(code)[-1L]
  if (is_type_function(fun)) {
    is_argument <- is.symbol(own[[1L]]) && as.character(own[[1L]]) %in% arguments
    # Others than the class may be a length.
    classes <- any(startsWith(as.character(code[[1L]]), "inherits"))
    return(is_argument && (classes || length(own) == 1L) &&
      all(vapply(own[-1L], is_of_type, NA, arguments, env)))
  }
  is_operator <- any(vapply(type_operators, function(name) {
    identical(fun, get(name, baseenv()))
  }, NA))
  is_operator && all(vapply(own, is_of_type, NA, arguments, env))
}

# ---- What dplyr evaluates on the workers

# Verbs whose code chooses from columns. Those of do() and group_modify() choose from the rows that
# they are given.
choosing_verbs <- c(
  "mutate", "transmute", "filter", "summarise", "slice", "slice_head", "slice_tail", "slice_min",
  "slice_max", "slice_sample"
)

# Expressions in which across() and the like have names in place of predicates of all rows.
chosen_exprs <- function(p, verb, exprs, call) {
  if (!verb %in% choosing_verbs) {
    return(exprs)
  }
  by <- if (is_rowwise(p)) ids_of(p) else groups_of(p)
  source <- column_source(p, call, setdiff(names(p), by))
  source$leave_types <- TRUE
  makes <- verb %in% c("mutate", "transmute", "summarise")
  for (k in seq_along(exprs)) {
    exprs[[k]]$code <- choosing_code(exprs[[k]]$code, exprs[[k]]$env, source)
    source$late <- source$late || makes
  }
  exprs
}

choosing_code <- function(code, env, source) {
  # Such verbs have data of their own.
  if (!is.call(code) || is_call_of(code, c(own_data_verbs, "quote"))) {
    return(code)
  }
  at <- if (is_call_of(code, c("across", "if_any", "if_all", "c_across", "pick"))) chosen_at(code)
  for (k in seq_along(code)) {
    if (k %in% at) {
      code[k] <- list(chosen_code(code[[k]], env, source))
    } else if (is.call(code[[k]])) {
      code[[k]] <- choosing_code(code[[k]], env, source)
    }
  }
  code
}

own_data_verbs <- c(
  choosing_verbs, "summarize", "reframe", "select", "rename", "relocate", "group_by", "arrange",
  "count", "distinct", "do", "group_modify"
)

# Which arguments of across() and the like choose columns.
chosen_at <- function(code) {
  if (is_call_of(code, "pick")) {
    return(seq_along(code)[-1L])
  }
  # R takes the beginning of a name for it; that of `.cols` needs a letter.
  name <- if (is_call_of(code, "c_across")) "cols" else ".cols"
  names <- rlang::names2(as.list(code))
  at <- which(startsWith(name, names) & nchar(names) > (name == ".cols"))
  if (!length(at)) at <- which(!nzchar(names))[-1L]
  Filter(function(k) !identical(code[[k]], quote(expr = )), utils::head(at, 1L))
}
