# How a worker of a shuffle listens for others, and learns about them: see shuffle-links.R.

# self: number and epoch. Returns what the session must know, NULL if it does; or a list with
# `wrong`, and `fatal` if the worker can't go on without.
links_begin <- function(links, self) {
  if (is.null(links)) {
    return(NULL)
  }
  .Call(ffi_links_set, self, links$limits)
  for (place in links$places) {
    told <- .Call(
      ffi_links_know, c(place$worker, place$epoch, place$handlers), place$folder, place$token
    )
    if (is.list(told)) {
      text <- paste0("Can't note where other workers listen: ", told$error, ".")
      return(list(wrong = text, fatal = TRUE))
    }
  }
  if (identical(links$known[1L], self[2L]) && links$known[2L] >= links$handlers) {
    return(NULL)
  }
  folder <- file.path(tempdir(), "links")
  token <- .Call(ffi_links_listen, folder, links$handlers)
  if (is.raw(token)) {
    return(list(
      worker = self[1L], epoch = self[2L], handlers = links$handlers, folder = folder,
      token = token
    ))
  }
  list(fatal = links$needed, wrong = paste0(
    "Can't listen for other workers in ", folder, ": ", token$error, " (", token$call, ")."
  ))
}
