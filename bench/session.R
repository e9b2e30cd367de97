# A fresh session: evaluates one call for fresh() of bench/bench.R.
#   Rscript bench/session.R REQUEST, from the checkout's root

for (file in file.path("bench", c("bench.R", "processes.R", "peers.R", "registry.R"))) {
  source(file)
}

local({
  path <- commandArgs(trailingOnly = TRUE)[1L]
  request <- readRDS(path)
  answer <- tryCatch(
    {
      for (file in request$file) source(file)
      list(value = eval(request$call, globalenv()))
    },
    error = function(e) list(error = conditionMessage(e))
  )
  # Whole or not at all: its presence is the sign that all is done.
  part <- paste0(answer_file(path), ".part")
  saveRDS(answer, part)
  invisible(file.rename(part, answer_file(path)))
})
