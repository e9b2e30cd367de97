# What C tests leave to R in the golden vectors of tests/wire: R bytes are what their remarks say.

vector_bytes <- function(name) {
  lines <- sub("#.*", "", readLines(file.path("../wire", paste0(name, ".hex"))))
  as.raw(strtoi(unlist(strsplit(trimws(lines), " +")), 16L))
}

# R bytes fill a payload behind `skip` bytes, to its end.
r_bytes <- function(name, skip = 0L) {
  bytes <- vector_bytes(name)
  bytes[seq(41L + skip, length(bytes))]
}

call <- list("sum", list(1L, 2L), NULL)

test_that("the calls of the golden vectors are what R reads, and what it writes", {
  for (name in c("exec", "exec-replay")) expect_identical(unserialize(r_bytes(name)), call)
  expect_identical(unserialize(r_bytes("exec-task-segment", 8L)), call)
  again <- serialize(call, NULL, xdr = FALSE, version = 3)
  # From 7 to 10 are the version of R that wrote.
  expect_identical(again[-(7:10)], r_bytes("exec")[-(7:10)])
})

test_that("the answers of the golden vectors are what R reads", {
  skips <- c(value = 24L, `value-seed` = 52L, `value-segment` = 60L, `value-early` = 24L,
             `value-error` = 24L)
  for (name in names(skips)) {
    expect_identical(unserialize(r_bytes(name, skips[[name]])), list(3L, NULL))
  }
})

test_that("what is private to a build is R bytes in the golden vectors, big-endian with XDR", {
  for (name in c("setup", "setup-xdr", "job")) expect_null(unserialize(r_bytes(name)))
  expect_identical(rawToChar(r_bytes("setup-xdr")[1:2]), "X\n")
})
