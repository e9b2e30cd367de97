# Random tables with columns of all types, and random pipelines of dplyr's verbs for them: what
# test-dplyr-oracle.R evaluates on workers and by dplyr itself.

# Keys begin with k: few values, so that groups have several rows and joins find partners.
oracle_table <- function(n, kinds = oracle_kinds()) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  umlaut <- "\u00e4"
  make <- list(
    kl = function() pick(c(TRUE, FALSE, NA)),
    ki = function() pick(c(1:3, NA, -7L)),
    kd = function() pick(c(0, -0, 1.5, NA, NaN, Inf, -Inf)),
    k64 = function() pick(int64(-1, 0, 2^40 + 1, NA)),
    ks = function() pick(c("", "a", NA, umlaut, iconv(umlaut, "UTF-8", "latin1"), "b c")),
    kf = function() factor(pick(c("b", "a", NA)), levels = c("unused", "b", "a")),
    kn = function() addNA(factor(pick(c("b", "a", NA)), levels = c("b", "a", "no"))),
    ko = function() factor(pick(c("lo", "hi", NA)), c("lo", "mid", "hi"), ordered = TRUE),
    kD = function() pick(as.Date("2020-02-28") + c(0:2, NA)),
    kt = function() pick(as.POSIXct("2020-03-29 00:30:00", tz = "Europe/Berlin") +
      c(0, 3600, 7200, NA)),
    kw = function() as.difftime(pick(c(1, 2.5, NA)), units = "mins"),
    l = function() pick(list(1:2, "a", NULL, list(1))),
    z = function() pick(c(1+2i, NA, 0i)),
    r = function() pick(as.raw(c(0, 1, 255)))
  )
  columns <- lapply(make[kinds], function(column) column())
  new_frame(c(list(
    id = sample.int(n), x = pick(c(round(rnorm(8), 3), NA)), y = pick(c(-4:4, NA)) / 2
  ), columns), n)
}

oracle_kinds <- function() {
  # Without bit64 dplyr doesn't know them.
  key <- c("kl", "ki", "kd", "ks", "kf", "kn", "ko", "kD", "kt", "kw", if (has_bit64) "k64")
  c(sample(key, 4L), sample(c("l", "z", "r"), sample.int(2L, 1L) - 1L))
}
has_bit64 <- requireNamespace("bit64", quietly = TRUE)

# A second table for joins: strings may have another name.
oracle_side <- function(side) {
  if ("ks" %in% names(side) && runif(1) < 0.5) side$other <- side$ks
  side
}

# ---- Steps

