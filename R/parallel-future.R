# Package future's backend: futures are tasks of a cluster. future's contract has generics that it
# doesn't export, and functions that all backends use and that it doesn't export either.

#' Futures on muster's workers
#'
#' `plan(muster::muster_future)` has package future evaluate its futures on muster's workers: those
#' of `future()`, `%<-%`, future.apply, furrr, doFuture and all other packages that build on it.
#'
#' The workers start when the plan is set, and end when another one is. A future goes to whichever
#' worker is free; if none is, `future()` waits. If its worker is lost, the future is tried again
#' on another one, `retries` times; then `value()` raises a `FutureInterruptError`, which says what
#' ended the workers. Large objects among the globals and in the value go through shared memory.
#'
#' Conditions of class `immediateCondition`, such as those of package progressr, are relayed as
#' they are signalled: while the session waits for a future or for a free worker, and by
#' `resolved()`. `cancel()`, and an error or interrupt after which future cancels other futures,
#' end what their workers are doing; the workers stay. Use `interrupts = FALSE` to have it done to
#' its end.
#'
#' A future leaves nothing behind in its worker: variables that it assigns in the global environment
#' are removed, and those that it changes restored. Only packages stay attached or loaded.
#'
#' As with `plan(multisession)`, `workers = 1` evaluates futures in the session, one after the
#' other; `workers = I(1)` starts one worker. Plans may be nested: with
#' `plan(list(tweak(muster_future, workers = 2), tweak(muster_future, workers = 4)))`
#' each of two workers starts four for the futures of its own.
#'
#' @param ... `gc`, `earlySignal`, `interrupts`, `maxSizeOfObjects` and other settings that
#'   \link[future:FutureBackend-class]{every backend has}.
#' @param workers The number of workers, names of hosts, launchers, or a list of these, as in
#'   [cluster_start()]; a cluster from there, which is used and isn't stopped; or a function that
#'   returns one of these.
#' @param packages,setup,start,threads,healing,retries,heartbeat,timeout,wait,scale,idle_timeout As
#'   in [cluster_start()]; `NULL` for its defaults. Only for workers that are started.
#' @returns Nothing: it is for `plan()` and `tweak()` of package future, and can't be called.
#' @section Errors:
#' `muster_error_input` if it is called, or `workers` is a cluster of another package. Those of
#' `plan()` are the errors of [cluster_start()]. A future whose worker was lost too often, that took
#' longer than `timeout`, or whose cluster was stopped: `FutureInterruptError`; one that was
#' cancelled: `FutureCanceledError`. One that can't be evaluated by its worker, where package future
#' is missing or older than 1.40, say: `FutureError`, which names the host and the version there.
#' Field `parent` has muster's own condition.
#' @section Cost:
#' Starting: that of [cluster_start()], plus 0.3 s once to load package future, in the fork server.
#' A future: about 0.5 ms more than with `plan(sequential)`.
#' @section Source:
#' The contract is package future's, from version 1.40; it is described in its vignette
#' "Future API Backend Specification".
#' @examplesIf requireNamespace("future", quietly = TRUE) && packageVersion("future") >= "1.40.0"
#' future::plan(muster::muster_future, workers = 2)
#' fs <- lapply(1:4, function(i) future::future(i^2))
#' future::value(fs)
#' future::plan("sequential")
#' @export
muster_future <- function(..., workers = availableCores(), packages = NULL, setup = NULL,
                          start = NULL, threads = NULL, healing = NULL, retries = NULL,
                          heartbeat = NULL, timeout = NULL, wait = NULL, scale = NULL,
                          idle_timeout = NULL) {
  version <- tryCatch(utils::packageVersion("future"), error = function(e) NULL)
  old <- !is.null(version) && version < future_needed
  abort_muster("input",
    if (old) {
      paste0("muster_future() needs package future ", future_needed, "; this is ", version, ".")
    } else {
      "muster_future() can't be called: it is a plan."
    },
    hints = if (old) {
      "Update it: install.packages(\"future\"). With older ones: plan(cluster, workers = cl)."
    } else {
      "future::plan(muster::muster_future, workers = 4)"
    },
    call = sys.call()
  )
}
class(muster_future) <- c("muster_future", "multiprocess", "future", "function")
attr(muster_future, "init") <- TRUE

