# What do workers on hosts cost that ssh leads to?
#
# An sshd of the benchmark's own on the loopback; node1 to node4 are names for it. Starts: one
# session starts 64 workers on node1, the first cluster there each time, until all have answered;
# parallelly starts one ssh a worker. Calls: clusterCall() of a function that does nothing on one
# worker; the limit is one byte there and back through `ssh node1 cat`, plus a local call. Data:
# clusterExport() of 100 MB to four hosts of 4 workers; the limit is `cat >/dev/null` over four ssh
# at once, of the same bytes from a file, without the time that they take to log in.
#
# Both ends share the machine's processors, and no packet leaves it: so this measures what
# programs cost, not networks.

measure <- function(quick) {
  lacks <- sshd_lacks()
  if (nzchar(lacks)) {
    return(list(
      raw = NULL, rows = left_out("hosts by ssh", paste0("left out: ", lacks)),
      notes = character()
    ))
  }
  there <- sshd_start()
  on.exit(there$end())
  raw <- rbind(
    measure_host_starts(there, quick), measure_host_calls(there, quick),
    measure_host_data(there, quick)
  )
  list(raw = raw, rows = host_rows(raw), notes = character())
}

# ---- An sshd ---------------------------------------------------------------------------

sshd_path <- function() {
  paths <- c(unname(Sys.which("sshd")), "/usr/sbin/sshd")
  c(paths[file.exists(paths)], "")[1L]
}

sshd_lacks <- function() {
  if (!nzchar(sshd_path())) {
    "no sshd"
  } else if (!all(nzchar(Sys.which(c("ssh", "ssh-keygen"))))) {
    "no ssh"
  } else if (!is_here("parallelly")) {
    "parallelly isn't installed"
  } else {
    ""
  }
}

# list(config: ssh's, end()). It logs this user in with a key of its own.
sshd_start <- function() {
  dir <- tempfile("sshd-")
  dir.create(dir, mode = "0700")
  made <- !dir.exists("/run/sshd") && dir.create("/run/sshd", showWarnings = FALSE)
  at <- function(name) file.path(dir, name)
  for (key in c("host", "user")) {
    system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", at(key)))
  }
  port <- parallelly::freePort(20000:30000)
  writeLines(c(
    paste("Port", port), "ListenAddress 127.0.0.1", paste("HostKey", at("host")),
    paste("AuthorizedKeysFile", at("user.pub")), paste("PidFile", at("pid")), "StrictModes no",
    "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password", "MaxStartups 200"
  ), at("sshd_config"))
  writeLines(c(
    "Host node*", "  HostName 127.0.0.1", paste("  Port", port),
    paste("  IdentityFile", at("user")),
    "  IdentitiesOnly yes", "  StrictHostKeyChecking no", "  LogLevel ERROR",
    paste("  UserKnownHostsFile", at("known"))
  ), at("config"))
  system2(sshd_path(), c("-f", at("sshd_config"), "-E", at("log")))
  login <- paste("-F", at("config"), "node1 true")
  ready <- FALSE
  for (try in 1:50) {
    ready <- system2("ssh", login, stderr = FALSE) == 0L
    if (ready) break
    Sys.sleep(0.1)
  }
  if (!ready) stop("sshd doesn't let this user in: ", paste(readLines(at("log")), collapse = "\n"))
  list(config = at("config"), end = function() {
    tools::pskill(as.integer(readLines(at("pid"))))
    unlink(dir, recursive = TRUE)
    if (made) unlink("/run/sshd", recursive = TRUE)
  })
}

host_start <- list(
  muster = function(there, hosts, workers) {
    libraries <- paste(.libPaths(), collapse = ":")
    muster::cluster_start(muster::launch_ssh(hosts, workers,
      prologue = paste0("export R_LIBS=", shQuote(libraries)), rscript = rscript(),
      options = c("-F", there$config)
    ))
  },
  parallelly = function(there, hosts, workers) {
    parallelly::makeClusterPSOCK(rep(hosts, each = workers),
      rshcmd = "ssh", rshopts = c("-F", there$config), rscript = rscript()
    )
  }
)

