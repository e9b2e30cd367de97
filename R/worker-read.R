# A worker's side of partition_read(): files, or pieces of them, become a part. The session's side
# is partition-read.R.
#
# csv: columns are numbers where all of their cells are plain ones, else text, which is converted
# once the type is known: for the part here, and over all parts by the session, which has parts
# with another type read again (part_retype()). So a column is the same as if read.csv() read all
# rows together.

# step: items (list of files, see read_items()), columns (chosen ones, or NULL), order (the names in
# order, as far as known, or NULL), job, name of the reader if it is the user's.
part_read <- function(state, step) {
  read <- lapply(step$items, function(item) {
    state$file <- item$path
    check_sign(item)
    one <- read_item(item, step)
    check_sign(item)
    one
  })
  kinds <- NULL
  if (!is.null(read[[1L]]$cells)) {
    kinds <- Map(cell_kinds, read, step$items)
    for (i in seq_along(kinds)) check_same_columns(state, kinds, step$items, i)
    kinds <- unify_kinds(kinds)
    read <- Map(function(one, item) {
      state$file <- item$path
      list(columns = convert_cells(one$cells, item, kinds), rows = one$rows)
    }, read, step$items)
  }
  frames <- Map(finish_item, read, step$items, MoreArgs = list(step = step))
  for (i in seq_along(frames)) check_same_columns(state, frames, step$items, i)
  frames[-1L] <- lapply(frames[-1L], take_columns_of, names(frames[[1L]]))
  state$file <- NULL
  state$data <- if (length(frames) == 1L) frames[[1L]] else bind_frames(frames)
  state$told <- list(kinds = kinds, names = names(state$data))
}

# The files of a part must have the same columns, in any order: names the one that differs.
check_same_columns <- function(state, frames, items, i) {
  state$file <- items[[i]]$path
  if (!identical(sort(names(frames[[i]])), sort(names(frames[[1L]])))) {
    part_error(paste0(
      "Files of one part have different columns: ", items[[1L]]$path, " has ",
      column_list(names(frames[[1L]])), ", and ", items[[i]]$path, " has ",
      column_list(names(frames[[i]])), ". `.columns` chooses those that all have."
    ))
  }
}

# Reads columns that have another type in other parts again, as these kinds.
part_retype <- function(state, step) {
  kinds <- unlist(step$kinds)
  # A column of only NA loses nothing as a number.
  blank <- vapply(names(kinds), function(name) {
    column <- .subset2(state$data, name)
    kinds[[name]] != "character" && is.logical(column) && all(is.na(column))
  }, NA)
  again <- names(kinds)[!blank]
  columns <- as.list(state$data)
  for (name in names(kinds)[blank]) {
    columns[[name]] <- convert_text(rep(NA_character_, frame_rows(state$data)), kinds[[name]], name)
  }
  if (length(again)) {
    read <- lapply(step$items, function(item) {
      state$file <- item$path
      check_sign(item)
      texts <- again[!kinds[again] %in% number_kinds]
      cells <- convert_cells(read_csv_item(item, again, texts)$cells, item, kinds)
      check_sign(item)
      cells
    })
    state$file <- NULL
    columns[again] <- lapply(again, function(name) bind_columns(lapply(read, `[[`, name)))
  }
  state$data <- new_frame(columns, frame_rows(state$data))
}

# A file must be as the session first saw it: parts that are read again must not differ.
check_sign <- function(item) {
  if (is.null(item$sign)) {
    return()
  }
  now <- file_sign(item$path)
  if (is.na(now[1L])) {
    part_error("The file is gone: it was there when partition_read() was called.")
  }
  if (!identical(now, item$sign)) {
    part_error(paste0(
      "The file has changed since partition_read() was called: it had ", item$sign[1L],
      " bytes and was last written at ", sign_time(item$sign), "; now it has ", now[1L],
      " bytes, written at ", sign_time(now), "."
    ))
  }
}

