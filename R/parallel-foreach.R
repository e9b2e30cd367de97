# foreach's backend: the iterations of a loop are the elements of a map.

#' Run foreach's loops on muster's workers
#'
#' After `registerDoMuster(cl)`, the workers of `cl` evaluate the iterations of
#' `foreach(...) %dopar% ...`, also of those in packages.
#'
#' Iterations are handed out like the elements of [cluster_map()]: in pieces whose size follows
#' from how long the first ones take. What they use is found and sent as described there under
#' Globals: variables of the function that has the loop and of the global environment, attached
#' packages, and functions with all that they use in turn. `.export` is only needed for names that
#' are assembled while the loop runs, `.packages` for packages that aren't attached in the session.
#' What `.noexport` names stays behind: the worker may have a variable of that name, from
#' [parallel::clusterExport()], say. Of the functions around a loop, arguments, and variables that
#' are larger than 1 MB or hold an environment, are only sent if the code names them, itself or by
#' functions that it names; if it uses them otherwise, as in `get(paste0("x", i))`, that is an error
#' of class `muster_error_limit`.
#'
#' Each iteration has its variables to itself. What it assigns is gone when it ends, and no other
#' iteration sees it; but what it changes elsewhere, with `<<-`, in an environment or in the global
#' environment, later ones in the same worker may see. Functions that are defined where the loop
#' is find the variables of the iteration and what it assigns, as with `%do%`.
#'
#' Results are combined while others are computed: in their order, or with `.inorder = FALSE` as
#' they come. Warnings and messages are signalled in the session, with the task's number in
#' warnings. Loops inside of iterations run one iteration after the other, unless these register a
#' backend.
#'
#' All arguments but the first are defaults for all loops. `.options.muster` sets them for one:
#' `foreach(i = 1:9, .options.muster = list(seed = 1)) %dopar% rnorm(1)`. A function
#' `progress` in `.options.snow`, as for package doSNOW, is called as that package does it: with the
#' number of tasks that are done and, if it takes it, that of the task.
#'
#' With `.options.RNG`, a whole number or a stream of L'Ecuyer's generator, iterations draw the
#' numbers that package doRNG gives them for it; its `%dorng%` and `registerDoRNG()` work, too.
#' `seed` has the streams of [cluster_map()] and [cluster_stream()], which are others.
#'
#' @param cl A cluster from [cluster_start()], or what its argument `workers` may be: a number of
#'   workers, names of hosts, launchers. Workers that are started for it stop when
#'   `registerDoMuster()` is called for others, or the session ends. Or a cluster that has R's own
#'   workers, from [makeClusterPSOCK()] or [parallel::makeCluster()]: without retries, time limits
#'   and copies of late iterations, and results are combined when all are there.
#' @param seed,retries,timeout,speculate,progress As `.seed`, `.retries`, `.timeout`, `.speculate`
#'   and `.progress` in [cluster_map()]. For all loops use `seed = TRUE`: with a number each of them
#'   would draw the same ones.
#' @returns `cl`, or the cluster that was started, invisibly.
#' @section Errors:
#' `registerDoMuster()`: `muster_error_input` if package foreach isn't installed or an argument is
#' wrong, and the errors of [cluster_start()]. A loop, with `.errorhandling = "stop"`:
#' * `muster_error_remote`: an iteration raised an error. The message begins with
#'   `task 3 failed - ` and the error's own, as with other backends, and goes on with the values of
#'   the iteration's variables. It is the first in their order: those after it are cancelled, those
#'   before it are waited for. Fields as in [cluster_map()].
#' * `muster_error_lost`, `muster_error_timeout`, `muster_error_limit`, `muster_error_input`: as in
#'   [cluster_map()].
#'
#' With `"pass"` the error itself is the result, with `"remove"` the iteration has no result; so it
#' is for tasks that were lost or late. An error in the function `.combine` is raised as it is.
#' @section Cost:
#' That of [cluster_map()], and what foreach itself takes: some 50 us for each iteration.
#' @section Source:
#' \code{\link[foreach:setDoPar]{foreach::setDoPar()}} is foreach's interface for backends.
#' @seealso [cluster_map()].
#' @examplesIf requireNamespace("foreach", quietly = TRUE)
#' library(foreach)
#' cl <- cluster_start(2)
#' registerDoMuster(cl)
#' foreach(i = 1:4, .combine = c) %dopar% sqrt(i)
#' foreach(i = 1:2, .combine = c, .options.muster = list(seed = 1)) %dopar% rnorm(1)
#' registerDoSEQ()
#' cluster_stop(cl)
#' @export
registerDoMuster <- function(cl = availableCores(), seed = FALSE, retries = NULL, timeout = NULL,
                             speculate = FALSE, progress = NULL) {
  call <- sys.call()
  if (!requireNamespace("foreach", quietly = TRUE)) {
    abort_muster("input", "Package foreach isn't installed.",
      hints = "install.packages(\"foreach\")", call = call
    )
  }
  options <- list(
    seed = seed, retries = retries, timeout = timeout, speculate = speculate, progress = progress
  )
  loop_terms(options, "stop", call)
  cl <- if (inherits(cl, "cluster")) check_loop_cluster(cl, call) else loop_cluster(cl, call)
  foreach::setDoPar(run_loop, list(cl = cl, options = options), function(data, item) {
    switch(item,
      workers = length(data$cl),
      name = "doMuster",
      version = utils::packageVersion("muster")
    )
  })
  invisible(cl)
}

