# Prints clusters of makeClusterPSOCK() as parallelly does.

#' @export
print.muster_psock <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.muster_psock <- function(x, ...) {
  hosts <- vapply(unclass(x), host_text, "")
  if (length(x) > 0L && all(vapply(unclass(x), is_copy, NA))) {
    return(paste0(
      "Copy of a socket cluster with ", number_of(length(x), "node"), hosts_text(hosts),
      ", which only the process that started it can use"
    ))
  }
  lost <- which(vapply(unclass(x), is_lost, NA))
  paste0(
    "Socket cluster with ", number_of(length(x), "node"), hosts_text(hosts),
    if (length(lost)) {
      paste0(
        ". ", number_of(length(lost), "node"), " (", paste0("#", lost, collapse = ", "), ")",
        if (length(lost) == 1L) " has" else " have", " ended"
      )
    }
  )
}

capitalised <- function(text) paste0(toupper(substr(text, 1L, 1L)), substring(text, 2L))

number_of <- function(n, what) paste0(n, " ", what, if (n != 1L) "s")

hosts_text <- function(hosts) {
  if (!length(hosts)) {
    return(NULL)
  }
  counts <- table(factor(hosts, unique(hosts)))
  if (length(counts) == 1L) {
    return(paste0(" on ", names(counts)))
  }
  each <- paste0(counted_each(counts), names(counts))
  paste0(" where ", paste(each, collapse = ", "))
}

counted_each <- function(counts) {
  each <- function(n) paste0(number_of(n, "node"), if (n == 1L) " is on " else " are on ")
  vapply(counts, each, "")
}

host_text <- function(node) {
  info <- if (is.null(node)) NULL else node[["session_info"]]
  host <- if (is.null(node)) NA_character_ else node[["host"]]
  said <- if (is.null(info)) {
    "R version and platform not queried"
  } else {
    paste0(info$r$version.string, ", platform ", info$r$platform)
  }
  paste0("host ", sQuote(host), " (", said, ")")
}

# Read from a file, or in another process than the one that started its worker.
is_copy <- function(node) {
  if (inherits(node, "muster_node")) {
    identical(.Call(ffi_node_outcome, node), outcomes[["foreign"]])
  } else {
    inherits(node, "muster_stock_node") && is_stock_copy(node)
  }
}

# Its pointer is NULL when it was read from a file.
is_stock_copy <- function(node) {
  !identical(node$owner, Sys.getpid()) || is.null(.Call(ffi_hidden, node$notes))
}

# Stopped, or lost and not to be replaced.
is_lost <- function(node) {
  if (inherits(node, "muster_node")) {
    status <- .Call(ffi_node_look, node)
    return(is.integer(status) || status$state %in% c("lost", "stopped"))
  }
  if (inherits(node, "muster_stock_node")) {
    return(!isTRUE(.Call(ffi_stock_state, node$link)$open))
  }
  FALSE
}
