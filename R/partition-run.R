# Runs a plan: its actions become tasks of the cluster, their answers its events. The plan itself
# is src/shuffle/plan.c.

# Makes all missing parts of a stage, and of others (also: a list). Returns the answer of each
# task of the first stage that ran now, NULL for tasks whose output already existed.
shuffle_run <- function(shuffle, cl, stage, call, also = list()) {
  check_not_running(shuffle, call)
  on.exit(shuffle$running <- FALSE)
  shuffle$running <- TRUE
  drop_released(shuffle)
  run <- new_run(shuffle, cl, stage, call)
  on.exit(run_leave(run), add = TRUE, after = FALSE)
  run$progress <- run_progress(run, also)
  for (one in c(list(stage), also)) .Call(ffi_plan_want, shuffle$plan, one$id)
  repeat {
    run_look(run)
    run_order(run)
    if (run_act(run)) {
      tell_drawn(call)
      return(run$answers)
    }
    run_take(run)
    show_progress(run$progress, run$done)
  }
}

# A plan has one run at a time: a nested one, from a condition's handler or a finalizer, would take
# its tasks.
check_not_running <- function(shuffle, call) {
  if (isTRUE(shuffle$running)) {
    abort_muster("input",
      "Can't make parts now: another call is making parts on the same cluster.",
      details = "A handler or a finalizer made this call in the middle of that one.",
      hints = "Make this call after that one has ended, or use another cluster.",
      call = call
    )
  }
}

new_run <- function(shuffle, cl, stage, call) {
  run <- new.env(parent = emptyenv())
  run$shuffle <- shuffle
  run$cl <- cl
  run$nodes <- list() # by rank
  for (node in cl) run$nodes[[.subset2(node, "rank")]] <- node
  run$ours <- !vapply(run$nodes, is.null, NA)
  run$stage <- stage
  run$call <- call
  run$tasks <- list()
  run$about <- list() # for each task: list(key, worker)
  run$jobs <- list() # held jobs, by stage
  run$answers <- vector("list", stage$count)
  run$links <- links_options(call)
  run$memory <- memory_options(call)
  run$heap <- worker_heap()
  memory_use_folder(shuffle, run$memory$folder)
  run$free <- .Call(ffi_share_free) + sum(shuffle$held) # what workers hold isn't free, but theirs
  run$largest <- max(0, unlist(lapply(c(list(stage$near), stage$far), `[[`, "bytes")), na.rm = TRUE)
  run$claimed <- double() # what each worker was told that it may hold
  run$done <- 0L # tasks
  run$loss <- NULL # why the last attempt was lost
  run$group <- own_group()
  run$losses <- list() # see note_loss()
  run$kept <- keep_hosts(cl)
  run
}

run_leave <- function(run) {
  end_progress(run$progress)
  task_cancel(run$tasks)
  let_hosts_go(run$kept)
  .Call(ffi_plan_unwant, run$shuffle$plan)
  # The output that they were making may still exist.
  for (about in run$about) {
    drop_at(run$shuffle, about$worker, about$key)
    settle_on_the_way(run, about)
  }
  for (held in run$jobs) .Call(ffi_job_release, held[[1L]])
}

# Stages that are made on the way to the wanted ones count too, except for existing parts.
run_progress <- function(run, also) {
  todo <- c(also, list(run$stage))
  seen <- integer()
  n <- 0L
  while (length(todo)) {
    stage <- todo[[1L]]
    todo <- todo[-1L]
    if (stage$id %in% seen) next
    seen <- c(seen, stage$id)
    n <- n + parts_missing(run, stage)
    # Near inputs are made in the same task.
    while (!is.null(stage) && parts_missing(run, stage) > 0L) {
      todo <- c(todo, stage$far)
      stage <- stage$near
    }
  }
  new_progress(NULL, n, "parts")
}

parts_missing <- function(run, stage) {
  sum(.Call(ffi_plan_where, run$shuffle$plan, stage$id)[, 1L] == 0L)
}

