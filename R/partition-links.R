# How workers of a shuffle get each other's blocks: they open segments directly, or use links to
# listeners, whose addresses travel with the tasks and their answers. The links:
# src/shuffle/links.c, handlers.c. A worker's side: worker-shuffle.R. See docs/SHUFFLE.md.

# The options for links, read when a run begins: list(listen, limits, handlers).
links_options <- function(call) {
  mode <- getOption("muster.shuffle_links", "direct")
  if (!identical(mode, "direct") && !identical(mode, "listen")) {
    abort_input("options(muster.shuffle_links)", "\"direct\" or \"listen\"", mode, call)
  }
  limits <- getOption("muster.shuffle_patience", c(2.5, 10))
  good <- is.numeric(limits) && length(limits) == 2L && !anyNA(limits) &&
    all(limits >= 0.05 & limits <= 3600) && limits[1L] <= limits[2L]
  if (!good) {
    abort_input("options(muster.shuffle_patience)",
      "two numbers of seconds from 0.05 to 3600, the second not below the first", limits, call
    )
  }
  handlers <- check_count(getOption("muster.shuffle_handlers", 1L),
    "options(muster.shuffle_handlers)", 1L, 256L, call
  )
  list(listen = identical(mode, "listen"), limits = as.double(limits), handlers = handlers)
}

# The links in a task's message. Only tasks that move rows need them.
links_spec <- function(run, worker, steps) {
  kinds <- vapply(steps, `[[`, "", "kind")
  if (!any(c("split", "gather") %in% kinds)) {
    return(NULL)
  }
  known <- run$shuffle$links
  mine <- known[[as.character(worker)]]
  # The workers to ask for blocks whose location isn't known.
  sources <- do.call(rbind, as.list(do.call(c, lapply(steps, `[[`, "sources"))))
  asked <- sources[sources[, 6L] == 0L, 4L]
  list(
    limits = run$links$limits, handlers = run$links$handlers, needed = run$links$listen,
    known = if (is.null(mine)) NULL else c(mine$epoch, mine$handlers),
    places = unname(known[intersect(names(known), asked)])
  )
}

# Records an answer's data on its worker's listeners: list(worker, epoch, handlers, folder, token).
links_note <- function(shuffle, links) {
  if (!is.null(links)) {
    shuffle$links[[as.character(links$worker)]] <- links
  }
}

# Where a segment of blocks is: its worker's pid, a descriptor of that process, and two numbers that
# let a reader verify it. Pid 0: ask its worker.
links_note_spot <- function(stage, task, spot) {
  if (is.null(stage$spots)) stage$spots <- no_spots(stage)
  stage$spots[task, ] <- spot
}

no_spots <- function(stage) matrix(0L, stage$count, 4L)
