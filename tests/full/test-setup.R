# What tools/install-packages.R says of a repository that can't be reached, or hasn't got
# what it is asked for. Repositories are folders, and hosts on 127/8.

script <- normalizePath("../../tools/install-packages.R")

# Runs the script on a repository, in a folder of its own; `during` is called until it ends.
install_from <- function(repository, packages, during = function() NULL) {
  limit_time(120, parent.frame())
  folder <- local_folder()
  profile <- file.path(folder, "profile.R")
  writeLines(sprintf("options(repos = c(here = %s))", deparse(repository)), profile)
  run <- processx::process$new(
    file.path(R.home("bin"), "Rscript"), c(script, packages), wd = folder,
    stdout = file.path(folder, "said"), stderr = "2>&1",
    env = c("current", R_PROFILE_USER = profile, no_proxy = "*", LANGUAGE = "de")
  )
  defer(function() run$kill())
  wait_until({
    during()
    !run$is_alive()
  })
  list(status = run$get_exit_status(), said = readLines(file.path(folder, "said")))
}

# A folder that is a repository with one package, and its address.
local_repository <- function(frame = parent.frame()) {
  folder <- local_folder(frame)
  dir.create(file.path(folder, "src", "contrib"), recursive = TRUE)
  writeLines(c("Package: other", "Version: 1.0"), file.path(folder, "src", "contrib", "PACKAGES"))
  paste0("file://", folder)
}

free_port <- function() {
  server <- socket_listen()
  on.exit(socket_close(server))
  socket_status(server)$port
}

expect_out_of_reach <- function(run, repository, reason) {
  expect_identical(run$status, 0L)
  line <- grep("can't reach the R package repository", run$said, value = TRUE)
  expect_length(line, 1L)
  expect_match(line, repository, fixed = TRUE)
  expect_match(line, reason)
  expect_match(run$said, "going on without the R packages: absent1 absent2", all = FALSE)
  expect_false(any(grepl("not available|not in the R package", run$said)))
}
absent <- c("absent1", "absent2")

test_that("setup: a repository that refuses connections is called out of reach", {
  repository <- paste0("http://127.0.0.1:", free_port())
  expect_out_of_reach(install_from(repository, absent), repository, "its host can't be reached")
})

test_that("setup: a folder that isn't there is called out of reach", {
  repository <- "file:///nowhere/at/all"
  expect_out_of_reach(install_from(repository, absent), repository, "/nowhere/at/all/src/contrib")
})

test_that("setup: a web server without a repository is told from a repository", {
  server <- socket_listen()
  defer(function() socket_close(server))
  answer_404 <- function() {
    if (!socket_select(list(server), timeout = 0.2)) return()
    client <- socket_accept(server, timeout = 10)
    while (nzchar(socket_receive_lines(client, timeout = 10))) NULL
    socket_send_lines(client,
      c("HTTP/1.1 404 Not Found", "Content-Length: 0", "Connection: close", ""), sep = "\r\n")
    socket_close(client)
  }
  repository <- paste0("http://127.0.0.1:", socket_status(server)$port)
  expect_out_of_reach(install_from(repository, absent, answer_404), repository,
    "not with a repository.*404 Not Found")
})

test_that("setup: a certificate that isn't trusted is named as the reason", {
  openssl <- Sys.which("openssl")
  skip_if_not(nzchar(openssl), "there is no openssl program")
  folder <- local_folder()
  files <- file.path(folder, c("key", "cert"))
  system2(openssl, c("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test",
    "-days", "2", "-keyout", files[1L], "-out", files[2L]), stdout = FALSE, stderr = FALSE)
  port <- free_port()
  server <- processx::process$new(openssl, c("s_server", "-quiet", "-www", "-key", files[1L],
    "-cert", files[2L], "-accept", paste0("127.0.0.1:", port)))
  defer(function() server$kill())
  wait_until(identical(discover("127.0.0.1", port)$status, "open"))
  repository <- paste0("https://127.0.0.1:", port)
  expect_out_of_reach(install_from(repository, absent), repository,
    "its certificate can't be verified; ca-certificates")
})

test_that("setup: what a repository that is reached hasn't got is named", {
  run <- install_from(local_repository(), absent)
  expect_identical(run$status, 0L)
  expect_match(run$said, "not in the R package repository file://.* for R .*: absent1, absent2",
    all = FALSE)
  expect_false(any(grepl("can't reach", run$said)))
})

test_that("setup: without muster's own needs the status is 1", {
  run <- install_from("file:///nowhere/at/all", c("codetools>=999", "absent1"))
  expect_identical(run$status, 1L)
  expect_match(run$said, "can't go on without the R packages: codetools", all = FALSE)
})

test_that("setup: no repository is asked where nothing is missing", {
  run <- install_from("file:///nowhere/at/all", c("utils", "codetools>=0.1"))
  expect_identical(run, list(status = 0L, said = character()))
})

test_that("setup: --missing names packages, and https where R would fetch them over it", {
  words <- function(run) strsplit(trimws(run$said), " ")[[1L]]
  asked <- c("--missing", "utils", "absent1", "codetools>=999")
  run <- install_from("https://127.0.0.1:1", asked)
  expect_identical(words(run), c("absent1", "codetools", "https"))
  expect_identical(words(install_from("http://127.0.0.1:1", asked)), c("absent1", "codetools"))
  expect_identical(install_from("https://127.0.0.1:1", c("--missing", "utils"))$said, character())
})
