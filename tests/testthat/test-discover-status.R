# What discover() says of real sockets on 127/8.
build_hosts()

test_cluster("P1: open, refused and silent hosts are told apart, in address order", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent", "127.1.0.9" = "open"))
  found <- discover(c("127.1.0.0/29", "127.1.0.9"), port)
  expect_s3_class(found, c("muster_discovery", "data.frame"), exact = TRUE)
  expect_identical(names(found),
    c("address", "port", "host", "status", "rtt_ms", "attempts", "error"))
  expect_identical(found$address, paste0("127.1.0.", c(1:6, 9)))
  expect_identical(found$port, rep(port, 7L))
  expect_identical(found$status,
    c("open", "silent", "refused", "refused", "refused", "refused", "open"))
  expect_identical(found$attempts, c(1L, 2L, 1L, 1L, 1L, 1L, 1L))
  expect_identical(is.na(found$rtt_ms), found$status == "silent")
  expect_true(all(found$rtt_ms >= 0, na.rm = TRUE))
  expect_identical(is.na(found$error), found$status %in% c("open", "silent"))
  expect_gt(attr(found, "elapsed_s"), 0.035)
})

test_cluster("P1: two blocks in one call, several ports, and what is excluded", {
  port <- local_hosts(c("127.1.1.1" = "open", "127.1.2.1" = "open"))
  found <- discover(c("127.1.2.0/30", "127.1.1.0/30"), c(port, 1L), exclude = "127.1.1.2")
  expect_identical(found$address, rep(c("127.1.1.1", "127.1.2.1", "127.1.2.2"), each = 2L))
  expect_identical(found$port, rep(c(port, 1L), 3L))
  expect_identical(found$status,
    c("open", "refused", "open", "refused", "refused", "refused"))
  edges <- discover("127.1.1.0/30", port, edges = TRUE)
  expect_identical(edges$address, paste0("127.1.1.", 0:3))
})

test_cluster("P2: each attempt is given its timeout", {
  port <- local_hosts(c("127.1.0.1" = "silent", "127.1.0.2" = "open"))
  for (service in c("tcp", "pcp")) {
    found <- discover(c("127.1.0.1", "127.1.0.2"), port, timeout = 0.1, retries = 1,
      service = service
    )
    expect_gte(attr(found, "elapsed_s"), 0.19)
    expect_identical(at(found, "127.1.0.1"), "silent")
    expect_identical(at(found, "127.1.0.1", "attempts"), 2L)
  }
})

test_cluster("P2: a host that lets only a later SYN in is found by a new socket", {
  port <- local_hosts(c("127.1.0.1" = "late:300"))
  # The kernel's own next SYN comes after a second: too late for either attempt.
  found <- discover("127.1.0.1", port, timeout = 0.6, retries = 4)
  expect_identical(found$status, "open")
})

test_cluster("P1: only what proves the service is open, others are foreign with the reason", {
  hosts <- c(
    "127.1.0.1" = paste0("say:", pcp_hello), "127.1.0.2" = "open", "127.1.0.3" = "reset",
    "127.1.0.4" = "close", "127.1.0.5" = paste0("say:", hex(charToRaw("SSH-2.0-x\r\n"))),
    "127.1.0.6" = paste0("say:", substr(pcp_hello, 1, 12), ".", substr(pcp_hello, 13, 40))
  )
  port <- local_hosts(hosts)
  found <- discover("127.1.0.1-7", port, timeout = 1, service = "pcp")
  expect_identical(found$status,
    c("open", "foreign", "foreign", "foreign", "foreign", "open", "refused"))
  expect_match(found$error[2L], "sent nothing in time")
  expect_match(found$error[3L], "closed")
  expect_match(found$error[5L], "wrong answer")
  expect_identical(found$attempts[c(1L, 2L, 5L)], c(1L, 2L, 1L))
  # To "tcp" all of them accept.
  expect_identical(discover("127.1.0.1-7", port, timeout = 0.1)$status,
    c(rep("open", 6L), "refused"))
})

test_cluster("P1: an R session's first command proves a session that waits for workers", {
  hello <- serialize(list(type = "EXEC"), NULL)
  native <- serialize(list(type = "EXEC"), NULL, xdr = FALSE)
  port <- local_hosts(c(
    "127.1.0.1" = paste0("say:", hex(hello[1:40])), "127.1.0.2" = paste0("say:", hex(native[1:40])),
    "127.1.0.3" = paste0("say:", pcp_hello)
  ))
  found <- discover("127.1.0.1-3", port, timeout = 2, service = "psock")
  expect_identical(found$status, c("open", "open", "foreign"))
})

test_cluster("P1: a port on which nobody listens is never found by a connect to itself", {
  # The system's own range of ports, from which it takes the port of a connecting socket.
  range <- as.integer(strsplit(trimws(readLines("/proc/sys/net/ipv4/ip_local_port_range")),
    "[[:space:]]+")[[1L]])
  ports <- seq(range[2L] - 400L, range[2L])
  # Others on this machine may listen there, and begin or end meanwhile.
  used <- function() {
    files <- Filter(file.exists, c("/proc/net/tcp", "/proc/net/tcp6"))
    lines <- unlist(lapply(files, function(file) readLines(file)[-1L]))
    strtoi(sub("^ *[0-9]+: [0-9A-F]+:([0-9A-F]{4}) .*", "\\1", lines), 16L)
  }
  before <- used()
  found <- discover("127.0.0.1", ports)
  free <- !found$port %in% c(before, used())
  expect_identical(unique(found$status[free]), "refused")
})

