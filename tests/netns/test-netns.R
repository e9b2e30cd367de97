# The namespaces themselves: what the other tests here stand on.

test_that("a session has a loopback of its own, and nothing else", {
  limit_time(60)
  run <- expect_done(run_netns(quote({
    tell(links = list.files("/sys/class/net"), addresses = system2("ip", c("-o", "addr"), TRUE))
  })))
  expect_true(any(grepl("127.0.0.1", run$told$addresses, fixed = TRUE)))
  expect_false(any(grepl("eth0", run$told$addresses, fixed = TRUE)))
})

test_that("two namespaces are the ends of a link", {
  limit_time(60)
  run <- expect_done(run_netns(bquote({
    .(there_run)
    there <- there_run(c("ip", "-o", "addr", "show", "vb0"), stdout = "|")
    there$wait()
    tell(
      here = system2("ip", c("-o", "addr", "show", "va0"), TRUE), there = there$read_all_output()
    )
  }), here = c("10.9.0.1/24", "fd09::1/64"), there = c("10.9.0.2/24", "fd09::2/64")))
  expect_match(paste(run$told$here, collapse = " "), "10.9.0.1/24.*fd09::1/64")
  expect_match(run$told$there, "10.9.0.2/24.*fd09::2/64")
})
