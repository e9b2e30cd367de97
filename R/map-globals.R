# What a function needs to be evaluated in another process, and which of these objects can't be
# sent.

# The job of a cluster_map() call: everything that is the same for all pieces.
make_job <- function(fun, args, x, returns, call) {
  fun <- without_unused(fun)
  functions <- c(functions_in(fun), functions_in(args), if (length(x) <= 10000L) functions_in(x))
  found <- find_globals(functions, call)
  job <- list(
    fun = fun, args = args, globals = found$globals, packages = found$packages,
    namespaces = namespaces_of(c(args, found$globals, found$around, as.list(utils::head(x, 1L)))),
    returns = returns, fresh = FALSE
  )
  name_large(found)
  if (reference_policy() != "ignore") {
    check_references(args, "args", call)
    check_references(found$globals, "globals", call)
    check_references(found$around, "fun", call)
  }
  # Pieces must not see each other's changes.
  job$fresh <- bitwAnd(.Call(ffi_scan, job), scan_environment) != 0L
  job
}

# Namespaces that have methods for the classes of these objects, other than R's own: with
# data.table's data `[` means something else in a process that hasn't loaded it.
namespaces_of <- function(objects) {
  classes <- setdiff(unlist(lapply(objects, oldClass)), base_classes)
  if (!length(classes)) {
    return(character())
  }
  others <- setdiff(loadedNamespaces(), c(sub("^package:", "", base_packages), "muster"))
  Filter(function(name) {
    methods <- getNamespaceInfo(name, "S3methods")
    is.matrix(methods) && any(classes %in% methods[, 2L])
  }, others)
}

base_classes <- c(
  "data.frame", "factor", "ordered", "Date", "POSIXct", "POSIXlt", "POSIXt", "difftime", "table",
  "noquote", "numeric_version", "package_version", "formula", "terms", "lm", "glm", "ts",
  "connection", "function", "list", "character", "numeric", "integer", "logical", "environment"
)

# Functions in a list and in lists in it.
functions_in <- function(x, depth = 3L) {
  if (is.function(x)) {
    return(list(x))
  }
  if (!is.list(x) || depth == 0L) {
    return(list())
  }
  nested <- vapply(x, function(one) is.function(one) || is.list(one), NA)
  unlist(lapply(unclass(x)[nested], functions_in, depth - 1L), use.names = FALSE)
}

base_packages <- paste0("package:", c(
  "base", "datasets", "grDevices", "graphics", "methods", "stats", "utils"
))

# list(globals, packages, around): what functions, and the functions that they use, take from
# the global environment; the packages that are attached here and have something that they
# use; what they use of the environments around them.
find_globals <- function(functions, call) {
  found <- list(globals = list(), packages = character(), around = list())
  seen <- list()
  extra <- setdiff(grep("^package:", search(), value = TRUE), base_packages)
  while (length(functions)) {
    one <- functions[[1L]]
    functions <- functions[-1L]
    known <- any(vapply(seen, identical, NA, one))
    if (known || is.primitive(one) || isNamespace(environment(one))) next
    seen <- c(seen, list(one))
    for (name in setdiff(code_names(one), "...")) { # which travels with its frame
      env <- where_is(name, environment(one))
      if (identical(env, globalenv())) {
        if (name %in% names(found$globals)) next
        value <- get(name, env)
        found$globals[name] <- list(value)
      } else if (is.environment(env)) {
        value <- get(name, env)
        found$around[name] <- list(value)
      } else if (length(extra) && sees_globals(environment(one))) {
        found$packages <- union(found$packages, Find(function(p) has_name(p, name), extra))
        next
      } else {
        next
      }
      functions <- c(functions, functions_in(value))
    }
  }
  found$packages <- sub("^package:", "", rev(as.character(found$packages)))
  check_size(found$globals, call)
  found
}

# The names that a closure's code uses, in functions that it defines too.
code_names <- function(fun) {
  names <- .Call(ffi_code_names, fun)
  if (is.null(names)) {
    # It warns of code that may be wrong, which is none of our business.
    names <- union(suppressWarnings(codetools::findGlobals(fun)), names_read(fun))
    .Call(ffi_code_keep, fun, names)
  }
  names
}

# The variables that a function reads before it assigns them, as far as its code shows when read
# from top to bottom. codetools treats a variable that is assigned anywhere as local, even by
# `x$a <- 1` or `x <- x + 1`, and doesn't look into formulas.
names_read <- function(fun) {
  found <- new.env(hash = TRUE, parent = emptyenv())
  walk_function(formals(fun), body(fun), character(), found)
  ls(found, all.names = TRUE, sorted = FALSE)
}

walk_function <- function(formals, body, own, found) {
  own <- c(own, names(formals))
  own <- walk_all(as.list(formals), own, found)
  walk(body, own, found)
}

walk_all <- function(parts, own, found) {
  for (i in seq_along(parts)) {
    # x[, 1] and formals without a default have an empty symbol.
    if (!identical(parts[[i]], quote(expr = ))) own <- walk(parts[[i]], own, found)
  }
  own
}

# The names that are local after this code.
walk <- function(code, own, found) {
  if (is.symbol(code)) {
    name <- as.character(code)
    if (nzchar(name) && !name %in% own) assign(name, TRUE, found)
    return(own)
  }
  if (!is.call(code)) {
    return(own)
  }
  what <- if (is.symbol(code[[1L]])) as.character(code[[1L]]) else ""
  if (what %in% c("<-", "=", "for") && length(code) > 2L) {
    return(walk_assignment(code, own, found))
  }
  if (what == "function") {
    walk_function(code[[2L]], code[[3L]], own, found)
  } else if (what %in% c("$", "@", "::", ":::")) {
    if (what %in% c("$", "@")) own <- walk(code[[2L]], own, found)
  } else if (what != "quote") {
    own <- walk_all(as.list(code), own, found)
  }
  own
}

