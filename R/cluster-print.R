# Only print methods print.

#' @export
print.muster_cluster <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.muster_cluster <- function(x, ...) {
  hosts <- unique(vapply(x, .subset2, "", "host"))
  starts <- unique(vapply(x, .subset2, "", "start"))
  words <- c(fork = "forked", spawn = "booted")[starts]
  paste0(
    "muster cluster with ", length(x), if (length(x) == 1L) " worker" else " workers",
    " on host ", paste(sQuote(hosts), collapse = ", "),
    " (", paste(c(words, threads_text(x)), collapse = ", "), ")"
  )
}

# Packages take a limit on their threads without a word, so it's said here.
threads_text <- function(x) {
  threads <- unique(unlist(lapply(x, .subset2, "threads")))
  if (length(threads) == 1L) {
    paste0(threads, if (threads == 1L) " thread" else " threads", if (length(x) > 1L) " each")
  }
}

#' @export
print.muster_node <- function(x, ...) {
  cat("muster worker ", .subset2(x, "rank"), " on host ", sQuote(.subset2(x, "host")),
    ", pid ", .subset2(x, "pid"), "\n",
    sep = ""
  )
  invisible(x)
}
