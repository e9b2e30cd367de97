# Do packages that use clusters of package parallel work with muster's?
#   Rscript tools/packages.R             all packages of the list below
#   Rscript tools/packages.R NAME...     only these
#   UNITS=6 Rscript tools/packages.R     at most 6 files and pages of each, the tests first
# Runs their tests and their help pages' examples that name a cluster, each in an R of its own,
# once as they are and once with muster in parallel's place (tools/packages-profile.R), and
# writes docs/PACKAGES.md. Status 1 if something passes with parallel and fails with muster.
#
# Wants muster in ./.lib, and a network for installing: the newest version of each package that
# this R can have from CRAN goes into build/packages-lib, what it needs comes from Debian's
# packages where there are some (build/packages/debian; the system stays as it is). The tests
# themselves run in a network namespace that has the loopback only, where one can be made.
# Takes hours; not a part of `make check`. What was printed is in build/packages/log, results in
# build/packages/results: those of packages that aren't named are taken from there.

# ---- which packages ------------------------------------------------------------

# extra: packages that the tests want and the package doesn't ask for. names: a pattern of what
# starts a cluster besides those below. env: variables that have the tests use one. skip: patterns
# of files that can't say anything, with the reason. remark: for the table.
packages <- list(
  benchmarkme = list(names = "cores *= *[2-9]"),
  DEoptim = list(names = "parallelType"),
  DiceKriging = list(extra = c("doParallel", "foreach")),
  doFuture = list(extra = "doRNG"),
  doParallel = list(extra = "RUnit"),
  doRNG = list(extra = c("doParallel", "testthat", "rbenchmark")),
  doSNOW = list(extra = "RUnit"),
  EasyABC = list(names = "n_cluster *= *2"),
  fitdistrplus = list(),
  foreach = list(extra = c("doParallel", "testthat"), env = c(FOREACH_BACKEND = "PAR")),
  furrr = list(extra = c("dplyr", "carrier"), skip = c("^test-" = "wants testthat 3.2")),
  future = list(),
  future.apply = list(),
  gamlss = list(skip = c("^fitDist" = "wants package gamlss.tr")),
  lme4 = list(extra = "testthat"),
  mboost = list(extra = "TH.data"),
  metafor = list(skip = c("^test" = "its clusters are skipped or never reached")),
  mlegp = list(),
  optimParallel = list(extra = "testthat"),
  ParallelLogger = list(extra = "testthat"),
  parallelly = list(),
  parallelMap = list(extra = c("testthat", "snow")),
  pbapply = list(extra = "future"),
  pls = list(),
  simsalapar = list(),
  simFrame = list(),
  snow = list(skip = c("^snow-startstop" = "its authors' hosts")),
  snowfall = list(extra = "snow"),
  SuperLearner = list(extra = c("polspline", "randomForest")),
  vegan = list()
)

names_a_cluster <- paste0(
  "make(PSOCK|SOCK)?[Cc]luster(PSOCK)?[(]|registerDo(Parallel|SNOW)[(]|parallel *= *.snow|",
  "multisession|plan[(]cluster|sfInit[(]|parallelStart(Socket)?[(]|start_backend[(]|doRUnit"
)

unit_seconds_max <- 150L
units_max <- as.integer(Sys.getenv("UNITS", "1000"))

root <- normalizePath(".")
stopifnot(file.exists("tools/packages.R"))
at <- function(...) file.path(root, "build", "packages", ...)
own_lib <- file.path(root, "build", "packages-lib")
debian_lib <- at("debian", "usr", "lib", "R", "site-library")
for (dir in c(own_lib, debian_lib, at("src"), at("log"), at("results"))) {
  dir.create(dir, recursive = TRUE, showWarnings = FALSE)
}
# Debian's bring others along, which may be older than what is here.
libs <- unique(c(own_lib, file.path(root, ".lib"), .libPaths(), debian_lib))
.libPaths(libs)
options(repos = if (identical(getOption("repos")[["CRAN"]], "@CRAN@")) {
  c(CRAN = "https://cloud.r-project.org")
} else {
  getOption("repos")
}, timeout = max(300, getOption("timeout")))

say <- function(...) cat("packages: ", ..., "\n", sep = "")
have <- function(program) nzchar(Sys.which(program))

# ---- installing ----------------------------------------------------------------

# The least versions that packages of CRAN's index ask for, by name.
least_versions <- function(names, index) {
  texts <- unlist(index[intersect(names, rownames(index)), c("Depends", "Imports", "LinkingTo")])
  asked <- trimws(unlist(strsplit(texts[!is.na(texts)], ",")))
  asked <- regmatches(asked, regexec("^([A-Za-z0-9.]+)[ \n]*[(]>=[ \n]*([0-9.-]+)[)]", asked))
  asked <- do.call(rbind, asked[lengths(asked) == 3L])
  vapply(split(asked[, 3L], asked[, 2L]), function(v) format(max(package_version(v))), "")
}

