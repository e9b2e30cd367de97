# Oracles for partitions: what base R gives in one process.

# One row for each group, in a canonical order: groups' order is the shuffle's own.
sorted_rows <- function(x) {
  x <- as.data.frame(x)
  keys <- lapply(x, function(column) {
    if (is.factor(column)) as.character(column) else xtfrm(column)
  })
  x <- x[do.call(order, c(unname(keys), list(na.last = TRUE))), , drop = FALSE]
  row.names(x) <- NULL
  x
}

# Which rows have equal keys, by R's own == and is.na(): the slow way, no hashing. NA and NaN
# are keys of their own. A group's number is the first row's that it is equal to.
slow_groups <- function(columns) {
  n <- length(columns[[1L]])
  group <- integer(n)
  for (i in seq_len(n)) {
    group[i] <- i
    for (j in seq_len(i - 1L)) {
      if (all(vapply(columns, function(x) same_key(x, i, j), NA))) {
        group[i] <- group[j]
        break
      }
    }
  }
  match(group, unique(group))
}

same_key <- function(x, i, j) {
  nan <- function(k) is.double(x) && is.nan(unclass(x)[k]) && !inherits(x, "integer64")
  if (is.na(x[i]) || is.na(x[j])) {
    return(is.na(x[i]) && is.na(x[j]) && nan(i) == nan(j))
  }
  isTRUE(x[i] == x[j])
}

# A column of each kind that may be a key, of n values with many equal ones.
key_column <- function(kind, n) {
  pick <- function(x) x[sample.int(length(x), n, replace = TRUE)]
  switch(kind,
    logical = pick(c(TRUE, FALSE, NA)),
    integer = pick(c(1:5, NA, -7L)),
    double = pick(c(0, -0, 1, 1.5, NA, NaN, Inf, -Inf, 1e300, 5e-324)),
    factor = factor(pick(c("b", "a", NA, "c d")), levels = c("c d", "b", "unused", "a")),
    ordered = factor(pick(c("lo", "hi")), levels = c("lo", "hi"), ordered = TRUE),
    character = pick(c("", "a", NA, "NA", "zebra", "\u00e4", "a b")),
    mixed = pick(c("\u00e4", iconv("\u00e4", "UTF-8", "latin1"), "x")),
    date = pick(as.Date("2020-02-29") + c(0, 1, NA, 366)),
    time = pick(as.POSIXct("2020-02-29 12:00:00", tz = "UTC") + c(0, 0.5, NA, 60)),
    difftime = as.difftime(pick(c(1, 2, NA)), units = "mins"),
    hour = structure(pick(c(0L, 3600L, NA)), class = c("POSIXct", "POSIXt"), tzone = "Asia/Tokyo"),
    bytes = pick(c("x", "", marked(c(0xc3, 0xa4), "bytes"), marked(0xff, "bytes"), NA)),
    int64 = int64_pick(n)
  )
}
key_kinds <- c(
  "logical", "integer", "double", "factor", "ordered", "character", "mixed", "date", "time",
  "difftime"
)

# Those that == and data.frame() of base R can't take.
all_key_kinds <- c(key_kinds, "hour", "bytes", "int64")

# A key's column by base R's match(): equal values, NA and NaN have equal numbers, also across
# columns of different types.
key_codes <- function(...) {
  columns <- lapply(list(...), function(x) {
    if (is.factor(x)) {
      as.character(x)
    } else if (is_int64(x)) {
      int64_numbers(x)
    } else if (is.character(x)) {
      x
    } else {
      as.numeric(unclass(x))
    }
  })
  codes <- do.call(c, columns)
  codes <- match(codes, unique(codes))
  split(codes, rep(seq_along(columns), lengths(columns)))
}

plan_counts <- function(p) .Call(ffi_plan_counts, open_handle(p)$shuffle$plan)

# The stage that a handle stands for.
stage_of <- function(p) open_handle(p)$stage

# At which worker each part is.
parts_at <- function(p) .Call(ffi_plan_where, open_handle(p)$shuffle$plan, p$stage)[, 2L]

# Scattered columns that data.frame() can't take without their package.
new_partition_of <- function(cl, columns) {
  partition_scatter(cl, new_frame(columns, length(columns[[1L]])), parts = 2)
}

# Package bit64's vectors, made of their bytes: little-endian numbers within 2^52.
int64_pick <- function(n) {
  values <- int64(-1, 0, 1, 2^40 + 1, NA)
  structure(unclass(values)[sample.int(5L, n, TRUE)], class = "integer64")
}

int64 <- function(...) {
  bytes <- lapply(list(...), function(x) {
    if (is.na(x)) {
      as.raw(c(rep(0, 7), 128))
    } else {
      as.raw(c(floor(x / 256^(0:6)) %% 256, if (x < 0) 255 else 0))
    }
  })
  structure(readBin(unlist(bytes), "double", length(bytes), endian = "little"), class = "integer64")
}

# ---- Aggregates: exact oracles, and folds without a cluster