future_needed <- "1.40.0"

# future refuses `packages` in plan() and tweak(), since future() has an argument of that name, for
# one future. For a plan it is an argument of cluster_start(). The factory gets a plan's formal
# arguments.
tweak.muster_future <- function(strategy, ..., penvir = parent.frame()) {
  given <- list(...)
  others <- given[names(given) != "packages"]
  tweak <- utils::getS3method("tweak", "future", envir = asNamespace("future"))
  if (is.null(names(given)) || !"packages" %in% names(given)) {
    return(tweak(strategy, ..., penvir = penvir))
  }
  tweaked <- do.call(tweak, c(list(strategy), others, list(penvir = penvir)), quote = TRUE)
  kept <- attributes(tweaked)
  formals(tweaked)["packages"] <- given["packages"]
  kept$class <- union("tweaked", kept$class)
  kept$tweaks <- c(kept$tweaks[setdiff(names(kept$tweaks), "packages")], given["packages"])
  attributes(tweaked) <- kept
  attr(tweaked, "backend") <- NULL # of the plan that it was made of
  if (identical(attr(tweaked, "init"), "done")) attr(tweaked, "init") <- TRUE
  tweaked
}

# What future keeps to itself.
of_future <- function(name) get(name, envir = asNamespace("future"), mode = "function")
future_registry <- function(backend, action, future = NULL) {
  of_future("FutureRegistry")(backend[["reg"]],
    action = action, future = future, earlySignal = FALSE
  )
}

# ---- The backend: a cluster

# future calls it with the plan's arguments.
future_backend <- function(workers = availableCores(), ...) {
  call <- quote(plan(muster_future))
  given <- list(...)
  if (is.function(workers)) workers <- workers()
  if (is.numeric(workers) && identical(as.numeric(workers), 0)) {
    # cluster_start(0) has no workers, and futures are tasks of some.
    abort_input("workers", "one whole number from 1 to 10,000", workers, call)
  }
  of_start <- intersect(names(given), names(formals(cluster_start)))
  of_backend <- given[setdiff(names(given), of_start)]
  if (is.numeric(workers) && identical(as.numeric(workers), 1) && !inherits(workers, "AsIs")) {
    return(do.call(future::SequentialFutureBackend, of_backend))
  }
  owns <- !inherits(workers, "cluster")
  cl <- if (owns) future_cluster(workers, given[of_start], call) else check_cluster(workers, call)
  core <- do.call(future::MultiprocessFutureBackend, c(
    list(
      workers = length(cl), cluster = cl, start = if (owns) list(workers, given[of_start]),
      reg = paste0("workers-muster-", .subset2(cl[[1L]], "id"))
    ),
    of_backend
  ))
  core[["futureClasses"]] <- c("MusterFuture", core[["futureClasses"]])
  structure(core, class = c("MusterFutureBackend", class(core)))
}
attr(muster_future, "factory") <- future_backend

# The backend's cluster. A plan that was replaced may be set again, with the same backend; and two
# backends with the same arguments have the same cluster.
cluster_of <- function(backend) {
  start <- backend[["start"]]
  if (!is.null(start) && !is_running(backend[["cluster"]])) {
    backend[["cluster"]] <- future_cluster(start[[1L]], start[[2L]], quote(plan(muster_future)))
  }
  backend[["cluster"]]
}

# A plan of futures that set a plan themselves is set anew for each of them, and never ended: its
# cluster is used again.
future_cluster <- function(workers, options, call) {
  if (inherits(workers, "AsIs")) class(workers) <- setdiff(class(workers), "AsIs")
  options <- c(list(workers), options)
  for (known in the_parallel$plans) {
    if (identical(known$options, options) && is_running(known$cl)) {
      return(known$cl)
    }
  }
  starts <- options
  starts$setup <- with_future(options$setup)
  cl <- tryCatch(do.call("cluster_start", starts, quote = TRUE), muster_error = function(e) {
    e$call <- call # its own has the values of all arguments
    raise_condition(e)
  })
  the_parallel$plans <- c(the_parallel$plans, list(list(options = options, cl = cl)))
  cl
}

