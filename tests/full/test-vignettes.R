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
      "\\b(cluster|tasks?|partition|muster|socket)_[a-z_]+(?=[(])", text, perl = TRUE)))
    for (name in unique(named)) expect_true(name %in% exported, label = paste(file, name))
    pages <- unlist(regmatches(text, gregexpr("(?<=vignette[(]\")[a-z]+", text, perl = TRUE)))
    expect_true(all(file.exists(sprintf("../../vignettes/%s.Rmd", pages))))
  }
})

# A package of the vignettes alone, built and installed without knitr; its library.
install_vignettes <- function(folder) {
  source <- write_tiny("vignettes.only", "f <- function() NULL", base = folder)
  dir.create(file.path(source, "vignettes"))
  # Those with data of another package take their time.
  file.copy(grep("groups|flights", vignettes, value = TRUE, invert = TRUE),
    file.path(source, "vignettes"))
  library <- file.path(folder, "library")
  dir.create(library)
  run <- function(command, ...) {
    processx::run(file.path(R.home("bin"), command), c(...), wd = folder, timeout = 120,
      env = c("current", R_LIBS = paste(.libPaths(), collapse = ":")))
  }
  run("Rscript", normalizePath("../../tools/vignettes.R"), source)
  run("R", "CMD", "build", "--no-manual", "--no-build-vignettes", source)
  run("R", "CMD", "INSTALL", paste0("--library=", library), "vignettes.only_0.1.tar.gz")
  library
}

test_that("vignettes are built, run and found without knitr, rmarkdown and pandoc", {
  limit_time(120, parent.frame())
  library <- install_vignettes(local_folder())
  for (name in c("start", "moving", "troubleshooting", "frontends")) {
    found <- utils::vignette(name, "vignettes.only", lib.loc = library)
    expect_identical(found$PDF, paste0(name, ".html"))
    html <- lines_of(file.path(found$Dir, "doc", found$PDF))
    expect_match(html, paste0("<h1>", found$Title, "</h1>"), fixed = TRUE, all = FALSE)
    # Nothing is left of the sources' marks.
    code <- cumsum(grepl("<pre>", html)) > cumsum(grepl("</pre>", c("", html[-length(html)])))
    expect_false(any(grepl("```|\\*\\*|^#|^\\||\001", html[!code])))
    parse(file.path(found$Dir, "doc", found$R))
  }
  html <- lines_of(system.file("doc", "start.html", package = "vignettes.only", lib.loc = library))
  expect_match(html, "#&gt; [1]  1  4  9 16", fixed = TRUE, all = FALSE)
  # Each front end gave the same answer, also after a loss.
  html <- lines_of(system.file("doc", "frontends.html",
    package = "vignettes.only", lib.loc = library
  ))
  shown <- grep("^#&gt;", html, value = TRUE)
  expect_match(shown, "TRUE", all = FALSE)
  expect_false(any(grepl("FALSE|Error", shown)), label = paste(shown, collapse = "\n"))
})
