# partition_read() of folders, chosen columns, small files together and large ones in pieces. The
# oracle is read.csv() of one file with all rows.

csv_of <- function(text, path) writeLines(text, path, sep = "\n", useBytes = TRUE)

test_cluster("What parts are is told by the files", {
  local_seed(11)
  cl <- local_cluster(2)
  folder <- local_folder()
  path <- function(...) file.path(folder, ...)
  # Some rows are one, each of them with whatever is difficult in a csv file.
  words <- c("plain", "a,b", "say \"yes\"", "two\nlines", "\"", "\n", "", "NA", NA, "\u00e4", " x ")
  rows <- data.frame(
    id = 1:400, text = sample(words, 400, TRUE), more = sample(words, 400, TRUE), x = (1:400) / 8,
    flag = sample(c(TRUE, FALSE, NA), 400, TRUE)
  )

  test_that("A csv file in pieces is identical() to read.csv() of the whole", {
    utils::write.csv(rows, path("a.csv"), row.names = FALSE)
    want <- utils::read.csv(path("a.csv"))
    counts <- c()
    for (bytes in c(50, 333, 1000, 4096, 1e6)) {
      p <- partition_read(cl, path("a.csv"), .bytes = bytes)
      expect_identical(partition_collect(p), want)
      counts <- c(counts, p$parts)
    }
    expect_gt(counts[1L], 100L)
    expect_identical(counts[5L], 1L)
    expect_false(is.unsorted(-counts))
    # The same bytes with line ends of Windows, and without the last one.
    text <- readChar(path("a.csv"), 1e6, useBytes = TRUE)
    writeChar(gsub("\n", "\r\n", text, useBytes = TRUE), path("a.csv"), eos = NULL, useBytes = TRUE)
    want <- utils::read.csv(path("a.csv"))
    expect_identical(partition_collect(partition_read(cl, path("a.csv"), .bytes = 700)), want)
    writeChar(sub("\n$", "", text), path("a.csv"), eos = NULL, useBytes = TRUE)
    want <- utils::read.csv(path("a.csv"))
    expect_identical(partition_collect(partition_read(cl, path("a.csv"), .bytes = 700)), want)
  })

  test_that("Types of csv columns are guessed over all pieces and files together", {
    columns <- list(
      zip = c(rep("01", 60), "x"), whole = c(rep("1", 60), "2.5"), late = c(rep("", 60), "3"),
      blank = rep("", 61), logical = c(rep("TRUE", 60), "1"), truth = c(rep("", 60), "T"),
      zero = c(rep("-0", 60), "1e3"), complex = c(rep("1", 59), "NA", "1+2i"),
      large = c(rep("5", 60), "5000000000"), word = c(rep("NA", 59), "", "w")
    )
    text <- do.call(paste, c(columns, sep = ","))
    header <- paste(names(columns), collapse = ",")
    csv_of(c(header, text), path("types.csv"))
    want <- utils::read.csv(path("types.csv"))
    p <- partition_read(cl, path("types.csv"), .bytes = 150)
    expect_gt(p$parts, 5L)
    got <- partition_collect(p)
    expect_identical(got, want)
    expect_identical(1 / got$zero, 1 / want$zero) # -0, not 0
    types <- partition_map(p, function(d) data.frame(t = vapply(d, typeof, "")))
    expect_identical(unique(partition_collect(types)$t[1:10]), unique(vapply(want, typeof, "")),
      ignore_attr = TRUE
    )
    for (some in c("zip", "late", "complex")) {
      chosen <- partition_collect(partition_read(cl, path("types.csv"), .bytes = 150,
        .columns = some
      ))
      expect_identical(chosen, want[some])
    }
    # The same over files.
    dir.create(path("several"))
    cuts <- split(text, rep(1:7, c(9, 9, 9, 9, 9, 9, 7)))
    for (i in 1:7) csv_of(c(header, cuts[[i]]), path("several", paste0(i, ".csv")))
    for (bytes in list(NULL, 1, 700, 1e6)) {
      expect_identical(partition_collect(partition_read(cl, path("several"), .bytes = bytes)), want)
    }
  })

  test_that("Random csv files are what read.csv() makes of them", {
    values <- list(
      c("1", "2", "NA", ""), c("TRUE", "F", "NA"), c("1.5", "Inf", "NaN", "-0", "1e-300"),
      c("0x1f", "12"), c("a", "\"b\"\"c\"", "\"d\ne\"", "f\"g\nh\"i"), c("1", "x"), c("", "NA"),
      c("2147483647", "2147483648"), c("1i", "3"), c(" 1", "2 ")
    )
    for (run in 1:25) {
      n <- sample(c(1L, 5L, 40L), 1L)
      columns <- lapply(values[sample(length(values), 4L)], sample, n, replace = TRUE)
      # Few odd values, so that some pieces have none.
      odd <- vapply(columns, function(x) sample(x, 1L), "")
      columns <- Map(function(x, one) ifelse(stats::runif(n) < 0.9, one, x), columns, odd)
      csv_of(c("p,q,\"r s\",q", do.call(paste, c(columns, sep = ","))), path("random.csv"))
      want <- suppressWarnings(utils::read.csv(path("random.csv")))
      for (bytes in c(20, 100)) {
        got <- partition_collect(partition_read(cl, path("random.csv"), .bytes = bytes))
        expect_identical(got, want, info = readLines(path("random.csv")))
      }
    }
  })

  test_that("Files that can't be cut are read whole: row names, compression, a header alone", {
    utils::write.table(rows, path("names.csv"), sep = ",", qmethod = "double")
    want <- utils::read.csv(path("names.csv"))
    row.names(want) <- NULL
    p <- partition_read(cl, path("names.csv"), .bytes = 500)
    expect_identical(p$parts, 1L)
    expect_identical(partition_collect(p), want)
    expect_identical(
      partition_collect(partition_read(cl, path("names.csv"), .columns = c("x", "id"))),
      want[c("x", "id")]
    )
    for (open in list(gzfile, bzfile, xzfile)) {
      name <- path(paste0("c.csv.", c("gz", "bz2", "xz")[match(list(open),
        list(gzfile, bzfile, xzfile)
      )]))
      file <- open(name, "w")
      utils::write.csv(rows, file, row.names = FALSE)
      close(file)
      p <- partition_read(cl, name, .bytes = 500)
      expect_identical(p$parts, 1L)
      expect_identical(partition_collect(p), utils::read.csv(name))
    }
    # Compressed, whatever its name says.
    file.copy(path("c.csv.gz"), path("c.csv"))
    expect_identical(
      partition_collect(partition_read(cl, path("c.csv"), .bytes = 500)),
      utils::read.csv(path("c.csv"))
    )
    csv_of("a,b", path("header.csv"))
    expect_identical(partition_collect(partition_read(cl, path("header.csv"))),
      utils::read.csv(path("header.csv"))
    )
  })

  test_that("Small files are read together, by their sizes and kinds alone", {
    dir.create(path("small"))
    for (i in 1:100) {
      saveRDS(data.frame(i = i), path("small", sprintf("%03d.rds", i)), compress = FALSE)
    }
    p <- partition_read(cl, path("small"))
    expect_gte(p$parts, 32L)
    expect_lt(p$parts, 51L)
    expect_identical(partition_collect(p)$i, as.integer(1:100))
    one <- partition_read(cl, path("small"), .bytes = 1e9)
    expect_identical(one$parts, 1L)
    expect_identical(partition_collect(one)$i, as.integer(1:100))
    each <- partition_read(cl, path("small"), function(file) data.frame(f = basename(file)))
    expect_identical(each$parts, 100L)
    expect_identical(partition_collect(each)$f, sprintf("%03d.rds", 1:100))
    for (bytes in list(0, NA, "a", c(1, 2))) {
      expect_error(partition_read(cl, path("small"), .bytes = bytes), class = "muster_error_input")
    }
    # One of several files of a part: named alone.
    saveRDS(1, path("small", "050.rds"))
    error <- expect_error(partition_read(cl, path("small"), .bytes = 1e9),
      class = "muster_error_input"
    )
    expect_identical(error$file, path("small", "050.rds"))
    saveRDS(data.frame(j = 1), path("small", "050.rds"))
    error <- expect_error(partition_read(cl, path("small"), .bytes = 1e9),
      class = "muster_error_input"
    )
    expect_identical(error$file, path("small", "050.rds"))
    writeBin(as.raw(1:9), path("small", "050.rds"))
    error <- expect_error(partition_read(cl, path("small"), .bytes = 1e9),
      class = "muster_error_remote"
    )
    expect_identical(error$file, path("small", "050.rds"))
  })

  test_that("Chosen columns come in the order asked for, and one that is missing is named", {
    utils::write.csv(rows, path("k.csv"), row.names = FALSE)
    saveRDS(rows, path("k.rds"))
    files <- path(c("k.csv", "k.rds"))
    if (requireNamespace("nanoparquet", quietly = TRUE)) {
      nanoparquet::write_parquet(rows, path("k.parquet"))
      files <- c(files, path("k.parquet"))
    }
    for (file in files) {
      got <- partition_collect(partition_read(cl, file, .columns = c("x", "id")))
      expect_identical(got, rows[c("x", "id")])
      error <- expect_error(partition_read(cl, file, .columns = c("x", "none")),
        class = "muster_error_input"
      )
      expect_match(conditionMessage(error), "no column `none`", fixed = TRUE)
      expect_match(conditionMessage(error), basename(file), fixed = TRUE)
      expect_identical(error$file, file)
      expect_identical(error$part, 1L)
    }
    own <- partition_read(cl, path("k.rds"), function(f) readRDS(f), .columns = "id")
    expect_identical(partition_collect(own), rows["id"])
    for (columns in list(character(), c("x", "x"), NA_character_, 1)) {
      expect_error(partition_read(cl, files, .columns = columns), class = "muster_error_input")
    }
  })

  test_that("A file that changes or goes after it was read isn't read again without a word", {
    cl <- local_cluster(1)
    local_settings(muster.quiet = TRUE)
    for (change in c("size", "time", "gone")) {
      saveRDS(rows, path("change.rds"))
      p <- partition_read(cl, path("change.rds"))
      pid <- node_pids(cl)
      tools::pskill(pid, tools::SIGKILL)
      if (change == "size") saveRDS(rows[1:9, ], path("change.rds"))
      if (change == "time") Sys.setFileTime(path("change.rds"), as.POSIXct("2020-01-01"))
      if (change == "gone") unlink(path("change.rds"))
      error <- expect_error(partition_collect(p), class = "muster_error_input")
      expect_match(conditionMessage(error), if (change == "gone") "gone" else "has changed")
      expect_identical(error$file, path("change.rds"))
    }
  })
})