# The state of the workers; those outside of the caller's cluster aren't used.
run_look <- function(run) {
  workers <- .Call(ffi_cluster_workers, run$cl)
  if (!is.matrix(workers)) {
    abort_submit(run$cl, workers, run$call)
  }
  memory_see(run$shuffle, workers)
  workers[!run$ours[seq_len(nrow(workers))] %in% TRUE, 2L] <- worker_is[["gone"]]
  if (!identical(workers, run$workers)) {
    .Call(ffi_plan_see, run$shuffle$plan, workers)
    run$workers <- workers
  }
  more <- max(0L, nrow(workers) - length(run$shuffle$drops))
  run$shuffle$drops <- c(run$shuffle$drops, rep(list(list()), more))
}

# TRUE when everything is there.
run_act <- function(run) {
  repeat {
    action <- .Call(ffi_plan_next, run$shuffle$plan)
    if (is.null(action)) {
      return(FALSE)
    }
    switch(enum_name(plan_do, action[1L]),
      run = run_submit(run, action),
      cancel = run_cancel(run, action),
      fail = abort_lost_part(run, action),
      finished = return(TRUE)
    )
  }
}

run_submit <- function(run, action) {
  shuffle <- run$shuffle
  task <- action[3L]
  worker <- action[5L]
  base <- .Call(ffi_plan_base, shuffle$plan, action[2L], task, worker)
  chain <- list()
  stage <- stage_by(shuffle, action[2L])
  at <- stage
  while (at$id != base[1L] || (base[2L] == 0L)) {
    chain <- c(list(at), chain)
    if (at$id == base[1L]) break
    at <- at$near
  }
  from <- NULL
  if (base[2L] == 1L) {
    from <- c(base[1L], task, .Call(ffi_plan_where, shuffle$plan, base[1L])[task, 1L])
  }
  jobs <- lapply(chain, run_job, run = run)
  also <- keys_on_the_way(shuffle, chain, task, worker)
  spec <- list(
    key = action[2:4], from = from, drops = shuffle$drops[[worker]],
    steps = unlist(lapply(seq_along(chain), function(i) {
      steps <- fill_steps(run, chain[[i]], task, worker, jobs[[i]][[2L]])
      if (length(steps)) steps[[length(steps)]]$keep <- also[[i]]
      steps
    }), recursive = FALSE)
  )
  spec$links <- links_spec(run, worker, spec$steps)
  spec$room <- memory_room(run, worker)
  shuffle$drops[[worker]] <- list()
  needed <- lapply(jobs[lengths(jobs) > 0L], `[[`, 1L)
  submitted <- .Call(ffi_task_submit, run$nodes[worker], call_part, list(spec), needed,
    c(0, 0, 0, 0, 0, run$group), NULL)
  if (is.integer(submitted)) {
    abort_submit(run$cl, submitted, run$call)
  }
  if (all(vapply(chain, `[[`, NA, "quiet"))) attr(submitted, "quiet") <- TRUE
  k <- length(run$tasks) + 1L
  run$tasks[[k]] <- submitted
  run$about[[k]] <- list(key = action[2:4], worker = worker, also = also[lengths(also) > 0L])
}

# Parts that were lost, and that a task makes again on its way: where there is a handle they stay,
# so that a loss is paid for once. Rows that were scattered are sent again at little cost, so no
# worker gets more of them than its share: all later stages would wait for it. The key of each
# stage's part, NULL for those that don't stay.
keys_on_the_way <- function(shuffle, chain, task, worker) {
  lapply(seq_along(chain), function(i) {
    id <- chain[[i]]$id
    record <- record_of(shuffle, id)
    if (i == length(chain) || record$inner || record$released) {
      return(NULL)
    }
    sharer <- if (isTRUE(chain[[i]]$scattered)) worker else 0L
    attempt <- .Call(ffi_plan_note, shuffle$plan, as.integer(c(id, task, 0L, sharer)))
    if (attempt > 0L) as.integer(c(id, task, attempt))
  })
}

# Those of a task that has ended, in whatever way: they count, or are dropped.
settle_on_the_way <- function(run, about, value = NULL) {
  for (key in about$also) {
    told <- if (any(vapply(value$made, identical, NA, key))) {
      .Call(ffi_plan_found, run$shuffle$plan, c(key, about$worker, value$self[2L]))
    }
    if (!identical(told, plan_told[["committed"]])) drop_at(run$shuffle, about$worker, key)
  }
}

# Sent instead of part_run() itself, which every worker has already.
call_part <- function(spec) getFromNamespace("part_run", "muster")(spec)
environment(call_part) <- asNamespace("utils")

