# A worker's side of a shuffle's tasks: see docs/SHUFFLE.md. The session's side is partition-run.R.

# spec: list(key, from, steps, drops).
#   key: stage, task, attempt of the output.
#   from: key of a part that is here, or NULL: the first step needs no input.
#   steps: to run one after the other, see part_step().
#   room: what this worker may hold in memory, see parts_fit().
#   links: see links_spec(), or NULL.
# Returns list(self, links, held, rows, bytes, ...), or with `missing` (keys of inputs that weren't
# there, see part_missing()), `error` (of the user's function) or `wrong` (about the data).
part_run <- function(spec) {
  run_to_end()
  self <- .Call(ffi_worker_self)
  for (drop in spec$drops) part_drop(drop)
  links <- interruptible(links_begin(spec$links, self))
  deaf <- links$wrong # without links it can still provide blocks that others open directly
  if (isTRUE(links$fatal)) {
    return(list(self = self, wrong = deaf, kind = "limit"))
  }
  if (!is.null(deaf)) links <- NULL
  parts_fit(spec$room)
  state <- new.env(parent = emptyenv())
  state$data <- if (!is.null(spec$from)) part_data(spec$from)
  if (!is.null(spec$from) && is.null(state$data)) {
    return(list(self = self, links = links, missing = list(spec$from), why = "not"))
  }
  state$from <- spec$from # of the first step
  state$runs <- NULL # see part_gather(): what it has read, for the next step
  state$room <- spec$room
  state$result <- NULL
  state$told <- NULL # goes along with the answer of a part that is kept
  state$file <- NULL # the file in progress, for a step's error
  made <- list() # on the way to this part, see keys_on_the_way()
  copies <- changes_in_place()
  outcome <- part_failure(for (step in spec$steps) {
    runs <- state$runs
    state$runs <- NULL
    if (step$kind == "call") {
      state$data <- with_settings(step$settings, part_call(step, state$data, runs))
      told <- attr(state$data, "told", exact = TRUE)
      if (!is.null(told)) {
        attr(state$data, "told") <- NULL
        # Of a part that is made on the way nothing is told.
        if (identical(step, spec$steps[[length(spec$steps)]])) state$told <- told
      }
    } else {
      with_settings(step$settings, interruptible(part_step(state, step, spec$key)))
    }
    state$from <- NULL
    if (!is.null(step$keep)) {
      part_keep(step$keep, state$data)
      state$data <- the_worker$parts[[part_name(step$keep)]]$data
      made <- c(made, list(step$keep))
    }
  })
  # A function may have loaded data.table, and changed columns of the part that it got, which other
  # parts may have too: all are made again.
  if (!copies && changes_in_place()) for (kept in the_worker$parts) part_drop(kept$key)
  if (!is.null(outcome)) {
    outcome$file <- state$file
  } else if (is.null(state$result)) {
    outcome <- c(part_keep(spec$key, state$data), state$told)
  } else {
    outcome <- state$result
    if (!is.null(deaf) && identical(outcome$spot[1L], 0L)) {
      return(list(self = self, wrong = deaf, kind = "limit"))
    }
  }
  state$data <- NULL
  parts_fit(spec$room)
  c(list(self = self, links = links, held = memory_held(), made = made), outcome)
}

# The error of steps in the form for the session, or NULL.
part_failure <- function(code) {
  failure <- piece_error(code)
  about <- the_worker$failing
  the_worker$failing <- NULL
  condition <- failure$condition
  if (is_memory_error(condition)) {
    class(failure$condition) <- c("muster_error_memory", class(condition))
  }
  if (inherits(condition, "muster_part_replan")) {
    list(replan = list(whole = condition$whole, all = condition$all))
  } else if (inherits(condition, "muster_part_missing")) {
    list(missing = condition$keys, why = condition$why)
  } else if (inherits(condition, "muster_part_error")) {
    list(wrong = conditionMessage(condition), kind = condition$kind)
  } else if (!is.null(failure)) {
    failure$about <- about
    list(error = failure)
  }
}

# R's own error is recognizable only by its text.
is_memory_error <- function(condition) {
  text <- gettext("cannot allocate vector of size %0.1f Gb", domain = "R")
  inherits(condition, "simpleError") &&
    startsWith(message_of(condition), sub("%.*", "", text))
}

