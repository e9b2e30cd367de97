# The kill matrix of dplyr's verbs: at each point of the stages that a verb runs a worker is killed,
# the one that got there or the other, and the rows are what they are without a loss, in their
# order, to the last bit.

has_dplyr <- requireNamespace("dplyr", quietly = TRUE) &&
  requireNamespace("tidyselect", quietly = TRUE)

# Workers look for a file named for the point where they are: the one that gets it strikes. Its
# first line says whether itself or the other, the rest are the workers' pids.
strike_setup <- function(folder) {
  bquote(local({
    ns <- asNamespace("muster")
    strike <- function(point) {
      file <- file.path(.(folder), point)
      own <- as.character(Sys.getpid())
      mine <- paste0(file, "-", own)
      if (!file.exists(file) || !suppressWarnings(file.rename(file, mine))) return()
      lines <- readLines(mine)
      victim <- if (lines[1L] == "own") own else setdiff(lines[-1L], own)
      for (pid in as.integer(victim)) tools::pskill(pid, tools::SIGKILL)
    }
    around <- function(name, point_of) {
      inner <- get(name, ns)
      unlockBinding(name, ns)
      assign(name, function(...) {
        point <- point_of(...)
        strike(paste0("before-", point))
        value <- inner(...)
        strike(paste0("after-", point))
        value
      }, ns)
    }
    around("part_step", function(state, step, key) step$kind)
    around("part_call", function(...) "call")
  }))
}

# The verbs with the points that they come to, by the kinds of their steps.
moved <- c("split", "gather")
steps <- c("inner", "call", moved)
verbs <- if (has_dplyr) {
  n <- dplyr::n
  in_groups <- function(p) dplyr::group_by(p, k)
  list(
    filter = list(function(p) dplyr::filter(p, x > 0), "inner"),
    mutate = list(function(p) dplyr::mutate(p, z = x * 2), "inner"),
    totals = list(function(p) dplyr::mutate(p, z = x - mean(x)), c("inner", moved)),
    transmute = list(function(p) dplyr::transmute(p, z = y + 1L, k), "inner"),
    select = list(function(p) dplyr::select(p, dplyr::starts_with("k"), x), "inner"),
    rename = list(function(p) dplyr::rename(p, key = k), "inner"),
    relocate = list(function(p) dplyr::relocate(p, x), "inner"),
    group_by = list(function(p) dplyr::group_by(p, odd = y %% 2L), "inner"),
    summarise = list(
      function(p) dplyr::summarise(in_groups(p), m = mean(x), n = n()), c("inner", moved)
    ),
    whole = list(function(p) dplyr::summarise(in_groups(p), m = median(x)), steps),
    all = list(function(p) dplyr::summarise(p, m = mean(x), q = median(x)), steps),
    count = list(function(p) dplyr::count(p, k, f), c("inner", moved)),
    tally = list(function(p) dplyr::tally(in_groups(p), x), c("inner", moved)),
    distinct = list(function(p) dplyr::distinct(p, k, .keep_all = TRUE), c("inner", moved)),
    grouped_mutate = list(
      function(p) dplyr::mutate(in_groups(p), z = cumsum(x), r = runif(n())), c("call", moved)
    ),
    grouped_transmute = list(
      function(p) dplyr::transmute(in_groups(p), z = rank(x)), c("call", moved)
    ),
    grouped_filter = list(
      function(p) dplyr::filter(p, x > mean(x), .by = k), c("call", moved)
    ),
    slice = list(function(p) dplyr::slice(in_groups(p), c(1, n())), c("call", moved)),
    slice_sample = list(function(p) dplyr::slice_sample(in_groups(p), n = 3), c("call", moved)),
    slice_head = list(function(p) dplyr::slice_head(p, n = 25), "inner"),
    slice_tail = list(function(p) dplyr::slice_tail(p, n = 25), "inner"),
    slice_min = list(function(p) dplyr::slice_min(p, y, n = 3), c("call", moved)),
    slice_max = list(
      function(p) dplyr::slice_max(in_groups(p), x, n = 2), c("inner", "call", moved)
    ),
    inner_join = list(function(p) dplyr::inner_join(p, side, by = "k"), "join"),
    left_join = list(function(p) dplyr::left_join(p, side, by = c("k", "f")), "join"),
    join_by_key = list(function(p) partition_join(p, side, "k", parts = 4L), moved),
    right_join = list(function(p) dplyr::right_join(p, side, by = "k"), moved),
    full_join = list(function(p) dplyr::full_join(p, side, by = "k"), moved),
    semi_join = list(function(p) dplyr::semi_join(p, side, by = "k"), "join"),
    anti_join = list(function(p) dplyr::anti_join(p, side, by = "k"), "join"),
    row_mutate = list(function(p) {
      dplyr::mutate(dplyr::rowwise(p), z = max(x, y), r = runif(1))
    }, "call"),
    row_summarise = list(
      function(p) dplyr::summarise(dplyr::rowwise(p, k), z = sum(x, y)), "call"
    ),
    nest_join = list(function(p) dplyr::nest_join(p, side, by = "k"), "join"),
    pull = list(function(p) dplyr::pull(p, x), "inner")
  )
}
rows_of_test <- function() {
  local_seed(3)
  data.frame(
    k = sample(c("a", "b", NA, "\u00e4"), 90, TRUE), y = sample(9L, 90, TRUE), x = rnorm(90),
    f = factor(sample(c("u", "v"), 90, TRUE), levels = c("v", "none", "u"))
  )
}
side <- data.frame(k = c("a", NA, "z", "a"), f = factor(c("u", "v", "u", "v")), w = 1:4 / 3)

rows_of <- function(x) if (inherits(x, "muster_partition")) dplyr::collect(x) else x

test_cluster("A worker that is killed at any point of a verb changes nothing, nor the order", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  limit_time(120)
  local_settings(muster.quiet = TRUE)
  data <- rows_of_test()
  points <- c(
    "before-inner", "before-call", "after-join", "after-split", "before-gather", "after-gather"
  )
  folder <- local_folder()
  cl <- local_cluster(2, setup = strike_setup(folder))
  for (name in names(verbs)) {
    run <- function(p) {
      local_seed(5)
      verbs[[name]][[1L]](p)
    }
    want <- rows_of(run(partition_scatter(cl, data, parts = 4)))
    # The one or the other, in turn.
    turn <- match(name, names(verbs)) %% 2L + 1L
    for (at in seq_along(points)) {
      kind <- sub(".*-", "", points[at])
      p <- partition_scatter(cl, data, parts = 4)
      file <- file.path(folder, points[at])
      writeLines(c(c("own", "other")[(turn + at) %% 2L + 1L], node_pids(cl)), file)
      got <- run(p)
      expect_identical(file.exists(file), !kind %in% verbs[[name]][[2L]],
        info = paste(name, points[at])
      )
      unlink(file)
      expect_identical(rows_of(got), want, info = paste(name, points[at]))
    }
    p <- partition_scatter(cl, data, parts = 4)
    tools::pskill(node_pids(cl)[turn], tools::SIGKILL)
    got <- run(p)
    expect_identical(rows_of(got), want, info = paste(name, "before"))
    tools::pskill(node_pids(cl)[3L - turn], tools::SIGKILL)
    expect_identical(rows_of(got), want, info = paste(name, "after"))
  }
})