# list(pointer, number), or NULL for a stage without the user's functions.
run_job <- function(run, stage) {
  if (is.null(stage$job)) {
    return(NULL)
  }
  key <- as.character(stage$id)
  if (is.null(run$jobs[[key]])) {
    held <- .Call(ffi_job_hold, run$cl, stage$job)
    if (is.integer(held)) {
      abort_submit(run$cl, held, run$call)
    }
    run$jobs[[key]] <- held
  }
  run$jobs[[key]]
}

# Completes the steps of a task: its functions, the places of its inputs.
fill_steps <- function(run, stage, task, worker, job) {
  lapply(stage$steps(task), function(step) {
    switch(step$kind,
      call = , read = , data = , sort = , split = , join = step$job <- job,
      gather = {
        if (is.null(step$part)) step$part <- task
        inputs <- if (is.null(step$of)) stage$far else stage$far[step$of]
        step$sources <- lapply(inputs, function(far) sources_of(run, far, worker))
        if (!is.null(step$tasks)) {
          step$sources[[1L]] <- step$sources[[1L]][step$tasks[1L]:step$tasks[2L], , drop = FALSE]
        }
        step$models <- lapply(inputs, `[[`, "model")
      }
    )
    # Functions have what cluster_map() gives them; muster's own steps and expressions have these.
    own <- step$kind %in% c("inner", "fold", "write") ||
      isTRUE(step$how %in% c("summarise", "verb"))
    if (own) step$settings <- stage$settings
    step
  })
}

# A row for each map task: stage, task, attempt, worker (0: the reader itself), epoch, and the place
# of its segment (4 numbers, see links_note_spot()).
sources_of <- function(run, far, reader) {
  where <- .Call(ffi_plan_where, run$shuffle$plan, far$id)
  worker <- where[, 2L]
  worker[worker == reader] <- 0L
  spots <- if (run$links$listen || isTRUE(run$shuffle$barred)) no_spots(far) else far$spots
  cbind(far$id, seq_len(far$count), where[, 1L], worker, where[, 3L], spots)
}

run_cancel <- function(run, action) {
  key <- action[2:4]
  mine <- vapply(run$about, function(about) identical(about$key, key), NA)
  task_cancel(run$tasks[mine])
  for (about in run$about[mine]) settle_on_the_way(run, about)
  run$tasks[mine] <- NULL
  run$about[mine] <- NULL
  drop_at(run$shuffle, action[5L], key)
}

# ---- Answers

run_take <- function(run) {
  if (!length(run$tasks)) {
    .Call(ffi_cluster_wait) # a worker is coming back
    return()
  }
  done <- which(wait_hearing(run$tasks, TRUE, 0.05))
  tasks <- run$tasks[done]
  about <- run$about[done]
  run$tasks[done] <- NULL
  run$about[done] <- NULL
  for (i in seq_along(tasks)) take_answer(run, tasks[[i]], about[[i]])
}

take_answer <- function(run, task, about) {
  plan <- run$shuffle$plan
  key <- about$key
  value <- tryCatch(value_of(task, Inf, run$call), muster_error = identity)
  failed <- inherits(value, "muster_error")
  settle_on_the_way(run, about, if (!failed) value)
  if (failed) {
    loss <- .Call(ffi_task_loss, task)
    if (is.null(loss) || inherits(value, "muster_error_timeout")) {
      value$call <- run$call
      value$part <- key[2L]
      value$file <- run_file(run, key)
      raise_condition(value)
    }
    run$loss <- value
    note_loss(run, key, loss_details(value))
    if (isTRUE(value$oom)) run$free <- run$free / 2 # it wasn't enough to work in
    .Call(ffi_plan_ended, plan, key)
    return()
  }
  links_note(run$shuffle, value$links)
  if (!is.null(value$held)) run$shuffle$held[about$worker] <- value$held
  if (!is.null(value$error)) {
    part <- part_text(run, key, value$file)
    of <- value$error$about
    if (!is.null(of)) part <- paste0(of$text, " (", sub("^P", "p", part), ")")
    abort_remote(value$error, about$worker, run$call,
      what = part, part = key[2L], group = of$key, file = run_file(run, key, value$file)
    )
  }
  if (!is.null(value$replan)) signal_replan(value$replan)
  if (!is.null(value$wrong)) {
    abort_part(run, key, value$wrong, about$worker, value$kind, value$file)
  }
  if ("barred" %in% value$why) run$shuffle$barred <- TRUE
  for (i in seq_along(value$missing)) {
    note_missing(run, about$worker, value$missing[[i]], value$why[i])
    .Call(ffi_plan_missed, plan, as.integer(c(key, value$missing[[i]])))
  }
  if (is.null(value$missing)) {
    run_commit(run, key, value, about$worker)
  }
}

