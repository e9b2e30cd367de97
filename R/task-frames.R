# Code that is sent with what it uses of the functions that it stands in: iterations of loops, and
# code of tasks.

# A function with this code: what it needs is found as for others.
code_function <- function(argnames, code, frame) {
  argnames <- unique(argnames[nzchar(argnames)])
  formals <- rep(alist(x = ), length(argnames))
  names(formals) <- argnames
  as.function(c(formals, list(code)), envir = frame)
}

# Frames of functions, from the innermost: what must travel, unlike namespaces.
local_places <- function(env) {
  places <- list()
  while (!identical(env, globalenv()) && !identical(env, emptyenv()) && !isNamespace(env) &&
    !identical(env, baseenv()) && !startsWith(environmentName(env), "package:")) {
    places <- c(places, list(env))
    env <- parent.env(env)
  }
  places
}

# code: a list. names: all that it names, and functions and formulas that it names so, in turn.
# functions: those of the first place, by name; in_functions: what these name. failed: conditions
# of arguments whose evaluation fails, by place and name. missing: places and names of arguments
# that were not given, which code may pass on.
code_uses <- function(code, places) {
  names <- in_functions <- missing <- character()
  functions <- failed <- list()
  todo <- unique(unlist(lapply(code, names_in)))
  while (length(todo)) {
    names <- c(names, todo)
    more <- character()
    for (name in todo) {
      for (k in seq_along(places)) {
        if (!exists(name, envir = places[[k]], inherits = FALSE)) next
        # Arguments that are named are evaluated here, as those of other functions that are sent.
        value <- tryCatch(get(name, places[[k]], inherits = FALSE), error = function(e) {
          if (is_not_given_in(name, places[[k]])) {
            missing <<- c(missing, paste(k, name))
            return(NULL)
          }
          if (is.list(e) && identical(e$call[[1L]], quote(get))) e["call"] <- list(NULL) # ours
          failed[[paste(k, name)]] <<- e
          NULL
        })
        inside <- names_in_value(value, places)
        more <- c(more, inside)
        if (k == 1L && is.function(value) && identical(environment(value), places[[1L]])) {
          functions[[name]] <- value
          in_functions <- c(in_functions, inside)
        }
      }
    }
    todo <- setdiff(more, names)
  }
  list(
    names = names, functions = functions, in_functions = in_functions, failed = failed,
    missing = missing
  )
}

# Was this argument not given? What it stands for, if not for nothing, is a name: of an argument
# that was passed on, or its default.
is_not_given_in <- function(name, place) {
  is.symbol(do.call(substitute, list(as.name(name), place))) &&
    isTRUE(tryCatch(eval(call("missing", as.name(name)), place), error = function(e) FALSE))
}

# Names of arguments of the function around code that the code itself must have as arguments: those
# that were not given, and those that it asks about by missing().
arguments_around <- function(code, places, uses) {
  given <- intersect(as.character(asked_in(code)), ls(places[[1L]], all.names = TRUE))
  missing <- sub("^1 ", "", grep("^1 ", uses$missing, value = TRUE))
  list(given = setdiff(given, missing), missing = missing)
}

# x in missing(x).
asked_in <- function(code) {
  if (!is.call(code)) {
    return(NULL)
  }
  parts <- as.list(unclass(code))
  asks <- identical(parts[[1L]], quote(missing)) && length(parts) == 2L && is.symbol(parts[[2L]])
  c(if (asks) as.character(parts[[2L]]), unlist(lapply(parts, asked_in)))
}

names_in_value <- function(value, places) {
  if (is.function(value)) {
    if (place_in(environment(value), places)) c(names_in(formals(value)), names_in(body(value)))
  } else if (is.language(value)) {
    names_in(value)
  }
}

# 0 if env is none of these places.
place_in <- function(env, places) {
  at <- which(vapply(places, identical, NA, env))
  if (length(at)) at[1L] else 0L
}

# Symbols in code, and words in its strings; not what follows `$` or `@`.
names_in <- function(code) {
  if (is.symbol(code)) {
    return(if (nzchar(as.character(code))) as.character(code))
  }
  if (is.character(code)) {
    return(unlist(regmatches(code, gregexpr("[[:alpha:].][[:alnum:]._]*", code))))
  }
  if (!is.call(code) && !is.expression(code) && !is.pairlist(code)) {
    return(NULL)
  }
  parts <- as.list(unclass(code)) # methods of a class may do anything
  if (is.call(code) && (identical(parts[[1L]], quote(`$`)) || identical(parts[[1L]], quote(`@`)))) {
    parts <- parts[1:2]
  }
  unlist(lapply(parts, names_in), use.names = FALSE)
}

