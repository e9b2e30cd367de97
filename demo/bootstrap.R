# How many people were diagnosed with AIDS in England and Wales in the last
# quarter of 1992? Reports arrive up to years late, so the count of that quarter
# (133 when the data were taken) is far too low. A Poisson regression on quarter
# and delay fills in what is still to come, and a bootstrap says how sure that
# is: refit it to data made from the model and resampled residuals (Davison and
# Hinkley 1997, Bootstrap Methods and Their Application, example 7.12; the data
# are boot::aids).
#
# It runs over 64 workers of muster, then over those of parallel::makeCluster(),
# then here without any; all three answers must be the same to the last bit.
#
#   Rscript demo/bootstrap.R     or     demo("bootstrap", "muster")
#
# The environment variable WORKERS sets another number of workers.

library(muster)

local({
  workers <- suppressWarnings(as.integer(Sys.getenv("WORKERS", "64")))
  if (is.na(workers) || workers < 1L) stop("WORKERS must be a whole number, 1 or more.")
  parts <- 64L       # pieces of work, whatever the number of workers
  replicates <- 6L   # bootstrap replicates in each of them

  # ---- the model --------------------------------------------------------------

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

  # One part: replicates drawn from a random stream of its own, so that neither
  # the number of workers nor their order can change the answer.
  run_part <- function(stream, task) {
    diagnosed <- function(data) {
      fit <- stats::glm(y ~ time + delay, family = stats::quasipoisson, data = data)
      sum(stats::predict(fit, task$last, type = "response"))
    }
    made <- function(data, task) {
      noise <- sample(task$residuals, nrow(data), replace = TRUE)
      data$y <- pmax(0, round(task$mean + sqrt(task$mean) * noise))
      data
    }
    assign(".Random.seed", stream, envir = globalenv())
    boot::boot(task$known, diagnosed, R = task$replicates, sim = "parametric",
               ran.gen = made, mle = task)$t[, 1]
  }
  # Functions bring their environment along; this one needs none of ours.
  environment(run_part) <- globalenv()

  # ---- random streams, one a part ----------------------------------------------

  kind <- RNGkind()
  seed <- get0(".Random.seed", globalenv(), inherits = FALSE)
  on.exit({
    RNGkind(kind[1], kind[2], kind[3])
    if (is.null(seed)) rm(".Random.seed", envir = globalenv())
    else assign(".Random.seed", seed, envir = globalenv())
  })
  RNGkind("L'Ecuyer-CMRG", "Inversion", "Rejection")
  set.seed(1992)
  streams <- vector("list", parts)
  streams[[1]] <- .Random.seed
  for (i in seq_len(parts)[-1]) streams[[i]] <- nextRNGStream(streams[[i - 1]])

  # ---- the job, on a cluster or here ---------------------------------------------

  seconds <- function(expr) system.time(expr)[["elapsed"]]

  # Starts a cluster, runs the job on it, stops it; how long each took.
  job_on <- function(start) {
    time <- c(start = NA, run = NA, stop = NA)
    time["start"] <- seconds({
      cl <- start()
      running <- TRUE
      on.exit(if (running) stopCluster(cl))
      clusterCall(cl, Sys.getpid) # each of them has answered
    })
    time["run"] <- seconds(answer <- unlist(parLapply(cl, streams, run_part, task)))
    time["stop"] <- seconds(stopCluster(cl))
    running <- FALSE
    list(time = time, answer = answer)
  }

  # A worker of parallel's is a whole R, 40 MB and a connection of which R has
  # 128. Why that many can't be had, or NULL.
  too_many_for_parallel <- function() {
    if (workers > 120L) return("R has 128 connections, and it takes one a worker")
    limits <- suppressWarnings(c(
      tryCatch(as.numeric(sub("^MemAvailable: *([0-9]+) kB$", "\\1", grep(
        "^MemAvailable:", readLines("/proc/meminfo"), value = TRUE
      ))) * 1024, error = function(e) NULL),
      # A container may have less than its machine.
      tryCatch(as.numeric(readLines("/sys/fs/cgroup/memory.max")) -
                 as.numeric(readLines("/sys/fs/cgroup/memory.current")),
               error = function(e) NULL)
    ))
    limits <- limits[!is.na(limits)]
    if (!length(limits)) return("how much memory is free can't be told here")
    needed <- workers * 40e6
    if (min(limits) < needed) {
      return(sprintf("it takes %.1f GB of memory, %.1f GB are free", needed / 1e9,
                     min(limits) / 1e9))
    }
    NULL
  }

  cat(sprintf("\n%d bootstrap replicates of a Poisson regression (%d x %d) over %d workers\n\n",
              parts * replicates, nrow(known), length(coef(fit)), workers))

  ours <- job_on(function() cluster_start(workers, packages = "boot"))
  left_out <- too_many_for_parallel()
  if (is.null(left_out)) {
    theirs <- job_on(function() {
      cl <- parallel::makeCluster(workers)
      clusterCall(cl, loadNamespace, "boot")
      cl
    })
  }
  here_time <- seconds(here <- unlist(lapply(streams, run_part, task)))

  # ---- what came out ---------------------------------------------------------------

  row <- function(name, mine, peers = NULL) {
    cat(sprintf("%-22s %8.2f s", name, mine))
    if (length(peers)) cat(sprintf(" %8.2f s %8.1f x", peers, peers / mine))
    cat("\n")
  }
  compared <- is.null(left_out)
  cat(sprintf("%-22s %10s", "", "muster"))
  if (compared) cat(sprintf(" %10s %10s", "parallel", "ratio"))
  cat("\n")
  labels <- c(start = "start, all answered", run = "run", stop = "stop")
  for (step in names(labels)) {
    row(labels[[step]], ours$time[[step]], if (compared) theirs$time[[step]])
  }
  row("all of it", sum(ours$time), if (compared) sum(theirs$time))
  cat(sprintf("%-22s %8.2f s\n", "without any workers", here_time))
  if (compared) cat("(muster's stop waits until its workers are gone; parallel's doesn't)\n")
  if (!compared) cat("\nparallel::makeCluster() left out: ", left_out, ".\n", sep = "")

  estimate <- sum(predict(fit, task$last, type = "response"))
  interval <- quantile(here, c(0.025, 0.975), names = FALSE)
  cat(sprintf("\ndiagnosed in the last quarter of 1992: %.0f (95 %% interval %.0f to %.0f)",
              estimate, interval[1], interval[2]))
  cat(sprintf("; reported so far: %.0f\n", sum(task$last$y)))

  same <- identical(ours$answer, here)
  cat("identical to the sequential answer:", same, "\n")
  if (compared) cat("parallel's too:", identical(theirs$answer, here), "\n")
  if (!same) stop("The answer of muster's workers is not the sequential one.")
})
