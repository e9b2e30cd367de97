test_that("connections are counted by opening them, once, and closed again", {
  before <- rownames(showConnections(all = TRUE))
  memory <- new.env()
  most <- with_cores_settings(connections_max(memory))
  expect_identical(rownames(showConnections(all = TRUE)), before)
  expect_gte(most, 128)
  memory$connections <- 99
  expect_identical(with_cores_settings(connections_max(memory)), 99)
})

test_that("open connections and those to spare are taken off, and one is left", {
  count <- function(method) {
    with_cores_settings(
      availableCores(methods = method), options = list(muster.availableConnections = 200)
    )[[1L]]
  }
  free <- count("connections")
  expect_identical(free, 200L - nrow(showConnections(all = TRUE)))
  con <- rawConnection(raw())
  on.exit(close(con))
  expect_identical(count("connections"), free - 1L)
  expect_identical(count("connections-16"), free - 17L)
  expect_identical(count("connections-1000"), 1L)
})
