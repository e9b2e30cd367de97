# The two questions about starts share sizes, arms and rows.

# Rounds by number of workers and arm. What takes seconds is done less often.
start_plan <- function(quick, cold) {
  arms <- c("muster", "parallel", "parallelly", "mirai", "limit")
  rounds <- rbind(
    "2" = c(11, 11, 11, 0, 11),
    "8" = c(11, 11, 11, 11, 11),
    "64" = c(5, 5, 3, 3, 5),
    "120" = c(3, 3, 0, 0, 3),
    "256" = c(5, 0, 0, 0, 5),
    "1000" = c(3, 0, 0, 0, 3)
  )
  colnames(rounds) <- arms
  if (!cold) rounds <- rounds[rownames(rounds) != "120", ]
  if (quick) {
    rounds <- rounds[c("2", "8", "64"), ]
    rounds[] <- pmin(rounds, 2)
    rounds["64", c("parallel", "parallelly", "mirai")] <- 0
  }
  rounds
}

# time_one: function(arm, n) in seconds. bars: those of compare_all(), by number of
# workers.
measure_starts <- function(plan, time_one, bars) {
  parts <- lapply(as.integer(rownames(plan)), function(n) {
    counts <- plan[as.character(n), ]
    chosen <- select_peers(intersect(names(peers), names(counts)[counts > 0]), n)
    case <- paste(n, "workers")
    if (!"muster" %in% chosen$here) {
      return(list(rows = left_out(case, why_not("muster", n))))
    }
    raw <- interleave(case, counts[c(chosen$here, "limit")], function(arm) time_one(arm, n))
    why <- why_not("parallel", n)
    rows <- compare_all(raw, case, bars[[as.character(n)]],
      limit = "limit", why = if (nzchar(why)) why else "not measured"
    )
    list(raw = raw, rows = rows, notes = chosen$notes)
  })
  all <- function(part) lapply(parts, `[[`, part)
  list(
    raw = do.call(rbind, all("raw")), rows = do.call(rbind, all("rows")),
    notes = unlist(all("notes"))
  )
}
