# Summaries by each worker of all the parts that it has, without a shuffle.
#
# Problem: where there are more groups than a part's rows show, most rows would travel: sums of 1e5
# groups in parts of 150,000 rows. All parts of a worker together have each group many times.
#
# Way chosen: each worker folds the parts that it has at once, and the session puts the few partial
# results together and makes parts of the result, in which rows are where a shuffle would bring
# them, in its order. So nobody sees which way was taken. It is only taken where nothing is missing;
# if anything happens on the way, a worker is lost, or columns differ, the shuffle does it all, and
# says what is wrong.
#
# Not chosen: stages with several near parts for each of their own. Their order, and so the order of
# groups, would follow from who has which parts.

# Values that the session takes, from all workers together.
direct_values <- 2^22

# The handle of the results, NULL if a shuffle should make them. groups: how many there may be.
direct_summaries <- function(p, by, plan, parts, groups, call) {
  kinds <- vapply(plan$folds, `[[`, "", "kind")
  where <- .Call(ffi_plan_where, p$shuffle$plan, p$stage$id)
  ranks <- vapply(unclass(p$cl), .subset2, 0L, "rank")
  workers <- unique(where[, 2L])
  width <- length(by) + sum(lengths(fold_columns[kinds]))
  most <- direct_values / width / length(workers)
  rows <- sum(p$stage$rows)
  if (any(kinds %in% c("first", "last", "distinct")) || !all(workers %in% ranks) ||
    groups > most || !isTRUE(rows > 4 * groups * length(workers))) {
    return(NULL)
  }
  # What a worker appends at once takes little of the memory that is free.
  room <- .Call(ffi_share_free) / 16 / length(workers) / (sum(p$stage$bytes) / rows)
  answers <- ask_workers(p, where, workers, match(workers, ranks), list(
    by = by, plan = plan, settings = session_settings(), most = most,
    chunk = max(2^18, min(2^22, room))
  ))
  kinds <- unique(unlist(lapply(answers, `[[`, "kind"), recursive = FALSE))
  if (any(vapply(answers, is.null, NA)) || length(kinds) != 1L) {
    return(NULL)
  }
  made <- tryCatch(direct_result(answers, by, plan, parts), error = function(e) NULL)
  if (is.null(made)) {
    return(NULL)
  }
  frame <- split_models(made$rows)
  job <- if (length(frame$models)) list(models = frame$models, fresh = FALSE, quiet = TRUE)
  start_stage(p$cl, parts, data_steps(frame$data, made$ranges), NULL, list(), call, job,
    as = p$stage$as
  )
}

# What fold_here() gives for each worker, NULL where there is an error. at: of the workers in p$cl.
ask_workers <- function(p, where, workers, at, spec) {
  tasks <- list()
  on.exit(task_cancel(tasks))
  for (i in seq_along(workers)) {
    own <- which(where[, 2L] == workers[i])
    spec$keys <- cbind(p$stage$id, own, where[own, 1L], deparse.level = 0L)
    # The cluster's timeout is for one part.
    tasks[[i]] <- task_submit(p$cl[at[i]], fold_here, spec, .retries = 0, .timeout = 1e6)
  }
  lapply(tasks, function(task) tryCatch(task_value(task), error = function(e) NULL))
}

# list(rows, ranges): the results, sorted as a shuffle sorts them, and which rows each part has.
direct_result <- function(answers, by, plan, parts) {
  x <- bind_frames(lapply(answers, `[[`, "parts"))
  at <- unlist(lapply(answers, `[[`, "at"), use.names = FALSE)
  rows <- fold_final(take_rows(x, order(at, method = "radix")), by, plan)
  split <- .Call(ffi_key_split, key_columns(rows, by), frame_rows(rows), parts)
  ends <- split$begin[-1L]
  list(rows = take_rows(rows, split$rows), ranges = cbind(split$begin[seq_len(parts)] + 1, ends))
}
