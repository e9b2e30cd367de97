# The limits of all kinds that are set, and the least of them.
cgroup_limits <- function(proc, sys) {
  machine <- cores_machine(proc, sys)
  limits <- cores_counts(sapply(cgroup_methods, cores_cgroup, machine = machine, simplify = FALSE))
  limits[!is.na(limits)]
}

cgroup_least <- function(proc, sys) {
  limits <- cgroup_limits(proc, sys)
  if (length(limits)) min(limits) else NA_integer_
}

expect_cgroup <- function(files, expected) {
  with_cores_tree(files, function(proc, sys, cpu) {
    expect_silent(count <- cgroup_least(proc, sys))
    expect_identical(count, expected)
  })
}

v1 <- c("4:cpuset:/a/b", "3:cpu,cpuacct:/a/b", "2:memory:/a", "1:name=systemd:/x")
v2 <- "0::/a/b"

# A list of files for a quota of v1 in one cgroup.
quota_v1 <- function(dir, quota, period = "100000") {
  stats::setNames(
    list(quota, period), file.path(dir, c("cpu.cfs_quota_us", "cpu.cfs_period_us"))
  )
}

test_that("v1: the quota of the own cgroup counts", {
  files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu/a/b", "400000"))
  expect_cgroup(files, 4L)
})

test_that("v1: the controllers' joint mount is found without the link named cpu", {
  files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu,cpuacct/a/b", "300000"))
  expect_cgroup(files, 3L)
})

test_that("v1: -1 is no limit, and neither is what can't be a quota", {
  for (quota in c("-1", "0", "max", "", "1e5", "99999999999999999999")) {
    files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu/a/b", quota))
    expect_cgroup(files, NA_integer_)
  }
  for (period in c("0", "-1", "", "x")) {
    files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu/a/b", "200000", period))
    expect_cgroup(files, NA_integer_)
  }
})

test_that("v1: a quota whose period is missing or unreadable is no limit", {
  expect_cgroup(
    list("proc/self/cgroup" = v1, "sys/cpu/a/b/cpu.cfs_quota_us" = "200000"), NA_integer_
  )
  expect_cgroup(list(
    "proc/self/cgroup" = v1, "sys/cpu/a/b/cpu.cfs_quota_us" = "200000",
    "sys/cpu/a/b/cpu.cfs_period_us" = NULL
  ), NA_integer_)
})

test_that("v1: the least quota of all levels counts, wherever it is", {
  levels <- c("sys/cpu", "sys/cpu/a", "sys/cpu/a/b")
  for (tight in seq_along(levels)) {
    files <- list("proc/self/cgroup" = v1)
    for (level in seq_along(levels)) {
      files <- c(files, quota_v1(levels[level], if (level == tight) "200000" else "600000"))
    }
    expect_cgroup(files, 2L)
  }
})

test_that("v1: cgroups beside or below the own one don't count", {
  files <- c(
    list("proc/self/cgroup" = v1), quota_v1("sys/cpu/a/b", "500000"),
    quota_v1("sys/cpu/a/b/c", "100000"), quota_v1("sys/cpu/a/other", "100000")
  )
  expect_cgroup(files, 5L)
})

test_that("v1: the CPU set counts, the one in force before the one asked for", {
  expect_cgroup(list(
    "proc/self/cgroup" = v1, "sys/cpuset/a/b/cpuset.cpus" = "0-3,8,10-11"
  ), 7L)
  expect_cgroup(list(
    "proc/self/cgroup" = v1, "sys/cpuset/a/b/cpuset.cpus" = "0-3,8,10-11",
    "sys/cpuset/a/b/cpuset.effective_cpus" = "0-1"
  ), 2L)
})

test_that("v1: an empty or unreadable CPU set is passed over for that of the level above", {
  for (lines in list("", character(), "junk", NULL)) {
    files <- list("proc/self/cgroup" = v1, "sys/cpuset/a/cpuset.cpus" = "0-2")
    files["sys/cpuset/a/b/cpuset.cpus"] <- list(lines)
    expect_cgroup(files, 3L)
  }
})

test_that("v1: the lesser of quota and CPU set counts", {
  set <- list("proc/self/cgroup" = v1, "sys/cpuset/a/b/cpuset.cpus" = "0-3")
  expect_cgroup(c(set, quota_v1("sys/cpu/a/b", "200000")), 2L)
  expect_cgroup(c(set, quota_v1("sys/cpu/a/b", "800000")), 4L)
})

test_that("v2: cpu.max counts, and max is no limit", {
  expect_cgroup(list("proc/self/cgroup" = v2, "sys/a/b/cpu.max" = "300000 100000"), 3L)
  expect_cgroup(list("proc/self/cgroup" = v2, "sys/a/b/cpu.max" = "max 100000"), NA_integer_)
})