test_cluster("Folders are columns", {
  cl <- local_cluster(2)
  folder <- local_folder()
  put <- function(at, data = data.frame(a = at)) {
    file <- file.path(folder, at, "f.rds")
    dir.create(dirname(file), recursive = TRUE, showWarnings = FALSE)
    saveRDS(data, file)
  }

  test_that("Keys are decoded, typed over all values, and put behind the file's columns", {
    put("y=2013/m=01/w=a%20b%2Fc")
    put("y=2014/m=02/w=__HIVE_DEFAULT_PARTITION__")
    put("y=__HIVE_DEFAULT_PARTITION__/m=11/w=%C3%A4")
    put("_hidden/y=1")
    put(".hidden/y=1")
    got <- partition_collect(partition_read(cl, folder))
    expect_identical(names(got), c("a", "y", "m", "w"))
    expect_identical(got$y, c(2013L, 2014L, NA))
    expect_identical(got$m, c("01", "02", "11"))
    expect_identical(got$w, c("a b/c", NA, "\u00e4"))
    some <- partition_collect(partition_read(cl, folder, .columns = c("w", "a")))
    expect_identical(some, got[c("w", "a")])
    keys <- partition_collect(partition_read(cl, folder, .columns = "y"))
    expect_identical(keys, got["y"])
    expect_named(partition_collect(partition_read(cl, folder, .hive = FALSE)), "a")
  })

  test_that("Types of keys are those that lose nothing", {
    cases <- list(
      list(c("TRUE", "false"), c(TRUE, FALSE)), list(c("1", "-2"), c(1L, -2L)),
      list(c("1", "2147483648"), c(1, 2147483648)), list(c("1", "2.5"), c(1, 2.5)),
      list(c("1e3", "2"), c(1000, 2)), list(c("007", "8"), c("007", "8")),
      list(c("1", "a"), c("1", "a")), list("90071992547409931", "90071992547409931"),
      list(c(NA, "1"), c(NA, 1L)), list(NA_character_, NA), list("", ""), list("1.50", 1.5),
      # Two of one number.
      list(c("1.1", "1.10", "2"), c("1.1", "1.10", "2")), list(c("1e3", "1000"), c("1e3", "1000")),
      list(c("0", "-0"), c("0", "-0")), list(c("1.5", "1.5", NA), c(1.5, 1.5, NA))
    )
    for (case in cases) expect_identical(guess_key(case[[1L]]), case[[2L]])
  })

  test_that("Files with other keys are refused, and so is an empty folder", {
    put("n=1", data.frame(a = 1))
    error <- expect_error(partition_read(cl, folder), class = "muster_error_input")
    expect_match(conditionMessage(error), "different keys")
    unlink(file.path(folder, c("n=1", "y=2013", "y=2014", "y=__HIVE_DEFAULT_PARTITION__")),
      recursive = TRUE
    )
    expect_error(partition_read(cl, folder), "no files", class = "muster_error_input")
    writeLines("", file.path(folder, "a.txt"))
    error <- expect_error(partition_read(cl, folder), class = "muster_error_input")
    expect_identical(error$file, file.path(folder, "a.txt"))
  })

  test_that("A folder's value takes the place of a column of the file", {
    unlink(file.path(folder, "a.txt"))
    put("a=5", data.frame(a = 1:2, b = 3:4))
    expect_identical(partition_collect(partition_read(cl, folder)),
      data.frame(b = 3:4, a = c(5L, 5L))
    )
  })
})

