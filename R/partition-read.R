#' Read files on the workers
#'
#' `partition_read()` divides files among the workers, which read them. The rows stay there, as
#' with [partition_scatter()]; the result is a handle.
#'
#' Files are read in the order of `.files`; those of a folder, with all that is beneath it, in the
#' order of their names' bytes (C locale). Files and folders whose names begin with `.` or `_` are
#' left out. Without a `.reader`, the ending says how a file is read, in capitals or not:
#'
#' | ending | read as by |
#' | --- | --- |
#' | `.csv`, `.csv.gz`, `.csv.bz2`, `.csv.xz` | [utils::read.csv()] |
#' | `.rds` | [base::readRDS()], a data frame |
#' | `.parquet` | `read_parquet()` of nanoparquet, or of arrow if only that is installed |
#'
#' Kinds may be mixed as long as the columns are the same, by name: they have the order of the first
#' part's. If files have different columns, `.columns` chooses those that all have; or parts can be
#' changed by [partition_map()], but not be put together.
#'
#' @section Parts:
#' Small files are read together and large csv files in pieces, so that parts have about `.bytes`
#' bytes of files. By default that is one 32nd of all bytes, at most 64 MB; csv files are cut into
#' pieces of at least 1 MB. The parts depend on the files alone, not on the number of workers. With
#' a `.reader` of your own, each file is a part; with further arguments, no file is cut.
#'
#' Pieces begin and end at ends of lines, also where quoted fields contain line breaks: the workers
#' first count the quotes of the whole file. Files that `read.csv()` would take row names from, that
#' begin with an empty line, and compressed ones, aren't cut.
#'
#' @section Types of csv columns:
#' They are guessed as by `read.csv()`, over all csv files and pieces together: the result is
#' identical to `read.csv()` of one file with all rows. Parts whose rows alone suggest another type
#' are read once more. With further arguments (such as `colClasses`), each file is read by
#' `read.csv()` alone, and types that differ are brought together as by `c()`.
#'
#' @section Folders as columns:
#' In a folder with a layout such as `year=2013/month=1/a.csv` (hive), each `key=value` becomes a
#' column, after those of the file; a column of the same name in the file is replaced. Values
#' are URL-decoded, and `__HIVE_DEFAULT_PARTITION__` is `NA`. The type of a key is guessed once,
#' from all of its values: logical (`TRUE`, `FALSE`, `true`, `false`), integer, numeric, otherwise
#' character. Numbers such as `01` remain character, and so do all values where two of them are the
#' same number, as `1.1` and `1.10`. Only folders beneath those in `.files` count, and all files
#' must have the same keys.
#'
#' If the folder was made by [partition_write()], its list of files says what is read, in which
#' order, and what types keys have: rows and columns are those that were written. Whole numbers of
#' 64 bits in other parquet files are numeric; past 2^53, where that isn't exact, they are refused
#' unless read with `options = nanoparquet::parquet_options(read_int64_type = "integer64")`.
#'
#' @param .cl A cluster from [cluster_start()].
#' @param .files Paths of files and folders, which the workers must be able to read, too: workers
#'   on other hosts need the same file system.
#' @param .reader `NULL`, or a function that takes a path and returns a data frame.
#' @param ... Further arguments of the reader. Any name that doesn't begin with a dot is the
#'   reader's. Without a `.reader`, they are those of the function in the table above, and all
#'   files must be of one kind.
#' @param .args A list of further arguments, for names that begin with a dot.
#' @param .columns `NULL` for all columns, or the names of the wanted ones, in the wanted order.
#'   Other columns of parquet files aren't read, and those of csv files aren't kept.
#' @param .hive `TRUE` if folders such as `key=value` are columns, `FALSE` to ignore them.
#' @param .bytes Bytes of files for each part, see Parts.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()].
#' @section Losses:
#' Parts that are lost with a worker are read again. Size and time of each file are noted at the
#' call; if they have changed when a part is read again, that is an error, since the part might
#' have other rows.
#' @section Errors:
#' `muster_error_input`: an argument is wrong, a path doesn't exist, a file has changed, lacks
#' a column or has two of one name. `muster_error_remote`: a file couldn't be read, with the
#' reader's message. Fields `part`, `file` and `worker` say which and where. Others are as for
#' [partition_scatter()].
#' @section Cost:
#' About 200 us for each part. Each worker reads some 100 MB of csv in a second if it is numbers and
#' repeated strings, and a third of that where most strings differ. What `read.csv()` treats in ways
#' of its own (compressed files, row names, zeros in the text, carriage returns alone, other
#' encodings) takes as long as `read.csv()`, divided among the workers. A second reading, for types,
#' is needed only where parts disagree.
#' @section Source:
#' Layout of folders: Apache Hive's partitions, as Spark, DuckDB and arrow read them. Cutting text
#' by counting quotes: Ge, Li, Eilebrecht, Chandramouli and Kossmann, Speculative Distributed CSV
#' Data Parsing (SIGMOD 2019).
#' @seealso [partition_write()], [partition_collect()].
#' @examples
#' cl <- cluster_start(2)
#' folder <- tempfile("cars")
#' for (gear in 3:5) {
#'   dir.create(file.path(folder, paste0("gear=", gear)), recursive = TRUE)
#'   write.csv(mtcars[mtcars$gear == gear, c("mpg", "wt")],
#'     file.path(folder, paste0("gear=", gear), "cars.csv"), row.names = FALSE)
#' }
#' p <- partition_read(cl, folder)
#' p
#' head(partition_collect(p))
#' partition_collect(partition_read(cl, folder, .columns = c("gear", "mpg")))[1:3, ]
#' cluster_stop(cl)
#' unlink(folder, recursive = TRUE)
#' @export
partition_read <- function(.cl, .files, .reader = NULL, ..., .args = NULL, .columns = NULL,
                           .hive = TRUE, .bytes = NULL) {
  call <- sys.call()
  cl <- check_cluster(.cl, call, ".cl")
  if (!is.character(.files) || !length(.files) || anyNA(.files)) {
    abort_input(".files", "paths of files and folders", .files, call)
  }
  reader <- function_of(.reader, call)
  if (!is.null(reader) && !is.function(reader)) {
    abort_input(".reader", "NULL or a function of a path", reader, call)
  }
  own <- c(".args", ".columns", ".hive", ".bytes")
  args <- user_args(list(...), .args, reader, own, c(".cl", ".files", ".reader"), call)
  columns <- if (!is.null(.columns)) check_chosen(.columns, call)
  check_flag(.hive, ".hive", call)
  bytes <- check_part_bytes(.bytes, call)
  found <- find_files(.files, !is.null(reader), .hive, call)
  check_hive_columns(found, call)
  items <- read_items(found, is.null(reader), call)
  if (is.null(reader) && length(args)) reader <- reader_with(items, args, call)
  own_reader <- !is.null(.reader)
  parts <- if (own_reader) as.list(seq_along(items)) else divide_items(items, bytes)
  if (is.null(reader)) {
    cut <- cut_items(cl, items, parts, bytes, call)
    items <- cut$items
    parts <- cut$parts
  }
  if (length(parts) > parts_read_most) {
    abort_muster("input",
      paste0("`.files` would be ", length(parts), " parts; at most ", parts_read_most, " can be."),
      hints = "Raise `.bytes`, or read fewer files.", argument = ".files", call = call
    )
  }
  job <- if (!is.null(reader)) make_job(reader, args, NULL, FALSE, cl, call)
  step <- list(
    kind = "read", columns = columns, order = found$order,
    name = if (own_reader) ".reader" else "read"
  )
  read_stage(cl, lapply(parts, function(k) items[k]), step, job, call)
}
parts_read_most <- 65536L

