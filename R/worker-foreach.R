# A worker's side of foreach's loops.

# The function of an iteration's values that map_piece() calls.
loop_step <- function(job) {
  register_sequential()
  iteration_step(job)
}

# The same for a worker that needn't have muster.
iteration_step <- function(job) {
  frame <- environment(job$fun)
  iteration_code <- job$loop$code
  functions <- job$loop$functions
  arguments <- job$loop$arguments
  function(values) {
    iteration_frame <- list2env(c(values, arguments), new.env(parent = frame))
    for (name in names(functions)) {
      fun <- eval(functions[[name]]$code, iteration_frame)
      attributes(fun) <- functions[[name]]$attributes
      assign(name, fun, iteration_frame)
    }
    eval(iteration_code, iteration_frame)
  }
}

environment(iteration_step) <- baseenv()

# How conditions name the call of an iteration, which says nothing to users.
is_step <- function(call) identical(call, quote(eval(iteration_code, iteration_frame)))

# A loop inside of an iteration would warn that it has no backend.
register_sequential <- function() {
  if (the_worker$loops) {
    return(invisible())
  }
  the_worker$loops <- TRUE
  register <- function(...) if (!foreach::getDoParRegistered()) foreach::registerDoSEQ()
  when_loaded("foreach", register)
}