# What a lost task's error says about the loss; its hints are for tasks of the user.
loss_details <- function(error) {
  lines <- strsplit(conditionMessage(error), "\n")[[1L]]
  sub("^x ", "", grep("^x ", lines, value = TRUE))
}

# Why parts were lost, for abort_lost_part(): by part, a text for each loss.
note_loss <- function(run, key, text) {
  name <- paste(key[1:2], collapse = " ")
  run$losses[[name]] <- c(run$losses[[name]], text)
}

note_missing <- function(run, reader, key, why) {
  at <- .Call(ffi_plan_where, run$shuffle$plan, key[1L])[key[2L], ]
  if (!identical(at[1L], as.integer(key[3L]))) {
    return() # it's known to be lost, and made again
  }
  note_loss(run, key, paste0("Worker ", reader, switch(why,
    barred = " couldn't open it at worker ",
    silent = paste0(" waited ", run$links$limits[2L], " s in vain for it from worker "),
    damaged = " read it damaged from worker ",
    " didn't find it at worker "
  ), at[2L], "."))
}

# For partition_summarise() and row_stage(), whose plan isn't right for the data.
signal_replan <- function(what) {
  signalCondition(structure(c(list(message = "another plan is needed", call = NULL), what),
    class = c("muster_replan", "condition")
  ))
}

run_commit <- function(run, key, value, worker) {
  told <- .Call(ffi_plan_done, run$shuffle$plan, c(key, value$self[2L]))
  if (told != plan_told[["committed"]]) {
    drop_at(run$shuffle, worker, key)
    return()
  }
  run$done <- run$done + 1L
  stage <- stage_by(run$shuffle, key[1L])
  stage$rows[key[2L]] <- value$rows
  stage$bytes[key[2L]] <- value$bytes
  run$largest <- max(run$largest, value$bytes)
  if (!is.null(value$columns)) set_columns(stage, key[2L], value)
  if (!is.null(value$shares)) set_shares(stage, key[2L], value$shares)
  if (!is.null(value$spot)) links_note_spot(stage, key[2L], value$spot)
  if (length(value$model)) set_model(run, stage, key, value, worker)
  if (!is.null(value$families)) check_families(run, stage, value$families)
  if (!is.null(value$row_types)) {
    if (is.null(stage$row_types)) stage$row_types <- value$row_types
    if (!identical(stage$row_types, value$row_types)) signal_replan(list())
  }
  if (!is.null(value$types)) {
    if (is.null(stage$types)) stage$types <- value$types
    if (!identical(stage$types, value$types)) signal_replan(list(folds = FALSE))
  }
  if (identical(stage, run$stage)) {
    run$answers[[key[2L]]] <- value
  }
}

# The value of names(): the columns of the first part with rows, or else of the one with the most
# columns.
set_columns <- function(stage, task, value) {
  first <- if (value$rows > 0) task else stage$count + 1L
  better <- is.null(stage$columns) || first < stage$columns_task ||
    (first > stage$count && stage$columns_task > stage$count &&
      length(value$columns) > length(stage$columns))
  if (better) {
    stage$columns <- value$columns
    stage$columns_task <- first
  }
}

set_shares <- function(stage, task, shares) {
  if (is.null(stage$shares)) stage$shares <- vector("list", stage$count)
  if (is.null(stage$shares[[task]])) stage$shared <- stage$shared + 1L
  stage$shares[[task]] <- shares
}

# Numbers of split rows: a row for each map task, a column for each part.
share_matrix <- function(stage) do.call(rbind, stage$shares)