check_chosen <- function(columns, call) {
  if (!are_column_names(columns)) {
    abort_input(".columns", "NULL or names of columns, each once", columns, call)
  }
  columns
}

check_part_bytes <- function(bytes, call) {
  if (is.null(bytes)) {
    return(NULL)
  }
  ok <- is.numeric(bytes) && length(bytes) == 1L && !is.na(bytes) && bytes >= 1
  if (!ok) {
    abort_input(".bytes", "NULL or a number of bytes, at least 1", bytes, call)
  }
  as.double(bytes)
}

# ---- Which files

# list(path, sign, hive (for each file a list of values, or NULL), order, int64 (for each file the
# names of columns that were written as integer64)). any: missing paths are left to the user's
# reader.
find_files <- function(roots, any, hive, call) {
  is_folder <- dir.exists(roots)
  missing <- !is_folder & !file.exists(roots)
  if (any(missing) && !any) {
    abort_muster("input",
      paste0("Can't find ", if (sum(missing) > 1L) paste(sum(missing), "of the "), "`.files`: ",
        "there is no ", paste(utils::head(roots[missing], 3L), collapse = ", no "), "."
      ),
      argument = ".files", file = roots[missing], call = call
    )
  }
  found <- Map(function(root, folder) {
    if (folder) files_of(root, hive, call) else list(path = root, keys = list(NULL))
  }, normalizePath(roots, mustWork = FALSE), is_folder, USE.NAMES = FALSE)
  paths <- unlist(lapply(found, `[[`, "path"))
  if (!length(paths)) {
    abort_muster("input",
      paste0("There are no files in ", paste(utils::head(roots, 3L), collapse = ", "), "."),
      details = "Files whose names begin with `.` or `_` aren't read.",
      argument = ".files", file = roots, call = call
    )
  }
  keys <- unlist(lapply(found, `[[`, "keys"), recursive = FALSE)
  orders <- unique(lapply(found, `[[`, "order"))
  list(
    path = paths, sign = lapply(paths, file_sign),
    hive = hive_columns(paths, keys, found, call),
    order = if (length(orders) == 1L) orders[[1L]],
    int64 = rep(lapply(found, `[[`, "int64"), lengths(lapply(found, `[[`, "path")))
  )
}