check_loop_cluster <- function(cl, call) if (has_others(cl)) cl else check_cluster(cl, call)

# There is one at a time that was started for loops.
loop_cluster <- function(workers, call) {
  # Only the registered backend keeps it: after registerDoSEQ() R collects it, which stops it.
  known <- .Call(ffi_hidden, the_parallel$loop_cluster)
  running <- !is.null(known) && is_running(known$cl)
  if (running && identical(known$workers, workers)) {
    return(known$cl)
  }
  cl <- tryCatch(cluster_start(workers), muster_error = function(e) {
    e$call <- call
    raise_condition(e)
  })
  if (running) cluster_stop(known$cl)
  known <- list(workers = workers, cl = cl)
  the_parallel$loop_cluster <- .Call(ffi_hide, .subset2(cl[[1L]], "cluster"), known)
  cl
}

# What foreach calls. obj: from foreach(). expr, envir: the code, and where it stands.
run_loop <- function(obj, expr, envir, data) {
  call <- loop_call(sys.call(-1L), expr)
  if (!inherits(obj, "foreach")) {
    abort_input("%dopar%", "foreach(...) on its left side", obj, call)
  }
  cl <- check_loop_cluster(data$cl, call)
  options <- loop_options(obj$options$muster, data$options, call)
  terms <- loop_terms(options, obj$errorHandling, call)
  it <- iterators::iter(obj)
  tasks <- as.list(it)
  if (length(tasks)) {
    first <- !duplicated(names(tasks[[1L]])) # of variables with one name, as with other backends
    if (!all(first)) tasks <- lapply(tasks, `[`, first)
    job <- loop_job(obj, expr, envir, tasks, terms$returns, cl, call)
    if (has_others(cl)) {
      loop_elsewhere(obj, it, tasks, job, options, terms, cl, call)
    } else {
      run_loop_map(obj, it, tasks, job, options, terms, cl, call)
    }
  }
  # An iteration may also have returned an error.
  error <- foreach::getErrorValue(it)
  if (obj$errorHandling == "stop" && !is.null(error)) {
    number <- foreach::getErrorIndex(it)
    abort_muster("remote", loop_words$raised(number, message_of(error)),
      details = task_text(tasks[[number]], number), element = number, condition = error,
      call = call, of = error
    )
  }
  foreach::getResult(it)
}

run_loop_map <- function(obj, it, tasks, job, options, terms, cl, call) {
  stream <- loop_stream(obj, options$seed, cl, call)
  if (job$loop$brings_streams || job$loop$seeds_itself) terms$quiet <- TRUE
  map <- new_map(cl, elements_of(tasks), job, stream, terms, loop_words, call)
  map$heed <- loop_heed(map, it, obj, options$progress)
  run_map(map, if (!is.function(options$progress)) options$progress)
  tell_drawn(call, "`.options.muster = list(seed = 1)`", "`registerDoMuster(cl, seed = NULL)`")
}

