# The code that a caller gave as an argument or as `...`, and where it is to be evaluated.

# list(name, code, env) for each of the dots. list_call: substitute(list(...)). envs: from
# argument_envs().
dots_code <- function(list_call, envs) {
  code <- as.list(list_call)[-1L]
  # A comma at the end.
  if (length(code) && identical(code[[length(code)]], quote(expr = ))) code[[length(code)]] <- NULL
  names <- if (is.null(names(code))) rep("", length(code)) else names(code)
  Map(function(name, code, env) list(name = name, code = code, env = env), names, code,
    envs(length(code)),
    USE.NAMES = FALSE
  )
}

# Where the arguments of a call were written: function(n) for its n dots, function(name = ) for
# another one. fun, call: the function and its call; frame: of its caller. If that passes on dots of
# its own, what is in them was written by its own caller, and so on.
argument_envs <- function(fun, call, frame) {
  passed <- vapply(as.list(call)[-1L], identical, NA, quote(...))
  if (!any(passed)) {
    return(function(n = 1L, name = NULL) if (is.null(name)) rep(list(frame), n) else frame)
  }
  origin <- dots_origin(frame)
  if (is.null(origin)) {
    abort_muster("input", "Can't tell where the code in `...` was written.",
      hints = "The function that has these dots has returned: give the expressions themselves.",
      argument = "...", call = call
    )
  }
  names <- as.list(names(call)[-1L])
  if (!length(names)) names <- rep(list(""), length(passed))
  envs <- rep(list(list(frame)), length(passed))
  names[passed] <- list(origin$names)
  envs[passed] <- list(origin$envs)
  names <- unlist(names)
  envs <- unlist(envs, recursive = FALSE)
  # A call with a number for each argument, matched as R does it.
  numbers <- as.call(c(quote(f), stats::setNames(as.list(seq_along(envs)), names)))
  matched <- as.list(match.call(fun, numbers, expand.dots = FALSE))[-1L]
  function(n, name = NULL) {
    if (is.null(name)) {
      envs[vapply(matched$..., identity, 0L)]
    } else if (is.null(matched[[name]])) {
      frame
    } else {
      envs[[matched[[name]]]]
    }
  }
}

# list(names, envs) of the dots that a frame sees: those of the function that it belongs to, or of
# one around it. NULL if that isn't running any more.
dots_origin <- function(frame) {
  while (!exists("...", envir = frame, inherits = FALSE)) {
    if (identical(frame, globalenv()) || identical(frame, emptyenv())) {
      return(NULL)
    }
    frame <- parent.env(frame)
  }
  frames <- sys.frames()
  k <- which(vapply(frames, identical, NA, frame))
  if (!length(k)) {
    return(NULL)
  }
  k <- k[1L]
  parent <- sys.parents()[k]
  caller <- if (parent == 0L) globalenv() else frames[[parent]]
  # Doesn't evaluate them.
  code <- as.list(eval(quote(substitute(list(...))), frame))[-1L]
  list(
    names = if (is.null(names(code))) rep("", length(code)) else names(code),
    envs = argument_envs(sys.function(k), sys.call(k), caller)(length(code))
  )
}
