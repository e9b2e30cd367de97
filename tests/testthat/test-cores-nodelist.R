expand <- function(text) with_cores_settings(nodelist_expand(text, "`SLURM_JOB_NODELIST`"))

# Names from parallelly's documentation, Slurm's manual, and machines seen.
lists <- list(
  "n1" = "n1",
  "  n1" = "n1",
  "n1,,  n3" = c("n1", "n3"),
  "n3  n1" = c("n3", "n1"),
  "n[1-13]" = paste0("n", 1:13),
  "n[1,3-4,  11-13]" = c("n1", "n3", "n4", "n0011", "n0012", "n0013"),
  "a1,b[   02-04,6-7]" = c("a1", "b00002", "b00003", "b00004", "b6", "b7"),
  "b04-[09-11]" = c("b04-09", "b04-10", "b04-11"),
  "b04-[0009-11]" = c("b04-0009", "b04-0010", "b04-0011"),
  "b04-[9-011]" = c("b04-9", "b04-10", "b04-11"),
  "n1,n[03-05]" = c("n1", "n03", "n04", "n05"),
  "node[01-04,7],x2[1-2]" = c("node01", "node02", "node03", "node04", "node7", "x21", "x22"),
  "[1-2]" = c("1", "2"),
  "n[5]" = "n5",
  "n[0]" = "n0",
  "n[00]" = "n00",
  "n[99-101]" = c("n99", "n100", "n101")
)

test_that("compressed lists are expanded", {
  for (text in names(lists)) {
    expect_silent(hosts <- expand(text))
    expect_identical(hosts, lists[[text]], info = text)
  }
})

test_that("lists are expanded as by parallelly", {
  peer <- cores_oracle("slurm_expand_nodelist")
  for (text in c(names(lists), paste(names(lists), collapse = ","))) {
    expect_identical(expand(text), peer(text, manual = TRUE), info = text)
  }
})

test_that("several brackets stand for all combinations, and text may follow", {
  expect_identical(expand("a[1-2]b[3-4]"), c("a1b3", "a1b4", "a2b3", "a2b4"))
  expect_identical(expand("rack[1-2]-node[09-10].x"), c(
    "rack1-node09.x", "rack1-node10.x", "rack2-node09.x", "rack2-node10.x"
  ))
  expect_identical(expand("n[1-2]-ib,m"), c("n1-ib", "n2-ib", "m"))
  expect_identical(expand("[1-2][3]"), c("13", "23"))
})

test_that("numbers may be long", {
  expect_identical(
    expand("n[123456789012344-123456789012345]"), c("n123456789012344", "n123456789012345")
  )
})

bad <- c(
  "n[", "n]", "n[]", "n[a]", "n[1-]", "n[-1]", "n[3-1]", "n[1,]", "n[,1]", "n[1--2]", "n[1-2-3]",
  "n[1 - 2]", "n[[1]]", "n[1]]", "n[1;2]", "n[1-99999999999]", "n[1-9999999]",
  "n[1-999]m[1-999]", "n[9999999999999999999]", "n\001", "\xff"
)

test_that("what can't be understood is left out with a warning, the rest stays", {
  for (text in bad) {
    expect_warning(hosts <- expand(text), class = "muster_warning_input")
    expect_null(hosts)
    expect_warning(hosts <- expand(paste0("a1,", text)), class = "muster_warning_input")
    expect_identical(hosts, "a1", info = text)
  }
})

test_that("an open bracket takes the rest of the list with it", {
  expect_warning(hosts <- expand("a1,n[1,b2"), class = "muster_warning_input")
  expect_identical(hosts, "a1")
})

test_that("long and nasty texts don't take for ever", {
  limit_time(30)
  texts <- c(
    strrep("[", 20000L), strrep("n[1-2]", 1000L), paste0("n[", strrep("1,", 40000L)),
    paste0("n[", strrep("1-", 40000L), "]"), strrep("a,", 40000L), strrep(" ", 1e5L),
    paste0("n[", strrep(" ", 50000L), "1]"), strrep("n[0-9],", 1000L)
  )
  for (text in texts) expect_lte(length(suppressWarnings(expand(text))), nodelist_max)
})

random_hosts <- function() {
  prefix <- sample(c("n", "node", "x2-", "gpu0", "rack1n", ""), 1L)
  suffix <- sample(c("", "", "-ib", ".local"), 1L)
  width <- sample(1:5, 1L)
  from <- sample(c(0L, 1L, 7L, 98L, 99999L, sample(1e6L, 1L)), 1L)
  numbers <- seq(from, length.out = sample(c(1L, 2L, 5L, 30L), 1L))
  hosts <- sprintf("%s%0*d%s", prefix, width, numbers, suffix)
  keep <- runif(length(hosts)) < sample(c(0.5, 0.9, 1), 1L)
  hosts <- hosts[keep]
  if (runif(1L) < 0.2) sample(hosts) else hosts
}

test_that("what was compressed is expanded to itself, for random lists", {
  local_seed(31)
  with_cores_settings(for (i in 1:150) {
    hosts <- unlist(replicate(sample(1:4, 1L), random_hosts(), simplify = FALSE))
    again <- if (length(hosts)) nodelist_expand(nodelist_compress(hosts), "X")
    if (!identical(again, if (length(hosts)) hosts)) {
      fail(paste("case", i, "of seed 31:", nodelist_compress(hosts)))
    }
  })
  succeed()
})

test_that("random texts give names without brackets or blanks, or a warning, and no error", {
  local_seed(32)
  letters <- c("n", "a", "[", "]", ",", "-", "0", "1", "9", " ", "(", "x", ")", "\xe9", "\t")
  with_cores_settings(for (i in 1:600) {
    text <- paste(sample(letters, sample(1:25, 1L), replace = TRUE), collapse = "")
    hosts <- suppressWarnings(nodelist_expand(text, "X"))
    counts <- suppressWarnings(slurm_counts(list(name = "X", text = text)))
    if (any(grepl("[][, \t]", hosts, useBytes = TRUE)) ||
        !is.null(counts) && !(is.integer(counts) && all(counts >= 1L))) {
      fail(paste("case", i, "of seed 32"))
    }
  })
  succeed()
})
