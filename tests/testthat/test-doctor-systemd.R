# What else on the machine ends sessions or takes their files: each verdict on both sides of
# its threshold; settings as systemd reads them. And the limits of mappings, and the clock.

logind <- function(..., name = "etc/systemd/logind.conf") {
  stats::setNames(list(c("[Login]", ...)), name)
}

test_that("A6: logind that ends what was started in a login needs attention", {
  kills <- logind("KillUserProcesses=yes")
  row <- expect_verdict("logind", "attention", kills)
  expect_identical(row$value, "KillUserProcesses=yes")
  expect_match(row$why, "tmux")
  expect_match(row$command, "^loginctl enable-linger")
  expect_identical(row$figures[[1L]], c(kill_user_processes = 1, spared = 0))
  expect_verdict("logind", "good", logind("KillUserProcesses = no"))
  # The comment of the file tells the default that systemd was built with.
  expect_verdict("logind", "attention", logind("#KillUserProcesses=yes"))
  expect_verdict("logind", "good", logind("#KillUserProcesses=yes", "KillUserProcesses=no"))
  expect_verdict("logind", "unknown", logind("#IdleAction=ignore"))
  # Who is spared.
  expect_verdict("logind", "good", kills, user = "root")
  expect_verdict("logind", "attention", logind("KillUserProcesses=yes", "KillExcludeUsers=bob"),
    user = "root")
  row <- expect_verdict("logind", "good", logind("KillUserProcesses=yes", "KillOnlyUsers=bob eve"))
  expect_identical(row$value, "KillUserProcesses=yes, but not for ann")
  expect_verdict("logind", "attention", logind("KillUserProcesses=yes", "KillOnlyUsers=bob ann"))
  # Without systemd there is nothing that would do it.
  row <- expect_verdict("logind", "good", c(kills, list("run/systemd/system" = NA)))
  expect_identical(row$value, "no logind")
})

test_that("A6: files beside logind.conf count in the order of their names, /etc over /usr/lib", {
  beside <- function(root, name, value) {
    file <- file.path(root, "systemd", "logind.conf.d", name)
    logind(paste0("KillUserProcesses=", value), name = file)
  }
  expect_verdict("logind", "attention", beside("etc", "10-a.conf", "yes"))
  expect_verdict("logind", "good",
    c(beside("etc", "10-a.conf", "yes"), beside("usr/lib", "20-b.conf", "no")))
  expect_verdict("logind", "attention",
    c(beside("etc", "10-a.conf", "yes"), beside("usr/lib", "10-a.conf", "no")))
  expect_verdict("logind", "good", beside("etc", "10-a.conf.bak", "yes"))
  # The vendor's own file holds where /etc has none.
  vendor <- logind("KillUserProcesses=yes", name = "usr/lib/systemd/logind.conf")
  expect_verdict("logind", "good", vendor)
  expect_verdict("logind", "attention", c(vendor, list("etc/systemd/logind.conf" = NA)))
})

test_that("A6: systemd-oomd is judged by the pressure that it would see", {
  waits <- function(part) {
    list(
      "run/systemd/oom" = NULL,
      "sys/fs/cgroup/user/job/memory.pressure" = c(
        "some avg10=90.00 avg60=0.00 avg300=0.00 total=1",
        paste0("full avg10=", part, " avg60=0.00 avg300=0.00 total=1")
      )
    )
  }
  row <- expect_verdict("systemd_oomd", "good", waits("9.99"))
  expect_identical(row$value, "running, memory pressure 10 %")
  expect_identical(row$figures[[1L]], c(running = 1, pressure = 0.0999))
  row <- expect_verdict("systemd_oomd", "attention", waits("10.00"))
  expect_match(row$command, "ManagedOOMPreference=omit")
  expect_verdict("systemd_oomd", "attention", waits("39.99"))
  expect_verdict("systemd_oomd", "bad", waits("40.00"))
  expect_match(expect_verdict("systemd_oomd", "good", waits("x"))$value, "pressure not known")
  # Where it doesn't run, pressure is no reason; its process gives it away too.
  without <- waits("90.00")[-1L]
  expect_identical(expect_verdict("systemd_oomd", "good", without)$value, "not running")
  process <- list("proc/77/cmdline" = "/usr/lib/systemd/systemd-oomd")
  expect_verdict("systemd_oomd", "bad", c(without, process))
  other <- list("proc/77/cmdline" = "vi\n/etc/systemd-oomd.conf")
  expect_verdict("systemd_oomd", "good", c(without, other))
})

