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
  map$next_one <- 1L # first element that was not handed out
  map$tasks <- list()
  map$pieces <- list() # what each task has, see new_piece()
  map$again <- list() # pieces to be handed out before all others
  map$groups <- 0L
  map$rates <- numeric() # seconds an element, of the pieces that came back last
  map$seconds <- piece_seconds # that a piece should take
  map$stream <- if (!is.null(seed)) first_stream(seed)
  map$speculate <- terms$speculate
  map$returns <- terms$returns
  map$timeout <- terms$timeout
  hold_job(map)
  map$retries <- if (is.null(terms$retries)) map$held[[3L]] else terms$retries
  map$heals <- map$held[[4L]]
  if (map$timeout > 0) {
    map$seconds <- min(map$seconds, map$timeout / 4)
  } else if (map$retries == 0L) {
    map$seconds <- piece_seconds / 10 # few elements are lost with a worker
  }
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

# A piece should take about this long: much longer than handing it out, much shorter than
# anybody waits.
piece_seconds <- 0.05

# group: copies of one piece have the same. lost: how often its elements were lost.
# alone: not while others are evaluated.
new_piece <- function(map, first, last, lost = 0L, alone = FALSE) {
  map$groups <- map$groups + 1L
  list(
    first = first, last = last, lost = lost, alone = alone, group = map$groups, over = FALSE
  )
}

piece_count <- function(piece) piece$last - piece$first + 1L

seconds_each <- function(map) {
  if (length(map$rates)) map$rates[length(map$rates)] else NA_real_
}

# How many elements the next piece has: half of what each worker would still get, bounded by
# time, and few at first, when nothing is known.
piece_size <- function(map) {
  workers <- length(map$cl)
  left <- map$n - map$next_one + 1L
  each <- seconds_each(map)
  size <- ceiling(left / (2 * workers))
  most <- if (is.na(each)) {
    max(1, map$n / (workers * 100))
  } else {
    # At the end, too, a piece takes longer than handing it out.
    least <- min(0.002 / max(each, 1e-9), left / workers)
    if (map$retries > 0L) size <- max(size, least)
    max(1, map$seconds / max(each, 1e-9))
  }
  as.integer(max(1, min(size, most, left)))
}

# The piece to be handed out next, NULL if there is none.
next_piece <- function(map) {
  if (length(map$again)) {
    piece <- map$again[[1L]]
    if (piece$alone && length(map$tasks)) {
      return(NULL)
    }
    map$again <- map$again[-1L]
    return(piece)
  }
  if (map$next_one > map$n) {
    return(NULL)
  }
  first <- map$next_one
  map$next_one <- first + piece_size(map)
  new_piece(map, first, map$next_one - 1L)
}

# Each worker has one piece, and a second to go on with where pieces are quick.
map_submit <- function(map) {
  quick <- isTRUE(seconds_each(map) * piece_size(map) < 0.02)
  room <- length(map$cl) * (1L + quick)
  while (length(map$tasks) < room && !any_alone(map)) {
    piece <- next_piece(map)
    if (is.null(piece)) break
    submit_piece(map, piece, map$cl)
  }
  if (map$speculate) {
    map_speculate(map)
  }
}

any_alone <- function(map) {
  length(map$pieces) == 1L && map$pieces[[1L]]$alone
}

submit_piece <- function(map, piece, nodes) {
  elements <- piece$first:piece$last
  # What is lost with others is tried again in smaller pieces, by lose_piece().
  tries <- if (length(elements) == 1L) max(0L, map$retries - piece$lost) else 0L
  stream <- if (!is.null(map$stream)) .Call(ffi_stream_after, map$stream, piece$first - 1)
  arguments <- list(map$held[[2L]], map$x[elements], stream, piece$first)
  task <- .Call(
    ffi_task_submit, nodes, call_piece, arguments, map$held[[1L]],
    as.double(c(tries, map$timeout))
  )
  if (is.integer(task)) {
    if (task == outcome_reference) {
      abort_reference(find_reference(arguments[[2L]], "x", piece$first - 1L), map$call)
    }
    abort_submit(nodes, task, map$call)
  }
  piece$begin <- now_seconds()
  at <- length(map$tasks) + 1L
  map$tasks[[at]] <- task
  map$pieces[[at]] <- piece
}

now_seconds <- function() proc.time()[["elapsed"]]

# What is sent in place of map_piece() itself, which every worker has.
call_piece <- function(job, x, seed, first) {
  getFromNamespace("map_piece", "muster")(job, x, seed, first)
}
environment(call_piece) <- asNamespace("utils")

# Takes the pieces that are done.
map_take <- function(map) {
  patience <- min(if (map$speculate) piece_seconds else Inf, progress_patience(map$progress))
  done <- which(.Call(ffi_task_wait, map$tasks, TRUE, patience))
  failures <- list()
  for (i in done) {
    if (!map$pieces[[i]]$over) { # else a copy was first
      failures <- c(failures, take_piece(map, map$pieces[[i]], map$tasks[[i]]))
    }
  }
  # Once the results of all others that are there have been taken.
  for (failure in failures) failure()
  map$tasks[done] <- NULL
  map$pieces[done] <- NULL
  show_progress(map$progress, map$n - map$left)
}