# Files of a folder: list(path, keys (named texts for each), order, int64, model (of the keys)).
files_of <- function(root, hive, call) {
  manifest <- read_manifest(root, call)
  if (is.null(manifest)) {
    names <- list.files(root, recursive = TRUE, all.files = TRUE)
    names <- names[!grepl("(^|/)[._]", names)]
    names <- sort(names, method = "radix")
    model <- order <- NULL
  } else {
    names <- manifest$files$file
    order <- manifest$columns
    model <- manifest$model
  }
  list(
    path = file.path(root, names), order = if (hive) order, int64 = manifest$int64, model = model,
    keys = if (hive) lapply(dirname(names), keys_of_path) else vector("list", length(names))
  )
}

# For each file a list of its keys' values, all of one type; NULL if there are no keys.
hive_columns <- function(paths, keys, found, call) {
  names <- names(keys[[1L]])
  same <- vapply(keys, function(one) identical(names(one), names), NA)
  if (!all(same)) {
    other <- which(!same)[1L]
    abort_muster("input",
      paste0("Files have different keys in the names of their folders: ", paths[1L], " has ",
        column_list(names), ", and ", paths[other], " has ", column_list(names(keys[[other]])), "."
      ),
      hints = "Read them one by one, or with `.hive = FALSE`.",
      argument = ".files", file = paths[other], call = call
    )
  }
  if (!length(names)) {
    return(NULL)
  }
  counts <- lengths(lapply(found, `[[`, "path"))
  root <- rep(seq_along(found), counts)
  values <- lapply(stats::setNames(seq_along(names), names), function(k) {
    text <- vapply(keys, `[[`, "", k)
    known <- vapply(found, function(one) names[k] %in% names(one$model), NA)
    if (!all(known[counts > 0L])) {
      return(guess_key(text))
    }
    bind_columns(lapply(which(counts > 0L), function(i) {
      key_as(text[root == i], .subset2(found[[i]]$model, names[k]))
    }))
  })
  lapply(seq_along(paths), function(i) lapply(values, `[`, i))
}

check_hive_columns <- function(found, call) {
  if (length(found$hive) && anyDuplicated(names(found$hive[[1L]]))) {
    abort_muster("input", paste0("A key appears twice in the path ", found$path[1L], "."),
      argument = ".files", file = found$path[1L], call = call
    )
  }
}

# ---- How to read them

# A list of items, one for each file: path, sign, kind, package (that reads parquet), hive, int64.
read_items <- function(found, known, call) {
  kinds <- if (known) kinds_of(found$path, call) else rep("any", length(found$path))
  package <- if (any(kinds == "parquet")) need_parquet(call)
  lapply(seq_along(kinds), function(i) {
    sign <- found$sign[[i]]
    list(
      path = found$path[i], sign = if (!is.na(sign[1L])) sign, kind = kinds[i],
      package = package, hive = found$hive[[i]], int64 = found$int64[[i]]
    )
  })
}

kinds_of <- function(paths, call) {
  names <- tolower(basename(paths))
  kinds <- rep(NA_character_, length(names))
  kinds[grepl("[.]csv([.](gz|bz2|xz))?$", names)] <- "csv"
  kinds[endsWith(names, ".rds")] <- "rds"
  kinds[endsWith(names, ".parquet")] <- "parquet"
  if (anyNA(kinds)) {
    file <- paths[is.na(kinds)][1L]
    abort_muster("input", paste0("Can't tell from its name how to read ", file, "."),
      details = "Known endings: .csv (.gz, .bz2, .xz), .rds, .parquet.",
      hints = "Give a `.reader`: a function of a path that returns a data frame.",
      argument = ".files", file = file, call = call
    )
  }
  kinds
}