# One step other than a function of the user's. kind: "data", "inner" (one of muster's), "split",
# "gather", "sort", "give", and those of worker-read.R and worker-write.R.
part_step <- function(state, step, key) {
  switch(step$kind,
    data = state$data <- with_models(step$data, step$job),
    inner = state$data <- do.call(step$fun, c(list(state$data), step$args), quote = TRUE),
    fold = part_fold(state, step, state$from),
    split = state$result <- part_split(state$data, state$room, step, key),
    gather = part_gather(state, step),
    join = part_join(state, step),
    sort = state$data <- sort_rows(state$data, job_get(step$job)$order),
    read = {
      part_read(state, step)
      state$data <- code_strings(state$data)
    },
    retype = part_retype(state, step),
    quotes = part_quotes(state, step),
    write = part_write(state, step, key),
    give = state$result <- list(
      rows = frame_rows(state$data), bytes = frame_bytes(state$data), data = state$data
    )
  )
}

# Data of partition_scatter(): see split_models().
with_models <- function(x, job) {
  models <- if (!is.null(job)) job_get(job)$models
  for (name in names(models)) {
    x[[name]] <- .Call(ffi_coded_join, .subset2(x, name), models[[name]])
  }
  x
}

# Evaluates code with session_settings(), or as it is (NULL). Afterwards they are as before,
# whatever the code has set.
with_settings <- function(settings, code) {
  if (is.null(settings)) {
    return(code)
  }
  before <- list(
    options = lapply(stats::setNames(nm = names(settings$options)), getOption),
    zone = Sys.getenv("TZ", NA),
    locales = vapply(stats::setNames(nm = names(settings$locales)), Sys.getlocale, "")
  )
  on.exit(set_settings(before))
  set_settings(settings)
  code
}

set_settings <- function(settings) {
  options(settings$options)
  zone <- settings$zone
  if (!identical(Sys.getenv("TZ", NA), zone)) {
    if (is.na(zone)) Sys.unsetenv("TZ") else Sys.setenv(TZ = zone)
  }
  for (kind in names(settings$locales)) {
    locale <- settings$locales[[kind]]
    if (Sys.getlocale(kind) != locale) set_locale(kind, locale)
  }
}

# Other hosts may not have the session's.
set_locale <- function(kind, locale) {
  if (!nzchar(suppressWarnings(Sys.setlocale(kind, locale))) && !kind %in% the_worker$warned) {
    the_worker$warned <- c(the_worker$warned, kind)
    warning("A worker's host has no locale ", locale, ", the session's ", kind, ": ", # tidy: relayed
      "its own is used, ", Sys.getlocale(kind), ".", call. = FALSE
    )
  }
}

# ---- The user's functions

# how: "part" fun(data, ...), "read" fun(file, ...), "groups" for each group, "elements" and
# "reduce" for map_reduce(). job: its number.
# runs: see part_gather().
part_call <- function(step, data, runs = NULL) {
  job <- job_get(step$job)
  prepare_packages(job$packages, job$namespaces, job$methods)
  data <- lend_frame(data)
  whole <- FALSE
  on.exit(if (!whole) put_frames_back())
  restore <- lend_globals(job)
  on.exit(restore(), add = TRUE, after = FALSE)
  if (!is.null(step$seed)) {
    kept <- keep_stream()
    on.exit(kept(), add = TRUE)
    assign(".Random.seed", step$seed, globalenv())
  }
  own <- if (is.null(step$seed)) identity else with_streams(step$seed)
  fun <- if (is.character(job$fun)) match.fun(job$fun) else job$fun
  if (step$how %in% c("verb", "tidyr")) dplyr_ready()
  value <- interruptible(switch(step$how,
    part = call_user(fun, if (is_open(data)) empty_frame() else data, job$args),
    read = call_user(fun, step$file, job$args),
    groups = apply_groups(
      data, step$by, own(if (step$which == 2L) job$args$combine else fun), job$args$more,
      isTRUE(step$returns), runs
    ),
    verb = dplyr_verb(data, step, job$args$funs),
    tidyr = tidyr_part(data, step, job$args),
    summarise = summarise_groups(data, step$by, step$plan, job$args$funs, own, runs),
    elements = map_elements_of(step, own(fun), job$args),
    reduce = reduce_keys(data, own(if (step$which == 2L) job$args$combine else job$args$reduce))
  ))
  if (!is.data.frame(value)) {
    part_error(paste0("`", step$name, "` must return a data frame, not ", describe(value), "."))
  }
  whole <- TRUE
  # The result of apply_groups() is plain, and may be open.
  if (step$how %in% c("groups", "summarise", "verb", "tidyr")) value else plain_frame(value)
}

# Wraps the user's function so that each call has its own stream: for each group, key or element of
# a task.
with_streams <- function(seed) {
  force(seed)
  function(fun) {
    force(fun)
    function(...) {
      assign(".Random.seed", seed, globalenv())
      seed <<- parallel::nextRNGSubStream(seed)
      fun(...)
    }
  }
}

