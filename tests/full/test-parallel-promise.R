# A web server whose answers are promises of tasks.

# httpuv and later keep threads and descriptors.
if (has_later() && requireNamespace("httpuv", quietly = TRUE)) {
  httpuv::stopServer(httpuv::startServer("127.0.0.1", freePort(), list()))
  later::later_fd(function(ready) NULL, .Call(ffi_notify, FALSE), timeout = 0)
  later::run_now(1)
}

# Runs event loops until a client has the whole answer to its request.
answer_of <- function(client) {
  text <- character()
  wait_until({
    later::run_now(0.001)
    text <- c(text, socket_receive_lines(client, timeout = 0))
    any(text == "") && length(text) > which(text == "")[1L]
  })
  text[length(text)]
}

test_cluster("an httpuv server answers others while 50 clients wait for tasks", {
  skip_if_not(has_later(), "later >= 1.4.0 or promises isn't here")
  skip_if_not_installed("httpuv")
  cl <- local_cluster(2)
  folder <- local_folder()
  go <- file.path(folder, "go")
  slow <- function(path) {
    while (!file.exists(go)) Sys.sleep(0.01) # tidy: the test's word
    if (path == "/slow7" && !file.exists(file.path(folder, "died"))) {
      file.create(file.path(folder, "died"))
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    if (path == "/slow9") stop("not nine")
    paste("slow", path)
  }
  page <- function(text) list(status = 200L, headers = list(), body = paste0(text, "\n"))
  port <- freePort()
  server <- httpuv::startServer("127.0.0.1", port, list(call = function(request) {
    path <- request$PATH_INFO
    if (path == "/quick") {
      return(page("quick"))
    }
    promises::then(task_submit(cl, slow, path), page, function(error) page("failed"))
  }))
  defer(function() httpuv::stopServer(server))
  ask <- function(path) {
    client <- socket_connect("127.0.0.1", port)
    socket_send_lines(client, c(paste("GET", path, "HTTP/1.1"), "Host: localhost", ""))
    client
  }
  waiting <- lapply(paste0("/slow", 1:50), ask)
  # All of them are there before the others ask.
  wait_until({
    later::run_now(0.01)
    length(the_parallel$promises) == 50L
  })
  for (k in 1:10) {
    client <- ask("/quick")
    expect_identical(answer_of(client), "quick")
    socket_close(client)
  }
  expect_length(the_parallel$promises, 50L)
  file.create(go)
  got <- healed(vapply(waiting, answer_of, ""))$value
  for (client in waiting) socket_close(client)
  expected <- paste0("slow /slow", 1:50)
  expected[9L] <- "failed"
  expect_identical(got, expected)
})
