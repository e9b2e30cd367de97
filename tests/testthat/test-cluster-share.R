# Large vectors in shared memory: what arrives is what was sent, nobody else sees what a
# worker changes, and nothing is left.

is_shared <- function(x) .Call(ffi_share_is, x)
# Without such memory everything travels through sockets, and is the same.
can_share <- built_with("memfd")
skip_without_memfd <- function() skip_without_feature("memfd")

# Sends a value to the first worker and back: list(shared there, shared here, value).
there_and_back <- function(cl, value) {
  both <- clusterCall(cl[1], function(value) {
    list(.Call(getNamespace("muster")$ffi_share_is, value), value)
  }, value)[[1]]
  list(both[[1]], is_shared(both[[2]]), both[[2]])
}

# Sets what the session, or a worker, believes of the system, until the block ends.
local_pretend <- function(off = FALSE, room = -1, frame = parent.frame()) {
  .Call(ffi_share_pretend, off, room)
  defer(function() .Call(ffi_share_pretend, FALSE, -1), frame)
}
pretend_there <- function(off, room) {
  eval(bquote(function() .Call(getNamespace("muster")$ffi_share_pretend, .(off), .(room))))
}

latin <- marked(c(0x63, 0xe9), "latin1")
utf8 <- marked(c(0x63, 0xc3, 0xa9), "UTF-8")
bytes <- marked(c(0x01, 0xff), "bytes")

vectors <- function(n) {
  list(
    double = c(NA, NaN, Inf, -0, runif(n)), integer = c(NA, sample.int(n)),
    logical = rep_len(c(TRUE, FALSE, NA), n), raw = as.raw(rep_len(0:255, n)),
    complex = complex(real = runif(n), imaginary = NA),
    character = rep_len(c("", "a", NA, utf8, latin, bytes, "NA", strrep("long ", 100)), n),
    factor = factor(rep_len(letters, n)), date = Sys.Date() + seq_len(n) / 2,
    matrix = matrix(runif(2 * n), n, dimnames = list(NULL, c("x", "y"))),
    array = array(runif(2 * n), c(n, 1, 2)),
    named = structure(runif(n), names = paste("name", seq_len(n))),
    classed = structure(runif(n), class = "mine", other = list(1, "b"))
  )
}

# Elements are taken from such vectors in ways of their own.
test_cluster("elements are those of an ordinary vector, by any index", {
  skip_without_memfd()
  local_seed(2)
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  n <- 8192L
  values <- vectors(n)[c("double", "integer", "logical", "raw", "complex", "named", "matrix")]
  there <- clusterCall(cl, identity, values)[[1]]
  # Of both kinds of numbers, as makes a difference in C; missing, past the end, and of no sense.
  indices <- list(
    sample.int(n), as.double(sample.int(n)), c(1L, NA, n + 20L), c(1, NA, NaN, n + 20, 1.9, 2.5),
    -(1:10), -n, 0L, integer(), c(TRUE, FALSE, NA), n:1, c(3L, 3L, 3L), 2^31 + 1, "name 7", TRUE
  )
  for (name in names(values)) {
    mine <- values[[name]]
    theirs <- there[[name]]
    expect_true(is_shared(theirs), info = name)
    for (index in indices) {
      expect_identical(theirs[index], mine[index], info = paste(name, typeof(index)))
    }
    expect_identical(is.na(theirs), is.na(mine), info = name)
    expect_identical(lapply(1:9, function(i) theirs[[i]]), lapply(1:9, function(i) mine[[i]]))
    same <- rep_len(c(TRUE, FALSE), length(mine))
    if (is.double(mine)) expect_identical(ifelse(same, theirs, 0), ifelse(same, mine, 0))
    for (e in theirs) last <- e
    expect_identical(last, mine[[length(mine)]], info = name)
  }
  expect_identical(there$matrix[c(5, 1), ], values$matrix[c(5, 1), ])
  expect_identical(there$matrix[, "y"], values$matrix[, "y"])
  # Two of a kind in turn, one that was changed, and many that R frees, whose places others take.
  other <- clusterCall(cl, function(x) x + 1, values$named)[[1]]
  expect_identical(
    lapply(1:9, function(i) c(there$named[[i]], other[[i]])),
    lapply(1:9, function(i) c(values$named[[i]], values$named[[i]] + 1))
  )
  is.na(other)
  other[2] <- NA
  expect_identical(which(is.na(other)), c(`name 2` = 2L))
  for (i in 1:40) {
    one <- clusterCall(cl, function(n, i) rep(i, n), n, i + 0.5)[[1]]
    expect_false(anyNA(is.na(one)) || any(one[1:2] != i + 0.5) || one[[n]] != i + 0.5)
    if (i %% 10 == 0) gc()
  }
})