test_that("v2: what can't be a quota is no limit", {
  wrong <- list(
    "", "max", "200000", "200000 0", "0 100000", "-1 100000", "200000 100000 1", "a b", character(),
    c("200000 100000", "100000 100000"), NULL
  )
  for (lines in wrong) {
    files <- list("proc/self/cgroup" = v2)
    files["sys/a/b/cpu.max"] <- list(lines)
    expect_cgroup(files, NA_integer_)
  }
})

test_that("v2: the CPU set in force counts", {
  expect_cgroup(list(
    "proc/self/cgroup" = v2, "sys/a/b/cpuset.cpus.effective" = "0-3,8,10-11"
  ), 7L)
})

test_that("v2: the least of all levels counts, also where the own cgroup says max", {
  expect_cgroup(list(
    "proc/self/cgroup" = v2, "sys/a/b/cpu.max" = "max 100000", "sys/a/cpu.max" = "150000 50000",
    "sys/cpuset.cpus.effective" = "0-7"
  ), 3L)
  expect_cgroup(list(
    "proc/self/cgroup" = v2, "sys/a/b/cpu.max" = "900000 100000",
    "sys/a/cpuset.cpus.effective" = "4-5", "sys/cpuset.cpus.effective" = "0-7"
  ), 2L)
})

test_that("v2: the limits of a container's root count, as its own path is \"/\"", {
  expect_cgroup(list("proc/self/cgroup" = "0::/", "sys/cpu.max" = "200000 100000"), 2L)
})

test_that("quotas are rounded, but one CPU always counts", {
  cases <- list(
    list("140000 100000", 1L), list("150000 100000", 2L), list("249999 100000", 2L),
    list("250000 100000", 3L),
    list("50000 100000", 1L), list("1000 1000000", 1L), list("100000 100000", 1L),
    list("999999999999999 1", .Machine$integer.max)
  )
  for (case in cases) {
    expect_cgroup(list("proc/self/cgroup" = v2, "sys/a/b/cpu.max" = case[[1L]]), case[[2L]])
    fields <- strsplit(case[[1L]], " ")[[1L]]
    files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu/a/b", fields[1L], fields[2L]))
    expect_cgroup(files, case[[2L]])
  }
})

test_that("hybrid: v1 and v2 hierarchies count together", {
  hybrid <- c(v1, v2)
  v1_files <- c(list("proc/self/cgroup" = hybrid), quota_v1("sys/cpu/a/b", "400000"))
  expect_cgroup(c(v1_files, list("sys/unified/a/b/cpuset.cpus.effective" = "0-1")), 2L)
  expect_cgroup(c(v1_files, list("sys/unified/a/b/cpu.max" = "800000 100000")), 4L)
  expect_cgroup(c(v1_files, list("sys/unified/cgroup.controllers" = "")), 4L)
})

test_that("v2: a cgroup that is named unified isn't taken for the mount point", {
  expect_cgroup(list(
    "proc/self/cgroup" = v2, "sys/cgroup.controllers" = "cpuset cpu",
    "sys/a/b/cpu.max" = "300000 100000", "sys/unified/a/b/cpu.max" = "100000 100000"
  ), 3L)
})

test_that("each kind of limit is told by parallelly's name", {
  files <- c(
    list(
      "proc/self/cgroup" = c(v1, v2), "sys/cpuset/a/b/cpuset.cpus" = "0-6",
      "sys/unified/a/b/cpuset.cpus.effective" = "0-5", "sys/unified/a/b/cpu.max" = "500000 100000"
    ),
    quota_v1("sys/cpu/a/b", "400000")
  )
  with_cores_tree(files, function(proc, sys, cpu) {
    expect_identical(cgroup_limits(proc, sys), c(
      cgroups.cpuset = 7L, cgroups.cpuquota = 4L,
      cgroups2.cpuset.cpus.effective = 6L, cgroups2.cpu.max = 5L
    ))
  })
})

test_that("missing, empty, unreadable and malformed lists of cgroups say nothing", {
  limit <- list("sys/cpu.max" = "100000 100000", "sys/a/b/cpu.max" = "100000 100000")
  expect_cgroup(limit, NA_integer_)
  for (lines in list(character(), "", "0:/a/b", "x::/a/b", "0::", "0::a/b", NULL)) {
    files <- limit
    files["proc/self/cgroup"] <- list(lines)
    expect_cgroup(files, NA_integer_)
  }
  expect_cgroup(list("proc/self/cgroup" = c(v1, v2)), NA_integer_)
})

test_that("neither /proc nor /sys need be there", {
  none <- tempfile("cores-none-")
  expect_silent(count <- cgroup_least(none, none))
  expect_identical(count, NA_integer_)
  with_cores_tree(list("proc/self/cgroup" = c(v1, v2)), function(proc, sys, cpu) {
    expect_identical(cgroup_least(proc, none), NA_integer_)
  })
})