# Names that code assigns.
assigned_in <- function(code) {
  if (!is.call(code)) {
    return(NULL)
  }
  parts <- as.list(unclass(code))
  by <- if (is.symbol(parts[[1L]])) as.character(parts[[1L]]) else ""
  here <- if (by %in% c("<-", "=", "for") && length(parts) > 1L) names_in(parts[[2L]])
  c(here, unlist(lapply(parts, assigned_in)))
}

# Functions that assign what can't be told from code.
assigners <- c(
  "assign", "attach", "data", "delayedAssign", "eval", "evalq", "list2env", "load",
  "makeActiveBinding", "source", "sys.source"
)

# The frames as the code needs them. What it doesn't name stays behind if it is an argument, whose
# evaluation needs its caller's frame, or may take much else along; using it is an error. Gives the
# copy of the first.
copy_frames <- function(places, uses, noexport) {
  with_dots <- any(startsWith(uses$names, ".."))
  copies <- lapply(places, function(place) {
    dots <- with_dots && exists("...", envir = place, inherits = FALSE)
    if (dots) with_dots_of(place) else new.env()
  })
  for (k in seq_along(places)) {
    parent.env(copies[[k]]) <- if (k < length(places)) copies[[k + 1L]] else parent.env(places[[k]])
    names <- setdiff(ls(places[[k]], all.names = TRUE), c("...", noexport))
    unknown <- .Call(ffi_is_unknown, places[[k]], names)
    for (i in seq_along(names)) {
      name <- names[i]
      if (paste(k, name) %in% uses$missing) {
        assign(name, quote(expr = ), copies[[k]])
        next
      }
      failed <- uses$failed[[paste(k, name)]]
      if (!is.null(failed)) {
        makeActiveBinding(name, fails_with(failed), copies[[k]])
        next
      }
      named <- name %in% uses$names
      value <- if (named || !unknown[i]) get(name, places[[k]], inherits = FALSE)
      if (!named && (unknown[i] || takes_along(value, places))) {
        makeActiveBinding(name, left_in_session(name), copies[[k]])
      } else {
        assign(name, rehome(value, places, copies), copies[[k]])
      }
    }
  }
  copies[[1L]]
}

# An environment with the values of `...`; those that have none fail when they are used.
with_dots_of <- function(place) {
  dots <- as.list(do.call(substitute, list(quote(list(...)), place)))[-1L]
  for (k in seq_along(dots)) {
    failed <- NULL
    value <- tryCatch(eval(as.name(paste0("..", k)), place), error = function(e) {
      failed <<- e
      NULL
    })
    dots[[k]] <- if (is.null(failed)) enquote(value) else as.call(list(raise_condition, failed))
  }
  eval(as.call(c(function(...) environment(), dots)), baseenv())
}

# More than 1 MB, or an environment, other than that of a function of these frames.
takes_along <- function(value, places) {
  if (is.function(value) && place_in(environment(value), places)) {
    return(FALSE)
  }
  is_export(value) || scan_has(.Call(ffi_scan, value), "environment")
}

# Functions and formulas of a frame belong to its copy.
rehome <- function(value, places, copies) {
  if (is.function(value) && !is.primitive(value)) {
    at <- place_in(environment(value), places)
    if (at) environment(value) <- copies[[at]]
  } else if (inherits(value, "formula")) {
    at <- place_in(attr(value, ".Environment"), places)
    if (at) attr(value, ".Environment") <- copies[[at]]
  }
  value
}

left_in_session <- function(name) {
  force(name)
  function(value) {
    abort_muster("limit",
      paste0("`", name, "` of the function around this code isn't here."),
      details = paste(
        "The code doesn't name it, and it is an argument, larger than 1 MB, or has an environment."
      ),
      hints = paste0("Name it in the code, as in force(", name, "), or in a loop's `.export`.")
    )
  }
}

# An argument that is missing, or whose evaluation fails.
fails_with <- function(condition) {
  force(condition)
  function(value) raise_condition(condition)
}
