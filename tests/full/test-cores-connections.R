# Files that the user writes, while all connections are closed between muster's calls: every
# line is in its file, whatever number it has. In sessions of their own, whose connections are
# theirs alone.

# Runs in the session. Each verb runs twice while three files are written that have the numbers
# of connections that muster had before. `how` closes those.
write_through <- quote({
  warned <- character()
  ask_all <- function(cl) vapply(cl, function(node) is.null(node$con), NA)
  write_all <- function(files, line) for (file in files) writeLines(line, file)
  open_all <- function(paths, how) lapply(paths, file, how)
  lines_of <- function(paths) unlist(lapply(paths, readLines))

  # Files that lost a line, or what was wrong otherwise; nothing if all is well.
  try_verb <- function(verb, cl, how) {
    paths <- tempfile(paste0("log", 1:3, "-"))
    ask_all(cl)
    how(cl)
    files <- open_all(paths, "w")
    write_all(files, "one")
    ask_all(cl)
    first <- verb(cl)
    ask_all(cl)
    write_all(files, "two")
    gc()
    second <- verb(cl)
    write_all(files, "three")
    usable <- vapply(files, function(file) isOpen(file, "write"), NA)
    closeAllConnections()
    files <- open_all(paths, "a")
    verb(cl)
    write_all(files, "four")
    for (file in files) close(file)
    gc()
    c(
      if (!all(usable)) "closed",
      if (!identical(lines_of(paths), rep(c("one", "two", "three", "four"), 3L))) "lines lost",
      if (!identical(first, second)) "other answer"
    )
  }

  try_verbs <- function(verbs, cl, how) {
    found <- lapply(verbs, function(verb) {
      tryCatch(
        withCallingHandlers(try_verb(verb, cl, how), warning = function(w) {
          warned <<- c(warned, conditionMessage(w))
        }),
        error = conditionMessage
      )
    })
    Filter(length, found)
  }
  close_nodes <- function(cl) for (node in cl) close(node$con)
  close_all <- function(cl) closeAllConnections()
})

verbs <- quote({
  rows <- data.frame(g = rep(1:4, 5), x = 1:20)
  printed <- function(x) length(utils::capture.output(print(x))) > 0L
  another <- function(use) {
    function(cl) {
      other <- cluster_start(1)
      on.exit(cluster_stop(other))
      ask_all(other)
      use(other)
    }
  }
  verbs_any <- list(
    clusterCall = function(cl) clusterCall(cl, function() 1),
    clusterApply = function(cl) clusterApply(cl, 1:4, sqrt),
    clusterApplyLB = function(cl) clusterApplyLB(cl, 1:4, sqrt),
    clusterMap = function(cl) clusterMap(cl, `+`, 1:4, 1),
    clusterExport = function(cl) clusterExport(cl, "rows"),
    clusterEvalQ = function(cl) clusterEvalQ(cl, nrow(mtcars)),
    clusterSplit = function(cl) clusterSplit(cl, 1:5),
    clusterSetRNGStream = function(cl) clusterSetRNGStream(cl, 1),
    parLapply = function(cl) parLapply(cl, 1:5, sqrt),
    parLapplyLB = function(cl) parLapplyLB(cl, 1:5, sqrt),
    parSapply = function(cl) parSapply(cl, 1:5, sqrt),
    parApply = function(cl) parApply(cl, as.matrix(rows), 1, sum),
    isNodeAlive = function(cl) isNodeAlive(cl),
    print = printed,
    subset = function(cl) clusterCall(cl[1], function() 1),
    c = function(cl) clusterCall(c(cl[1], cl[[2]]), function() 1),
    as.cluster = function(cl) printed(as.cluster(cl[[1]])),
    serialize = function(cl) length(serialize(cl, NULL)),
    availableConnections = function(cl) availableConnections(),
    sockets = function(cl) {
      server <- socket_listen()
      client <- socket_connect("127.0.0.1", server$port)
      peer <- socket_accept(server, 5)
      on.exit(lapply(list(client, peer, server), socket_close))
      ask_all(cl)
      socket_send(client, 1:3)
      socket_receive(peer)
    }
  )
  verbs_own <- list(
    cluster_map = function(cl) cluster_map(cl, 1:5, sqrt),
    tasks = function(cl) {
      tasks <- lapply(1:3, function(i) task_submit(cl, sqrt, i))
      ask_all(cl)
      task_wait(tasks)
      list(task_done(tasks), lapply(tasks, task_value))
    },
    partitions = function(cl) {
      p <- partition_scatter(cl, rows)
      p <- partition_map(p, function(part) transform(part, y = x * 2))
      ask_all(cl)
      sums <- partition_reduce(p, "g", sum)
      joined <- partition_join(p, rows, "g")
      list(partition_collect(partition_shuffle(p, "g")), partition_collect(sums),
        partition_collect(joined))
    },
    map_reduce = function(cl) {
      map_reduce(cl, 1:4, function(i) list(key = i %% 2, value = i), function(key, x) sum(x))
    },
    cluster_share = function(cl) cluster_share(cl, shared = 1:10),
    cluster_status = function(cl) dim(cluster_status(cl)),
    cluster_logs = function(cl) nrow(cluster_logs(cl)),
    cluster_journal = function(cl) is.data.frame(cluster_journal(cl)),
    stopCluster = another(stopCluster),
    stop_part = another(function(cl) cluster_stop(cl[1])),
    killNode = another(function(cl) killNode(cl[[1]])),
    cloneNode = another(function(cl) length(cloneNode(cl[1]))),
    cluster_resize = another(function(cl) {
      cl <- cluster_resize(cl, 2)
      ask_all(cl)
      length(clusterCall(cluster_resize(cl, 1), function() 1))
    }),
    makeClusterPSOCK = function(cl) {
      other <- makeClusterPSOCK(1)
      ask_all(other)
      stopCluster(other)
    },
    lost = another(function(cl) { # one that comes back
      tools::pskill(cl[[1]]$pid, 9)
      ask_all(cl)
      suppressMessages(clusterCall(cl, function() 1))
    })
  )
})

