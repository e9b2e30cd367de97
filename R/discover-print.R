# Prints a discovery: what was found, and how many addresses were not.

# The maximum number of rows that print() shows.
discovery_rows_max <- 20L

#' @export
print.muster_discovery <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

#' @export
format.muster_discovery <- function(x, ...) {
  if (!all(c("address", "port", "host", "status", "rtt_ms", "error") %in% names(x))) {
    return(utils::capture.output(print(as.data.frame(unclass(x)))))
  }
  there <- x[which(x$status %in% c("open", "foreign") | is.na(x$address)), ]
  shown <- utils::head(there, discovery_rows_max)
  c(
    discovery_head(x), vapply(seq_len(nrow(shown)), function(i) row_text(shown[i, ]), ""),
    if (nrow(there) > nrow(shown)) {
      paste("... and", nrow(there) - nrow(shown), "more that are open or foreign")
    }
  )
}

discovery_head <- function(x) {
  counts <- table(factor(x$status, names(found_is)))
  counts <- counts[counts > 0L]
  open <- sum(is.na(x$status))
  words <- c(paste(big(counts), names(counts)), if (open > 0L) paste(big(open), "not decided"))
  took <- attr(x, "elapsed_s")
  paste0(
    big(nrow(x)), if (nrow(x) == 1L) " probe" else " probes",
    if (!is.null(took)) paste0(" in ", format(round(took, 3L), nsmall = 2L), " s"),
    if (length(words)) paste0(": ", paste(words, collapse = ", "))
  )
}

row_text <- function(row) {
  where <- if (is.na(row$address)) row$host else row$address
  if (grepl(":", where, fixed = TRUE)) where <- paste0("[", where, "]")
  paste0(
    format(row$status, width = 8L), " ", where, ":", row$port,
    if (!is.na(row$host) && !is.na(row$address)) paste0(" (", row$host, ")"),
    if (!is.na(row$rtt_ms)) paste0(", ", format(signif(row$rtt_ms, 2L)), " ms"),
    if (!is.na(row$error)) paste0(": ", row$error)
  )
}

big <- function(n) format(n, big.mark = ",", decimal.mark = ".", trim = TRUE)