# The exact value of sum(weight * x), rounded at the end of all: by whole numbers below 2^20 at
# each 20th power of 2. Independent of muster's C code. weight: whole numbers below 2^12.
exact_sum <- function(x, weight = 1) {
  weight <- rep_len(weight, length(x))[x != 0]
  x <- x[x != 0]
  if (!length(x)) {
    return(0)
  }
  # One below the exponent at least: then `digits` are whole.
  exponent <- pmax(floor(log2(abs(x))), -1022) - 1
  half <- exponent %/% 2
  digits <- abs(x) * 2^-half * 2^(52 - exponent + half)
  at <- exponent - 52 + 1080
  digits <- digits * 2^(at %% 20)
  limbs <- numeric(120)
  for (k in 0:3) {
    limb <- digits %% 2^20
    digits <- (digits - limb) / 2^20
    sums <- rowsum(sign(x) * weight * limb, at %/% 20 + k + 1)
    rows <- as.integer(rownames(sums))
    limbs[rows] <- limbs[rows] + sums[, 1L]
  }
  carried <- carry(limbs)
  negative <- carried[120L] < 0
  if (negative) carried <- carry(-limbs)
  at <- rev(which(carried != 0))
  exponent <- 20 * (at - 1) - 1080
  half <- exponent %/% 2
  total <- sum(carried[at] * 2^half * 2^(exponent - half))
  if (negative) -total else total
}

carry <- function(limbs) {
  for (i in seq_len(length(limbs) - 1L)) {
    limb <- limbs[i] %% 2^20
    limbs[i + 1L] <- limbs[i + 1L] + (limbs[i] - limb) / 2^20
    limbs[i] <- limb
  }
  limbs
}

# The distance to the next double.
ulp <- function(x) 2^(pmax(floor(log2(pmax(abs(x), 2^-1022))), -1022) - 52)

# Whether got is the exact sum of x, rounded to the nearest, or the exact mean within one unit in
# the last place.
is_exact_sum <- function(x, got) {
  most <- .Machine$double.xmax
  if (is.infinite(got)) {
    return(exact_sum(c(x, -sign(got) * most)) * sign(got) >= 2^970)
  }
  abs(exact_sum(c(x, -got))) <= ulp(got) / 2 * (1 + 1e-9)
}

is_exact_mean <- function(x, got) {
  n <- length(x)
  error <- exact_sum(c(x, -got), c(rep(1, n), n)) / n
  is.finite(got) && abs(error) <= ulp(got) * (1 + 1e-9)
}

# What fold_partial() does where folding doesn't pay.
fold_unfolded <- function(x, by, plan) {
  x <- with_columns(x, c(by, plan$columns))
  parts <- each_fold(plan, fold_nothing, fold_values(x, plan), nrow(x))
  partial_frame(as.list(x[by]), parts, nrow(x))
}

# The plan for expressions as text, all of which fold.
text_plan <- function(what, columns, env = parent.frame()) {
  exprs <- Map(function(name, text) list(name = name, code = str2lang(text), env = env),
    names(what), what, USE.NAMES = FALSE
  )
  plan <- plan_results(exprs, columns)
  plan$returns <- FALSE
  plan
}

# partition_summarise() of expressions as text, by name.
summarise_text <- function(p, by, what, ..., env = parent.frame()) {
  do.call(partition_summarise, c(list(p), lapply(what, str2lang), list(.by = by, ...)), envir = env)
}

# Aggregates of rows that are in these parts (a number for each row), some folded before they
# travel and some not: groups in the order of their first appearance.
fold_in_parts <- function(x, by, what, part = rep(1L, nrow(x)), unfolded = integer()) {
  plan <- text_plan(what, names(x), parent.frame())
  frames <- lapply(sort(unique(part)), function(k) {
    rows <- take_rows(x, which(part == k))
    if (k %in% unfolded) {
      fold_unfolded(rows, by, plan)
    } else {
      fold_partial(rows, by, plan)
    }
  })
  fold_final(bind_frames(frames), by, plan)
}

# Numbers that lose most digits when they are added in any order: pairs that cancel but for little.
ill_conditioned <- function(n, digits) {
  big <- rnorm(n) * 2^runif(n, 0, digits)
  x <- c(big, -big * (1 + 2^-sample(20:52, n, TRUE)), rnorm(n) * 2^-runif(n, 0, digits))
  x[sample.int(length(x))]
}

# integer64 of halves of 32 bits, as doubles.
int64_from <- function(upper, lower = 0) {
  # The least integer is NA's bits.
  signed <- function(x) {
    x <- ifelse(x >= 2^31, x - 2^32, x)
    as.integer(ifelse(x == -2^31, NA, x))
  }
  int64_of_halves(rbind(signed(lower), signed(upper)))
}

# Names of columns and list elements that occur inside of the code that moves and folds rows.
inner_names <- c(
  "group", "first", "value", "values", "rest", "least", "rows", "n", "sum", "mean", "min", "max",
  "count", "counts", "a.sum", "a.value", "a.rest", "a.count", "v.count", "v.sum", "r.sum", "name",
  "names", "how", "column", "columns", "na_rm", "na.rm", "by", "by_x", "by_y", "x", "y", "key",
  "keys", "begin", "frames", "folded", "further", "parts", "part", "model", "families", "shares",
  "data", "self", "links", "steps", "step", "kind", "args", "fun", "state", "result", "bytes",
  "class", "row.names", "dim", "1", "2", "V1", "T", "F", "NA", "TRUE", "if", "...", "..1", ".x",
  ".y", "x.x", "x.y", "k.x", "k.y", "a b", "\u00e4", "`", "i", "at", "none", "one", "units"
)