# By package parallel, on a cluster that has R's own workers.
loop_elsewhere <- function(obj, it, tasks, job, options, terms, cl, call) {
  seeded <- !is.null(obj$options$RNG) || !(is.null(options$seed) || isFALSE(options$seed))
  stream <- if (seeded) loop_stream(obj, options$seed, NULL, call)
  job$step <- iteration_step
  map <- list2env(elements_of(tasks), parent = emptyenv())
  list2env(list(
    job = job, stream = stream, left = map$n, results = vector("list", map$n),
    words = loop_words, returns = terms$returns, ahead = FALSE, told = FALSE, call = call
  ), map)
  map$heed <- loop_heed(map, it, obj, options$progress)
  run_elsewhere(map, run_by_parallel(map, job, stream, cl))
}

# The loop as the user wrote it, where foreach's own operator called us.
loop_call <- function(call, expr) {
  by_user <- is.call(call) && identical(call[[1L]], as.name("%dopar%")) && is.call(call[[2L]])
  if (by_user) call else expr
}

# ---- Options

# of_loop: what `.options.muster` has.
loop_options <- function(of_loop, options, call) {
  unknown <- setdiff(names(of_loop), names(options))
  named <- !length(of_loop) || (!is.null(names(of_loop)) && all(nzchar(names(of_loop))))
  if (!is.null(of_loop) && (!is.list(of_loop) || !named || length(unknown))) {
    abort_input(".options.muster",
      paste("a list of some of", paste0("`", names(options), "`", collapse = ", ")), of_loop, call,
      details = if (length(unknown)) paste0("It has `", unknown, "`.")
    )
  }
  options[names(of_loop)] <- of_loop
  options
}

# As in cluster_map().
loop_terms <- function(options, handling, call) {
  if (!is.function(options$progress)) check_progress(options$progress, "progress", call)
  list(
    retries = if (!is.null(options$retries)) {
      check_count(options$retries, "retries", 0L, 1000L, call)
    },
    timeout = if (is.null(options$timeout)) {
      0
    } else {
      check_seconds(options$timeout, "timeout", call = call)
    },
    speculate = check_flag(options$speculate, "speculate", call),
    returns = handling != "stop",
    quiet = is.null(options$seed)
  )
}

# ---- Random numbers

# As map_stream(). Loops that `%dorng%` has made bring streams.
loop_stream <- function(obj, seed, cl, call) {
  if (brings_streams(obj)) {
    NULL
  } else if (is.null(obj$options$RNG)) {
    map_stream(seed, cl, call, "seed")
  } else {
    rng_stream(obj$options$RNG, call)
  }
}

brings_streams <- function(obj) ".doRNG.stream" %in% obj$argnames

# The stream that package doRNG makes of this seed (rngtools 1.5.2, RNGseq_seed()).
rng_stream <- function(seed, call) {
  whole <- is.numeric(seed) && !anyNA(seed) && all(seed == trunc(seed)) &&
    all(abs(seed) <= .Machine$integer.max)
  if (!whole || !length(seed) %in% c(1L, 6L, 7L) || (length(seed) == 7L && seed[1L] %% 100 != 7)) {
    abort_input(".options.RNG",
      "a whole number, or the 6 or 7 numbers of a stream of L'Ecuyer's generator", seed, call,
      hints = "`%dorng%` of package doRNG takes other seeds."
    )
  }
  if (length(seed) == 7L) {
    return(as.integer(seed))
  }
  kept <- keep_stream()
  on.exit(kept())
  if (length(seed) == 1L) set.seed(as.integer(seed)) # by the session's generator
  # This draws a seed, also if nothing changes.
  if (length(seed) == 6L || RNGkind()[1L] != "L'Ecuyer-CMRG") RNGkind("L'Ecuyer-CMRG")
  stream <- get(".Random.seed", globalenv())
  if (length(seed) == 6L) stream[2:7] <- as.integer(seed)
  stream
}

# ---- Words

loop_words <- list(
  one = function(map, i) task_text(map$x[[i]], i),
  some = "tasks",
  all = "task",
  timeout = "`timeout`",
  settles = FALSE,
  go_on = "`.errorhandling = \"pass\"`",
  raised = function(i, message) paste0("task ", i, " failed - \"", message, "\""),
  returned = identity
)

# Task 3 (i = 3, x = <data.frame>)
task_text <- function(values, i) {
  texts <- vapply(values, function(x) {
    if (is_short(x)) deparse(x, control = NULL, nlines = 1L)[1L] else paste0("<", class(x)[1L], ">")
  }, "")
  shown <- if (length(texts)) paste0(" (", paste(names(texts), "=", texts, collapse = ", "), ")")
  paste0("Task ", i, shown)
}

