# Parts and blocks past muster.shuffle_memory: in files, and everything else is as in memory.

# Columns of all kinds that go to files, by rows that are in no order.
spill_frame <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, replace = TRUE)]
  frame <- new_frame(list(
    g = pick(c("a", "b", NA, "\u00e4", "e")), id = seq_len(n), x = pick(c(rnorm(50), NA, NaN, Inf)),
    each = paste0("row ", seq_len(n)), mixed = pick(c("x", iconv("\u00e4", "UTF-8", "latin1"), NA)),
    f = factor(pick(c("lo", "hi", NA)), levels = c("hi", "unused", "lo")),
    many = factor(pick(sprintf("level %d", 1:200))), flag = pick(c(TRUE, FALSE, NA)),
    time = pick(as.POSIXct("2020-03-29 00:30:00", tz = "Europe/Berlin") + c(3600 * 0:4, NA)),
    day = pick(as.Date("2020-02-28") + c(0:3, NA)), wait = as.difftime(pick(1:9), units = "mins"),
    big = int64_pick(n), z = complex(real = seq_len(n), imaginary = 1),
    bytes = as.raw(seq_len(n) %% 256), list = lapply(seq_len(n), function(i) list(i, "a")),
    vectors = lapply(seq_len(n), function(i) structure(seq_len(i %% 5), class = "mine"))
  ), n)
  attr(frame$x, "label") <- "a number"
  frame
}

parts_of_workers <- function(cl) {
  counts <- clusterEvalQ(cl, {
    parts <- muster:::the_worker$parts
    c(files = sum(vapply(parts, `[[`, NA, "file")),
      cold = sum(vapply(parts, function(part) is.null(part$data), NA)))
  })
  Reduce(`+`, counts)
}

spill_files <- function(folder) list.files(folder, "^part-", full.names = TRUE)

change_byte <- function(file, at) {
  bytes <- readBin(file, "raw", file.size(file))
  bytes[at] <- xor(bytes[at], as.raw(1))
  writeBin(bytes, file)
}

