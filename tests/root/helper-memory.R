# Control groups of this system that limit memory.

# A group of processes with this much memory, for `wrap` of run_session().
local_memory_group <- function(bytes, frame = parent.frame()) {
  skip_unless_root()
  name <- basename(tempfile("muster-test-"))
  v1 <- dir.exists("/sys/fs/cgroup/memory")
  group <- file.path("/sys/fs/cgroup", if (v1) "memory", name)
  skip_if_not(dir.create(group, showWarnings = FALSE), "can't make a control group here")
  # Only the kernel's files are in it, which go with it.
  defer(function() wait_until(system2("rmdir", group) == 0L, 10, fail = FALSE), frame)
  limit <- file.path(group, if (v1) "memory.limit_in_bytes" else "memory.max")
  set <- tryCatch(
    {
      suppressWarnings(writeLines(sprintf("%.0f", bytes), limit))
      TRUE
    },
    error = function(e) FALSE
  )
  skip_if_not(set, "can't limit the memory of a control group here")
  code <- sprintf("echo $$ > %s/cgroup.procs && exec \"$@\"", group)
  list(wrap = c("sh", "-c", code, "sh"), folder = group, v1 = v1)
}

# What a session told, with its status and its output. The session's process has a socket here
# until R collects it, and R has little reason to.
run_in_group <- function(group, code) {
  run <- run_session(wrap = group$wrap, timeout_s = 180, code)
  list(status = run$status, told = run$told, text = describe_run(run))
}
