# Tables and figures of runs that play.R has played.

by_setting <- function(runs) {
  order <- intersect(c(fetch_settings, "muster"), runs$setting)
  split(runs, factor(runs$setting, order))
}

by_cell <- function(runs) split(runs, list(runs$hosts, runs$block), drop = TRUE)

# A section of bench/README.md, as lines of Markdown.
fetch_section <- function(settings, sweep, facts) {
  c(
    "## fetch: Do fetches of a shuffle stall?", "",
    "Times before a second attempt are a fifth of the original's; see above. Where more than half",
    "of the runs stalled, the median is that of a stalled run: the quickest tenth tells more.", "",
    setting_table(settings), "",
    "![Seconds of each run, one panel a setting](fetch-runs.png)", "",
    "The same with one handler, by bytes of a block and number of hosts (each host brings 20 map",
    "tasks, 10 reducers and a handler):", "",
    sweep_table(sweep), "",
    "![Runs that stalled and packets that were dropped, by size](fetch-sweep.png)", "",
    paste0("Again: `make bench-fetch`. ", paste(names(facts), facts, collapse = "; "), ".")
  )
}

setting_table <- function(runs) {
  header <- c(
    "setting", figure_names, "second attempts", "right"
  )
  rows <- vapply(by_setting(runs), function(x) {
    table_line(c(paste0("`", x$setting[1L], "`"), figures_of(x), sum(x$copies), right_of(x)))
  }, "")
  c(header_line(header), unname(rows))
}

sweep_table <- function(runs) {
  header <- c(
    "block", "hosts", figure_names, "right"
  )
  rows <- vapply(by_cell(runs), function(x) {
    table_line(c(size_text(x$block[1L]), x$hosts[1L], figures_of(x), right_of(x)))
  }, "")
  c(header_line(header), unname(rows))
}

figure_names <- c(
  "runs", "quickest tenth", "median", "slowest", "slowest / median", "slowest / quickest tenth",
  "runs that stalled", "runs with a full queue", "packets it dropped"
)
figures_of <- function(x) {
  figures <- c(quiet_of(x), median(x$seconds), max(x$seconds))
  c(
    nrow(x), sprintf("%.3f s", figures), sprintf("%.1f", figures[3L] / figures[2:1]),
    sum(fetch_stalled(x)), sum(x$overflows > 0), sum(x$overflows)
  )
}

# What a run takes that isn't disturbed, also where more than half of them are.
quiet_of <- function(x) unname(quantile(x$seconds, 0.1, type = 1))

right_of <- function(x) if (all(x$right == 1)) "all" else paste(sum(x$right == 1), "runs")
size_text <- function(bytes) paste(bytes / 1024, "KiB")

colours <- c("stalled" = "#c0392b", "did not" = "#2c6fa6")

save_png <- function(plot, file, width, height) {
  grDevices::png(file, width = width, height = height, res = 96)
  on.exit(grDevices::dev.off())
  print(plot)
}

# Run number against seconds, one panel a setting.
plot_settings <- function(runs, file) {
  parts <- by_setting(runs)
  runs <- do.call(rbind, lapply(parts, function(x) {
    transform(x, run_state = ifelse(fetch_stalled(x), "stalled", "did not"))
  }))
  runs$setting <- factor(runs$setting, names(parts))
  plot <- ggplot2::ggplot(runs, ggplot2::aes(.data$run, .data$seconds)) +
    ggplot2::geom_point(ggplot2::aes(colour = .data$run_state), size = 1) +
    ggplot2::facet_wrap("setting", ncol = 3) +
    ggplot2::scale_y_log10() +
    ggplot2::scale_colour_manual(values = colours, name = NULL) +
    ggplot2::labs(x = "run", y = "seconds, log scale") +
    ggplot2::theme_bw() +
    ggplot2::theme(legend.position = "bottom")
  save_png(plot, file, 900, 560)
}

# How often runs of one size stalled, and what the kernel dropped.
plot_sweep <- function(runs, file) {
  cells <- do.call(rbind, lapply(by_cell(runs), function(x) {
    data.frame(
      hosts = x$hosts[1L], block = size_text(x$block[1L]),
      what = c("runs that stalled, %", "packets dropped, a run"),
      value = c(100 * mean(fetch_stalled(x)), mean(x$overflows))
    )
  }))
  plot <- ggplot2::ggplot(cells, ggplot2::aes(.data$hosts, .data$value, colour = .data$block)) +
    ggplot2::geom_line() +
    ggplot2::geom_point(size = 2) +
    ggplot2::facet_wrap("what", scales = "free_y") +
    ggplot2::scale_x_continuous(breaks = sort(unique(cells$hosts))) +
    ggplot2::expand_limits(y = 0) +
    ggplot2::labs(x = "hosts", y = NULL, colour = "block") +
    ggplot2::theme_bw()
  save_png(plot, file, 800, 360)
}
