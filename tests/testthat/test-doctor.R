# doctor() as a whole: what it returns, refuses and prints, and machines that aren't ours.

test_cluster("doctor() gives one row for each item and leaves the session as it was", {
  found <- doctor()
  expect_s3_class(found, c("muster_doctor", "data.frame"), exact = TRUE)
  texts <- c("item", "value", "verdict", "why", "command", "group", "persist")
  expect_named(found, c(texts, "figures"))
  expect_true(all(vapply(found[texts], is.character, NA)))
  expect_false(anyNA(unlist(found[texts])))
  expect_true(all(found$verdict %in% c("good", "attention", "bad", "unknown")))
  items <- unique(sub(":.*$", "", found$item))
  expect_identical(items, names(doctor_items()))
  expect_true(all(nzchar(found$value) & nzchar(found$why)))
  # What asks for attention says what to do.
  expect_true(all(nzchar(found$command[found$verdict %in% c("attention", "bad")])))
})

test_that("no item of this machine fails for a fault of its own", {
  skip_without_proc()
  found <- doctor()
  reasons <- found$value[found$verdict == "unknown"]
  # A reason names a file, or what the kernel doesn't tell; R's own errors don't.
  pattern <- paste0(
    "isn't there|Not a directory|can't be read|doesn't|isn't|has no|no network card|",
    "holds no|lists no|[A-Z].*"
  )
  expect_match(c(reasons, "isn't there"), pattern)
  expect_false(any(grepl("subscript|argument|object|non-numeric|missing value", reasons)))
})

test_that("the help page has a rule for each item", {
  expect_identical(names(doctor_rules()), names(doctor_items()))
  expect_identical(unique(lengths(doctor_rules())), 3L)
})

test_that("a healthy server is good in all items", {
  found <- examine(made_machine(healthy_files()))
  expect_identical(found$verdict, rep("good", nrow(found)),
    info = paste(found$item, found$verdict, found$value, collapse = "\n"))
  expect_identical(found$command, rep("", nrow(found)))
})

test_that("a machine of which nothing is told is unknown, with reasons, and no error", {
  expect_silent(found <- examine(made_machine(list(),
    listeners = function() not_known("the kernel doesn't list sockets"),
    disk = function(path) not_known("No such file or directory"))))
  # What doesn't come from the trees is told anyway.
  told <- c("loopback", "threads", "fork", "ssh", "schedulers")
  unknown <- found[!found$item %in% told, ]
  expect_identical(unknown$verdict, rep("unknown", nrow(unknown)),
    info = paste(unknown$item, unknown$verdict, unknown$value, collapse = "\n"))
  expect_true(all(nzchar(found$value)))
  expect_false(any(grepl("subscript|argument|object|missing value", found$value)))
})

test_that("files full of nonsense are unknown, and no error", {
  files <- healthy_files()
  for (nonsense in list("", "x y z", "-", "99999999999999999999999999", "\xff\xfe")) {
    junk <- lapply(files, function(lines) if (!is.null(lines)) nonsense)
    expect_silent(found <- examine(made_machine(junk)))
    expect_true(nrow(found) >= length(doctor_items()) - 1L)
    expect_false(anyNA(found$verdict))
  }
})

test_that("a container without /proc/sys/net is told by the rest", {
  files <- healthy_files()
  files <- files[!startsWith(names(files), "proc/sys/net")]
  found <- examine(made_machine(files))
  unknown <- found$item[found$verdict == "unknown"]
  expect_setequal(unknown, c(
    "somaxconn", "tcp_max_syn_backlog", "tcp_syncookies", "tcp_fin_timeout",
    "tcp_abort_on_overflow", "ports", "neighbours"
  ))
  expect_match(found$value[found$item == "somaxconn"], "sys/net/core/somaxconn isn't there")
  expect_true(all(found$verdict[!found$item %in% unknown] == "good"))
})

test_that("a file that can't be read is unknown", {
  row <- row_of("somaxconn", list("proc/sys/net/core/somaxconn" = NULL))
  expect_identical(row$verdict, "unknown")
  expect_match(row$value, "can't be read")
})

test_that("items choose rows, and wrong arguments are named", {
  found <- doctor(items = c("open_files", "somaxconn", "open_files"))
  expect_identical(found$item, c("open_files", "somaxconn"))
  expect_error(doctor(items = "somaxcon"), "no item \"somaxcon\"", class = "muster_error_input")
  expect_error(doctor(items = character()), class = "muster_error_input")
  expect_error(doctor(items = NA_character_), class = "muster_error_input")
  expect_error(doctor(items = 1), class = "muster_error_input")
  for (wrong in list(-1, NA_real_, Inf, "1", c(1, 2), NULL, TRUE)) {
    expect_error(doctor(interval = wrong), "`interval`", class = "muster_error_input")
  }
})