file_sign <- function(path) {
  info <- file.info(path, extra_cols = FALSE)
  c(info$size, as.double(info$mtime))
}

sign_time <- function(sign) {
  format(.POSIXct(sign[2L], tz = "UTC"), "%Y-%m-%d %H:%M:%OS3 UTC")
}

# list(cells, rows) for csv whose types are determined here, else list(columns, rows).
read_item <- function(item, step) {
  wanted <- wanted_columns(item, step)
  if (!is.null(step$job)) {
    value <- part_call(list(job = step$job, how = "read", file = item$path, name = step$name), NULL)
    if (item$kind == "parquet") check_large(value, item)
    return(take_columns(value, wanted, item))
  }
  switch(item$kind,
    csv = read_csv_item(item, wanted, item$int64),
    rds = {
      value <- readRDS(item$path)
      if (!is.data.frame(value)) {
        part_error(paste0("The file must have a data frame, not ", describe(value), "."))
      }
      take_columns(plain_frame(value), wanted, item)
    },
    parquet = read_parquet_item(item, wanted)
  )
}

# The columns to read from the file: NULL for all. The others come from its path.
wanted_columns <- function(item, step) {
  if (!is.null(step$columns)) setdiff(step$columns, names(item$hive))
}

take_columns <- function(x, wanted, item) {
  if (!is.null(wanted)) check_has(names(x), wanted)
  check_names(names(x), length(x), wanted)
  columns <- as.list(x)
  list(columns = if (is.null(wanted)) columns else columns[wanted], rows = frame_rows(x))
}

# Columns are told apart by their names: of two of one name, or one without, one would be lost.
check_names <- function(names, n, wanted = NULL) {
  if (is.null(names)) names <- character(n)
  bare <- which(is.na(names) | !nzchar(names))
  if (length(bare) && is.null(wanted)) {
    part_error(paste0("Column ", bare[1L], " has no name; the columns are ", column_list(names),
      "."))
  }
  twice <- names[duplicated(names)]
  if (!is.null(wanted)) twice <- intersect(wanted, twice)
  if (length(twice)) {
    part_error(paste0("There are two columns `", twice[1L], "`; names must differ."))
  }
}

check_has <- function(names, wanted) {
  missing <- setdiff(wanted, names)
  if (length(missing)) {
    part_error(paste0(
      "The file has no column `", missing[1L], "`; its columns are ", column_list(names), "."
    ))
  }
}

# Appends the columns of the path to those of the file, and puts all in the requested order.
finish_item <- function(one, item, step) {
  columns <- one$columns[!names(one$columns) %in% names(item$hive)]
  columns <- c(columns, lapply(item$hive, function(value) value[rep(1L, one$rows)]))
  if (!is.null(step$columns)) {
    columns <- columns[step$columns]
  } else if (all(step$order %in% names(columns))) {
    columns <- columns[c(step$order, setdiff(names(columns), step$order))]
  }
  if (is.null(names(columns))) names(columns) <- character(length(columns))
  for (name in intersect(item$int64, names(columns))) {
    columns[[name]] <- as_written_int64(columns[[name]], name)
  }
  new_frame(columns, one$rows)
}

# ---- Parquet

# "nanoparquet" or "arrow", or NULL. The session chooses, since the two may give other types.
parquet_package <- function() {
  for (package in c("nanoparquet", "arrow")) {
    if (requireNamespace(package, quietly = TRUE)) {
      return(package)
    }
  }
}

read_parquet_item <- function(item, wanted) {
  args <- list(item$path)
  if (!is.null(wanted)) {
    some <- parquet_names(item, wanted)
    args$col_select <- if (item$package == "arrow") {
      getExportedValue("tidyselect", "all_of")(some)
    } else {
      some
    }
  }
  long <- if (is.null(wanted)) item$int64 else intersect(item$int64, wanted)
  args$options <- if (length(long)) int64_options(item)
  value <- plain_frame(do.call(getExportedValue(item$package, "read_parquet"), args))
  if (item$package == "nanoparquet") {
    for (name in setdiff(names(value)[vapply(value, is_int64, NA)], long)) {
      if (!is.null(args$options)) value[[name]] <- exact_numbers(.subset2(value, name), name)
    }
    check_large(value, item)
  }
  take_columns(value, wanted, item)
}