# The call contains names, not values as with do.call() alone: users see it, and conditions carry
# it.
call_user <- function(fun, part, args) {
  if (!length(args)) {
    return(fun(part))
  }
  do.call(function(...) fun(part, ...), args, quote = TRUE)
}

# ---- Blocks

# Splits rows by the part of their key; each part's rows are a block.
part_split <- function(data, room, step, key) {
  if (is_empty(data)) {
    families <- NULL
    rows <- integer(step$parts)
    sorted <- NULL
  } else {
    coded <- code_all_strings(compact_strings(code_strings(data)))
    keyed <- with_columns(coded, step$by)
    families <- key_families(keyed, step$by)
    sorted <- if (isTRUE(step$sorts)) {
      sort_split(keyed, job_get(step$job)$order, key[2L])
    } else if (length(step$by)) {
      key_split(key_columns(keyed, step$by), frame_rows(data), step)
    } else {
      .Call(ffi_rows_sort, rep(1L, frame_rows(data)), step$parts)
    }
    rows <- diff(sorted$begin)
  }
  bytes <- frame_bytes(data)
  parts_fit(room, bytes)
  path <- file_path(room, "blocks", key)
  key <- as.integer(key)
  memory <- c(bytes, room$bytes - sum(the_worker$warm))
  written <- if (!is.null(sorted)) {
    runs <- if (!is.null(sorted$runs)) {
      list(match(step$by, names(coded)), sorted$first, sorted$sizes, sorted$runs)
    }
    .Call(ffi_block_split, coded, sorted$rows, sorted$begin, runs, key, memory, path)
  }
  if (is.null(written)) {
    blocks <- if (is.null(sorted)) vector("list", step$parts) else split_rows(coded, sorted)
    written <- .Call(ffi_block_write, blocks, rows, key, memory, path)
  }
  if (is.list(written)) {
    unlink(path)
    part_error(paste0(
      "Can't write ", bytes_text(bytes), " of blocks to ", dirname(path), ": ",
      written$error, "."
    ), "limit")
  }
  list(
    rows = frame_rows(data), bytes = written[1L], spilled = written[2L] == 1,
    families = families, types = attr(data, "types"),
    model = if (is_open(data)) data else light_model(take_rows(data, integer()), rows),
    shares = rows, spot = as.integer(written[3:6])
  )
}

# Rows by part. Where groups are all that is made of them, each part's rows are also sorted by key,
# in the order in which keys appear, if keys are few.
key_split <- function(keys, n, step) {
  sorted <- if (isTRUE(step$in_runs)) .Call(ffi_key_split_runs, keys, n, step$parts)
  if (is.null(sorted)) .Call(ffi_key_split, keys, n, step$parts) else sorted
}

# sources: list of matrices, one for each input, with map tasks as rows, in order. state gets the
# data, and its runs if all map tasks have sorted their rows by key: the numbers of rows, one after
# the other, that have the same key.
part_gather <- function(state, step) {
  asked <- do.call(rbind, step$sources)
  states <- .Call(ffi_block_fetch, asked)
  missing <- states != fetched[["here"]]
  if (any(missing)) {
    part_missing(asked[missing, , drop = FALSE], enum_name(fetched, states[missing]))
  }
  inputs <- lapply(seq_along(step$sources), function(i) {
    sources <- step$sources[[i]]
    bound <- .Call(ffi_blocks_bind, sources, step$part)
    if (!is.null(bound)) {
      state$runs <- bound[[2L]]
      return(bound[[1L]])
    }
    frames <- lapply(seq_len(nrow(sources)), function(k) {
      block <- .Call(ffi_block_read, sources[k, 1:3], step$part)
      if (is.list(block) && !is.data.frame(block)) {
        part_missing(sources[k, , drop = FALSE], "damaged")
      }
      block
    })
    some <- !vapply(frames, is.null, NA)
    if (any(some)) {
      bind_frames(frames[some], sources[some, 2L])
    } else if (is.null(step$models[[i]])) {
      empty_frame()
    } else {
      whole_model(step$models[[i]], sources)
    }
  })
  if (length(inputs) == 1L) {
    state$data <- inputs[[1L]]
  } else {
    state$runs <- NULL
    state$data <- join_frames(inputs[[1L]], inputs[[2L]], step)
  }
}