test_that("interval is waited for", {
  expect_gte(system.time(doctor(0.3, "load"))[["elapsed"]], 0.3)
})

test_that("printing shows verdicts, reasons and commands", {
  files <- changed_files("proc/sys/net/core/somaxconn" = "128",
    "proc/sys/net/ipv4/tcp_fin_timeout" = "60", "proc/sys/net/ipv4/tcp_syncookies" = NA)
  found <- examine(made_machine(files))
  local_settings(width = 80L, cli.num_colors = 1L)
  shown <- format(found)
  plain <- if (requireNamespace("cli", quietly = TRUE)) cli::ansi_strip(shown) else shown
  expect_true(all(nchar(plain[!grepl("sysctl|machine-", plain)]) <= 80L))
  text <- paste(plain, collapse = "\n")
  expect_match(text, "BAD somaxconn +128\n")
  expect_match(text, "> sysctl -w net.core.somaxconn=16384", fixed = TRUE)
  expect_match(text, "for bursts: sysctl -w net.ipv4.tcp_fin_timeout=30", fixed = TRUE)
  expect_match(text, "[?]   tcp_syncookies")
  expect_match(text, "1 bad, 1 unknown.", fixed = TRUE)
  expect_false(grepl("keeps it for a", text, fixed = TRUE))
  explained <- paste(format(found, explain = TRUE), collapse = " ")
  expect_match(gsub(" +", " ", explained), "keeps it for a minute")
  expect_output(expect_identical(print(found), found), "somaxconn")
  # Some columns alone are a plain table.
  expect_output(print(found[1:2, c("item", "value")]), "somaxconn +128")
})

# ---- numbers, and what lasts

test_that("A6: each item that is measured has its numbers, named, with units", {
  found <- examine(made_machine(healthy_files()))
  figures <- stats::setNames(found$figures, found$item)
  expect_true(all(vapply(figures, is.numeric, NA)))
  words <- c("localhost", "ssh", "schedulers")
  expect_setequal(names(figures)[!lengths(figures)], words)
  expect_true(all(vapply(figures, function(x) all(grepl("^[a-z]", names(x))), NA)))
  expect_identical(figures$somaxconn, c(limit = 16384, listeners = 0, listeners_at_limit = 0))
  expect_identical(figures$memory, c(available_bytes = 12288e6, total_bytes = 16384e6))
  expect_identical(figures$open_files[["room_for_workers"]], 21824)
  expect_identical(figures$listen_overflows[["total"]], 0)
  expect_identical(figures$listen_overflows[["since_boot_s"]], 864000.5)
  expect_identical(figures$max_map_count, c(limit = 65530, used = 100))
  # What isn't known has none.
  expect_identical(row_of("somaxconn", list("proc/sys/net/core/somaxconn" = NA))$figures[[1L]],
    numeric())
})

test_that("A6: beside each sysctl -w stands what a file in sysctl.d needs", {
  row <- row_of("somaxconn", list("proc/sys/net/core/somaxconn" = "128"))
  expect_identical(row$persist, "net.core.somaxconn = 16384")
  local_settings(width = 80L, cli.num_colors = 1L)
  shown <- paste(format(row), collapse = "\n")
  expect_match(shown, "echo 'net.core.somaxconn = 16384' >> /etc/sysctl.d/90-muster.conf",
    fixed = TRUE)
  row <- row_of("ports", list("proc/sys/net/ipv4/ip_local_port_range" = "10000\t10500"))
  expect_identical(row$persist, "net.ipv4.ip_local_port_range = 10240 65535")
  row <- row_of("neighbours", list("proc/sys/net/ipv4/neigh/default/gc_thresh3" = "128"))
  expect_identical(row$persist,
    "net.ipv4.neigh.default.gc_thresh3 = 4096\nnet.ipv4.neigh.default.gc_thresh2 = 2048")
  row <- row_of("processes", list("proc/sys/kernel/threads-max" = "401"))
  expect_identical(row$persist, "kernel.threads-max = 65536\nkernel.pid_max = 65536")
  expect_identical(row_of("memory")$persist, "")
  expect_identical(sysctl_lines("sysctl -w a.b=1 # then x.y=2"), "a.b = 1")
  expect_identical(sysctl_lines("echo a.b=1"), character())
})

test_that("A6: the help index shows doctor() and not its print method", {
  help <- system.file("help", "aliases.rds", package = "muster")
  skip_if(!nzchar(help), "the package is installed without help")
  aliases <- names(readRDS(help))
  expect_true("doctor" %in% aliases)
  expect_false("print.muster_doctor" %in% aliases)
})
