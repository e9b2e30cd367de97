# Folders that several users write to.

test_cluster("What another user's session has there isn't taken for a killed session's", {
  skip_unless_root()
  folder <- local_folder()
  target <- file.path(folder, "out")
  # Of a process that has ended.
  gone <- as.integer(system2("sh", c("-c", shQuote("echo $$")), stdout = TRUE))
  left <- file.path(folder, paste0(staging_start(target), gone, "-", c("theirs", "ours")))
  for (one in left) dir.create(file.path(one, "old"), recursive = TRUE)
  system2("chown", c("-R", "nobody", left[1L]))
  cl <- local_cluster(1)
  dir.create(target) # it is there: nothing is to be put back
  partition_write(partition_scatter(cl, data.frame(i = 1:3), parts = 1), target, "rds")
  expect_identical(dir.exists(left), c(TRUE, FALSE))
})