# ---- What is measured ------------------------------------------------------------------

measure_host_starts <- function(there, quick) {
  workers <- if (quick) 4L else 64L
  counts <- c(muster = if (quick) 2L else 7L, parallelly = if (quick) 2L else 3L)
  interleave(paste(workers, "workers on one host"), counts, function(arm) {
    took <- time_of({
      cl <- host_start[[arm]](there, "node1", workers)
      parallel::clusterCall(cl, in_global(function() NULL))
    })
    parallel::stopCluster(cl)
    took
  })
}

measure_host_calls <- function(there, quick) {
  far <- host_start$muster(there, "node1", 1L)
  psock <- host_start$parallelly(there, "node1", 1L)
  near <- muster::cluster_start(1L)
  on.exit(for (cl in list(far, psock, near)) parallel::stopCluster(cl))
  one <- in_global(function() 1L)
  call <- function(cl) compiler::cmpfun(function() parallel::clusterCall(cl[1], one))
  calls <- list(muster = call(far), parallelly = call(psock), near = call(near))
  cat_there <- paste("exec ssh -F", shQuote(there$config), "node1 cat")
  each <- if (quick) 50L else 400L
  counts <- c(muster = 1L, parallelly = 1L, limit = 1L) * if (quick) 3L else 15L
  for (arm in names(calls)) block(calls[[arm]], 100L)
  interleave("one call", counts, function(arm) {
    if (arm == "limit") {
      median(.Call(native$echoes, cat_there, each)) + block(calls$near, each)
    } else {
      # A call of parallelly takes 40 ms.
      block(calls[[arm]], if (arm == "parallelly") max(each %/% 10L, 5L) else each)
    }
  })
}

measure_host_data <- function(there, quick) {
  hosts <- paste0("node", 1:4)
  assign("shared_numbers", runif(if (quick) 12.5e4 else 12.5e6), globalenv())
  clusters <- lapply(host_start, function(start) start(there, hosts, 4L))
  on.exit(for (cl in clusters) parallel::stopCluster(cl))
  counts <- c(muster = 1L, parallelly = 1L, limit = 1L) * if (quick) 2L else 5L
  file <- tempfile()
  writeBin(serialize(get("shared_numbers", globalenv()), NULL, xdr = FALSE), file)
  on.exit(unlink(file), add = TRUE)
  through_ssh <- function(file) {
    each <- paste("ssh -F", there$config, hosts, "'cat >/dev/null' <", file, "&", collapse = " ")
    time_of(system(paste(each, "wait")))
  }
  interleave("100 MB to 4 hosts of 4 workers", counts, function(arm) {
    if (arm == "limit") {
      return(through_ssh(file) - through_ssh("/dev/null"))
    }
    # Other numbers each time: nothing that is there already can be used again.
    assign("shared_numbers", rev(get("shared_numbers", globalenv())), globalenv())
    time_of({
      parallel::clusterExport(clusters[[arm]], "shared_numbers", globalenv())
      parallel::clusterCall(clusters[[arm]], in_global(function() NULL))
    })
  })
}

host_rows <- function(raw) {
  cases <- unique(raw$case)
  near_limit <- bar("at most 1.5 times the limit", function(ours, theirs, ratio) ratio >= 1 / 1.5)
  rows <- list(
    compare(raw, cases[1L], "parallelly", bar = ratio_bar(15)),
    compare(raw, cases[2L], "parallelly", limit = "limit", show = show_us),
    compare(raw, cases[2L], "limit",
      bar = near_limit, show = show_us, label = "the limit"
    ),
    compare(raw, cases[3L], "parallelly", limit = "limit", bar = ratio_bar(3))
  )
  do.call(rbind, rows)
}