# A step for data as dplyr has it now, as list(verb, args, by): by are the groups of `.by`.
# order: columns within whose groups rows are in dplyr's order still, NULL if in none.
oracle_step <- function(data, order, side) {
  groups <- dplyr::group_vars(data)
  verbs <- c(
    "filter", "filter", "mutate", "mutate", "transmute", "select", "rename", "relocate",
    "group_by", "group_by", "ungroup", "summarise", "summarise", "count", "tally", "distinct",
    "slice_head", "slice_tail", "slice_min", "slice_max", "slice", "slice_sample", "inner_join",
    "left_join", "right_join", "full_join", "semi_join", "anti_join"
  )
  verb <- sample(verbs, 1L)
  by <- NULL
  takes_by <- c("filter", "mutate", "summarise", "slice", "slice_head", "slice_tail",
    "slice_min", "slice_max", "slice_sample")
  if (!length(groups) && verb %in% takes_by && runif(1) < 0.3) by <- oracle_keys(data)
  ordered <- !is.null(order) && all(order %in% c(groups, by))
  one <- function(x) x[[sample.int(length(x), 1L)]]
  args <- switch(verb,
    filter = oracle_some(oracle_conditions(data, c(groups, by), ordered), 2L),
    mutate = , transmute = oracle_values(data, c(groups, by), ordered),
    select = list(one(oracle_choices(data))),
    rename = oracle_renames(data),
    relocate = {
      at <- as.name(one(names(data)))
      c(list(as.name(one(names(data)))), one(list(list(), list(.before = at), list(.after = at))))
    },
    group_by = one(list(
      lapply(oracle_keys(data), as.name), c(lapply(oracle_keys(data), as.name), .add = TRUE),
      if ("id" %in% names(data)) list(odd = quote(id %% 2L == 1L)) else list(),
      if ("ks" %in% names(data)) list(kx = quote(nchar(ks))) else list()
    )),
    ungroup = list(),
    summarise = c(
      oracle_summaries(data, c(groups, by), ordered),
      if (is.null(by)) list(.groups = one(c("drop", "drop_last", "keep")))
    ),
    count = c(
      lapply(one(list(character(), oracle_keys(data))), as.name),
      if ("y" %in% names(data)) one(list(list(), list(wt = quote(y)))),
      one(list(list(), if (!"total" %in% names(data)) list(name = "total")))
    ),
    tally = if ("y" %in% names(data)) one(list(list(), list(wt = quote(y * 2)))) else list(),
    distinct = {
      keys <- oracle_keys(data)
      no_key <- vapply(data, function(x) is.list(x) || is.complex(x) || is.raw(x), NA)
      if (!any(no_key)) keys <- one(list(character(), keys))
      all <- !is.null(order) && !length(order) && length(keys)
      if (length(keys) || !any(no_key)) {
        c(lapply(keys, as.name), if (all) list(.keep_all = TRUE))
      }
    },
    slice_head = , slice_tail = list(n = one(c(1, 2, 50))),
    slice_min = , slice_max = list(as.name(one(oracle_sortable(data))), n = one(c(0, 1, 2, 50))),
    slice = list(one(list(1L, -1L, quote(n()), quote(c(2, 1)), 5L))),
    slice_sample = list(prop = 1),
    {
      keys <- intersect(names(side), names(data))
      names(keys) <- keys
      if ("other" %in% names(side) && "ks" %in% names(data)) {
        keys <- c(keys[keys != "ks"], ks = "other")
      }
      if (length(keys)) {
        few <- min(length(keys), sample.int(2L, 1L))
        list(one(list("frame", "handle")), by = sample(keys, few))
      }
    }
  )
  if (verb %in% c("slice_head", "slice_tail", "slice") && !ordered) {
    return(NULL)
  }
  if (verb == "slice" && !length(c(groups, by))) {
    return(NULL)
  }
  if (verb == "slice_sample" && !length(c(groups, by))) {
    return(NULL)
  }
  if (is.null(args)) {
    return(NULL)
  }
  list(verb = verb, args = args, by = by, order = oracle_order(verb, order, groups, by, args))
}

# The order that is left.
oracle_order <- function(verb, order, groups, by, args) {
  by <- c(groups, by)
  shuffles <- c("summarise", "count", "tally", "distinct")
  if (verb %in% shuffles || grepl("_join$", verb)) {
    return(NULL)
  }
  # Their order of rows is another one, in dplyr too.
  if (verb %in% c("slice_min", "slice_max", "slice_sample", "rename", "select")) {
    return(NULL)
  }
  if (verb %in% c("mutate", "transmute") && any(order %in% names(args))) {
    return(NULL)
  }
  if (!length(by) || is.null(order) || verb %in% c("group_by", "ungroup", "relocate")) {
    return(order)
  }
  if (length(order) && all(order %in% by)) order else if (!length(order)) by
}

# From 1 to `most` of these, NULL if there are none.
oracle_some <- function(x, most) {
  if (length(x)) x[sample.int(length(x), min(length(x), sample.int(most, 1L)))]
}

oracle_keys <- function(data) {
  keys <- grep("^[kw]", names(data), value = TRUE)
  if (!length(keys)) keys <- setdiff(names(data), c("l", "z", "r", "x"))
  keys <- keys[!vapply(keys, function(k) is.list(data[[k]]) || has_both_na(data[[k]]), NA)]
  sample(keys, min(length(keys), sample.int(2L, 1L)))
}

