# Contexts in a worker: what its session was when a task was submitted. See R/task-context.R.
#
# What the user has set in this worker by calls of parallel's verbs, or in its set-up, wins: an
# option, variable or directory that isn't what the worker started with stays as it is. An option
# that nothing in the worker had set stays, too, if a package was loaded meanwhile: packages set
# those that they don't find, and look for them later.

# What this worker has before its user's code runs.
note_own_context <- function(orders) {
  the_worker$own <- list(
    options = the_worker$boot_options, directory = getwd(), asked = orders$directory,
    locales = vapply(stats::setNames(nm = locale_kinds), Sys.getlocale, ""),
    variables = .Call(ffi_environment), fixed = orders$variables$fixed,
    is_here = !is.null(orders$base)
  )
}

locale_kinds <- c("LC_COLLATE", "LC_CTYPE", "LC_MONETARY", "LC_TIME")

# Called from C code before a call whose context, that of a job, isn't the last one's. Does it
# differ from the worker's own?
context_enter <- function(number) {
  suspendInterrupts({
    context <- job_get(number)
    steps <- list(
      options_step(context), variables_step(context), locales_step(context),
      directory_step(context)
    )
    the_worker$steps <- Filter(Negate(is.null), steps)
    context_again()
    length(the_worker$steps) > 0L
  })
}

# Called from C code, too.
context_again <- function() {
  suspendInterrupts(for (step in the_worker$steps) step$enter())
}

context_leave <- function() {
  suspendInterrupts({
    for (step in rev(the_worker$steps)) tryCatch(step$leave(), error = function(e) NULL)
  })
}

# Each gives list(enter, leave), two functions, or NULL if there is nothing to do.
options_step <- function(context) {
  now <- as.list(.Options)
  wanted <- context$options
  gone <- setdiff(names(the_worker$brought), names(wanted))
  gone <- gone[vapply(gone, function(name) identical(now[[name]], the_worker$brought[[name]]), NA)]
  wanted[gone] <- list(NULL)
  base <- now[names(wanted)]
  boot <- the_worker$own$options[names(wanted)]
  differ <- !mapply(identical, base, wanted, SIMPLIFY = TRUE, USE.NAMES = FALSE)
  own <- names(wanted) %in% names(the_worker$own$options) &
    !mapply(identical, base, boot, SIMPLIFY = TRUE, USE.NAMES = FALSE)
  wanted <- wanted[differ & !own]
  if (isTRUE(wanted[["expressions"]] < now[["expressions"]])) wanted[["expressions"]] <- NULL
  if (!length(wanted)) {
    return(NULL)
  }
  before <- now[names(wanted)]
  names(before) <- names(wanted)
  new <- setdiff(names(wanted), c(names(now), gone))
  loaded <- NULL
  list(
    enter = function() {
      loaded <<- loadedNamespaces()
      suppressWarnings(options(wanted)) # tidy: some are deprecated
    },
    leave = function() {
      if (!identical(loadedNamespaces(), loaded)) {
        the_worker$brought[new] <- wanted[new]
        before <- before[setdiff(names(before), new)]
      }
      suppressWarnings(options(before)) # tidy: likewise
    }
  )
}

# On another host those that say where things are there stay.
variables_step <- function(context) {
  wanted <- context$variables
  names <- setdiff(names(wanted), the_worker$own$fixed)
  if (!the_worker$own$is_here) names <- grep(host_variables, names, value = TRUE, invert = TRUE)
  if (!length(names)) {
    return(NULL)
  }
  now <- Sys.getenv(names, NA, names = TRUE)
  boot <- the_worker$own$variables[names]
  own <- !mapply(identical, unname(now), unname(boot))
  differ <- !mapply(identical, unname(now), unname(wanted[names]))
  names <- names[differ & !own]
  if (!length(names)) {
    return(NULL)
  }
  list(
    enter = function() set_variables_to(wanted[names]),
    leave = function() set_variables_to(now[names])
  )
}
host_variables <- paste0(
  "^(PATH|HOME|TMP|TEMP|USER|LOGNAME|SHELL|HOSTNAME|HOST|DISPLAY|PWD|OLDPWD|EDITOR|VISUAL|TERM|",
  "LD_LIBRARY_PATH|LD_PRELOAD|MAIL|XAUTHORITY|(R|SSH|XDG|DBUS|SLURM|PBS|LSB|SGE|CONDA|MODULE).*)$"
)

set_variables_to <- function(values) {
  set <- values[!is.na(values)]
  if (length(set)) do.call(Sys.setenv, as.list(set))
  Sys.unsetenv(names(values)[is.na(values)])
}

locales_step <- function(context) {
  now <- vapply(stats::setNames(nm = names(context$locales)), Sys.getlocale, "")
  wanted <- context$locales
  wanted <- wanted[wanted != now & now == the_worker$own$locales[names(now)]]
  if (!length(wanted)) {
    return(NULL)
  }
  now <- now[names(wanted)]
  list(
    enter = function() for (kind in names(wanted)) enter_locale(kind, wanted[[kind]]),
    leave = function() for (kind in names(now)) Sys.setlocale(kind, now[[kind]])
  )
}

enter_locale <- function(kind, locale) {
  if (kind == "LC_CTYPE" && !the_worker$own$is_here) {
    suppressWarnings(Sys.setlocale(kind, locale)) # tidy: hosts have several names for UTF-8
  } else {
    set_locale(kind, locale)
  }
}

directory_step <- function(context) {
  wanted <- context$directory
  now <- getwd()
  # One that the session had when this worker started has been tried.
  if (is.null(wanted) || identical(wanted, now) || identical(wanted, the_worker$own$asked) ||
    !identical(now, the_worker$own$directory)) {
    return(NULL)
  }
  list(enter = function() enter_directory(wanted), leave = function() set_directory(now))
}

enter_directory <- function(directory) {
  entered <- tryCatch(is.character(setwd(directory)), error = function(e) FALSE)
  if (!entered && !"directory" %in% the_worker$warned) {
    the_worker$warned <- c(the_worker$warned, "directory")
    warning("A worker can't use the session's directory, ", directory, ": ", # tidy: relayed
      "its own is used, ", getwd(), ".", call. = FALSE
    )
  }
}
