# What muster gains you, and what it doesn't, measured on this machine in under a minute:
# a job that pays, a worker killed in the middle of it, the start of 64 workers, 200 MB on all
# of them, a search for a service. Every answer is checked against the one without workers.
#
#   Rscript demo/tour.R     or     demo("tour", "muster")
#
# The environment variable WORKERS sets another number than 64.
#
# The job: how many people were diagnosed with AIDS in England and Wales in the last quarter of
# 1992? Reports arrive up to years late, so the count of that quarter (133 when the data were
# taken) is far too low. A Poisson regression on quarter and delay fills in what is still to
# come, and a bootstrap says how sure that is: refit it to data made from the model and
# resampled residuals (Davison and Hinkley 1997, Bootstrap Methods and Their Application,
# example 7.12; the data are boot::aids).

suppressPackageStartupMessages(library(muster))

local({
  many <- suppressWarnings(as.integer(Sys.getenv("WORKERS", "64")))
  if (is.na(many) || many < 1L) stop("WORKERS must be a whole number, 1 or more.")
  cores <- availableCores()[[1]]
  began <- proc.time()[["elapsed"]]

  # ---- what is told ---------------------------------------------------------------

  chapter <- local({
    number <- 0L
    function(title) {
      number <<- number + 1L
      cat(sprintf("\n%d. %s\n", number, title))
    }
  })
  row <- function(what, seconds, more = "") {
    cat(trimws(sprintf("   %-36s %7.2f s  %s", what, seconds, more), "right"), "\n", sep = "")
  }
  note <- function(...) cat(strwrap(paste0(...), 90, prefix = "   "), sep = "\n")
  times <- function(slow, fast) {
    if (slow >= fast) sprintf("%.1f times as fast", slow / fast)
    else sprintf("%.1f times as slow", fast / slow)
  }
  pace <- function(ours, theirs) {
    same <- max(ours, theirs) <= 1.1 * min(ours, theirs)
    if (same) "as quick as parallel" else times(theirs, ours)
  }
  seconds <- function(expr) system.time(expr)[["elapsed"]]
  # A line of /proc/meminfo, which are in kB; NA where there is none.
  memory_mb <- function(name) {
    lines <- tryCatch(readLines("/proc/meminfo"), error = function(e) "", warning = function(w) "")
    line <- grep(paste0("^", name, ":"), lines, value = TRUE)
    if (length(line)) as.numeric(gsub("[^0-9]", "", line)) * 1024 / 1e6 else NA_real_
  }
  check <- function(same, what) {
    if (!same) stop(what, " isn't the answer without workers.")
    cat("   ", what, ": the same answer as without workers, to the last bit\n", sep = "")
  }

  # ---- the job ----------------------------------------------------------------------

  parts <- 64L       # pieces of work, whatever the number of workers
  replicates <- 6L   # bootstrap replicates in each of them
  aids <- boot::aids
  aids$time <- factor(aids$time)
  aids$delay <- factor(aids$delay)
  known <- aids[aids$dud == 0, ]
  fit <- glm(y ~ time + delay, family = quasipoisson, data = known)
  task <- list(
    replicates = replicates,
    known = known,
    # The last quarter, by delay: what was reported counts, the rest is fitted.
    last = aids[aids$time == "38", ],
    mean = fitted(fit),
    # Pearson residuals, with the mean 0 and the spread that the model supposes.
    residuals = local({
      r <- residuals(fit, "pearson") / sqrt(1 - hatvalues(fit))
      r <- r[is.finite(r)]
      r - mean(r)
    })
  )

  # One part: replicates drawn from a random stream of its own, so that neither the number of
  # workers nor their order can change the answer. Where `kill_at` names this part's file and it
  # doesn't exist yet, the worker kills itself first, as the kernel does when memory is short.
  run_part <- function(part, task, kill_at = "") {
    if (identical(part$file, kill_at) && !file.exists(kill_at)) {
      file.create(kill_at)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    diagnosed <- function(data) {
      fit <- stats::glm(y ~ time + delay, family = stats::quasipoisson, data = data)
      sum(stats::predict(fit, task$last, type = "response"))
    }
    made <- function(data, task) {
      noise <- sample(task$residuals, nrow(data), replace = TRUE)
      data$y <- pmax(0, round(task$mean + sqrt(task$mean) * noise))
      data
    }
    assign(".Random.seed", part$stream, envir = globalenv())
    boot::boot(task$known, diagnosed, R = task$replicates, sim = "parametric",
               ran.gen = made, mle = task)$t[, 1]
  }
  # Functions bring their environment along; this one needs none of ours.
  environment(run_part) <- globalenv()

  # One random stream for each part.
  kind <- RNGkind()
  seed <- get0(".Random.seed", globalenv(), inherits = FALSE)
  folder <- tempfile("tour-")
  dir.create(folder)
  on.exit({
    RNGkind(kind[1], kind[2], kind[3])
    if (is.null(seed)) rm(".Random.seed", envir = globalenv())
    else assign(".Random.seed", seed, envir = globalenv())
    unlink(folder, recursive = TRUE)
  })
  RNGkind("L'Ecuyer-CMRG", "Inversion", "Rejection")
  set.seed(1992)
  work <- vector("list", parts)
  stream <- .Random.seed
  for (i in seq_len(parts)) {
    work[[i]] <- list(stream = stream, file = file.path(folder, i))
    stream <- nextRNGStream(stream)
  }

  # Starts a cluster, runs the job on it, stops it; how long each took.
  job_on <- function(start, ...) {
    time <- c(start = NA, run = NA, stop = NA)
    time["start"] <- seconds({
      cl <- start()
      running <- TRUE
      on.exit(if (running) stopCluster(cl))
      clusterCall(cl, Sys.getpid) # each of them has answered
    })
    time["run"] <- seconds(answer <- unlist(parLapply(cl, work, run_part, task, ...)))
    time["stop"] <- seconds(stopCluster(cl))
    running <- FALSE
    list(time = time, answer = answer)
  }
  steps <- function(run) {
    sprintf("start %.2f, run %.2f, stop %.2f", run$time[1], run$time[2], run$time[3])
  }

  # ---- the tour -----------------------------------------------------------------------

  cat(sprintf("muster %s, R %s, availableCores(): %d\n", utils::packageVersion("muster"),
              getRversion(), cores))
  load <- tryCatch(scan("/proc/loadavg", n = 1, quiet = TRUE), error = function(e) NA,
                   warning = function(w) NA)
  if (isTRUE(load > cores)) {
    cat(sprintf("This machine is busy (its load is %.1f): times and ratios say little.\n", load))
  }

  chapter(sprintf("A job that pays: %d bootstrap replicates of a regression, %d workers",
                  parts * replicates, cores))
  here_time <- seconds(here <- unlist(lapply(work, run_part, task)))
  row("without workers", here_time)
  ours <- job_on(function() cluster_start(cores, packages = "boot"))
  row("muster, start to stop", sum(ours$time),
      paste0(times(here_time, sum(ours$time)), " (", steps(ours), ")"))
  theirs <- job_on(function() {
    cl <- parallel::makeCluster(cores)
    clusterCall(cl, loadNamespace, "boot")
    cl
  })
  row("parallel, start to stop", sum(theirs$time), paste0("(", steps(theirs), ")"))
  row("the job itself, on muster's workers", ours$time[["run"]],
      paste0(pace(ours$time[["run"]], theirs$time[["run"]]), " (", sprintf(
        "%.2f", theirs$time[["run"]]), " s)"))
  check(identical(ours$answer, here), "muster")
  interval <- quantile(here, c(0.025, 0.975), names = FALSE)
  note(sprintf(
    "diagnosed in the last quarter of 1992: %.0f (95 %% interval %.0f to %.0f); reported: %.0f",
    sum(predict(fit, task$last, type = "response")), interval[1], interval[2], sum(task$last$y)
  ))

  chapter("A worker is killed in the middle of that job")
  killed <- withCallingHandlers(
    job_on(function() cluster_start(cores, packages = "boot"), work[[parts %/% 2L]]$file),
    message = function(m) {
      cat("   ", gsub("\n(?=.)", "\n   ", conditionMessage(m), perl = TRUE), sep = "")
      invokeRestart("muffleMessage")
    }
  )
  if (!file.exists(work[[parts %/% 2L]]$file)) stop("No worker was killed.")
  row("muster, start to stop", sum(killed$time), "(what the killed worker had is done again)")
  check(identical(killed$answer, here), "muster")
  note("parallel: the job ends with an error, and the cluster is lost")

  chapter(sprintf("The start of %d workers, until each has answered", many))
  mine <- seconds({
    cl <- cluster_start(many)
    on.exit(if (length(cl)) stopCluster(cl), add = TRUE)
    clusterCall(cl, Sys.getpid)
  })
  row(sprintf("muster, %d workers", many), mine)
  # Each worker of parallel's is an R of its own: 40 MB, and one of R's 128 connections.
  room <- memory_mb("MemAvailable")
  fits <- min(many, 120L, if (!is.na(room)) max(1, floor(room * 0.7 / 40)))
  peers <- NULL
  peer_time <- seconds({
    peers <- parallel::makeCluster(fits)
    on.exit(if (length(peers)) parallel::stopCluster(peers), add = TRUE)
    clusterCall(peers, Sys.getpid)
  })
  beside <- sprintf("(muster: %s)", times(peer_time, mine))
  if (fits < many) beside <- "(more don't fit: memory, or 128 connections)"
  row(sprintf("parallel, %d workers", fits), peer_time, beside)
  parallel::stopCluster(peers)
  peers <- NULL

  # Below a GB of free memory a tenth will do.
  million <- if (is.na(room) || room > 1500) 25 else 2.5
  chapter(sprintf("%.0f MB on all %d workers", million * 8, many))
  x <- seq_len(million * 1e6) %% 1000 + 0.5 # numbers whose sums are exact
  before <- memory_mb("Shmem")
  shared <- seconds(cluster_share(cl, x = x))
  grown <- memory_mb("Shmem") - before
  row("cluster_share()", shared,
      if (!is.na(grown)) sprintf("(memory in use grew by %.0f MB, once for all)", grown))
  slices <- splitIndices(length(x), many)
  ends <- lapply(slices, range)
  sum_slice <- function(ends) sum(x[seq.int(ends[1], ends[2])])
  environment(sum_slice) <- globalenv()
  total <- NA
  sum_time <- seconds(total <- sum(unlist(clusterApply(cl, ends, sum_slice))))
  row("each sums its share of it", sum_time)
  if (total != sum(x)) stop("The sum of the shares isn't the sum.")
  peers <- parallel::makeCluster(1)
  one <- seconds(clusterExport(peers, "x", environment()))
  parallel::stopCluster(peers)
  peers <- NULL
  row("parallel's clusterExport(), 1 worker", one, "(and again for each further worker)")
  stopCluster(cl)
  cl <- NULL

  chapter("Who listens in 127.9.0.0/24?")
  hosts <- c("127.9.0.10", "127.9.0.77", "127.9.0.140")
  listeners <- list()
  on.exit(for (one in listeners) socket_close(one), add = TRUE)
  port <- freePort()
  for (host in hosts) {
    one <- tryCatch(socket_listen(port, host), muster_error = function(e) NULL)
    if (!is.null(one)) listeners <- c(listeners, list(one))
  }
  if (length(listeners)) {
    found <- NULL
    row("discover(), 254 addresses", seconds(found <- discover("127.9.0.0/24", port)),
        paste0("open: ", paste(found$address[found$status == "open"], collapse = ", ")))
    note("Where nobody is, a network is silent: all 254 are waited for at once.")
  } else {
    note("left out: this system has one address on its loopback only")
  }

  chapter("What muster doesn't gain")
  note(sprintf(
    "The run alone: %.2f s on muster's %d workers, %.2f s on parallel's. A core is a core: %s",
    ours$time[["run"]], cores, theirs$time[["run"]],
    "more workers than cores make no such job faster."
  ))
  small <- 1:1000
  alone <- seconds(for (i in 1:10) lapply(small, sqrt)) / 10
  cl <- cluster_start(cores)
  spread <- seconds(for (i in 1:10) parLapply(cl, small, sqrt)) / 10
  stopCluster(cl)
  cl <- NULL
  note(sprintf("Work that takes no time: 1,000 times sqrt() takes %.2f ms by lapply(), %s %.2f ms.",
               alone * 1000, "on the workers", spread * 1000))
  note(sprintf("The first start in a session, with %d workers: %.2f s, parallel's %.2f s. %s",
               cores, ours$time[["start"]], theirs$time[["start"]],
               "The fork server boots in it, and is used again by all later ones."))
  note("stopCluster(): muster waits until its workers are gone, parallel doesn't.")
  cat(sprintf("\n%.0f s in all.\n", proc.time()[["elapsed"]] - began))
})
