# Code as a task, and the cluster that it goes to.

#' Code as a task
#'
#' `task()` hands code to whichever worker is free and returns at once: it is [task_submit()] for
#' code instead of a function. `with_cluster()` has a cluster for as long as code of yours runs.
#'
#' What the code names is found and sent: variables of the function that it stands in, as they are
#' now, and of the global environment, attached packages, and functions with all that they use in
#' turn, see Globals in [cluster_map()]. Of the function around it, arguments, and variables that
#' are larger than 1 MB or hold an environment, are only sent if the code names them, itself or by
#' functions that it names; if it uses them otherwise, as in `get(paste0("x", i))`, that is an error
#' of class `muster_error_limit`. What the code assigns is gone when it ends; `return()` ends it.
#'
#' A variable that is a task stands for that task's value: the code waits for it, without a worker,
#' see Tasks that need others in [task_submit()].
#'
#' The cluster is package parallel's default cluster, which
#' \code{\link[parallel:makeCluster]{parallel::setDefaultCluster()}} and `with_cluster()` set: also
#' that of `parallel::parLapply(X = x, fun = f)` and its like, which use it if they are given none.
#'
#' @param code Code, such as `{ fit(data); }`: for `task()`, what a worker evaluates; for
#'   `with_cluster()`, what you evaluate.
#' @param .cl A cluster from [cluster_start()], or some of its nodes. For `task()`, by default the
#'   default cluster. For `with_cluster()`, also what [cluster_start()] takes for one, such as a
#'   number of workers: then the cluster is started, and stopped when the code ends, however that
#'   ends.
#' @param .seed,.retries,.error_retries,.timeout,.priority,.group,.label,.wait As for
#'   [task_submit()].
#' @param ... Further arguments of [cluster_start()], for a cluster that is started.
#' @returns `task()`: a task, as [task_submit()] gives it. `with_cluster()`: the code's value. A
#'   task that isn't over then is lost if its cluster was started for the code: ask for its value
#'   inside.
#' @section Errors:
#' `muster_error_input`: there is no default cluster, or `.cl` isn't a cluster. For `task()` those
#' of [task_submit()], for `with_cluster()` also those of [cluster_start()].
#' @section Cost:
#' As [task_submit()], and about 0.2 ms to find what the code uses.
#' @section Source:
#' `future::future()` and `mirai::mirai()` also take code; tasks in it as values are muster's.
#' @seealso [task_submit()], [task_map()], [tasks_collect()].
#' @examples
#' with_cluster(2, {
#'   n <- 1000
#'   sample <- task(rnorm(n), .seed = 1)
#'   middle <- task(median(sample))
#'   spread <- task({
#'     quartiles <- quantile(sample, c(0.25, 0.75))
#'     diff(quartiles)
#'   })
#'   tasks_collect(list(middle, spread))
#' })
#' @export
task <- function(code, .cl = NULL, .seed = FALSE, .retries = NULL, .error_retries = 0L,
                 .timeout = NULL, .priority = 0L, .group = NULL, .label = NULL, .wait = TRUE) {
  call <- sys.call()
  check_given(code, "code", call)
  cl <- task_cluster(.cl, call)
  code <- substitute(code)
  made <- code_task(code, parent.frame())
  tryCatch(
    task_submit(cl, made$fun,
      .args = made$tasks, .seed = .seed, .retries = .retries, .error_retries = .error_retries,
      .timeout = .timeout, .priority = .priority, .group = .group, .label = .label, .wait = .wait
    ),
    muster_error = function(error) {
      error$call <- call
      raise_condition(error)
    }
  )
}

task_cluster <- function(cl, call) {
  if (is.null(cl)) cl <- parallel::getDefaultCluster()
  if (is.null(cl)) {
    abort_muster("input", "There is no default cluster.",
      hints = paste(
        "Give one as `.cl`, or call parallel::setDefaultCluster(cl) first, or have this in",
        "with_cluster(n, ...)."
      ),
      argument = ".cl", call = call
    )
  }
  check_cluster(cl, call, ".cl", here = TRUE)
}

# list(fun, tasks): the code as a function of the tasks that it names.
code_task <- function(code, envir) {
  names <- Filter(function(name) inherits(variable_of(name, envir), "muster_task"), names_in(code))
  names <- unique(as.character(names))
  tasks <- lapply(names, variable_of, envir)
  names(tasks) <- names
  places <- local_places(envir)
  if (length(places)) {
    uses <- code_uses(list(code), places)
    around <- arguments_around(code, places, uses)
    tasks <- c(tasks, mget(setdiff(around$given, names), places[[1L]]))
    names <- c(names(tasks), around$missing)
    envir <- copy_frames(places, uses, names(tasks))
  }
  list(fun = utils::removeSource(code_function(names, code, envir)), tasks = tasks)
}

# NULL if there is none: neither of packages, nor an argument without a value.
variable_of <- function(name, envir) {
  while (!identical(envir, emptyenv())) {
    if (exists(name, envir = envir, inherits = FALSE)) {
      if (is_not_given_in(name, envir)) {
        return(NULL)
      }
      return(tryCatch(get(name, envir, inherits = FALSE), error = function(e) NULL))
    }
    if (identical(envir, globalenv()) || isNamespace(envir)) break
    envir <- parent.env(envir)
  }
  NULL
}

#' @rdname task
#' @export
with_cluster <- function(.cl, code, ...) {
  call <- sys.call()
  check_given(.cl, ".cl", call)
  if (inherits(.cl, "cluster")) {
    check_cluster(.cl, call, ".cl", here = TRUE)
    if (...length()) abort_input("...", "nothing, for a cluster that runs", list(...), call)
  } else {
    .cl <- cluster_start(.cl, ...)
    on.exit(cluster_stop(.cl))
  }
  before <- parallel::getDefaultCluster()
  on.exit(parallel::setDefaultCluster(before), add = TRUE, after = FALSE)
  parallel::setDefaultCluster(.cl)
  code
}
