#' Explain the number of available cores
#'
#' @description
#' Lists what each source of [availableCores()] says and why: the file or variable that was read,
#' and the text found there. When printed, it marks the source that decided.
#'
#' @param ... Arguments of [availableCores()], except `which` and `na.rm`.
#'
#' @returns A data frame of class `muster_cores_report` with a row for each source, in the order
#'   of the methods: `source`, its name; `value`, an integer, `NA` if it has no answer; `reason`,
#'   where the value comes from, or what was looked for. Attribute `decided` is the result of
#'   [availableCores()].
#'
#' @section Errors:
#' Those of [availableCores()].
#'
#' @section Cost:
#' Twice that of [availableCores()].
#'
#' @examples
#' cores_report()
#'
#' # What does the scheduler say?
#' cores_report(methods = c("Slurm", "PBS", "SGE", "LSF"))
#' @export
cores_report <- function(...) {
  call <- sys.call()
  arguments <- list(...)
  wrong <- intersect(names(arguments), c("which", "na.rm"))
  if (length(wrong)) {
    abort_input(wrong[1L], "left out", arguments[[wrong[1L]]], call)
  }
  decided <- availableCores(...)
  given <- cores_report_arguments(...)
  methods <- cores_asked(
    given$methods, given$constraints, "availableCores.methods.excludes", call
  )
  answers <- cores_ask(methods, cores_machine(logical = given$logical), call)
  structure(
    data.frame(
      source = methods,
      value = unname(cores_counts(answers)),
      reason = vapply(answers, function(answer) answer$reason(), "", USE.NAMES = FALSE)
    ),
    decided = decided,
    class = c("muster_cores_report", "data.frame")
  )
}

# The arguments as availableCores() matches them, with its defaults.
cores_report_arguments <- function() NULL
formals(cores_report_arguments) <- formals(availableCores)
body(cores_report_arguments) <- quote(
  list(constraints = constraints, methods = methods, logical = logical)
)

#' @export
print.muster_cores_report <- function(x, ...) {
  decided <- attr(x, "decided")
  says <- !is.na(x$value)
  if (is.null(decided) || !all(c("source", "value", "reason") %in% names(x))) {
    return(NextMethod())
  }
  cat("availableCores() is ", decided, ", by \"", names(decided), "\".\n", sep = "")
  mark <- ifelse(x$source == sub("[*]$", "", names(decided)), "*", " ")
  value <- ifelse(says, x$value, "-")
  lines <- paste(mark, format(x$source), format(value, justify = "right"), " ", x$reason)
  # What was found and couldn't be used is worth a line, what wasn't there a word.
  told <- says | grepl(" is ignored", x$reason, fixed = TRUE)
  if (any(told)) {
    cat(lines[told], sep = "\n")
  }
  if (any(!told)) {
    silent <- paste0("Silent: ", paste(x$source[!told], collapse = ", "), ".")
    cat(strwrap(silent, exdent = 2L), sep = "\n")
  }
  invisible(x)
}