# ---- cleaners

tmpfiles <- function(..., name = "usr/lib/tmpfiles.d/tmp.conf") stats::setNames(list(c(...)), name)

test_that("A6: systemd-tmpfiles is judged by the age for TMPDIR", {
  age <- function(age, type = "q") tmpfiles(paste(type, "/tmp 1777 root root", age))
  row <- expect_verdict("tmp_cleaner", "good", age("7d"))
  expect_identical(row$value, "/tmp: files unused for 7 days go (systemd-tmpfiles, tmp.conf)")
  expect_identical(row$figures[[1L]], c(age_s = 604800))
  row <- expect_verdict("tmp_cleaner", "attention", age("6d23h"))
  expect_identical(row$command, "echo 'x /tmp/Rtmp*' > /etc/tmpfiles.d/R.conf")
  expect_verdict("tmp_cleaner", "attention", age("1d", "D!"))
  expect_verdict("tmp_cleaner", "bad", age("23h59min"))
  for (none in c("-", "", "soon")) {
    expect_identical(expect_verdict("tmp_cleaner", "good", age(none))$value, "none for /tmp")
  }
  # A line of another kind, and one for another directory.
  expect_match(expect_verdict("tmp_cleaner", "good", age("1h", "L"))$value, "none")
  expect_match(expect_verdict("tmp_cleaner", "good", age("1h"), tmpdir = "/tmpfile")$value, "none")
  # The nearest directory above TMPDIR has the line that holds.
  two <- tmpfiles("d /scratch 1777 root root 1h", "d /scratch/ann 0700 ann ann 30d")
  expect_verdict("tmp_cleaner", "good", two, tmpdir = "/scratch/ann/x")
  expect_verdict("tmp_cleaner", "bad", two, tmpdir = "/scratch/bob")
  # Without systemd nobody runs it.
  expect_verdict("tmp_cleaner", "good", c(age("1h"), list("run/systemd/system" = NA)))
})

test_that("A6: settings of the administrator replace the vendor's, and exceptions hold", {
  vendor <- tmpfiles("q /tmp 1777 root root 1h")
  own <- tmpfiles("q /tmp 1777 root root 30d", name = "etc/tmpfiles.d/tmp.conf")
  expect_verdict("tmp_cleaner", "good", c(vendor, own))
  for (line in c("x /tmp/Rtmp*", "X /tmp/R*", "x /tmp")) {
    spared <- tmpfiles(line, name = "etc/tmpfiles.d/R.conf")
    expect_match(expect_verdict("tmp_cleaner", "good", c(vendor, spared))$value, "none")
  }
  other <- tmpfiles("x /tmp/ssh-*", name = "etc/tmpfiles.d/ssh.conf")
  expect_verdict("tmp_cleaner", "bad", c(vendor, other))
  # The line that the advice writes is one that is understood.
  command <- expect_verdict("tmp_cleaner", "bad", vendor)$command
  line <- sub("^echo '(.*)' > /etc/(.*)$", "\\1", command)
  file <- sub("^echo '(.*)' > /(.*)$", "\\2", command)
  expect_verdict("tmp_cleaner", "good", c(vendor, tmpfiles(line, name = file)))
})

