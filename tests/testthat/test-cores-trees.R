# Trees of foreign machines: made up after what container engines and schedulers set up, and
# those of real machines that parallelly comes with.

mounts_v2 <- "cgroup2 {sys} cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0"
mounts_v1 <- c(
  "cgroup {sys}/cpuset cgroup rw,cpuset 0 0", "cgroup {sys}/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0",
  "cgroup {sys}/memory cgroup rw,memory 0 0"
)

# A control group's files. v1: dir is that of the controller.
v1_quota <- function(dir, quota) {
  stats::setNames(
    list(format(quota, scientific = FALSE), "100000"),
    file.path("sys/cpu,cpuacct", dir, c("cpu.cfs_quota_us", "cpu.cfs_period_us"))
  )
}
v1_set <- function(dir, set) {
  stats::setNames(
    list(set, set), file.path("sys/cpuset", dir, c("cpuset.cpus", "cpuset.effective_cpus"))
  )
}
v2_group <- function(dir, max = "max", effective, cpus = "") {
  names <- c("cpu.max", "cpuset.cpus.effective", "cpuset.cpus")
  stats::setNames(list(paste(max, "100000"), effective, cpus), file.path("sys", dir, names))
}

docker <- "/docker/0123abc"
job <- "/system.slice/slurmstepd.scope/job_7"
pod <- "/kubepods.slice/kubepods-pod1.slice/cri-1.scope"

# Each tree: files, the limits in the order of cgroup_methods, and parallelly's where
# they differ.
trees <- list(
  "no control groups" = list(files = list("proc/self/mounts" = "proc /proc proc rw 0 0"),
    limits = c(NA, NA, NA, NA, NA)
  ),
  "docker, v1, its own groups mounted as roots" = list(
    files = c(list(
      "proc/self/mounts" = mounts_v1,
      "proc/self/cgroup" = c(paste0("4:cpuset:", docker), paste0("3:cpu,cpuacct:", docker)),
      "proc/self/mountinfo" = c(
        paste("1 2 0:3", docker, "{sys}/cpuset ro - cgroup cgroup rw,cpuset"),
        paste("1 2 0:4", docker, "{sys}/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct")
      )
    ), v1_quota("", 250000), v1_set("", "0-5")),
    limits = c(6, 3, NA, NA, NA)
  ),
  "docker, v2, in a namespace of its own" = list(
    files = c(
      list("proc/self/mounts" = mounts_v2, "proc/self/cgroup" = "0::/"),
      v2_group("", "150000", "0-7")
    ),
    limits = c(NA, NA, NA, 8, 2)
  ),
  "kubernetes, v2, the pod's limit below the container's" = list(
    files = c(
      list("proc/self/mounts" = mounts_v2, "proc/self/cgroup" = paste0("0::", pod)),
      v2_group(dirname(pod), "200000", "0-15"), v2_group(pod, "400000", "0-15")
    ),
    limits = c(NA, NA, NA, 16, 2), peer = c(NA, NA, NA, 16, 4)
  ),
  "Slurm, v1" = list(
    files = c(list(
      "proc/self/mounts" = mounts_v1,
      "proc/self/cgroup" = c("4:cpuset:/slurm/uid_5/job_7/step_0", "3:cpu,cpuacct:/system.slice")
    ), v1_set("", "0-39"), v1_set("slurm/uid_5/job_7", "4-7"),
    v1_set("slurm/uid_5/job_7/step_0", "4-7"), v1_quota("", -1), v1_quota("system.slice", -1)),
    limits = c(4, NA, NA, NA, NA)
  ),
  "Slurm, v2, the job's set and quota above the step and the task" = list(
    files = c(
      list(
        "proc/self/mounts" = mounts_v2, "sys/cpuset.cpus.effective" = "0-63",
        "proc/self/cgroup" = paste0("0::", job, "/step_0/user/task_0")
      ),
      v2_group(job, "max", "8-15", "8-15"), v2_group(file.path(job, "step_0"), "600000", "8-15"),
      v2_group(file.path(job, "step_0/user"), "max", "8-15"),
      v2_group(file.path(job, "step_0/user/task_0"), "max", "8-15")
    ),
    limits = c(NA, NA, 8, 8, 6), peer = c(NA, NA, NA, 8, NA)
  ),
  "systemd, a user's slice with CPUQuota" = list(
    files = c(
      list(
        "proc/self/mounts" = mounts_v2,
        "proc/self/cgroup" = "0::/user.slice/user-1000.slice/session-3.scope",
        "sys/cpuset.cpus.effective" = "0-31", "sys/user.slice/cpu.max" = "max 100000"
      ),
      v2_group("user.slice/user-1000.slice", "1200000", "0-31"),
      list("sys/user.slice/user-1000.slice/session-3.scope/cgroup.procs" = "1")
    ),
    limits = c(NA, NA, NA, 32, 12)
  ),
  "LXC, v1" = list(
    files = c(list(
      "proc/self/mounts" = mounts_v1,
      "proc/self/cgroup" = c("4:cpuset:/lxc/web", "3:cpu,cpuacct:/lxc/web", "2:memory:/lxc/web")
    ), v1_set("", "0-15"), v1_set("lxc", "0-15"), v1_set("lxc/web", "2,5,9-10"),
    v1_quota("lxc/web", -1)),
    limits = c(4, NA, NA, NA, NA)
  ),
  "LXC, v2" = list(
    files = c(
      list("proc/self/mounts" = mounts_v2, "proc/self/cgroup" = "0::/.lxc"),
      v2_group("", "max", "0-3", "0-3"), v2_group(".lxc", "max", "0-3")
    ),
    limits = c(NA, NA, 4, 4, NA), peer = c(NA, NA, NA, 4, NA)
  ),
  "hybrid, v1 controllers beside a v2 hierarchy without any" = list(
    files = c(list(
      "proc/self/mounts" = c(sub("{sys}", "{sys}/unified", mounts_v2, fixed = TRUE), mounts_v1),
      "proc/self/cgroup" = c("4:cpuset:/", "3:cpu,cpuacct:/job", "0::/system.slice/x.service"),
      "sys/unified/system.slice/x.service/cgroup.procs" = "1", "sys/unified/cgroup.controllers" = ""
    ), v1_set("", "0-7"), v1_quota("job", 350000)),
    limits = c(8, 4, NA, NA, NA)
  )
)

