# Limits, control groups, memory, the machine and R: each verdict on both sides of its
# threshold.

limits <- function(...) list("proc/self/limits" = limits_lines(...))

test_that("descriptors are judged by the workers that they have room for", {
  files <- function(n) limits("Max open files" = n)
  # 256 workers of 3, and 64 to spare; none is open on this machine.
  expect_verdict("open_files", "good", files("832"))
  row <- expect_verdict("open_files", "attention", files("831"))
  expect_match(row$value, "831 (hard 831), 0 open: room for 255 workers", fixed = TRUE)
  expect_match(row$command, "limits.d")
  expect_verdict("open_files", "attention", files("76"))
  expect_verdict("open_files", "bad", files("75"))
  expect_verdict("open_files", "bad", files("16"))
  expect_match(expect_verdict("open_files", "good", files("unlimited"))$value, "any number")
  lines <- sub("^(Max open files +256 +)256", "\\1999999", limits_lines("Max open files" = "256"))
  row <- expect_verdict("open_files", "attention", list("proc/self/limits" = lines))
  expect_identical(row$command, "ulimit -n 65536 # before R starts")
  expect_verdict("open_files", "unknown", list("proc/self/limits" = "Max open files"))
  expect_verdict("open_files", "unknown", limits("Max open files" = "many"))
})

test_that("open files of the machine are judged by their limit", {
  files <- function(n) list("proc/sys/fs/file-nr" = paste0(n, "\t0\t1000"))
  expect_verdict("system_files", "good", files(699))
  expect_verdict("system_files", "attention", files(700))
  expect_identical(expect_verdict("system_files", "bad", files(900))$command,
    "sysctl -w fs.file-max=2000")
  row <- expect_verdict("system_files", "good",
    list("proc/sys/fs/file-nr" = "5\t0\t9223372036854775807"))
  expect_match(row$value, "no limit")
})

test_that("processes are judged by what is left of the least limit", {
  left <- function(n) limits("Max processes" = format(400 + n))
  expect_verdict("processes", "good", left(512))
  expect_verdict("processes", "attention", left(511))
  expect_verdict("processes", "attention", left(24))
  expect_match(expect_verdict("processes", "bad", left(23))$command, "^ulimit -u")
  row <- expect_verdict("processes", "bad", list("proc/sys/kernel/threads-max" = "401"))
  expect_match(row$command, "^sysctl -w kernel.threads-max")
  expect_verdict("processes", "good", list("proc/loadavg" = NA))
})

test_that("address space is judged by its limit", {
  cases <- c(unlimited = "good", "4294967296" = "attention", "4294967295" = "bad")
  for (limit in names(cases)) {
    row <- expect_verdict("address_space", cases[[limit]], limits("Max address space" = limit))
    expect_identical(nzchar(row$command), cases[[limit]] != "good")
  }
})

# ---- control groups

job <- function(...) {
  files <- list(...)
  stats::setNames(files, paste0("sys/fs/cgroup/user/job/", names(files)))
}

test_that("v2: memory is judged by use without droppable files, and by cores", {
  used <- function(mb) job(memory.max = 10000 * 1e6, memory.current = mb * 1e6 + 1073741824)
  expect_verdict("cgroup_memory", "good", used(7999))
  expect_verdict("cgroup_memory", "attention", used(8000))
  expect_verdict("cgroup_memory", "bad", used(9500))
  # 4 cores of 256 MiB each
  small <- function(bytes) job(memory.max = bytes, memory.current = "0")
  expect_verdict("cgroup_memory", "good", small("1073741824"))
  row <- expect_verdict("cgroup_memory", "attention", small("1073741823"))
  expect_match(row$value, "for each CPU")
  expect_match(expect_verdict("cgroup_memory", "good", job(memory.max = "max"))$value, "no limit")
  row <- expect_verdict("cgroup_memory", "good", job(memory.current = NA))
  expect_match(row$value, "use unknown")
})

test_that("v2: the level above that leaves less memory is the one that counts", {
  row <- expect_verdict("cgroup_memory", "bad", list(
    "sys/fs/cgroup/user/memory.max" = "4000000000",
    "sys/fs/cgroup/user/memory.current" = "3900000000"
  ))
  expect_match(row$value, "3.73 GiB")
})