# ---- The job

loop_job <- function(obj, expr, envir, tasks, returns, cl, call) {
  check_exports(obj$export, envir, call)
  refused <- refused_exports(obj$export, expr, envir)
  export <- setdiff(obj$export, refused)
  places <- local_places(envir)
  uses <- code_uses(c(list(expr), as.list(export)), if (length(places)) places else list(envir))
  functions <- uses$functions[setdiff(names(uses$functions), obj$argnames)]
  frame <- if (length(places)) copy_frames(places, uses, obj$noexport) else envir
  fun <- utils::removeSource(code_function(obj$argnames, expr, frame))
  exports <- code_function(character(), as.call(lapply(c("{", export), as.name)), frame)
  job <- make_job(fun, list(), list(tasks, exports), returns, cl, call)
  job$globals <- job$globals[setdiff(names(job$globals), obj$noexport)]
  job$left <- setdiff(c(job$left, if (!length(places)) refused), obj$noexport)
  job$packages <- c(job$packages, setdiff(obj$packages, job$packages))
  own <- c(obj$argnames, assigned_in(expr))
  local <- any(uses$in_functions %in% own) || any(assigners %in% uses$names)
  job$loop <- list(
    code = compiled(body(fun), frame),
    functions = if (local) lapply(functions, function_maker, frame),
    brings_streams = brings_streams(obj),
    seeds_itself = any(c("set.seed", ".Random.seed") %in% uses$names),
    arguments = if (length(places)) loop_arguments(expr, places, uses, obj$argnames)
  )
  job
}

# Arguments of the function around the loop, as an iteration's own variables: an empty name for each
# that was not given.
loop_arguments <- function(expr, places, uses, argnames) {
  around <- arguments_around(expr, places, uses)
  missing <- setdiff(around$missing, argnames)
  c(
    mget(setdiff(around$given, argnames), places[[1L]]),
    structure(rep(alist(x = ), length(missing)), names = missing)
  )
}

# As foreach's %do% does it: loops inside are only quick if they are compiled.
compiled <- function(code, frame) compiler::compile(code, frame, options = list(suppressAll = TRUE))

# Code that makes the function in the environment of an iteration: setting the environment would
# take its compiled code away.
function_maker <- function(fun, frame) {
  fun <- utils::removeSource(fun)
  code <- as.call(list(as.name("function"), formals(fun), body(fun)))
  list(code = compiled(code, frame), attributes = attributes(fun))
}

# Connections and the like, if the code doesn't name them: `.export` may name whatever there is.
refused_exports <- function(names, expr, envir) {
  named <- names_in(expr)
  Filter(function(name) {
    !name %in% named && scan_has(.Call(ffi_scan, get(name, envir)), "connection")
  }, names)
}

check_exports <- function(names, envir, call) {
  for (name in names) {
    if (!exists(name, envir = envir)) {
      abort_muster("input", paste0("`.export` names \"", name, "\", which isn't there."),
        hints = "The loop's function and the global environment have no variable of that name.",
        argument = ".export", call = call
      )
    }
  }
}

# ---- Results

# Hands results to foreach, which combines them: by `.combine`, and so by the user's code.
loop_heed <- function(map, it, obj, progress) {
  accumulate <- foreach::makeAccum(it)
  any_order <- isFALSE(obj$combineInfo$in.order)
  next_ones <- in_order(map$n)
  count <- 0L
  shows <- list(if (is.function(progress)) progress, obj$options$snow$progress)
  shows <- lapply(Filter(Negate(is.null), shows), match.fun)
  function(tasks) {
    # foreach would keep what comes early, and look through it for each result.
    ready <- if (any_order) tasks else next_ones(tasks)
    if (length(ready)) accumulate(map$results[ready], ready)
    for (task in if (length(shows)) tasks) {
      count <<- count + 1L
      for (show in shows) call_progress(show, count, task)
    }
  }
}

# As doSNOW does: what a progress function does is no reason to lose a loop.
call_progress <- function(show, count, task) {
  tryCatch(do.call(show, list(count, task)[seq_along(formals(show))]), error = function(e) {
    warn_muster("progress", paste0("The progress function failed: ", message_of(e)))
  })
}
