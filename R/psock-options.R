# Settings of makeClusterPSOCK() that come from options and environment variables, under
# the names that users of parallelly have set: options(parallelly.x.y = ) and
# R_PARALLELLY_X_Y, and the older ones that begin with "future". parallelly turns the
# variables into options when it is loaded; here they are read when they are asked for.

# getOption2() has the name that is in parallelly's formals, which ours must equal.
getOption2 <- function(name, default = NULL) {
  names <- c(name, sub("^parallelly[.]", "future.", name))
  for (one in names) {
    value <- getOption(one)
    if (!is.null(value)) {
      return(value)
    }
  }
  variables <- paste0("R_", toupper(gsub(".", "_", names, fixed = TRUE)))
  values <- Sys.getenv(variables, NA)
  value <- values[!is.na(values) & nzchar(values)]
  if (length(value)) variable_value(value[1L], default) else default
}

# The value of a variable, converted to the default's type; the default if that fails.
variable_value <- function(text, default) {
  text <- unname(text)
  value <- if (is.logical(default)) {
    as.logical(toupper(text))
  } else if (is.numeric(default)) {
    suppressWarnings(as.numeric(strsplit(text, ",", fixed = TRUE)[[1L]]))
  } else {
    text
  }
  if (anyNA(value) || !length(value)) {
    warn_muster("input", paste0("Ignored an environment variable: ", describe(text), "."),
      details = paste0("It must be ", if (is.logical(default)) "TRUE or FALSE." else "a number.")
    )
    return(default)
  }
  value
}

# ---- Ports

# The ports that `port` of makeClusterPSOCK() allows, in the order to try them. Only
# workers without muster need one.
choose_port <- function(port, call) {
  if (identical(port, c("auto", "random"))) {
    port <- "auto"
  }
  if (identical(port, "auto")) {
    port <- Sys.getenv("R_PARALLEL_PORT", "random")
    if (!identical(port, "random")) {
      number <- suppressWarnings(as.numeric(port))
      if (!is_port(number)) {
        abort_muster("input",
          paste0(
            "Environment variable R_PARALLEL_PORT must be \"random\" or a port from 1 to 65535, ",
            "not ", describe(port), "."
          ),
          call = call
        )
      }
      return(as.integer(number))
    }
  }
  if (identical(port, "random")) {
    return(shuffled(random_ports(call)))
  }
  if (!is_port(port)) {
    abort_input("port", "\"auto\", \"random\", or ports from 1 to 65535", port, call)
  }
  shuffled(as.integer(port))
}

is_port <- function(x) {
  is.numeric(x) && length(x) > 0L && !anyNA(x) && all(x == trunc(x) & x >= 1 & x <= 65535)
}

# "11000:11999,12345", as in R_PARALLELLY_RANDOM_PORTS.
random_ports <- function(call = NULL) {
  text <- Sys.getenv("R_PARALLELLY_RANDOM_PORTS", Sys.getenv("R_FUTURE_RANDOM_PORTS", ""))
  if (!nzchar(text)) {
    return(11000:11999)
  }
  parts <- strsplit(gsub(" ", "", text, fixed = TRUE), ",", fixed = TRUE)[[1L]]
  ports <- unlist(lapply(parts, function(part) {
    ends <- if (grepl("^[0-9]{1,5}(:[0-9]{1,5})?$", part)) {
      as.integer(strsplit(part, ":", fixed = TRUE)[[1L]])
    }
    if (length(ends)) ends[1L]:ends[length(ends)] else NA
  }))
  if (!is_port(ports)) {
    abort_muster("input",
      paste0(
        "Environment variable R_PARALLELLY_RANDOM_PORTS must be ports and ranges of ports ",
        "as in \"10001:10010,11000\", not ", describe(text), "."
      ),
      call = call
    )
  }
  unique(ports)
}

# In random order, without a draw from the user's random numbers.
shuffled <- function(x) {
  seed <- get0(".Random.seed", globalenv(), inherits = FALSE)
  kinds <- RNGkind()
  on.exit({
    if (is.null(seed)) {
      suppressWarnings({
        RNGkind(kinds[1L], kinds[2L], kinds[3L])
        rm(".Random.seed", envir = globalenv())
      })
    } else {
      assign(".Random.seed", seed, envir = globalenv())
    }
  })
  set.seed(NULL)
  x[sample.int(length(x))]
}

# ---- Load

# Above parallelly's limit there is only a warning, and the start goes on: a user who asks for
# many workers may have a reason.
check_load <- function(count, call) {
  if (count == 0L) {
    return(invisible())
  }
  limits <- as.numeric(getOption2("parallelly.maxWorkers.localhost", c(1, 3)))
  cores <- availableCores()
  load <- count / cores
  if (anyNA(limits) || !any(load > limits)) {
    return(invisible())
  }
  hard <- length(limits) > 1L && load > limits[2L]
  warn_muster("load",
    paste0(
      count, " local workers on ", cores, if (cores == 1L) " core" else " cores",
      " that this process may use (by ", names(cores), "): a load of ", round(100 * load), " %."
    ),
    details = paste0(
      "The ", if (hard) "hard" else "soft", " limit of options(parallelly.maxWorkers.localhost) ",
      "is ", round(100 * limits[if (hard) 2L else 1L]), " %."
    ),
    hints = "Use I(n) as the number of workers if you want this many.",
    workers = count, cores = unname(cores), load = load, call = call
  )
}