# The chosen columns; if there are none, any one, since it gives the number of rows.
parquet_names <- function(item, wanted) {
  names <- if (item$package == "arrow") {
    getExportedValue("arrow", "ParquetFileReader")$create(item$path)$GetSchema()$names
  } else {
    # List columns have further rows; the first row is the whole schema.
    schema <- getExportedValue("nanoparquet", "read_parquet_schema")(item$path)
    schema$name[!duplicated(schema$r_col)][-1L]
  }
  check_has(names, wanted)
  if (length(wanted)) wanted else names[1L]
}

# ---- csv

# As read.csv() reads it: list(cells = columns by name, rows). Columns are numbers where all cells
# are plain ones (logical if all are NA), else text; those in `texts` are text in any case. A piece
# of a file has `from` and `to`, offsets in bytes, and `names`; only the first has the header.
read_csv_item <- function(item, wanted, texts = NULL) {
  names <- if (is.null(item$names)) csv_names(item$path) else item$names
  given <- names[!startsWith(names, "\n")]
  if (!is.null(wanted)) check_has(given, wanted)
  some <- if (is.null(wanted)) given else if (length(wanted)) wanted else given[1L]
  columns <- csv_plain(item, names, some, texts)
  if (is.null(columns)) {
    columns <- if (is.null(item$from)) {
      csv_whole(item$path, names, some)
    } else {
      csv_piece(item, names, some)
    }
  }
  rows <- length(columns[[1L]])
  list(cells = columns[if (is.null(wanted)) given else wanted], rows = rows)
}

# The names from read.csv(). If it uses the first column as row names, that comes first here, as
# "\nrow.names", which can't be a column's name.
csv_names <- function(path) {
  head <- utils::read.csv(path, nrows = 5L, colClasses = "character")
  c(if (.row_names_info(head) > 0L) "\nrow.names", names(head))
}

# NULL where R has to read the text: it has row names, is compressed, is in another encoding, or has
# something that only R's connections and scan() can judge.
csv_plain <- function(item, names, some, texts) {
  to <- if (is.null(item$from)) item$sign[1L] else item$to
  if (startsWith(names[1L], "\n") || is.null(to) || getOption("encoding") != "native.enc") {
    return(NULL)
  }
  from <- if (is.null(item$from)) 0 else item$from
  columns <- .Call(ffi_csv_read, item$path, c(from, to), from == 0, length(names),
    match(some, names), some %in% texts
  )
  if (!is.null(columns)) stats::setNames(columns, some)
}

# The first column is read in any case: whether a line is empty depends on it.
csv_whole <- function(path, names, some) {
  classes <- ifelse(names %in% c(names[1L], some), "character", "NULL")
  as.list(utils::read.csv(path, colClasses = classes))[some]
}

csv_piece <- function(item, names, some) {
  bytes <- read_bytes(item$path, item$from, item$to)
  # scan() would take away a byte order mark from the first line, so that is an empty one.
  if (item$from > 0) bytes <- c(as.raw(0x0aL), bytes)
  from <- rawConnection(bytes)
  on.exit(close(from))
  columns <- csv_rows(from, names, some)
  # The first row is the header.
  if (item$from == 0) lapply(columns, `[`, -1L) else columns
}

# All arguments are as in read.table() when called by read.csv().
csv_rows <- function(from, names, some, most = -1L, na = "NA") {
  what <- rep(list(NULL), length(names))
  what[names %in% c(names[1L], some)] <- list("")
  names(what) <- names
  scan(from,
    what = what, nmax = most, sep = ",", quote = "\"", dec = ".", na.strings = na, quiet = TRUE,
    fill = TRUE, strip.white = FALSE, blank.lines.skip = TRUE, multi.line = FALSE,
    comment.char = "", allowEscapes = FALSE, flush = FALSE, encoding = "unknown", skipNul = FALSE
  )[some]
}