test_cluster("vectors of every type come and go as they are", {
  local_seed(1)
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  for (n in c(8192L, 100003L)) {
    values <- vectors(n)
    for (name in names(values)) {
      answer <- there_and_back(cl, values[[name]])
      expect_identical(answer[[1]], can_share, info = name)
      expect_identical(answer[[2]], can_share, info = name)
      expect_identical(answer[[3]], values[[name]], info = name)
      expect_identical(attributes(answer[[3]]), attributes(values[[name]]), info = name)
    }
  }
  # A vector shows what it is only when all of its strings are made, so encodings come last.
  texts <- there_and_back(cl, values$character)[[3]]
  expect_identical(Encoding(texts), Encoding(values$character))
})

test_cluster("lists and data frames carry their vectors, at any depth", {
  local_seed(1)
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  x <- runif(5000)
  frame <- data.frame(
    number = x, text = rep_len(c("a", NA, "c"), 5000), level = factor(rep_len(letters, 5000)),
    row.names = paste0("row", 1:5000)
  )
  deep <- x
  for (i in 1:150) deep <- list(deep, i)
  values <- list(
    frame = frame, nested = list(1, list(x, "a", list(y = x, z = NULL))), twice = list(x, x),
    pairs = pairlist(a = x, b = 2), deep = deep, empty = list(), with = structure(list(x), a = x)
  )
  before <- serialize(values, NULL)
  for (name in names(values)) {
    expect_identical(there_and_back(cl, values[[name]])[[3]], values[[name]], info = name)
  }
  expect_identical(serialize(values, NULL), before) # and the session's own are as they were
  parts <- there_and_back(cl, values$nested)[[3]]
  expect_identical(is_shared(parts[[2]][[1]]), can_share)
  expect_identical(is_shared(parts[[2]][[3]]$y), can_share)
  expect_identical(is_shared(there_and_back(cl, frame)[[3]]$number), can_share)
  # Each occurrence is a vector of its own.
  expect_identical(clusterCall(cl, function(both) {
    both[[1]][1] <- -1
    both[[2]][1] == -1
  }, values$twice), list(FALSE))
})

test_cluster("what is small, compact or no vector is sent as always", {
  local_seed(1)
  local_settings(muster.share_min = 1e5)
  cl <- local_cluster(1)
  values <- list(
    small = runif(1000), empty = numeric(), compact = 1:1e6, fun = sum,
    name = quote(a + b), env = globalenv(), null = NULL, one = 1
  )
  for (name in names(values)) {
    answer <- there_and_back(cl, values[[name]])
    expect_false(answer[[1]] || answer[[2]], info = name)
    expect_identical(answer[[3]], values[[name]], info = name)
  }
})

test_cluster("options(muster.share_min = Inf) and systems without share nothing", {
  local_seed(1)
  x <- runif(1e5)
  local({
    local_settings(muster.share_min = Inf)
    cl <- local_cluster(1)
    answer <- there_and_back(cl, x)
    expect_false(answer[[1]] || answer[[2]])
    expect_identical(answer[[3]], x)
  })
  cl <- local_cluster(1)
  local_pretend(off = TRUE)
  clusterCall(cl, pretend_there(TRUE, -1))
  answer <- there_and_back(cl, x)
  expect_false(answer[[1]] || answer[[2]])
  expect_identical(answer[[3]], x)
  cluster_share(cl, y = x)
  expect_identical(clusterEvalQ(cl, y), list(x))
})

