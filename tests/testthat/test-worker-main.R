# What a worker does with calls that ask at the console or leave R little to work with.

# What one worker answers to a call of f.
ask <- function(cl, f, ...) clusterCall(cl[1L], f, ...)[[1L]]

# Forked workers where the system has them, and booted ones.
starts <- function() if (.Call(ffi_can_fork)) c("fork", "spawn") else "spawn"

# What R would read from the keyboard comes from the script that booted the worker: nothing
# of the session's may stand there, and no file that has its descriptor.
test_cluster("code that reads from the console in a worker finds its end, and goes on", {
  answers <- expect_as_psock(list(
    browser = function(cl) {
      ask(cl, function() {
        browser()
        "went on"
      })
    },
    debug = function(cl) {
      ask(cl, function() {
        f <- function() {
          x <- 1
          x + 1
        }
        debug(f)
        f()
      })
    },
    all = function(cl) ask(cl, function() readLines(stdin())),
    one = function(cl) ask(cl, function() readLines(stdin(), 1L)),
    file = function(cl) ask(cl, function() readLines("stdin")),
    scan = function(cl) ask(cl, function() scan(n = 1L, quiet = TRUE)),
    text = function(cl) ask(cl, function() scan("stdin", "", quiet = TRUE)),
    code = function(cl) ask(cl, function() as.character(parse(stdin()))),
    readline = function(cl) ask(cl, function() readline("? ")),
    children = function(cl) ask(cl, function() system("cat", intern = TRUE)),
    menu = function(cl) ask(cl, function() tryCatch(menu("a"), error = conditionMessage)),
    recover = function(cl) {
      ask(cl, function() {
        options(error = recover)
        tryCatch(stop("boom"), error = conditionMessage)
      })
    },
    # Files that are opened later have other numbers.
    later = function(cl) {
      ask(cl, function() {
        path <- tempfile()
        writeLines(as.character(1:3), path)
        files <- lapply(1:20, function(i) file(path, "r"))
        read <- readLines(stdin())
        for (con in files) close(con)
        read
      })
    }
  ))
  expect_identical(answers$browser, "went on")
  expect_identical(answers[c("all", "later")], list(all = character(), later = character()))
})

test_cluster("code that reads from the console again and again takes none of muster's messages", {
  for (start in starts()) {
    cl <- local_cluster(1, start = start, heartbeat = 0.5, retries = 0)
    # As long as it takes for several questions whether the worker lives.
    expect_identical(ask(cl, function() {
      end <- Sys.time() + 2
      read <- character()
      while (Sys.time() < end) read <- c(read, readLines(stdin()))
      read
    }), character())
    cluster_stop(cl)
  }
})
