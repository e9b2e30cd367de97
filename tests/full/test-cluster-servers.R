# When a fork server serves again, when a new one is booted, what it refuses to fork,
# and what the user's startup files and libraries do to it.

# The parents of a cluster's workers: its fork server.
servers_of <- function(cl) unique(parent_of(node_pids(cl)))

# The fork server of a start with these arguments.
server_of_start <- function(...) {
  cl <- cluster_start(2, ...)
  on.exit(cluster_stop(cl))
  servers_of(cl)
}

# A startup file with these lines, until the test ends.
profile_of <- function(..., frame = parent.frame()) {
  withr::local_tempfile(lines = c(...), fileext = ".R", .local_envir = frame)
}

# ---- Used again, or not

test_cluster("a server serves again after changes that don't touch its boot", {
  skip_without_fork()
  first <- server_of_start()
  expect_length(first, 1L)
  expect_identical(server_of_start(), first)
  local_directory(local_folder())
  expect_identical(server_of_start(), first)
  local_variables(MUSTER_TEST_VARIABLE = "new", EDITOR = "none")
  expect_identical(server_of_start(), first)
  local_settings(digits = 4L, scipen = 9L)
  expect_identical(server_of_start(), first)
  local_seed(1)
  expect_identical(server_of_start(threads = 2, setup = quote(x <- 1)), first)
})

test_cluster("workers have the directory and the variables of their start", {
  skip_without_fork()
  local_variables(MUSTER_TEST_VARIABLE = "first", MUSTER_TEST_GONE = "here")
  before <- local_cluster(1)
  folder <- local_folder()
  local_directory(folder)
  local_variables(MUSTER_TEST_VARIABLE = "second = \"\u00e9\"", MUSTER_TEST_GONE = NA)
  after <- local_cluster(1)
  look <- function() c(getwd(), Sys.getenv(c("MUSTER_TEST_VARIABLE", "MUSTER_TEST_GONE"), NA))
  expect_identical(servers_of(before), servers_of(after))
  expect_identical(unname(clusterCall(before, look)[[1L]][2:3]), c("first", "here"))
  expect_identical(unname(clusterCall(after, look)[[1L]]), c(folder, "second = \"\u00e9\"", NA))
})

test_cluster("a new server is booted when a variable changed that is read at boot", {
  skip_without_fork()
  first <- server_of_start()
  seen <- first
  for (variables in list(
    c(OMP_NUM_THREADS = "3"), c(LANG = "C"), c(LD_LIBRARY_PATH = "/nowhere"), c(TZ = "Asia/Tokyo")
  )) {
    other <- withr::with_envvar(variables, server_of_start())
    expect_false(other %in% seen, label = paste("the server after", names(variables)))
    seen <- c(seen, other)
  }
  expect_lte(length(the_cluster$servers), 4L)
})

test_cluster("a new server is booted when the library paths changed", {
  skip_without_fork()
  first <- server_of_start()
  before <- .libPaths()
  defer(function() .libPaths(before))
  .libPaths(c(local_folder(), before))
  expect_false(server_of_start() == first)
  .libPaths(before)
  expect_identical(server_of_start(), first)
})

test_cluster("packages of another order or number have a server of their own", {
  skip_without_fork()
  first <- server_of_start(packages = c("stats4", "splines"))
  expect_identical(server_of_start(packages = c("stats4", "splines", "stats4")), first)
  cl <- local_cluster(1, packages = c("splines", "stats4"))
  expect_identical(
    clusterCall(cl, function() search()[2:3])[[1L]], c("package:stats4", "package:splines")
  )
})

test_cluster("there are at most four servers, and the one used longest ago goes", {
  skip_without_fork()
  packages <- c("stats4", "splines", "grid", "tools", "compiler", "MASS")
  packages <- packages[nzchar(vapply(packages, package_path, ""))]
  servers <- vapply(packages, function(x) processes(server_of_start(packages = x)), "")
  expect_length(unique(servers), length(packages))
  expect_lte(length(the_cluster$servers), 4L)
  expect_true(all(still_runs(utils::tail(servers, 4L))))
  expect_false(any(still_runs(utils::head(servers, -4L))))
})