test_that("A6: tmpreaper and tmpwatch are judged by their ages", {
  none <- list("usr/lib/tmpfiles.d/tmp.conf" = NA)
  reaper <- function(...) {
    c(none, list("etc/tmpreaper.conf" = c(...), "etc/cron.daily/tmpreaper" = "#!/bin/sh"))
  }
  row <- expect_verdict("tmp_cleaner", "good", reaper("TMPREAPER_TIME=7d"))
  expect_match(row$value, "7 days go (tmpreaper)", fixed = TRUE)
  row <- expect_verdict("tmp_cleaner", "attention",
    reaper("TMPREAPER_TIME=2d # days", "TMPREAPER_DIRS='/tmp/. /var/tmp/.'"))
  expect_match(row$command, "TMPREAPER_PROTECT_EXTRA='/tmp/Rtmp*'", fixed = TRUE)
  off <- reaper("SHOWWARNING=true", "TMPREAPER_TIME=1h")
  expect_match(expect_verdict("tmp_cleaner", "good", off)$value, "none")
  spared <- reaper("TMPREAPER_TIME=1h", "TMPREAPER_PROTECT_EXTRA='/tmp/Rtmp*'")
  expect_match(expect_verdict("tmp_cleaner", "good", spared)$value, "none")
  elsewhere <- reaper("TMPREAPER_TIME=1h", "TMPREAPER_DIRS='/var/tmp/.'")
  expect_match(expect_verdict("tmp_cleaner", "good", elsewhere)$value, "none")
  watch <- function(...) c(none, list("etc/cron.daily/tmpwatch" = c("#!/bin/sh", ...)))
  row <- expect_verdict("tmp_cleaner", "attention",
    watch("flags=-umc", "/usr/sbin/tmpwatch \"$flags\" -x /tmp/.X11-unix 5d /tmp"))
  expect_match(row$value, "5 days go (tmpwatch)", fixed = TRUE)
  expect_verdict("tmp_cleaner", "good", watch("/usr/sbin/tmpwatch 1d /var/tmp"))
  # The shortest age counts.
  both <- c(reaper("TMPREAPER_TIME=2h"), watch("tmpwatch 5d /tmp"))
  expect_match(expect_verdict("tmp_cleaner", "bad", both)$value, "2 hours go (tmpreaper)",
    fixed = TRUE)
})

test_that("ages are read as tmpfiles.d(5) writes them", {
  ages <- c("10d" = 864000, "1w" = 604800, "1h30min" = 5400, "90" = 90, "~2d" = 172800,
    "aAbB:5m" = 300, "1d12h" = 129600, "500ms" = 0.5, "0" = 0)
  for (text in names(ages)) {
    expect_identical(tmpfiles_span(text), ages[[text]], info = text)
  }
  for (text in c("-", "", "d", "10x", "~", NA)) {
    expect_identical(tmpfiles_span(text), NA_real_, info = text)
  }
})

# ---- clock and mappings

test_that("A6: a clock that isn't synchronised needs attention", {
  row <- expect_verdict("clock_sync", "good", clock_sync = function() c(1, 0.0123))
  expect_identical(row$value, "synchronised, wrong by at most 0.012 s")
  expect_identical(row$figures[[1L]], c(synchronised = 1, error_s_max = 0.0123))
  row <- expect_verdict("clock_sync", "attention", clock_sync = function() c(0, 16))
  expect_identical(row$value, "not synchronised")
  expect_match(row$command, "timesyncd")
  reason <- function() not_known("Function not implemented")
  expect_verdict("clock_sync", "unknown", clock_sync = reason)
  found <- .Call(ffi_clock_sync)
  expect_true(is.character(found) || (found[1L] %in% 0:1 && found[2L] >= 0))
})

test_that("A6: memory mappings are judged by their limit and their use", {
  maps <- function(limit, used) {
    list("proc/sys/vm/max_map_count" = limit, "proc/self/maps" = rep_len("a mapping", used))
  }
  row <- expect_verdict("max_map_count", "good", maps(65530, 32764))
  expect_identical(row$value, "65,530, 32,764 in use here")
  row <- expect_verdict("max_map_count", "attention", maps(65530, 32765))
  expect_identical(row$command, "sysctl -w vm.max_map_count=262144")
  expect_identical(row$persist, "vm.max_map_count = 262144")
  expect_verdict("max_map_count", "bad", maps(65530, 58977))
  expect_verdict("max_map_count", "attention", maps(65529, 10))
  row <- expect_verdict("max_map_count", "bad", maps(1e5, 95000))
  expect_identical(row$command, "sysctl -w vm.max_map_count=400000")
  expect_verdict("max_map_count", "good", list("proc/self/maps" = NA))
  skip_without_feature("proc")
  expect_gt(doctor(items = "max_map_count")$figures[[1L]][["used"]], 20)
})