test_cluster("workers that boot share too", {
  skip_without_memfd()
  local_seed(1)
  cl <- local_cluster(1, start = "spawn")
  answer <- there_and_back(cl, runif(1e5))
  expect_true(answer[[1]] && answer[[2]])
})

test_cluster("what a worker changes nobody else sees", {
  local_seed(1)
  cl <- local_cluster(2)
  x <- runif(1e5)
  before <- x + 0
  cluster_share(cl, x = x, words = rep_len(c("a", "b"), 1e5))
  clusterCall(cl[1], function() {
    global <- globalenv()
    global$x[1:10] <- 0
    global$words[3] <- ""
    global$words[4] <- "changed"
    NULL
  })
  seen <- clusterEvalQ(cl, list(x[1:11], words[1:5]))
  expect_identical(seen[[1]], list(c(rep(0, 10), before[11]), c("a", "b", "", "changed", "a")))
  expect_identical(seen[[2]], list(before[1:11], c("a", "b", "a", "b", "a")))
  expect_identical(x, before)
  y <- clusterCall(cl[2], function() x)[[1]]
  y[2] <- 7
  expect_identical(clusterCall(cl[2], function() x[2])[[1]], before[2])
})

test_cluster("R's own operations work on shared vectors", {
  local_seed(1)
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  x <- runif(20000)
  i <- sample.int(20000L)
  s <- sample(c("b", "a", NA, utf8, ""), 20000, TRUE)
  shared <- clusterCall(cl, function(...) list(...), x, i, s)[[1]]
  expect_identical(vapply(shared, is_shared, NA), rep(can_share, 3L))
  file <- file.path(local_folder(), "x.rds")
  operations <- list(
    sort, function(v) sort(v, decreasing = TRUE, method = "radix"), order, unique, rev,
    is.na,
    function(v) match(v[1:50], v), duplicated, function(v) c(table(v)),
    function(v) v[v > v[1]], length,
    function(v) {
      v[5] <- v[6]
      v
    }, function(v) identical(v, v), function(v) unserialize(serialize(v, NULL)), as.character,
    function(v) c(v, v), function(v) {
      saveRDS(v, file)
      readRDS(file)
    }, function(v) serialize(v, NULL), utils::object.size, function(v) split(v, 1:2),
    function(v) paste(v, 1), function(v) as.list(v)[1:3], function(v) rep(v, 2), anyNA,
    function(v) {
      names(v) <- seq_along(v)
      v[1:3]
    }, function(v) {
      length(v) <- 10
      v
    }
  )
  for (k in seq_along(operations)) {
    for (n in 1:3) {
      # A fresh one each time: what was looked at before may have been made an ordinary one.
      one <- clusterCall(cl, identity, list(x, i, s)[[n]])[[1]]
      expect_identical(operations[[k]](one), operations[[k]](list(x, i, s)[[n]]),
        info = paste(k, n)
      )
    }
  }
  expect_identical(quantile(shared[[1]]), quantile(x))
  expect_identical(c(sum(shared[[1]]), range(shared[[2]])), c(sum(x), range(i)))
  # Shared vectors are sent on.
  expect_identical(clusterCall(cl, identity, shared)[[1]], list(x, i, s))
  shared[[3]][2] <- "new"
  expect_identical(clusterCall(cl, identity, shared[[3]])[[1]][1:3], c(s[1], "new", s[3]))
})

test_cluster("shared vectors stand gctorture", {
  local_seed(1)
  local_settings(muster.share_min = 4096)
  cl <- local_cluster(1)
  values <- list(runif(600), list(a = rep_len(c("a", NA, utf8), 600), b = 1:1030 + 0L))
  # Functions that R loads now would take minutes where the session has much else.
  clusterCall(cl, identity, values)
  gctorture2(7L)
  answer <- clusterCall(cl, identity, values)
  texts <- answer[[1]][[2]]$a[1:20]
  gctorture2(0L)
  expect_identical(answer[[1]], values)
  expect_identical(texts, values[[2]]$a[1:20])
  there <- clusterCall(cl, function(values) {
    gctorture(TRUE)
    on.exit(gctorture(FALSE))
    values[[2]]$a[7] <- values[[2]]$a[8]
    values
  }, values)[[1]]
  values[[2]]$a[7] <- values[[2]]$a[8]
  expect_identical(there, values)
})

