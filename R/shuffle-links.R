# How the workers of a shuffle find each other: pairs that the session makes, or listeners of the
# workers themselves, whose addresses travel with the tasks and their answers. The links:
# src/shuffle/links.c, handlers.c. A worker's side: worker-links.R. See docs/SHUFFLE.md.

# The options that say how, looked at when a run begins: list(listen, limits, handlers). Where no
# process can be sent a descriptor there are no pairs.
links_options <- function(call) {
  can_pair <- is_built_with("sent descriptors")
  mode <- getOption("muster.shuffle_links", if (can_pair) "pairs" else "listen")
  if (!identical(mode, "pairs") && !identical(mode, "listen")) {
    abort_input("options(muster.shuffle_links)", "\"pairs\" or \"listen\"", mode, call)
  }
  if (mode == "pairs" && !can_pair) {
    abort_input("options(muster.shuffle_links)", "\"listen\" on this system", mode, call)
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

# What a task is told about links. Only tasks that move rows need them.
links_spec <- function(run, worker, steps) {
  kinds <- vapply(steps, `[[`, "", "kind")
  if (!any(c("split", "gather") %in% kinds)) {
    return(NULL)
  }
  known <- run$shuffle$links
  mine <- known[[as.character(worker)]]
  list(
    listen = run$links$listen, limits = run$links$limits, handlers = run$links$handlers,
    known = if (is.null(mine)) NULL else c(mine$epoch, mine$handlers),
    places = if ("gather" %in% kinds) unname(known[names(known) != worker])
  )
}

# What an answer says of its worker's listeners: list(worker, epoch, handlers, folder, token).
links_note <- function(shuffle, links) {
  if (!is.null(links)) {
    shuffle$links[[as.character(links$worker)]] <- links
  }
}
