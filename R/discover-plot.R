# A discovery as a map: one square per address, in address order, 16 per row up to 256 addresses, 64
# or 256 per row above that; a panel for each port.

#' Plot a discovery as a map
#'
#' Each address is a square, in address order from the top left, and its colour is the status.
#' Needs package ggplot2.
#'
#' @param x A result of [discover()].
#' @param ... Not used.
#' @returns A ggplot object.
#' @section Errors:
#' `muster_error_input`: ggplot2 isn't installed, or there is no address to show.
#' @examples
#' found <- discover("127.0.0.0/28", port = 1)
#' if (requireNamespace("ggplot2", quietly = TRUE)) plot(found)
#' @export
plot.muster_discovery <- function(x, ...) {
  if (!requireNamespace("ggplot2", quietly = TRUE)) {
    abort_muster("input", "plot() of a discovery needs package ggplot2.",
      hints = "install.packages(\"ggplot2\")"
    )
  }
  .data <- NULL # ggplot2's pronoun for the data, which it finds itself
  map <- discovery_map(x)
  if (!nrow(map)) {
    abort_muster("input", "There is no address to plot.")
  }
  statuses <- c(names(found_is), "not decided")
  colours <- c("#1a9850", "#fdae61", "#d73027", "#e0e0e0", "#7570b3", "#ffffff")
  ggplot2::ggplot(map, ggplot2::aes(
    x = .data[["column"]], y = .data[["row"]], fill = .data[["status"]]
  )) +
    ggplot2::geom_tile(colour = "white") +
    ggplot2::scale_y_reverse() +
    ggplot2::scale_fill_manual(values = stats::setNames(colours, statuses), drop = FALSE) +
    ggplot2::facet_wrap("port", labeller = "label_both") +
    ggplot2::coord_equal() +
    ggplot2::labs(
      x = NULL, y = NULL, fill = NULL,
      title = paste(map$address[1L], "to", map$address[nrow(map)])
    ) +
    ggplot2::theme_minimal() +
    ggplot2::theme(axis.text = ggplot2::element_blank(), panel.grid = ggplot2::element_blank())
}

discovery_map <- function(x) {
  x <- as.data.frame(x)[!is.na(x$address), ]
  at <- match(x$address, unique(x$address)) - 1L
  total <- length(unique(x$address))
  width <- if (total <= 256L) 16L else if (total <= 4096L) 64L else 256L
  data.frame(
    address = x$address, port = x$port, column = at %% width, row = at %/% width,
    status = factor(ifelse(is.na(x$status), "not decided", x$status),
      c(names(found_is), "not decided")
    )
  )
}