version_of <- function(package) {
  version <- suppressWarnings(utils::packageDescription(package, fields = "Version"))
  if (is.na(version)) "0.0" else version
}

too_old <- function(names, least) {
  least <- ifelse(names %in% names(least), least[names], "0.0.1")
  names[package_version(vapply(names, version_of, "")) < package_version(unname(least))]
}

# Debian's packages of R's, with the libraries that they need, unpacked beside the system.
from_debian <- function(names) {
  if (!have("apt-get") || !have("dpkg-deb") || !length(names)) return(invisible())
  known <- system2("apt-cache", c("search", "--names-only", "^r-cran-"), stdout = TRUE)
  wanted <- intersect(paste0("r-cran-", tolower(names)), sub(" .*", "", known))
  plan <- system2("apt-get", c("install", "-s", "-q", "--no-install-recommends", wanted),
                  stdout = TRUE, stderr = FALSE)
  debs <- sub("^Inst ([^ ]+) .*", "\\1", grep("^Inst ", plan, value = TRUE))
  if (!length(debs)) return(invisible())
  say(length(debs), " packages of Debian")
  get <- at("get")
  dir.create(get, showWarnings = FALSE)
  owd <- setwd(get)
  on.exit(setwd(owd))
  system2("apt-get", c("download", "-q", debs), stdout = FALSE, stderr = FALSE)
  for (deb in list.files(pattern = "[.]deb$")) system2("dpkg-deb", c("-x", deb, at("debian")))
  unlink(get, recursive = TRUE)
}

library_path <- function() {
  dirs <- Sys.glob(at("debian", "usr", "lib", c("*-linux-gnu*", "")))
  paste(c(dirs, Sys.getenv("LD_LIBRARY_PATH")), collapse = ":")
}

install <- function(tested) {
  index <- utils::available.packages()
  extra <- unlist(lapply(packages[tested], `[[`, "extra"))
  asked <- intersect(c(tested, extra), rownames(index))
  needed <- unlist(tools::package_dependencies(asked, index, recursive = TRUE))
  base <- rownames(utils::installed.packages(priority = "base"))
  needed <- setdiff(unique(c(asked, needed)), base)
  others <- setdiff(needed, tested)
  least <- least_versions(needed, index)
  from_debian(too_old(others, least))
  old <- too_old(others, least)
  is_here <- function(package) file.exists(file.path(own_lib, package), tarball(package))
  current <- tested[vapply(tested, function(package) all(is_here(package)), NA)]
  todo <- c(old, setdiff(tested, current))
  if (!length(todo)) return(invisible())
  say("from CRAN: ", paste(todo, collapse = " "))
  Sys.setenv(LD_LIBRARY_PATH = library_path(), R_LIBS = paste(libs, collapse = ":"))
  utils::install.packages(todo, own_lib, destdir = at("src"), dependencies = FALSE, quiet = TRUE)
}

tarball <- function(package) at("src", paste0(package, "_", version_of(package), ".tar.gz"))

# ---- units: one test file or one page's examples ---------------------------------

names_cluster_in <- function(files, pattern) {
  vapply(files, function(file) {
    any(grepl(pattern, readLines(file, warn = FALSE), useBytes = TRUE))
  }, NA)
}

# The files of a folder of tests, first those that name a cluster. When one that others read does,
# all count.
tests_in <- function(dir, pattern, files, shared = "^$") {
  files <- list.files(dir, files, full.names = TRUE)
  others <- list.files(dir, shared, full.names = TRUE)
  names_it <- names_cluster_in(files, pattern)
  basename(c(files[names_it], if (any(names_cluster_in(others, pattern))) files[!names_it]))
}

page_names_cluster <- function(page, pattern) {
  any(grepl(pattern, paste(utils::capture.output(tools::Rd2ex(page)), collapse = "\n")))
}

# kind, file: what to run of a package. Its tests are of the source package, unpacked in dir.
units_of <- function(package, dir) {
  pattern <- paste(c(names_a_cluster, packages[[package]]$names), collapse = "|")
  tests <- file.path(dir, "tests")
  plain <- setdiff(tests_in(tests, pattern, "[.][rR]$"), c("testthat.R", "run-all.R"))
  that <- tests_in(file.path(tests, "testthat"), pattern, "^test.*[.][rR]$",
                   "^(helper|setup).*[.][rR]$")
  pages <- tools::Rd_db(package, lib.loc = own_lib)
  pages <- names(pages)[vapply(pages, page_names_cluster, NA, pattern)]
  units <- data.frame(
    kind = rep(c("test", "testthat", "page"), c(length(plain), length(that), length(pages))),
    file = c(plain, that, pages), stringsAsFactors = FALSE
  )
  skip <- names(packages[[package]]$skip)
  if (length(skip)) units[!grepl(paste(skip, collapse = "|"), units$file), ] else units
}

