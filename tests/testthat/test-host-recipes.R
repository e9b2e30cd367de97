# The recipes of ?launch_command, each with a stand-in for its client, see stand-ins.sh.

test_that("launch_command() fills in what it says, and nothing else", {
  two <- launch_command(
    "x -n {workers} {host} '{name}' ${host} {print $1} {{.ID}}", c(2, 3), c("a b", "c\\d")
  )
  said <- vapply(two$hosts, function(one) {
    filled_command(list(host = one$host, workers = one$workers))
  }, "")
  said <- sub("'muster-[a-z0-9-]+'", "NAME", said)
  expect_identical(said[1L], "x -n 2 'a b' NAME ${host} {print $1} {{.ID}}")
  expect_identical(said[2L], "x -n 3 'c\\d' NAME ${host} {print $1} {{.ID}}")
  # What is filled in isn't filled in again.
  odd <- launch_command("x {host} {workers}", 2, "{workers}{name}")$hosts[[1L]]
  expect_identical(filled_command(odd), "x '{workers}{name}' 2")
  names <- vapply(1:2, function(i) filled_command(list(host = list(command = "{name}"))), "")
  expect_false(names[1L] == names[2L])
  expect_true(all(grepl("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])$", names)))
  expect_error(launch_command("x {host}"), "`name` is NULL", class = "muster_error_input")
  expect_error(launch_command("x {workers}", NULL), "NULL", class = "muster_error_input")
  expect_error(launch_command("x", name = c("a", "a")), "launch_command()", fixed = TRUE,
    class = "muster_error_input"
  )
  expect_error(launch_command("x", name = character()), class = "muster_error_input")
  expect_error(launch_command("x", 1:3, c("a", "b")), "`workers`", class = "muster_error_input")
})

recipes <- c(
  docker = "docker run -i --rm IMAGE muster host",
  "docker that runs" = "docker exec -i {host} muster host",
  podman = "podman run -i --rm --name {name} IMAGE muster host",
  apptainer = "apptainer exec IMAGE.sif muster host",
  kubectl = "kubectl run {name} -i --rm --quiet --restart=Never --image=IMAGE -- muster host",
  "kubectl that talks" = "kubectl run {name} -i --rm --restart=Never --image=IMAGE -- muster host",
  "a pod that runs" = "kubectl exec -i {host} -- muster host",
  srun = "srun -u -n1 -c{workers} muster host",
  qrsh = "qrsh -now no -pe smp {workers} muster host",
  bsub = "bsub -I -n {workers} -R \"span[hosts=1]\" muster host",
  conda = "conda run --no-capture-output -n ENV muster host"
)

for (name in names(recipes)) {
  test_cluster(paste("a recipe leads to a host:", name), {
    skip_without_fork()
    local_clients()
    cl <- cluster_start(launch_command(recipes[[name]], 1L, "there"))
    expect_identical(clusterCall(cl, function() 5), list(5))
    cluster_stop(cl)
  })
}

wrong <- c(
  "docker run -i --rm busy muster host" = "Unable to find image",
  "docker run --rm IMAGE muster host" = "It ended: exit status", # without -i
  "docker run -it --rm IMAGE muster host" = "not a TTY",
  "docker exec -i busy muster host" = "No such container",
  "docker run -i IMAGE mustard host" = "executable file not found",
  "kubectl exec -i busy -- muster host" = "pods \"busy\" not found",
  "kubectl run Muster_1 -i --image=IMAGE -- muster host" = "is invalid",
  "kubectl run a -i --image=busy -- muster host" = "timed out waiting",
  "srun --partition=busy -u muster host" = "invalid partition",
  "qrsh -q busy muster host" = "doesn't exist",
  "conda run -n busy muster host" = "Not a conda environment",
  "apptainer exec busy muster host" = "could not open image"
)

test_cluster("what a client says when it fails is in the error", {
  skip_without_fork()
  local_clients()
  for (command in names(wrong)) {
    error <- expect_error(cluster_start(launch_command(command)), class = "muster_error_launch")
    expect_match(conditionMessage(error), wrong[[command]], fixed = TRUE)
    expect_identical(error$command, command)
    expect_null(error$reason)
    expect_no_match(conditionMessage(error), "Rscript|ssh|login|Is the host up")
  }
})

test_cluster("srun without -u keeps the greeting back, which is an error in time", {
  skip_without_fork()
  local_clients()
  local_settings(muster.start_timeout = 1.5)
  expect_error(cluster_start(launch_command("srun -n1 muster host")),
    class = "muster_error_timeout"
  )
})