test_cluster("results outlive their worker and their cluster", {
  local_seed(1)
  cl <- cluster_start(2)
  x <- clusterCall(cl[1], function() seq_len(1e6) + 0.5)[[1]]
  task <- task_submit(cl, function() rep_len(c("a", "b"), 1e5))
  words <- task_value(task)
  expect_identical(c(is_shared(x), is_shared(words)), c(can_share, can_share))
  cluster_stop(cl)
  expect_identical(x, seq_len(1e6) + 0.5)
  expect_identical(words, rep_len(c("a", "b"), 1e5))
})

test_cluster("tasks and maps share their arguments and values", {
  local_seed(1)
  cl <- local_cluster(2)
  x <- runif(1e5)
  tasks <- lapply(1:20, function(i) task_submit(cl, function(x, i) x + i, x, i))
  rm(cl)
  for (i in 1:20) expect_identical(task_value(tasks[[i]]), x + i)
  expect_identical(task_value(tasks[[1]]), x + 1) # again
})

test_cluster("a worker that is killed has what was shared when it is back", {
  local_seed(1)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  x <- runif(1e5)
  cluster_share(cl, x = x, frame = data.frame(a = x))
  clusterExport(cl, "x", environment())
  # In the middle of a call that has a large argument.
  pids <- clusterCall(cl, function(y) {
    if (is.null(globalenv()$marked)) Sys.getpid()
  }, x)
  flag <- file.path(local_folder(), "once")
  sums <- clusterCall(cl, function(y, flag) {
    if (!file.exists(flag)) {
      file.create(flag)
      tools::pskill(Sys.getpid(), 9L)
    }
    c(sum(y), sum(x), sum(frame$a))
  }, x, flag)
  expect_identical(sums, rep(list(rep(sum(x), 3)), 2))
  expect_true(any(unlist(pids) != unlist(clusterCall(cl, Sys.getpid))))
  tools::pskill(clusterCall(cl[2], Sys.getpid)[[1]], 9L)
  expect_identical(clusterEvalQ(cl, identical(frame$a, x)), list(TRUE, TRUE))
})

test_cluster("a checkpoint of shared vectors is right", {
  local_seed(1)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  x <- runif(1e5)
  cluster_share(cl, x = x, words = rep_len(c("a", NA), 1e5))
  clusterEvalQ(cl, x[1] <- -1)
  for (i in 1:70) clusterCall(cl, function(i) assign(paste0("v", i), i, globalenv()), i)
  make_checkpoints(cl)
  tools::pskill(node_pids(cl), 9L)
  x[1] <- -1
  words <- rep_len(c("a", NA), 1e5)
  expect_identical(clusterEvalQ(cl, list(x, words, v70))[[1]], list(x, words, 70L))
})

test_cluster("the journal tells of shared calls", {
  local_settings(muster.checkpoints = FALSE)
  local_seed(1)
  cl <- local_cluster(1)
  cluster_share(cl, x = runif(1e5))
  journal <- cluster_journal(cl)
  expect_identical(nrow(journal), 1L)
  expect_gt(journal$bytes, 8e5)
  # What is bound anew isn't kept twice, and so its memory goes.
  for (i in 1:3) {
    x <- runif(2e5)
    clusterExport(cl, "x", environment())
    cluster_share(cl, a = 1, x = x)
  }
  expect_identical(nrow(cluster_journal(cl)), 2L)
  expect_lt(sum(cluster_journal(cl)$bytes), 2 * 1.7e6)
  clusterEvalQ(cl, y <- x[1])
  cluster_share(cl, a = 1, x = 0)
  expect_identical(nrow(cluster_journal(cl)), 4L)
  local_settings(muster.quiet = TRUE)
  tools::pskill(node_pids(cl), 9L)
  expect_identical(clusterEvalQ(cl, list(x, y)), list(list(0, x[1])))
})