test_cluster("Parts that lie in files", {
  cl <- local_cluster(2)

  test_that("D7 Every verb gives the same rows when nothing may stay in memory", {
    local_seed(71)
    folder <- local_folder()
    data <- spill_frame(4000)
    few <- data.frame(g = c("a", "b", "c"), y = 1:3)
    run <- function(memory) {
      local_settings(muster.shuffle_memory = memory)
      p <- partition_scatter(cl, data, parts = 5)
      map <- partition_map(p, function(d) {
        d$twice <- d$id * 2
        attr(d$twice, "unit") <- "m"
        d
      })
      kept <- partition_map(map, function(d) d[d$id %% 3 != 0, ])
      moved <- partition_shuffle(map, "g", parts = 7)
      target <- file.path(folder, paste0("out", memory))
      partition_write(moved[c("g", "id", "x", "each", "time")], target, "rds")
      partition_write(kept[c("g", "id", "flag")], paste0(target, "csv"), "csv")
      list(
        partition_collect(p), partition_collect(map), partition_collect(kept),
        partition_collect(moved), head(moved, 3), summary(kept),
        partition_collect(partition_summarise(map, .by = g, n = n(), s = sum(twice))),
        partition_collect(partition_reduce(map, "f", function(d) d[1:2, ])),
        partition_collect(partition_join(kept, partition_scatter(cl, few), "g", all = TRUE)),
        partition_collect(partition_read(cl, target)),
        partition_collect(partition_read(cl, paste0(target, "csv"))),
        files = parts_of_workers(cl)
      )
    }
    for (scrap in 1:2) gc()
    want <- run(1e12)
    got <- run(0)
    expect_identical(want$files[["files"]], 0L)
    expect_gt(got$files[["cold"]], 10)
    for (i in seq_len(length(want) - 1L)) expect_identical(got[[i]], want[[i]], info = i)
    expect_identical(got[[1L]], data)
  })

  test_that("D7 A part that is used is in memory again while there is room, and its file stays", {
    local_seed(72)
    cl <- local_cluster(2) # where no parts of others go meanwhile
    data <- data.frame(id = 1:40000, x = rnorm(40000))
    p <- partition_scatter(cl, data, parts = 4)
    local_settings(muster.shuffle_memory = 0)
    q <- partition_map(p, identity)
    cold <- parts_of_workers(cl)
    expect_gte(cold[["cold"]], 4L)
    local_settings(muster.shuffle_memory = 1e9)
    expect_identical(partition_collect(q), data)
    warm <- parts_of_workers(cl)
    expect_identical(cold[["cold"]] - warm[["cold"]], 4L)
    expect_identical(warm[["files"]], cold[["files"]])
    # Less of it: what was used last stays.
    local_settings(muster.shuffle_memory = 200e3)
    partition_collect(p)
    partition_collect(q)
    # Blocks of what ran before may be there as well: their segments don't go to files.
    expect_lte(sum(unlist(clusterEvalQ(cl, sum(muster:::the_worker$warm)))), 200e3)
    expect_identical(partition_collect(q), data)
  })

  test_that("D7 What has environments or pointers, or is small, stays in memory as it is", {
    local_settings(muster.shuffle_memory = 0)
    p <- partition_map(partition_scatter(cl, data.frame(id = 1:2000), parts = 2), function(d) {
      env <- new.env()
      d$env <- lapply(d$id, function(i) env)
      d
    })
    one <- partition_map(p, function(d) {
      assign("n", 0, d$env[[1]])
      for (env in d$env) env$n <- env$n + 1
      data.frame(n = d$env[[1]]$n)
    })
    expect_identical(partition_collect(one)$n, c(1000, 1000))
    again <- partition_map(p, function(d) data.frame(n = d$env[[1000]]$n))
    expect_identical(partition_collect(again)$n, c(1000, 1000))
  })

  test_that("D7 A file that was changed, cut or removed is found, and its part made again", {
    local_seed(73)
    folder <- local_folder()
    local_settings(muster.shuffle_memory = 0, muster.shuffle_folder = folder)
    data <- data.frame(id = 1:20000, s = sample(c("x", "yy", NA), 20000, TRUE), x = rnorm(20000))
    p <- partition_scatter(cl, data, parts = 4)
    q <- partition_map(p, function(d) {
      d$y <- -d$x
      d
    })
    want <- cbind(data, y = -data$x)
    expect_identical(partition_collect(q), want)
    all <- length(spill_files(folder))
    expect_identical(all, 8L)
    # q's: of the data, of what strings have in common, shorter, gone.
    files <- grep(paste0("-", q$stage, "-[0-9]+-1$"), spill_files(folder), value = TRUE)
    expect_length(files, 4)
    change_byte(files[1], file.size(files[1]) %/% 2)
    change_byte(files[2], 20)
    writeBin(readBin(files[3], "raw", 100), files[3])
    unlink(files[4])
    missed <- plan_counts(q)$missed
    expect_identical(partition_collect(q), want)
    expect_gte(plan_counts(q)$missed - missed, 4)
    # One that would wait for a writer.
    file <- grep(paste0("-", q$stage, "-[0-9]+-"), spill_files(folder), value = TRUE)[1]
    unlink(file)
    expect_identical(system2("mkfifo", file), 0L)
    expect_identical(partition_collect(q), want)
    # Those that q is made from.
    for (file in spill_files(folder)) change_byte(file, file.size(file) %/% 2)
    expect_identical(partition_collect(q), want)
    expect_identical(partition_collect(p), data)
  })

  test_that("D7 A relative folder is that of when the call began", {
    folder <- local_folder()
    local_directory(dirname(folder))
    here <- basename(folder)
    data <- data.frame(id = 1:20000, x = 1:20000 / 7)
    local_settings(muster.shuffle_memory = 0, muster.shuffle_folder = here)
    p <- partition_map(partition_scatter(cl, data, parts = 4), identity)
    expect_gt(length(spill_files(here)), 0)
    missed <- plan_counts(p)$missed
    setwd("/")
    expect_identical(partition_collect(p), data)
    expect_identical(plan_counts(p)$missed, missed)
  })

  test_that("D7 What killed sessions have left in the folder goes, and nothing else", {
    folder <- local_folder()
    dead <- 999999999L # more than any system has
    host <- gsub("[^[:alnum:].]", "", Sys.info()[["nodename"]])
    of <- function(pid) paste0("part-", host, "_", pid, "_file1-1-0-1-1-1")
    stays <- c(of(Sys.getpid()), sub(host, "other.host", of(dead)), "part-1", "mine")
    writeLines("x", file.path(folder, of(dead)))
    for (name in stays) writeLines("x", file.path(folder, name))
    local_settings(muster.shuffle_memory = 1e9, muster.shuffle_folder = folder)
    p <- partition_scatter(cl, data.frame(id = 1:3), parts = 1)
    expect_identical(partition_collect(p)$id, 1:3)
    expect_identical(sort(list.files(folder)), sort(stays))
  })

  test_that("D7 Options of memory that can't be are refused", {
    data <- data.frame(id = 1:10)
    for (bad in list("1e9", -1, NA_real_, c(1, 2), TRUE)) {
      local_settings(muster.shuffle_memory = bad)
      expect_error(partition_scatter(cl, data), "shuffle_memory", class = "muster_error_input")
    }
    local_settings(muster.shuffle_memory = NULL)
    for (bad in list(3, NA_character_, "", c("a", "b"))) {
      local_settings(muster.shuffle_folder = bad)
      expect_error(partition_scatter(cl, data), "shuffle_folder", class = "muster_error_input")
    }
  })

  test_that("D7 Without a place for files parts stay in memory, and nothing is lost", {
    local_settings(
      muster.shuffle_memory = 0, muster.shuffle_folder = file.path(local_folder(), "gone")
    )
    data <- data.frame(id = 1:20000, x = 1:20000 / 7)
    p <- partition_map(partition_scatter(cl, data, parts = 4), identity)
    expect_identical(partition_collect(p), data)
    expect_error(partition_shuffle(p, "id"), class = "muster_error_limit")
    expect_identical(partition_collect(p), data)
  })
})

