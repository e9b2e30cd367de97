# Packages that take long to load and are preloaded: what they fix at load is made anew.

test_cluster("terra writes its files to the worker's directory", {
  skip_without_fork()
  skip_if_not(nzchar(package_path("terra")), "terra isn't installed")
  cl <- local_cluster(2, packages = "terra", start = "fork")
  shown <- clusterEvalQ(cl, utils::capture.output(terra::terraOptions()))
  dirs <- unlist(clusterEvalQ(cl, tempdir()))
  for (i in 1:2) expect_true(any(grepl(dirs[i], shown[[i]], fixed = TRUE)))
})

test_cluster("ggplot2 is preloaded in the fork server, though it imports cli", {
  skip_without_fork()
  skip_if_not(nzchar(package_path("ggplot2")), "ggplot2 isn't installed")
  cl <- local_cluster(2, packages = "ggplot2", start = "fork")
  expect_identical(clusterEvalQ(cl, isNamespaceLoaded("ggplot2")), list(TRUE, TRUE))
})