test_cluster("what doesn't fit into memory has an error of its class, and the cluster goes on", {
  local_seed(1)
  cl <- local_cluster(2)
  x <- runif(1e5)
  local({
    local_pretend(room = 5e5)
    error <- expect_error(cluster_share(cl, x = x), class = "muster_error_memory")
    expect_identical(error$free, 5e5)
    expect_gte(error$bytes, 8e5)
    expect_match(conditionMessage(error), "800 kB.*\nx 500 kB are free\\.\ni ")
    expect_error(clusterExport(cl, "x", environment()), class = "muster_error_memory")
    expect_error(clusterApplyLB(cl, list(1, x), length), class = "muster_error_memory")
    expect_error(task_submit(cl, length, x), class = "muster_error_memory")
    local_settings(muster.share_min = Inf)
    expect_error(clusterCall(cl, length, rep(x, 100)), class = "muster_error_memory")
    expect_identical(clusterCall(cl, sum, 1), list(1, 1))
  })
  cluster_share(cl, x = x)
  clusterCall(cl, pretend_there(FALSE, 5e5))
  error <- expect_error(clusterEvalQ(cl, x), class = "muster_error_memory")
  expect_identical(error$worker, 1L)
  expect_match(conditionMessage(error), "^Worker 1 doesn't have enough memory")
  expect_match(conditionMessage(error), "return a value of 800 kB")
  expect_error(clusterApplyLB(cl, 1:3, function(i) if (i == 2) x), class = "muster_error_memory")
  expect_error(task_value(task_submit(cl, function() x)), class = "muster_error_memory")
  expect_identical(clusterEvalQ(cl, sum(x)), list(sum(x), sum(x)))
  clusterCall(cl, pretend_there(FALSE, -1))
  expect_identical(clusterEvalQ(cl, x), list(x, x))
})

test_cluster("a change by a call whose value doesn't fit is made again after a loss", {
  local_seed(1)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  clusterCall(cl, pretend_there(FALSE, 0))
  expect_error(clusterEvalQ(cl, kept <- rep(5.5, 1e5)), class = "muster_error_memory")
  tools::pskill(node_pids(cl), 9L)
  expect_identical(clusterEvalQ(cl, all(kept == 5.5)), list(TRUE))
})

test_cluster("cluster_share() wants a cluster and named values", {
  local_seed(1)
  cl <- local_cluster(1)
  expect_error(cluster_share(1, x = 1), class = "muster_error_input")
  expect_error(cluster_share(cl, 1), class = "muster_error_input")
  expect_error(cluster_share(cl, x = 1, 2), class = "muster_error_input")
  error <- expect_error(cluster_share(cl, x = 1, x = 2), class = "muster_error_input")
  expect_match(conditionMessage(error), "\"x\" is given more than once", fixed = TRUE)
  expect_invisible(expect_null(cluster_share(cl)))
  expect_invisible(cluster_share(cl, x = 1, `odd name` = list(2), fun = function() x))
  expect_identical(clusterEvalQ(cl, list(x, `odd name`, fun())), list(list(1, list(2), 1)))
})

# Vectors of each type that can be shared, with and without attributes.
vectors_of <- function(n) {
  list(
    real = seq_len(n) / 3, integer = rev(seq_len(n)), minus = rep(-1L, n),
    logical = rep(c(TRUE, NA, FALSE), length.out = n), raw = as.raw(seq_len(n) %% 256L),
    complex = complex(n, seq_len(n), -1), text = as.character(seq_len(n)),
    named = stats::setNames(seq_len(n) / 7, seq_len(n)), matrix = matrix(seq_len(2 * n) / 9, n),
    factor = factor(rep(letters, length.out = n)), dates = as.Date("2020-01-01") + seq_len(n),
    frame = data.frame(x = seq_len(n) / 11, k = rep(c("a", "b"), length.out = n)),
    listed = list(list(seq_len(n) / 13)), compact = seq_len(n)
  )
}

