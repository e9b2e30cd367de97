# Numbers and hosts that users and administrators decide: functions, a fallback, and
# options and variables of any name.

# Calls the function in an option such as "availableCores.custom", which is unset meanwhile,
# so that the function may count cores itself. NULL if there's none.
cores_call_custom <- function(name) {
  custom <- cores_option(name)
  if (!is.function(custom)) {
    return(NULL)
  }
  names <- paste0(c("muster.", "parallelly.", "future."), name)
  before <- options(stats::setNames(vector("list", 3L), names))
  on.exit(options(before))
  list(value = custom())
}

cores_custom <- function(call) {
  name <- "availableCores.custom"
  result <- cores_call_custom(name)
  if (is.null(result)) {
    return(cores_silent("option ", name, " isn't set"))
  }
  value <- result$value
  if (length(value) == 1L && is.atomic(value) && is.na(value)) {
    return(cores_silent("the function in option ", name, " gave NA"))
  }
  count <- cores_whole(if (is.numeric(value)) trunc(value) else value)
  if (is.na(count) || count < 1L) {
    abort_custom(name, "one number from 1 up", value, call)
  }
  cores_answer(count, "the function in option ", name)
}

abort_custom <- function(name, must, value, call) {
  abort_muster("input",
    paste0(
      "The function in option `", name, "` must return ", must, ", not ", describe(value), "."
    ),
    argument = name, call = call
  )
}

# Used where nobody but the machine speaks; see cores_heed_fallback().
cores_fallback <- function() {
  value <- cores_option("availableCores.fallback", type = "integer")
  if (is.null(value)) {
    return(cores_silent("option availableCores.fallback isn't set"))
  }
  cores_named_answer("option availableCores.fallback", value)
}

# Any other method is the name of an option, or of a variable of the environment.
cores_any <- function(method) {
  for (name in paste0(c("", "muster.", "parallelly.", "future."), method)) {
    value <- getOption(name)
    if (!is.null(value)) {
      return(cores_named_answer(paste("option", name), value))
    }
  }
  if (grepl("=", method, fixed = TRUE)) cores_silent("no such source") else cores_env_count(method)
}

# The answer of an option's value. Fractions are cut off.
cores_named_answer <- function(source, value) {
  if (length(value) == 1L && is.atomic(value) && is.na(value)) {
    return(cores_silent(source, " is NA"))
  }
  count <- cores_whole(if (is.numeric(value)) trunc(value) else value)
  if (is.na(count) || count < 1L) {
    cores_warn_count(sub("option (.*)", "Option `\\1`", source), 1L, value)
    return(cores_silent(source, " is ignored: ", describe(value)))
  }
  cores_answer(count, source, " = ", describe(value))
}
