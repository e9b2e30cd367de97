# `setup` of cluster_start(): functions that can have no effect.

# Calls whose only effect is the assignment. Other calls may have any effect.
pure_calls <- c(
  "+", "-", "*", "/", "^", "%%", "%/%", "%in%", "%*%", ":", "(", "[", "[[", "$", "!", "&", "&&",
  "|", "||", "==", "!=", "<", ">", "<=", ">=", "c", "list", "vector", "character", "numeric",
  "integer", "logical", "matrix", "array", "data.frame", "factor", "seq", "seq_len", "seq_along",
  "rep", "rev", "length", "names", "paste", "paste0", "sprintf", "file.path", "Sys.getenv",
  "Sys.time", "Sys.getpid", "readRDS", "readLines", "read.csv", "read.table", "quote", "identity",
  "sqrt", "exp", "log", "sum", "mean", "max", "min", "round", "nchar", "unlist", "lapply", "sapply"
)

# Warns if a function does nothing but assign local variables.
warn_locals <- function(setup, call) {
  names <- if (is.function(setup)) only_locals(body(setup))
  if (length(names)) {
    warn_muster("setup", "`setup` has no effect: a function's variables are gone when it ends.",
      details = paste0("It only assigns ", paste0("`", names, "`", collapse = ", "), "."),
      hints = paste0(
        "Give an expression, which is evaluated in the worker's global environment: ",
        "setup = quote({ ... })."
      ),
      variables = names, call = call
    )
  }
}

# The names that are assigned, NULL if the code does anything else.
only_locals <- function(code) {
  several <- is.call(code) && identical(code[[1L]], quote(`{`))
  steps <- if (several) as.list(code)[-1L] else list(code)
  names <- vapply(steps, local_name, "")
  if (!anyNA(names)) unique(names[nzchar(names)])
}

# The variable that a step assigns, "" for one that does nothing, NA for all others.
local_name <- function(step) {
  if (!is.call(step)) {
    return("")
  }
  assigns <- deparse(step[[1L]])[1L] %in% c("<-", "=") && length(step) == 3L
  if (assigns && (is.symbol(step[[2L]]) || is.character(step[[2L]])) && is_pure(step[[3L]])) {
    as.character(step[[2L]])
  } else {
    NA_character_
  }
}

# Whether a piece of code has no effect besides its value.
is_pure <- function(code) {
  if (!is.call(code)) {
    return(TRUE)
  }
  fun <- code[[1L]]
  if (!is.symbol(fun)) {
    return(FALSE)
  }
  if (identical(fun, quote(`function`))) {
    return(TRUE)
  }
  is_missing <- function(part) is.symbol(part) && !nzchar(as.character(part))
  as.character(fun) %in% pure_calls &&
    all(vapply(as.list(code)[-1L], function(part) is_missing(part) || is_pure(part), NA))
}
