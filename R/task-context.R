# The context of tasks: what code in a worker sees of the session without naming it. See
# src/ffi/session/context.c, and "Options, directory, variables" in ?cluster_map.

# What this session knows of its tasks.
the_task <- new.env(parent = emptyenv())
the_task$maps <- list() # of task_map() that may not be over, as of ffi_hide
the_task$failed <- NULL # the last error that task_debug() can evaluate again
the_task$variables <- NULL # the environment when it was last looked at, see note_variables()
the_task$variables_changed <- character() # names of those that have changed since muster was loaded
the_task$methods <- NULL # that the user has registered: list(counts, s3), see own_methods()
the_task$dev_loads <- list() # packages that are under load_all(): list(ns, load, code) by name

# By which a worker knows it before it is needed.
context_mark <- "muster: the context of tasks"

# Called from C code when something of it may have changed.
context_now <- function() {
  kinds <- c("LC_COLLATE", "LC_CTYPE", "LC_MONETARY", "LC_TIME")
  list(
    what = context_mark,
    options = context_options(options()),
    directory = tryCatch(getwd(), error = function(e) NULL),
    locales = vapply(stats::setNames(nm = kinds), Sys.getlocale, ""),
    variables = context_variables(),
    dev = dev_packages(),
    fresh = FALSE # of a job: it can be kept
  )
}

# Those that belong to the session itself: how it shows things and talks to its user, and packages
# that have workers.
session_options <- c(
  "askYesNo", "browser", "browserNLdisabled", "catch.script.errors", "continue", "defaultPackages",
  "demo.ask", "device", "device.ask.default", "echo", "editor", "error", "example.ask",
  "help.ports", "keep.source", "keep.source.pkgs", "locatorBell", "mc.cores", "menu.graphics",
  "pager", "papersize", "pdfviewer", "printcmd", "prompt", "show.error.messages",
  "showErrorCalls", "showNCalls", "showWarnCalls", "topLevelEnvironment", "verbose", "viewer",
  "warning.expression"
)
session_option_prefixes <- "^(muster|future|parallelly|progressr|doFuture|rstudio|shiny)[.]"

# warn: a warning that isn't handled in the worker is signalled in the session, where its option
# counts. From 2 it is an error, which code in the worker may handle.
context_options <- function(all) {
  names <- names(all)
  keep <- !names %in% session_options & !grepl(session_option_prefixes, names)
  if (!isTRUE(all[["warn"]] >= 2)) keep <- keep & names != "warn"
  all <- all[keep]
  all <- all[vapply(all, is_plain_option, NA, 2L) | names(all) %in% c("contrasts", "na.action")]
  absent <- setdiff(c("contrasts", "na.action", "ts.eps"), names(all))
  c(all, structure(vector("list", length(absent)), names = absent))
}

# Vectors, and lists of them: what a worker's R takes as it is.
is_plain_option <- function(x, depth) {
  if (is.list(x)) {
    return(depth > 0L && length(x) <= 100L && all(vapply(x, is_plain_option, NA, depth - 1L)))
  }
  is.atomic(x) && length(x) <= 1000L
}

# Variables that have changed since a worker may have started: NA for those that are gone.
context_variables <- function() {
  note_variables()
  now <- session_variables()
  structure(now[the_task$variables_changed], names = the_task$variables_changed)
}

# Called before anything starts with the environment as it is, too: a worker has what was set then,
# even if it is set back before a task is submitted.
note_variables <- function() {
  now <- session_variables()
  before <- the_task$variables
  the_task$variables <- now
  if (is.null(before)) {
    return()
  }
  names <- union(names(before), names(now))
  same <- now[names] == before[names]
  changed <- names[!(same %in% TRUE)]
  the_task$variables_changed <- union(the_task$variables_changed, changed)
}