# The script that runs a unit, for a new R in the folder of tests.
script_of <- function(package, unit, to) {
  script <- file.path(to, "muster-unit.R")
  if (unit$kind == "test") return(unit$file)
  if (unit$kind == "testthat") {
    name <- sub("^test[-_]", "", sub("[.][rR]$", "", unit$file))
    code <- bquote({
      library(.(package), character.only = TRUE)
      done <- as.data.frame(testthat::test_dir("testthat", filter = .(paste0("^", name, "$")),
        package = .(package), load_package = "installed", stop_on_failure = FALSE,
        reporter = "check"
      ))
      quit(status = sum(done$failed > 0 | done$error))
    })
    writeLines(deparse(code), script)
  } else {
    page <- tools::Rd_db(package, lib.loc = own_lib)[[unit$file]]
    tools::Rd2ex(page, script, commentDontrun = FALSE)
    writeLines(c(sprintf("library(%s)", package), readLines(script)), script)
  }
  basename(script)
}

# ---- running -------------------------------------------------------------------

namespace <- if (have("unshare") && have("ip") &&
  !system2("unshare", c("-rn", "ip", "link", "set", "lo", "up"), stderr = FALSE)) {
  c("unshare", "-rn", "sh", "-c", shQuote("ip link set lo up && exec \"$@\""), "sh")
} else {
  say("no network namespace can be made here: tests may use the network")
}

# A new R runs a script in its folder. Gives what became of it, with how many clusters.
run_unit <- function(script, dir, with, log, env) {
  book <- tempfile("book")
  file.create(book)
  on.exit(unlink(book))
  owd <- setwd(dir)
  on.exit(setwd(owd), add = TRUE)
  env <- c(env,
    R_PROFILE_USER = file.path(root, "tools", "packages-profile.R"), R_LIBS_USER = "NULL",
    R_LIBS = paste(libs, collapse = ":"), LD_LIBRARY_PATH = library_path(), LANGUAGE = "en",
    MUSTER_PACKAGES = with, MUSTER_PACKAGES_BOOK = book, NOT_CRAN = "true",
    OMP_NUM_THREADS = "1", OPENBLAS_NUM_THREADS = "1"
  )
  status <- system2("timeout", c("-k", "10", unit_seconds_max, "nice", "-n", "19", namespace,
    file.path(R.home("bin"), "R"), "--no-echo", "--no-save", "--no-restore", "-f", script),
    stdout = log, stderr = log, stdin = "/dev/null", env = paste0(names(env), "=", shQuote(env))
  )
  list(
    passed = status == 0L, seconds_over = status == 124L, status = status,
    clusters = length(readLines(book)), log = log
  )
}

# What went wrong, in one line.
reason_of <- function(run) {
  if (run$seconds_over) return(paste("not done in", unit_seconds_max, "s"))
  lines <- readLines(run$log, warn = FALSE)
  lines <- iconv(lines, "UTF-8", "ASCII//TRANSLIT", sub = "?")
  at <- grep("^(Error|! |.*(Failure|Error) [(])", lines)
  if (!length(at)) return(paste("status", run$status))
  first <- trimws(lines[seq(at[1L], min(at[1L] + 1L, length(lines)))])
  first <- setdiff(first, "Execution halted")
  substr(gsub("[|]", "/", paste(first, collapse = " ")), 1L, 160L)
}

unit_name <- function(unit) {
  if (unit$kind == "page") paste0("?", sub("[.]Rd$", "", unit$file)) else unit$file
}