# To dplyr the missing value and the level NA differ. Keys are labels.
has_both_na <- function(x) anyNA(levels(x)) && anyNA(unclass(x))

oracle_sortable <- function(data) {
  # dplyr itself takes integer64 for numbers there.
  sorts <- function(x) !is.list(x) && !is_int64(x) && !is.complex(x) && !is.raw(x)
  names <- names(data)[vapply(data, sorts, NA)]
  if (length(names)) names else names(data)
}

oracle_conditions <- function(data, groups, ordered) {
  all <- expression(
    x > 0, x > y | is.na(x), !is.na(ks), kl, kl | is.na(kl), ki %in% c(1, NA), kf == "a",
    kf != "b" | y > 0, is.na(kn), kD > as.Date("2020-02-28"), kD == "2020-02-29", is.nan(kd),
    is.finite(kd), nchar(ks) > 0L, ks == "\u00e4", id %% 2L == 0L, TRUE, FALSE, y > 100,
    x > mean(x, na.rm = TRUE), y >= max(y, na.rm = TRUE) - 1, is.na(kw), is.na(ko), is.na(kt),
    kd == 0, startsWith(ks, "b"), !(kl & y > 0), xor(kl, x > 0), NA, ki == kd, y > median(y),
    id == max(id), any(kl), n() > 2L, n_distinct(ks) > 1L, !is.na(k64), y %in% c(max(y), 0),
    x >= max(x[y > 0], na.rm = TRUE), id > length(x) / 2, y > max(sapply(0:1, function(x) x))
  )
  grouped <- expression(
    x == max(x, na.rm = TRUE), rank(id) <= 2, ko > "lo", kw > 1,
    kt > as.POSIXct("2020-03-29 01:00:00", tz = "UTC"), x > median(y)
  )
  in_order <- expression(row_number() == 1L, row_number() > 1L, id > lag(id), !duplicated(y))
  oracle_known(c(as.list(all), if (length(groups)) as.list(grouped),
    if (ordered && length(groups)) as.list(in_order)), data)
}

oracle_values <- function(data, groups, ordered) {
  all <- expression(
    v1 = x * 2, v2 = ifelse(kl, x, -x), ki = ki + 1L, ks = toupper(ks), v3 = is.na(ko),
    x = NULL, v4 = 1L, v5 = "a", v6 = x - mean(x, na.rm = TRUE), v7 = substr(ks, 1, 1),
    v8 = kf %in% c("a", NA), v9 = pmin(x, 0), x = round(x, 1), va = kD - as.Date("2020-01-01"),
    vb = kf, vc = v1 + 1, vd = as.integer(kl), ve = sqrt(abs(y)), vf = ki %/% 2L, vg = y %% 1.5,
    vh = NA, vi = x + sum(y, na.rm = TRUE), vj = kl & NA, vk = log(abs(x) + 1, base = 2),
    vl = ks == "a", vm = pmax(y, 0, na.rm = TRUE), y = as.numeric(id), kd = -kd, kn = is.na(kn),
    vn = kw, vo = kt, vp = l, vq = ki / 0L, vr = tolower(ks), vs = x > 0, vt = kd * 2,
    vu = x + limit, vv = .data$y * 2, vw = ifelse(x > mean(x, na.rm = TRUE), "hi", "no"), vx = kl,
    vy = as.logical(y), vz = endsWith(ks, "c"), vaa = ki == 1L | is.na(ki),
    w1 = n(), w2 = mean(x), w4 = x - mean(x, na.rm = TRUE), w5 = max(id), w6 = n_distinct(ks),
    w9 = sum(kl, na.rm = TRUE), wc = median(y, na.rm = TRUE), wf = x / sum(x, na.rm = TRUE),
    wo = is.na(k64), wq = max(rank(id)), wr = findInterval(y, c(min(id) - 9, 0, max(id))),
    ws = max(ks),
    wt = quantile(y, 0.4, na.rm = TRUE, names = FALSE) - y, wu = max(kD, na.rm = TRUE),
    vac = signif(x * 100, 2), vad = nchar(ks) * 2L, vae = !kl, vaf = as.integer(y)
  )
  grouped <- expression(
    w3 = rank(id, na.last = "keep"), w7 = kD - min(kD), w8 = as.character(kf),
    wa = list(n()), wb = kt, we = range(id)[1L], wg = if (n() > 2L) max(x) else min(x),
    wh = sapply(id, function(i) i + 1L), wi = .data$x + .env$limit, wj = coalesce(x, 0),
    wk = if_else(kl, "yes", "no", missing = "?"), wl = list(sort(ks)), wm = max(ko),
    wn = kt - min(kt), wp = k64 == max(k64)
  )
  in_order <- expression(
    u1 = row_number(), u2 = lag(id), u3 = cumsum(id), u4 = first(ks), u5 = last(kt), u6 = lead(kf)
  )
  all <- as.list(all)
  # What is made first is there for the second.
  chosen <- oracle_some(oracle_known(c(all, if (length(groups)) as.list(grouped),
    if (ordered && length(groups)) as.list(in_order)), data), 3L)
  chosen[setdiff(names(chosen), groups)]
}

