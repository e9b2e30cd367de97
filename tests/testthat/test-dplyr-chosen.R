# Selections of columns, whose predicates see all rows: dplyr with the whole data is the oracle.

skip_if_not_installed("dplyr", "1.0.8")

test_that("a predicate asks for the type if its code does nothing else", {
  own <- function(x) is.numeric(x) && !is.factor(x)
  yes <- list(is.numeric, is.factor, own, function(y) inherits(y, "Date"),
    function(x) "Date" %in% class(x), function(x) class(x)[1L] == "factor", function(x) TRUE,
    rlang::as_function(~ is.character(.x) || base::is.list(.x)),
    rlang::as_function(~ !is.numeric(.)), rlang::is_character
  )
  for (fun in yes) expect_true(asks_for_type(fun), info = deparse(fun)[1L])
  is.character <- function(x) length(x) > 3L
  no <- list(is.na, anyNA, is.character, function(x) any(is.na(x)), function(x) is.character(x),
    function(x) length(x) > 1L, function(x) is.numeric(x) && all(x > 0), function(x) is.numeric(-x),
    function(x, n) is.numeric(x), function(x) rlang::is_character(x, n = 3L),
    function(x) is.numeric(get("x")), function(x) mode(match.call()) == "call",
    rlang::as_function(~ max(.x) > 1)
  )
  for (fun in no) expect_false(asks_for_type(fun), info = deparse(fun)[1L])
})

test_cluster("Columns are chosen as dplyr chooses them from all rows", {
  for (verb in c("select", "mutate", "filter", "summarise", "group_by", "relocate", "transmute",
    "rowwise", "across", "c_across", "arrange", "distinct", "count")) {
    assign(verb, getExportedValue("dplyr", verb))
  }
  local_seed(1)
  cl <- local_cluster(2)
  # Each part has rows, and each predicate another answer in one of them.
  d <- dplyr::tibble(
    g = c("a", "b", "a", "c"), a = c(NA, 1, 2, 3), b = 1:4, f = factor(c("u", "v", "u", "w")),
    s = c("x", "y", "z", "q"), day = as.Date("2020-01-01") + 0:3
  )
  p <- partition_scatter(cl, d, parts = 3)
  any_na <- function(x) any(is.na(x))
  big <- function(x) is.numeric(x) && max(x, na.rm = TRUE) > 3
  chosen <- function() tidyselect::where(any_na)
  same <- function(pipe) {
    want <- suppressMessages(pipe(d))
    got <- suppressMessages(pipe(p))
    if (inherits(got, "muster_partition")) got <- dplyr::collect(got)
    told <- deparse(body(pipe))[1L]
    if (!is.data.frame(want)) {
      return(expect_identical(got, want, info = told))
    }
    want <- dplyr::ungroup(want)
    got <- dplyr::ungroup(got)
    expect_identical(names(got), names(want), info = told)
    expect_identical(lapply(got, class), lapply(want, class), info = told)
    expect_equal(sorted_rows(got), sorted_rows(want), info = told)
  }
  refused <- function(code, text) expect_error(code, text, class = "muster_error_input")

  test_that("by select(), relocate() and rename_with()", {
    same(function(d) select(d, where(~ any(is.na(.x)))))
    same(function(d) select(d, !where(any_na)))
    same(function(d) select(d, g, new = where(big)))
    same(function(d) select(d, where(is.numeric) & !where(any_na)))
    same(function(d) select(d, -where(is.character), dplyr::starts_with("g")))
    same(function(d) select(d, where(function(x) is.factor(x) || inherits(x, "Date"))))
    same(function(d) select(d, where("is.numeric")))
    same(function(d) select(d, !!any_na))
    same(function(d) select(d, chosen()))
    same(function(d) select(d, if (TRUE) where(any_na)))
    same(function(d) select(d, b:s, -f))
    same(function(d) select(group_by(d, g), where(any_na)))
    same(function(d) select(rowwise(d, g), where(any_na)))
    same(function(d) relocate(d, where(any_na)))
    same(function(d) relocate(d, g, .after = where(any_na)))
    same(function(d) relocate(d, first = s, .before = b))
    same(function(d) dplyr::rename_with(d, toupper, where(big)))
    refused(select(p, where(is.na)), "`where\\(is.na\\)` for column `g`")
    expect_error(select(p, where(function(x) stop("own"))), "own")
    expect_error(partition_collect(select(p, nowhere)), "nowhere")
  })

  test_that("by across() and if_any(), without groups", {
    same(function(d) mutate(d, across(where(any_na), ~ 0)))
    same(function(d) mutate(d, z = b * 2, across(where(big), ~ .x + 1)))
    same(function(d) mutate(d, z = b + 10, y = dplyr::if_all(where(big), ~ .x > 2)))
    same(function(d) mutate(d, z = dplyr::if_any(where(is.numeric), ~ .x > 2)))
    same(function(d) filter(d, dplyr::if_any(where(any_na), is.na)))
    same(function(d) filter(d, dplyr::if_all(where(big), ~ .x > 1)))
    same(function(d) summarise(d, across(where(big), max)))
    same(function(d) arrange(d, across(where(big), dplyr::desc)))
    same(function(d) distinct(d, across(where(~ dplyr::n_distinct(.x) < 4))))
    same(function(d) count(d, across(where(is.factor))))
  })

  test_that("by no columns", {
    same(function(d) mutate(d, across(NULL, ~ .x + 1)))
    same(function(d) mutate(d, across(c(), ~ .x + 1)))
    same(function(d) mutate(group_by(d, g), across(NULL, ~ 1)))
    same(function(d) summarise(d, across(NULL, max), n = dplyr::n()))
    same(function(d) dplyr::group_vars(group_by(d, across(NULL))))
    same(function(d) mutate(d, z = dplyr::if_any(c(), ~ .x > 2)))
    same(function(d) filter(d, dplyr::if_any(c(), is.na)))
    same(function(d) filter(d, dplyr::if_all(c(), is.na)))
  })

  test_that("with groups, and row by row", {
    same(function(d) mutate(group_by(d, g), across(where(any_na), ~ 0)))
    same(function(d) mutate(group_by(d, g), across(.fns = ~ 1, .cols = where(any_na))))
    same(function(d) mutate(group_by(d, g), z = b, across(where(is.numeric), ~ 0)))
    same(function(d) transmute(group_by(d, g), across(where(any_na), ~ 1)))
    same(function(d) filter(group_by(d, g), dplyr::if_any(where(any_na), is.na)))
    same(function(d) summarise(group_by(d, g), across(where(any_na), ~ sum(.x, na.rm = TRUE))))
    same(function(d) summarise(group_by(d, g), n = dplyr::n(), across(where(any_na), length)))
    same(function(d) mutate(rowwise(d), z = sum(c_across(where(big)))))
    same(function(d) mutate(rowwise(d), z = sum(c_across(where(is.numeric)), na.rm = TRUE)))
    same(function(d) mutate(rowwise(d), z = sum(sapply(1, function(i) c_across(where(big))))))
    same(function(d) summarise(rowwise(d, g), z = sum(c_across(where(big)))))
    same(function(d) filter(rowwise(d), dplyr::if_any(where(any_na), is.na)))
    refused(mutate(group_by(p, g), z = b, across(where(any_na), ~ 0)), "any_na")
  })
})

