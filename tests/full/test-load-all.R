# Packages under pkgload::load_all(), muster itself too.

test_that("U3: packages under load_all() are loaded so by workers, however these start", {
  limit_time(120)
  skip_if_not_installed("pkgload")
  base <- withr::local_tempdir()
  below <- write_tiny("musterbelow", "below <- function() \"source\"", NULL, base)
  dir <- write_tiny("musterdev", c(
    "answer <- function(i) paste(\"from\", below(), Hidden(i))",
    "Hidden <- function(i) i"
  ), NULL, base, "musterbelow")
  cat("import(musterbelow)\n", file = file.path(dir, "NAMESPACE"), append = TRUE)
  run <- run_session(bquote({
    pkgload::load_all(.(below), quiet = TRUE)
    pkgload::load_all(.(dir), quiet = TRUE)
    try_it <- function(cl) {
      answers <- list(
        unlist(clusterCall(cl, answer, 1)),
        unlist(cluster_map(cl, 1:2, answer)),
        unlist(cluster_map(cl, 1:2, function(i) Hidden(i))), # one that isn't exported
        unlist(clusterEvalQ(cl, {library(musterdev); musterdev::answer(3)})),
        task_value(task_submit(cl, answer, 4)),
        unlist(cluster_map(cl, 1:2, function(i) i)) # it may go
      )
      tools::pskill(cl[[1]]$pid, tools::SIGKILL)
      suppressMessages(answers <- c(answers, list(unlist(cluster_map(cl, 1:2, Hidden)))))
      start <- cl[[1]]$start
      stopCluster(cl)
      list(start = start, answers = answers)
    }
    tell(default = try_it(cluster_start(2)))
    tell(fork = try_it(cluster_start(2, start = "fork")))
    tell(spawn = try_it(cluster_start(2, start = "spawn")))
    tell(packages = try_it(cluster_start(2, packages = "musterdev")))
    cl <- cluster_start(1, packages = "musterdev")
    tell(search = clusterCall(cl, function() search()[2])[[1]])
  }))
  expect_done(run)
  want <- list(
    rep("from source 1", 2), paste("from source", 1:2), 1:2, rep("from source 3", 2),
    "from source 4", 1:2, 1:2
  )
  for (how in c("default", "fork", "spawn", "packages")) {
    expect_identical(run$told[[how]]$answers, want, info = how)
    expect_identical(run$told[[how]]$start, if (how == "spawn") "spawn" else "fork", info = how)
  }
  expect_identical(run$told$search, "package:musterdev")
  expect_nothing_left(run$session)
})

test_that("U3: sources that can't be loaded are an error that says so", {
  limit_time(60)
  skip_if_not_installed("pkgload")
  base <- withr::local_tempdir()
  dir <- write_tiny("musterdev", "answer <- function() 1", NULL, base)
  run <- run_session(bquote({
    pkgload::load_all(.(dir), quiet = TRUE)
    cl <- cluster_start(1)
    writeLines("stop(\"not now\")", .(file.path(dir, "R", "code.R")))
    tell(message = outcome_of(clusterCall(cl, answer)))
    tell(goes_on = clusterCall(cl, function() 1)[[1]])
    writeLines("answer <- function() 2", .(file.path(dir, "R", "code.R")))
    tell(other = outcome_of(clusterCall(cl, answer)))
    writeLines("answer <- function() 1", .(file.path(dir, "R", "code.R")))
    tell(mended = clusterEvalQ(cl, musterdev::answer())[[1]])
  }))
  expect_done(run)
  expect_match(paste(unlist(run$told$message), collapse = " "), "Can't load package \"musterdev\"")
  expect_identical(run$told$goes_on, 1)
  expect_match(paste(unlist(run$told$other), collapse = " "), "has changed since the session")
  expect_identical(run$told$mended, 1)
})

