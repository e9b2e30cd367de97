# The engine of maps: their elements in pieces. cluster_map(), task_map() and the loops of foreach.
#
# C code decides how elements are handed out (src/sched/pieces.h). This code carries out its
# actions: it submits and cancels tasks, takes their answers, and reports the outcomes to C.

# What this session knows of its maps.
the_map <- new.env(parent = emptyenv())
the_map$paced <- NULL # what the last map took: list(cluster, job, seconds for each element)
the_map$results <- NULL # of the last map, if it was ended early
the_map$own_groups <- 0 # how many groups of own_group() there were
the_map$named <- character() # large objects that messages have named
the_map$exports <- list() # what workers were given: by cluster and name, list(content, ranks)
the_map$exported <- NULL # of the message that gave it last: list(key, content)

# An environment, since both submitting tasks and taking answers change it. words: see map_words.
# elements: see elements_of().
new_map <- function(cl, elements, job, stream, terms, words, call) {
  map <- new.env(parent = emptyenv())
  map$cl <- cl
  map$call <- call
  list2env(elements, map)
  map$job <- job
  map$results <- vector("list", map$n)
  map$left <- map$n # elements without a result
  map$tasks <- list()
  map$pieces <- list() # what each task has: its number, first and last
  map$stream <- stream
  map$speculate <- terms$speculate
  map$returns <- terms$returns
  map$like <- terms$like
  map$quiet <- terms$quiet
  map$timeout <- terms$timeout
  map$words <- words
  map$heed <- map_heed(map, terms)
  map$relay <- function(i, said) tell_element_said(map, said)
  map$ahead <- isTRUE(terms$ahead)
  map$priority <- if (is.null(terms$priority)) 0L else terms$priority
  map$group <- if (isTRUE(terms$group > 0)) terms$group else own_group()
  map$label <- terms$label
  id <- .subset2(.subset2(cl, 1L), "id")
  paced <- if (identical(the_map$paced$cluster, id)) the_map$paced
  held <- .Call(ffi_map_begin, cl, job, as.double(c(
    map$n, length(cl), c(terms$retries, NA)[1L], terms$speculate, terms$timeout, map$ahead,
    if (is.null(paced)) c(-1, 0) else c(paced$job, paced$seconds)
  )))
  if (is.integer(held)) {
    abort_submit(cl, held, call)
  }
  map$cluster <- id
  map$held <- held[1L]
  map$job_number <- held[[2L]]
  map$queue <- held[[3L]]
  map$action <- held[[4L]] # the next one, if it is known
  map
}

# When it returns, map$results has a result for each element.
run_map <- function(map, progress) {
  forget_results()
  whole <- FALSE
  on.exit({
    if (!whole) take_rest(map)
    map_leave(map)
    if (!whole) keep_results(map)
  })
  map$progress <- new_progress(progress, map$n, map$words$some)
  withCallingHandlers(go_through(map), interrupt = function(c) map$stopped <- TRUE)
  the_map$paced <- list(
    cluster = map$cluster, job = map$job_number, seconds = .Call(ffi_pieces_each, map$queue)
  )
  whole <- TRUE
}

go_through <- function(map) {
  while (map$left > 0L) {
    map_submit(map)
    if (!is.null(map$failure) && !length(map$tasks)) map$failure$raise()
    heed_news(map) # while the workers go on
    failures <- map_take(map, map_patience(map))
    if (length(failures)) map_fails(map, failures)
    show_progress(map$progress, map$n - map$left)
  }
  heed_news(map)
}

heed_news <- function(map) {
  news <- map$news
  map$news <- NULL
  if (!is.null(news)) map$heed(news)
}

# Also runs after an error or an interrupt.
map_leave <- function(map) {
  end_progress(map$progress)
  if (length(map$tasks)) task_cancel(map$tasks)
  .Call(ffi_job_release, map$held[[1L]])
}