test_that("v2: out-of-memory kills ask for attention, in the interval they are bad", {
  kills <- function(n) c("low 0", "oom 5", paste("oom_kill", n))
  expect_verdict("cgroup_oom", "good", job(memory.events = kills(0)))
  row <- expect_verdict("cgroup_oom", "attention", job(memory.events = kills(2)))
  expect_identical(row$value, "2 since the group began")
  row <- expect_verdict("cgroup_oom", "attention",
    list("sys/fs/cgroup/user/memory.events" = kills(3)))
  expect_match(row$value, "^3 ")
  expect_verdict("cgroup_oom", "unknown", c(job(memory.events = NA),
    list("sys/fs/cgroup/user/memory.events" = NA)))
  machine <- machine_at(healthy_root())
  machine$before <- doctor_look(machine)
  machine$now <- doctor_look(machine)
  machine$now$cgroup_oom <- machine$before$cgroup_oom + 1
  machine$seconds <- 1
  expect_identical(doctor_cgroup_oom(machine)$verdict, "bad")
  machine$now$system_oom <- machine$before$system_oom + 1
  expect_identical(doctor_oom_kills(machine)$verdict, "bad")
})

test_that("v2: processes and throttling are judged", {
  left <- function(n) job(pids.max = n + 100, pids.current = 100)
  expect_verdict("cgroup_pids", "good", left(128))
  expect_verdict("cgroup_pids", "attention", left(127))
  expect_verdict("cgroup_pids", "attention", left(24))
  expect_verdict("cgroup_pids", "bad", left(23))
  expect_match(expect_verdict("cgroup_pids", "good", job(pids.max = "max"))$value, "no limit")
  stat <- function(n) job(cpu.stat = c("nr_periods 1000", paste("nr_throttled", n)))
  row <- expect_verdict("cgroup_cpu", "good", stat(49))
  expect_match(row$value, "^4 CPUs, throttled in 4.9 %")
  expect_verdict("cgroup_cpu", "attention", stat(50))
  expect_verdict("cgroup_cpu", "bad", stat(500))
  row <- expect_verdict("cgroup_cpu", "good", job(cpu.stat = NA, cpu.max = "max 100000"))
  expect_identical(row$value, "no limit")
})

test_that("v1: limits, kills and processes are read from their own hierarchies", {
  v1 <- list(
    "proc/self/cgroup" = c("5:memory:/a/b", "4:pids:/a", "3:cpu,cpuacct:/a", "1:name=systemd:/"),
    "sys/fs/cgroup/memory/memory.limit_in_bytes" = "9223372036854771712",
    "sys/fs/cgroup/memory/memory.usage_in_bytes" = "88888888888",
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes" = "4000000000",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes" = "3900000000",
    "sys/fs/cgroup/memory/a/memory.stat" = c("inactive_file 9", "total_inactive_file 1000000000"),
    "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes" = "9223372036854771712",
    "sys/fs/cgroup/memory/a/b/memory.oom_control" = c("oom_kill_disable 0", "oom_kill 6"),
    "sys/fs/cgroup/pids/a/pids.max" = "50", "sys/fs/cgroup/pids/a/pids.current" = "48",
    "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us" = "200000",
    "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us" = "100000",
    "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat" = c("nr_periods 10", "nr_throttled 1")
  )
  found <- examine(made_machine(v1), items = grep("^cgroup", names(doctor_items()), value = TRUE))
  found <- stats::setNames(split(found, found$item), sort(found$item))
  # 2.9 of 4.0 GB
  expect_identical(found$cgroup_memory$verdict, "good")
  expect_match(found$cgroup_memory$value, "3.73 GiB, 72 % used")
  expect_identical(found$cgroup_oom$value, "6 since the group began")
  expect_identical(found$cgroup_pids$verdict, "bad")
  expect_match(found$cgroup_cpu$value, "2 CPUs, throttled in 10 %")
})

test_that("control groups out of sight are unknown", {
  for (line in list("0::/../../x", "nonsense", character())) {
    for (item in c("cgroup_memory", "cgroup_oom", "cgroup_pids", "cgroup_cpu")) {
      found <- examine(made_machine(list("proc/self/cgroup" = line)), items = item)
      expect_identical(found$verdict, "unknown", info = paste(item, line))
    }
  }
})

# ---- memory and files