test_that("V4: what load_all() loads again is loaded again by workers, or refused", {
  limit_time(120)
  skip_if_not_installed("pkgload")
  base <- withr::local_tempdir()
  dir <- write_tiny("musterdev", "answer <- function(i) 0", NULL, base)
  run <- run_session(bquote({
    write <- function(k) {
      code <- c(paste("k <-", k), "hidden <- function(i) i * k", "answer <- function(i) hidden(i)")
      writeLines(code, .(file.path(dir, "R", "code.R")))
    }
    cl <- cluster_start(2) # before the first load_all()
    for (k in c(2, 1000, 1)) {
      write(k)
      pkgload::load_all(.(dir), quiet = TRUE)
      answers <- list(
        unlist(cluster_map(cl, 1:3, answer)), task_value(task_submit(cl, answer, 1)),
        unlist(cluster_map(cl, 1:3, function(i) answer(i))),
        task_value(task_submit(cl, function() musterdev:::hidden(1)))
      )
      tools::pskill(cl[[1]]$pid, tools::SIGKILL)
      answers[[5]] <- suppressMessages(unlist(cluster_map(cl, 1:3, answer)))
      do.call(tell, structure(list(answers), names = paste0("k", k)))
    }
    write(5)
    tell(goes_on = unlist(cluster_map(cl, 1:3, answer)))
    new <- cluster_start(1)
    tell(refused = outcome_of(task_value(task_submit(new, answer, 1))))
    pkgload::load_all(.(dir), quiet = TRUE)
    tell(again = c(task_value(task_submit(new, answer, 1)), task_value(task_submit(cl, answer, 1))))
  }))
  expect_done(run)
  for (k in c(2, 1000, 1)) {
    want <- list(1:3 * k, k, 1:3 * k, k, 1:3 * k)
    expect_identical(run$told[[paste0("k", k)]], want, info = k)
  }
  expect_identical(run$told$goes_on, c(1, 2, 3))
  expect_match(paste(unlist(run$told$refused), collapse = " "), "has changed since the session")
  expect_identical(run$told$again, c(5, 5))
})

test_that("muster under load_all() starts workers that load it so too", {
  limit_time(240)
  skip_if_not_installed("pkgload")
  skip_if_not(file.exists("../../src/init.c"), "muster's sources aren't here")
  skip_without_compiler()
  base <- withr::local_tempdir()
  source <- file.path(base, "checkout")
  dir.create(source, recursive = TRUE)
  parts <- c("DESCRIPTION", "NAMESPACE", "configure", "cleanup", "R", "src", "inst", "exec")
  file.copy(file.path("../..", parts), source, recursive = TRUE)
  objects <- list.files(file.path(source, "src"), "[.](o|so)$", recursive = TRUE, full.names = TRUE)
  unlink(objects)
  # pkgload wants pkgbuild to compile; what is compiled already is used without.
  R <- file.path(R.home("bin"), "R")
  built <- suppressWarnings(system2(R,
    c("CMD", "INSTALL", "--no-docs", "--no-test-load", paste0("--library=", base),
      shQuote(source)),
    stdout = TRUE, stderr = TRUE
  ))
  expect_true(file.exists(file.path(source, "src", "muster.so")),
    info = paste(built, collapse = "\n")
  )
  run <- run_session(prelude = NULL, timeout_s = 120, bquote({
    .(session_prelude[-3L])
    pkgload::load_all(.(source), quiet = TRUE)
    withCallingHandlers(cl <- cluster_start(2),
      muster_message_spawn = function(m) tell(message = conditionMessage(m)))
    tell(
      start = cl[[1]]$start, answers = unlist(clusterCall(cl, function() 1L)),
      dev = unlist(clusterEvalQ(cl, exists(".__DEVTOOLS__", asNamespace("muster")))),
      refused = outcome_of(cluster_start(1, start = "fork"))
    )
    stopCluster(cl)
  }))
  expect_done(run)
  expect_match(run$told$message, "muster is under load_all()", fixed = TRUE)
  expect_identical(run$told$start, "spawn")
  expect_identical(run$told$answers, c(1L, 1L))
  expect_identical(run$told$dev, c(TRUE, TRUE))
  expect_caught(run$told$refused, "launch", "load_all()")
  expect_nothing_left(run$session)
})