# Carries out the pending actions.
map_submit <- function(map) {
  action <- map$action
  map$action <- NULL
  if (is.null(action)) action <- .Call(ffi_pieces_next, map$queue)
  while (!is.null(action)) {
    if (action[1L] == piece_do[["run"]]) {
      action <- submit_piece(map, action)
      next
    }
    if (action[1L] == piece_do[["cancel"]]) {
      task_cancel(map$tasks[piece_numbers(map) == action[2L]])
    } else {
      tell_places(map)
    }
    action <- .Call(ffi_pieces_next, map$queue)
  }
}

# A group that nothing else is in.
own_group <- function() the_map$own_groups <- the_map$own_groups + 1

piece_numbers <- function(map) vapply(map$pieces, `[[`, 0L, "number")

# The pieces' workers, by position in the cluster.
tell_places <- function(map) {
  at <- vapply(map$tasks, function(task) task_worker(task, map$call), 0L)
  ranks <- vapply(map$cl, function(node) .subset2(node, "rank"), 0L)
  .Call(ffi_pieces_at, map$queue, piece_numbers(map), match(at, ranks))
}

# Gives the next action.
submit_piece <- function(map, action) {
  piece <- list2env(list(
    number = as.integer(action[2L]), first = as.integer(action[3L]), last = as.integer(action[4L]),
    taken = FALSE # is its end known to map$queue?
  ), parent = emptyenv())
  nodes <- if (is.na(action[6L])) map$cl else map$cl[action[6L]]
  stream <- if (!is.null(map$stream)) .Call(ffi_stream_after, map$stream, piece$first - 1)
  x <- elements_at(map, piece$first:piece$last)
  arguments <- list(map$job_number, x, stream, piece$first, action[8L])
  submitted <- .Call(
    ffi_piece_submit, nodes, arguments, map$held,
    as.double(c(action[5L], map$timeout, 0, map$priority, action[7L], map$group)), map$label,
    map$queue
  )
  if (is.integer(submitted)) {
    if (submitted == outcomes[["reference"]]) {
      abort_reference(element_reference(map, x, piece$first - 1L), map$call)
    }
    abort_submit(nodes, submitted, map$call)
  }
  task <- submitted[[1L]]
  if (map$quiet) attr(task, "quiet") <- TRUE
  at <- length(map$tasks) + 1L
  map$tasks[[at]] <- task
  map$pieces[[at]] <- piece
  submitted[[2L]]
}

elements_at <- function(map, at) if (map$columns) lapply(map$x, `[`, at) else map$x[at]

# How often to look for late pieces.
speculate_patience <- 0.05

map_patience <- function(map) {
  min(if (map$speculate) speculate_patience else Inf, progress_patience(map$progress))
}

# Waits until a piece has finished, but not longer than `patience` seconds, and takes the results of
# all that have. Gives failures, see map_fails().
map_take <- function(map, patience) {
  done <- which(wait_hearing(map$tasks, TRUE, patience, map$relay))
  failures <- list()
  for (i in done) {
    failures <- c(failures, take_piece(map, map$pieces[[i]], map$tasks[[i]]))
  }
  map$tasks[done] <- NULL
  map$pieces[done] <- NULL
  failures
}

# failures: lists of `raise`, which raises an error, and `at`, the element that it is of; 0 if it is
# of none. The error that is raised is the first in the order of the elements, as lapply()'s: only
# pieces after it are ended, and map$failure has it until those before have finished.
map_fails <- function(map, failures) {
  first <- first_failure(failures)
  if (first$at == 0) first$raise()
  if (is.null(map$failure) || first$at < map$failure$at) map$failure <- first
  .Call(ffi_pieces_stop, map$queue, map$failure$at)
  later <- vapply(map$pieces, function(piece) piece$first > map$failure$at, NA)
  task_cancel(map$tasks[later])
  for (piece in map$pieces[later]) .Call(ffi_pieces_ended, map$queue, piece$number)
  map$tasks[later] <- NULL
  map$pieces[later] <- NULL
}

