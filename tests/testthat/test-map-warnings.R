# Warnings of what cluster_map() calls, with the element that they are from.

# The warnings that code signals, in their order.
warnings_of <- function(code) {
  seen <- list()
  withCallingHandlers(code, warning = function(condition) {
    seen[[length(seen) + 1L]] <<- condition
    tryInvokeRestart("muffleWarning")
  })
  seen
}

in_order <- function(warnings) {
  warnings[order(vapply(warnings, function(condition) condition$element, 0))]
}

test_cluster("warnings say which element they are from", {
  cl <- local_cluster(2)
  x <- c(1, -1, 2, -2)
  # The first class of warning has the map's own call, the second one of the function's.
  seen <- in_order(warnings_of(cluster_map(cl, x, function(x) if (x < 0) warning("below 0"))))
  calls <- list(quote(fun(x[[2]], ...)), quote(fun(x[[4]], ...)))
  expect_identical(lapply(seen, conditionCall), calls)
  expect_identical(vapply(seen, conditionMessage, ""), rep("below 0", 2))
  expect_identical(vapply(seen, function(condition) condition$element, 0), c(2, 4))
  seen <- in_order(warnings_of(values <- cluster_map(cl, x, function(x) sqrt(x))))
  texts <- paste0("NaNs produced (element ", c(2, 4), ")")
  expect_identical(vapply(seen, conditionMessage, ""), texts)
  expect_identical(unlist(values), suppressWarnings(sqrt(x)))
})

test_cluster("pieces of many elements count from the first of all", {
  cl <- local_cluster(2)
  at <- c(1, 777, 50000)
  seen <- in_order(warnings_of(
    cluster_map(cl, 1:50000, function(i, at) if (i %in% at) warning("here"), at)
  ))
  expect_identical(vapply(seen, function(condition) condition$element, 0), at)
})

test_cluster("warnings with classes and fields keep them", {
  cl <- local_cluster(1)
  own <- structure(class = c("mustertest", "warning", "condition"),
    list(message = "mine", call = NULL, level = 7)
  )
  seen <- warnings_of(cluster_map(cl, 1:2, function(i, own) if (i == 2) warning(own), own))
  expect_length(seen, 1L)
  expect_s3_class(seen[[1L]], c("mustertest", "warning", "condition"), exact = TRUE)
  expect_identical(seen[[1L]]$level, 7)
  expect_null(conditionCall(seen[[1L]]))
  expect_identical(conditionMessage(seen[[1L]]), "mine (element 2)")
  # What the function takes itself, nobody sees.
  expect_length(warnings_of(cluster_map(cl, -1, function(x) suppressWarnings(sqrt(x)))), 0L)
})
