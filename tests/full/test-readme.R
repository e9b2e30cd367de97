# README is true: every block of R and of shell code runs as it stands, section by section, and
# prints what README says; every figure in its table names the benchmark that makes it again.
# The blocks that call make are shown to make, and not run: this is part of `make check`, and
# suite demo runs `make demo`.

readme <- readLines("../../README.md", encoding = "UTF-8")

# A data frame of blocks: section, language, first (the line in README) and code, a list of lines.
readme_blocks <- function(lines) {
  fence <- grep("^```", lines)
  starts <- fence[c(TRUE, FALSE)]
  ends <- fence[c(FALSE, TRUE)]
  stopifnot(length(starts) == length(ends))
  headings <- which(grepl("^## ", lines) & !seq_along(lines) %in%
    unlist(Map(seq, starts, ends)))
  blocks <- data.frame(
    section = sub("^## ", "", lines[headings[findInterval(starts, headings)]]),
    language = sub("^```", "", lines[starts]), first = starts + 1L
  )
  blocks$code <- Map(function(from, to) lines[from:to], starts + 1L, ends - 1L)
  blocks
}
blocks <- readme_blocks(readme)

# Numbers and blanks are those of another machine.
plain_words <- function(lines) trimws(gsub("[ \t]+", " ", gsub("[0-9][0-9.,]*", "N", lines)))

is_output <- function(lines) grepl("^#>", lines)
output_of <- function(code) plain_words(sub("^#> ?", "", code[is_output(code)]))

# A library with muster, and in the folder what README installs. The package is packed as it is
# installed here; suite "R CMD check" builds the source package and installs it.
local_readme <- function(frame = parent.frame()) {
  folder <- local_folder(frame)
  file <- sprintf("muster_%s.tar.gz", utils::packageVersion("muster"))
  packed <- system2("tar", c("-czf", shQuote(file.path(folder, file)), "-C",
    shQuote(dirname(find.package("muster"))), "muster"))
  stopifnot(packed == 0L)
  dir.create(file.path(folder, "library"))
  dir.create(file.path(folder, "home"))
  folder
}

# R code that runs the blocks of one section, in the order of README and in one session: shell
# code while the session's objects live. A shell block ends with its first error. The status of
# `muster doctor` says how this machine is.
section_script <- function(parts, folder) {
  unlist(lapply(seq_len(nrow(parts)), function(i) {
    code <- parts$code[[i]]
    if (parts$language[i] == "r") {
      return(code)
    }
    file <- file.path(folder, sprintf("block-%d.sh", parts$first[i]))
    writeLines(code, file)
    allowed <- if (any(grepl("^muster doctor", code))) "0:1" else "0L"
    sprintf("stopifnot(system(\"sh -e %s\") %%in%% %s)", file, allowed)
  }))
}

run_section <- function(parts, folder) {
  file <- file.path(folder, "section.R")
  writeLines(section_script(parts, folder), file)
  out <- file.path(folder, "said")
  path <- c(file.path(folder, "home", ".local", "bin"), R.home("bin"), Sys.getenv("PATH"))
  run <- processx::process$new(
    file.path(R.home("bin"), "R"), c("--no-echo", "--vanilla", "-f", file),
    wd = folder, stdout = out, stderr = "2>&1", env = c("current",
      HOME = file.path(folder, "home"), PATH = paste(path, collapse = ":"),
      R_LIBS = paste(c(file.path(folder, "library"), .libPaths()), collapse = ":"))
  )
  defer(function() run$kill())
  wait_until(!run$is_alive(), 400)
  list(status = run$get_exit_status(), said = readLines(out, warn = FALSE, encoding = "UTF-8"))
}

# Expects the lines of `wanted` among those of `said`, in this order.
expect_in_order <- function(said, wanted, info) {
  at <- 0L
  for (line in wanted) {
    hit <- which(said == line & seq_along(said) > at)
    expect(length(hit) > 0L, paste0(info, ": not printed: ", line, "\nbut:\n",
      paste(said, collapse = "\n")))
    if (!length(hit)) return(invisible())
    at <- hit[1L]
  }
}

# Packages that the code calls by `::` and that aren't here.
lost_packages <- function(parts) {
  code <- unlist(parts$code)
  named <- unlist(regmatches(code, gregexpr("[A-Za-z][A-Za-z0-9.]*(?=::)", code, perl = TRUE)))
  Filter(function(name) !requireNamespace(name, quietly = TRUE), unique(named))
}

test_that("README's blocks are found, and their languages are ones that are run", {
  expect_gt(nrow(blocks), 8L)
  expect_setequal(blocks$language, c("r", "sh"))
})

test_that("every block of README runs as it stands and prints what README says", {
  limit_time(300, parent.frame())
  folder <- local_readme()
  # A server of Performance Co-Pilot's would be found.
  open <- discover("127.0.0.0/24", 44321)$status == "open"
  skip_if(any(open), "something listens on the port that README asks")
  not_run <- character()
  for (section in c("Install", "The muster command")) expect_true(section %in% blocks$section)
  # These two first: the others use what they install.
  first <- c("Install", "The muster command")
  for (section in c(first, setdiff(blocks$section, first))) {
    parts <- blocks[blocks$section == section, ]
    make <- vapply(parts$code, function(code) all(grepl("^make ", code)), NA)
    for (line in unlist(parts$code[make])) {
      status <- withr::with_dir("../..", system(paste(sub("^make", "make -n", line),
        ">/dev/null 2>&1")))
      expect_identical(status, 0L, info = line)
    }
    parts <- parts[!make, ]
    if (!nrow(parts)) next
    lost <- lost_packages(parts)
    if (length(lost)) {
      not_run <- c(not_run, paste(section, "needs", lost[1L]))
      next
    }
    run <- run_section(parts, folder)
    said <- plain_words(run$said)
    expect_identical(run$status, 0L, info = paste(c(section, run$said), collapse = "\n"))
    for (code in parts$code) {
      # How this machine is differs.
      if (any(grepl("^muster doctor", code))) next
      expect_in_order(said, output_of(code), section)
    }
  }
  # README's package is this version, and its command is the library's that it names.
  expect_true(dir.exists(file.path(folder, "library", "muster")))
  skip_if(length(not_run) > 0L, paste(not_run, collapse = "; "))
})

test_that("every figure of README's table names the benchmark that makes it again", {
  rows <- grep("^\\|", readme, value = TRUE)[-(1:2)]
  named <- regmatches(rows, regexec("\\| ([^|]*) \\|$", rows))
  named <- vapply(named, `[`, "", 2L)
  names <- regmatches(named, gregexpr("(?<=`)[a-z0-9-]+(?=`)", named, perl = TRUE))
  expect_true(all(lengths(names) > 0L))
  for (name in unique(unlist(names))) {
    expect_true(file.exists(file.path("../../bench", paste0(name, ".R"))), label = name)
  }
})

test_that("files that README links are there", {
  links <- unlist(regmatches(readme, gregexpr("(?<=[]][(])[^)#]+", readme, perl = TRUE)))
  expect_gt(length(links), 5L)
  for (link in links) expect_true(file.exists(file.path("../..", link)), label = link)
})

test_that("citation() names muster, its title and its version", {
  expect_true(nzchar(system.file("CITATION", package = "muster")))
  entry <- utils::citation("muster")
  expect_identical(entry$title, paste0("muster: ", utils::packageDescription("muster")$Title))
  expect_match(entry$note, as.character(utils::packageVersion("muster")), fixed = TRUE)
  expect_match(format(entry, style = "text"), "The muster authors", fixed = TRUE)
})
