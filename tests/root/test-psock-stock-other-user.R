# Another user of this machine, while R's own workers start: what it can read, and what it
# gets by connecting first.

# Scans what it can read of all processes, in R that is nobody's friend; then takes all
# places at the port, silent or with a guess, tells, and stays until it is ended.
attacker_code <- function(dir) {
  bquote({
    dir <- .(dir)
    read <- function(name) {
      files <- Sys.glob(file.path("/proc/[0-9]*", name))
      texts <- lapply(files, function(file) {
        bytes <- tryCatch(suppressWarnings(readBin(file, "raw", 1e6)), error = function(e) raw())
        bytes[bytes == as.raw(0)] <- as.raw(32)
        rawToChar(bytes)
      })
      unlist(texts)
    }
    port <- NA
    while (is.na(port)) {
      lines <- read("cmdline")
      mine <- regmatches(lines, regexpr(paste0(dir, ".* PORT=[0-9]+"), lines))
      port <- as.integer(sub(".* PORT=", "", c(mine, NA)[1]))
      Sys.sleep(0.02) # tidy: in another process
    }
    connect <- function(blocking) {
      socketConnection("127.0.0.1", port, blocking = blocking, open = "a+b", timeout = 20)
    }
    silent <- lapply(1:100, function(i) connect(FALSE))
    liar <- connect(TRUE)
    got <- unserialize(liar)
    lie <- function(value) {
      list(type = "VALUE", value = value, success = TRUE, time = proc.time(), tag = NULL)
    }
    serialize(lie(list(Sys.getpid(), paste0("muster-word-", strrep("0", 32)))), liar)
    # Turned away, or it would be asked for more.
    more <- tryCatch(unserialize(liar), error = function(e) "turned away")
    saveRDS(list(
      uid = system("id -u", intern = TRUE), greeting = paste(deparse(got), collapse = " "),
      more = more, lines = lines, environ = read("environ")
    ), file.path(dir, "told.part"))
    file.rename(file.path(dir, "told.part"), file.path(dir, "told.rds"))
    Sys.sleep(600) # tidy: until it is killed
  })
}

# Of another user's id, in a folder where both may write.
local_attacker <- function(frame = parent.frame()) {
  skip_unless_root()
  skip_if(!nzchar(Sys.which("setpriv")), "there is no setpriv")
  dir <- tempfile("other-user-", "/tmp")
  dir.create(dir)
  Sys.chmod(dir, "0777", use_umask = FALSE)
  withr::defer(unlink(dir, recursive = TRUE), envir = frame)
  file <- file.path(dir, "attacker.R")
  writeLines(deparse(attacker_code(dir)), file)
  process <- processx::process$new("setpriv",
    c(
      "--reuid=65534", "--regid=65534", "--clear-groups", file.path(R.home("bin"), "Rscript"),
      "--vanilla", file
    ),
    wd = dir, stdout = file.path(dir, "out"), stderr = "2>&1"
  )
  withr::defer(process$kill_tree(), envir = frame)
  list(dir = dir, process = process)
}

test_that("another user sees no word and no variable, and can't take a worker's place", {
  limit_time(90)
  other <- local_attacker()
  told <- file.path(other$dir, "told.rds")
  # The worker is slow to come: it waits until the other has done its worst.
  wait <- bquote(while (!file.exists(.(told))) Sys.sleep(0.02)) # tidy: in the worker
  cl <- makeClusterPSOCK(2,
    rscript_envs = c(API_KEY = "topsecret"), rscript_startup = "hidden <- 'topsecret'",
    rscript_call = paste(c(deparse(wait), "parallel:::.workRSOCK()"), collapse = "; ")
  )
  withr::defer(stopCluster(cl))
  seen <- readRDS(told)
  expect_identical(seen$uid, "65534")
  expect_true(any(grepl("PORT=", seen$lines)))
  words <- unlist(clusterEvalQ(cl, getOption("muster.stock_word")))
  for (secret in c("topsecret", sub("muster-word-", "", words))) {
    expect_false(any(grepl(secret, c(seen$lines, seen$environ, seen$greeting), fixed = TRUE)))
  }
  expect_identical(seen$more, "turned away")
  expect_identical(clusterCall(cl, function(x) c(x, Sys.getenv("API_KEY"), hidden), "data"),
    rep(list(c("data", "topsecret", "topsecret")), 2)
  )
  expect_identical(clusterCall(cl, function() system("id -u", intern = TRUE)), list("0", "0"))
})
