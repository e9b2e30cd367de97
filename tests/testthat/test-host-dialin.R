# Hosts that dial in: launch_dialin(), cluster_invite(), muster_host(connect = ).

skip_without_tls <- function() {
  key <- tempfile("key-")
  said <- tryCatch(usable_key(key, NULL), error = conditionMessage)
  unlink(key)
  skip_if(grepl("without OpenSSL", said), "muster was built without OpenSSL")
}

# Runs an invitation's line in the background: list(known, output), a process and the file of what
# it prints.
dial_in <- function(line, frame = parent.frame()) {
  output <- tempfile("host-")
  words <- scan(text = line, what = "", quiet = TRUE)[-1L]
  code <- paste0("muster::muster_cli(", deparse1(words), ")")
  libraries <- paste(.libPaths(), collapse = ":")
  rscript <- file.path(R.home("bin"), "Rscript")
  pid <- system(
    paste0(
      "R_LIBS=", shQuote(libraries), " ", rscript, " -e ", shQuote(code), " </dev/null >", output,
      " 2>&1 & echo $!"
    ),
    intern = TRUE
  )
  known <- processes(as.integer(pid))
  defer(function() {
    if (still_runs(known)) tools::pskill(as.integer(pid), 9L)
    unlink(output)
  }, frame)
  list(known = known, pid = as.integer(pid), output = output)
}

has_ended <- function(host) wait_until(!any(still_runs(host$known)))

here_dialin <- function(...) launch_dialin(..., address = "127.0.0.1")

test_that("what launch_dialin() is given is checked", {
  expect_error(launch_dialin(0), "`hosts`", class = "muster_error_input")
  expect_error(launch_dialin(2, c(1, 2)), "`workers`", class = "muster_error_input")
  expect_error(launch_dialin(2, 1, 4432), "must be empty", class = "muster_error_input")
  expect_error(launch_dialin(port = 65536), "`port`", class = "muster_error_input")
  expect_error(launch_dialin(address = "a b"), "`address`", class = "muster_error_input")
  expect_error(launch_dialin(address = "node1:80"), "`address`", class = "muster_error_input")
  expect_error(launch_dialin(timeout = 0), "`timeout`", class = "muster_error_input")
  expect_error(muster_host("node1", "key"), "an address and a port", class = "muster_error_input")
  expect_error(muster_host("node1:80"), "`key`", class = "muster_error_input")
  expect_error(cluster_invite(1), "`cl`", class = "muster_error_input")
  expect_output(print(launch_dialin(3, 4)), "4 workers on each of 3 hosts that dial in$")
  expect_output(print(launch_dialin()), "a worker for each core on a host that dials in$")
})

test_that("a key is made where there is none, and used if only its owner may read it", {
  skip_without_tls()
  dir <- local_folder()
  key <- file.path(dir, "key")
  launch_dialin(key = key)
  expect_identical(format(file.mode(key)), "600")
  line <- readLines(key)
  expect_match(line, "^muster-key-1 [0-9a-f]{16} [0-9a-f]{64}$")
  launch_dialin(key = key)
  expect_identical(readLines(key), line)
  Sys.chmod(key, "0640")
  expect_error(launch_dialin(key = key), "thers may use it", class = "muster_error_input")
  other <- file.path(dir, "other")
  writeLines("password", other)
  Sys.chmod(other, "0600")
  expect_error(launch_dialin(key = other), "t isn't a key file", class = "muster_error_input")
  expect_error(launch_dialin(key = file.path(dir, "no", "key")), class = "muster_error_input")
  # The key itself is in no error, and in no launcher.
  said <- tryCatch(launch_dialin(key = other), error = identity)
  expect_false(grepl("password", paste(deparse(unclass(said)), collapse = "")))
  Sys.chmod(key, "0600")
  secret <- sub(".* ", "", line)
  expect_false(grepl(secret, paste(deparse(unclass(launch_dialin(key = key))), collapse = "")))
})

