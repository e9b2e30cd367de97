# Packages under pkgload::load_all(): what workers need to load them as the session did.

# The source folder of a package under load_all(), "" otherwise.
dev_path <- function(package) {
  if (!isNamespaceLoaded(package)) {
    return("")
  }
  ns <- asNamespace(package)
  if (is_dev(ns)) getNamespaceInfo(ns, "path") else ""
}

# Packages under load_all(), but muster: list(path, attached, needs) of each, by name. needs: others
# of them that it imports.
dev_packages <- function() {
  loaded <- setdiff(loadedNamespaces(), "muster")
  dev <- Filter(function(package) is_dev(asNamespace(package)), loaded)
  lapply(stats::setNames(nm = dev), function(package) {
    list(
      path = getNamespaceInfo(package, "path"),
      attached = paste0("package:", package) %in% search(),
      needs = intersect(dev, names(getNamespaceImports(package))),
      load = dev_load(package),
      code = the_task$dev_loads[[package]]$code
    )
  })
}

# How often this package was seen to be loaded anew; notes what it was then.
dev_load <- function(package) {
  ns <- asNamespace(package)
  last <- the_task$dev_loads[[package]]
  if (!identical(last$ns, ns)) {
    last <- list(ns = ns, load = max(0L, last$load) + 1L, code = dev_code(package))
    the_task$dev_loads[[package]] <- last
  }
  last$load
}

# What tells whether two processes have loaded the same: a word for the functions of the namespace,
# and one for its files.
dev_code <- function(package) {
  ns <- asNamespace(package)
  names <- sort(ls(ns, all.names = TRUE), method = "radix")
  plain <- names[!startsWith(names, ".__")]
  plain <- plain[!vapply(plain, bindingIsActive, NA, ns)]
  functions <- Filter(is.function, mget(plain, ns))
  text <- lapply(functions, function(fun) {
    if (is.primitive(fun)) fun else as.list(utils::removeSource(fun))
  })
  path <- getNamespaceInfo(ns, "path")
  files <- list.files(file.path(path, c("R", "src")), "[.]([RrSsq]|so|dll)$", full.names = TRUE)
  c(functions = word_of(text), files = word_of(tools::md5sum(sort(files, method = "radix"))))
}

word_of <- function(x) {
  file <- tempfile("word")
  on.exit(unlink(file))
  writeBin(serialize(x, NULL, version = 2L), file)
  tools::md5sum(file)[[1L]]
}
