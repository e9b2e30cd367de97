test_cluster("map_reduce() on two workers", {
  cl <- local_cluster(2)

  test_that("map_reduce() counts words as table() does, with and without combine", {
    lines <- readLines(file.path(R.home("doc"), "COPYING"), n = 120)
    words_of <- function(line) {
      words <- strsplit(tolower(line), "[^a-z]+")[[1]]
      words <- words[nzchar(words)]
      list(key = words, value = rep(1, length(words)))
    }
    add <- function(key, values) sum(values)
    counts <- map_reduce(cl, lines, words_of, add)
    want <- table(unlist(lapply(lines, function(line) words_of(line)$key)))
    expect_identical(sort(counts$key), sort(names(want)))
    expect_equal(counts$value, as.numeric(want[counts$key]))
    expect_identical(map_reduce(cl, lines, words_of, add, .combine = add), counts)
    expect_identical(map_reduce(cl[1], lines, words_of, add), counts)
  })

  test_that("map_reduce() takes lists, gives lists, and passes further arguments", {
    got <- map_reduce(cl, list(1:3, 4:6, integer()), function(x, by) {
      list(key = x %% by, value = x)
    }, function(key, values) values, by = 2)
    expect_identical(got$value[order(got$key)], list(c(2L, 4L, 6L), c(1L, 3L, 5L)))
    none <- map_reduce(cl, list(), identity, function(k, v) v)
    expect_identical(none, data.frame(key = logical(), value = logical()))
  })

  test_that("map_reduce() says which input was wrong", {
    expect_error(map_reduce(cl, 1:3, function(x) x, function(k, v) v), "`map` must return",
      class = "muster_error_input"
    )
    expect_error(map_reduce(cl, 1:3, function(x) stop("no"), function(k, v) v),
      class = "muster_error_remote"
    )
    expect_error(map_reduce(cl, 1:3, 1, 2), class = "muster_error_input")
  })
})
