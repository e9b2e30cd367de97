# launch_ssh(install = TRUE): hosts that have no muster get it. ssh is a stand-in, which runs its
# command here with another home, and without this session's libraries.

local_bare_host <- function(..., frame = parent.frame()) {
  dir <- local_folder(frame)
  dir.create(file.path(dir, "home"))
  writeLines(c(
    "#!/bin/sh", "for last; do :; done",
    paste("exec env -u R_LIBS -u R_LIBS_USER -u R_LIBS_SITE -u R_USER_CACHE_DIR",
      "-u XDG_CACHE_HOME", paste0("HOME=", file.path(dir, "home")), ..., "sh -c \"$last\""
    )
  ), file.path(dir, "ssh"))
  Sys.chmod(file.path(dir, "ssh"), "0755")
  list(
    launch = function(...) launch_ssh("bare", 2L, ssh = file.path(dir, "ssh"), ...),
    cached = function() list.files(file.path(dir, "home/.cache/R/muster"))
  )
}

test_cluster("a host without muster gets it once, and then has it", {
  skip_without_fork()
  host <- local_bare_host()
  expect_error(cluster_start(host$launch()), "muster", class = "muster_error_launch")
  for (prologue in list(NULL, "X=1; export X")) {
    got <- healed(cluster_start(host$launch(
      install = TRUE, rscript = file.path(R.home("bin"), "Rscript"), prologue = prologue
    )))
    cl <- got$value
    installed <- unlist(clusterCall(cl, function() getNamespaceInfo("muster", "path")))
    x <- Sys.getenv("X", NA)
    expect_identical(unlist(clusterCall(cl, Sys.getenv, "X")),
      rep(if (is.null(prologue)) "" else "1", 2L)
    )
    cluster_stop(cl)
    expect_identical(got$messages, if (is.null(prologue)) "muster_message_install" else character())
    expect_match(installed, "home/.cache/R/muster/.*/muster$")
    expect_length(host$cached(), 1L)
  }
})

test_cluster("a host on which muster can't be compiled is an error with what the compiler said", {
  skip_without_fork()
  host <- local_bare_host("MAKE=nothing-like-it")
  local_settings(muster.quiet = TRUE)
  error <- expect_error(cluster_start(host$launch(install = TRUE)),
    "Can't install muster on host \"bare\".",
    class = "muster_error_launch"
  )
  expect_identical(error$reason, "install")
  expect_identical(error$host, "bare")
  expect_match(error$output, "nothing-like-it", all = FALSE)
  expect_length(host$cached(), 0L)
})

test_that("only a muster that is missing, or another one, is installed", {
  plan <- list(host = list(install = "ssh"))
  expect_true(can_install(plan, list(reason = "muster")))
  expect_true(can_install(plan, list(reason = "version", differs = "muster")))
  expect_false(can_install(plan, list(reason = "version", differs = c("muster", "R"))))
  expect_false(can_install(plan, list(reason = "login")))
  expect_false(can_install(list(host = list()), list(reason = "muster")))
})