# The bytes from offset `from` up to, but not including, `to`.
read_bytes <- function(path, from, to) {
  file <- file(path, "rb")
  on.exit(close(file))
  seek(file, from)
  bytes <- readBin(file, "raw", to - from)
  if (length(bytes) != to - from) {
    part_error(paste0("The file ended at byte ", from + length(bytes), ", not ", to, "."))
  }
  bytes
}

# By column. item: may have names of columns that were written as integer64.
cell_kinds <- function(one, item) {
  kinds <- vapply(one$cells, cell_kind, "")
  kinds[intersect(item$int64, names(kinds))] <- "integer64"
  kinds
}

# "none": only NA, which fits any type.
cell_kind <- function(cells) {
  value <- if (is.character(cells)) guess_type(cells) else cells
  if (is.logical(value) && all(is.na(value))) "none" else typeof(value)
}

guess_type <- function(text) {
  utils::type.convert(text, na.strings = character(), as.is = TRUE, dec = ".",
    numerals = "allow.loss"
  )
}

# The type that type.convert() would give to the whole text, from those of its parts: numbers are
# integer, double or complex, as needed; any other mixture is text. kinds: list of character
# vectors, by column.
unify_kinds <- function(kinds) {
  names <- unique(unlist(lapply(kinds, names)))
  vapply(stats::setNames(names, names), function(name) {
    all <- unique(unlist(lapply(kinds, function(one) unname(one[name]))))
    all <- setdiff(all[!is.na(all)], "none")
    numbers <- c("integer", "double", "complex")
    if (setequal(all, c("integer", "integer64"))) {
      "integer64"
    } else if (!length(all)) {
      "none"
    } else if (length(all) == 1L) {
      all
    } else if (all(all %in% numbers)) {
      numbers[max(match(all, numbers))]
    } else {
      "character"
    }
  }, "")
}

# The kinds that columns of plain numbers can be made without their text; "none" and "logical" are
# those of columns that have only NA.
number_kinds <- c("none", "logical", "integer", "double")

# Columns of an item as these kinds. Those that were read as numbers, and are to be text or what
# only text can become, are read again.
convert_cells <- function(cells, item, kinds) {
  kinds <- kinds[names(cells)]
  again <- names(cells)[!vapply(cells, is.character, NA) & !kinds %in% number_kinds]
  if (length(again)) cells[again] <- read_csv_item(item, again, again)$cells
  Map(function(cells, kind, name) {
    if (is.character(cells)) {
      convert_text(cells, kind, name)
    } else {
      switch(kind, integer = as.integer(cells), double = as.double(cells), cells)
    }
  }, cells, kinds, names(cells))
}

# A number that only this kind can hold makes type.convert() use the kind for all.
convert_text <- function(text, kind, name) {
  switch(kind,
    character = text,
    integer64 = int64_of_text(text, name),
    double = guess_type(c("0.5", text))[-1L],
    complex = guess_type(c("1i", text))[-1L],
    integer = as.integer(guess_type(text)),
    guess_type(text)
  )
}

# ---- Where csv may be cut

# A line ends where the number of quotes before it is even, however far away the first of them is:
# read.csv() has no escape but the doubled quote, and opens a quoted field anywhere. So each task
# counts the quotes of its range of bytes, and notes the first line end for either case; the
# session, which knows the counts of all earlier ranges, chooses. list(quotes, even, odd): the
# offsets after these line ends, NA if there is none.
part_quotes <- function(state, step) {
  item <- step$items[[1L]]
  state$file <- item$path
  check_sign(item)
  found <- .Call(ffi_csv_quotes, item$path, c(item$from, item$to))
  state$result <- list(rows = 0, bytes = 0, quotes = found[1L], ends = found[2:3])
}