test_cluster("S5: hosts dial in, work, heal and end with the cluster", {
  skip_if_limited()
  skip_without_fork()
  skip_without_tls()
  got <- healed(cluster_start(here_dialin(2, 1), wait = 0))
  cl <- got$value
  defer(function() cluster_stop(cl))
  expect_identical(got$messages, "muster_message_invite")
  line <- cluster_invite(cl)
  expect_match(got$text, line, fixed = TRUE)
  expect_match(line, "^muster host --connect 127[.]0[.]0[.]1:[0-9]+ --key ")
  expect_identical(cluster_status(cl)$state, c("pending", "pending"))
  hosts <- list(dial_in(line), dial_in(line))
  got <- healed(cluster_map(cl, 1:10, function(i) i^2))
  expect_identical(got$value, as.list((1:10)^2))
  expect_true("muster_message_joined" %in% got$messages)
  # All bytes cross as they are.
  x <- list(sqrt(1:1e6), as.raw(0:255), "\u00e4", quote(a + b))
  expect_identical(healed(clusterCall(cl, function(x) x, x))$value, list(x, x))
  owners <- parent_of(parent_of(vapply(cl, function(node) node$pid, 0L)))
  expect_setequal(owners, vapply(hosts, `[[`, 0L, "pid"))
  # A worker heals there; a host that is lost is replaced by the next that dials in.
  tools::pskill(cl[[1L]]$pid, 9L)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5, 5))
  expect_identical(parent_of(parent_of(cl[[1L]]$pid)), owners[1L])
  tools::pskill(owners[2L], 9L)
  got <- healed(clusterCall(cl[1L], function() 6))
  third <- dial_in(line)
  got <- healed(clusterCall(cl, function() 7))
  expect_identical(got$value, list(7, 7))
  expect_identical(parent_of(parent_of(cl[[2L]]$pid)), third$pid)
  kept <- tempfile("key-")
  defer(function() unlink(kept))
  file.copy(sub(".*--key ", "", line), kept, copy.mode = TRUE)
  cluster_stop(cl)
  for (host in c(hosts, list(third))) has_ended(host)
  expect_identical(readLines(third$output), paste0("Joined the session at ", sub(
    ".*--connect ([^ ]+) .*", "\\1", line
  ), "."))
  # Nobody listens any more.
  late <- dial_in(paste(sub("--key .*", "--key", line), kept, "--timeout 1"))
  has_ended(late)
  expect_match(readLines(late$output), "Connection refused", all = FALSE)
})

test_cluster("S5: a host may dial before the session listens, and one too many is refused", {
  skip_if_limited()
  skip_without_fork()
  skip_without_tls()
  key <- tempfile("key-")
  defer(function() unlink(key))
  # A port that is free now.
  first <- healed(cluster_start(here_dialin(1, 1, key = key), wait = 0))$value
  line <- cluster_invite(first)
  cluster_stop(first)
  host <- dial_in(line)
  port <- as.integer(sub(".*:([0-9]+) .*", "\\1", line))
  cl <- healed(cluster_start(here_dialin(1, port = port, key = key)))$value
  defer(function() cluster_stop(cl))
  expect_gte(length(cl), 1L)
  expect_identical(clusterCall(cl[1L], function() 5), list(5))
  more <- dial_in(cluster_invite(cl))
  has_ended(more)
  expect_match(readLines(more$output), "No more are needed here.", fixed = TRUE, all = FALSE)
  expect_error(healed(cluster_start(here_dialin(1, port = port))), "can't listen",
    class = "muster_error_launch"
  )
  expect_identical(clusterCall(cl[1L], function() 5), list(5))
  cluster_stop(cl)
  has_ended(host)
})

