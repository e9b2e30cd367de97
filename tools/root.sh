# shellcheck shell=sh
# Sourced, after common.sh, by scripts that run this checkout in the root of another Debian
# system: how that is made, entered and filled. $base is the root. Needs root, debootstrap and a
# mount namespace of its own (unshare -m), with which all mounts end. The new root takes over what
# reaches the registries from here: apt's settings for fetching, proxies, certificates of this
# site, R's repositories.
# The single quotes around commands for the other root are meant.
# shellcheck disable=SC2016,SC2154

# find_archive sets $release and $archive: this system's own release, and from where.
find_archive() {
  release=$(. /etc/os-release && say "${VERSION_CODENAME:-}")
  archive=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n "s/^$release main //p" | head -n 1)
  [ -n "$release" ] && [ -n "$archive" ]
}

# has_release RELEASE: whether that archive can be reached, and has it.
has_release() {
  [ -e "/usr/share/debootstrap/scripts/$1" ] &&
    /usr/lib/apt/apt-helper download-file "${archive%/}/dists/$1/InRelease" "$2/release" \
      >/dev/null 2>&1
}

# in_root COMMAND...: in the new root's /muster, with nothing of this environment but
# proxies. as_user is not root there, offline has no network.
in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp ${http_proxy:+"http_proxy=$http_proxy"} \
    ${https_proxy:+"https_proxy=$https_proxy"} ${no_proxy:+"no_proxy=$no_proxy"} \
    chroot "$base" sh -c 'cd /muster && exec "$@"' sh "$@" </dev/null
}
as_user() { in_root setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
offline() { in_root unshare -n "$@"; }

use_proxy() {
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  if [ -n "${proxy:-}" ] && [ "$proxy" != DIRECT ]; then
    http_proxy=$proxy
    export http_proxy
  fi
}

mount_root() {
  mount -t proc proc "$base/proc" && mount -t tmpfs tmpfs "$base/dev/shm" || return 1
  mount -t devpts devpts "$base/dev/pts" -o newinstance,ptmxmode=0666 || :
}

# make_root RELEASE PACKAGE...: the system, and these packages.
make_root() {
  use_proxy
  debootstrap --variant=minbase "$1" "$base" "$archive" && mount_root || return 1
  shift
  apt-config dump | grep -E '^Acquire::(http|https|ftp|Check|Retries|ForceIP)' |
    grep -v -i auto-detect >"$base/etc/apt/apt.conf.d/01here"
  # It can be made again, so nothing waits for the disk.
  say force-unsafe-io >"$base/etc/dpkg/dpkg.cfg.d/01here"
  cp -- /etc/resolv.conf /etc/hosts "$base/etc/" || return 1
  sites=/usr/local/share/ca-certificates
  if [ -d $sites ]; then cp -RL -- $sites "$base/usr/local/share/" || return 1; fi
  mkdir -- "$base/muster" || return 1
  in_root sh -c 'apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" &&
    apt-get clean' sh "$@" || return 1
  Rscript -e 'repos <- grep("^(https?|ftp):", getOption("repos"), value = TRUE)' \
    -e 'if (length(repos)) cat("options(repos =", deparse(c(repos)), ")\n")' \
    >>"$base/etc/R/Rprofile.site"
}

# fill_root: a copy of the checkout as the root's /muster, with room for R packages.
fill_root() {
  find "$base/muster" -mindepth 1 -delete &&
    tar -cf - --exclude=./.git --exclude=./.lib --exclude=./build --exclude='*.o' . |
    tar -xf - -C "$base/muster" --no-same-owner && mkdir -m 777 -- "$base/muster/.lib"
}