first_failure <- function(failures) failures[[which.min(vapply(failures, `[[`, 0, "at"))]]

failure_at <- function(at, raise) list(list(at = as.double(at), raise = raise))

# Takes the results of a piece: NULL, or failures as for map_fails().
take_piece <- function(map, piece, task) {
  if (.Call(ffi_pieces_over, map$queue, piece$number)) {
    piece$taken <- TRUE
    .Call(ffi_pieces_ended, map$queue, piece$number) # a copy was first
    return(NULL)
  }
  elements <- piece$first:piece$last
  value <- piece_answer(task, map)
  if (inherits(value, "muster_error")) {
    loss <- .Call(ffi_task_loss, task)
    if (!is.list(loss)) {
      # No worker is left, its cluster was stopped, it gave a connection, or muster is broken.
      value <- name_value(map, value, piece)
      return(failure_at(0, function() abort_map(map, value, elements)))
    }
    return(lose_piece(map, piece, loss))
  }
  if (!is.null(value$failed)) {
    .Call(ffi_pieces_ended, map$queue, piece$number)
    at <- elements[value$failed]
    return(failure_at(at, function() abort_element(map, value, elements, task)))
  }
  for (i in value$failures) {
    value$values[[i]] <- element_condition(map, value$values[[i]], elements[i], task)
  }
  piece$taken <- TRUE
  put_results(map, piece$first, value$values)
  .Call(
    ffi_pieces_done, map$queue, piece$number,
    as.double(c(length(value$values), value$seconds, value$setup))
  )
  NULL
}

# The value, or the error that says why there is none: not one that a handler of the call's
# conditions raises.
piece_answer <- function(task, map) {
  call <- map$call
  answer <- hear_answer(task, Inf, function(said) map$relay(NULL, said))
  if (is.list(answer) && length(answer) == 1L) {
    return(answer[[1L]])
  }
  failure <- function(code) {
    tryCatch({code; NULL}, muster_error = identity)
  }
  failed <- failure(refuse_answer(task, answer, Inf, call, "The task"))
  if (is.null(failed)) {
    tell_conditions(task, answer)
    failed <- failure(raise_answer(answer, call, "The task"))
  }
  if (is.null(failed)) answer$value else failed
}

# In place: nothing else refers to the list yet.
put_results <- function(map, first, values) {
  .Call(ffi_map_put, map$results, first, values)
  map$left <- map$left - length(values)
  if (!is.null(map$heed)) map$news <- c(map$news, seq(first, length.out = length(values)))
}

# ---- Losses

# A piece has no answer. Of several elements, usually one is at fault, so they are evaluated in
# smaller pieces while retries are left; a single element has failed.
lose_piece <- function(map, piece, loss) {
  late <- loss$kind == "timeout"
  kind <- if (late) "late" else if (loss$kind == "given_up") "given_up" else "lost"
  piece$taken <- TRUE
  end <- .Call(ffi_pieces_lost, map$queue, piece$number, as.integer(c(
    piece_losses[[kind]], loss$attempts, isTRUE(loss$oom)
  )))
  if (end[1L] == piece_end[["drop"]]) {
    return(NULL)
  }
  if (end[1L] == piece_end[["again"]]) {
    tell_again(map, piece, late)
    return(NULL)
  }
  loss$attempts <- end[2L]
  elements <- piece$first:piece$last
  condition <- tryCatch(
    abort_loss(loss, piece_text(map, piece), "Evaluate it alone to see why", map$call,
      limit = if (loss$own_limit) map$words$timeout else "the cluster's `timeout`",
      hints = c(pointer_hint(map$job), results_hint(map)),
      again = again_of_map(map)
    ),
    muster_error = identity
  )
  if (!map$returns) {
    return(failure_at(piece$first, function() abort_map(map, condition, elements)))
  }
  put_results(map, piece$first, rep(list(condition), piece_count(piece)))
  NULL
}

