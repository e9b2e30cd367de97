# Vignettes are true: they run, name functions and arguments that exist, and the messages that
# "Troubleshooting" explains are ones that muster has.

vignettes <- list.files("../../vignettes", "[.]Rmd$", full.names = TRUE)
lines_of <- function(file) readLines(file, encoding = "UTF-8")

# All strings in the package's code.
package_strings <- function() {
  unlist(lapply(list.files("../../R", "[.]R$", full.names = TRUE), function(file) {
    table <- utils::getParseData(parse(file, keep.source = TRUE), includeText = TRUE)
    vapply(table$text[table$token == "STR_CONST"], function(text) eval(str2lang(text)), "")
  }))
}

# What of a heading stands in the code: not what differs, nor where strings are joined.
fixed_pieces <- function(heading) {
  pieces <- unlist(strsplit(heading, "[.]{3}|[0-9]+|[(),:`]"))
  pieces <- gsub("^[ .]+|[ .]+$", "", pieces)
  pieces[nchar(pieces) >= 4L]
}

test_that("each message that Troubleshooting explains is one of muster's", {
  lines <- lines_of("../../vignettes/troubleshooting.Rmd")
  headings <- sub("^### ", "", grep("^### ", lines, value = TRUE))
  headings <- setdiff(headings, "`muster: command not found`") # a shell's
  expect_gt(length(headings), 20L)
  all <- package_strings()
  for (heading in headings) {
    pieces <- fixed_pieces(heading)
    expect_gt(length(pieces), 0L)
    for (piece in pieces) {
      expect(any(grepl(piece, all, fixed = TRUE)),
        paste0("No string in R/ has \"", piece, "\", which troubleshooting.Rmd explains."))
    }
  }
})

test_that("each class of error is in Troubleshooting", {
  text <- paste(lines_of("../../vignettes/troubleshooting.Rmd"), collapse = "\n")
  code <- unlist(lapply(list.files("../../R", full.names = TRUE), lines_of))
  kinds <- unlist(regmatches(code, gregexpr("(?<=abort_muster[(]\")[a-z]+|muster_error_[a-z]+",
    code, perl = TRUE)))
  kinds <- setdiff(unique(sub("^muster_error_", "", kinds)), "unknown") # never leaves doctor()
  expect_gt(length(kinds), 8L)
  for (kind in kinds) expect_match(text, paste0("`muster_error_", kind, "`"), fixed = TRUE)
})

test_that("functions and vignettes that vignettes name exist", {
  exported <- c(getNamespaceExports("muster"), getNamespaceExports("parallel"))
  for (file in vignettes) {
    text <- paste(lines_of(file), collapse = "\n")
    named <- unlist(regmatches(text, gregexpr(
      "\\b(cluster|task|partition|map|muster|socket)_[a-z_]+(?=[(])", text, perl = TRUE)))
    for (name in unique(named)) expect_true(name %in% exported, label = paste(file, name))
    pages <- unlist(regmatches(text, gregexpr("(?<=vignette[(]\")[a-z]+", text, perl = TRUE)))
    expect_true(all(file.exists(sprintf("../../vignettes/%s.Rmd", pages))))
  }
})
