# A worker's side of partition_write(): a part becomes files under names that are unique to this
# attempt. The session renames them: partition-write.R.

# step: format, package (for parquet), by (or NULL), work (the folder for such names), path (the
# folder where the files will be), name (of a part's files), args (of the writer).
part_write <- function(state, step, key) {
  data <- state$data
  check_names(names(data), length(data))
  model <- if (is_open(data)) data else take_rows(data, integer())
  files <- if (frame_rows(data) > 0L) write_files(state, data, step, key)
  state$file <- NULL
  state$result <- list(
    rows = frame_rows(data), bytes = sum(files$bytes), model = model, files = files
  )
}

# A data frame: temp (name in step$work), file (under step$path), rows, bytes.
write_files <- function(state, data, step, key) {
  state$file <- file.path(step$path, step$name)
  cut <- if (is.null(step$by)) list(list(path = step$name, data = data)) else {
    cut_by_key(data, step$by, step$name)
  }
  temps <- paste(c(key, ""), collapse = "-")
  temps <- paste0(temps, seq_along(cut), ".", step$format)
  written <- vapply(seq_along(cut), function(i) {
    state$file <- file.path(step$path, cut[[i]]$path)
    write_part_file(cut[[i]]$data, file.path(step$work, temps[i]), step)
  }, 0)
  new_frame(list(
    temp = temps, file = vapply(cut, `[[`, "", "path"),
    rows = vapply(cut, function(one) as.double(frame_rows(one$data)), 0), bytes = written
  ), length(cut))
}

# Rows of each key, in the order of the keys' first rows: list of list(path, data).
cut_by_key <- function(data, by, name) {
  keys <- key_columns(data, by)
  rest <- data[!names(data) %in% by]
  if (!length(rest)) part_error("`by` must leave at least one column for the files.")
  groups <- key_groups(data, by)
  paths <- path_of_keys(lapply(keys, `[`, groups$first))
  sorted <- .Call(ffi_rows_sort, groups$group, length(groups$first))
  pieces <- split_rows(rest, sorted)
  lapply(seq_along(paths), function(k) {
    list(path = file.path(paths[k], name), data = pieces[[k]])
  })
}

# Writes the file, and returns its size when it is on the disk. Removes it if that fails.
write_part_file <- function(x, path, step) {
  if (step$format == "rds" && isTRUE(step$args$compress)) {
    return(write_gzip(serialize(x, NULL), path))
  }
  tryCatch(
    switch(step$format,
      parquet = {
        check_parquet(x)
        write_bytes(parquet_bytes(x, step), path)
      },
      csv = write_csv_file(x, path),
      rds = write_bytes(rds_bytes(x, step$args$compress), path)
    ),
    error = function(e) {
      if (inherits(e, "muster_part_error") || is_memory_error(e)) stop(e) # tidy: passed on
      part_error(paste0("Can't write it as ", step$format, ": ", conditionMessage(e)))
    }
  )
}

write_bytes <- function(bytes, path) {
  check_written(.Call(ffi_file_write, path, bytes))
  as.double(length(bytes))
}

# Packages write the first column of a matrix, end R for a data frame, and drop the classes of what
# is in lists.
check_parquet <- function(x) {
  for (name in names(x)) {
    column <- .subset2(x, name)
    odd <- is_wide(column) || (is.list(column) && is.object(column) && !inherits(column, "AsIs"))
    inner <- if (is.list(column) && !odd) {
      Find(function(one) is.list(one) || is.object(one) || !is.null(dim(one)), column)
    }
    if (odd || !is.null(inner)) {
      part_error(paste0(
        "Column `", name, "` can't be written as parquet: it ", if (odd) "is " else "has ",
        describe(if (odd) column else inner), ". Format \"rds\" keeps all columns."
      ))
    }
  }
}