test_that("a path may hold colons, blanks and the note that its cgroup is gone", {
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/a:b/c d", "sys/a:b/c d/cpu.max" = "300000 100000"
  ), 3L)
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/a/b (deleted)", "sys/a/cpu.max" = "300000 100000"
  ), 3L)
})

test_that("a cgroup named in bytes that this locale can't read does no harm to the others", {
  files <- c(list("proc/self/cgroup" = ""), quota_v1("sys/cpu/a/b", "200000"))
  with_cores_tree(files, function(proc, sys, cpu) {
    con <- file(file.path(proc, "self", "cgroup"), "wb")
    writeBin(c(charToRaw("0::/"), as.raw(c(0xff, 0xfe, 0x0a))), con)
    writeBin(charToRaw(paste0(v1, "\n", collapse = "")), con)
    close(con)
    expect_silent(count <- cgroup_least(proc, sys))
    expect_identical(count, 2L)
  })
})

test_that("cgroups out of sight are passed over, those above them in sight count", {
  files <- c(list("proc/self/cgroup" = v1), quota_v1("sys/cpu", "200000"))
  expect_cgroup(files, 2L)
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/a/b/c/d", "sys/a/cpu.max" = "200000 100000"
  ), 2L)
})

test_that("a process outside its cgroup namespace isn't bound by the namespace's root", {
  limit <- list("sys/cpu.max" = "100000 100000", "sys/b/cpu.max" = "100000 100000")
  for (path in c("0::/..", "0::/../b", "0::/b/../..")) {
    expect_cgroup(c(limit, list("proc/self/cgroup" = path)), NA_integer_)
  }
})

mountinfo_line <- function(root, point, type, options) {
  paste("31 23 0:29", root, point, "rw,relatime shared:9 -", type, type, options)
}

test_that("mountinfo tells which part of a hierarchy a container sees", {
  mounts <- c(
    "23 1 8:1 / / rw - ext4 /dev/root rw",
    mountinfo_line("/docker/c1", "{sys}/memory", "cgroup", "rw,memory"),
    mountinfo_line("/docker/c1", "{sys}/cpu", "cgroup", "rw,cpu,cpuacct")
  )
  files <- c(
    list("proc/self/cgroup" = "3:cpu,cpuacct:/docker/c1/job", "proc/self/mountinfo" = mounts),
    quota_v1("sys/cpu", "400000"), quota_v1("sys/cpu/job", "200000")
  )
  expect_cgroup(files, 2L)
  files[["proc/self/cgroup"]] <- "3:cpu,cpuacct:/docker/c1"
  expect_cgroup(files, 4L)
})

test_that("mountinfo tells unusual mount points, and the first that holds the cgroup is taken", {
  mounts <- c(
    mountinfo_line("/else", "{sys}/odd/first", "cgroup2", "rw"),
    mountinfo_line("/", "{sys}/odd/second", "cgroup2", "rw"),
    mountinfo_line("/", "{sys}/odd/third", "cgroup2", "rw")
  )
  expect_cgroup(list(
    "proc/self/cgroup" = v2, "proc/self/mountinfo" = mounts,
    "sys/odd/second/a/b/cpu.max" = "300000 100000", "sys/odd/third/a/b/cpu.max" = "100000 100000"
  ), 3L)
})

test_that("mountinfo leads to a cgroup outside the namespace, and its escapes are undone", {
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/../job\\x2d1",
    "proc/self/mountinfo" = mountinfo_line("/..", "{sys}/host\\040part", "cgroup2", "rw"),
    "sys/host part/job\\x2d1/cpu.max" = "300000 100000"
  ), 3L)
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/job\\x2d1/a",
    "proc/self/mountinfo" = mountinfo_line("/job\\134x2d1", "{sys}/part", "cgroup2", "rw"),
    "sys/part/a/cpu.max" = "300000 100000"
  ), 3L)
})

test_that("a mount of another part that only starts alike isn't taken", {
  expect_cgroup(list(
    "proc/self/cgroup" = "0::/job10/a",
    "proc/self/mountinfo" = mountinfo_line("/job1", "{sys}/part", "cgroup2", "rw"),
    "sys/part/0/a/cpu.max" = "100000 100000", "sys/part/cpu.max" = "100000 100000"
  ), NA_integer_)
})

test_that("an unreadable or malformed mountinfo says nothing", {
  for (lines in list(NULL, "", " - cgroup2 ", "31 23 - cgroup2 cgroup2 rw")) {
    files <- list("proc/self/cgroup" = v2, "sys/cpu.max" = "300000 100000")
    files["proc/self/mountinfo"] <- list(lines)
    expect_cgroup(files, 3L)
  }
})

test_that("this machine's cgroups are read without a word", {
  expect_silent(count <- cgroup_least("/proc", "/sys/fs/cgroup"))
  expect_true(is.integer(count) && length(count) == 1L && (is.na(count) || count >= 1L))
})