# A part's columns without rows, for parts that get none. Many levels stay out: they are with the
# part's blocks, if it has any, and are named by their number. Other classes may have methods that
# change levels.
light_model <- function(model, rows) {
  if (!any(rows > 0L)) {
    return(model)
  }
  each_column(model, function(column) {
    class <- setdiff(oldClass(column), "ordered")
    plain <- typeof(column) == "integer" && identical(class, "factor")
    number <- if (plain) .Call(ffi_levels_number, attr(column, "levels", exact = TRUE))
    if (!is.null(number)) {
      attr(column, ".levels") <- number
      attr(column, "levels") <- character()
    }
    column
  })
}

whole_model <- function(model, sources) {
  each_column(model, function(column) {
    number <- attr(column, ".levels", exact = TRUE)
    if (is.null(number)) {
      return(column)
    }
    for (k in seq_len(nrow(sources))) {
      levels <- .Call(ffi_block_levels, sources[k, 1:3], number)
      if (is.list(levels)) part_missing(sources[k, , drop = FALSE])
      if (!is.null(levels)) break
    }
    if (is.null(levels)) {
      abort_muster("internal", "A factor's levels aren't with its rows.", hints = report_hint)
    }
    attr(column, ".levels") <- NULL
    attr(column, "levels") <- levels
    column
  })
}

# why: for each source a name of `fetched`, or "damaged". "barred": this worker may not open
# segments of others directly.
part_missing <- function(sources, why) {
  keys <- lapply(seq_len(nrow(sources)), function(k) sources[k, 1:3])
  condition <- list(message = "blocks that aren't there", call = NULL, keys = keys, why = why)
  stop(structure(condition, class = c("muster_part_missing", "error", "condition"))) # tidy: not shown
}

# ---- map_reduce()

# A function's results for some elements: list(key, value), or a data frame with these.
map_elements_of <- function(step, fun, args) {
  call_fun <- if (length(args$more)) function(element) call_user(fun, element, args$more) else fun
  values <- call_each(step$elements, call_fun, function(i) {
    list(text = paste("Element", step$before + i))
  })
  bind_frames(lapply(values, key_values))
}

key_values <- function(value) {
  if (is.null(value)) {
    return(empty_frame())
  }
  ok <- is.list(value) && all(c("key", "value") %in% names(value)) &&
    length(value$key) == length(value$value)
  if (!ok) {
    part_error(paste0(
      "`map` must return a list or data frame with `key` and `value` of one length, not ",
      describe(value), "."
    ))
  }
  new_frame(list(key = value$key, value = value$value), length(value$key))
}

# A vector if all values are single ones.
simpler <- function(values) {
  single <- length(values) && all(vapply(values, function(v) is.atomic(v) && length(v) == 1L, NA))
  if (single) do.call(c, alike_spans(values)) else values
}

# For each key fun(key, values).
reduce_keys <- function(x, fun) {
  if (frame_rows(x) == 0L) {
    return(x)
  }
  groups <- key_groups(x, "key")
  n <- length(groups$first)
  sorted <- .Call(ffi_rows_sort, groups$group, n)
  keys <- x$key[groups$first]
  values <- call_each(seq_len(n), function(k) {
    rows <- sorted$rows[(sorted$begin[k] + 1L):sorted$begin[k + 1L]]
    fun(keys[[k]], x$value[rows])
  }, function(k) list(text = paste("Group", group_text(list(key = keys[[k]]))), key = keys[[k]]))
  new_frame(list(key = keys, value = simpler(values)), n)
}

# ---- Links

# How a worker of a shuffle listens for others, and knows them: see partition-links.R.

# self: number and epoch. Gives what the session is to know, NULL if it knows; or a list with
# `wrong`, and `fatal` if nothing can be done without.
links_begin <- function(links, self) {
  if (is.null(links)) {
    return(NULL)
  }
  .Call(ffi_links_set, self, links$limits)
  for (place in links$places) {
    told <- .Call(
      ffi_links_know, c(place$worker, place$epoch, place$handlers), place$folder, place$token
    )
    if (is.list(told)) {
      text <- paste0("Can't note where other workers listen: ", told$error, ".")
      return(list(wrong = text, fatal = TRUE))
    }
  }
  if (identical(links$known[1L], self[2L]) && links$known[2L] >= links$handlers) {
    return(NULL)
  }
  folder <- file.path(tempdir(), "links")
  token <- .Call(ffi_links_listen, folder, links$handlers)
  if (is.raw(token)) {
    return(list(
      worker = self[1L], epoch = self[2L], handlers = links$handlers, folder = folder,
      token = token
    ))
  }
  list(fatal = links$needed, wrong = paste0(
    "Can't listen for other workers in ", folder, ": ", token$error, " (", token$call, ")."
  ))
}
