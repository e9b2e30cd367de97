# What workers do with a piece of cluster_map().

# list(values, packed, seconds), or with `failed` (which element) and `error`.
map_piece <- function(job, x, seeds) {
  fun <- if (is.character(job$fun)) match.fun(job$fun) else job$fun
  fun <- with_globals(fun, job$globals)
  begin <- proc.time()[["elapsed"]]
  if (!is.null(seeds)) {
    kept <- keep_stream()
    on.exit(kept())
  }
  piece <- new.env(parent = emptyenv())
  piece$values <- vector("list", length(x))
  piece$at <- 0L
  repeat {
    arguments <- c(list(piece, x, fun, seeds), job$args)
    failure <- piece_error(do.call(map_elements, arguments, quote = TRUE))
    if (is.null(failure)) break
    if (!job$returns) {
      return(list(
        values = piece$values[seq_len(piece$at - 1L)], packed = FALSE, failed = piece$at,
        error = failure, seconds = proc.time()[["elapsed"]] - begin
      ))
    }
    piece$values[[piece$at]] <- failure$condition
  }
  packed <- .Call(ffi_pack, piece$values)
  list(
    values = if (is.null(packed)) piece$values else packed, packed = !is.null(packed),
    seconds = proc.time()[["elapsed"]] - begin
  )
}

# From the first element that has no value on. Where it was is told when it is left.
map_elements <- function(piece, x, fun, seeds, ...) {
  values <- piece$values
  piece$values <- NULL # so that it is changed in place
  i <- piece$at
  on.exit({
    piece$values <- values
    piece$at <- i
  })
  while (i < length(x)) {
    i <- i + 1L
    if (!is.null(seeds)) assign(".Random.seed", seeds[[i]], globalenv())
    value <- fun(x[[i]], ...)
    if (!is.null(value)) values[[i]] <- value
  }
}

# The error that code raised, as the session wants it, or NULL.
piece_error <- function(code) {
  stack <- NULL
  tryCatch(
    withCallingHandlers(
      {
        code
        NULL
      },
      error = function(e) stack <<- stack_text(sys.calls())
    ),
    error = function(e) {
      list(
        message = message_of(e), call = call_text(conditionCall(e)), stack = stack, condition = e
      )
    }
  )
}

# The worker's own stream is where it was, afterwards.
keep_stream <- function() {
  global <- globalenv()
  before <- get0(".Random.seed", global, inherits = FALSE)
  function() {
    if (is.null(before)) {
      rm(".Random.seed", envir = global)
    } else {
      assign(".Random.seed", before, global)
    }
  }
}

# A function that sees these globals without their being in this worker's global
# environment: its environment's last one before that gets them as parent.
with_globals <- function(fun, globals) {
  if (!length(globals) || is.primitive(fun)) {
    return(fun)
  }
  env <- list2env(globals, parent = globalenv())
  for (name in names(globals)) {
    value <- globals[[name]]
    if (is.function(value) && !is.primitive(value)) {
      assign(name, put_above(value, env), env)
    }
  }
  put_above(fun, env)
}

put_above <- function(fun, env) {
  at <- environment(fun)
  if (identical(at, globalenv())) {
    environment(fun) <- env
    return(fun)
  }
  while (!identical(at, emptyenv()) && !isNamespace(at)) {
    above <- parent.env(at)
    if (identical(above, globalenv())) {
      parent.env(at) <- env
      break
    }
    if (identical(at, env)) break
    at <- above
  }
  fun
}