test_cluster("Sets and summaries have dplyr's types, and take what dplyr takes", {
  local_seed(1)
  cl <- local_cluster(1)
  d <- dplyr::tibble(g = c("a", "b"), b = 1:2, f = factor(c("u", "v")))
  p <- partition_scatter(cl, d, parts = 2)
  same <- function(pipe) {
    want <- as.data.frame(pipe(d))
    got <- as.data.frame(pipe(p))
    expect_identical(lapply(got, class), lapply(want, class))
    expect_equal(sorted_rows(got), sorted_rows(want))
  }
  refused <- function(code, text) expect_error(code, text, class = "muster_error_input")
  number <- function(d, add) dplyr::transmute(d, b = b + add)
  for (set in list(dplyr::union, dplyr::union_all, dplyr::intersect, dplyr::setdiff)) {
    same(function(d) set(d["b"], number(d, 0)))
    same(function(d) set(d["b"], number(d, 0.5)))
    same(function(d) set(d["f"], dplyr::transmute(d, f = factor(g, levels = c("b", "a")))))
    refused(set(p["b"], dplyr::transmute(p, b = g)), "types")
    refused(set(p, d, d), "...")
  }
  refused(dplyr::setequal(p, d, d), "...")
  refused(dplyr::group_by(p, add = TRUE), "`.add")
  refused(dplyr::group_by(p, .dots = "g"), "`.dots`")
  same(function(d) dplyr::count(dplyr::rename(d, add = g), add))
  same(function(d) {
    dplyr::summarise(dplyr::group_by(dplyr::filter(d, b > 5), g), m = mean(b), l = list(b),
      w = "a", k = 1L, med = median(b), f = dplyr::first(f)
    )
  })
})
