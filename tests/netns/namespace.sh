#!/bin/sh
# Runs a command in network namespaces of its own, where nothing else listens and no
# packet comes from or gets to any other machine:
#   unshare -rn namespace.sh [-p] [-a ADDRESS/BITS]... [-b ADDRESS/BITS]... -- COMMAND...
# The loopback is up. -a gives an address to va0, one end of a pair of interfaces whose
# other end is vb0. With -p, vb0 is in a second namespace, as on another host, which -b
# gives its addresses; commands run there by `nsenter -t "$MUSTER_NETNS_PEER" -n COMMAND`.
# Status 98 if the namespace couldn't be made as wanted.
set -u

fail() {
  echo "namespace.sh: $*" >&2
  [ -z "$holder" ] || kill "$holder"
  exit 98
}

holder=
here=
there=
peer=no
while [ $# -gt 0 ]; do
  case $1 in
    -p) peer=yes ;;
    -a) here="$here $2" && shift ;;
    -b) there="$there $2" && shift ;;
    --) shift && break ;;
    *) fail "what is $1?" ;;
  esac
  shift
done

ip link set lo up || fail "the loopback can't be set up"
if [ -n "$here" ]; then
  ip link add va0 type veth peer name vb0 || fail "there are no veth interfaces"
fi

# in_peer COMMAND...: on the side of vb0.
in_peer() { "$@"; }
if [ $peer = yes ]; then
  mine=$(readlink /proc/self/ns/net)
  unshare -n sleep 86400 &
  holder=$!
  tries=0
  while [ "$(readlink "/proc/$holder/ns/net")" = "$mine" ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "no second namespace can be made"
    sleep 0.01
  done
  ip link set vb0 netns "$holder" || fail "vb0 can't be moved"
  in_peer() { nsenter -t "$holder" -n "$@"; }
  in_peer ip link set lo up || fail "the second loopback can't be set up"
  MUSTER_NETNS_PEER=$holder
  export MUSTER_NETNS_PEER
fi

# nodad: an IPv6 address is of use at once.
for address in $here; do
  case $address in *:*) dad=nodad ;; *) dad= ;; esac
  ip addr add "$address" dev va0 $dad || fail "$address can't be given to va0"
done
for address in $there; do
  case $address in *:*) dad=nodad ;; *) dad= ;; esac
  in_peer ip addr add "$address" dev vb0 $dad || fail "$address can't be given to vb0"
done
if [ -n "$here" ]; then
  ip link set va0 up || fail "va0 can't be set up"
  in_peer ip link set vb0 up || fail "vb0 can't be set up"
fi

"$@"
status=$?
[ -z "$holder" ] || kill "$holder"
exit $status
