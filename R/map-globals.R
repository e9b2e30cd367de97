# What a function needs to be evaluated in another process, and which of these objects can't be
# sent. What is found, and how, is in src/ffi/session/needs.c.

# The job of a cluster_map() call: everything that is the same for all pieces.
make_job <- function(fun, args, x, returns, cl, call) {
  found <- find_needs(list(fun, args, x), cl, call)
  job <- list(
    fun = fun, args = args, globals = found$globals, left = found$left,
    packages = found$packages, namespaces = packages_for(found$classes),
    returns = returns, fresh = FALSE
  )
  job$there <- found$there
  job$methods <- found$methods
  if (reference_policy() != "ignore") {
    check_arguments(args, call)
    check_references(fun, ".fun", call)
  }
  job$fresh <- can_change(job, found$classes)
  job
}

# Pieces must not see each other's changes: to environments, and to tables that are changed in
# place. classes: of all that a job has, see packages_for().
can_change <- function(job, classes) {
  "data.table" %in% names(classes) || scan_has(.Call(ffi_scan, job), "environment")
}

# list(globals, packages, around, classes, left, there, methods): variables of the global
# environment, and packages that are attached here, which whatever travels uses; what it uses of the
# frames around functions; the classes of all that; the names of variables that only a string names
# and that are too large to go along for that; what these workers have already, see map-exports.R;
# and methods that the session has registered.
find_needs <- function(travels, cl, call) {
  found <- with_methods(.Call(ffi_needs, travels), travels)
  if (is.null(found)) list() else checked_needs(found, cl, call)
}

# Methods that were registered here travel with what has a class, and with what they use.
with_methods <- function(found, travels) {
  methods <- if (length(found$classes)) own_methods()
  if (length(methods)) {
    found <- .Call(ffi_needs, c(travels, lapply(methods, `[[`, "fun")))
    found$methods <- methods
  }
  # Before R 4.3 it has an operator `@` of its own, which isn't sought as other names are.
  if ("S7_object" %in% names(found$classes)) found$packages <- union(found$packages, "S7")
  found
}

checked_needs <- function(found, cl, call) {
  found <- without_exports(found, cl)
  found$packages <- intersect(rev(sub("^package:", "", search())), found$packages)
  check_size(found$globals, call)
  name_large(c(found$globals, found$around))
  if (reference_policy() != "ignore") {
    used <- c(found$globals, found$around)
    for (name in names(used)) check_references(used[[name]], name, call)
  }
  found
}

# For C code. A promise that code names is evaluated as it would be here; if it fails it travels as
# it is. what: list(symbol, environment).
settle <- function(what) {
  tryCatch(
    {
      get(as.character(what[[1L]]), what[[2L]], inherits = FALSE)
      TRUE
    },
    error = function(e) FALSE
  )
}
copy_attached <- function(env) {
  copy <- list2env(as.list(env, all.names = TRUE), parent = globalenv())
  for (name in ls(copy, all.names = TRUE)) {
    own <- is.function(copy[[name]]) && identical(environment(copy[[name]]), env)
    if (own) environment(copy[[name]]) <- copy
  }
  copy
}
abort_attached <- function(name) {
  abort_muster("input",
    paste0(
      "A function of an attached environment uses `", name, "`, but would find a different one ",
      "in a worker."
    ),
    details = "The global environment, which comes before it, has a variable of that name, too.",
    hints = "Put the function into the global environment or a package, or rename one of the two."
  )
}
values_of_dots <- function(env) tryCatch(eval(quote(list(...)), env), error = function(e) NULL)
bytes_in <- function(x) as.numeric(utils::object.size(x[[1L]]))

# Objects of this size that are sent are reported, once per session.
large_bytes <- 100e6

name_large <- function(values) {
  sizes <- vapply(values, sent_bytes, 0)
  for (name in names(sizes)[sizes >= large_bytes]) {
    key <- paste(name, sizes[[name]])
    if (key %in% the_map$named) next
    the_map$named <- c(the_map$named, key)
    inform_muster("large",
      paste0(
        "`", name, "` (", bytes_text(sizes[[name]]), "), which your function uses, is sent to ",
        "the workers with it."
      ),
      hints = "cluster_share(cl, ...) copies it once, instead of for each call."
    )
  }
}

# For C code, once a task of a function that was made in some frame, such as a Shiny app's, has many
# bytes: that frame travels with each of them, whatever the function uses of it.
note_frames <- function(fun) {
  sizes <- list()
  env <- environment(fun)
  while (!is.null(env) && !is_lasting(env)) {
    sizes <- c(lapply(plain_values(env), sent_bytes), sizes)
    env <- parent.env(env)
  }
  sizes <- sort(unlist(sizes), decreasing = TRUE)
  for (name in names(sizes)[sizes >= frame_bytes_told]) {
    key <- paste(name, sizes[[name]], "around")
    if (key %in% the_map$named) next
    the_map$named <- c(the_map$named, key)
    inform_muster("large",
      paste0(
        "`", name, "` (", bytes_text(sizes[[name]]), ") is where your function was made: each of ",
        "its tasks takes that along."
      ),
      hints = c(
        "If the function uses it: cluster_share(cl, ...) copies it once, instead of for each task.",
        "If not: make the function elsewhere, or environment(fun) <- globalenv()."
      )
    )
  }
}
frame_bytes_told <- 5e6

