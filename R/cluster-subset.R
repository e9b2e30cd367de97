# Some of a cluster's workers: cl[2:3].

# parallel's method returns NULL for a worker that doesn't exist, which fails later and elsewhere.
#' @export
`[.muster_cluster` <- function(x, i) {
  if (missing(i)) {
    return(x)
  }
  part <- unclass(x)[i]
  if (any(vapply(part, is.null, NA))) {
    call <- sys.call()
    call[[1L]] <- quote(`[`)
    abort_muster("input", "Can't take workers that the cluster doesn't have.",
      details = paste0("It has ", number_of(length(x), "worker"), "."),
      argument = "i", call = call
    )
  }
  structure(part, class = class(x))
}

#' @export
`[.muster_joined` <- `[.muster_cluster`