parquet_bytes <- function(x, step) {
  write <- getExportedValue(step$package, "write_parquet")
  if (step$package == "nanoparquet") {
    return(do.call(write, c(list(x, ":raw:"), step$args), quote = TRUE))
  }
  sink <- getExportedValue("arrow", "BufferOutputStream")$create()
  do.call(write, c(list(x, sink), step$args), quote = TRUE)
  sink$finish()$data()
}

rds_bytes <- function(x, compress) {
  bytes <- serialize(x, NULL)
  if (is.character(compress)) memCompress(bytes, compress) else bytes
}

# Through a connection, whose errors R drops or turns into warnings: so the file is read back. R has
# no other way to write gzip files.
write_gzip <- function(bytes, path) {
  whole <- FALSE
  on.exit(if (!whole) unlink(path))
  file <- gzfile(path, "wb")
  on.exit(close(file), add = TRUE, after = FALSE)
  each_chunk(length(bytes), function(from, to) suppressWarnings(writeBin(bytes[from:to], file)))
  close(file)
  on.exit(if (!whole) unlink(path))
  check_written(.Call(ffi_file_sync, path))
  file <- gzfile(path, "rb")
  on.exit(close(file), add = TRUE, after = FALSE)
  same <- tryCatch(
    {
      each_chunk(length(bytes), function(from, to) {
        if (!identical(readBin(file, "raw", to - from + 1), bytes[from:to])) {
          part_error("the file is cut")
        }
      })
      TRUE
    },
    error = function(e) FALSE
  )
  if (!same) {
    part_error("Can't write the file: there isn't enough space.", "limit")
  }
  whole <- TRUE
  file.size(path)
}

each_chunk <- function(n, fun) {
  at <- 0
  while (at < n) {
    to <- min(n, at + 2^24)
    fun(at + 1, to)
    at <- to
  }
}

# outcome: from ffi_file_write() etc.
check_written <- function(outcome) {
  if (is.null(outcome)) {
    return()
  }
  part_error(
    paste0("Can't write the file: ", written_reason(outcome), "."),
    if (is_no_room(outcome)) "limit" else "input"
  )
}

written_reason <- function(outcome) paste0(outcome$call, ": ", outcome$error)

is_no_room <- function(outcome) {
  errno_is(outcome$errno, c("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM"))
}

# As write.csv(), but numbers have as many digits as they need, and text is that of each cell, see
# worker-text.R. Some rows at a time: text takes many times the memory of numbers.
write_csv_file <- function(x, path) {
  bad <- vapply(x, function(column) is.list(column) || length(dim(column)) > 0L, NA)
  if (any(bad)) {
    part_error(paste0("Column `", names(x)[bad][1L], "` can't be written as csv: it is ",
      describe(x[[which(bad)[1L]]]), "."
    ))
  }
  quoted <- unname(which(vapply(x, is_quoted, NA)))
  check_classes(x)
  n <- frame_rows(x)
  tight <- the_worker$tight
  most <- max(1, (if (tight) csv_cells_most %/% 4 else csv_cells_most) %/% max(1L, length(x)))
  starts <- seq.int(1, max(1, n), by = most)
  for (from in starts) {
    rows <- if (length(starts) > 1L) take_range(x, from, min(most, n - from + 1)) else x
    bytes <- csv_bytes(rows, quoted, header = from == 1)
    check_written(
      if (from == 1) .Call(ffi_file_write, path, bytes) else .Call(ffi_file_add, path, bytes)
    )
    if (tight) .Call(ffi_memory_return)
  }
  if (length(starts) > 1L) check_written(.Call(ffi_file_sync, path))
  file.size(path)
}
csv_cells_most <- 2^18

csv_bytes <- function(x, quoted, header) {
  columns <- Map(cell_text, as.list(x), names(x))
  to <- rawConnection(raw(), "wb")
  on.exit(close(to))
  utils::write.table(new_frame(columns, frame_rows(x)), to,
    sep = ",", dec = ".", quote = quoted, qmethod = "double", row.names = FALSE,
    col.names = header
  )
  rawConnectionValue(to)
}