piece_count <- function(piece) piece$last - piece$first + 1L

# ---- Words

# How to speak of elements: cluster_map() as here, foreach's loops as in parallel-foreach.R.
map_words <- list(
  one = function(map, i) {
    name <- map$names[i]
    named <- length(name) && !is.na(name) && nzchar(name)
    paste0("Element ", i, if (named) paste0(" (`", name, "`)"))
  },
  some = "elements",
  all = ".x",
  timeout = "`.timeout`",
  go_on = "`.on_error = \"return\"`",
  settles = TRUE, # are results heeded before an error is raised?
  raised = NULL, # the message of an error, if not abort_remote()'s: function(i, message)
  returned = NULL # the condition of an error that is returned: function(condition)
)

results_hint <- function(map) {
  paste0(
    "The other results are in the error's field `results`",
    if (!map$ahead) ", and given by cluster_results()", ".",
    if (is.null(map$like)) paste0(" To continue past errors, use ", map$words$go_on, ".")
  )
}

piece_text <- function(map, piece) {
  if (piece_count(piece) == 1L) {
    return(map$words$one(map, piece$first))
  }
  paste("A piece of", map$words$some, piece$first, "to", piece$last)
}

tell_again <- function(map, piece, late) {
  inform_muster("again",
    paste(
      piece_text(map, piece),
      if (late) paste("took too long: its", map$words$some, "run again in smaller pieces.")
      else "was lost and runs again."
    ),
    range = c(piece$first, piece$last)
  )
}

# ---- Errors

# `.on_result` gets the results that an error has, before it is raised.
settle_news <- function(map) if (map$words$settles) heed_news(map)

# The error that a value can't leave its worker, which speaks of the values of the piece.
name_value <- function(map, condition, piece) {
  reference <- condition$reference
  if (is.null(reference) || !grepl("^value[$]values\\[\\[", reference)) {
    return(condition)
  }
  condition$element <- piece$first - 1L + as.integer(gsub("^[^0-9]*([0-9]+).*", "\\1", reference))
  condition$range <- rep(condition$element, 2L)
  condition$reference <- sub("^value[$]values\\[\\[[0-9]+\\]\\]", "value", reference)
  text <- sub(reference, condition$reference, conditionMessage(condition), fixed = TRUE)
  condition$message <- sub("The call", map$words$one(map, condition$element), text, fixed = TRUE)
  condition
}

abort_map <- function(map, condition, elements) {
  settle_news(map)
  condition$call <- map$call
  if (is.null(condition$range)) {
    condition$range <- range(elements)
    condition$element <- if (length(elements) == 1L) elements else NA_integer_
  }
  note_failed(condition)
  condition$results <- results_left(map)
  raise_condition(condition)
}

abort_element <- function(map, value, elements, task) {
  if (length(value$values)) {
    .Call(ffi_map_put, map$results, elements[1L], value$values)
    if (!is.null(map$heed)) map$news <- c(map$news, elements[seq_along(value$values)])
  }
  settle_news(map)
  element <- elements[value$failed]
  worker <- task_worker(task, map$call)
  if (!is.null(value$misfit)) abort_misfit(map, element, value$misfit, worker)
  abort_remote(value$error, worker, map$call,
    what = map$words$one(map, element), again = again_of_map(map),
    raised = if (!is.null(map$words$raised)) map$words$raised(element, value$error$message),
    hints = c(pointer_hint(map$job), results_hint(map)),
    element = element, results = results_left(map)
  )
}

# What .on_error = "return" puts in an element's place.
element_condition <- function(map, error, element, task) {
  if (!is.null(map$words$returned)) {
    return(map$words$returned(error$condition))
  }
  tryCatch(
    abort_remote(error, .Call(ffi_task_state, task)$worker, map$call,
      what = map$words$one(map, element), again = again_of_map(map),
      hints = pointer_hint(map$job), element = element
    ),
    muster_error = identity
  )
}
