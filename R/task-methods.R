# Methods that the user has registered in this session without binding them to a name: by
# registerS3method(), by `method<-` of package S7, or by functions that call these. A worker gets
# them with the first objects that have a class; those that are bound in the global environment are
# found by name.

# Called when something travels that has a class. list(space, name, fun) for each method in a table
# of S3 methods, list(name, signature, fun) for one of an operator, of S7.
own_methods <- function() {
  spaces <- loadedNamespaces()
  tables <- lapply(spaces, function(name) .getNamespace(name)[[".__S3MethodsTable__."]])
  names(tables) <- spaces
  tables <- Filter(is.environment, tables)
  counts <- lengths(tables)
  last <- the_task$methods
  known <- identical(last$counts, counts) &&
    all(vapply(last$s3, function(one) identical(tables[[one$space]][[one$name]], one$fun), NA))
  if (!known) {
    the_task$methods <- last <- list(counts = counts, s3 = own_in_tables(tables))
  }
  c(last$s3, if ("S7" %in% spaces) own_operators())
}

own_in_tables <- function(tables) {
  found <- Map(function(table, space) {
    own <- .Call(ffi_methods_own, table)
    Map(function(fun, name) list(space = space, name = name, fun = fun), own, names(own))
  }, tables, names(tables))
  unlist(unname(lapply(found, unname)), recursive = FALSE)
}

# Operators are generics within package S7, whose methods are in environments by class.
own_operators <- function() {
  generics <- unlist(lapply(c("base_ops", "base_matrix_ops"), get0, asNamespace("S7")))
  found <- lapply(generics, function(generic) own_in(attr(generic, "methods")))
  unlist(unname(Map(function(methods, name) {
    lapply(methods, function(fun) {
      signature <- attr(fun, "signature")
      attributes(fun) <- NULL # of its class, which refer to all other methods
      list(name = name, signature = signature, fun = fun)
    })
  }, found, names(generics))), recursive = FALSE)
}

own_in <- function(env) {
  inner <- Filter(is.environment, as.list(env, all.names = TRUE))
  c(unname(.Call(ffi_methods_own, env)), unlist(unname(lapply(inner, own_in)), recursive = FALSE))
}

# In a worker. What is there already stays.
register_own_methods <- function(methods) {
  for (one in methods) {
    if (is.null(one$space)) {
      register_own_operator(one)
    } else if (requireNamespace(one$space, quietly = TRUE)) {
      table <- asNamespace(one$space)[[".__S3MethodsTable__."]]
      if (!identical(table[[one$name]], one$fun)) assign(one$name, one$fun, envir = table)
    }
  }
}

register_own_operator <- function(one) {
  load_packages("S7")
  if (isNamespaceLoaded("S7")) {
    register <- getExportedValue("S7", "method<-")
    # It says so if another worker's task has registered it before.
    suppressMessages(register(get(one$name, baseenv()), one$signature, value = one$fun)) # tidy: ours
  }
}
