# Warnings and messages of tasks: which of them go to the session, and what R does with them here.
#
# note_warning() and note_message() are calling handlers outside of all handlers of a task, so they
# see what the task didn't handle. It goes to the session with the task's answer, which signals it
# as warning() and message() do. That is all if R would print or defer it here. If R would do
# something else, because of options or a sink that was set here, it must do that here and now: turn
# a warning into an error, which the task's own code may be waiting for, write into the sink, or
# nothing. Then the session only lets handlers look at the condition: list(condition) instead of the
# condition marks that. Calls other than tasks are as in workers of makeCluster().
#
# Conditions of the class "immediateCondition", such as those of package progressr, go at once.

note_warning <- function(condition) {
  if (.Call(ffi_worker_is_task)) {
    if (!is.null(the_worker$label)) condition <- the_worker$label(condition)
    relay_condition(condition, "muffleWarning", acts_on_warning())
  }
}

note_message <- function(condition) {
  if (.Call(ffi_worker_is_task)) {
    relay_condition(condition, "muffleMessage", is_sunk())
  }
}

# The first of the handlers: of warnings and messages, those above do the rest.
note_immediate <- function(condition) {
  if (.Call(ffi_worker_is_task) && !inherits(condition, c("warning", "message", "error"))) {
    say_at_once(list(light_condition(condition)))
  }
}

say_at_once <- function(said) {
  if (is.null(the_worker$say)) worker_say(said) else the_worker$say(said)
}

# Sends a value before the answer to the present call.
worker_say <- function(said) invisible(.Call(ffi_worker_say, said))

# acts: R itself acts on it. Without a restart it was only signalled, and R doesn't act on it
# anywhere.
relay_condition <- function(condition, muffle, acts) {
  restart <- if (!acts) findRestart(muffle)
  condition <- light_condition(condition)
  quiet <- is.null(restart)
  said <- if (quiet) list(condition) else condition
  if (inherits(condition, "immediateCondition")) {
    say_at_once(said)
  } else {
    dropped <- .Call(ffi_worker_condition, said, utils::object.size(condition))
    if (!is.null(dropped)) drop_condition(dropped, condition, quiet)
  }
  if (!quiet) invokeRestart(restart)
}

# As R decides, see `warn` in options(); TRUE as well if R ignores it.
acts_on_warning <- function() {
  warn <- as.integer(getOption("warn"))
  if (warn > 1L || !is.null(getOption("warning.expression"))) {
    return(TRUE)
  }
  sunk <- is_sunk()
  if ((warn < 0L || (warn == 0L && sunk)) && is_immediate()) warn <- 1L
  warn < 0L || (warn == 1L && sunk)
}

# TRUE if messages go to a sink() other than `outfile`.
is_sunk <- function() {
  to <- sink.number(type = "message")
  to != 2L && to != the_worker$own_sink
}

# TRUE in a handler of warning(immediate. = TRUE), which the condition doesn't show.
is_immediate <- function() {
  for (k in rev(seq_len(sys.nframe() - 1L))) {
    if (identical(sys.function(k), .signalSimpleWarning)) {
      return(
        k > 1L && identical(sys.function(k - 1L), warning) &&
          isTRUE(get("immediate.", sys.frame(k - 1L)))
      )
    }
  }
  FALSE
}

# The session reports how many of each class were dropped, unless all are `quiet`, and logs the last
# ones. dropped: an environment, empty at first.
drop_condition <- function(dropped, condition, quiet) {
  class <- class(condition)[1L]
  if (is.null(dropped$count)) {
    dropped$count <- numeric()
    dropped$last <- character(drop_lines)
    dropped$quiet <- TRUE
  }
  before <- dropped$count[class]
  dropped$count[class] <- if (is.na(before)) 1 else before + 1
  dropped$quiet <- dropped$quiet && quiet
  text <- message_of(condition)
  if (nchar(text, "bytes") > drop_bytes) text <- rawToChar(charToRaw(text)[seq_len(drop_bytes)])
  if (inherits(condition, "warning")) text <- paste("Warning:", text)
  at <- 1 + (sum(dropped$count) - 1) %% drop_lines
  dropped$last[at] <- sub("\n$", "", text, useBytes = TRUE)
}

drop_lines <- 1000L
drop_bytes <- 4000L

# A call made by do.call() contains the function and the values themselves, and a condition would
# take them along to the session. Values that aren't code are replaced by the name of their class.
light_condition <- function(condition) {
  if (is.list(condition) && is.call(condition$call)) condition$call <- light_call(condition$call)
  condition
}

light_call <- function(call) {
  # The text of the whole source file, if R keeps that.
  for (name in c("srcref", "srcfile", "wholeSrcref")) attr(call, name) <- NULL
  if (identical(call[[1L]], as.name("function"))) {
    return(call[1:3])
  }
  if (is.function(call[[1L]])) call[[1L]] <- quote(fun)
  for (i in seq_along(call)) {
    if (is.symbol(call[[i]])) next # or a missing argument, which can't be a variable's value
    part <- call[[i]]
    if (is.call(part)) {
      call[[i]] <- light_call(part)
    } else if (!is_short(part)) {
      call[[i]] <- as.name(paste0("<", class(part)[1L], ">"))
    }
  }
  call
}

is_short <- function(x) {
  is.null(x) || (is.atomic(x) && length(x) == 1L && utils::object.size(x) < 1000)
}
