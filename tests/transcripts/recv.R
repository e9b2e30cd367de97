# Orders of answers: nodes by themselves, recvOneData() of all and of some.
source("tests/transcripts/transcript.R")
sendCall <- parallel:::sendCall
recvOneData <- parallel:::recvOneData
recvResult <- parallel:::recvResult
cl <- cluster_start(2)
one <- function(set = cl) {
  got <- recvOneData(set)
  list(node = got$node, tag = got$value$tag, value = got$value$value)
}
gated <- function(file, value) {
  wait_for(file)
  value
}
clusterExport(cl, "wait_for")
tell("the second answers first", {
  sendCall(cl[[1]], gated, list(path("a"), "first"), tag = 1L)
  sendCall(cl[[2]], identity, list("second"), tag = 2L)
  a <- one()
  file.create(path("a"))
  list(a, one())
})
tell("both are there: as they came", {
  rounds <- list()
  for (k in 1:4) {
    for (i in if (k %% 2) 1:2 else 2:1) {
      sendCall(cl[[i]], identity, list(k * 10 + i), tag = k * 10L + i)
      # A task that is behind an answer is done after it.
      task_wait(task_submit(cl[i], identity, 1))
    }
    rounds[[k]] <- list(one(), one())
  }
  rounds
})
tell("three calls of one node, in order", {
  for (k in 1:3) sendCall(cl[[1]], function(k) k^2, list(k), tag = k)
  lapply(1:3, function(k) one())
})
tell("one of some nodes", {
  sendCall(cl[[1]], gated, list(path("b"), "one"), tag = "x")
  sendCall(cl[[2]], identity, list("two"), tag = "y")
  a <- one(cl[2])
  file.create(path("b"))
  list(a, one(cl[1]))
})
tell("nodes' results", {
  for (i in 1:2) sendCall(cl[[i]], function(i) i * 2, list(i))
  list(recvResult(cl[[2]]), recvResult(cl[[1]]))
})
tell("no return", {
  sendCall(cl[[1]], function() 1:3, list(), return = FALSE)
  recvResult(cl[[1]])
})
tell("an error", {
  sendCall(cl[[1]], function() stop("sent"), list(), tag = 9L)
  got <- recvOneData(cl)
  c(list(got$node, got$value$tag, got$value$success), class(got$value$value))
})
tell("answer's fields", {
  sendCall(cl[[1]], identity, list(1), tag = 9L)
  got <- recvOneData(cl)
  list(names(got), sort(names(got$value)), length(got$value$time))
})
cluster_stop(cl)
tell("stopped", recvOneData(cl))
tell("sent to a stopped node", sendCall(cl[[1]], identity, list(1)))