test_cluster("Files have their columns by name, and say what they lack", {
  cl <- local_cluster(2)
  folder <- local_folder()
  put <- function(name, ...) writeLines(c(...), file.path(folder, name))
  put("one.csv", "NAME,AGE,X", "Bob,31,1", "Alice,45,2")
  put("three.csv", "X,AGE,NAME", "0.5,54,Sam")
  put("two.csv", "AGE,NAME,X", "7,Eve,3")
  want <- data.frame(
    NAME = c("Bob", "Alice", "Sam", "Eve"), AGE = c(31L, 45L, 54L, 7L), X = c(1, 2, 0.5, 3)
  )
  for (bytes in c(1, 20, 45, 1e6)) { # a part for each file, or one for several
    p <- partition_read(cl, folder, .bytes = bytes)
    expect_identical(names(p), names(want))
    expect_identical(partition_collect(p), want)
  }
  expect_identical(partition_collect(partition_read(cl, folder, .columns = c("X", "NAME"))),
    want[c("X", "NAME")])
  put("two.csv", "AGE,X", "7,3")
  error <- expect_error(partition_read(cl, folder, .bytes = 1e6), class = "muster_error_input")
  expect_match(conditionMessage(error), "two.csv has `AGE`, `X`. `.columns` chooses", fixed = TRUE)
  expect_identical(
    partition_collect(partition_read(cl, folder, .columns = c("X", "AGE"), .bytes = 1e6)),
    data.frame(X = want$X, AGE = want$AGE)
  )
  expect_error(partition_read(cl, folder, format = "csv"),
    "`format` is neither an argument of partition_read() nor of read.csv().", fixed = TRUE,
    class = "muster_error_input")
  # Arguments by the beginning of their names, as R takes them.
  put("two.csv", "NAME,AGE,X", "7,3,1")
  p <- partition_read(cl, file.path(folder, "two.csv"), colCl = "character")
  expect_identical(partition_collect(p)$X, "1")
})