test_that("memory and swap are judged by what is left", {
  info <- function(available, swap, swap_free) {
    list("proc/meminfo" = paste(
      c("MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:"),
      as.integer(c(100000, available, swap, swap_free)), "kB"
    ))
  }
  expect_verdict("memory", "good", info(10000, 0, 0))
  expect_verdict("memory", "attention", info(9999, 0, 0))
  expect_verdict("memory", "bad", info(2999, 0, 0))
  expect_match(expect_verdict("swap", "good", info(1, 0, 0))$value, "none")
  expect_verdict("swap", "good", info(1, 100, 76))
  expect_verdict("swap", "attention", info(1, 100, 75))
  expect_verdict("swap", "bad", info(1, 100, 25))
  expect_verdict("oom_kills", "good", list("proc/vmstat" = "oom_kill 9"))
  row <- expect_verdict("oom_kills", "attention", list("proc/vmstat" = "oom_kill 11"))
  expect_identical(row$value, "11 in the 10 days since boot")
  today <- list("proc/uptime" = "3600 1", "proc/vmstat" = "oom_kill 1")
  expect_verdict("oom_kills", "attention", today)
})

test_that("/dev/shm is judged by its size and room", {
  shm <- function(size, free) list(disk = function(path) c(size, free, 0, 0))
  judge <- function(verdict, reader) {
    do.call(expect_verdict, c(list("shm", verdict, list()), reader))
  }
  judge("good", shm(64 * 1024^2 + 1, 6e7))
  row <- judge("attention", shm(64 * 1024^2, 6e7))
  expect_match(row$command, "shm-size")
  judge("good", shm(1e9, 1e8))
  judge("attention", shm(1e9, 99999999))
  judge("bad", shm(1e9, 999999))
  root_only <- list("proc/self/mountinfo" = "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
  expect_match(expect_verdict("shm", "attention", root_only)$value, "not mounted")
})

test_that("TMPDIR is judged by room, files, noexec and where it is", {
  disk <- function(free, files = 0.9) list(disk = function(path) c(1e12, free, 1e6, 1e6 * files))
  judge <- function(verdict, reader, changes = list()) {
    do.call(expect_verdict, c(list("tmpdir", verdict, changes), reader))
  }
  judge("good", disk(1e9))
  judge("attention", disk(1e9 - 1))
  judge("bad", disk(1e8 - 1))
  judge("good", disk(1e10, 0.05))
  judge("attention", disk(1e10, 0.049))
  judge("bad", disk(1e10, 0.009))
  mount <- function(options, type, point = "/tmp") {
    list("proc/self/mountinfo" = c(
      "22 1 8:1 / / rw,noexec - ext4 /dev/sda1 rw",
      sprintf("26 22 8:2 / %s %s shared:3 master:1 - %s /dev/x rw", point, options, type)
    ))
  }
  expect_match(judge("good", disk(1e10), mount("rw", "tmpfs"))$value, "tmpfs")
  row <- judge("attention", disk(1e10), mount("rw,nosuid,noexec", "ext4"))
  expect_match(row$value, "ext4, noexec")
  judge("attention", disk(1e10), mount("rw", "nfs4"))
  # The longest mount point counts, whole names alone, the last of the same.
  spaced <- mount("rw", "xfs", "/t\\040m")
  row <- judge("good", c(disk(1e10), tmpdir = "/t m/deep"), spaced)
  expect_match(row$value, "xfs")
  row <- judge("attention", c(disk(1e10), tmpdir = "/tmpfile"), mount("rw", "xfs"))
  expect_match(row$value, "noexec")
  row <- judge("good", disk(1e10), list("proc/self/mountinfo" = NA))
  expect_identical(row$verdict, "good")
})

# ---- machine

test_that("CPUs, load and the kernel are judged", {
  row <- expect_verdict("cpus", "attention", cores = function() c(cgroups2.cpu.max = 3L))
  expect_identical(row$value, "4, availableCores() is 3 (cgroups2.cpu.max)")
  expect_verdict("cpus", "good")
  load <- function(x) list("proc/loadavg" = paste(x, "1.0 1.0 1/100 5"))
  expect_verdict("load", "good", load("5.99"))
  expect_verdict("load", "attention", load("6.00"))
  expect_verdict("load", "bad", load("16.00"))
  row <- expect_verdict("kernel", "attention", features = function() c(pidfd = FALSE, memfd = TRUE))
  expect_match(row$value, "6.1.0-18-amd64, without pidfd")
  row <- expect_verdict("kernel", "attention", built_with = function() {
    c(epoll = FALSE, fork = FALSE, proc = TRUE)
  })
  expect_identical(row$value, "built without epoll, fork")
  expect_match(row$command, "without -DMST_PORTABLE")
})

# ---- R

test_that("threads of libraries are judged by cores", {
  threads <- function(n) list(threads = function() c(1L, n))
  judge <- function(verdict, n) {
    do.call(expect_verdict, c(list("threads", verdict, list()), threads(n)))
  }
  judge("good", 0L)
  judge("good", 4L)
  expect_identical(judge("attention", 5L)$command, "export OMP_NUM_THREADS=4 # before R starts")
  judge("attention", 16L)
  judge("bad", 17L)
  row <- expect_verdict("threads", "good", variables = function() c(OMP_NUM_THREADS = "2"))
  expect_match(row$value, "OMP_NUM_THREADS=2")
})

test_that("packages, threads and RStudio make fork unsafe, each with its reason", {
  row <- expect_verdict("fork", "attention", loaded = function() c("base", "rJava", "tcltk"))
  expect_match(row$value, "rJava: a Java virtual machine.*; tcltk: ")
  expect_verdict("fork", "attention", threads = function() c(2L, 1L))
  expect_verdict("fork", "attention", variables = function() c(RSTUDIO = "1"))
  expect_verdict("fork", "good", threads = function() c(-1L, -1L))
  expect_true(all(not_preloaded %in% names(fork_hazards)))
})

test_that("ssh and schedulers are found by their programs and their jobs", {
  programs <- function(...) {
    function(names) stats::setNames(ifelse(names %in% c(...), paste0("/bin/", names), ""), names)
  }
  expect_verdict("ssh", "attention", programs = programs())
  row <- expect_verdict("ssh", "good", programs = programs("ssh"),
    variables = function() c(SSH_AUTH_SOCK = "/tmp/agent"))
  expect_identical(row$value, "/bin/ssh, with an agent")
  expect_identical(expect_verdict("schedulers", "good", programs = programs())$value, "none")
  row <- expect_verdict("schedulers", "good", programs = programs("sbatch", "qsub"),
    variables = function() c(SLURM_JOB_ID = "7"))
  expect_identical(row$value, "Slurm (sbatch), this session is one of its jobs; PBS (qsub)")
  row <- expect_verdict("schedulers", "attention", variables = function() c(LSB_JOBID = "7"))
  expect_identical(row$value, "LSF, this session is one of its jobs")
  row <- expect_verdict("schedulers", "good", programs = programs("qsub"),
    variables = function() c(SGE_TASK_ID = "1"))
  expect_identical(row$value, "SGE (qsub), this session is one of its jobs")
})

# ---- leftovers

process_files <- function(pid, words, began, ids = pid, state = "S") {
  stats::setNames(list(
    paste(words, collapse = "\n"), c("Name:\tR", paste0("NSpid:\t", paste(ids, collapse = "\t"))),
    paste0(pid, " (R) ", state, " 1 ", paste(rep(0, 17), collapse = " "), " ", began, " 0 0")
  ), paste0("proc/", pid, "/", c("cmdline", "status", "stat")))
}

worker_words <- function(session, role = "server") {
  c("R", "--no-echo", "--file=/lib/muster/boot.R", "--args", role, session, "", "/lib")
}

test_that("a worker whose session is gone, or whose id is another's now, is left over", {
  worker <- process_files(200, worker_words(100), began = 5000)
  row <- expect_verdict("leftover", "attention", worker)
  expect_identical(row$value, "200 (of session 100)")
  expect_identical(row$command, "kill -KILL 200")
  expect_verdict("leftover", "good", c(worker, process_files(100, "R", began = 4000)))
  expect_verdict("leftover", "good", c(worker, process_files(100, "R", began = 5000)))
  expect_verdict("leftover", "attention", c(worker, process_files(100, "sh", began = 5001)))
  expect_verdict("leftover", "attention", c(worker, process_files(100, "R", 4000, state = "Z")))
  # In a container its session has another id here.
  expect_verdict("leftover", "good", process_files(200, worker_words(100), 5000, ids = c(200, 9)))
  expect_verdict("leftover", "attention", process_files(200, worker_words(100, "worker"), 5000))
  others <- list(worker_words("x"), worker_words(100, "cat"), "boot.R", c("boot.R", "--args"))
  for (words in others) {
    expect_verdict("leftover", "good", process_files(200, words, 5000))
  }
})
