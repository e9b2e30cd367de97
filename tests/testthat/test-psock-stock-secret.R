# What R's own workers are told by their standard input, and what their command lines show.

stock_call <- "parallel:::.workRSOCK()"

# Texts that something on the way could take for more than text.
odd_texts <- c(
  QUOTES = "a'b \"c\" `d`", SHELL = "$HOME $(id) `id` \\ \\n ; | & > % !x",
  LINES = "one\nend\n\ttwo\r", UTF8 = "\u00e9\u20ac\U1F600", EMPTY = "", BLANK = "  ",
  DIGIT = "\u00e95", CONTROL = "a\001\033[0m",
  LONG = strrep("0123456789", 20000L)
)

test_cluster("rscript_envs and start-up code reach R's own workers whole, in any locale", {
  skip_on_os("windows")
  code <- bquote(said <- .(odd_texts[["UTF8"]]))
  for (rscript in list("*", c("LC_ALL=C", "*"))) {
    cl <- makeClusterPSOCK(1,
      rscript = rscript, rscript_call = stock_call, rscript_startup = list(code, "n <- 1\nn <- 2"),
      rscript_envs = c(odd_texts, HOME = NA)
    )
    got <- clusterCall(cl, function(names) lapply(Sys.getenv(names), charToRaw), names(odd_texts))
    expect_identical(got[[1]], lapply(odd_texts, charToRaw))
    expect_identical(clusterEvalQ(cl, charToRaw(said))[[1]], charToRaw(odd_texts[["UTF8"]]))
    expect_identical(clusterEvalQ(cl, list(n, Sys.getenv("HOME", NA)))[[1]], list(2, NA_character_))
    stopCluster(cl)
  }
})

test_cluster("no command line shows what a worker is told", {
  skip_without_proc()
  o <- makeNodePSOCK("localhost",
    rscript = c("TOKEN=hush1", "*"), rscript_call = stock_call, action = "options",
    rscript_envs = c(KEY = "hush2"), rscript_startup = "x <- 'hush3'"
  )
  expect_false(grepl("hush", command_here(o, 1L, "parallel", "run")))
  far <- makeNodePSOCK("n1.example.org",
    rscript_envs = c(KEY = "hush2"), rscript_startup = "x <- 'hush3'", rshcmd = "ssh",
    action = "options"
  )
  expect_false(grepl("hush", command_here(far, 1L, "parallel", "run")))
  cl <- makeClusterPSOCK(1,
    rscript = c("TOKEN=hush1", "*"), rscript_call = stock_call,
    rscript_envs = c(KEY = "hush2"), rscript_startup = "x <- 'hush3'"
  )
  defer(function() stopCluster(cl))
  seen <- clusterEvalQ(cl, c(Sys.getenv(c("TOKEN", "KEY"), names = FALSE), x))[[1]]
  expect_identical(seen, paste0("hush", 1:3))
  word <- clusterEvalQ(cl, getOption("muster.stock_word"))[[1]]
  expect_match(word, "^muster-word-[0-9a-f]{32}$")
  lines <- command_lines()
  expect_true(any(grepl("PORT=[0-9]+", lines)))
  expect_false(any(grepl("hush[0-9]", lines)))
  expect_false(any(grepl(sub("muster-word-", "", word), lines, fixed = TRUE)))
  # Two workers have two words.
  two <- makeClusterPSOCK(2, rscript_call = stock_call)
  defer(function() stopCluster(two))
  words <- unlist(clusterEvalQ(two, getOption("muster.stock_word")))
  expect_identical(anyDuplicated(c(words, word)), 0L)
})

test_cluster("what a worker was told is gone from its standard input, which its children have", {
  skip_without_proc()
  cl <- makeClusterPSOCK(1, rscript_envs = c(KEY = "hush"), rscript_call = stock_call)
  defer(function() stopCluster(cl))
  left <- clusterEvalQ(cl, system("cat /proc/self/fd/0; cat", intern = TRUE))[[1]]
  expect_identical(left, character())
  expect_identical(clusterCall(cl, Sys.getenv, "KEY"), list("hush"))
})

test_cluster("a launch that fails shows its command without the values of variables", {
  error <- expect_error(
    makeClusterPSOCK(1,
      rscript_envs = c(KEY = "hush"), rscript_call = "stop('no luck')"
    ),
    class = "muster_error_launch"
  )
  expect_match(error$output, "no luck")
  expect_match(error$command, "no luck")
  expect_false(grepl("hush", paste(conditionMessage(error), error$command)))
})