# Each worker has package future before its first future comes.
with_future <- function(setup) {
  load <- quote({
    loadNamespace("future") # by this name the fork server loads it, too
    utils::getFromNamespace("check_future", "muster")()
  })
  if (is.null(setup)) {
    load
  } else if (is.function(setup)) {
    bquote({
      .(load)
      .(setup)()
    })
  } else {
    call("{", load, setup)
  }
}

stopWorkers.MusterFutureBackend <- function(backend, interrupt = TRUE, ...) {
  running <- running_futures(backend)
  if (interrupt) lapply(running, future::cancel, interrupt = TRUE)
  lapply(running, forget_future)
  if (!is.null(backend[["start"]])) {
    cl <- backend[["cluster"]]
    the_parallel$plans <- Filter(function(one) !identical(one$cl, cl), the_parallel$plans)
    if (is_running(cl)) cluster_stop(cl)
  }
  TRUE
}

nbrOfWorkers.MusterFutureBackend <- function(evaluator) evaluator[["workers"]]

nbrOfFreeWorkers.MusterFutureBackend <- function(evaluator, background = FALSE, ...) {
  max(0L, evaluator[["workers"]] - length(running_futures(evaluator)))
}

# Those that no worker has answered. Others leave the registry: their workers are free, and the
# answer waits for value().
running_futures <- function(backend) {
  futures <- future_registry(backend, "list")
  done <- hear_futures(futures, 0)
  for (future in futures[done]) forget_future(future)
  futures[!done]
}

# Registered: future itself lists such futures, and counts them.
register_future <- function(future) {
  future_registry(future[["backend"]], "add", future)
  future[["registered"]] <- TRUE
}
forget_future <- function(future) {
  if (isTRUE(future[["registered"]])) future_registry(future[["backend"]], "remove", future)
  future[["registered"]] <- FALSE
}

# ---- A future: a task

launchFuture.MusterFutureBackend <- function(backend, future, ...) {
  cl <- cluster_of(backend)
  await_free_worker(backend, future)
  data <- of_future("getFutureData")(future, mc.cores = 1L)
  # Retries and time as the cluster's; references are future's business.
  task <- .Call(ffi_task_submit, cl, run_future, list(data, isTRUE(future[["gc"]])), NULL,
    c(NA, 0, 1), NULL
  )
  if (is.integer(task)) abort_submit(cl, task, quote(future()))
  attr(task, "quiet") <- TRUE # future itself looks at random numbers
  attr(task, "free") <- TRUE # and at references
  if (the_cluster$scales) wake_for_task(.subset2(cl[[1L]], "id"))
  future[["task"]] <- task
  future[["state"]] <- "running"
  register_future(future)
  invisible(future)
}

# Sent in place of future_run(), which every worker has.
run_future <- function(data, gc) getFromNamespace("future_run", "muster")(data, gc)
environment(run_future) <- asNamespace("utils")

await_free_worker <- function(backend, future) {
  timeout <- backend[["wait.timeout"]]
  end <- proc.time()[[3L]] + timeout
  repeat {
    running <- running_futures(backend)
    if (length(running) < backend[["workers"]]) {
      return()
    }
    hear_futures(running, max(0, end - proc.time()[[3L]]))
    if (proc.time()[[3L]] > end) {
      raise_condition(future::FutureError(
        paste0("No worker was free after ", format(timeout), " s: all of them have a future."),
        future = future
      ))
    }
  }
}

# Relays what futures say until one of them is answered or the time has passed. Gives which are.
hear_futures <- function(futures, timeout) {
  wait_hearing(lapply(futures, `[[`, "task"), TRUE, timeout, function(i, said) {
    relay_at_once(futures[[i]], said)
  })
}

