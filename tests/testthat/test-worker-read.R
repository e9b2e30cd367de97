# Columns of csv are identical to read.csv()'s of all rows, whatever is in the text and wherever it
# is cut: random texts, by fixed seeds, without a cluster.

# What partition_read() has of a csv file in so many ranges of bytes, or whole.
read_in_pieces <- function(path, count = 1L, columns = NULL) {
  item <- list(path = path, sign = file_sign(path), kind = "csv")
  items <- list(item)
  names <- if (count > 1L) csv_to_cut(item)
  if (!is.null(names)) {
    size <- item$sign[1L]
    at <- floor(size * (0:count) / count)
    answers <- lapply(seq_len(count), function(k) {
      state <- new.env()
      part_quotes(state, list(items = list(c(item, list(from = at[k], to = at[k + 1L])))))
      state$result
    })
    before <- cumsum(c(0, vapply(answers, `[[`, 0, "quotes")))
    ends <- vapply(seq_len(count)[-1L], function(k) answers[[k]]$ends[before[k] %% 2 + 1], 0)
    items <- pieces_of(item, names, unique(c(0, ends[!is.na(ends) & ends < size], size)))
  }
  states <- lapply(items, function(item) {
    state <- new.env()
    part_read(state, list(items = list(item), columns = columns))
    state
  })
  kinds <- lapply(states, function(state) state$told$kinds)
  all <- unify_kinds(kinds)
  Map(function(state, one, item) {
    wrong <- all[names(one)][all[names(one)] != one]
    if (length(wrong)) part_retype(state, list(items = list(item), kinds = as.list(wrong)))
  }, states, kinds, items)
  bind_frames(lapply(states, function(state) state$data))
}

csv_cells <- list(
  c("1", "-2", "+3", "007", "NA", ""), c("1", "2147483647", "-2147483647", "NA"),
  c("1", "2147483648", "-2147483648", ""), c("-0", "5", "NA"), c("-0", "0.5", "-0.0", ""),
  c("0.1", "1.", ".5", "-.25", "3", "NA"), c("1e5", "1E-7", "2.5e+10", "1e400", "1e-400", "0e9999"),
  c("123456789012345678", "1234567890123456789", "12345678901234567890", "0.12345678901234567891"),
  c("00000000000000000000012", "3"), c("99999999999999999999999999", "1"),
  c("1", "0x1A", "2"), c("Inf", "-inf", "NaN", "1.5"), c("T", "FALSE", "NA", ""), c("T", "1", "a"),
  c("1i", "2+3i", "4", "NA"), c(" 1", "2 ", "3"), c(" ", "1", "", "\t"), c("", "NA", "\"NA\""),
  c("1L", "2"), c("1e", "1e+", "1"), c(".", "-", "+", "1"), c("NA", "NA ", "1"), c("nan", "1"),
  c("2020-01-02", "2021-12-31", ""), c("x", "yy", "a longer text", "a longer texu", "NA", ""),
  c("\"x\"", "\"y,z\"", "\"two\nlines\"", "\"\"", "\"NA\""), c("\"1\"", "\"2.5\"", "3", "\" 4\""),
  c("\"a\"\"b\"", "a\"b,c\"d", "\"a\" ", " \"a,b\"", "\"\"\"\"", "a\"\"b", "\"a\"b\"\"\"c\""),
  c("\"a\r\nb\"", "\"\r\n\"", "c"), c("\u00e4", "\u00e4\u00f6", "z"), c("x\xe4", "y"),
  c("\"a\"\xe4", "b"),
  c("1", "#2", "'3'"), c("1;2", "a\\\"b\"", "\\n"), c("a\rb", "1"), c("\xef\xbb\xbf1", "2"),
  c("x\xff", "1")
)

# One random text, as bytes.
csv_text <- function() {
  fields <- sample(c(1:4, 9L), 1L)
  pick <- function(x, n = 1L) x[sample.int(length(x), n, TRUE)]
  odd <- runif(1) < 0.5
  eol <- pick(c("\n", "\n", "\n", "\r\n", "\r\n", if (odd) "\r"))
  pools <- pick(csv_cells, fields)
  rows <- sample(c(0:8, 30L, 250L), 1L)
  # Columns that are something else far down.
  late <- if (runif(1) < 0.3) pick(csv_cells, fields) else pools
  lines <- vapply(seq_len(rows), function(row) {
    n <- if (odd && runif(1) < 0.1) sample.int(fields + 2L, 1L) else fields
    now <- if (row > 0.9 * rows) late else pools
    cells <- vapply(seq_len(n), function(k) pick(now[[(k - 1L) %% fields + 1L]]), "")
    line <- paste(cells, collapse = ",")
    if (odd && runif(1) < 0.05) line <- pick(c("", " ", "\t", "\"\"", ",", line))
    line
  }, "")
  header <- pick(c("a", "b c", "\"d\"", "\"e,f\"", "g", "a", "", "\u00e4", "NA", "1"), fields)
  if (runif(1) < 0.7) header <- letters[seq_len(fields)]
  text <- paste(c(paste(header, collapse = ","), lines), collapse = eol)
  if (odd && runif(1) < 0.1) text <- paste0(pick(c("\xef\xbb\xbf", "\n", "\r\n", "\n\n")), text)
  if (odd && runif(1) < 0.05) text <- paste0(text, ",\"open")
  if (runif(1) < 0.8) text <- paste0(text, eol)
  charToRaw(text)
}