test_cluster("a host with another key isn't let in, and says what it meets", {
  skip_without_fork()
  skip_without_tls()
  keys <- file.path(local_folder(), c("a", "b"))
  cl <- healed(cluster_start(here_dialin(1, 1, key = keys[1L]), wait = 0))$value
  defer(function() cluster_stop(cl))
  line <- cluster_invite(cl)
  usable_key(keys[2L], NULL)
  wrong <- dial_in(paste(sub(keys[1L], keys[2L], line, fixed = TRUE), "--timeout 1"))
  # The same name doesn't help.
  lines <- vapply(keys, readLines, "")
  mixed <- file.path(dirname(keys[1L]), "c")
  file.create(mixed)
  Sys.chmod(mixed, "0600")
  writeLines(sub("[0-9a-f]+$", sub(".* ", "", lines[2L]), lines[1L]), mixed)
  named <- dial_in(paste(sub(keys[1L], mixed, line, fixed = TRUE), "--timeout 1"))
  for (host in list(wrong, named)) {
    has_ended(host)
    expect_match(readLines(host$output), "no session yet", all = FALSE)
    expect_match(readLines(host$output), "Can't join the session", all = FALSE)
  }
  expect_identical(cluster_status(cl)$state, "pending")
  right <- dial_in(line)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5))
  cluster_stop(cl)
  has_ended(right)
})

test_cluster("hosts that don't come in time are an error, and nobody listens any more", {
  skip_without_tls()
  error <- tryCatch(healed(cluster_start(here_dialin(2, 1, timeout = 1))), error = identity)
  expect_s3_class(error, "muster_error_timeout")
  expect_match(conditionMessage(error), "muster host --connect 127.0.0.1:", fixed = TRUE)
  expect_length(the_host$listeners, 0L)
})

test_cluster("a cluster that is collected, or interrupted at its start, listens no more", {
  skip_without_fork()
  skip_without_tls()
  connects <- function(line) {
    port <- as.integer(sub(".*:([0-9]+) .*", "\\1", line))
    socket <- tryCatch(socket_connect("127.0.0.1", port, timeout = 5), error = function(e) NULL)
    if (!is.null(socket)) socket_close(socket)
    !is.null(socket)
  }
  cl <- healed(cluster_start(here_dialin(1, 1), wait = 0))$value
  line <- cluster_invite(cl)
  expect_true(connects(line))
  host <- dial_in(line)
  expect_identical(healed(clusterCall(cl, function() 5))$value, list(5))
  rm(cl)
  gc()
  has_ended(host)
  expect_false(connects(line))
  # Interrupted by what comes first: the invitation.
  line <- NULL
  tryCatch(
    withCallingHandlers(cluster_start(here_dialin(1, 1)), muster_message_invite = function(m) {
      line <<- m$invitation
      stop("enough")
    }),
    error = function(e) expect_identical(conditionMessage(e), "enough")
  )
  expect_false(connects(line))
})

test_that("a host ends when its session is killed", {
  skip_without_fork()
  skip_without_tls()
  said <- tempfile()
  defer(function() unlink(said))
  code <- bquote({
    .libPaths(.(.libPaths()))
    cl <- muster::cluster_start(muster::launch_dialin(1, 1, address = "127.0.0.1"), wait = 0)
    writeLines(muster::cluster_invite(cl), .(said))
    print(parallel::clusterCall(cl, Sys.getpid))
    Sys.sleep(600)
  })
  file <- tempfile(fileext = ".R")
  output <- tempfile()
  defer(function() unlink(c(file, output)))
  writeLines(deparse(code), file)
  rscript <- file.path(R.home("bin"), "Rscript")
  pid <- as.integer(system(
    paste(rscript, file, "</dev/null >", output, "2>&1 & echo $!"), intern = TRUE
  ))
  session <- processes(pid)
  defer(function() if (still_runs(session)) tools::pskill(pid, 9L))
  line <- character()
  wait_until({
    if (file.exists(said)) line <- readLines(said)
    length(line) > 0L
  })
  host <- dial_in(line)
  wait_until(any(grepl("^\\[1\\]", readLines(output))))
  tools::pskill(pid, 9L)
  has_ended(host)
  expect_false(still_runs(session))
})

test_that("muster host's options belong together", {
  said <- function(args) {
    paste(utils::capture.output(status <- muster_cli(args, quit = FALSE), type = "message"),
      collapse = "\n"
    )
  }
  expect_match(said(c("host", "--connect", "a:1")), "belong together")
  expect_match(said(c("host", "--key", "a")), "belong together")
  expect_match(said(c("host", "--connect", "127.0.0.1:1", "--key", tempfile())), "No such file")
})
