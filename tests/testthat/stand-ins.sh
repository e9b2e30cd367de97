#!/bin/sh
# Stand-ins for clients that lead to a host, by the name that this is called by. They do what the
# real ones do with standard input, with words, and with exit statuses. "busy" as the image, pod or
# job is what isn't there.
client=$(basename "$0")
input=/dev/null # without -i
say() { echo "$client: $*" >&2; }
fail() {
  status=$1
  shift
  say "$@"
  exit "$status"
}

# carry STATUS WORDS: a command that isn't found has this status.
carry() {
  missing=$1
  shift
  command -v "$1" >/dev/null || fail "$missing" "exec: \"$1\": executable file not found in \$PATH"
  if [ "$input" = link ]; then "$@"; else "$@" <"$input"; fi
}

case $client in
  docker | podman)
    verb=$1; shift
    while :; do
      case $1 in
        -i) input="link" ;;
        -t | -it) fail 1 "the input device is not a TTY" ;;
        --rm) ;;
        --name) shift ;;
        *) break ;;
      esac
      shift
    done
    if [ "$1" = busy ]; then
      [ "$verb" = exec ] && fail 1 "Error response from daemon: No such container: busy"
      fail 125 "Unable to find image 'busy:latest' locally"
    fi
    shift
    carry 127 "$@" ;;
  kubectl)
    verb=$1; shift
    [ "$verb" = run ] && {
      echo "$1" | grep -Eqx '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?' || fail 1 "Pod \"$1\" is invalid"
      pod=$1; shift
    }
    quiet=""; image=""
    while [ $# -gt 0 ]; do
      case $1 in
        -i) input="link" ;;
        -t | -it) say "Unable to use a TTY - input is not a terminal" ;;
        --quiet) quiet=yes ;;
        --image=*) image=${1#--image=} ;;
        --rm | --restart=Never) ;;
        --) shift; break ;;
        -*) fail 1 "error: unknown flag: $1" ;;
        *) pod=$1 ;;
      esac
      shift
    done
    [ "$pod" = busy ] && fail 1 "Error from server (NotFound): pods \"busy\" not found"
    [ "$image" = busy ] && fail 1 "error: timed out waiting for the condition"
    [ "$quiet" ] || echo "If you don't see a command prompt, try pressing enter."
    carry 126 "$@"
    status=$?
    [ "$verb" = exec ] || [ "$quiet" ] || echo "pod \"$pod\" deleted"
    [ $status = 0 ] || say "command terminated with exit code $status"
    exit $status ;;
  srun)
    input="link"; unbuffered=""; job=""; full=""
    while :; do
      case $1 in
        -u) unbuffered=yes ;;
        -J) job=$2; shift ;;
        -w) SLURMD_NODENAME=$2; export SLURMD_NODENAME; shift ;;
        -n1 | -N1 | -c* | --mpi=none | --overlap) ;;
        --partition=busy) fail 1 "error: invalid partition specified: busy" ;;
        --partition=full) full=yes ;;
        *) break ;;
      esac
      shift
    done
    if [ "$full" ]; then # pending, until the file with its name is gone
      say "job 4711 queued and waiting for resources"
      echo "$job" >"$STAND_INS/pending"
      trap 'rm -f "$STAND_INS/pending"; say "Job has been cancelled"; exit 1' TERM
      while [ -e "$STAND_INS/pending" ]; do sleep 0.05; done
    fi
    if [ "$unbuffered" ]; then carry 2 "$@"; else carry 2 "$@" | sed -n '/never/p'; fi ;;
  squeue)
    case "$*" in
      *%L*)
        while [ "$1" != -n ]; do shift; done
        [ ! -e "$STAND_INS/left" ] || echo "$2|$(cat "$STAND_INS/left")" ;;
      *)
        reason=$(cat "$STAND_INS/reason" 2>/dev/null || echo Priority)
        [ ! -e "$STAND_INS/pending" ] || echo "$(cat "$STAND_INS/pending")|4711|$reason" ;;
    esac ;;
  scancel)
    echo "$*" >>"$STAND_INS/cancelled"
    rm -f "$STAND_INS/pending" ;;
  qrsh | bsub) # words are put together, for a shell there
    input="link"
    while :; do
      case $1 in
        -now | -n | -R) shift ;;
        -pe) shift; shift ;;
        -I) ;;
        -q) fail 255 "Request aborted: queue \"$2\" doesn't exist" ;;
        *) break ;;
      esac
      shift
    done
    [ "$client" = bsub ] && {
      echo "Job <4711> is submitted to default queue <normal>."
      echo "<<Waiting for dispatch ...>>"
      echo "<<Starting on node1>>"
    }
    carry 127 sh -c "$*" ;;
  conda) # run
    shift
    while :; do
      case $1 in
        --no-capture-output) input="link" ;;
        -n)
          shift
          [ "$1" = busy ] && fail 1 "EnvironmentLocationNotFound: Not a conda environment" ;;
        *) break ;;
      esac
      shift
    done
    carry 127 "$@" ;;
  apptainer) # exec
    shift; input="link"
    [ "$1" = busy ] && fail 255 "FATAL: could not open image busy: no such file or directory"
    shift
    carry 255 "$@" ;;
esac