# Starts parts with the most rows first, once their numbers are known: if one began last, everything
# would wait for it.
run_order <- function(run) {
  stage <- run$stage
  far <- stage$far
  if (stage$ordered || !length(far)) {
    return()
  }
  if (is.null(stage$weights) && far[[1L]]$shared == far[[1L]]$count) {
    stage$weights <- colSums(share_matrix(far[[1L]]))
  }
  if (!is.null(stage$weights)) {
    .Call(ffi_plan_order, run$shuffle$plan, stage$id, order(-stage$weights))
    stage$ordered <- TRUE
    for (one in far) one$shares <- NULL
  }
}

# The columns of a stage are those of its first part with rows, whichever is done first; if none has
# rows, of the first with the most columns. Parts without rows may lack some: see bind_frames().
set_model <- function(run, stage, key, value, worker) {
  task <- key[2L]
  names <- names(value$model)
  known <- names(stage$model)
  some <- value$rows > 0
  if (!length(known)) {
    better <- TRUE
  } else if (identical(names, known)) {
    better <- some > stage$model_some || (some == stage$model_some && task < stage$model_task)
  } else if (lacks_columns(names, value$rows, known)) {
    return()
  } else if (lacks_columns(known, stage$model_some, names)) {
    better <- TRUE
  } else {
    abort_part(run, key, paste0(
      "Its columns are ", column_list(names), ", but part ", stage$model_task, " has ",
      column_list(known), "."
    ), worker, "input")
  }
  if (better) {
    stage$model <- value$model
    stage$model_task <- task
    stage$model_some <- some
  }
}

# Keys of all parts, and of both sides of a join, must be comparable. A stage's families are those
# of its parts so far, "none" if all values of a column were NA.
check_families <- function(run, stage, families) {
  compare <- function(known) {
    wrong <- which(known != "none" & families != "none" & known != families)
    if (length(wrong)) {
      abort_muster("input",
        paste0(
          "Column `", names(families)[wrong[1L]], "` can't be a key: it is a ", known[wrong[1L]],
          " in one part and a ", families[wrong[1L]], " in another, which can't be compared as ",
          "keys."
        ),
        column = names(families)[wrong[1L]], call = run$call
      )
    }
  }
  if (is.null(stage$families)) stage$families <- families
  compare(stage$families)
  if (!is.null(stage$partner$families)) compare(stage$partner$families)
  blank <- stage$families == "none"
  stage$families[blank] <- families[blank]
}

# file: the one concerned, if there are several and it is known.
part_text <- function(run, key, file = NULL) {
  stage <- stage_by(run$shuffle, key[1L])
  file <- run_file(run, key, file)
  paste0(
    "Part ", key[2L], if (!is.null(stage$title)) paste0(" of ", stage$title),
    if (length(file)) {
      more <- if (length(file) > 1L) paste0(" and ", length(file) - 1L, " more")
      paste0(" (", file[1L], more, ")")
    }
  )
}

run_file <- function(run, key, file = NULL) {
  if (is.null(file)) file_of(stage_by(run$shuffle, key[1L]), key[2L]) else file
}

# The files of a part, or NULL.
file_of <- function(stage, task) {
  while (!is.null(stage) && is.null(stage$files)) stage <- stage$near
  if (!is.null(stage)) stage$files[[task]]
}

abort_part <- function(run, key, text, worker, kind, file = NULL) {
  abort_muster(kind, paste0(part_text(run, key, file), ": ", text),
    details = paste("On worker", worker), part = key[2L], worker = worker,
    file = run_file(run, key, file), call = run$call
  )
}

# A task was lost too often, or no worker is left.
abort_lost_part <- function(run, action) {
  key <- action[2:3]
  repeatedly <- any(run$workers[, 2L] != worker_is[["gone"]])
  details <- if (repeatedly) {
    all <- run$losses[[paste(key, collapse = " ")]]
    times <- tabulate(match(all, unique(all)))
    paste0(unique(all), ifelse(times > 1L, paste0(" (", times, " times)"), ""))
  } else if (!is.null(run$loss)) {
    loss_details(run$loss)
  }
  abort_muster("lost",
    if (repeatedly) {
      paste0(part_text(run, key), " was lost repeatedly, with its worker.")
    } else {
      "All workers are lost."
    },
    details = details, part = key[2L], worker = run$loss$worker, signal = run$loss$signal,
    call = run$call
  )
}
