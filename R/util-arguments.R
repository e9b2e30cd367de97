# Arguments of the user's functions, which travel in `...`. muster's own arguments begin with a
# dot, so that no argument of the user's function can be mistaken for one of them.

# user_args() returns the arguments for the user's function, from `...` and `.args`. own: muster's
# arguments after `...`; before: those in front of it.
user_args <- function(dots, args, fun, own, before, call) {
  names <- names(dots)
  if (length(names)) {
    for (name in names[startsWith(names, ".")]) {
      abort_dotted(name, own, call)
    }
    for (name in intersect(paste0(".", names), c(own, before))) {
      check_not_ours(sub("^[.]", "", name), fun, call)
    }
  }
  if (is.null(args)) {
    return(dots)
  }
  if (!is.list(args)) {
    abort_input(".args", "NULL or a list of arguments", args, call)
  }
  c(dots, args)
}

abort_dotted <- function(name, own, call) {
  far <- utils::adist(name, own)
  near <- own[far == min(far) & far <= max(2, nchar(name) / 3)][1L]
  abort_muster("input", paste0("`", name, "` isn't an argument of ", call_name(call), "()."),
    hints = c(
      if (!is.na(near)) paste0("Do you mean `", near, "`?"),
      paste0("Arguments of your function whose names begin with a dot go into `.args`: ",
        ".args = list(", name, " = ...).")
    ),
    argument = name, call = call
  )
}

# An argument like one of ours that the user's function can't take is meant for us.
check_not_ours <- function(name, fun, call) {
  if (!is.function(fun)) {
    return(invisible())
  }
  takes <- names(formals(args(fun)))
  if (is.null(takes) || any(takes == "...") || any(startsWith(takes, name))) {
    return(invisible())
  }
  abort_muster("input", paste0("Your function has no argument `", name, "`."),
    hints = paste0("Do you mean `.", name, "`, the argument of ", call_name(call), "()?"),
    argument = name, call = call
  )
}

call_name <- function(call) {
  name <- if (is.call(call)) call[[1L]]
  if (is.call(name)) name <- name[[3L]] # muster::cluster_map
  if (is.symbol(name)) as.character(name) else "this function"
}

# function_of() returns the function that the user means: a function as it is, or the function for
# a lambda such as ~ .x + 1, whose arguments are .x (also . and ..1) and .y (..2).
function_of <- function(fun, call, name = ".fun") {
  if (!inherits(fun, "formula")) {
    return(fun)
  }
  if (length(fun) != 2L) {
    abort_input(name, "a function or a lambda such as ~ .x + 1, with nothing before ~", fun, call)
  }
  made <- function(..., .x = ..1, .y = ..2, . = ..1) NULL
  body(made) <- fun[[2L]]
  environment(made) <- environment(fun)
  made
}

# The arguments in `...`, evaluated. Those that the caller passes on without having them are
# `not_given`, see pass_given().
dots_given <- function(...) {
  absent <- logical(...length())
  for (k in seq_along(absent)) absent[k] <- eval(call("missing", as.name(paste0("..", k))))
  if (!any(absent)) {
    return(list(...))
  }
  dots <- lapply(seq_along(absent), function(k) if (absent[k]) not_given else ...elt(k))
  structure(dots, names = names(substitute(list(...)))[-1L])
}

not_given <- structure(list(), class = "muster_not_given")
is_not_given <- function(x) inherits(x, "muster_not_given")

# A function of the rest of these arguments that passes on what isn't given, as missing.
pass_given <- function(fun, args) {
  absent <- vapply(args, is_not_given, NA)
  passed <- rep(alist(x = ), length(args))
  passed[!absent] <- lapply(paste0("..", seq_len(sum(!absent))), as.name)
  names(passed) <- names(args)
  code <- as.call(c(list(if (is.function(fun)) quote(fun) else as.name(fun), quote(x)), passed))
  as.function(c(alist(x = , ... = ), code), list2env(list(fun = fun), parent = globalenv()))
}
