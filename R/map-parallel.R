# Maps without workers of muster's: in the session itself, and on clusters of package parallel.

is_elsewhere <- function(cl) is.null(cl) || has_others(cl)

# Does a cluster have workers that aren't muster's?
has_others <- function(cl) {
  inherits(cl, "cluster") && !inherits(cl, c("muster_cluster", "muster_here")) && length(cl) > 0L
}

# The arguments are those of map_now().
map_elsewhere <- function(cl, elements, x, fun, args, more, options, frame, call) {
  fun <- find_function(fun, frame, call)
  args <- map_args(args, more, fun, options, call)
  elements <- elements(x, args, call)
  terms <- map_terms(options, call)
  seed <- options$seed
  stream <- if (!is.null(seed) && !isFALSE(seed)) map_stream(seed, NULL, call)
  map <- list2env(elements, parent = emptyenv())
  list2env(list(
    job = list(fun = fun, args = args), stream = stream,
    left = map$n, results = vector("list", map$n), words = map_words, returns = terms$returns,
    like = terms$like, ahead = FALSE, told = FALSE, call = call
  ), map)
  map$heed <- map_heed(map, terms)
  run_elsewhere(map, if (is.null(cl)) {
    run_here(map, fun, args, stream)
  } else {
    job <- make_job(fun, args, map$x, map$returns, cl, call)
    job$columns <- map$columns
    run_by_parallel(map, job, stream, cl)
  })
  map_values(map)
}

# run_elsewhere() evaluates `run`, and keeps the results that there are if it doesn't end.
run_elsewhere <- function(map, run) {
  forget_results()
  whole <- FALSE
  on.exit(if (!whole) keep_results(map))
  withCallingHandlers(run, interrupt = function(c) map$stopped <- TRUE)
  whole <- TRUE
}

# The error of an element. worker: NULL for the session.
abort_here <- function(map, i, error, stack, results) {
  of_call <- conditionCall(error)
  error <- list(
    message = conditionMessage(error), condition = error, stack = stack,
    call = if (is.null(of_call)) "" else deparse(of_call, width.cutoff = 60L, nlines = 1L)[1L]
  )
  abort_remote(error, NULL, map$call,
    what = map$words$one(map, i), again = again_of_map(map),
    raised = if (!is.null(map$words$raised)) map$words$raised(i, error$message),
    hints = if (results) results_hint(map), element = i,
    results = if (results) results_left(map)
  )
}

# ---- In the session

# An error that ends the map is raised where it was: traceback() and recover() show the user's
# calls.
run_here <- function(map, fun, args, stream) {
  if (is.character(fun)) fun <- match.fun(fun)
  piece <- new_piece(map$x, map$n, map$columns)
  # How many elements at a time: only `.value` and its like need to see each.
  step <- if (is.null(map$heed) && is.null(map$like)) map$n else 1L
  done <- function() map$n - map$left
  note <- function(last) {
    at <- done()
    if (last <= at) {
      return(NULL)
    }
    elements <- (at + 1L):last
    .Call(ffi_map_put, map$results, at + 1L, piece$values[elements])
    .Call(ffi_map_put, piece$values, at + 1L, vector("list", length(elements)))
    map$left <- map$n - last
    elements
  }
  on.exit(note(piece$at - 1L))
  fails <- function(error) {
    note(piece$at - 1L)
    abort_here(map, piece$at + 0L, error, stack_text(sys.calls()), TRUE) # `at` changes in place
  }
  loop <- element_loop(piece, map$x, fun, stream)
  evaluate <- function() {
    if (!is.null(stream)) {
      kept <- keep_stream() # callbacks draw from the session's
      on.exit(kept())
    }
    do.call(loop, args, quote = TRUE)
    NULL
  }
  while (map$left > 0L) {
    piece$last <- min(map$n, done() + step)
    if (map$returns) {
      failure <- tryCatch(evaluate(), error = function(error) error)
      if (!is.null(failure)) {
        piece$values[[piece$at]] <- tryCatch(
          abort_here(map, piece$at + 0L, failure, character(), FALSE),
          muster_error = identity
        )
        if (piece$at < piece$last) next
      }
    } else {
      withCallingHandlers(evaluate(), error = fails)
    }
    misfit <- first_misfit(piece$values[piece$last], map$like)
    if (!is.null(misfit)) abort_misfit(map, piece$last, misfit)
    new <- note(piece$last)
    if (!is.null(map$heed)) map$heed(new)
  }
}

