#' Write the parts to files
#'
#' `partition_write()` writes data that is on the workers to a folder: each worker writes its parts.
#' [partition_read()] of the folder gives the same rows in the same order.
#'
#' Each part with rows becomes a file, `part-00001.parquet` and so on; parts without rows become
#' none, but if no part has rows, one file has the columns. With `by`, each part becomes a file for
#' each key that it has, in folders `key=value`, and files don't contain the keys' columns. Rows
#' aren't moved: to have one file for each key, call [partition_shuffle()] first.
#' Such a folder is read back by part, and within a part key by key, in the order of the keys' first
#' rows.
#'
#' @section All or nothing:
#' The workers write to a hidden folder beside `path` (`.<name>.muster-...`). When all files are
#' complete and on the disk, the session adds a list of them, `_manifest.json`, and then renames the
#' folder to `path`. So `path` is never a half of the data, also if workers, the session or the
#' machine are lost: each row is written exactly once, however often a part was made again. With
#' `overwrite = TRUE` an old folder stays as it is until then; it is renamed away and removed at the
#' end. If the session is killed just between these two renamings, the next `partition_write()`
#' to the same path puts the old folder back first. It also removes what killed sessions of the
#' same machine have left.
#'
#' @section Types:
#' `rds` keeps everything. `parquet` keeps what the package keeps: with nanoparquet, logical,
#' integer, numeric, character, factor, Date, POSIXct and difftime columns, and lists of vectors
#' without a class; matrices, data frames and other lists are refused. `csv` keeps what
#' [utils::read.csv()] can tell from text: numbers to the last bit, but dates and factors are
#' text afterwards, and the string `"NA"` is `NA`. A cell's text doesn't depend on other rows: times
#' are `2020-02-29 00:00:00` in the column's time zone (that of the session if it has none), with
#' parts of a second where there are some, differences of times are numbers, and other classes have
#' the text that `as.character()` gives for the value alone. Keys keep their types. Files of
#' nanoparquet have the times of POSIXct columns in UTC, to the microsecond. integer64 columns come
#' back from each format, with package bit64.
#'
#' @section The list of files:
#' `_manifest.json` has the fields `format` (`"muster 1"`), `kind` (`format`), `columns` (names, in
#' order), `integer64` (names of such columns, if there are any), `keys` (`name`, `type`, `class`,
#' `levels`) and `files`: for each file its path `file` under the folder, `rows`, `bytes` and
#' `part`. Without it, [partition_read()] reads the folder
#' like any other.
#'
#' @param p A handle from [partition_scatter()] or a related function.
#' @param path Path of the folder, in one that exists. The workers must see it, too: those on other
#'   hosts need the same file system.
#' @param format `"parquet"` (by nanoparquet, or arrow if only that is installed), `"csv"` or
#'   `"rds"`.
#' @param by `NULL`, or names of columns that become folders: logical, integer, numeric,
#'   character, factor or Date.
#' @param ... Further arguments of `write_parquet()`; for `"rds"`, `compress`: `TRUE` (gzip, the
#'   default), `FALSE`, `"bzip2"` or `"xz"`. There are none for `"csv"`.
#' @param overwrite `TRUE` to replace a folder that has something in it; by default that is an
#'   error.
#' @returns A data frame, invisibly: for each file `file` (under `path`), `rows`, `bytes` and
#'   `part`, and columns for the keys.
#' @section Errors:
#' Those of [partition_scatter()]. `muster_error_input` also if `path` can't be written, or a column
#' can't be written in this format; `muster_error_limit` if the disk is full. Field `file` names the
#' file. Nothing is left behind, and an old folder is as it was.
#' @section Cost:
#' A part's file is first made in its worker's memory. Each file is flushed to the disk (fsync).
#' @section Source:
#' A file's name for each attempt, given its real name once: Dean and Ghemawat's MapReduce (OSDI
#' 2004). Layout of folders: Apache Hive.
#' @seealso [partition_read()], [partition_collect()].
#' @examples
#' cl <- cluster_start(2)
#' p <- partition_scatter(cl, mtcars, parts = 4)
#' folder <- tempfile("cars")
#' partition_write(p, folder, "csv", by = "gear")
#' list.files(folder, recursive = TRUE)
#' partition_collect(partition_read(cl, folder))[1:3, ]
#' cluster_stop(cl)
#' unlink(folder, recursive = TRUE)
#' @export
partition_write <- function(p, path, format = c("parquet", "csv", "rds"), by = NULL, ...,
                            overwrite = FALSE) {
  call <- sys.call()
  p <- check_partition(p, "p", call)
  check_given(path, "path", call)
  format <- check_choice(format, "format", c("parquet", "csv", "rds"), call)
  if (!is.null(by)) check_by(by, call)
  check_flag(overwrite, "overwrite", call)
  args <- check_writer(list(...), format, call)
  package <- if (format == "parquet") need_parquet(call, "format")
  target <- check_target(path, overwrite, call)
  staging <- make_staging(target, call)
  on.exit(remove_staging(staging))
  step <- list(
    kind = "write", format = format, package = package, by = by, args = args,
    work = file.path(staging, "work"), path = target
  )
  stage <- new_stage(p$shuffle, p$stage$count, write_steps(step), near = p$stage)
  answers <- ask_parts(p, stage, call)
  if (!length(stage$model)) {
    abort_muster("input", "Can't write data that has no columns.", argument = "p", call = call)
  }
  manifest <- write_manifest(answers, stage$model, step, staging, call)
  put_in_place(staging, target, overwrite, call)
  keys <- lapply(names(manifest$model), function(name) {
    text <- vapply(dirname(manifest$files$file), function(at) keys_of_path(at)[[name]], "")
    key_as(unname(text), .subset2(manifest$model, name))
  })
  names(keys) <- names(manifest$model)
  invisible(new_frame(c(as.list(manifest$files), keys), nrow(manifest$files)))
}

