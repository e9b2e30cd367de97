#' Apply a function to each element, on the workers of a cluster
#'
#' Works like `lapply(.x, .fun, ...)`, but hands the elements out to the workers in pieces. How
#' long the first elements take decides the size of the pieces: large where elements are quick,
#' single elements where they are slow, and smaller towards the end so that all workers finish
#' together. Where elements turn out slower, their worker hands back what it hasn't begun after a
#' tenth of a second.
#'
#' The function, its further arguments and the objects that it uses from your session are sent to
#' each worker once, and not again while they stay the same. Each piece starts from what was sent:
#' changes that an element makes with `<<-` may be seen by later elements of its piece, as with
#' [parallel::parLapply()], but by no others.
#'
#' Warnings of `.fun` are signalled in the session with the number of their element, as the field
#' `element`; messages are signalled as they are. See Warnings and messages in [task_submit()], and
#' Conditions at once there for progress of package progressr, which moves while workers compute.
#'
#' With `.speculate = TRUE`, a piece is slow if it takes more than twice as long as the others
#' suggest. Once no more pieces wait and three quarters of the pieces are done, a slow piece is
#' also given to an idle worker, and to a third one if the second is just as slow. At most a
#' tenth of the workers, but at least two, may be busy with copies. The answers that come later
#' are cancelled.
#'
#' @section Globals:
#' muster looks through everything that it sends: `.fun`, what its code names, what that names in
#' turn, and functions among elements and arguments, in lists, objects and frames. Variables of
#' your global environment and of attached data frames that this code may use are sent along. The
#' worker's global environment has them while a piece is evaluated; afterwards its previous
#' contents are restored. Attached packages that the code uses are attached in the worker, in the
#' session's order and in front of the worker's own. The packages of S4 classes of objects that are
#' sent, and packages with methods for their classes, are loaded; so they are in the session for
#' what comes back, before `.on_result`, `.reduce` or you see it. Where one isn't installed, a
#' warning of class `muster_warning_package` says so. Methods that you have defined in the global
#' environment are sent along.
#'
#' Names in strings and in quoted code count as well (`get("k")`, `as.formula("y ~ k")`), but a
#' variable that only these name stays behind if it is larger than 1 MB or holds a connection.
#' Using it in the worker is then an error of class `muster_error_limit`: name it in the code,
#' too, as in `force(k)`. Names that are assembled while the function runs, as in
#' `get(paste0("k", i))`, can't be found: export these variables.
#'
#' A variable of 1 MB or more isn't sent if the workers already have it, with the same value,
#' through [parallel::clusterExport()] or [cluster_share()]: they use their own, which doesn't
#' count towards the limit of 500 MB. The values are compared by a hash, once for each call. If a
#' call has changed a worker's variable meanwhile, that is an error of class
#' `muster_error_input`. This applies to vectors and lists of vectors, such as data frames, but
#' not to objects that hold functions, environments or pointers, such as a data.table.
#'
#' Connections don't work in another process, where their number may even refer to another
#' connection. A connection among the arguments, the globals or the values is an error of class
#' `muster_error_input` that says where it was. External pointers (models, documents and databases
#' of other libraries) arrive as null pointers, which many packages know how to repair, so they
#' are mentioned only if a call fails. `options(muster.references = "error")` refuses both,
#' `"ignore"` neither; the default is `"connections"`. The contents of environments and attributes
#' aren't checked, except for the variables around `.fun` that it uses and slots of S4 objects.
#'
#' S4 and reference classes, generics and methods that you have defined in the global environment
#' are all sent along if the code names one of the classes or generics, or if an object of such a
#' class is sent. The worker knows them while a piece is evaluated; this adds some milliseconds
#' to each piece. Classes from packages add nothing. Changes of an object of a reference class
#' stay in the worker, like those of an environment.
#'
#' A function that was created inside another one takes along the whole frame in which it was
#' created, as with [base::serialize()]: functions that share a frame share it in the worker. If
#' the code names an argument of the other function that hasn't been evaluated yet, it is
#' evaluated once, in the session, as `lapply()` would. If an object that is used is larger than
#' 100 MB, a message of class `muster_message_large` names it, once per session.
#'
#' @section The session's settings:
#' What code depends on without naming it is the session's, as with `lapply()`: options, the working
#' directory, environment variables that have changed since muster was loaded (with `TZ`), and the
#' locale, as they were when the map was called or the task was submitted. So are methods that you
#' have registered (`registerS3method()`, S7's `method<-`), if an object with a class is sent, and
#' packages under `pkgload::load_all()`: a worker loads them again after you did, or refuses if
#' their files have changed since.
#'
#' Not sent are options that belong to the session itself (`error`, `prompt`, `device`,
#' `keep.source`, `mc.cores`, those of muster, future, progressr, shiny and RStudio, and `warn`
#' below 2, since warnings are signalled in the session); options that are neither vectors nor lists
#' of them, but for `contrasts` and `na.action`; and, to other hosts, variables that say where
#' things are there, such as `PATH` and `HOME`. A directory or locale that another host doesn't have
#' is a warning, once.
#'
#' What you have set in workers stays: by [cluster_start()]'s `setup` or by functions of package
#' parallel, as `clusterEvalQ(cl, options(digits = 4))`. These functions themselves see the worker's
#' own settings, as in package parallel.
#'
#' @section Losses and time limits:
#' Lost workers are replaced as usual, see Healing in [cluster_start()]. When a piece of several
#' elements is lost, or takes longer than `.timeout`, its elements are evaluated again in smaller
#' pieces, finally one by one, so that the index of the element at fault is known and the others
#' get their results. Elements may therefore be evaluated more than once, along with their side
#' effects (files written, rows inserted). `.retries = 0` rules that out: then the error for a
#' piece of several elements gives the range of elements that was lost.
#'
#' @section Results as they come:
#' `.on_result(value, i)` is called once for each element, when its piece is done: in any order of
#' pieces, and in the elements' order within one. Use it to write results to a file or database, or
#' to show them.
#'
#' With `.reduce`, the result is what `Reduce(.reduce, results)` would give: `.reduce` is called
#' with what it returned last and the next result, in the elements' order. So sums of numbers don't
#' depend on which piece came first. The session keeps only results whose turn hasn't come.
#'
#' Both run while the workers go on with pieces that they have already. Their errors end the map,
#' and are raised as they are. With `.on_error = "return"`, they get conditions, too. The results
#' that an error has were all given to `.on_result`; [cluster_results()] may have some that came
#' later.
#'
#' @section Without muster's workers:
#' With `NULL` for a cluster, elements are evaluated in the session, one after the other: for
#' functions of yours that leave the choice to their callers, and for `debug()` and `browser()`. On
#' a cluster of [parallel::makeCluster()] and its like, the workers needn't have muster: pieces go
#' out by `parallel::clusterApplyLB()`, and `.on_result` and `.reduce` are called once all of them
#' are done. Results, their random numbers for a `.seed`, and errors are the same; globals are found
#' and lent as usual. `.retries`, `.timeout`, `.speculate` and `.progress` have no effect, and what
#' workers of package parallel warn of or print is where such workers leave it.
#'
#' @param .cl A cluster from [cluster_start()], or some of its nodes. Also `NULL`, or a cluster of
#'   package parallel: see Without muster's workers.
#' @param .x A vector, atomic or list. Other objects go through `as.list()`.
#' @param .fun A function, the name of one (a string), or a lambda such as `~ .x + 1`. It is called
#'   in a worker with each element as its first argument.
#' @param ... Further arguments of `.fun`, the same for all elements. Any name that doesn't begin
#'   with a dot is your function's, even `x`, `fun` or `seed`.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .seed A whole number, or `TRUE` for one drawn in the session: each element has its own
#'   L'Ecuyer stream, so the result doesn't depend on the number of workers, on losses or on how
#'   the elements are cut into pieces. [cluster_stream()] returns the stream of one element. The
#'   workers' own streams don't advance. `FALSE`, the default: after
#'   [parallel::clusterSetRNGStream()] for this cluster, as a number from the stream that it has
#'   set; otherwise, elements draw from the workers' own streams, so results that use random
#'   numbers differ from run to run, and a warning of class `muster_warning_seed` says so, once
#'   per session. `NULL`: as `FALSE`, without the warning.
#' @param .retries How often to retry an element that was lost with its worker: a whole number
#'   from 0 up. By default, the `retries` given to [cluster_start()].
#' @param .timeout Seconds that one element may take, above 0. By default, the cluster's
#'   `timeout`. Checked about a hundred times a second while the session waits.
#' @param .speculate `TRUE`: near the end, slow pieces are also given to idle workers, and the
#'   first answer counts. Only for functions without side effects, which would happen twice. See
#'   Details for the thresholds. Default `FALSE`.
#' @param .progress If `TRUE`, progress is shown for work that takes more than 2 s: elements done,
#'   their rate and the time left, on one terminal line that messages and workers' output never
#'   break; without a terminal, a message every 5 s. A string: the same, with this label. `FALSE`:
#'   nothing. `"auto"`: the line, but only where somebody can see it: in an interactive session in
#'   a terminal or RStudio's console. Default: `getOption("muster.progress")`, see Progress in
#'   [muster-package].
#' @param .on_error `"stop"`, the default: the first element that raises an error, is lost for
#'   good or takes too long ends the whole call. `"return"`: the result has the condition in that
#'   element's place, with the fields listed under Errors except `results`, and the call goes on.
#'   The worker's own error is the condition's field `condition`.
#' @param .value `NULL`, or an atomic vector such as `numeric(1)` that says what each value is like,
#'   as the argument `FUN.VALUE` of `vapply()` does. Then the result is a vector, or for longer
#'   values an array. Values with a class don't fit.
#' @param .reduce `NULL`, or a function of two arguments, which combines the results as they come,
#'   in the session: see Results as they come.
#' @param .init What `.reduce` begins with. `NULL`, the default: the first result.
#' @param .on_result `NULL`, or a function that is called in the session as results come, with each
#'   value and the number of its element: see Results as they come.
#' @returns A list as long as `.x`, in its order, with its names. With `.value`: a vector with these
#'   names, or an array whose last dimension is as long as `.x`. With `.reduce`: what it returned
#'   last, or `.init` if there are no elements.
#' @section Errors:
#' All but those of `.reduce` and `.on_result` have the field `results`: a list of the values of the
#' other elements, `NULL` for those without a value yet. With `.reduce`, those that it has taken in
#' are `NULL`, too, and the list's attribute `"reduced"` is a list of its last `value` and of the
#' number of `elements` in that. The cluster remains usable.
#' * `muster_error_remote`: `.fun` raised an error. It also has that error's own classes and fields,
#'   and the fields `element` (index in `.x`), `worker`, `condition`, `remote_call`, `stack` (text).
#' * `muster_error_lost`, `muster_error_timeout`: an element was lost as often as `.retries`
#'   allows, or took too long; fields as in [cluster_start()], with `element` and `range`.
#' * `muster_error_value`: a value isn't like `.value`. Fields `element` and `worker`.
#' * `muster_error_limit`: what `.fun` uses of the global environment, and the workers don't have
#'   yet, is larger than `getOption("muster.globals_max")` bytes (500 MB).
#' * `muster_error_input`: an argument is wrong, or its name begins with a dot and isn't one of
#'   the above; or a connection is among the objects to be sent (field `reference`: where).
#' @section Cost:
#' One serialization of the function with everything that it needs, sent once to each
#' worker; large vectors, in frames too, are copied once to shared memory. A cluster keeps the last
#' 8 of these serializations, 256 MB at most. About 50 us for each piece, plus the time to read
#' these bytes again, large vectors excepted, if functions have their own environments.
#' @section Source:
#' Sizes of pieces: guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on
#' Computers 36(12), 1987), by measured time instead of counts. Copies of late pieces: the
#' backup tasks of Dean and Ghemawat's MapReduce (OSDI 2004). Streams: L'Ecuyer, Simard, Chen
#' and Kelton (Operations Research 50(6), 2002), as in
#' \code{\link[parallel:nextRNGStream]{parallel::nextRNGStream()}}. Globals are found
#' by the rules that users of package future know.
#' @seealso [cluster_pmap()] for several vectors and the rows of a data frame; [task_map()], which
#'   returns at once; [task_submit()] for single calls.
#' @examples
#' cl <- cluster_start(2)
#' unlist(cluster_map(cl, 1:10, function(i) i^2))
#' cluster_map(cl, c(a = 1, b = 2), function(x) rnorm(1, x), .seed = 1, .value = numeric(1))
#' cluster_map(cl, 1:3, function(i) diag(i, 2), .reduce = `+`)
#' cluster_stop(cl)
#' @export
cluster_map <- function(.cl, .x, .fun, ..., .args = NULL, .seed = FALSE, .retries = NULL,
                        .timeout = NULL, .speculate = FALSE, .progress = NULL,
                        .on_error = c("stop", "return"), .value = NULL, .reduce = NULL,
                        .init = NULL, .on_result = NULL) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  check_given(.x, ".x", call)
  check_given(.fun, ".fun", call)
  options <- map_options(environment(), now_options)
  map_now(.cl, elements_of, .x, .fun, dots_given(...), .args, options, parent.frame(), call)
}