# ---- By package parallel

# Pieces of a size, some for each worker: whoever is free gets the next.
pieces_each <- 8L

run_by_parallel <- function(map, job, stream, cl) {
  if (!map$n) {
    return()
  }
  pieces <- parallel::splitIndices(map$n, min(map$n, pieces_each * length(cl)))
  tasks <- lapply(pieces, function(elements) {
    list(
      x = elements_at(map, elements),
      stream = if (!is.null(stream)) .Call(ffi_stream_after, stream, elements[1L] - 1)
    )
  })
  answers <- parallel::clusterApplyLB(cl, tasks, piece_by_parallel, job)
  fails <- NULL
  for (k in seq_along(answers)) {
    values <- answers[[k]]$values
    misfit <- first_misfit(values, map$like)
    if (!is.null(misfit)) values <- values[seq_len(misfit$at - 1L)]
    at <- pieces[[k]][seq_along(values)]
    for (i in answers[[k]]$failures) {
      values[[i]] <- if (!is.null(map$words$returned)) {
        map$words$returned(without_step(values[[i]]))
      } else {
        tryCatch(abort_here(map, at[i], values[[i]], character(), FALSE), muster_error = identity)
      }
    }
    map$results[at] <- values
    map$left <- map$left - length(values)
    error <- answers[[k]]$error
    if (is.null(fails) && (!is.null(misfit) || !is.null(error))) {
      fails <- list(at = pieces[[k]][length(values) + 1L], misfit = misfit, error = error)
    }
    map$news <- c(map$news, at)
  }
  if (!is.null(map$heed)) heed_news(map)
  if (!is.null(fails)) {
    if (!is.null(fails$misfit)) abort_misfit(map, fails$at, fails$misfit)
    abort_here(map, fails$at, without_step(fails$error), character(), TRUE)
  }
}

without_step <- function(error) {
  if (is.list(error) && is_step(error$call)) error["call"] <- list(NULL)
  error
}

# Runs in a worker that needn't have muster: list(values, failures, error). failures: which of the
# values are errors that the map returns; error: of the element after the values, which ended it.
# job$step: gives the function of an element, for jobs that have more than a function of the user's.
piece_by_parallel <- function(piece, job) {
  global <- globalenv()
  ready <- function(package) library(package, character.only = TRUE) # tidy: there, as here
  for (package in rev(job$packages)) ready(package)
  for (name in job$namespaces) requireNamespace(name, quietly = TRUE)
  for (one in Filter(function(one) !is.null(one$space), job$methods)) { # see register_own_methods()
    assign(one$name, one$fun, envir = asNamespace(one$space)[[".__S3MethodsTable__."]])
  }
  lent <- c(names(job$globals), if (!is.null(piece$stream)) ".Random.seed")
  there <- vapply(lent, exists, NA, envir = global, inherits = FALSE)
  before <- mget(as.character(lent[there]), global)
  kind <- RNGkind()
  on.exit({
    rm(list = intersect(lent[!there], ls(global, all.names = TRUE)), envir = global)
    list2env(before, global)
    if (!is.null(piece$stream) && !".Random.seed" %in% names(before)) {
      do.call(RNGkind, as.list(kind))
      rm(".Random.seed", envir = global)
    }
  })
  list2env(as.list(job$globals), global)
  fun <- if (is.character(job$fun)) match.fun(job$fun) else job$fun
  if (!is.null(job$step)) fun <- job$step(job)
  values <- list()
  failures <- integer()
  stream <- piece$stream
  columns <- isTRUE(job$columns)
  for (i in seq_along(if (columns) piece$x[[1L]] else piece$x)) {
    if (!is.null(stream)) {
      assign(".Random.seed", stream, global)
      stream <- parallel::nextRNGStream(stream)
    }
    element <- if (columns) lapply(piece$x, `[[`, i) else list(piece$x[[i]])
    value <- tryCatch(
      list(do.call("fun", c(element, job$args), quote = TRUE)), # whose name errors show
      error = function(error) error
    )
    if (inherits(value, "error")) {
      if (!job$returns) {
        return(list(values = values, failures = failures, error = value))
      }
      failures <- c(failures, i)
      value <- list(value)
    }
    values[i] <- value
  }
  list(values = values, failures = failures)
}
environment(piece_by_parallel) <- baseenv()