oracle_summaries <- function(data, groups, ordered) {
  all <- expression(
    n = n(), s1 = sum(x), s2 = sum(y, na.rm = TRUE), s3 = mean(x, na.rm = TRUE), s4 = min(id),
    s5 = max(y), s6 = sum(kl), s7 = any(kl, na.rm = TRUE), s8 = all(kl), s9 = n_distinct(ks),
    sa = n_distinct(kf, na.rm = TRUE), sb = min(kD, na.rm = TRUE), sc = max(kt), sd = sd(x),
    se = var(y, na.rm = TRUE), sf = median(x), sg = sum(x * y, na.rm = TRUE) / n(),
    sh = mean(y > 0), si = list(sort(id)), sj = max(id) - min(id), sk = n_distinct(kd),
    sl = mean(kl, na.rm = TRUE), sm = quantile(y, 0.3, na.rm = TRUE, names = FALSE),
    sn = sum(ki, na.rm = TRUE),
    so = paste(sort(ks), collapse = "+"), sp = sum(is.na(ko)), sq = max(kw, na.rm = TRUE),
    sr = n_distinct(kt), ss = mean(kD, na.rm = TRUE), st = s2 * 2, su = min(ks), sv = levels(kf)[1],
    sw = n_distinct(kw), sx = sum(ifelse(is.na(x), 0, x)), sy = n_distinct(ko), sz = max(ko),
    t1 = min(k64), t2 = sum(k64, na.rm = TRUE), t3 = n_distinct(k64), t4 = n_distinct(ki, ks),
    t5 = length(l), t6 = sum(kd), t7 = min(kd), t8 = mean(kd, na.rm = TRUE),
    t9 = max(kd, na.rm = TRUE),
    ta = min(kt, na.rm = TRUE), tb = mean(kt), tc = sum(x > limit, na.rm = TRUE), td = sum(-y),
    te = max(nchar(ks), na.rm = TRUE), tf = mean(x, na.rm = TRUE) - mean(y), tg = any(is.na(ks)),
    th = sd(y, na.rm = TRUE)^2, ti = list(table(kf)), tj = n() * 2L, tk = sum(.data$y), tl = "c",
    tm = n_distinct(x, y), tn = all(is.na(ki)), to = min(ko, na.rm = TRUE), tp = max(kl),
    tq = sum(kw, na.rm = TRUE), tr = mean(kw), ts = var(id), tt = n_distinct(kn), tu = mean(ki),
    tv = is.na(sum(x)), tw = round(mean(x, na.rm = TRUE), 2), tx = median(id), ty = IQR(id), tz = 1
  )
  in_order <- expression(o1 = first(ks), o2 = last(id), o3 = first(kf), o4 = first(kt), o5 = x[1],
    o6 = last(kd), o7 = first(k64), o8 = last(ko))
  some <- oracle_some(
    oracle_known(c(as.list(all), if (ordered) as.list(in_order)), data), 4L
  )
  some <- some[setdiff(names(some), groups)]
  if (runif(1) < 0.15 && all(c("x", "y") %in% setdiff(names(data), groups))) {
    more <- expression(
      across(c(s_x = x, s_y = y), list(m = mean, ~ sum(.x, na.rm = TRUE))),
      across(c(x, y), max, na.rm = TRUE, .names = "s_{.col}")
    )
    some <- c(some, as.list(more)[sample.int(2L, 1L)])
  }
  some
}