# The arguments of the maps' verbs that say how: of those that wait, and of those that don't.
now_options <- c(
  ".seed", ".retries", ".timeout", ".speculate", ".progress", ".on_error", ".value", ".reduce",
  ".init", ".on_result"
)
ahead_options <- c(
  setdiff(now_options, c(".speculate", ".progress")), ".priority", ".group", ".label"
)

# These, by their names without the dot. verb: its frame.
map_options <- function(verb, names) {
  options <- mget(names, verb)
  names(options) <- substring(names, 2L)
  options
}

# elements: elements_of() or columns_of(), which tells what x has. frame: where the call was made.
map_now <- function(cl, elements, x, fun, args, more, options, frame, call) {
  if (any(vapply(args, is_not_given, NA))) {
    fun <- pass_given(find_function(fun, frame, call), args)
    args <- unname(Filter(Negate(is_not_given), args))
  }
  if (is_here(cl)) cl <- NULL
  if (is_elsewhere(cl)) {
    return(map_elsewhere(cl, elements, x, fun, args, more, options, frame, call))
  }
  map <- make_map(cl, elements, x, fun, args, more, options, FALSE, frame, call)
  run_map(map, options$progress)
  tell_drawn(call)
  map_values(map)
}

# The map of a call of cluster_map() or task_map(); nothing has been handed out yet. ahead: all is
# to be handed out at once.
make_map <- function(cl, elements, x, fun, args, more, options, ahead, frame, call) {
  cl <- check_cluster(cl, call, ".cl")
  fun <- find_function(fun, frame, call)
  args <- map_args(args, more, fun, options, call)
  elements <- elements(x, args, call)
  terms <- map_terms(options, call)
  terms$ahead <- ahead
  stream <- map_stream(options$seed, cl, call)
  job <- make_job(fun, args, elements$x, terms$returns, cl, call)
  job$columns <- elements$columns
  job$like <- terms$like
  new_map(cl, elements, job, stream, terms, map_words, call)
}