need_parquet <- function(call, argument = ".files") {
  package <- parquet_package()
  if (is.null(package)) {
    abort_muster("input", "Parquet files need package nanoparquet or arrow.",
      hints = "Install one of them: install.packages(\"nanoparquet\").",
      argument = argument, call = call
    )
  }
  package
}

# The function that takes further arguments.
reader_with <- function(items, args, call) {
  kind <- unique(vapply(items, `[[`, "", "kind"))
  if (length(kind) > 1L) {
    abort_muster("input",
      paste0("Further arguments need files of one kind; `.files` are ",
        paste(kind, collapse = " and "), "."
      ),
      argument = ".files", call = call
    )
  }
  reader <- switch(kind,
    csv = utils::read.csv,
    rds = readRDS,
    parquet = getExportedValue(items[[1L]]$package, "read_parquet")
  )
  known <- c(names(formals(reader)), if (kind == "csv") names(formals(utils::read.table)))
  given <- Filter(nzchar, names(args))
  wrong <- given[is.na(pmatch(given, setdiff(known, "..."), duplicates.ok = TRUE))]
  if (length(wrong)) {
    fun <- switch(kind, csv = "read.csv()", rds = "readRDS()", "read_parquet()")
    abort_muster("input",
      paste0("`", wrong[1L], "` is neither an argument of partition_read() nor of ", fun, "."),
      hints = "A file's ending says how it is read; `.reader` may be another function of a path.",
      argument = wrong[1L], call = call
    )
  }
  reader
}

# ---- Parts

# Consecutive files of one kind, as many as fit into `bytes`: a list of their indices.
divide_items <- function(items, bytes) {
  sizes <- item_sizes(items)
  kinds <- vapply(items, `[[`, "", "kind")
  room <- part_bytes(sizes, bytes)
  part <- integer(length(items))
  now <- 0L
  full <- 0
  for (i in seq_along(items)) {
    if (i == 1L || full + sizes[i] > room || kinds[i] != kinds[i - 1L]) {
      now <- now + 1L
      full <- 0
    }
    full <- full + sizes[i]
    part[i] <- now
  }
  unname(split(seq_along(items), part))
}

item_sizes <- function(items) {
  vapply(items, function(item) if (is.null(item$sign)) 0 else item$sign[1L], 0)
}

part_bytes <- function(sizes, bytes) if (is.null(bytes)) min(sum(sizes) / 32, 64e6) else bytes

# By default, pieces of csv files aren't smaller than this: cutting would cost more than it saves.
piece_bytes <- function(items, bytes) {
  room <- part_bytes(item_sizes(items), bytes)
  if (is.null(bytes)) max(room, 1e6) else room
}

# The column names of a csv file that may be cut, else NULL: it has row names, is compressed, begins
# with an empty line, or is unreadable, and a worker will report what is wrong.
csv_to_cut <- function(item) {
  magic <- tryCatch(readBin(item$path, "raw", 6L), error = function(e) raw())
  packed <- list(c(0x1f, 0x8b), c(0x42, 0x5a, 0x68), c(0xfd, 0x37, 0x7a))
  is_packed <- any(vapply(packed, function(p) identical(magic[seq_along(p)], as.raw(p)), NA))
  # A first piece of empty lines would lack the header.
  if (is_packed || isTRUE(magic[1L] %in% as.raw(c(0x0aL, 0x0dL)))) {
    return(NULL)
  }
  tryCatch(suppressWarnings(csv_header(item$path)), error = function(e) NULL)
}

# The names, if they come from the first row: pieces rely on that being the header.
csv_header <- function(path) {
  names <- csv_names(path)
  if (startsWith(names[1L], "\n")) {
    return(NULL)
  }
  rows <- csv_rows(path, names, names, 2L, character())
  first <- vapply(rows, `[`, "", 1L)
  # read.csv() takes away a byte order mark behind the header, too, which a piece would keep.
  marked <- startsWith(rows[[1L]][-1L], "\ufeff")
  if (identical(make.names(trimws(unname(first)), unique = TRUE), names) && !any(marked)) names
}

