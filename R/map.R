#' Apply a function to each element, on the workers of a cluster
#'
#' As `lapply(.x, .fun, ...)`, with the elements handed out in pieces whose size follows from how
#' long the first ones take: large pieces where elements are quick, single elements where
#' they are slow, smaller ones towards the end so that all workers end together.
#'
#' The function, its further arguments and what it uses of your session are sent to each worker
#' once, and not again while they stay the same. Each piece starts from what was sent: changes
#' that an element makes by `<<-` may be seen by later elements of its piece, as with
#' [parallel::parLapply()], and by no others.
#'
#' @section Globals:
#' What `.fun` uses of your global environment is found (by [codetools::findGlobals()]; in
#' functions that it uses, too, in functions among the further arguments and in lists of
#' functions). It is in the worker's global environment while a piece is evaluated, and
#' what was there before comes back afterwards. Packages that are attached in the session
#' and have something that these functions use are attached in the worker; packages with
#' methods for the classes of arguments and globals are loaded. What is
#' only named by a string (`get("k")`) can't be found: export it.
#'
#' Connections are of no use in another process, where their number may even be that of
#' another connection. Among the arguments, the globals and the values they are errors of class
#' `muster_error_input` that say where they were. External pointers (models, documents
#' and data bases of other libraries) arrive as null pointers, which many packages
#' know how to repair, so they are only named if a call fails. `options(muster.references =
#' "error")` refuses both, `"ignore"` neither; the default is `"connections"`. What
#' environments and attributes hold isn't looked at, but for the variables around `.fun` that
#' it uses and slots of S4 objects.
#'
#' Objects of a reference class that was defined in the session, by
#' \code{\link[methods:setRefClass]{methods::setRefClass()}},
#' have no methods in a worker, as with parallel: define the class in a package, or in the
#' workers and make its objects there.
#'
#' A function that was made inside another one takes along the frame that it was made in. Objects
#' of more than 1 MB there that its code doesn't name, not even within strings, stay behind, unless
#' the code looks around by `get()`, `eval()`, `environment()` and their like. What is used and
#' larger than 100 MB is named by a message of class `muster_message_large`, once in a session.
#'
#' @section Losses and time limits:
#' Lost workers are healed as everywhere, see [cluster_start()]. When a piece of several elements
#' is lost, or takes longer than `.timeout`, its elements are evaluated again in smaller pieces,
#' at last one by one, so that the one that is to blame is known by its index and the
#' others have their results. So elements may be evaluated more than once, with what they do
#' besides (files written, rows inserted). `.retries = 0` excludes that: then the error for
#' a piece of several elements names the range that was lost with it.
#'
#' @param .cl A cluster of [cluster_start()], or some of its nodes.
#' @param .x A vector, atomic or list. Other objects go through `as.list()`.
#' @param .fun A function, the name of one (a string), or a lambda such as `~ .x + 1`. It is called
#'   in a worker with each element as its first argument.
#' @param ... Further arguments of `.fun`, the same for all elements. Any name without a dot in
#'   front is your function's, also `x`, `fun` or `seed`.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .seed `FALSE`: elements draw from the workers' own streams. A whole number, or `TRUE`
#'   for one drawn in the session: each element has an L'Ecuyer stream of its own, so
#'   that the result is the same for any number of workers, whatever is lost and
#'   however pieces are made. The workers' own streams stay where they were.
#' @param .retries How often an element is tried again that was lost with its worker: a whole
#'   number from 0. By default as often as [cluster_start()] was told.
#' @param .timeout Seconds that one element may take, above 0. By default the
#'   cluster's `timeout`. Looked at some hundred times a second while the session waits.
#' @param .speculate If `TRUE`, a piece that takes more than twice as long as the others
#'   let expect is given to an idle worker, too, when no more pieces wait and three
#'   quarters of the pieces are done; to a third if that one is as slow. The first answer
#'   counts, the others are cancelled. A tenth of the workers, and at least two, may
#'   be busy with such copies. `FALSE`, the default, is for functions with side effects, which
#'   would happen twice; give `TRUE` for those that only compute.
#' @param .progress If `TRUE`, progress is shown for work that takes more than 2 s: elements
#'   done, their rate and the time left, on one line of the terminal, which messages and what
#'   workers print never break; a message every 5 s where there is no terminal. A string: the
#'   same, with this label. `FALSE`: nothing. `"auto"`: the line, but only where somebody looks at
#'   it: in an interactive session in a terminal or RStudio's console. By default what
#'   `getOption("muster.progress")` says, see Progress in [muster-package].
#' @param .on_error `"stop"`, the default: the first element whose call raises an error, or that
#'   is lost for good or takes too long, ends all. `"return"`: its place in the result has
#'   the condition, and all goes on.
#' @returns A list as long as `.x`, in its order, with its names.
#' @section Errors:
#' All have the field `results`: a list of what the other elements gave, `NULL` where there is
#' nothing yet. The cluster remains usable.
#' * `muster_error_remote`: `.fun` raised an error. Fields `element` (index in `.x`), `worker`,
#'   `condition`, `remote_call`, `stack` (text).
#' * `muster_error_lost`, `muster_error_timeout`: an element was lost as often as `.retries`
#'   allows, or took too long; fields as in [cluster_start()], with `element` and `range`.
#' * `muster_error_limit`: what `.fun` uses of the global environment is larger than
#'   `getOption("muster.globals_max")` bytes (500 MB).
#' * `muster_error_input`: an argument is not what it must be, or has a name with a dot in front
#'   that is none of these; a connection among what was to
#'   be sent (field `reference`: where).
#' @section Cost:
#' One serialization of the function with all that belongs to it, and its bytes once to each
#' worker; a cluster keeps the last 8 such, of 256 MB at most. Some 50 us for a piece, and
#' where functions have environments of their own the time to read these bytes again.
#' @section Source:
#' Sizes of pieces: guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on
#' Computers 36(12), 1987), by measured time instead of counts. Copies of late pieces: the
#' backup tasks of Dean and Ghemawat's MapReduce (OSDI 2004). Streams: L'Ecuyer, Simard, Chen
#' and Kelton (Operations Research 50(6), 2002), as in
#' \code{\link[parallel:nextRNGStream]{parallel::nextRNGStream()}}. Globals are found
#' by the rules that users of package future know.
#' @seealso [task_submit()] for single calls.
#' @examples
#' cl <- cluster_start(2)
#' unlist(cluster_map(cl, 1:10, function(i) i^2))
#' unlist(cluster_map(cl, c(a = 1, b = 2), function(x) rnorm(1, x), .seed = 1))
#' cluster_stop(cl)
#' @export
cluster_map <- function(.cl, .x, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                        .timeout = NULL, .speculate = FALSE, .progress = NULL,
                        .on_error = c("stop", "return")) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  check_given(.x, ".x", call)
  check_given(.fun, ".fun", call)
  cl <- check_cluster(.cl, call, ".cl")
  fun <- find_function(.fun, parent.frame(), call)
  args <- user_args(list(...), .args, fun, map_options, c(".cl", ".x", ".fun"), call)
  x <- check_elements(.x, call)
  terms <- list(
    retries = if (!is.null(.retries)) check_count(.retries, ".retries", 0L, 1000L, call),
    timeout = if (is.null(.timeout)) 0 else check_seconds(.timeout, ".timeout", call = call),
    speculate = check_flag(.speculate, ".speculate", call),
    returns = check_choice(.on_error, ".on_error", c("stop", "return"), call) == "return"
  )
  check_progress(.progress, ".progress", call)
  seed <- map_seed(.seed, call)
  job <- make_job(fun, args, x, terms$returns, call)
  map <- new_map(cl, x, job, seed, terms, call)
  on.exit(map_leave(map))
  map$progress <- new_progress(.progress, map$n)
  while (map$left > 0L) {
    map_submit(map)
    map_take(map)
  }
  names(map$results) <- names(x)
  map$results
}