# Environments that don't travel: those of packages, and the global one.
is_lasting <- function(env) {
  identical(env, globalenv()) || identical(env, emptyenv()) || identical(env, baseenv()) ||
    isNamespace(env) || !is.null(attr(env, "name", exact = TRUE))
}

# Without evaluating promises or active bindings.
plain_values <- function(env) {
  names <- Filter(function(name) !bindingIsActive(name, env), ls(env, all.names = TRUE))
  names <- setdiff(names, "...")
  values <- lapply(stats::setNames(nm = names), function(name) {
    eval(call("substitute", as.name(name), env))
  })
  Filter(Negate(is.language), values)
}

# The bytes of a value on the way: object.size(), but for sequences such as 1:1e9, which R keeps
# as their ends, and which travel so.
sent_bytes <- function(value) {
  size <- as.numeric(utils::object.size(value))
  if (size < export_bytes) {
    return(size)
  }
  compact <- tryCatch(.Call(ffi_serialized_bytes, value, export_bytes), error = function(e) Inf)
  min(size, compact)
}

check_size <- function(globals, call) {
  limit <- getOption("muster.globals_max", 500e6)
  sizes <- vapply(globals, sent_bytes, 0)
  if (sum(sizes) > limit) {
    sizes <- sort(sizes, decreasing = TRUE)
    in_bytes <- function(x) format(x, big.mark = ",", decimal.mark = ".", scientific = FALSE)
    abort_muster("limit",
      paste0(
        "What your function uses of the global environment has ", in_bytes(sum(sizes)),
        " bytes; ", in_bytes(limit), " are allowed."
      ),
      details = paste0("`", names(sizes), "`: ", vapply(sizes, in_bytes, ""), " bytes"),
      hints = c(
        "Send it once with clusterExport() or cluster_share(): then it isn't sent again.",
        "options(muster.globals_max = ) raises the limit."
      ),
      sizes = sizes, call = call
    )
  }
}

# ---- References: connections and external pointers

reference_policy <- function() {
  policy <- getOption("muster.references", "connections")
  if (is.character(policy) && length(policy) == 1L && policy %in% c("error", "ignore")) {
    policy
  } else {
    "connections"
  }
}

# Further arguments of the user's function, in the words in which code speaks of those in `...`.
check_arguments <- function(args, call) {
  names <- if (length(args)) arg_names(args)
  for (i in seq_along(args)) {
    check_references(args[[i]], names[i], call, refused = c("connection", "task"))
  }
}
arg_names <- function(args) {
  names <- names(args)
  if (is.null(names)) names <- rep("", length(args))
  ifelse(nzchar(names), names, paste0("..", seq_along(args)))
}

check_references <- function(x, name, call, refused = "connection") {
  found <- find_reference(x, name)
  if (is.null(found) || !(found$kind %in% refused || reference_policy() == "error")) {
    return()
  }
  abort_reference(found, call)
}

abort_reference <- function(found, call) {
  abort_muster("input",
    paste0("`", found$where, "` ", reference_text(found$kind),
      ", which doesn't work in another process."),
    details = switch(found$kind,
      connection = "There, its number may refer to another connection, or to none.",
      task = NULL,
      "It would arrive as a null pointer."
    ),
    hints = c(
      switch(found$kind,
        task = "Pass its value, from task_value(). Only task_submit() takes tasks as arguments.",
        connection = "Open it in the worker: pass the file's name, not the connection.",
        code = code_hint
      ),
      if (found$kind != "task") "options(muster.references = \"ignore\") sends it anyway."
    ),
    reference = found$where, call = call
  )
}

reference_text <- function(kind) {
  switch(kind,
    connection = "is a connection",
    task = "is a task",
    pointer = "is an external pointer",
    code = "is a function whose code has an external pointer, such as one from Rcpp::cppFunction()"
  )
}

code_hint <- paste(
  "A function whose code has an external pointer must be created in the worker, with",
  "clusterEvalQ(cl, Rcpp::cppFunction(...)), or in a package."
)

# Whether ffi_scan() has seen any of these kinds.
scan_has <- function(seen, kinds) seen != 0L && any(bitwAnd(seen, scan_bits[kinds]) != 0L)

# find_reference() gives list(where, kind) of the first task in x, or else of the first connection,
# external pointer ("pointer"), or function with one in its code ("code"); NULL if it has none.
# before: elements of a whole that come before x.
find_reference <- function(x, name, before = 0L) {
  seen <- .Call(ffi_scan, x)
  if (seen == 0L) {
    return(NULL) # as most often
  }
  for (kind in c("task", "connection", "pointer", "code")) {
    if (scan_has(seen, c(kind, "s4"))) {
      where <- reference_path(x, kind, name, before, 64L)
      if (!is.null(where)) {
        return(list(where = where, kind = kind))
      }
    }
  }
  NULL
}

reference_path <- function(x, kind, name, before, depth) {
  seen <- .Call(ffi_scan, x)
  if (!scan_has(seen, c(kind, "s4")) || depth == 0L) {
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
  if (isS4(x) && !scan_has(seen, kind)) {
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
  parts <- c(
    structure(job$args, names = arg_names(job$args)), job$globals, list(.fun = job$fun)
  )
  for (kind in c("pointer", "code")) {
    for (i in seq_along(parts)) {
      where <- reference_path(parts[[i]], kind, names(parts)[i], 0L, 64L)
      if (!is.null(where)) {
        return(paste0("`", where, "` ", reference_text(kind), ", which is null in a worker."))
      }
    }
  }
  NULL
}
