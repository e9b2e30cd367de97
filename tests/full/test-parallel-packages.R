# Packages that take a parallel cluster, and that muster doesn't suggest, so that R CMD check
# mustn't see their names.

test_cluster("doSNOW's foreach takes a cluster, and shows its progress", {
  skip_without("doSNOW")
  expect_identical(
    in_new_r(function() {
      suppressMessages(library(doSNOW))
      cl <- cluster_start(2)
      registerDoSNOW(cl)
      seen <- integer()
      values <- foreach(i = 1:4, .combine = c, .options.snow = list(
        progress = function(n) seen <<- c(seen, n)
      )) %dopar% i^2
      chunks <- foreach(i = 1:4, .combine = c, .options.snow = list(preschedule = TRUE)) %dopar% i
      cluster_stop(cl)
      list(values, seen, chunks)
    }),
    list((1:4)^2, c(1, 2, 3, 4), 1:4)
  )
})

test_cluster("rgenoud takes a cluster, load-balanced too", {
  skip_without("rgenoud")
  cl <- local_cluster(2)
  # As ?cluster_start says: it looks at the first class alone.
  sock <- structure(cl, class = c("SOCKcluster", class(cl)))
  for (balance in c(FALSE, TRUE)) {
    found <- rgenoud::genoud(function(x) sum((x - 2)^2),
      nvars = 2, cluster = sock, balance = balance, pop.size = 60, print.level = 0,
      max.generations = 5, unif.seed = 1, int.seed = 1
    )
    expect_equal(found$par, c(2, 2), tolerance = 1e-4)
  }
})
