# muster_cli_install(): the command in a folder, its man page, its completion.

install_cli <- function(...) {
  message_text <- NULL
  files <- withCallingHandlers(muster_cli_install(...), muster_message_install = function(m) {
    message_text <<- conditionMessage(m)
    invokeRestart("muffleMessage")
  })
  list(files = files, said = message_text)
}

# A folder that is a home's: list(bin, share).
local_home <- function(frame = parent.frame()) {
  home <- local_folder(frame)
  list(home = home, bin = file.path(home, "bin"), share = file.path(home, "share"))
}

# The options that a command's help names.
help_names <- function(command) help_options(command_help(command))$name

test_that("the command is installed and runs, whatever the folder is called", {
  folder <- file.path(local_folder(), "it's \"mine\" $HOME", "bin")
  run <- install_cli(folder)
  expect_identical(names(run$files), c("command", "man", "bash", "zsh"))
  expect_true(all(file.exists(run$files)))
  local_variables(R_LIBS = paste(.libPaths()[-1L], collapse = ":"), PATH = "/usr/bin:/bin")
  out <- suppressWarnings(system2(run$files[["command"]], "--version", stdout = TRUE))
  expect_identical(out, paste("muster", utils::packageVersion("muster")))
  out <- suppressWarnings(system2(run$files[["command"]],
    c("probe", "127.0.0.1", "--port", "1"), stdout = TRUE))
  expect_identical(attr(out, "status"), 1L)
  # A home is left as it was but for these files.
  top <- dirname(folder)
  expect_setequal(list.files(top, recursive = TRUE, all.files = TRUE),
    c("bin/muster", "share/man/man1/muster.1", "share/bash-completion/completions/muster",
      "share/zsh/site-functions/_muster"))
})

test_that("a folder not called bin keeps all to itself, and NULL installs the command only", {
  folder <- local_folder()
  run <- install_cli(file.path(folder, "tools"))
  expect_identical(list.files(folder), "tools")
  expect_identical(unname(run$files["man"]),
    file.path(folder, "tools", "share", "man", "man1", "muster.1"))
  expect_identical(names(install_cli(file.path(folder, "one"), share = NULL)$files), "command")
  expect_identical(list.files(file.path(folder, "one")), "muster")
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
  expect_match(install_cli(home$bin)$said, paste("first:", other$files[["command"]]), fixed = TRUE)
})

test_that("muster's own files are replaced, and no others ever", {
  home <- local_home()
  first <- install_cli(home$bin)$files
  writeLines(c("#!/bin/sh", paste("#", install_mark), "exit 3"), first[["command"]])
  again <- install_cli(home$bin)$files
  expect_identical(again, first)
  expect_identical(readLines(first[["command"]]), command_script())
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
    for (file in c("command", "man", "bash", "zsh")) {
      home <- local_home()
      files <- sub(dirname(dirname(first[["command"]])), home$home, first, fixed = TRUE)
      dir.create(dirname(files[[file]]), recursive = TRUE)
      foreign[[name]](files[[file]])
      before <- list.files(home$home, recursive = TRUE, include.dirs = TRUE)
      error <- expect_error(install_cli(home$bin), class = "muster_error_input", info = name)
      expect_identical(error$file, files[[file]])
      expect_match(conditionMessage(error), "is in the way", fixed = TRUE)
      expect_identical(list.files(home$home, recursive = TRUE, include.dirs = TRUE), before,
        info = paste(name, file))
    }
  }
})

test_that("what is no folder, or can't be written to, is an error", {
  for (wrong in list(1, NA_character_, "", character(), c("a", "b"), "a\nb")) {
    expect_error(muster_cli_install(wrong), class = "muster_error_input")
    expect_error(muster_cli_install(tempfile(), share = wrong), class = "muster_error_input")
  }
  file <- tempfile()
  writeLines("a file", file)
  defer(function() unlink(file))
  error <- expect_error(muster_cli_install(file.path(file, "bin")), class = "muster_error_input")
  expect_match(conditionMessage(error), "Can't write", fixed = TRUE)
})

test_that("the command says what to do when R or the package has moved", {
  home <- local_home()
  file <- install_cli(home$bin)$files[["command"]]
  lines <- readLines(file)
  writeLines(sub("^program=.*", "program=/nowhere/muster", lines), file)
  out <- suppressWarnings(system2(file, "--version", stdout = TRUE, stderr = TRUE))
  expect_identical(attr(out, "status"), 2L)
  expect_match(paste(out, collapse = " "), "muster::muster_cli_install() again", fixed = TRUE)
})