test_cluster("D7 A worker that is killed while parts lie in files, and what then stays", {
  local_seed(74)
  folder <- local_folder()
  local_settings(muster.quiet = TRUE, muster.shuffle_memory = 0, muster.shuffle_folder = folder)
  cl <- local_cluster(2)
  data <- data.frame(g = sample(9L, 30000, TRUE), id = 1:30000, x = rnorm(30000))
  p <- partition_scatter(cl, data, parts = 4)
  q <- partition_map(p, function(d) {
    d$y <- d$x^2
    d
  })
  s <- partition_shuffle(q, "g", parts = 4)
  want <- partition_collect(s)
  of_worker <- function(k, epoch) {
    list.files(folder, paste0("^(part|blocks)-[^-]+-", k, "-", epoch, "-"))
  }
  before <- length(of_worker(1, 0))
  expect_gt(before, 0)
  tools::pskill(node_pids(cl)[1L], 9L)
  expect_identical(partition_collect(s), want)
  expect_identical(partition_collect(q), cbind(data, y = data$x^2))
  expect_identical(of_worker(1, 0), character())
  expect_gt(length(spill_files(folder)), 0)
  rm(q, p)
  for (scrap in 1:2) gc()
  expect_identical(partition_collect(s), want)
  rm(s)
  for (scrap in 1:2) gc()
  r <- partition_scatter(cl, data.frame(a = 1:10), parts = 2)
  for (scrap in 1:3) partition_collect(r)
  expect_identical(list.files(folder), character())
  r <- partition_shuffle(partition_scatter(cl, data, parts = 4), "g")
  expect_gt(length(spill_files(folder)), 0)
  cluster_stop(cl)
  expect_identical(list.files(folder), character())
})

test_that("D7 What workers may hold is together within the limit, whoever answers when", {
  local_seed(75)
  most <- vapply(1:200, function(round) {
    n <- sample(5, 1)
    memory <- sample(c(0, 10, 100, 1000), 1)
    held <- double(n)
    claimed <- rep(NA_real_, n)
    over <- -Inf
    for (step in 1:40) {
      worker <- sample(n, 1)
      if (is.na(claimed[worker])) {
        claimed[worker] <- memory_share(worker, held, claimed, memory)
      } else {
        held[worker] <- runif(1) * claimed[worker]
        claimed[worker] <- NA
      }
      over <- max(over, sum(ifelse(is.na(claimed), held, claimed)) - memory, -claimed, na.rm = TRUE)
    }
    over
  }, 0)
  expect_lte(max(most), 1e-9)
  # Alone a worker may have all; with others, what they don't need.
  expect_identical(memory_share(1, 0, NA_real_, 100), 100)
  expect_identical(memory_share(1, c(0, 0), c(NA_real_, NA), 100), 50)
  expect_identical(memory_share(2, c(0, 0), c(50, NA), 100), 50)
  expect_identical(memory_share(2, c(10, 20), c(NA_real_, NA), 100), 55)
  # Less than before: each gives back.
  expect_identical(memory_share(1, c(100, 20), c(NA_real_, NA), 60), 40)
  expect_identical(memory_share(2, c(100, 20), c(40, NA), 60), 20)
})

test_that("D7 What was told by a worker that is gone doesn't count any more", {
  shuffle <- new.env()
  shuffle$tag <- "none"
  workers <- cbind(c(0L, 0L, 3L), worker_is[["up"]])
  memory_see(shuffle, workers)
  expect_identical(shuffle$held, c(0, 0, 0))
  shuffle$held <- c(5, 6, 7)
  memory_see(shuffle, workers)
  expect_identical(shuffle$held, c(5, 6, 7))
  workers[1, 1] <- 1L
  workers[3, 2] <- worker_is[["gone"]]
  memory_see(shuffle, rbind(workers, c(0L, worker_is[["up"]])))
  expect_identical(shuffle$held, c(0, 6, 0, 0))
})
