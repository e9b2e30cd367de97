# One cluster under every front end, and what may go wrong there: a worker is killed, the session is
# interrupted, the user's function fails, the cluster was stopped.

# These set options, or keep a thread or a pipe, once they were used.
if (has_later()) {
  later::later_fd(function(ready) NULL, .Call(ffi_notify, FALSE), timeout = 0)
  later::run_now(1)
}
if (requireNamespace("foreach", quietly = TRUE)) foreach::registerDoSEQ()
if (requireNamespace("future", quietly = TRUE)) {
  future::plan("sequential")
  future::value(future::future(1))
}

# A function with its own variables, as if it were defined in the global environment.
far <- function(fun, ...) {
  environment(fun) <- list2env(list(...), parent = globalenv())
  fun
}

with_plan <- function(cl, code) {
  future::plan(muster_future, workers = cl)
  on.exit(future::plan("sequential"))
  code
}

# Each gives the list of f's values. needs: the packages that it is for.
front_ends <- list(
  parLapply = list(run = function(cl, x, f) parLapply(cl, x, f)),
  clusterApplyLB = list(run = function(cl, x, f) clusterApplyLB(cl, x, f)),
  cluster_map = list(run = function(cl, x, f) cluster_map(cl, x, f)),
  cluster_pmap = list(run = function(cl, x, f) cluster_pmap(cl, list(x), f)),
  task_map = list(run = function(cl, x, f) task_value(task_map(cl, x, f))),
  task_submit = list(run = function(cl, x, f) {
    tasks_collect(lapply(x, function(i) task_submit(cl, f, i)), cancel = TRUE)
  }),
  task = list(run = function(cl, x, f) {
    tasks_collect(lapply(x, function(i) task(f(i), cl)), cancel = TRUE)
  }),
  foreach = list(needs = "foreach", run = function(cl, x, f) {
    `%dopar%` <- foreach::`%dopar%`
    registerDoMuster(cl)
    on.exit(foreach::registerDoSEQ())
    foreach::foreach(i = x) %dopar% f(i)
  }),
  future = list(needs = "future", run = function(cl, x, f) {
    with_plan(cl, future::value(lapply(x, function(i) future::future(f(i)))))
  }),
  furrr = list(needs = c("future", "furrr"), run = function(cl, x, f) {
    with_plan(cl, furrr::future_map(x, f))
  }),
  purrr = list(needs = "purrr", run = function(cl, x, f) {
    tasks_collect(purrr::map(x, function(i) task_submit(cl, f, i)), cancel = TRUE)
  }),
  promises = list(needs = c("promises", "later"), run = function(cl, x, f) {
    tasks <- lapply(x, function(i) task_submit(cl, f, i))
    on.exit(task_cancel(tasks))
    got <- NULL
    promises::then(promises::promise_all(.list = tasks),
      onFulfilled = function(values) got <<- values, onRejected = function(error) got <<- error
    )
    while (is.null(got)) later::run_now(1)
    if (inherits(got, "error")) stop(got)
    got
  })
)

skip_without <- function(needs) {
  for (package in needs) skip_if_not_installed(package, if (package == "future") "1.40.0")
  if ("later" %in% needs) skip_if_not(has_later(), "later >= 1.4.0 isn't here")
}

for (name in names(front_ends)) {
  local({
    name <- name
    needs <- front_ends[[name]]$needs
    run <- front_ends[[name]]$run
    square <- far(function(i) i^2)
    goes_on <- function(cl) expect_identical(run(cl, 1:4, square), as.list((1:4)^2))

    test_cluster(paste0(name, ": the answer is that of lapply(), also after a loss"), {
      skip_without(needs)
      cl <- local_cluster(2)
      goes_on(cl)
      dies <- far(died = file.path(local_folder(), "died"), function(i) {
        if (i == 3 && !file.exists(died)) {
          file.create(died)
          tools::pskill(Sys.getpid(), tools::SIGKILL)
        }
        i^2
      })
      got <- healed(run(cl, 1:6, dies))
      expect_identical(got$value, as.list((1:6)^2))
      expect_match(got$text, "killed by signal 9")
    })

    test_cluster(paste0(name, ": an error of the user's is told, and the cluster goes on"), {
      skip_without(needs)
      cl <- local_cluster(2)
      fails <- far(function(i) if (i == 2) stop("it was me") else i)
      expect_error(run(cl, 1:4, fails), "it was me")
      goes_on(cl)
    })

    test_cluster(paste0(name, ": Ctrl-C gives the prompt back, and the cluster goes on"), {
      skip_without(needs)
      cl <- local_cluster(2)
      waits <- far(flag = file.path(local_folder(), "flag"), session = Sys.getpid(), function(i) {
        if (i == 1 && !file.exists(flag)) {
          file.create(flag)
          tools::pskill(session, tools::SIGINT)
          Sys.sleep(2)
        }
        i^2
      })
      got <- suppressMessages(tryCatch(run(cl, 1:4, waits), interrupt = identity))
      expect_s3_class(got, "interrupt")
      goes_on(cl)
    })

    test_cluster(paste0(name, ": a cluster that was stopped is an error that says so"), {
      skip_without(needs)
      cl <- local_cluster(1)
      cluster_stop(cl)
      expect_error(run(cl, 1:4, square), "stopped")
    })
  })
}