# Those whose columns are there, made in the same step included.
oracle_known <- function(exprs, data) {
  known <- c(names(data), "limit", ".data", ".env", "i")
  Filter(function(code) all(all.vars(code) %in% known), exprs)
}

oracle_choices <- function(data) {
  names <- names(data)
  some <- sample(names, sample.int(length(names), 1L))
  list(
    as.call(c(quote(c), lapply(some, as.name))), call("-", as.name(names[1L])),
    quote(where(is.numeric)), quote(starts_with("k")), quote(everything()),
    as.call(c(quote(c), stats::setNames(lapply(some[1L], as.name), "new"), quote(everything()))),
    quote(c(last_col(), everything())), quote(!where(is.character)),
    call("any_of", as.call(c(quote(c), as.list(some), "nope")))
  )
}

oracle_renames <- function(data) {
  old <- sample(names(data), 1L)
  stats::setNames(list(as.name(old)), paste0(substr(old, 1, 2), "_new"))
}

# ---- Evaluation

# side: the second table of joins, list(frame, handle).
oracle_eval <- function(step, data, side, own_by = TRUE) {
  args <- step$args
  if (grepl("_join$", step$verb)) args[[1L]] <- side[[args[[1L]]]]
  name <- if (step$verb %in% c("filter", "mutate", "summarise", "slice")) ".by" else "by"
  if (length(step$by)) {
    if (own_by) {
      args[[name]] <- as.call(c(quote(c), lapply(step$by, as.name)))
    } else {
      data <- dplyr::group_by(data, !!!lapply(step$by, as.name))
    }
  }
  env <- new.env(parent = globalenv())
  own <- c("n", "row_number", "lag", "lead", "first", "last", "n_distinct", "coalesce", "if_else",
    "across")
  for (f in own) {
    assign(f, getExportedValue("dplyr", f), env)
  }
  env$data <- data
  env$limit <- 0.25
  verb <- call("::", quote(dplyr), as.name(step$verb))
  done <- eval(as.call(c(verb, quote(data), args)), env)
  # Since dplyr 1.1 columns come as they were asked for.
  if (!own_by && step$verb == "distinct" && !length(step$args$.keep_all)) {
    asked <- vapply(step$args, deparse, "")
    if (length(asked)) done <- done[c(setdiff(dplyr::group_vars(data), asked), asked)]
  }
  if (length(step$by) && !own_by) dplyr::ungroup(done) else done
}

oracle_text <- function(step) {
  args <- c(step$args, if (length(step$by)) list(.by = step$by))
  text <- vapply(args, function(a) paste(deparse(a), collapse = ""), "")
  named <- nzchar(names2(args))
  text[named] <- paste(names2(args)[named], "=", text[named])
  paste0(step$verb, "(", paste(text, collapse = ", "), ")")
}
names2 <- function(x) if (is.null(names(x))) rep("", length(x)) else names(x)

# ---- Comparison

# Rows in an order of their own: by what they show, numbers by ten digits.
oracle_rows <- function(data) {
  data <- as.data.frame(dplyr::ungroup(data))
  shown <- lapply(names(data), function(name) {
    x <- data[[name]]
    if (is.list(x)) {
      return(vapply(x, function(one) paste(deparse(one), collapse = ""), ""))
    }
    if (is.factor(x)) {
      return(paste(as.character(x), unclass(x)))
    }
    if (is_int64(x)) {
      return(bit64::as.character.integer64(x))
    }
    x <- as.vector(unclass(x))
    if (!is.double(x)) {
      return(enc2utf8(as.character(x)))
    }
    ifelse(is.na(x) & (!is.nan(x) | is_made(name)), NA, sprintf("%.9e", x + 0))
  })
  rows <- do.call(paste, c(unname(shown), list(sep = "\r")))
  if (length(data)) data <- data[order(rows, method = "radix"), , drop = FALSE]
  row.names(data) <- NULL
  data
}

