# Started by muster as the script of a fork server or of a worker: loads the same
# muster as the session's and hands over to it. Arguments: role, pid of the session,
# source folder if the session has muster under load_all(), library of muster.
# Few frames of its own: they are in every traceback of a worker.
# Nothing is printed: it would stand among the last words of a worker that fails.
invisible(if (nzchar(commandArgs(TRUE)[3])) {
  getExportedValue("pkgload", "load_all")(commandArgs(TRUE)[3], quiet = TRUE, attach = FALSE)
} else {
  loadNamespace("muster", lib.loc = commandArgs(TRUE)[4])
})
getNamespace("muster")$boot_main(commandArgs(TRUE)[1], as.integer(commandArgs(TRUE)[2]))