test_cluster("what functions captured arrives as it is, of any size, type and attributes", {
  skip_without_memfd()
  before <- options(muster.share_min = 4096)
  defer(function() options(before))
  cl <- local_cluster(2)
  # Around the number of elements that R writes at once, and around the limit.
  for (n in c(1, 255, 256, 257, 1000, 8095:8097, 2 * 8096, 3 * 8096 + 1, 1e5)) {
    values <- vectors_of(n)
    holder <- structure(list(), kept = values$real)
    delayed <- NULL
    delayedAssign("delayed", values$integer)
    f <- function(i) list(values, attr(holder, "kept"), delayed)
    want <- f(1)
    expect_identical(cluster_map(cl, 1:2, f), list(want, want), info = n)
    expect_identical(task_value(task_submit(cl, f, 1)), want, info = n)
    expect_identical(clusterCall(cl[1], f, 1), list(want), info = n)
    by_argument <- clusterCall(cl[1], function(f, x) list(f(1), x), f, values)
    expect_identical(by_argument, list(list(want, values)), info = n)
  }
})

test_cluster("what functions captured is in shared memory, mapped anew for each piece", {
  skip_without_memfd()
  skip_without_proc()
  cl <- local_cluster(1)
  make <- function(value) {
    large <- rep(value, 1e6)
    function(i) {
      mapped <- any(grepl("/memfd:muster", readLines("/proc/self/maps"), fixed = TRUE))
      large[i] <<- large[i] + 1 # in place
      list(mapped, large[1], sum(large))
    }
  }
  environment(make) <- globalenv()
  f <- make(1)
  for (k in 1:3) {
    expect_identical(cluster_map(cl, 1, f), list(list(TRUE, 2, 1000001)))
    expect_identical(task_value(task_submit(cl, f, 1)), list(TRUE, 2, 1000001))
    expect_identical(clusterCall(cl, f, 1), list(list(TRUE, 2, 1000001)))
  }
  # The same but for what is in shared memory, by turns.
  g <- make(2)
  for (k in 1:2) {
    expect_identical(cluster_map(cl, 1, f)[[1L]][[3L]], 1000001)
    expect_identical(cluster_map(cl, 1, g)[[1L]][[3L]], 2000001)
  }
  # A worker that takes another's place gets it again.
  before <- node_pids(cl)
  again <- suppressMessages(cluster_map(cl, 1:2, function(i, f, before) {
    if (Sys.getpid() == before) tools::pskill(before, 9L)
    f(1)[[3L]]
  }, f, before))
  expect_identical(again, list(1000001, 1000001))
  # No descriptor stays open but for the eight jobs that are kept, and some in between.
  fds <- function() length(list.files("/proc/self/fd"))
  many <- vapply(1:30, function(k) cluster_map(cl, 1, function(i) fds() + 0 * length(f))[[1L]], 0)
  expect_lte(max(many) - min(many), 12)
})

test_cluster("without shared memory what functions captured comes with the message", {
  before <- options(muster.share_min = 1e9)
  defer(function() options(before))
  cl <- local_cluster(1)
  large <- seq_len(1e6) / 3
  expect_identical(cluster_map(cl, 1, function(i) sum(large)), list(sum(large)))
})

test_cluster("mappings that nobody uses any more are given back in the end", {
  local_seed(1)
  skip_without_memfd()
  skip_without_proc()
  cl <- local_cluster(1)
  mapped <- function() length(grep("/memfd:muster", readLines("/proc/self/maps"), fixed = TRUE))
  environment(mapped) <- globalenv() # what is here would be mapped with it
  x <- runif(1e6)
  most <- 0L
  for (i in 1:30) {
    y <- clusterCall(cl, function(x) x, x)[[1]]
    most <- max(most, mapped())
  }
  expect_identical(y, x)
  rm(y)
  gc()
  expect_identical(mapped(), 0L)
  clusterCall(cl, gc)
  expect_identical(clusterCall(cl, mapped), list(0L))
  expect_gte(most, 1L)
})

test_that("a reference without its memory is an error", {
  state <- c(0, 1000, 8000)
  class <- pairlist(as.name("muster_real"), as.name("muster"), 14L)
  # serialize() of an ALTREP object: its class, its state, its attributes.
  bytes <- c(
    serialize(NULL, NULL, xdr = FALSE)[1:23], as.raw(c(238, 0, 0, 0)),
    serialize(class, NULL, xdr = FALSE)[-(1:23)], serialize(state, NULL, xdr = FALSE)[-(1:23)],
    as.raw(c(254, 0, 0, 0))
  )
  expect_error(unserialize(bytes), "shared memory that isn't there")
})

