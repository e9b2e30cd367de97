# What a function has captured: the whole frame that it was created in is sent with it, although
# its code may use little of that frame.

# Smaller objects are sent; larger ones are left behind if the code can't name them.
captured_small <- 1e6
# Objects of this size that are sent are reported.
captured_large <- 100e6

# Code that calls these may access anything, by names that it computes.
looks_around <- c(
  "get", "get0", "mget", "exists", "eval", "evalq", "eval.parent", "parse", "str2lang",
  "str2expression", "environment", "as.environment", "parent.env", "parent.frame", "sys.frame",
  "sys.frames", "sys.function", "ls", "objects", "as.list.environment", "eapply"
)

# without_unused() gives a function whose frame has no large objects that its code can't name: the
# same one if there are none, else a copy with a copy of the frame.
without_unused <- function(fun) {
  env <- if (is.function(fun)) environment(fun)
  if (is.null(env) || !is_own_frame(env)) {
    return(fun)
  }
  used <- names_used(fun, env)
  if (any(looks_around %in% used)) {
    return(fun)
  }
  if (any(grepl("^[.][.][0-9]+$", used))) used <- c(used, "...")
  others <- setdiff(ls(env, all.names = TRUE, sorted = FALSE), used)
  sizes <- vapply(others, captured_size, 0, env)
  if (!any(sizes > captured_small)) {
    return(fun)
  }
  # Copying a promise that nothing names would evaluate it.
  small <- sizes >= 0 & sizes <= captured_small & !vapply(others, is_promise, NA, env)
  keep <- c(intersect(ls(env, all.names = TRUE), used), others[small])
  if (any(vapply(keep, is_absent, NA, env))) {
    return(fun)
  }
  copy <- new.env(parent = parent.env(env))
  for (name in keep) {
    value <- get(name, env, inherits = FALSE)
    if (is.function(value) && identical(environment(value), env)) environment(value) <- copy
    assign(name, value, copy)
  }
  environment(fun) <- copy
  fun
}

# A frame of a function's, or local()'s.
is_own_frame <- function(env) {
  !identical(env, globalenv()) && !identical(env, baseenv()) && !isNamespace(env) &&
    !identical(env, emptyenv()) && !environmentIsLocked(env) && is.null(attributes(env))
}

# What the code of a function names, also within strings, and that of functions in the same frame
# which it names.
names_used <- function(fun, env) {
  used <- character()
  seen <- list()
  functions <- list(fun)
  while (length(functions)) {
    one <- functions[[1L]]
    functions <- functions[-1L]
    if (is.primitive(one) || any(vapply(seen, identical, NA, one))) next
    seen <- c(seen, list(one))
    names <- c(code_names(one), words_in(one))
    for (name in setdiff(names, c(used, "..."))) {
      if (exists(name, env, inherits = FALSE) && !is_promise(name, env)) {
        functions <- c(functions, functions_in(get(name, env, inherits = FALSE)))
      }
    }
    used <- union(used, names)
  }
  used
}

words_in <- function(fun) {
  strings <- strings_in(list(formals(fun), body(fun)))
  unlist(regmatches(strings, gregexpr("[[:alpha:].][[:alnum:]._]*", strings)))
}

strings_in <- function(code) {
  if (is.character(code)) {
    return(code)
  }
  if (is.call(code) || is.pairlist(code) || is.list(code) || is.expression(code)) {
    parts <- Filter(function(part) !identical(part, quote(expr = )), as.list(code))
    return(unlist(lapply(parts, strings_in)))
  }
  character()
}

# A promise shows the code that it was given, other variables their values. In a list, since it is
# the empty symbol for an argument that is missing.
shown_code <- function(name, env) list(do.call(substitute, list(as.name(name), env)))

is_promise <- function(name, env) {
  if (name == "...") {
    return(TRUE) # of promises
  }
  code <- shown_code(name, env)
  is.symbol(code[[1L]]) || is.call(code[[1L]])
}

# An argument that is missing, or a promise to a variable that isn't there; `...` without any.
is_absent <- function(name, env) {
  if (name == "...") {
    return(evalq(...length(), env) == 0L)
  }
  is.symbol(shown_code(name, env)[[1L]]) &&
    inherits(tryCatch(get(name, env, inherits = FALSE), error = identity), "error")
}

# Bytes; -1 for what can't be known without evaluating the code of a promise.
captured_size <- function(name, env) {
  # What `...` stands for are promises, too.
  if (name == "..." || is.call(shown_code(name, env)[[1L]]) || is_absent(name, env)) {
    return(-1)
  }
  as.numeric(utils::object.size(get(name, env, inherits = FALSE)))
}

# Reports large objects that are sent, once per session for each.
name_large <- function(found) {
  values <- c(found$globals, found$around)
  sizes <- vapply(values, function(value) as.numeric(utils::object.size(value)), 0)
  for (name in names(sizes)[sizes >= captured_large]) {
    key <- paste(name, sizes[[name]])
    if (key %in% the$named) next
    the$named <- c(the$named, key)
    inform_muster("large",
      paste0(
        "`", name, "` (", bytes_text(sizes[[name]]), "), which your function uses, is sent to ",
        "the workers with it."
      ),
      hints = "cluster_share(cl, ...) has one copy for all workers of this machine."
    )
  }
}
