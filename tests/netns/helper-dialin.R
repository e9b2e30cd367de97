# Helpers of test-dialin.R: the program dialin.c, which plays a session and its hosts.

# Compiles it, with the parts of the core that it uses, into this session's temporary directory.
build_dialin <- function() {
  program <- file.path(tempdir(), "dialin")
  if (has_compiler() && !file.exists(program)) {
    cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
    ssl <- suppressWarnings(system2("pkg-config", c("--libs", "libssl"), TRUE, FALSE))
    has_ssl <- length(ssl) == 1L && is.null(attr(ssl, "status"))
    core <- normalizePath("../../src")
    sources <- c(
      Sys.glob(file.path(core, c("base", "wire", "net", "loop", "dialin", "share"), "*.c")),
      file.path(core, "secure", "psk.c"),
      file.path(core, "secure", if (has_ssl) "secure_openssl.c" else "secure_none.c")
    )
    system2("sh", c("-c", shQuote(paste(
      cc[1L], "-std=c11 -D_GNU_SOURCE -O1 -pthread -I../c", paste0("-I", core), "-o", program,
      "dialin.c", paste(sources, collapse = " "), if (has_ssl) paste(ssl, "-lcrypto"), "-lm"
    ))))
  }
  program
}

# Plays a case, in a namespace of its own: what the program has told, as a list of numbers.
play_dialin <- function(case, hosts, peers = 0, here = NULL, timeout_s = 120,
                        frame = parent.frame()) {
  program <- build_dialin()
  skip_if_not(file.exists(program), "no C compiler here")
  run <- expect_done(run_netns(bquote({
    said <- suppressWarnings(system2(.(program), .(as.character(c(case, hosts, peers))),
      stdout = TRUE, stderr = TRUE))
    tell(said = paste(said, collapse = "\n"), status = attr(said, "status"))
  }), here = here, there = if (!is.null(here)) "10.9.0.2/24", timeout_s = timeout_s, frame = frame))
  skip_if(identical(run$told$status, 77L), run$told$said)
  if (!is.null(run$told$status)) {
    stop(case, " failed with status ", run$told$status, ": ", run$told$said, call. = FALSE)
  }
  words <- strsplit(strsplit(trimws(run$told$said), " +")[[1L]], "=", fixed = TRUE)
  stats::setNames(lapply(words, function(word) as.numeric(word[2L])), vapply(words, `[`, "", 1L))
}