map_options <- c(
  ".args", ".seed", ".retries", ".timeout", ".speculate", ".progress", ".on_error"
)

# The function that a name stands for where cluster_map() was called; one that isn't there
# is looked for in the worker.
find_function <- function(fun, frame, call) {
  fun <- function_of(fun, call)
  check_function(fun, call)
  if (is.function(fun)) {
    return(fun)
  }
  found <- get0(fun, frame, mode = "function")
  if (is.null(found)) fun else found
}

# As lapply() does it, but for what no list can be made of. A method of as.list() may have failed
# for reasons of its own.
check_elements <- function(x, call, name = ".x") {
  if (is.vector(x) && !is.object(x)) {
    return(x)
  }
  list <- if (!is.function(x) && !is.symbol(x)) tryCatch(as.list(x), error = identity)
  failed <- inherits(list, "error")
  if (failed || !is.vector(list)) {
    abort_input(name, "a vector, or something that as.list() makes one of", x, call,
      details = if (failed) conditionMessage(list)
    )
  }
  list
}

# ---- Pieces
#
# How elements are handed out is C's (src/sched/pieces.h). Here its actions are carried out: tasks
# are submitted and cancelled, their answers taken, and it is told what became of them.

# An environment, since submitting and taking both change it.
new_map <- function(cl, x, job, seed, terms, call) {
  map <- new.env(parent = emptyenv())
  map$cl <- cl
  map$call <- call
  map$x <- x
  map$n <- length(x)
  map$job <- job
  map$results <- vector("list", map$n)
  map$left <- map$n # elements without a result
  map$tasks <- list()
  map$pieces <- list() # what each task has: its number, first and last
  map$stream <- if (!is.null(seed)) first_stream(seed)
  map$speculate <- terms$speculate
  map$returns <- terms$returns
  map$timeout <- terms$timeout
  hold_job(map)
  retries <- if (is.null(terms$retries)) map$held[[3L]] else terms$retries
  heals <- map$held[[4L]]
  map$queue <- .Call(ffi_pieces_new, as.double(c(
    map$n, length(cl), retries, heals, terms$speculate, terms$timeout
  )))
  map
}