# Gives a function that raises what the piece failed with, NULL if it didn't.
take_piece <- function(map, piece, task) {
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
  note_time(map, value, length(elements))
  drop_copies(map, piece)
  NULL
}

# What reading the job again costs each piece is spread over more elements.
note_time <- function(map, value, count) {
  map$rates <- c(utils::tail(map$rates, 20L), value$seconds / count)
  if (map$timeout == 0 && map$retries > 0L) {
    map$seconds <- max(piece_seconds, 20 * value$setup)
  }
}

# In place: nobody else has seen the list yet.
put_results <- function(map, first, values) {
  .Call(ffi_map_put, map$results, first, values)
  map$left <- map$left - length(values)
}

# ---- Losses

# A piece has no answer. Of several elements one is to blame at most, so they go on in
# smaller pieces as long as they may be tried again; a single one has failed.
lose_piece <- function(map, piece, loss) {
  alive <- vapply(map$pieces, function(other) other$group == piece$group && !other$over, NA)
  if (sum(alive) > 1L) {
    forget_copy(map, piece) # another has the same elements
    return(NULL)
  }
  late <- loss$kind == "timeout"
  lost <- piece$lost + if (late) 0L else loss$attempts
  count <- piece_count(piece)
  # A single one was tried as often as it may, unless its worker was given up.
  tried <- count == 1L && loss$kind != "given_up"
  again <- if (late) count > 1L else map$heals && lost <= map$retries && !tried
  if (again) {
    again_later(map, piece, lost, late, loss$oom)
    return(NULL)
  }
  loss$attempts <- lost
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
  put_results(map, piece$first, rep(list(condition), count))
  NULL
}

results_hint <- paste(
  "The condition's field `results` has what the others gave; .on_error = \"return\" goes on."
)

piece_text <- function(piece) {
  if (piece_count(piece) == 1L) {
    return(paste("Element", piece$first))
  }
  paste("A piece of elements", piece$first, "to", piece$last)
}

again_later <- function(map, piece, lost, late, alone) {
  count <- piece_count(piece)
  # The last try must be one for a single element.
  size <- if (count <= 64L || (!late && lost >= map$retries)) 1L else ceiling(count / 64)
  first <- seq(piece$first, piece$last, by = as.integer(size))
  last <- c(first[-1L] - 1L, piece$last)
  pieces <- Map(function(first, last) new_piece(map, first, last, lost, alone), first, last)
  map$again <- c(pieces, map$again)
  inform_muster("again",
    paste(
      piece_text(piece),
      if (late) "took too long together: they run again apart." else "was lost and runs again."
    ),
    range = c(piece$first, piece$last)
  )
}

# ---- Speculation

# Copies of one piece, itself included.
copies_max <- 3L

# Near the end idle workers get what stragglers have, the one that has gone on for longest
# first.
map_speculate <- function(map) {
  if (map$next_one <= map$n || length(map$again) || !length(map$rates)) {
    return()
  }
  pieces <- map$pieces
  group <- vapply(pieces, function(piece) piece$group, 0L)
  live <- !vapply(pieces, function(piece) piece$over, NA)
  if (length(unique(group[live])) > max(1, map$groups / 4)) {
    return()
  }
  at <- vapply(map$tasks, function(task) .Call(ffi_task_state, task)$worker, 0L)
  ranks <- vapply(map$cl, function(node) .subset2(node, "rank"), 0L)
  idle <- which(!ranks %in% at)
  spare <- max(2L, ceiling(length(map$cl) / 10)) - sum(duplicated(group[live]))
  begin <- vapply(pieces, function(piece) piece$begin, 0)
  expected <- stats::median(map$rates) * vapply(pieces, piece_count, 0L)
  slow <- which(live & now_seconds() - begin > 2 * expected + piece_seconds)
  for (i in slow[order(begin[slow])]) {
    copies <- sum(live & group == group[i])
    is_last <- !any(live & group == group[i] & begin > begin[i])
    if (!length(idle) || spare <= 0L || copies >= copies_max || !is_last) next
    submit_piece(map, pieces[[i]], map$cl[idle[1L]])
    idle <- idle[-1L]
    spare <- spare - 1L
  }
}

# The other tasks for the same elements aren't wanted any more.
drop_copies <- function(map, piece) {
  for (i in seq_along(map$pieces)) {
    if (map$pieces[[i]]$group == piece$group && !map$pieces[[i]]$over) {
      map$pieces[[i]]$over <- TRUE
      task_cancel(map$tasks[[i]])
    }
  }
}

# This one failed, but a copy of it is still evaluated.
forget_copy <- function(map, piece) {
  for (i in seq_along(map$pieces)) {
    if (identical(map$pieces[[i]], piece)) map$pieces[[i]]$over <- TRUE
  }
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