test_that("D11: an error at the limit of memory mappings names vm.max_map_count", {
  error <- tryCatch(abort_memory(c(1e6, 1e9, 0, 1, 65500, 65530)), muster_error_memory = identity)
  text <- conditionMessage(error)
  expect_match(text, "too many memory mappings")
  expect_match(text, "65,500, and the kernel allows 65,530 (vm.max_map_count)", fixed = TRUE)
  expect_match(text, "sysctl -w vm.max_map_count=262144", fixed = TRUE)
  expect_false(grepl("ulimit", text))
  for (maps in list(c(60000, 65530), c(-1, 65530), c(100, -1))) {
    error <- tryCatch(abort_memory(c(1e6, 1e9, 0, 1, maps)), muster_error_memory = identity)
    expect_match(conditionMessage(error), "ulimit -v")
  }
})

# Pages whose protection differs by turns are a mapping each, and take no memory.
fill_mappings <- c(
  "#include <stddef.h>", "#include <sys/mman.h>",
  "void fill(void) {",
  "  const size_t page = 4096, n = 1 << 20;",
  "  char *all = mmap(NULL, n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
  "  if (all == MAP_FAILED) return;",
  "  for (size_t i = 0; i < n; i += 2)",
  "    if (mprotect(all + i * page, page, PROT_READ) != 0) break;",
  "  // The last ones can't be split off, only added.",
  "  for (int i = 0; i < 100; i++)",
  "    if (mmap(NULL, page, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)",
  "        == MAP_FAILED) return;",
  "}"
)

test_cluster("D11: a worker without mappings left says so, and the others go on", {
  skip_without_memfd()
  skip_if(nzchar(Sys.getenv("MUSTER_TEST_SANITIZERS")), "sanitizers need mappings of their own")
  limit <- suppressWarnings(as.numeric(readLines("/proc/sys/vm/max_map_count")))
  skip_if_not(isTRUE(limit <= 1e6), "the limit of mappings is too high to be reached")
  folder <- local_folder()
  writeLines(fill_mappings, file.path(folder, "fill.c"))
  command <- c("CMD", "SHLIB", shQuote(file.path(folder, "fill.c")))
  status <- system2(file.path(R.home("bin"), "R"), command, stdout = FALSE, stderr = FALSE)
  skip_if(status != 0L, "there is no C compiler")
  cl <- local_cluster(2)
  library_file <- file.path(folder, paste0("fill", .Platform$dynlib.ext))
  clusterCall(cl[1], function(file) {
    dyn.load(file)
    # What reports the failure is read by now, and has room: that is not what is tested.
    for (env in list(baseenv(), asNamespace("muster"))) eapply(env, force, all.names = TRUE)
    gc()
    .C("fill")
    NULL
  }, library_file)
  error <- tryCatch(clusterCall(cl, length, numeric(1e6)), muster_error_memory = identity)
  expect_s3_class(error, "muster_error_memory")
  expect_match(conditionMessage(error), "Worker 1.*vm.max_map_count")
  expect_identical(clusterCall(cl[2], length, numeric(1e6)), list(1000000L))
})

test_cluster("D11: changing a shared vector copies it, in that worker alone, as the help says", {
  skip_without_memfd()
  cl <- local_cluster(2)
  x <- as.double(seq_len(1e5)) / 3
  cluster_share(cl, x = x)
  is_shared <- function() {
    any(grepl("mapped", utils::capture.output(.Internal(inspect(get("x", globalenv()))))))
  }
  expect_identical(clusterCall(cl, is_shared), list(TRUE, TRUE))
  clusterEvalQ(cl[1], x[1] <- -1)
  expect_identical(clusterCall(cl, is_shared), list(FALSE, TRUE))
  expect_identical(clusterEvalQ(cl, x[1]), list(-1, x[1]))
})