hold_job <- function(map) {
  held <- .Call(ffi_job_hold, map$cl, map$job)
  if (is.integer(held)) {
    abort_submit(map$cl, held, map$call)
  }
  map$held <- held
}

# Also when it is left by an error or an interrupt.
map_leave <- function(map) {
  end_progress(map$progress)
  task_cancel(map$tasks)
  .Call(ffi_job_release, map$held[[1L]])
}

piece_do <- c(run = 1, cancel = 2, places = 3)
piece_end <- c(counts = 1L, drop = 2L, again = 3L)

# Carries out what there is to be done.
map_submit <- function(map) {
  while (!is.null(action <- .Call(ffi_pieces_next, map$queue))) {
    if (action[1L] == piece_do[["run"]]) {
      submit_piece(map, action)
    } else if (action[1L] == piece_do[["cancel"]]) {
      task_cancel(map$tasks[piece_numbers(map) == action[2L]])
    } else {
      tell_places(map)
    }
  }
}

piece_numbers <- function(map) vapply(map$pieces, `[[`, 0L, "number")

# Where pieces are, by their workers' places in the cluster.
tell_places <- function(map) {
  at <- vapply(map$tasks, function(task) .Call(ffi_task_state, task)$worker, 0L)
  ranks <- vapply(map$cl, function(node) .subset2(node, "rank"), 0L)
  .Call(ffi_pieces_at, map$queue, piece_numbers(map), match(at, ranks))
}

submit_piece <- function(map, action) {
  piece <- list(
    number = as.integer(action[2L]), first = as.integer(action[3L]), last = as.integer(action[4L])
  )
  nodes <- if (is.na(action[6L])) map$cl else map$cl[action[6L]]
  stream <- if (!is.null(map$stream)) .Call(ffi_stream_after, map$stream, piece$first - 1)
  arguments <- list(map$held[[2L]], map$x[piece$first:piece$last], stream, piece$first)
  task <- .Call(
    ffi_task_submit, nodes, call_piece, arguments, map$held[[1L]],
    as.double(c(action[5L], map$timeout))
  )
  if (is.integer(task)) {
    if (task == outcome_reference) {
      abort_reference(find_reference(arguments[[2L]], "x", piece$first - 1L), map$call)
    }
    abort_submit(nodes, task, map$call)
  }
  at <- length(map$tasks) + 1L
  map$tasks[[at]] <- task
  map$pieces[[at]] <- piece
}

# What is sent in place of map_piece() itself, which every worker has.
call_piece <- function(job, x, seed, first) {
  getFromNamespace("map_piece", "muster")(job, x, seed, first)
}
environment(call_piece) <- asNamespace("utils")

# Late pieces are looked for this often.
speculate_patience <- 0.05

# Takes the pieces that are done.
map_take <- function(map) {
  patience <- min(
    if (map$speculate) speculate_patience else Inf, progress_patience(map$progress)
  )
  done <- which(.Call(ffi_task_wait, map$tasks, TRUE, patience))
  failures <- list()
  for (i in done) {
    failures <- c(failures, take_piece(map, map$pieces[[i]], map$tasks[[i]]))
  }
  # Once the results of all others that are there have been taken.
  for (failure in failures) failure()
  map$tasks[done] <- NULL
  map$pieces[done] <- NULL
  show_progress(map$progress, map$n - map$left)
}