num_bits <- function(x) writeBin(as.double(x), raw())

columns_of <- function(code) {
  tryCatch({
    frame <- suppressWarnings(code)
    if (.row_names_info(frame) > 0L) "row names" else c(list(nrow(frame)), as.list(frame))
  }, error = function(e) "error")
}

test_that("Random csv is read as by read.csv(), whole and in pieces, all columns and some", {
  local_seed(1)
  path <- tempfile(fileext = ".csv")
  on.exit(unlink(path))
  differ <- character()
  plain <- 0L
  for (i in 1:700) {
    bytes <- csv_text()
    writeBin(bytes, path)
    want <- columns_of(utils::read.csv(path))
    # Row names, and two columns of one name, are other tests'.
    if (identical(want, "row names") || anyDuplicated(names(want))) next
    same <- identical(columns_of(read_in_pieces(path)), want)
    # R reads the first lines twice, and loses its way if a quote is open at their end.
    if (!grepl("\"open\\s*$", rawToChar(bytes), useBytes = TRUE)) {
      same <- same && identical(columns_of(read_in_pieces(path, 2L + i %% 4L)), want)
      if (is.list(want)) {
        some <- 1L + sample.int(length(want) - 1L, 1L)
        got <- columns_of(read_in_pieces(path, 1L + i %% 4L, names(want)[some]))
        same <- same && identical(got, want[c(1L, some)])
      }
    }
    if (!same) differ <- c(differ, deparse(rawToChar(bytes)))
    item <- list(path = path, sign = file_sign(path))
    if (is.list(want)) {
      names <- names(want)[-1L]
      plain <- plain + !is.null(csv_plain(item, names, names[1L], NULL))
    }
  }
  expect_identical(differ, character())
  # Most of these aren't left to R.
  expect_gt(plain, 350L)
})

test_that("Numbers are type.convert()'s, to the last bit", {
  local_seed(1)
  path <- tempfile(fileext = ".csv")
  on.exit(unlink(path))
  n <- 1e5
  whole <- sample(c("0", "", "000"), n, TRUE)
  digits <- function(most) {
    text <- paste0(sample.int(1e9, n, TRUE), sample.int(1e9, n, TRUE), sample.int(1e3, n, TRUE))
    substr(text, 1L, sample.int(most, n, TRUE))
  }
  text <- paste0(sample(c("", "-", "+"), n, TRUE), whole, digits(12L), ".", digits(19L),
    sample(c("", "", "", "e5", "E-3", "e+15", "e-22", "e27", "e28", "e-300", "e308"), n, TRUE)
  )
  shortest <- format(runif(1e4) * 10^sample(-9:9, 1e4, TRUE), digits = 17L)
  text <- c(text, trimws(shortest), digits(21L)[1:1e4])
  writeLines(c("x", text), path)
  item <- list(path = path, sign = file_sign(path))
  got <- csv_plain(item, "x", "x", NULL)$x
  expect_identical(num_bits(got), num_bits(utils::type.convert(text, as.is = TRUE)))
})

test_that("What R's connections treat in ways of their own is left to R", {
  path <- tempfile(fileext = ".csv")
  on.exit(unlink(path))
  read <- function(text) {
    writeBin(charToRaw(text), path)
    csv_plain(list(path = path, sign = file_sign(path)), c("a", "b"), c("a", "b"), "b")
  }
  expect_identical(read("a,b\r\n1,2\r\n\"3\",\"x\"\"\r\ny\"\r\n"),
    list(a = c(1L, 3L), b = c("2", "x\"\ny"))
  )
  expect_identical(read("a,b\n"), list(a = logical(), b = character()))
  for (odd in c("a,b\r1,2\r", "a,b\n1,\xff\n", "a,b\n1,\"2\n", "a,b\n\xef\xbb\xbf1,2\n")) {
    expect_null(read(odd), info = odd)
  }
  before <- options(encoding = "latin1")
  on.exit(options(before), add = TRUE)
  expect_null(read("a,b\n1,2\n"))
})