test_cluster("P3: any number of attempts at once, and any rate, finds the same", {
  port <- local_hosts(c("127.1.0.3" = "open", "127.1.0.60" = "open"))
  expected <- ifelse(1:62 %in% c(3, 60), "open", "refused")
  for (in_flight in list(NULL, 1, 7)) {
    expect_identical(discover("127.1.0.0/26", port, in_flight = in_flight)$status, expected)
  }
  found <- discover("127.1.0.0/26", port, rate = 200)
  expect_identical(found$status, expected)
  expect_gt(attr(found, "elapsed_s"), 61 / 200 - 0.05)
})

test_cluster("P2: timeout = \"auto\" finds", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent"))
  found <- discover("127.1.0.0/30", port, timeout = "auto", retries = 0)
  expect_identical(found$status, c("open", "silent"))
})

test_cluster("a host name is one host, and one without an address is named", {
  port <- local_hosts(c("127.0.0.1" = "open"))
  expect_warning(
    found <- discover(c("localhost", "no-such-host.invalid"), port),
    class = "muster_warning_lookup"
  )
  expect_identical(at(found, "127.0.0.1"), "open")
  expect_identical(at(found, "127.0.0.1", "host"), "localhost")
  lost <- found[is.na(found$address), ]
  expect_identical(lost$host, "no-such-host.invalid")
  expect_identical(lost$status, "unreachable")
  expect_match(lost$error, "no-such-host.invalid", fixed = TRUE)
})

test_cluster("a file of targets is read as hostfiles are", {
  folder <- local_folder()
  file <- file.path(folder, "hosts")
  writeLines(c("# all of them", "127.1.0.1 slots=4", "", "  127.1.0.4-5   # two"), file)
  expect_identical(discover(file, 1)$address, paste0("127.1.0.", c(1, 4, 5)))
})

test_cluster("it works while a cluster is busy, and the cluster goes on", {
  port <- local_hosts(c("127.1.0.1" = "open", "127.1.0.2" = "silent"))
  cl <- local_cluster(2)
  tasks <- lapply(1:40, function(i) task_submit(cl, function(i) {
    Sys.sleep(0.01) # tidy: its work
    i
  }, i))
  found <- discover("127.1.0.0/30", port, timeout = 0.15)
  expect_identical(found$status, c("open", "silent"))
  expect_gt(sum(task_done(tasks)), 0L)
  expect_identical(vapply(tasks, task_value, 0L), 1:40)
})

test_cluster("IPv6 addresses are asked too", {
  found <- discover(c("::1", "127.0.0.1"), 1)
  expect_identical(found$address, c("127.0.0.1", "::1"))
  expect_identical(found$status[1L], "refused")
  expect_true(found$status[2L] %in% c("refused", "unreachable")) # a system without IPv6
})

test_cluster("a function that gets the connection judges it, and its errors are foreign", {
  port <- local_hosts(c(
    "127.1.0.1" = paste0("say:", hex(charToRaw("hello\n"))), "127.1.0.2" = "open",
    "127.1.0.3" = paste0("say:", hex(charToRaw("other\n"))), "127.1.0.4" = "close"
  ))
  seconds <- numeric()
  greets <- function(socket, left) {
    seconds <<- c(seconds, left)
    identical(socket_receive_lines(socket, 1L), "hello")
  }
  found <- discover("127.1.0.1-5", port, timeout = 1, service = greets)
  expect_identical(found$status, c("open", "foreign", "foreign", "foreign", "refused"))
  expect_identical(found$attempts[1:3], c(1L, 2L, 1L))
  expect_match(found$error[2L], "sent nothing in time")
  expect_true(all(seconds > 0 & seconds <= 1))
  fails <- discover("127.1.0.1-2", port, timeout = 1, service = function(...) stop("no idea"))
  expect_identical(fails$status, rep("foreign", 2L))
  expect_identical(fails$error, rep("no idea", 2L))
  error <- expect_error(discover("127.0.0.1", 1, service = 5), class = "muster_error_input")
})

test_cluster("P2: a TLS listener that accepts and stays silent has the timeout to answer", {
  skip_if_not(.Call(ffi_has_tls), "built without OpenSSL")
  port <- local_hosts(c(
    "127.1.0.1" = "open", "127.1.0.2" = paste0("say:", hex(charToRaw("HTTP/1.1 400 x\r\n"))),
    "127.1.0.3" = "reset"
  ))
  found <- discover("127.1.0.1-4", port, timeout = 1, retries = 0, service = "tls")
  expect_identical(found$status, c("foreign", "foreign", "foreign", "refused"))
  expect_match(found$error[1L], "sent nothing in time")
  expect_match(found$error[2L], "wrong answer")
  expect_gte(attr(found, "elapsed_s"), 0.99)
})

test_cluster("a TLS server is open, whatever its certificate", {
  skip_if_not(.Call(ffi_has_tls), "built without OpenSSL")
  openssl <- Sys.which("openssl")
  skip_if_not(nzchar(openssl), "there is no openssl program")
  folder <- local_folder()
  files <- file.path(folder, c("key", "cert"))
  system2(openssl, c("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test",
    "-days", "2", "-keyout", files[1L], "-out", files[2L]), stdout = FALSE, stderr = FALSE)
  port <- local_hosts(c("127.0.0.1" = "close")) # one that is free
  pid <- system(paste(openssl, "s_server -quiet -key", files[1L], "-cert", files[2L], "-accept",
    paste0("127.1.0.9:", port), "</dev/null >/dev/null 2>&1 & echo $!"), intern = TRUE)
  defer(function() tools::pskill(as.integer(pid)))
  found <- NULL
  wait_until({
    found <- discover(c("127.1.0.9", "127.0.0.1"), port, timeout = 1, service = "tls")
    at(found, "127.1.0.9") == "open"
  })
  expect_identical(at(found, "127.0.0.1"), "foreign")
})