# Gives a function that raises what the piece failed with, NULL if it didn't.
take_piece <- function(map, piece, task) {
  if (.Call(ffi_pieces_over, map$queue, piece$number)) {
    .Call(ffi_pieces_ended, map$queue, piece$number) # a copy was first
    return(NULL)
  }
  elements <- piece$first:piece$last
  value <- tryCatch(task_value(task), muster_error = identity)
  if (inherits(value, "muster_error")) {
    loss <- .Call(ffi_task_loss, task)
    if (!is.list(loss)) {
      # No worker is left, its cluster was stopped, it gave a connection, or muster is broken.
      return(function() abort_map(map, value, elements))
    }
    return(lose_piece(map, piece, loss))
  }
  if (!is.null(value$failed)) {
    return(function() abort_element(map, value, elements, task))
  }
  put_results(map, piece$first, value$values)
  .Call(ffi_pieces_done, map$queue, piece$number, as.double(c(value$seconds, value$setup)))
  NULL
}

# In place: nobody else has seen the list yet.
put_results <- function(map, first, values) {
  .Call(ffi_map_put, map$results, first, values)
  map$left <- map$left - length(values)
}

# ---- Losses

piece_losses <- c(lost = 1L, given_up = 2L, timeout = 3L)

# A piece has no answer. Of several elements one is to blame at most, so they go on in
# smaller pieces as long as they may be tried again; a single one has failed.
lose_piece <- function(map, piece, loss) {
  late <- loss$kind == "timeout"
  kind <- piece_losses[[if (loss$kind %in% names(piece_losses)) loss$kind else "lost"]]
  end <- .Call(ffi_pieces_lost, map$queue, piece$number, as.integer(c(
    kind, loss$attempts, isTRUE(loss$oom)
  )))
  if (end[1L] == piece_end[["drop"]]) {
    return(NULL)
  }
  if (end[1L] == piece_end[["again"]]) {
    tell_again(piece, late)
    return(NULL)
  }
  loss$attempts <- end[2L]
  elements <- piece$first:piece$last
  condition <- tryCatch(
    abort_loss(loss, piece_text(piece), "Evaluate it alone to see why", map$call,
      limit = if (map$timeout > 0) "`.timeout`" else "the cluster's `timeout`",
      hints = c(pointer_hint(map$job), results_hint)
    ),
    muster_error = identity
  )
  if (!map$returns) {
    return(function() abort_map(map, condition, elements))
  }
  put_results(map, piece$first, rep(list(condition), piece_count(piece)))
  NULL
}

results_hint <- paste(
  "The condition's field `results` has what the others gave; .on_error = \"return\" goes on."
)

piece_count <- function(piece) piece$last - piece$first + 1L

piece_text <- function(piece) {
  if (piece_count(piece) == 1L) {
    return(paste("Element", piece$first))
  }
  paste("A piece of elements", piece$first, "to", piece$last)
}

tell_again <- function(piece, late) {
  inform_muster("again",
    paste(
      piece_text(piece),
      if (late) "took too long together: they run again apart." else "was lost and runs again."
    ),
    range = c(piece$first, piece$last)
  )
}

# ---- Errors

abort_map <- function(map, condition, elements) {
  condition$call <- map$call
  if (is.null(condition$range)) {
    condition$range <- range(elements)
    condition$element <- if (length(elements) == 1L) elements else NA_integer_
  }
  condition$results <- map$results
  raise_condition(condition)
}

abort_element <- function(map, value, elements, task) {
  if (length(value$values)) {
    .Call(ffi_map_put, map$results, elements[1L], value$values)
  }
  element <- elements[value$failed]
  abort_remote(value$error, .Call(ffi_task_state, task)$worker, map$call,
    what = paste("Element", element),
    hints = c(pointer_hint(map$job), results_hint),
    element = element, results = map$results
  )
}

# ---- Random numbers

map_seed <- function(seed, call) {
  if (identical(seed, FALSE)) {
    return(NULL)
  }
  if (identical(seed, TRUE)) {
    seed <- sample.int(.Machine$integer.max, 1L)
  }
  whole <- is.numeric(seed) && length(seed) == 1L && !is.na(seed) && seed == trunc(seed)
  if (!whole || abs(seed) > .Machine$integer.max) {
    abort_input(".seed", "TRUE, FALSE or one whole number", seed, call)
  }
  as.integer(seed)
}

# One L'Ecuyer stream for each element. The session's own stream stays as it is.
first_stream <- function(seed) {
  kept <- keep_stream()
  on.exit(kept())
  RNGkind("L'Ecuyer-CMRG", "default", "default")
  set.seed(seed)
  get(".Random.seed", globalenv())
}