write_steps <- function(step) {
  force(step)
  function(task) list(c(step, list(name = part_file_name(task, step$format))))
}

part_file_name <- function(task, format) sprintf("part-%05d.%s", task, format)

check_writer <- function(args, format, call) {
  names <- if (is.null(names(args))) character(length(args)) else names(args)
  if (!all(nzchar(names)) || (format == "csv" && length(args)) ||
    (format == "rds" && !all(names == "compress"))) {
    abort_muster("input",
      paste0(switch(format,
        csv = "There are no further arguments for format \"csv\"",
        rds = "The only further argument for format \"rds\" is `compress`",
        "Further arguments must have names"
      ), "."),
      argument = "...", call = call
    )
  }
  if (format == "rds") {
    if (is.null(args$compress) || identical(args$compress, "gzip")) args$compress <- TRUE
    if (!list(args$compress) %in% list(TRUE, FALSE, "bzip2", "xz")) {
      abort_input("compress", "TRUE, FALSE, \"gzip\", \"bzip2\" or \"xz\"", args$compress, call)
    }
  }
  args
}

# ---- Folders

# The folder's full path, with links resolved.
check_target <- function(path, overwrite, call) {
  if (!is.character(path) || length(path) != 1L || is.na(path) || !nzchar(path)) {
    abort_input("path", "the path of a folder", path, call)
  }
  path <- path.expand(path)
  above <- dirname(path)
  if (!dir.exists(above)) {
    abort_muster("input", paste0("Can't make ", path, ": there is no folder ", above, "."),
      argument = "path", file = above, call = call
    )
  }
  target <- if (file.exists(path)) path else file.path(normalizePath(above), basename(path))
  path <- normalizePath(target, mustWork = FALSE)
  clear_stagings(path)
  if (!file.exists(path)) {
    return(path)
  }
  if (!dir.exists(path)) {
    abort_muster("input", paste0("`path` must be a folder: ", path, " is a file."),
      argument = "path", file = path, call = call
    )
  }
  if (!overwrite && length(list.files(path, all.files = TRUE, no.. = TRUE))) {
    abort_muster("input", paste0("`path` must be empty or new: ", path, " isn't empty."),
      hints = "`overwrite = TRUE` replaces it once everything has been written.",
      argument = "path", file = path, call = call
    )
  }
  path
}

staging_start <- function(target) {
  paste0(".", basename(target), ".muster-", Sys.info()[["nodename"]], "-")
}

# A folder next to the target, on the same file system, with `work` for attempts and `data` for
# committed files. Its name tells its owner.
make_staging <- function(target, call) {
  staging <- file.path(
    dirname(target), paste0(staging_start(target), Sys.getpid(), "-", basename(tempfile("")))
  )
  for (folder in c(staging, file.path(staging, c("work", "data")))) {
    reason <- told_why(dir.create(folder))
    if (!is.null(reason)) {
      remove_staging(staging)
      abort_write(folder, "Can't create a folder beside `path`", reason, call)
    }
  }
  staging
}

# Removes the folders of this user's killed sessions. If one was killed between the renamings of
# put_in_place(), its `old` is the data.
clear_stagings <- function(target) {
  start <- staging_start(target)
  names <- list.files(dirname(target), all.files = TRUE, no.. = TRUE)
  for (name in names[startsWith(names, start)]) {
    pid <- suppressWarnings(as.integer(sub("-.*$", "", substring(name, nchar(start) + 1L))))
    left <- file.path(dirname(target), name)
    # It isn't always known whether another user's process runs.
    if (is.na(pid) || process_runs(pid) || !owned_by_us(left)) next
    old <- file.path(left, "old")
    if (dir.exists(old) && !file.exists(target)) told_why(file.rename(old, target))
    if (!dir.exists(old) || file.exists(target)) remove_staging(left)
  }
}

owned_by_us <- function(path) {
  identical(file.info(path)$uid, file.info(tempdir())$uid)
}