test_cluster("a server with workers is not ended to make room", {
  skip_without_fork()
  packages <- c("stats4", "splines", "grid", "tools", "compiler")
  frame <- environment()
  clusters <- lapply(packages, function(package) {
    local_cluster(1, packages = package, frame = frame)
  })
  pids <- vapply(clusters, function(cl) clusterCall(cl, Sys.getpid)[[1L]], 0L)
  expect_identical(pids, vapply(clusters, node_pids, 0L))
  expect_true(all(still_runs(processes(pids))))
  expect_length(unique(parent_of(pids)), 5L)
})

test_cluster("a package that was reinstalled is never served old", {
  skip_without_fork()
  lib <- local_folder()
  before <- .libPaths()
  defer(function() .libPaths(before))
  .libPaths(c(lib, before))
  answers <- vapply(1:3, function(i) {
    install_tiny("mustertiny", paste0("answer <- function() ", i, "L"), lib = lib)
    cl <- cluster_start(1, packages = "mustertiny")
    on.exit(cluster_stop(cl))
    clusterEvalQ(cl, answer())[[1L]]
  }, 0L)
  expect_identical(answers, 1:3)
  # In the same second and of the same size, with the same package preloaded.
  first <- server_of_start(packages = "mustertiny")
  expect_identical(server_of_start(packages = "mustertiny"), first)
})

test_cluster("a package that a preloaded one needs is never served old", {
  skip_without_fork()
  lib <- local_folder()
  before <- .libPaths()
  defer(function() .libPaths(before))
  .libPaths(c(lib, before))
  install_tiny("musterbase", "answer <- function() 1L", lib = lib)
  install_tiny("mustertop", "top <- function() musterbase::answer()", lib = lib,
    imports = "musterbase"
  )
  ask <- function() {
    cl <- cluster_start(1, packages = "mustertop")
    on.exit(cluster_stop(cl))
    clusterEvalQ(cl, top())[[1L]]
  }
  expect_identical(ask(), 1L)
  install_tiny("musterbase", "answer <- function() 2L", lib = lib)
  expect_identical(ask(), 2L)
})

test_cluster("each start has workers of its own, and no value of an earlier one", {
  skip_without_fork()
  first <- cluster_start(2)
  clusterEvalQ(first, {
    left <- 1
    options(muster.test.left = 1)
    Sys.setenv(MUSTER_TEST_LEFT = "1")
    set.seed(1)
    loadNamespace("splines")
  })
  cluster_stop(first)
  second <- local_cluster(2)
  expect_identical(
    unique(clusterEvalQ(second, list(
      ls(globalenv()), getOption("muster.test.left"),
      Sys.getenv("MUSTER_TEST_LEFT"), "splines" %in% loadedNamespaces()
    ))),
    list(list(character(), NULL, "", FALSE))
  )
})

# ---- Refused

# A package that starts a thread when it is loaded.
install_threaded <- function(lib) {
  skip_without_compiler()
  install_tiny("musterthread", "answer <- function() 7L", lib = lib, c = c(
    "#include <pthread.h>", "#include <stddef.h>", "#include <unistd.h>",
    "static void *wait_for_ever(void *arg) { for (;;) pause(); return arg; }",
    "void R_init_musterthread(void *info) {",
    "  pthread_t thread;", "  (void)info;",
    "  if (pthread_create(&thread, NULL, wait_for_ever, NULL) == 0) pthread_detach(thread);",
    "}"
  ))
}

# A package that keeps a file open, which only C can do without R's knowing.
install_holding <- function(lib) {
  skip_without_compiler()
  install_tiny("musterhold", "answer <- function() 7L", lib = lib, c = c(
    "#include <fcntl.h>",
    "void R_init_musterhold(void *info) {", "  (void)info;",
    "  open(\"/dev/null\", O_RDONLY);", "}"
  ))
}

