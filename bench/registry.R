# The benchmarks: one question a file, in the order of their sections in README.md.
# bench/<name>.R defines measure(quick), which gives list(raw, rows, notes):
#   raw    data frame with case, round, arm, value, unit; rows of interleave()
#   rows   data frame, the table's rows; from compare_all() and its like
#   notes  what was left out, and why; character()

registry <- c(
  "start-cold" = "How long until N workers answer, in a session that has just begun?",
  "start-warm" = "How long until N workers answer, with the fork server up?",
  "work" = "How long does a user's work take on workers that have just started, and later?",
  "memory" = "How much memory does an idle worker take?",
  "call" = "How long does one trivial call take?",
  "calls-2000" = "How long do 2,000 tasks that do nothing take, balanced over 2 workers?",
  "psock" = "What does makeClusterPSOCK() cost, ours and parallelly's?",
  "heal" = "What does healing cost, when nothing fails and when something does?",
  "task" = "How long do tasks take that are submitted one by one, and maps?",
  "future" = "What does a future cost above one that is evaluated in the session?",
  "foreach" = "What does an iteration of foreach's cost above one of %do%?",
  "promise" = "How long after its task is over does a promise resolve?",
  "needs" = "What does a task cost whose argument is another task?",
  "share" = "How long until 100 MB are in every worker, and back?",
  "shuffle" = "How long do groups of rows take that are spread over 2 workers?",
  "hosts" = "What do workers on hosts cost that ssh leads to?",
  "discover" = "How long until a block of addresses is searched for a service?",
  "socket" = "How long does it take to connect two sockets, and to be refused?",
  "idle" = "How much processor time does a cluster take that has nothing to do?",
  "stop" = "How long until all workers of a stopped cluster are gone?"
)