expect_nothing_lost <- function(told) {
  expect_identical(told$found, list())
  expect_identical(told$warned, character())
  expect_identical(told$stopped, rep(TRUE, length(told$stopped)))
  expect_identical(told$left, 0L)
}

for (how in c("close_all", "close_nodes")) {
  test_that(paste("no verb touches the user's files after", how), {
    limit_time(240)
    told <- run_session(bquote({
      .(write_through)
      .(verbs)
      cl <- cluster_start(2)
      found <- try_verbs(c(verbs_any, verbs_own), cl, .(as.name(how)))
      cluster_stop(cl)
      tell(
        found = unname(found), names = as.character(names(found)), warned = warned,
        stopped = ask_all(cl), left = nrow(showConnections())
      )
    }), timeout_s = 200)$told
    expect_identical(told$names, character())
    expect_nothing_lost(told)
  })
}

test_that("nor with workers of R's own, and among those of package parallel", {
  limit_time(240)
  told <- run_session(bquote({
    .(write_through)
    .(verbs)
    cl <- makeClusterPSOCK(2, rscript_call = "parallel:::.workRSOCK()")
    found <- try_verbs(verbs_any, cl, close_nodes)
    found <- c(found, try_verbs(verbs_any, cl, close_all))
    stopCluster(cl)
    stopped <- ask_all(cl)
    # A worker of parallel's is lost with its connection, and nothing is sent to what has its
    # number: neither a call nor a farewell.
    others <- parallel::makeCluster(1)
    both <- c(cluster_start(1), others)
    found <- c(found, try_verbs(list(joined = function(cl) {
      tryCatch(parallel:::recvOneData(both), error = function(e) class(e)[1L])
    }), both[1], close_all))
    lost <- tryCatch(parallel:::recvOneData(both), error = function(e) class(e)[1L])
    paths <- tempfile(paste0("log", 1:3, "-"))
    files <- open_all(paths, "w")
    write_all(files, "one")
    stopCluster(both)
    write_all(files, "two")
    for (file in files) close(file)
    tell(
      found = unname(found), warned = warned, stopped = stopped, lost = lost,
      left = nrow(showConnections()), lines = lines_of(paths)
    )
  }), timeout_s = 200)$told
  expect_nothing_lost(told)
  expect_identical(told$lost, "muster_error_lost")
  expect_identical(told$lines, rep(c("one", "two"), 3L))
})

test_that("nor futures, whose answers are waited for meanwhile", {
  skip_if_not_installed("future")
  limit_time(120)
  told <- run_session(bquote({
    .(write_through)
    suppressMessages(library(future))
    cl <- cluster_start(2)
    plan(cluster, workers = cl)
    late <- function(mark, value) {
      future(
        {
          while (!file.exists(mark)) Sys.sleep(0.02) # tidy: a slow task
          value
        },
        globals = list(mark = mark, value = value)
      )
    }
    futures <- function(cl) {
      mark <- tempfile("mark-")
      slow <- late(mark, 1)
      quick <- value(future(2))
      waits <- resolved(slow)
      ask_all(cl)
      file.create(mark)
      list(quick, waits, value(slow))
    }
    found <- try_verbs(list(all = futures, nodes = futures), cl, close_all)
    found <- c(found, try_verbs(list(nodes = futures), cl, close_nodes))
    # Connections that are closed between asking for a future and taking its value.
    paths <- tempfile(paste0("log", 1:3, "-"))
    mark <- tempfile("mark-")
    slow <- late(mark, 3)
    ask_all(cl)
    closeAllConnections()
    files <- open_all(paths, "w")
    write_all(files, "one")
    waits <- resolved(slow)
    write_all(files, "two")
    file.create(mark)
    taken <- value(slow)
    write_all(files, "three")
    for (file in files) close(file)
    plan(sequential)
    cluster_stop(cl)
    tell(
      found = unname(found), warned = warned, stopped = ask_all(cl), waits = waits,
      taken = taken, lines = lines_of(paths), left = nrow(showConnections())
    )
  }), timeout_s = 100)$told
  expect_nothing_lost(told)
  expect_identical(told[c("waits", "taken")], list(waits = FALSE, taken = 3))
  expect_identical(told$lines, rep(c("one", "two", "three"), 3L))
})