# list(items, parts), with large csv files split into several items, each a part of its own.
cut_items <- function(cl, items, parts, bytes, call) {
  piece <- piece_bytes(items, bytes)
  sizes <- item_sizes(items)
  large <- which(vapply(items, `[[`, "", "kind") == "csv" & sizes > 1.5 * piece)
  names <- lapply(items[large], csv_to_cut)
  large <- large[!vapply(names, is.null, NA)]
  names <- names[!vapply(names, is.null, NA)]
  if (!length(large)) {
    return(list(items = items, parts = parts))
  }
  borders <- find_borders(cl, items[large], piece, call)
  before <- items
  items <- list()
  cut <- list()
  for (part in parts) {
    k <- match(part[1L], large)
    add <- if (is.na(k)) before[part] else pieces_of(before[[part]], names[[k]], borders[[k]])
    at <- length(items) + seq_along(add)
    items <- c(items, add)
    cut <- c(cut, if (is.na(k)) list(at) else as.list(at))
  }
  list(items = items, parts = cut)
}

pieces_of <- function(item, names, borders) {
  lapply(seq_len(length(borders) - 1L), function(i) {
    c(item, list(names = names, from = borders[i], to = borders[i + 1L]))
  })
}

# For each file the offsets where its pieces begin, and its size.
find_borders <- function(cl, items, piece, call) {
  ranges <- unlist(lapply(items, function(item) {
    count <- ceiling(item$sign[1L] / piece)
    at <- floor(item$sign[1L] * (0:count) / count)
    lapply(seq_len(count), function(k) c(item, list(from = at[k], to = at[k + 1L])))
  }), recursive = FALSE)
  shuffle <- shuffle_of(cl, call)
  stage <- new_stage(shuffle, length(ranges), quotes_steps(ranges))
  stage$files <- vapply(ranges, `[[`, "", "path")
  answers <- ask_parts(list(cl = cl, shuffle = shuffle), stage, call)
  first <- vapply(ranges, `[[`, 0, "from") == 0
  file <- cumsum(first)
  lapply(seq_along(items), function(k) {
    mine <- answers[file == k]
    before <- cumsum(c(0, vapply(mine, `[[`, 0, "quotes")))
    ends <- vapply(seq_along(mine)[-1L], function(i) mine[[i]]$ends[before[i] %% 2 + 1], 0)
    size <- items[[k]]$sign[1L]
    unique(c(0, ends[!is.na(ends) & ends < size], size))
  })
}

quotes_steps <- function(ranges) {
  force(ranges)
  function(task) list(list(kind = "quotes", items = ranges[task]))
}

read_steps <- function(parts, step) {
  force(parts)
  force(step)
  function(task) list(c(step, list(items = parts[[task]])))
}

# Reads, and reads parts again whose columns have another type than all parts together. What was
# read first goes at once then: it is as large as the result.
read_stage <- function(cl, parts, step, job, call) {
  files <- lapply(parts, function(items) vapply(items, `[[`, "", "path"))
  steps <- read_steps(parts, step)
  read <- run_stage(cl, length(parts), steps, NULL, list(), call, job, files = files)
  kinds <- lapply(read$answers, `[[`, "kinds")
  all <- unify_kinds(kinds)
  wrong <- lapply(kinds, function(one) as.list(all[names(one)][all[names(one)] != one]))
  order <- part_orders(lapply(read$answers, `[[`, "names"))
  if (any(lengths(wrong) > 0L) || length(order)) {
    steps <- retype_steps(parts, wrong, order)
    again <- start_stage(cl, length(parts), steps, read$stage, list(), call)
    shuffle <- open_handle(again)$shuffle
    release_stage(shuffle, record_of(shuffle, read$stage$id))
    return(again)
  }
  read$handle
}

# The columns of the first part, in their order, for those parts that have them in another: a list
# by number of the part. Files have columns by name.
part_orders <- function(names) {
  first <- Find(length, names)
  other <- vapply(names, function(one) !identical(one, first) && setequal(one, first), NA)
  stats::setNames(rep(list(first), sum(other)), which(other))
}

retype_steps <- function(parts, wrong, order) {
  force(parts)
  force(wrong)
  force(order)
  function(task) {
    columns <- order[[as.character(task)]]
    c(
      if (length(wrong[[task]])) {
        list(list(kind = "retype", items = parts[[task]], kinds = wrong[[task]]))
      },
      if (!is.null(columns)) {
        list(list(kind = "inner", fun = "take_columns_of", args = list(columns)))
      }
    )
  }
}
