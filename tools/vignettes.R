# Builds the vignettes with nothing but R, where knitr, rmarkdown or pandoc are missing:
#   Rscript tools/vignettes.R DIRECTORY
# DIRECTORY is a copy of the sources. It gets inst/doc/ (the sources, code and pages) and the
# index build/vignette.rds, as R CMD build would make them, and R CMD build
# --no-build-vignettes takes them over. muster must be installed: the code is run.
# Of Markdown this reads what the vignettes use: headings, paragraphs, lists, tables, fences,
# `code`, **bold**, *emphasis* and [links](address). No colours, no floats.

# The vignettes have the global environment for themselves.
local({
  arguments <- commandArgs(trailingOnly = TRUE)
  stopifnot(length(arguments) == 1L, dir.exists(arguments))

  escape <- function(text) {
    for (pair in list(c("&", "&amp;"), c("<", "&lt;"), c(">", "&gt;"))) {
      text <- gsub(pair[1L], pair[2L], text, fixed = TRUE)
    }
    text
  }

  # ---- code

  # A fence's "{r name, key = value}" as a list of expressions.
  chunk_options <- function(header) {
    inside <- sub("^```\\{r *(.*)\\}$", "\\1", header)
    inside <- sub("^[A-Za-z0-9_-]+ *(,|$)", "", inside)
    as.list(str2lang(paste0("list(", inside, ")")))[-1L]
  }

  # Runs code and gives its lines with what they print.
  run_code <- function(code, frame, show_messages) {
    parsed <- parse(text = code, keep.source = TRUE)
    said <- character()
    say <- function(text) {
      text <- unlist(strsplit(sub("\n$", "", text), "\n", fixed = TRUE))
      if (length(text)) said <<- c(said, paste("#>", text))
    }
    lines <- character()
    at <- 0L
    for (i in seq_along(parsed)) {
      place <- attr(parsed, "srcref")[[i]]
      said <- character()
      printed <- utils::capture.output(withCallingHandlers(
        {
          value <- withVisible(eval(parsed[[i]], frame))
          if (value$visible) print(value$value)
        },
        message = function(m) {
          if (show_messages) say(conditionMessage(m))
          invokeRestart("muffleMessage")
        },
        warning = function(w) {
          say(paste("Warning:", conditionMessage(w)))
          invokeRestart("muffleWarning")
        }
      ))
      say(paste(printed, collapse = "\n"))
      lines <- c(lines, code[seq(at + 1L, place[3L])], said)
      at <- place[3L]
    }
    c(lines, code[seq_along(code) > at])
  }

  # Runs all chunks: the lines without chunks, list(html) in their places, and the code.
  run_chunks <- function(lines) {
    frame <- globalenv()
    on.exit(rm(list = ls(frame), envir = frame))
    defaults <- list(eval = TRUE, include = TRUE, message = TRUE)
    # What the first chunk sets, with knitr's word for it.
    set <- function(...) defaults <<- utils::modifyList(defaults, list(...))
    frame$opts_chunk <- list(set = set)
    blocks <- list()
    code_of_all <- character()
    while (length(starts <- grep("^```", lines))) {
      from <- starts[1L]
      to <- starts[2L]
      code <- lines[seq_len(to - from - 1L) + from]
      shown <- code
      if (grepl("^```\\{r", lines[from])) {
        options <- utils::modifyList(defaults,
          lapply(chunk_options(lines[from]), eval, envir = frame))
        code <- gsub("knitr::opts_chunk", "opts_chunk", code, fixed = TRUE)
        run <- isTRUE(options$eval)
        if (run) shown <- run_code(code, frame, isTRUE(options$message))
        if (!isTRUE(options$include)) {
          shown <- NULL
        } else {
          code_of_all <- c(code_of_all, if (run) code else paste("#", code), "")
        }
      }
      html <- if (length(shown)) {
        paste0("<pre><code>", paste(escape(shown), collapse = "\n"), "</code></pre>")
      }
      blocks <- c(blocks, list(html))
      lines <- c(lines[seq_len(from - 1L)], "", paste0("\001", length(blocks)), "",
        lines[seq_along(lines) > to])
    }
    list(lines = lines, blocks = blocks, code = code_of_all)
  }

  # ---- Markdown

  inline <- function(text) {
    parts <- regmatches(text, gregexpr("`[^`]*`", text), invert = NA)[[1L]]
    code <- startsWith(parts, "`") & nchar(parts) > 1L
    plain <- escape(parts[!code])
    plain <- gsub("\\*\\*([^*]+)\\*\\*", "<strong>\\1</strong>", plain)
    plain <- gsub("\\*([^* ][^*]*)\\*", "<em>\\1</em>", plain)
    plain <- gsub("\\[([^]]+)\\]\\(([^)]+)\\)", "<a href=\"\\2\">\\1</a>", plain)
    parts[!code] <- plain
    parts[code] <- paste0("<code>", escape(gsub("`", "", parts[code], fixed = TRUE)), "</code>")
    paste(parts, collapse = "")
  }

  cells <- function(row, tag) {
    texts <- trimws(strsplit(gsub("^\\||\\|$", "", trimws(row)), "|", fixed = TRUE)[[1L]])
    paste0("<tr>", paste0("<", tag, ">", vapply(texts, inline, ""), "</", tag, ">",
      collapse = ""), "</tr>")
  }

  # One block: lines between empty ones.
  block_html <- function(lines, blocks) {
    first <- lines[1L]
    if (startsWith(first, "\001")) {
      return(blocks[[as.integer(substring(first, 2L))]])
    }
    if (grepl("^#+ ", first)) {
      level <- nchar(sub("^(#+) .*", "\\1", first))
      return(sprintf("<h%d>%s</h%d>", level, inline(sub("^#+ ", "", first)), level))
    }
    if (startsWith(first, "|")) {
      body <- vapply(lines[-(1:2)], cells, "", tag = "td")
      return(c("<table>", cells(first, "th"), body, "</table>"))
    }
    if (grepl("^[*-] ", first)) {
      items <- split(lines, cumsum(grepl("^[*-] ", lines)))
      items <- vapply(items, function(item) {
        inline(paste(trimws(sub("^[*-] ", "", item)), collapse = " "))
      }, "")
      return(c("<ul>", paste0("<li>", items, "</li>"), "</ul>"))
    }
    paste0("<p>", inline(paste(lines, collapse = "\n")), "</p>")
  }

  style <- paste(
    "body { max-width: 46em; margin: 2em auto; padding: 0 1em; font-family: sans-serif;",
    "line-height: 1.5 } pre { background: #f4f4f4; padding: 0.7em; overflow-x: auto }",
    "table { border-collapse: collapse } td, th { border-bottom: 1px solid #ccc;",
    "padding: 0.2em 0.8em; text-align: left; vertical-align: top }"
  )

  # Writes the page and the code of one vignette, and gives its row of the index.
  build <- function(file, doc) {
    lines <- readLines(file, encoding = "UTF-8")
    entry <- grep("VignetteIndexEntry", lines, value = TRUE)
    title <- sub(".*VignetteIndexEntry\\{(.*)\\}.*", "\\1", entry)
    ran <- run_chunks(lines[-seq_len(which(lines == "---")[2L])])
    text <- ran$lines
    parts <- split(text[nzchar(text)], cumsum(!nzchar(text))[nzchar(text)])
    body <- unlist(lapply(parts, block_html, ran$blocks), use.names = FALSE)
    name <- sub("[.]Rmd$", "", basename(file))
    out <- file.path(doc, paste0(name, c(".html", ".R", ".Rmd")))
    writeLines(enc2utf8(c(
      "<!DOCTYPE html>", "<html lang=\"en\"><head><meta charset=\"utf-8\">",
      paste0("<title>", escape(title), "</title><style>", style, "</style></head><body>"),
      paste0("<h1>", escape(title), "</h1>"), body, "</body></html>"
    )), out[1L], useBytes = TRUE)
    writeLines(enc2utf8(ran$code), out[2L], useBytes = TRUE)
    file.copy(file, out[3L], overwrite = TRUE)
    data.frame(
      File = basename(out[3L]), Title = title, PDF = basename(out[1L]), R = basename(out[2L]),
      Depends = I(list(character())), Keywords = I(list(character()))
    )
  }

  doc <- file.path(arguments, "inst", "doc")
  dir.create(doc, recursive = TRUE, showWarnings = FALSE)
  dir.create(file.path(arguments, "build"), showWarnings = FALSE)
  files <- list.files(file.path(arguments, "vignettes"), "[.]Rmd$", full.names = TRUE)
  index <- do.call(rbind, lapply(files, build, doc))
  # As older versions of R read it.
  saveRDS(index, file.path(arguments, "build", "vignette.rds"), version = 2L)
})
