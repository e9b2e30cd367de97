# What code of the user's does in the middle of a verb, given its cell: cell$cl is the cluster,
# cell$again() calls the same verb once more, cell$exit leaves it by a jump.
#
# Each is list(does, may, ...). may(outcome): what the verb may come to besides
# its right value (or, where the place is an error, that error). leaves: it comes to nothing else.
# alters: the cluster isn't what it was afterwards. workers: of the cluster it is done to, else 2.

is_ours <- function(outcome) inherits(outcome, "muster_error")
is_left <- function(outcome) identical(outcome, "left")
is_interrupt <- function(outcome) inherits(outcome, "interrupt")
# Also where muster says why something of the user's, such as a method, has failed.
says <- function(outcome, words) {
  inherits(outcome, "error") && grepl(words, conditionMessage(outcome), fixed = TRUE)
}
is_user_error <- function(outcome) {
  inherits(outcome, "user_error") || (is_ours(outcome) && says(outcome, "the user's own words"))
}
is_limit <- function(outcome) says(outcome, "reached elapsed time limit")
never <- function(outcome) FALSE

# What a deed sees must be right: else the cell fails, whatever the verb comes to.
see <- function(cell, what, value, want) {
  if (!same(value, want)) cell$wrong <- c(cell$wrong, paste0(what, ": ", in_short(value)))
}

deed_list <- list(
  nothing = list(does = function(cell) NULL, may = never),
  again = list(
    does = function(cell) see(cell, "the same verb inside", cell$again(), cell$want),
    may = never, calls = TRUE, parts = TRUE
  ),
  call = list(
    does = function(cell) {
      cl <- cell$cl
      see(cell, "a call", clusterCall(cl, function(i) i, 5), rep(list(5), length(cl)))
    },
    may = never, calls = TRUE
  ),
  balance = list(
    does = function(cell) {
      see(cell, "balanced calls", clusterApplyLB(cell$cl, 1:3, function(i) -i), list(-1L, -2L, -3L))
    },
    may = never, calls = TRUE
  ),
  map = list(
    does = function(cell) {
      see(cell, "a map", cluster_map(cell$cl, 1:3, function(i) -i), list(-1L, -2L, -3L))
    },
    may = never, calls = TRUE
  ),
  task = list(
    does = function(cell) {
      see(cell, "a task", task_value(task_submit(cell$cl, function(i) i, 5)), 5)
    },
    may = never, calls = TRUE
  ),
  part = list(
    does = function(cell) {
      p <- partition_scatter(cell$cl, data.frame(i = 1:4), parts = 2L)
      see(cell, "rows", partition_collect(partition_shuffle(p, "i"))$i[4L] %in% 1:4, TRUE)
    },
    may = never, calls = TRUE, parts = TRUE
  ),
  share = list(
    does = function(cell) cluster_share(cell$cl, other = numeric(2000)), may = never, calls = TRUE
  ),
  second = list(
    does = function(cell) {
      other <- cluster_start(1)
      see(cell, "another cluster", clusterCall(other, function(i) i, 5), list(5))
      cluster_stop(other)
    },
    may = never
  ),
  forget = list(
    does = function(cell) {
      other <- cluster_start(1)
      task_submit(other, function() 5)
      rm(other)
      gc()
    },
    may = never
  ),
  lose = list(
    does = function(cell) tools::pskill(cell$cl[[length(cell$cl)]]$pid, 9L), may = never
  ),
  stop = list(
    does = function(cell) {
      cl <- cell$cl
      cell$cl <- NULL
      cluster_stop(cl)
    },
    may = is_ours, alters = TRUE
  ),
  stop_one = list(
    does = function(cell) {
      cl <- cell$cl
      cell$cl <- cl[-1L]
      cluster_stop(cl[1L])
    },
    may = is_ours, alters = TRUE
  ),
  shrink = list(
    does = function(cell) cell$cl <- cluster_resize(cell$cl, 1), may = is_ours, alters = TRUE
  ),
  grow = list(
    does = function(cell) cell$cl <- cluster_resize(cell$cl, 2),
    may = never, alters = TRUE, workers = 1L
  ),
  raise = list(
    does = function(cell) {
      facts <- list(message = "the user's own words", call = NULL)
      stop(structure(facts, class = c("user_error", "error", "condition")))
    },
    may = is_user_error, leaves = TRUE
  ),
  misuse = list(
    does = function(cell) cluster_resize(cell$cl, -1), may = is_ours, leaves = TRUE
  ),
  jump = list(does = function(cell) invokeRestart("left"), may = is_left, leaves = TRUE),
  exit = list(does = function(cell) cell$exit("left"), may = is_left, leaves = TRUE),
  interrupt = list(
    does = function(cell) {
      tools::pskill(Sys.getpid(), 2L)
      for (k in 1:500) Sys.sleep(0.01) # tidy: it comes when R looks at it
    },
    may = is_interrupt, leaves = TRUE
  ),
  limit = list(
    does = function(cell) {
      setTimeLimit(elapsed = 0.001)
      for (k in 1:500) Sys.sleep(0.01) # tidy: R looks at limits when it is done, not each time
    },
    may = is_limit, leaves = TRUE
  )
)