expected_limits <- function(limits) stats::setNames(as.integer(limits), cgroup_methods)

read_limits <- function(proc, sys) {
  machine <- cores_machine(proc, sys)
  vapply(cgroup_methods, function(kind) cores_cgroup(machine, kind)$count, 1L)
}

peer_limits <- function(proc) {
  count <- cores_oracle()
  with_oracle_tree(count(methods = cgroup_methods, na.rm = FALSE, which = "all"), proc)
}

for (name in names(trees)) {
  test_that(paste0("limits are read: ", name), {
    with_cores_tree(trees[[name]]$files, function(proc, sys, cpu) {
      expect_silent(limits <- read_limits(proc, sys))
      expect_identical(limits, expected_limits(trees[[name]]$limits))
    })
  })
  test_that(paste0("limits are parallelly's, but for nested groups: ", name), {
    with_cores_tree(trees[[name]]$files, function(proc, sys, cpu) {
      peer <- trees[[name]]$peer
      if (is.null(peer)) {
        peer <- trees[[name]]$limits
      }
      expect_identical(peer_limits(proc), expected_limits(peer))
    })
  })
}

test_that("availableCores() reads a tree wherever it is, and reasons name its files", {
  files <- c(trees[["Slurm, v2, the job's set and quota above the step and the task"]]$files, list(
    "cpu/online" = "0-63", "proc/self/status" = "Cpus_allowed_list:\t8-15"
  ))
  with_cores_tree(files, function(proc, sys, cpu) {
    with_cores_settings(with_cores_places(proc = proc, sys = sys, cpu = cpu, {
      expect_identical(availableCores(which = "all"), c(
        system = 64L, "/proc/self/status" = 8L, cgroups2.cpuset.cpus = 8L,
        cgroups2.cpuset.cpus.effective = 8L, cgroups2.cpu.max = 6L, nproc = 8L
      ))
      expect_identical(availableCores(), c(cgroups2.cpu.max = 6L))
      reason <- cores_report(methods = "cgroups2.cpu.max")$reason
      expect_match(reason, "step_0/cpu.max", fixed = TRUE)
      expect_match(reason, "600000 of each 100000 us, 6 CPUs", fixed = TRUE)
    }))
  })
})

# Lets the mount points of control groups be below a directory.
move_mounts <- function(file, dir) {
  if (!file.exists(file)) {
    return(invisible())
  }
  fields <- strsplit(readLines(file), " ", fixed = TRUE)
  lines <- vapply(fields, function(x) {
    if (length(x) > 2L && grepl("^cgroup", x[3L])) {
      x[2L] <- paste0(dir, x[2L])
    }
    paste(x, collapse = " ")
  }, "")
  writeLines(lines, file)
}

test_that("limits of real machines are parallelly's", {
  skip_if_not_installed("parallelly", "1.48.0")
  root <- system.file("test-data", package = "parallelly")
  archives <- list.files(root, "[.]tar[.]gz$", recursive = TRUE, full.names = TRUE)
  skip_if(!length(archives), "this parallelly comes without trees")
  some <- 0L
  for (archive in archives) {
    dir <- tempfile("cores-real-")
    dir.create(dir)
    utils::untar(archive, exdir = dir, tar = "internal")
    proc <- file.path(dir, "proc")
    move_mounts(file.path(proc, "self", "mounts"), dir)
    limits <- suppressWarnings(read_limits(proc, file.path(dir, "sys/fs/cgroup")))
    expect_identical(limits, suppressWarnings(peer_limits(proc)), info = basename(archive))
    some <- some + sum(!is.na(limits))
    unlink(dir, recursive = TRUE)
  }
  expect_gt(some, 0L)
})
