# Conditions: the one place where muster raises errors, warnings and messages.
#
# An error says what is wrong ("must", "can't"), then details marked "x", then
# what to do, marked "i". It has class muster_error_<kind>, muster_error, error,
# the call of the user's function, and its facts as fields.

# abort_muster() raises an error.
# kind: one of "input", "launch", "connect", "timeout", "lost", "remote",
#   "protocol", "limit", "memory", "internal"; more than one where it is a case of another.
# message: one sentence. details, hints: character vectors, a line each.
# call: the call shown to the user, by default that of the function which called
#   the function that checks; pass the right one down from exported functions.
# ...: named fields of the condition. of: another error that this one tells of: handlers for its
#   classes are called too, and find its fields.
abort_muster <- function(kind, message, details = NULL, hints = NULL, ...,
                         call = sys.call(-1), of = NULL) {
  line_away()
  own <- c(paste0("muster_error_", kind), "muster_error")
  others <- setdiff(oldClass(of), c(own, "error", "condition"))
  condition <- muster_condition(c(own, others, "error"), message, details, hints, call, ...)
  if (is.list(of)) {
    more <- setdiff(names(of), c("", names(condition)))
    condition[more] <- unclass(of)[more]
  }
  note_failed(condition)
  stop(condition)
}

# warn_muster() raises a warning of class muster_warning_<kind>.
warn_muster <- function(kind, message, details = NULL, hints = NULL, ...,
                        call = NULL) {
  line_away()
  warning(muster_condition(
    c(paste0("muster_warning_", kind), "muster_warning", "warning"),
    message, details, hints, call, ...
  ))
}

# inform_muster() signals a message of class muster_message_<kind>, unless
# options(muster.quiet = TRUE).
inform_muster <- function(kind, message, details = NULL, hints = NULL, ...) {
  if (isTRUE(getOption("muster.quiet"))) {
    return(invisible())
  }
  condition <- muster_condition(
    c(paste0("muster_message_", kind), "muster_message", "message"),
    message, details, hints, NULL, ...
  )
  condition$message <- paste0(condition$message, "\n")
  line_away()
  message(condition)
}

# A condition of ours may also have the class of a user's error, with a method of its own.
#' @exportS3Method base::conditionMessage
conditionMessage.muster_error <- function(c) c$message

muster_condition <- function(class, message, details, hints, call, ...) {
  lines <- c(
    message,
    if (length(details)) paste("x", details),
    if (length(hints)) paste("i", hints)
  )
  structure(
    class = c(class, "condition"),
    list(message = paste(lines, collapse = "\n"), call = call, ...)
  )
}

# raise_condition() signals an existing condition: a worker's, or one of ours with more fields.
raise_condition <- function(condition) {
  line_away()
  if (inherits(condition, "error")) {
    stop(condition)
  } else if (inherits(condition, "warning")) {
    warning(condition)
  } else {
    message(condition)
  }
}

# tell_handlers() signals a condition and does nothing else: what a worker's R has acted on.
tell_handlers <- function(condition) {
  line_away()
  withRestarts(
    signalCondition(condition),
    muffleWarning = function() NULL, muffleMessage = function() NULL,
    muffleProgression = function(...) NULL # package progressr's
  )
}