walk_assignment <- function(code, own, found) {
  target <- code[[2L]]
  own <- walk(code[[3L]], own, found)
  if (is.call(target)) {
    own <- walk(target, own, found) # x$a <- 1 reads x first
    while (is.call(target) && length(target) > 1L) target <- target[[2L]]
  }
  own <- c(own, as.character(target))
  if (length(code) > 3L) own <- walk(code[[4L]], own, found) # for's body
  own
}

has_name <- function(package, name) exists(name, as.environment(package), inherits = FALSE)

# The environment from `env` to the global one that has this name, NULL if none has: then
# it may be in a package.
where_is <- function(name, env) {
  while (!isNamespace(env) && !identical(env, emptyenv())) {
    if (exists(name, env, inherits = FALSE)) {
      return(env)
    }
    if (identical(env, globalenv())) break
    env <- parent.env(env)
  }
  NULL
}

sees_globals <- function(env) {
  while (!identical(env, emptyenv())) {
    if (identical(env, globalenv())) {
      return(TRUE)
    }
    if (isNamespace(env)) {
      return(FALSE)
    }
    env <- parent.env(env)
  }
  FALSE
}

check_size <- function(globals, call) {
  limit <- getOption("muster.globals_max", 500e6)
  sizes <- vapply(globals, function(value) as.numeric(utils::object.size(value)), 0)
  if (sum(sizes) > limit) {
    sizes <- sort(sizes, decreasing = TRUE)
    in_bytes <- function(x) format(x, big.mark = ",", decimal.mark = ".", scientific = FALSE)
    abort_muster("limit",
      paste0(
        "What `fun` uses of the global environment has ", in_bytes(sum(sizes)), " bytes; ",
        in_bytes(limit), " are allowed."
      ),
      details = paste0("`", names(sizes), "`: ", vapply(sizes, in_bytes, ""), " bytes"),
      hints = "options(muster.globals_max = ) allows more; or export it once by clusterExport().",
      sizes = sizes, call = call
    )
  }
}

# ---- References: connections and external pointers

# Bits of ffi_scan().
scan_connection <- 1L
scan_pointer <- 2L
scan_environment <- 4L
scan_s4 <- 8L

reference_policy <- function() {
  policy <- getOption("muster.references", "connections")
  if (is.character(policy) && length(policy) == 1L && policy %in% c("error", "ignore")) {
    policy
  } else {
    "connections"
  }
}

check_references <- function(x, name, call) {
  found <- find_reference(x, name)
  if (is.null(found) || (found$kind == "external pointer" && reference_policy() != "error")) {
    return()
  }
  abort_reference(found, call)
}

abort_reference <- function(found, call) {
  abort_muster("input",
    paste0("`", found$where, "` is ", if (found$kind == "connection") "a " else "an ",
      found$kind, ", which is of no use in another process."),
    details = if (found$kind == "connection") {
      "Its number may be that of another connection there, or of none."
    } else {
      "It would arrive as a null pointer."
    },
    hints = c(
      if (found$kind == "connection") "Open it in the worker: give the file's name, not the file.",
      "options(muster.references = \"ignore\") sends it anyway."
    ),
    reference = found$where, call = call
  )
}

# find_reference() gives list(where, kind) of the first connection in x, or else of the first
# external pointer; NULL if it has none. before: elements of a whole that come before x.
find_reference <- function(x, name, before = 0L) {
  seen <- .Call(ffi_scan, x)
  kinds <- c(scan_connection, if (reference_policy() == "error") scan_pointer, scan_pointer)
  for (kind in kinds) {
    if (bitwAnd(seen, bitwOr(kind, scan_s4)) != 0L) {
      where <- reference_path(x, kind, name, before, 64L)
      if (!is.null(where)) {
        kind <- if (kind == scan_connection) "connection" else "external pointer"
        return(list(where = where, kind = kind))
      }
    }
  }
  NULL
}

reference_path <- function(x, kind, name, before, depth) {
  seen <- .Call(ffi_scan, x)
  if (bitwAnd(seen, bitwOr(kind, scan_s4)) == 0L || depth == 0L) {
    return(NULL)
  }
  if (is.list(x)) {
    names <- names(x)
    for (i in seq_along(x)) {
      element <- if (length(names) && nzchar(names[i])) {
        paste0(name, "$", names[i])
      } else {
        paste0(name, "[[", i + before, "]]")
      }
      where <- reference_path(.subset2(x, i), kind, element, 0L, depth - 1L)
      if (!is.null(where)) {
        return(where)
      }
    }
    return(NULL)
  }
  if (isS4(x) && bitwAnd(seen, kind) == 0L) {
    for (slot in methods::slotNames(x)) {
      where <- reference_path(attr(x, slot), kind, paste0(name, "@", slot), 0L, depth - 1L)
      if (!is.null(where)) {
        return(where)
      }
    }
    return(NULL)
  }
  name
}

# Where the call that failed had an external pointer, for its error.
pointer_hint <- function(job) {
  for (part in c("args", "globals")) {
    where <- reference_path(job[[part]], scan_pointer, part, 0L, 64L)
    if (!is.null(where)) {
      return(paste0("`", where, "` is an external pointer, which is null in a worker."))
    }
  }
  NULL
}