expect_refused <- function(package, reason) {
  messages <- NULL
  cl <- withCallingHandlers(
    cluster_start(2, packages = package),
    muster_message_spawn = function(m) {
      messages <<- c(messages, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  )
  expect_length(messages, 1L)
  expect_match(messages, reason)
  expect_identical(unlist(clusterEvalQ(cl, answer())), c(7L, 7L))
  expect_identical(cl[[1L]]$start, "spawn")
  expect_identical(servers_of(cl), Sys.getpid())
  cluster_stop(cl)
  error <- expect_error(cluster_start(2, packages = package, start = "fork"),
    class = "muster_error_launch"
  )
  expect_match(conditionMessage(error), reason)
  expect_match(conditionMessage(error), "start = \"spawn\"", fixed = TRUE)
  local_settings(muster.quiet = TRUE)
  expect_silent(quiet <- cluster_start(1, packages = package))
  cluster_stop(quiet)
}

test_cluster("a package that starts threads means booted workers, with the reason", {
  skip_without_fork()
  lib <- local_folder()
  before <- .libPaths()
  defer(function() .libPaths(before))
  .libPaths(c(install_threaded(lib), before))
  expect_refused("musterthread", "2 threads")
})

test_cluster("a package that keeps a descriptor open means booted workers, with the reason", {
  skip_without_fork()
  lib <- local_folder()
  before <- .libPaths()
  defer(function() .libPaths(before))
  .libPaths(c(install_holding(lib), before))
  expect_refused("musterhold", "/dev/null")
})

test_that("a startup file that loads a package with threads means booted workers", {
  limit_time(90)
  lib <- withr::local_tempdir()
  install_threaded(lib)
  run <- run_session(
    env = c(R_PROFILE_USER = profile_of("loadNamespace(\"musterthread\")"),
      R_LIBS = paste(c(lib, .libPaths()), collapse = ":")),
    quote({
      withCallingHandlers(cl <- cluster_start(2), muster_message_spawn = function(m) {
        tell(message = conditionMessage(m))
      })
      tell(start = cl[[1]]$start, works = unlist(clusterCall(cl, function() 1L)))
      stopCluster(cl)
    })
  )
  expect_done(run)
  expect_match(run$told$message, "2 threads")
  expect_identical(run$told$start, "spawn")
  expect_identical(run$told$works, c(1L, 1L))
  expect_nothing_left(run$session)
})

test_that("a startup file that keeps a file open means booted workers, each with its own", {
  limit_time(90)
  file <- withr::local_tempfile()
  run <- run_session(
    env = c(R_PROFILE_USER = profile_of(sprintf("log <- file(\"%s\", \"a\")", file))),
    quote({
      withCallingHandlers(cl <- cluster_start(2), muster_message_spawn = function(m) {
        tell(message = conditionMessage(m))
      })
      clusterCall(cl, function() writeLines("from a worker", get("log", globalenv())))
      tell(start = cl[[1]]$start)
      stopCluster(cl)
    })
  )
  expect_done(run)
  expect_match(run$told$message, "startup file keeps files")
  expect_match(run$told$message, basename(file), fixed = TRUE)
  expect_identical(run$told$start, "spawn")
  expect_identical(readLines(file), rep("from a worker", 2L))
})

# ---- Startup files

test_that("a startup file that starts a cluster is told so, and breeds nothing", {
  limit_time(120)
  run <- run_session(
    env = c(R_PROFILE_USER = profile_of("muster::cluster_start(2)")), count = TRUE,
    quote(tell(never = TRUE))
  )
  expect_false(run$status == 0L)
  expect_match(run$stderr, "Can't start a cluster while a worker boots", fixed = TRUE)
  expect_match(run$stderr, "interactive()", fixed = TRUE)
  expect_lt(run$most, 6L)
  expect_nothing_left(run$session)

  # The same where the startup file takes errors in its stride.
  profile <- profile_of("try(cl <- muster::cluster_start(2), silent = TRUE)")
  for (start in c("fork", "spawn")) {
    run <- run_session(env = c(R_PROFILE_USER = profile), count = TRUE, bquote({
      other <- cluster_start(3, start = .(start))
      tell(classes = clusterEvalQ(other, class(tryCatch(cluster_start(), error = identity))[1]))
      stopCluster(other)
    }))
    expect_done(run)
    expect_lt(run$most, 16L)
    expect_nothing_left(run$session)
  }
})

test_that("a startup file's options are there, its random numbers are not shared", {
  limit_time(90)
  profile <- profile_of(
    "options(muster.test.option = 42, digits = 5)", "set.seed(1)",
    "from_profile <- function() \"yes\""
  )
  for (start in c("fork", "spawn")) {
    run <- run_session(env = c(R_PROFILE_USER = profile), bquote({
      before <- .Random.seed
      cl <- cluster_start(4, start = .(start))
      tell(
        same = identical(before, .Random.seed),
        options = unlist(clusterEvalQ(cl, getOption("muster.test.option"))),
        digits = unlist(clusterEvalQ(cl, getOption("digits"))),
        random = unlist(clusterCall(cl, stats::runif, 1)), own = runif(3),
        again = unlist(clusterCall(cluster_start(4, start = .(start)), stats::runif, 1))
      )
    }))
    expect_done(run)
    expect_true(run$told$same)
    expect_identical(run$told$options, rep(42, 4L))
    expect_identical(run$told$digits, rep(5L, 4L) + 0L)
    expect_length(unique(c(run$told$random, run$told$again, run$told$own)), 11L)
    expect_nothing_left(run$session)
  }
})

# Startup files that break only what muster boots, since the session must come up.
test_that("a startup file that fails is shown, with how R ended", {
  limit_time(120)
  boot_only <- "if (nzchar(Sys.getenv(\"MUSTER_BOOT\")))"
  cases <- list(
    list("stop(\"bad profile\")", "bad profile", 1L),
    list("{ cat(\"bye\\n\"); quit(status = 7) }", "bye", 7L),
    list("{ message(\"shot\"); tools::pskill(Sys.getpid(), 9L) }", "shot", NA_integer_)
  )
  for (case in cases) {
    run <- run_session(env = c(R_PROFILE_USER = profile_of(paste(boot_only, case[[1L]]))), quote({
      tell(
        fork = outcome_of(cluster_start(2)), spawn = outcome_of(cluster_start(2, start = "spawn"))
      )
      tell(children = length(running(children())))
    }))
    expect_done(run)
    for (caught in run$told[c("fork", "spawn")]) {
      expect_caught(caught, "launch", case[[2L]])
      expect_match(caught$fields$output, case[[2L]])
      expect_identical(caught$fields$exit_code, case[[3L]])
      expect_identical(caught$fields$signal, if (is.na(case[[3L]])) 9L else NA_integer_)
    }
    expect_identical(run$told$children, 0L)
    expect_nothing_left(run$session)
  }
})

test_that("a startup file that waits for ever is given up in time", {
  limit_time(120)
  profile <- profile_of("if (nzchar(Sys.getenv(\"MUSTER_BOOT\"))) {",
    "  cat(\"waiting\\n\")", "  Sys.sleep(600)", "}")
  run <- run_session(env = c(R_PROFILE_USER = profile), quote({
    options(muster.start_timeout = 6)
    tell(fork = outcome_of(cluster_start(2)))
    tell(spawn = outcome_of(cluster_start(2, start = "spawn")))
    tell(children = length(running(children())))
  }))
  expect_done(run)
  for (caught in run$told[c("fork", "spawn")]) {
    expect_caught(caught, "timeout", c("6 s", "waiting", "muster.start_timeout"))
  }
  expect_identical(run$told$children, 0L)
  expect_nothing_left(run$session)
})

test_that("what a startup file prints or leaves doesn't disturb the start", {
  limit_time(60)
  profile <- profile_of(
    "cat(\"hello from the profile\\n\")", "message(\"and a message\")", "warning(\"and this\")",
    "T <- 0; c <- function(...) stop(\"masked\"); .Last <- function() cat(\"last\\n\")",
    ".First <- function() cat(\"first\\n\")", "options(error = quote(cat(\"in error\\n\")))"
  )
  for (start in c("fork", "spawn")) {
    run <- run_session(env = c(R_PROFILE_USER = profile), bquote({
      rm(c)
      cl <- cluster_start(2, start = .(start))
      tell(works = unlist(clusterEvalQ(cl, 1L + 1L)))
      stopCluster(cl)
    }))
    expect_done(run)
    expect_identical(run$told$works, base::c(2L, 2L))
    expect_nothing_left(run$session)
  }
})

# ---- Paths

# A session whose muster is in this library, with its own wrapper of R or without.
expect_works_from <- function(lib, env = character(), ...) {
  run <- run_session(env = c(R_LIBS = lib, env), ..., quote({
    for (start in c("fork", "spawn")) {
      cl <- cluster_start(2, start = start)
      tell2 <- list(
        works = unlist(clusterCall(cl, function() 1L)),
        library = unique(unlist(clusterEvalQ(cl, dirname(getNamespaceInfo("muster", "path"))))),
        paths = unique(clusterCall(cl, .libPaths)), own = .libPaths(),
        dirs = unlist(clusterEvalQ(cl, tempdir()))
      )
      stopCluster(cl)
      do.call(tell, structure(list(tell2), names = start))
    }
    # Without it R is started by its shell script, not as a program.
    Sys.unsetenv("LD_LIBRARY_PATH")
    cl <- cluster_start(2)
    tell(wrapped = unlist(clusterCall(cl, function() 1L)))
    stopCluster(cl)
    cl <- cluster_start(2, start = "spawn")
    tell(wrapped_spawn = unlist(clusterCall(cl, function() 1L)))
    stopCluster(cl)
  }))
  expect_done(run)
  for (facts in run$told[c("fork", "spawn")]) {
    expect_identical(facts$works, c(1L, 1L))
    expect_identical(normalizePath(facts$library), normalizePath(lib))
    expect_identical(facts$paths, list(facts$own))
    expect_true(all(startsWith(facts$dirs, run$session$tmpdir)))
  }
  expect_identical(run$told$wrapped, c(1L, 1L))
  expect_identical(run$told$wrapped_spawn, c(1L, 1L))
  expect_nothing_left(run$session)
  invisible(run)
}

test_that("libraries with blanks, quotes and letters of UTF-8 in their names work", {
  limit_time(120)
  base <- withr::local_tempdir()
  for (name in c("with two blanks", "it's a \"quote\"", "$HOME `id`", "gr\u00fc\u00df \u65e5")) {
    lib <- file.path(base, enc2utf8(name))
    copy_muster(lib)
    expect_works_from(lib)
  }
})

test_that("temporary directories with blanks and quotes in their names work", {
  limit_time(60)
  lib <- dirname(find.package("muster"))
  run <- expect_works_from(lib, tmpdir = "with two blanks")
  expect_identical(tempdirs_left(run$session), character())
  # R's own directory stays there, since R 4.2 removes it by a shell that minds quotes.
  expect_works_from(lib, tmpdir = "it's a \"quote\"")
})

test_that("a project with a library of its own (renv) has it in its workers", {
  limit_time(90)
  project <- withr::local_tempdir()
  lib <- file.path(project, "renv", "library")
  dir.create(lib, recursive = TRUE)
  install_tiny("musterproject", "answer <- function() \"project\"", lib = lib)
  writeLines(c(
    "local({", "  root <- getwd()",
    "  .libPaths(c(file.path(root, \"renv\", \"library\"), .libPaths()))",
    "  options(muster.test.project = root)", "})"
  ), file.path(project, ".Rprofile"))
  for (start in c("fork", "spawn")) {
    run <- run_session(dir = project, env = c(R_PROFILE_USER = NA), bquote({
      first <- cluster_start(2, start = .(start))
      second <- cluster_start(2, start = .(start), packages = "musterproject")
      tell(
        called = unlist(clusterEvalQ(first, musterproject::answer())),
        attached = unlist(clusterEvalQ(second, answer())),
        options = unlist(clusterEvalQ(first, getOption("muster.test.project"))),
        paths = unique(clusterCall(first, .libPaths)), own = .libPaths()
      )
      # Another project in the same session: its library, none of the first.
      stopCluster(first)
      setwd(tempdir())
      .libPaths(.libPaths()[-1])
      other <- cluster_start(1, start = .(start))
      tell(gone = clusterEvalQ(other, requireNamespace("musterproject", quietly = TRUE))[[1]])
    }))
    expect_done(run)
    expect_identical(run$told$called, rep("project", 2L))
    expect_identical(run$told$attached, rep("project", 2L))
    expect_identical(run$told$paths, list(run$told$own))
    expect_identical(normalizePath(run$told$options[1L]), normalizePath(project))
    expect_false(run$told$gone)
    expect_nothing_left(run$session)
  }
})

test_that("R_PROFILE_USER that is set in the session holds for workers to come", {
  limit_time(60)
  one <- profile_of("options(muster.test.profile = \"one\")")
  two <- profile_of("options(muster.test.profile = \"two\")")
  run <- run_session(bquote({
    ask <- function(start) {
      cl <- cluster_start(1, start = start)
      on.exit(stopCluster(cl))
      clusterEvalQ(cl, getOption("muster.test.profile"))[[1]]
    }
    asked <- c()
    for (start in c("fork", "spawn")) {
      for (profile in c(.(one), .(two))) {
        Sys.setenv(R_PROFILE_USER = profile)
        asked <- c(asked, ask(start))
      }
      # A file that changed under its name.
      writeLines("options(muster.test.profile = \"changed\")", .(two))
      asked <- c(asked, ask(start))
      writeLines("options(muster.test.profile = \"two\")", .(two))
    }
    tell(asked = asked)
  }))
  expect_done(run)
  expect_identical(run$told$asked, rep(c("one", "two", "changed"), 2L))
})
