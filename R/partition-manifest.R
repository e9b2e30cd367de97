# _manifest.json: what partition_write() has written, for partition_read(). It exists only if all
# files do. Other readers ignore it, because of its underscore. docs/SHUFFLE.md describes it.

manifest_name <- "_manifest.json"
manifest_format <- "muster 1"

# manifest: list(kind, columns, int64 (names of those that are integer64), model (keys' columns
# without rows), files (data frame: file, rows, bytes, part)).
manifest_text <- function(manifest) {
  of_each <- function(what) {
    vapply(manifest$model, function(key) json_array(json_string(as.character(what(key)))), "")
  }
  keys <- json_rows(
    new_frame(list(
      name = names(manifest$model), type = vapply(manifest$model, typeof, "")
    ), length(manifest$model)),
    list(class = of_each(oldClass), levels = of_each(levels))
  )
  files <- json_rows(
    manifest$files["file"], lapply(manifest$files[c("rows", "bytes", "part")], number_text)
  )
  paste0(
    "{\n  \"format\": ", json_string(manifest_format),
    ",\n  \"kind\": ", json_string(manifest$kind),
    ",\n  \"columns\": ", json_array(json_string(manifest$columns)),
    if (length(manifest$int64)) {
      paste0(",\n  \"integer64\": ", json_array(json_string(manifest$int64)))
    },
    ",\n  \"keys\": ", keys,
    ",\n  \"files\": ", files, "\n}\n"
  )
}

# ---- Reading it

# The manifest of a folder, as above, or NULL if it has none. All files must exist, with their
# recorded sizes.
read_manifest <- function(folder, call) {
  path <- file.path(folder, manifest_name)
  if (!file.exists(path)) {
    return(NULL)
  }
  refuse <- function(text, file = path) {
    abort_muster("input", paste0("Can't read ", folder, ": ", text),
      hints = c(
        "The folder has changed since partition_write() wrote it.",
        paste0("Without ", manifest_name, ", all files in it are read.")
      ),
      argument = ".files", file = file, call = call
    )
  }
  bytes <- readBin(path, "raw", file.size(path))
  manifest <- tryCatch(parse_manifest(json_parse(bytes)), error = function(e) {
    refuse(paste0(manifest_name, " is damaged (", conditionMessage(e), ")."))
  })
  files <- manifest$files
  sizes <- file.size(file.path(folder, files$file))
  wrong <- which(is.na(sizes) | sizes != files$bytes)
  if (length(wrong)) {
    i <- wrong[1L]
    refuse(file = file.path(folder, files$file[i]), if (is.na(sizes[i])) {
      paste0("file ", files$file[i], " is gone.")
    } else {
      paste0("file ", files$file[i], " has ", sizes[i], " bytes, not ", files$bytes[i], ".")
    })
  }
  manifest
}

parse_manifest <- function(json) {
  if (!identical(json$format, manifest_format)) {
    part_error(paste0("its format isn't \"", manifest_format, "\""))
  }
  field <- function(name, type) vapply(json$files, `[[`, type, name)
  files <- new_frame(list(
    file = field("file", ""), rows = field("rows", 0), bytes = field("bytes", 0),
    part = as.integer(field("part", 0))
  ), length(json$files))
  model <- lapply(json$keys, function(key) {
    column <- vector(key$type, 0L)
    if (length(key$levels)) attr(column, "levels") <- unlist(key$levels)
    if ("factor" %in% key$class && is.null(levels(column))) levels(column) <- character()
    if (length(key$class)) class(column) <- unlist(key$class)
    column
  })
  names(model) <- vapply(json$keys, `[[`, "", "name")
  list(
    kind = json$kind, columns = as.character(unlist(json$columns)),
    int64 = as.character(unlist(json$integer64)), model = if (length(model)) model, files = files
  )
}
