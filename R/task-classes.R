# Which packages the classes of objects need: those of S4 classes, and those that have methods for
# them. With data.table's data `[` means something else in a process that hasn't loaded it, and an
# S4 object has no dim() in one that hasn't loaded its class. So these are loaded in workers before
# they compute with what was sent, and in the session before anybody sees the value of a task.

own_packages <- c("base", "datasets", "grDevices", "graphics", "methods", "stats", "utils")

# R's own, of which no package is needed.
base_classes <- c(
  "cluster", "SOCKcluster", "SOCKnode", # of which a frame around a call to us has one
  "data.frame", "factor", "ordered", "Date", "POSIXct", "POSIXlt", "POSIXt", "difftime", "table",
  "noquote", "numeric_version", "package_version", "formula", "terms", "lm", "glm", "ts",
  "connection", "function", "list", "character", "numeric", "integer", "logical", "environment",
  "condition", "error", "warning", "message", "simpleCondition", "simpleError", "simpleWarning",
  "simpleMessage", "try-error"
)

# Of the value of a task, called from C code. It must not cost the value.
packages_of_value <- function(classes) {
  tryCatch(packages_for(classes), error = function(e) character())
}

# classes: the packages of S4 classes, "" for others, named by class. Packages that are loaded here,
# and those of the S4 classes.
packages_for <- function(classes) {
  classes <- classes[!names(classes) %in% base_classes]
  if (!length(classes)) {
    return(character())
  }
  loaded <- loadedNamespaces()
  last <- the_task$classes
  if (!identical(last$classes, classes) || !identical(last$loaded, loaded)) {
    last <- the_task$classes <- list(
      classes = classes, loaded = loaded, packages = seek_packages(classes, loaded)
    )
  }
  last$packages
}

seek_packages <- function(classes, loaded) {
  s4 <- classes[nzchar(classes)]
  s4 <- c(s4, unlist(unname(Map(superclasses, names(s4), s4))))
  others <- setdiff(loaded, c(own_packages, "muster"))
  with_s4 <- if (length(s4)) Filter(function(name) any(names(s4) %in% s4_classes(name)), others)
  found <- c(s4, with_s4, s3_owners(unique(names(c(classes, s4))), loaded))
  unique(unname(found[!found %in% c(own_packages, "muster", ".GlobalEnv")]))
}

# The superclasses of an S4 class, but for those of R itself.
superclasses <- function(class, package) {
  known <- package == ".GlobalEnv" || isNamespaceLoaded(package)
  definition <- if (known) {
    methods::getClassDef(class, if (package == ".GlobalEnv") globalenv() else asNamespace(package))
  }
  if (is.null(definition)) {
    return(character())
  }
  packages <- vapply(definition@contains, function(above) above@package, "")
  packages[!packages %in% own_packages]
}

# The classes that a package's S4 methods are for.
s4_classes <- function(name) {
  space <- asNamespace(name)
  known <- the_task$s4_classes[[name]]
  if (!identical(known$space, space)) {
    tables <- ls(space, all.names = TRUE, pattern = "^[.]__T__")
    signatures <- unlist(lapply(tables, function(table) names(space[[table]])))
    classes <- unique(unlist(strsplit(as.character(signatures), "#", fixed = TRUE)))
    known <- list(space = space, classes = classes)
    the_task$s4_classes[[name]] <- known
  }
  known$classes
}

# The packages of the S3 methods for these classes that are registered, wherever their generics are.
s3_owners <- function(classes, loaded) {
  ends <- paste0(".", classes)
  owners <- lapply(loaded, function(name) {
    table <- asNamespace(name)[[".__S3MethodsTable__."]]
    names <- names(table)
    names <- names[Reduce(`|`, lapply(ends, endsWith, x = names), logical(length(names)))]
    vapply(names, function(name) owner_of(get0(name, table)), "")
  })
  unique(unlist(owners, use.names = FALSE))
}

# "base" for what no package owns.
owner_of <- function(fun) {
  env <- if (is.function(fun)) environment(fun)
  top <- if (is.environment(env)) topenv(env)
  if (is.environment(top) && isNamespace(top)) getNamespaceName(top)[[1L]] else "base"
}

# Loads packages that objects of another process need. What can't be loaded is told once.
load_packages <- function(packages) {
  for (name in packages[!vapply(packages, isNamespaceLoaded, NA)]) {
    if (requireNamespace(name, quietly = TRUE) || name %in% the_task$not_loaded) next
    the_task$not_loaded <- c(the_task$not_loaded, name)
    warn_muster("package",
      paste0(
        "Package ", name, ", which the class of an object needs that was sent, can't be loaded."
      ),
      details = "Functions may treat the object as if it had no class.",
      hints = paste0("install.packages(\"", name, "\") on this machine."),
      call = NULL
    )
  }
}