# A worker with a late attempt may be creating a file there right now.
remove_staging <- function(staging) {
  for (again in 1:10) {
    unlink(staging, recursive = TRUE, force = TRUE)
    if (!dir.exists(staging)) break
  }
}

# NULL, or why R's file function returned FALSE.
told_why <- function(code) {
  reason <- NULL
  ok <- withCallingHandlers(code, warning = function(w) {
    reason <<- conditionMessage(w)
    tryInvokeRestart("muffleWarning")
  })
  if (all(ok)) NULL else paste0(c(reason, "no reason was given")[1L])
}

abort_write <- function(file, text, reason, call, kind = "input") {
  abort_muster(kind, paste0(text, ": ", reason, "."),
    details = paste0("File: ", file), file = file, call = call
  )
}

# ---- Commit

# Renames all files to their final names, and writes the list of them.
write_manifest <- function(answers, model, step, staging, call) {
  data <- file.path(staging, "data")
  files <- lapply(answers, `[[`, "files")
  if (!any(lengths(files) > 0L)) {
    step$by <- NULL
    files[[1L]] <- write_columns(model, step, call)
  }
  part <- rep(seq_along(files), vapply(files, NROW, 0L))
  files <- do.call(rbind, files)
  folders <- setdiff(unique(dirname(files$file)), ".")
  commit_files(files, folders, step, data, call)
  manifest <- list(
    kind = step$format, columns = names(model), int64 = int64_names(answers, model),
    model = keys_model(answers, step$by),
    files = new_frame(c(as.list(files[c("file", "rows", "bytes")]), list(part = part)), nrow(files))
  )
  file <- file.path(data, manifest_name)
  bytes <- charToRaw(manifest_text(manifest))
  check_done(.Call(ffi_file_write, file, bytes), file, call)
  for (folder in c(file.path(data, folders), data)) {
    check_done(.Call(ffi_file_sync, folder), folder, call)
  }
  manifest
}

commit_files <- function(files, folders, step, data, call) {
  for (folder in folders) {
    reason <- told_why(dir.create(file.path(data, folder), showWarnings = TRUE, recursive = TRUE))
    if (!is.null(reason) && !dir.exists(file.path(data, folder))) {
      abort_write(file.path(step$path, folder), "Can't create the folder of a key", reason, call)
    }
  }
  for (i in seq_len(nrow(files))) {
    file <- file.path(data, files$file[i])
    # On a case-insensitive file system, two keys could share a file.
    reason <- if (file.exists(file)) {
      "another key already uses this name"
    } else {
      told_why(file.rename(file.path(step$work, files$temp[i]), file))
    }
    if (!is.null(reason)) {
      abort_write(file.path(step$path, files$file[i]), "Can't name a file", reason, call)
    }
  }
}

# If there are no rows at all: a file with only the columns.
write_columns <- function(model, step, call) {
  name <- part_file_name(1L, step$format)
  temp <- paste0("columns.", step$format)
  bytes <- tryCatch(
    {
      check_names(names(model), length(model))
      write_part_file(plain_frame(model), file.path(step$work, temp), step)
    },
    muster_part_error = function(e) {
      abort_muster(e$kind, conditionMessage(e), file = file.path(step$path, name), call = call)
    }
  )
  new_frame(list(temp = temp, file = name, rows = 0, bytes = bytes), 1L)
}

# The key columns without rows, of their type in all parts together.
keys_model <- function(answers, by) {
  if (is.null(by)) {
    return(NULL)
  }
  some <- vapply(answers, function(answer) answer$rows > 0, NA)
  lapply(stats::setNames(by, by), function(name) {
    bind_columns(lapply(answers[some], function(answer) .subset2(answer$model, name)))
  })
}

# Columns that are integer64 in some part: files of csv and parquet don't tell.
int64_names <- function(answers, model) {
  some <- Filter(function(answer) answer$rows > 0, answers)
  models <- if (length(some)) lapply(some, `[[`, "model") else list(model)
  Filter(function(name) {
    any(vapply(models, function(one) is_int64(.subset2(one, name)), NA))
  }, names(model))
}

check_done <- function(outcome, file, call) {
  if (!is.null(outcome)) {
    kind <- if (is_no_room(outcome)) "limit" else "input"
    abort_write(file, "Can't write the list of files", written_reason(outcome), call, kind)
  }
}

# The only moment at which `target` changes.
put_in_place <- function(staging, target, overwrite, call) {
  data <- file.path(staging, "data")
  old <- file.path(staging, "old")
  if (overwrite && file.exists(target)) {
    reason <- told_why(file.rename(target, old))
    if (!is.null(reason)) abort_write(target, "Can't rename the old folder", reason, call)
  }
  reason <- told_why(file.rename(data, target))
  if (!is.null(reason)) {
    if (dir.exists(old)) told_why(file.rename(old, target))
    abort_write(target, "Can't rename the folder", reason, call)
  }
  # A failure here doesn't change what others see.
  .Call(ffi_file_sync, dirname(target))
}
