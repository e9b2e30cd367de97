# Sockets between two hosts: absent ones, routes that aren't there, another machine's end.

test_that("S6 the connect timeout is enforced for a host that is absent", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    times <- vapply(c(0.1, 0.3), function(timeout) {
      elapsed(outcome_of(socket_connect("10.9.0.77", 80, timeout = timeout)))
    }, 0)
    caught <- outcome_of(socket_connect("10.9.0.77", 80, timeout = 0.1))
    tell(times = times, caught = caught)
  }), here = "10.9.0.1/24"))
  expect_caught(run$told$caught, "timeout", "10.9.0.77:80")
  expect_true(all(run$told$times >= c(0.1, 0.3)))
})

test_that("S6 an unreachable host is known as soon as the system knows it", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    none <- outcome_of(socket_connect("192.0.2.1", 80, timeout = 120))
    # Whose address is it? Asked three times, a second apart; then the host is unreachable.
    absent <- outcome_of(socket_connect("10.9.0.77", 80, timeout = 120))
    tell(none = none, absent = absent)
  }), here = "10.9.0.1/24"))
  expect_caught(run$told$none, "connect", "nreachable")
  expect_caught(run$told$absent, "connect", "o route")
})

test_that("S2 two hosts talk, over IPv4 and IPv6", {
  limit_time(90)
  run <- expect_done(run_netns(bquote({
    .(there_run)
    servers <- list(
      socket_listen(host = "10.9.0.1", timeout = 20), socket_listen(host = "fd09::1", timeout = 20)
    )
    answers <- lapply(servers, function(server) {
      code <- sprintf(paste(
        "c <- muster::socket_connect('%s', %d, timeout = 10); muster::socket_send(c, 1:3);",
        "cat(muster::socket_receive(c))"
      ), server$host, server$port)
      other <- there_run(c(file.path(R.home("bin"), "Rscript"), "-e", code), stdout = "|")
      peer <- socket_accept(server)
      got <- socket_receive(peer)
      socket_send(peer, sum(got))
      other$wait()
      list(got = got, from = peer$host, said = other$read_all_output())
    })
    tell(answers = answers)
  }), here = c("10.9.0.1/24", "fd09::1/64"), there = c("10.9.0.2/24", "fd09::2/64")))
  expect_identical(lapply(run$told$answers, `[[`, "got"), list(1:3, 1:3))
  expect_identical(vapply(run$told$answers, `[[`, "", "from"), c("10.9.0.2", "fd09::2"))
  expect_identical(vapply(run$told$answers, `[[`, "", "said"), c("6", "6"))
})