test_that("the man page has every command, option and status, and man reads it", {
  page <- install_cli(local_home()$bin)$files[["man"]]
  lines <- readLines(page)
  expect_match(lines[2L], "^[.]TH MUSTER 1 ")
  text <- gsub("\\-", "-", paste(lines, collapse = "\n"), fixed = TRUE)
  for (command in names(cli_commands())) {
    expect_gt(length(help_names(command)), 0L)
    for (option in help_names(command)) {
      expect_match(text, paste0("\\fB", option, "\\fR"), fixed = TRUE)
    }
  }
  skip_if_not(nzchar(Sys.which("groff")), "there is no groff")
  skip_if(nzchar(Sys.getenv("MUSTER_TEST_SANITIZERS")), "sanitizers complain of groff")
  said <- system2("groff", c("-man", "-ww", "-Tutf8", shQuote(page)), stdout = TRUE, stderr = TRUE)
  expect_null(attr(said, "status"))
  expect_false(any(grepl("warning|error", said)))
})

test_that("options of a help text are read with their values and all of their lines", {
  options <- help_options(c("Usage: muster x", "", "  --one NAME[,NAME...]   first", "  --two  a",
    "          b", "Status: 0"))
  expect_identical(options$name, c("--one", "--two"))
  expect_identical(options$value, c("NAME[,NAME...]", ""))
  expect_identical(options$about, c("first", "a b"))
  # Each command's own parser knows the options that its help names, and no completion misses one.
  for (option in c(cli_probe_flags, setdiff(cli_probe_valued, c("overall", "mechanism")))) {
    expect_true(paste0("--", option) %in% help_names("probe"), label = option)
  }
  for (command in names(cli_values())) {
    expect_true(all(paste0("--", names(cli_values()[[command]])) %in% help_names(command)))
  }
})

# What bash offers for the last of these words.
bash_offers <- function(file, ...) {
  code <- paste(
    "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _muster;",
    "printf '%s\\n' \"${COMPREPLY[@]}\""
  )
  out <- system2("bash", c("--norc", "-c", shQuote(code), shQuote(c(file, ...))), stdout = TRUE)
  out[nzchar(out)]
}

test_that("bash completes commands, options and values", {
  skip_if_not(nzchar(Sys.which("bash")), "there is no bash")
  file <- install_cli(local_home()$bin)$files[["bash"]]
  registered <- system2("bash", c("--norc", "-c",
    shQuote("source \"$0\"; complete -p muster"), shQuote(file)), stdout = TRUE)
  expect_identical(registered, "complete -o default -F _muster muster")
  expect_identical(bash_offers(file, "muster", ""),
    c(names(cli_commands()), "--help", "--version"))
  expect_identical(bash_offers(file, "muster", "d"), "doctor")
  for (command in names(cli_commands())) {
    expect_identical(bash_offers(file, "muster", command, "--"), help_names(command))
  }
  expect_identical(bash_offers(file, "muster", "probe", "10.0.0.0/24", "--re"),
    c("--retries", "--resolve"))
  expect_identical(bash_offers(file, "muster", "probe", "--service", "p"),
    c("pcp", "psock", "pmcd", "pmproxy"))
  # bash cuts words at "=".
  expect_identical(bash_offers(file, "muster", "probe", "--service", "=", "t"), c("tcp", "tls"))
  expect_identical(bash_offers(file, "muster", "probe", "--service", "="),
    cli_values()$probe$service)
  expect_identical(bash_offers(file, "muster", "doctor", "--item", "som"), "somaxconn")
  # Numbers and hosts are the user's.
  expect_identical(bash_offers(file, "muster", "probe", "--port", ""), character())
  skip_if_not(nzchar(Sys.which("shellcheck")), "there is no shellcheck")
  said <- system2("shellcheck", c("-s", "bash", shQuote(file)), stdout = TRUE)
  expect_identical(said, character())
})

test_that("zsh loads the completion and gets commands, options and values", {
  skip_if_not(nzchar(Sys.which("zsh")), "there is no zsh")
  file <- install_cli(local_home()$bin)$files[["zsh"]]
  zsh <- function(code) system2("zsh", c("-f", "-c", shQuote(code), shQuote(file)), stdout = TRUE)
  found <- zsh(paste(
    "fpath=(${0:h} $fpath); autoload -Uz compinit; compinit -D -u;", "print $_comps[muster]"
  ))
  expect_identical(found, "_muster")
  # What zsh's own functions would be given.
  offers <- function(...) {
    zsh(paste0("_describe() { print -l -- ${(P)2} }; _arguments() { print -l -- \"$@\" }; ",
      "words=(", paste(c("muster", ...), collapse = " "), "); CURRENT=$#words; source $0"))
  }
  expect_match(offers("''"), paste0("^(", paste(names(cli_commands()), collapse = "|"), "):"))
  for (command in names(cli_commands())) {
    given <- offers(command, "''")
    expect_identical(sub("^[*]?(--[a-z-]+).*", "\\1", grep("^[*]?--", given, value = TRUE)),
      help_names(command))
    # _arguments wants brackets in pairs.
    expect_true(all(lengths(gregexpr("[", given, fixed = TRUE)) == 1L))
  }
  expect_match(offers("probe", "''"), "--service=.*[(]tcp pcp ", all = FALSE)
})
