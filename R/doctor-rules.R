# The rules of the verdicts, for the help page: item, attention, bad. A test compares the names with
# the items; the numbers are in their functions.

doctor_rules <- function() {
  list(
    somaxconn = c(
      "`net.core.somaxconn`",
      "below 4096; below 16384 where a queue overflowed whose limit it is", "128 or less"
    ),
    tcp_max_syn_backlog = c(
      "`net.ipv4.tcp_max_syn_backlog`",
      "below 1024; below 65536 where the queue was full", "128 or less"
    ),
    tcp_syncookies = c("`net.ipv4.tcp_syncookies`", "not 1", ""),
    tcp_fin_timeout = c(
      "`net.ipv4.tcp_fin_timeout`, seconds",
      "above 60; above 30 where a tenth of the ports is in use", ""
    ),
    tcp_abort_on_overflow = c("`net.ipv4.tcp_abort_on_overflow`", "not 0", ""),
    listen_overflows = c(
      "connections that met a full accept queue",
      "100 a day since boot; a listener that runs now dropped some", "it grew"
    ),
    listen_drops = c(
      "connections that listeners dropped",
      "100 a day since boot; a listener that runs now dropped some", "it grew"
    ),
    syn_queue_full = c("handshakes that met a full queue", "100 a day since boot", "it grew"),
    listen_queues = c("each listener's queue against its backlog", "half full", "full"),
    retransmits = c(
      "segments sent again, of 1,000 or more (of `interval`, else since boot)",
      "1 %", "5 %"
    ),
    ports = c(
      "ephemeral ports",
      "fewer than 10,000; half in use", "fewer than 1,000; 90 % in use"
    ),
    neighbours = c(
      "neighbour tables, IPv4 and IPv6",
      "limit below 512; half full; full 100 times a day since boot", "90 % full"
    ),
    card = c(
      "scatter-gather and related settings, errors",
      "0.01 % of packets with errors; 1 % of segments sent again", ""
    ),
    loopback = c("interface `lo`", "", "down"),
    localhost = c("`/etc/hosts`", "has no `localhost`, or another address for it", ""),
    open_files = c(
      "descriptors, at 3 for each worker",
      "room for fewer than 256 workers", "for fewer than `availableCores()`"
    ),
    system_files = c("open files of the whole machine", "70 % of the limit", "90 %"),
    processes = c(
      "processes and threads left, as far as known",
      "fewer than 512, or 2 for each core", "fewer than 16 and 2 for each core"
    ),
    address_space = c("`ulimit -v`", "any limit", "below 4 GiB"),
    max_map_count = c(
      "`vm.max_map_count`, and memory mappings of this process",
      "below 65530; half in use", "90 % in use"
    ),
    cgroup_cpu = c(
      "quota, throttled periods (of `interval`, else since the group began)",
      "5 %", "50 %"
    ),
    cgroup_memory = c(
      "limit of the tightest group",
      "80 % used; less than 256 MiB a core", "95 % used"
    ),
    cgroup_oom = c("processes killed in the group for lack of memory", "any", "it grew"),
    cgroup_pids = c(
      "processes that the group may have",
      "fewer than 128 left, or 2 for each core", "fewer than 16 and 2 for each core"
    ),
    memory = c("available memory", "below 10 %", "below 3 %"),
    swap = c("swap in use", "25 %", "75 %"),
    oom_kills = c(
      "processes killed on the machine for lack of memory",
      "one a day since boot", "it grew"
    ),
    shm = c("`/dev/shm`", "64 MiB or less; below 10 % free; not mounted", "below 1 MB free"),
    tmpdir = c(
      "where temporary directories are",
      "below 1 GB or 5 % of files free; `noexec`; on a network", "below 100 MB or 1 % of files"
    ),
    kernel = c(
      "pidfd and memfd, by trying, and what muster was built to do without", "one is missing", ""
    ),
    cpus = c("CPUs of the machine and [availableCores()]", "not all may be used", ""),
    load = c("load of a minute for each CPU", "1.5", "4"),
    threads = c(
      "threads that BLAS and OpenMP use in this session",
      "more than cores", "over 4 times as many"
    ),
    fork = c(
      "loaded packages, threads and GUI that make `fork()` of this session unsafe",
      "any", ""
    ),
    ssh = c("program `ssh`", "not found", ""),
    schedulers = c(
      "Slurm, PBS, SGE, LSF, HTCondor, Kubernetes",
      "in a job whose programs aren't found", ""
    ),
    leftover = c("workers whose session is gone, by their command lines", "any", "")
  )
}

# The same as a markdown table.
doctor_rules_table <- function() {
  rules <- doctor_rules()
  rows <- vapply(rules, paste, "", collapse = " | ")
  paste(c(
    "| item | what is looked at | attention | bad |", "| --- | --- | --- | --- |",
    paste0("| `", names(rules), "` | ", rows, " |")
  ), collapse = "\n")
}