# As future does for its own workers: it is signalled, and noted as signalled.
relay_at_once <- function(future, condition) {
  if (inherits(condition, c("warning", "message"))) {
    raise_condition(condition)
  } else {
    signalCondition(condition)
  }
  future[[".signaledConditions"]] <- c(
    future[[".signaledConditions"]], list(list(condition = condition, signaled = 1L))
  )
}

resolved.MusterFuture <- function(x, .signalEarly = TRUE, ...) {
  if (x[["state"]] == "created") {
    # Launched only if that doesn't wait.
    if (future::nbrOfFreeWorkers() > 0L) future::run(x)
    return(FALSE)
  }
  done <- !is.null(x[["result"]]) || x[["state"]] %in% c("failed", "finished")
  if (!done) {
    of_future("assertOwner")(x)
    done <- hear_futures(list(x), 0)
  }
  if (done && .signalEarly) of_future("signalEarly")(x)
  done
}

result.MusterFuture <- function(future, ...) {
  if (is.null(future[["result"]])) {
    if (future[["state"]] == "created") future <- future::run(future)
    of_future("assertOwner")(future)
    future[["result"]] <- take_result(future)
    future[["task"]] <- NULL
    forget_future(future)
    of_future("signalImmediateConditions")(future)
  }
  result <- future[["result"]]
  if (inherits(result, "FutureError")) raise_condition(result)
  result
}

# The answer, and the future's state with it: a FutureResult, or a FutureError.
take_result <- function(future) {
  answer <- hear_answer(future[["task"]], Inf, function(said) relay_at_once(future, said))
  if (is.list(answer)) load_for_value(answer)
  if (is.list(answer) && !isTRUE(answer$error)) {
    # Conditions that the future doesn't capture are none of the user's.
    result <- answer[[1L]]
    if (inherits(result, "FutureResult")) {
      result[["conditions"]] <- c(future[[".signaledConditions"]], result[["conditions"]])
      future[[".signaledConditions"]] <- NULL
      future[["state"]] <- "finished"
    } else {
      future[["state"]] <- "failed"
    }
    return(result)
  }
  why <- tryCatch(other_value(future[["task"]], answer, Inf, NULL), muster_error = identity)
  if (inherits(why, "muster_error_memory") && is.integer(answer)) raise_condition(why) # ask again
  cancelled <- future[["state"]] %in% c("canceled", "interrupted")
  lost <- inherits(why, c("muster_error_lost", "muster_error_timeout", "muster_error_cancelled"))
  future[["state"]] <- if (cancelled) "canceled" else if (lost) "interrupted" else "failed"
  class <- if (cancelled) "FutureCanceledError" else if (lost) "FutureInterruptError"
  future_error(class, why, future)
}

# future_error makes an error of one of future's classes. FutureCanceledError is newer than others.
future_error <- function(class, why, future) {
  known <- getNamespaceExports("future")
  make <- intersect(c(class, if (!is.null(class)) "FutureInterruptError", "FutureError"), known)[1L]
  text <- paste0(
    "Future (", of_future("sQuoteLabel")(future), ") of class MusterFuture: ", conditionMessage(why)
  )
  error <- getExportedValue("future", make)(text, future = future)
  error$parent <- why
  error
}

interruptFuture.MusterFutureBackend <- function(backend, future, ...) {
  if (isTRUE(backend[["interrupts"]]) && !is.null(future[["task"]])) {
    .Call(ffi_task_cancel, future[["task"]])
    future[["state"]] <- "interrupted"
  }
  future
}

# Conditions that are to be relayed at once.
getFutureBackendConfigs.MusterFuture <- function(future, ...) {
  classes <- future[["conditions"]]
  at_once <- attr(classes, "immediateConditionClasses", exact = TRUE)
  if (is.null(classes) || (!is.null(at_once) && !length(at_once))) {
    return(list())
  }
  list(capture = list(
    immediateConditionHandlers = list(immediateCondition = say_condition)
  ))
}

# Runs in a worker, where it arrives with a future.
say_condition <- function(condition) getFromNamespace("worker_say", "muster")(condition)
environment(say_condition) <- asNamespace("utils")