test_package <- function(package) {
  dir <- tempfile(package)
  on.exit(unlink(dir, recursive = TRUE))
  utils::untar(tarball(package), exdir = dir)
  units <- units_of(package, file.path(dir, package))
  runs <- lapply(seq_len(min(nrow(units), units_max)), function(i) {
    unit <- units[i, ]
    one <- function(with) {
      to <- file.path(dir, with)
      unlink(to, recursive = TRUE)
      dir.create(to)
      tests <- list.files(file.path(dir, package, "tests"), full.names = TRUE)
      file.copy(tests, to, recursive = TRUE)
      log <- at("log", paste(package, unit$file, with, "txt", sep = "."))
      run_unit(script_of(package, unit, to), to, with, log, packages[[package]]$env)
    }
    parallel <- one("parallel")
    muster <- if (parallel$clusters) one("muster")
    say(package, " ", unit_name(unit), ": ", if (is.null(muster)) "no cluster" else {
      paste0(parallel$clusters, " clusters; parallel ", c("FAILED", "passed")[parallel$passed + 1L],
        ", muster ", c("FAILED", "passed")[muster$passed + 1L])
    })
    if (!is.null(muster)) {
      list(
        name = unit_name(unit), kind = unit$kind, clusters = parallel$clusters,
        muster_clusters = muster$clusters,
        parallel = parallel$passed, muster = muster$passed,
        parallel_reason = if (!parallel$passed) reason_of(parallel),
        muster_reason = if (!muster$passed) reason_of(muster)
      )
    }
  })
  result <- list(package = package, version = version_of(package), units = nrow(units),
                 tried = length(runs), runs = Filter(Negate(is.null), runs))
  saveRDS(result, at("results", paste0(package, ".rds")))
}

# ---- the table -----------------------------------------------------------------

plural <- function(n, what) if (n) paste(n, if (n == 1L) what else paste0(what, "s"))

remark_of <- function(result) {
  both <- Filter(function(run) !run$parallel && !run$muster, result$runs)
  bad <- Filter(function(run) run$parallel && !run$muster, result$runs)
  skip <- packages[[result$package]]$skip
  said <- c(
    packages[[result$package]]$remark,
    if (isTRUE(result$tried < result$units)) {
      sprintf("%d of %d were tried", result$tried, result$units)
    },
    if (length(skip)) sprintf("`%s` isn't run: %s", names(skip), skip),
    vapply(bad, function(run) sprintf("**%s: %s**", run$name, run$muster_reason), ""),
    vapply(both, function(run) {
      alike <- identical(run$parallel_reason, run$muster_reason)
      paste0(run$name, " fails with both: ", run$parallel_reason,
             if (!alike) paste0(" (muster: ", run$muster_reason, ")"))
    }, "")
  )
  paste(said, collapse = "; ")
}

row_of <- function(result) {
  runs <- result$runs
  kinds <- vapply(runs, `[[`, "", "kind")
  count <- function(with) {
    passed <- vapply(runs, `[[`, NA, with)
    sprintf("%d / %d", sum(passed), sum(!passed))
  }
  what <- paste(c(plural(sum(kinds != "page"), "test file"), plural(sum(kinds == "page"), "page")),
                collapse = ", ")
  clusters <- sum(vapply(runs, `[[`, 1, "clusters"))
  sprintf("| %s | %s | %s | %d | %s | %s | %s |", result$package, result$version, what, clusters,
          count("parallel"), count("muster"), remark_of(result))
}

write_table <- function() {
  results <- lapply(list.files(at("results"), full.names = TRUE), readRDS)
  results <- Filter(function(result) length(result$runs) > 0L, results)
  results <- results[order(tolower(vapply(results, `[[`, "", "package")))]
  head <- readLines("docs/PACKAGES.md")
  head <- head[seq_len(grep("^<!-- table -->", head))]
  runs <- unlist(lapply(results, `[[`, "runs"), recursive = FALSE)
  bad <- sum(vapply(runs, function(run) run$parallel && !run$muster, NA))
  passed <- function(with) sum(vapply(runs, `[[`, NA, with))
  writeLines(c(head,
    sprintf("%d packages, %d files and pages with %d clusters; R %s, muster %s.", length(results),
      length(runs), sum(vapply(runs, `[[`, 1, "clusters")), getRversion(), version_of("muster")),
    sprintf("Passed with parallel: %d, with muster: %d; with parallel alone: %d.",
      passed("parallel"), passed("muster"), bad),
    "",
    paste("| package | version | what was run | clusters | parallel: passed / failed |",
          "muster: passed / failed | remark |"),
    "| --- | --- | --- | ---: | ---: | ---: | --- |",
    vapply(results, row_of, "")
  ), "docs/PACKAGES.md")
  bad
}

main <- function(named) {
  tested <- if (length(named)) named else names(packages)
  stopifnot(tested %in% names(packages), have("timeout"))
  install(tested)
  for (package in tested) {
    if (all(file.exists(file.path(own_lib, package), tarball(package)))) {
      test_package(package)
    } else {
      say(package, " can't be installed")
    }
  }
  bad <- write_table()
  say(bad, " pass with parallel's cluster and fail with muster's")
  quit(status = bad > 0L)
}

if (sys.nframe() == 0L) main(commandArgs(trailingOnly = TRUE))