# Columns that the pipelines make: of these NA and NaN aren't told apart, as R itself doesn't.
is_made <- function(name) grepl("^[stvwu]", name)

# What differs, as text, or NULL.
oracle_difference <- function(got, want) {
  if (!identical(names(got), names(want))) {
    return(paste0("names: ", toString(names(got)), " / ", toString(names(want))))
  }
  if (nrow(got) != nrow(want)) {
    return(paste0("rows: ", nrow(got), " / ", nrow(want)))
  }
  got <- oracle_rows(got)
  want <- oracle_rows(want)
  about <- function(x) {
    about <- attributes(x)
    c(list(typeof(x)), about[order(names2(about))])
  }
  # Without rows, a made column's type may be unknown.
  for (name in if (nrow(want)) names(got)) {
    a <- got[[name]]
    b <- want[[name]]
    if (!identical(about(a), about(b))) {
      return(paste0(name, ": ", deparse(about(a))[1L], " / ", deparse(about(b))[1L]))
    }
    if (is.double(a) && !is_int64(a)) {
      a <- as.vector(unclass(a))
      b <- as.vector(unclass(b))
      if (is_made(name)) a[is.na(a)] <- b[is.na(b)] <- NA
      same <- identical(is.nan(a), is.nan(b)) && isTRUE(all.equal(a, b, tolerance = 1e-12))
    } else {
      same <- identical(a, b)
    }
    if (!same) {
      return(paste("values of", name))
    }
  }
}

# ---- Runs

# A random pipeline, on workers and by dplyr: a text of what differs, or NULL, with the steps as
# attribute. Steps that dplyr itself refuses are left out.
oracle_run <- function(cl, rows = c(0L, 1L, 2L, 7L, 40L, 40L, 200L), most = 4L) {
  one <- function(x) x[[sample.int(length(x), 1L)]]
  kinds <- oracle_kinds()
  n <- one(rows)
  data <- oracle_table(n, kinds)
  side <- oracle_side(oracle_table(one(c(0L, 3L, 8L)), kinds[1:3])[c("y", kinds[1:3])])
  p <- partition_scatter(cl, data, parts = one(c(1L, 3L, 6L)))
  sides <- list(frame = side, handle = partition_scatter(cl, side, parts = 2L))
  steps <- paste0(n, " rows: ", toString(names(data)))
  # Rows of which some parts have none.
  if (runif(1) < 0.5) {
    least <- ceiling(n * 0.6)
    data <- dplyr::filter(data, id > least)
    p <- dplyr::filter(p, id > least)
  }
  order <- character()
  for (k in seq_len(one(seq_len(most)) * 3L)) {
    step <- oracle_step(data, order, side)
    want <- if (!is.null(step)) {
      tryCatch(oracle_eval(step, data, list(frame = side, handle = side), FALSE),
        error = function(e) NULL
      )
    }
    if (is.null(want) || nrow(want) > 5000L || !length(want)) next
    steps <- c(steps, oracle_text(step))
    got <- tryCatch(oracle_eval(step, p, sides), error = identity)
    differs <- if (inherits(got, "error")) {
      paste("error:", conditionMessage(got))
    } else if (!identical(dplyr::group_vars(got), dplyr::group_vars(want))) {
      "groups"
    } else {
      oracle_difference(dplyr::collect(got), want)
    }
    if (!is.null(differs)) {
      return(paste(c(differs, steps), collapse = "\n  %>% "))
    }
    # Types of new columns aren't known without rows, and must not count further on.
    if (!nrow(want) && step$verb %in% c("summarise", "distinct") || length(steps) > most) break
    data <- want
    p <- got
    order <- step$order
  }
  NULL
}