map_args <- function(args, more, fun, options, call) {
  own <- function() paste0(".", c("args", names(options)))
  user_args(args, more, fun, own(), c(".cl", ".x", ".l", ".fun"), call)
}

map_terms <- function(options, call) {
  retries <- options$retries
  timeout <- options$timeout
  returns <- check_choice(options$on_error, ".on_error", c("stop", "return"), call) == "return"
  terms <- list(
    retries = if (!is.null(retries)) check_count(retries, ".retries", 0L, 1000L, call),
    timeout = if (is.null(timeout)) 0 else check_seconds(timeout, ".timeout", call = call),
    speculate = "speculate" %in% names(options) &&
      check_flag(options$speculate, ".speculate", call),
    returns = returns, quiet = is.null(options$seed), like = check_like(options, returns, call),
    reduce = check_callback(options$reduce, ".reduce", call), init = check_init(options, call),
    on_result = check_callback(options$on_result, ".on_result", call),
    priority = if (!is.null(options$priority)) check_priority(options$priority, call) else 0L,
    group = group_number(options$group, call),
    label = if (!is.null(options$label)) check_text(options$label, ".label", call)
  )
  check_progress(options$progress, ".progress", call)
  terms
}

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

# As lapply() does, except for objects that can't be turned into a list. A method of as.list() may
# also have failed for its own reasons.
check_elements <- function(x, call, name = ".x") {
  if (is.vector(x) && !is.object(x)) {
    return(x)
  }
  list <- if (!is.function(x) && !is.symbol(x)) tryCatch(as.list(x), error = identity)
  failed <- inherits(list, "error")
  # As lapply() sees them.
  if (!failed && is.list(list) && is.object(list)) list <- lapply(list, identity)
  if (failed || !is.vector(list)) {
    abort_input(name, "a vector, or an object that as.list() turns into one", x, call,
      details = if (failed) conditionMessage(list)
    )
  }
  list
}

# What a map goes over: list(x, n, names, columns). columns: is x a list of vectors, whose i-th
# elements make the i-th element?
elements_of <- function(x, args = NULL, call = NULL) {
  x <- check_elements(x, call)
  list(x = x, n = length(x), names = names(x), columns = FALSE)
}