# A container program as far as workers see of it: standard input is passed on with -i only.
fake_docker <- function() {
  file <- file.path(local_folder(parent.frame()), "docker")
  writeLines(c(
    "#!/bin/sh", "[ \"$1\" = run ] || exit 9", "shift", "input=no",
    "while [ \"${1#-}\" != \"$1\" ]; do [ \"$1\" != -i ] || input=yes; shift; done",
    "shift", "[ $input = yes ] || exec </dev/null", "exec \"$@\""
  ), file)
  Sys.chmod(file, "0700")
  file
}

test_cluster("a container's standard input is asked for, and one that is empty is told of", {
  docker <- fake_docker()
  words <- c(docker, "run", "--net=host", "image", file.path(R.home("bin"), "Rscript"))
  cl <- makeClusterPSOCK(1, rscript = words, rscript_envs = c(A = "b c"))
  defer(function() stopCluster(cl))
  expect_identical(cl[[1]]$start, "stock")
  expect_identical(clusterCall(cl, Sys.getenv, "A"), list("b c"))
  # What is shell text already is left as it is.
  error <- expect_error(makeClusterPSOCK(1, rscript = I(words)), class = "muster_error_launch")
  expect_match(conditionMessage(error), "standard input")
  given <- with_input(c("sudo", "podman", "exec", "x"))
  expect_identical(given, c("sudo", "podman", "exec", "-i", "x"))
  others <- list("Rscript", c("apptainer", "exec", "x"), c("docker", "ps"), c("run", "docker"))
  for (other in others) expect_identical(with_input(other), other)
})

test_cluster("what manual = TRUE shows starts the worker, and hides its word from ps", {
  skip_without_proc()
  folder <- local_folder()
  shown <- file.path(folder, "shown")
  script <- file.path(folder, "user.sh")
  writeLines(c(
    "until grep -q '^end$' shown 2>/dev/null; do [ -f shown ] || exit 0; sleep 0.05; done",
    "sed -n '/<<.end.$/,/^end$/p' shown >command", "exec sh command >/dev/null 2>&1"
  ), script)
  local_directory(folder)
  file.create(shown)
  system2("sh", script, wait = FALSE)
  out <- file(shown, "w")
  sink(out)
  cl <- tryCatch(
    makeClusterPSOCK(1, manual = TRUE, rscript_envs = c(KEY = "hush it's")),
    finally = {
      sink()
      close(out)
    }
  )
  defer(function() stopCluster(cl))
  expect_identical(clusterCall(cl, Sys.getenv, "KEY"), list("hush it's"))
  expect_false(any(grepl("hush it", command_lines(), fixed = TRUE)))
  # For cmd.exe, which has no such thing.
  text <- told_by_hand("Rscript", "x <- 1", "cmd")
  expect_identical(utils::tail(text, 2L), c("x <- 1", "end"))
  expect_false(any(grepl("<<", text, fixed = TRUE)))
})

test_that("a worker's first expression has nothing that a shell without quoting would split", {
  expect_false(grepl("[\"' ]", hear_call))
  expect_silent(parse(text = hear_call))
})

# Runs in a worker before it connects: opens connections that stay silent.
silence <- function(n) {
  paste(
    "args <- commandArgs(TRUE)",
    "port <- as.integer(sub('PORT=', '', grep('^PORT=', args, value = TRUE)))",
    paste0("silent <- lapply(seq_len(", n, "), function(i) {"),
    "socketConnection('localhost', port, blocking = FALSE, open = 'a+b') })",
    stock_call,
    sep = "; "
  )
}

test_cluster("workers come between more silent peers than there are places", {
  # Each R has 125 connections to give.
  cl <- makeClusterPSOCK(2, rscript_call = silence(100))
  defer(function() stopCluster(cl))
  closed <- clusterEvalQ(cl, {
    for (con in silent) close(con)
    length(silent)
  })
  expect_gt(sum(unlist(closed)), silent_most + 2L)
  expect_identical(clusterCall(cl, function() 1), list(1, 1))
})

test_that("the oldest silent peers go first, and those that have said their word stay", {
  peer <- function(since, worker = 0L) list(link = NULL, since = since, worker = worker)
  state <- new.env()
  state$workers <- list(1, 2)
  most <- silent_most + 2L
  state$peers <- c(list(peer(1), peer(2, 2L)), lapply(seq_len(most) + 2, peer))
  turn_away(state, 3)
  expect_identical(vapply(state$peers, `[[`, 0, "since"), seq_len(most + 1L) + 1)
  turn_away(state, 4 + answer_s)
  expect_identical(vapply(state$peers, `[[`, 0, "since"), c(2, seq_len(most - 1L) + 3))
  turn_away(state, 1e6)
  expect_identical(vapply(state$peers, `[[`, 0L, "worker"), 2L)
})
