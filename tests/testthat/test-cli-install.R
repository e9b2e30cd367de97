# muster_cli_install(): the command in a folder.

install_cli <- function(...) {
  message_text <- NULL
  file <- withCallingHandlers(muster_cli_install(...), muster_message_install = function(m) {
    message_text <<- conditionMessage(m)
    invokeRestart("muffleMessage")
  })
  list(file = file, said = message_text)
}

# A folder that is a home's: list(home, bin).
local_home <- function(frame = parent.frame()) {
  home <- local_folder(frame)
  list(home = home, bin = file.path(home, "bin"))
}

test_that("the command is installed and runs, whatever the folder is called", {
  folder <- file.path(local_folder(), "it's \"mine\" $HOME", "bin")
  run <- install_cli(folder)
  expect_identical(basename(run$file), "muster")
  local_variables(R_LIBS = paste(.libPaths()[-1L], collapse = ":"), PATH = "/usr/bin:/bin")
  out <- suppressWarnings(system2(run$file, "--version", stdout = TRUE))
  expect_identical(out, paste("muster", utils::packageVersion("muster")))
  out <- suppressWarnings(system2(run$file,
    c("probe", "127.0.0.1", "--port", "1"), stdout = TRUE))
  expect_identical(attr(out, "status"), 1L)
  # A home is left as it was but for this file.
  top <- dirname(folder)
  expect_identical(list.files(top, recursive = TRUE, all.files = TRUE), "bin/muster")
})

test_that("it says how to get the folder into PATH, or which program comes first", {
  home <- local_home()
  said <- install_cli(home$bin)$said
  expect_match(said, home$bin, fixed = TRUE)
  line <- sub(".*(export PATH=.*)", "\\1", grep("isn't in PATH", strsplit(said, "\n")[[1L]],
    value = TRUE))
  found <- system2("sh", c("-c", shQuote(paste0(line, "; command -v muster"))), stdout = TRUE)
  expect_identical(found, file.path(home$bin, "muster"))
  local_variables(PATH = paste(home$bin, Sys.getenv("PATH"), sep = ":"))
  expect_false(grepl("PATH|first", install_cli(home$bin)$said))
  other <- install_cli(file.path(home$home, "other"))
  local_variables(PATH = paste(file.path(home$home, "other"), Sys.getenv("PATH"), sep = ":"))
  expect_match(install_cli(home$bin)$said, paste("first:", other$file), fixed = TRUE)
})

test_that("muster's own file is replaced, and no other ever", {
  home <- local_home()
  first <- install_cli(home$bin)$file
  writeLines(c("#!/bin/sh", paste("#", install_mark), "exit 3"), first)
  expect_identical(install_cli(home$bin)$file, first)
  expect_identical(readLines(first), command_script())
  foreign <- list(
    file = function(file) writeLines("mine", file),
    empty = function(file) file.create(file),
    binary = function(file) writeBin(as.raw(c(0, 255, 10, 0)), file),
    folder = dir.create,
    `link to muster's program` = function(file) {
      file.symlink(system.file("exec", "muster", package = "muster"), file)
    },
    `link to nothing` = function(file) file.symlink(tempfile(), file)
  )
  for (name in names(foreign)) {
    home <- local_home()
    dir.create(home$bin)
    file <- file.path(home$bin, "muster")
    foreign[[name]](file)
    before <- list.files(home$home, recursive = TRUE, include.dirs = TRUE)
    error <- expect_error(install_cli(home$bin), class = "muster_error_input", info = name)
    expect_identical(error$file, file)
    expect_match(conditionMessage(error), "is in the way", fixed = TRUE)
    expect_identical(list.files(home$home, recursive = TRUE, include.dirs = TRUE), before,
      info = name)
  }
})

test_that("what is no folder, or can't be written to, is an error", {
  for (wrong in list(1, NA_character_, "", character(), c("a", "b"), "a\nb")) {
    expect_error(muster_cli_install(wrong), class = "muster_error_input")
  }
  file <- tempfile()
  writeLines("a file", file)
  defer(function() unlink(file))
  error <- expect_error(muster_cli_install(file.path(file, "bin")), class = "muster_error_input")
  expect_match(conditionMessage(error), "Can't write", fixed = TRUE)
})

test_that("the command says what to do when R or the package has moved", {
  home <- local_home()
  file <- install_cli(home$bin)$file
  lines <- readLines(file)
  writeLines(sub("^program=.*", "program=/nowhere/muster", lines), file)
  out <- suppressWarnings(system2(file, "--version", stdout = TRUE, stderr = TRUE))
  expect_identical(attr(out, "status"), 2L)
  expect_match(paste(out, collapse = " "), "muster::muster_cli_install() again", fixed = TRUE)
})
