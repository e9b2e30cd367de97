// What this system offers, known when muster is compiled. Each MST_HAVE_* is 1 or 0, so that a
// mistyped name is an error (-Wundef), and each part that needs one has a branch for systems
// without it.
//
// On Linux all are 1, and these branches would never be compiled. So each can be switched off
// there: -DMST_NO_EPOLL one, -DMST_PORTABLE all of them. Such a build runs the code that other
// systems get, except for what Linux can't show: macOS's own calls (mst_cond.c, SO_NOSIGPIPE,
// TCP_KEEPALIVE) and getpeereid() (sys_other.c).
//
// A feature in the headers may be missing in the kernel at run time: its users handle ENOSYS and
// EPERM as well.
#ifndef MST_FEATURES_H
#define MST_FEATURES_H

#include <stddef.h>

#ifdef __linux__
#define MST_LINUX 1
#else
#define MST_LINUX 0
#endif

#if MST_LINUX && !defined(MST_PORTABLE)
#define MST_BY_DEFAULT 1
#else
#define MST_BY_DEFAULT 0
#endif

// epoll: the cost of a loop's wait depends on what is ready; its descriptor can be polled itself.
#if MST_BY_DEFAULT && !defined(MST_NO_EPOLL)
#define MST_HAVE_EPOLL 1
#else
#define MST_HAVE_EPOLL 0
#endif

// Timers as descriptors.
#if MST_BY_DEFAULT && !defined(MST_NO_TIMERFD)
#define MST_HAVE_TIMERFD 1
#else
#define MST_HAVE_TIMERFD 0
#endif

// Processes as descriptors: polling one shows at once that the session has ended.
#if MST_BY_DEFAULT && !defined(MST_NO_PIDFD)
#define MST_HAVE_PIDFD 1
#else
#define MST_HAVE_PIDFD 0
#endif

// A signal when the parent ends.
#if MST_BY_DEFAULT && !defined(MST_NO_PDEATHSIG)
#define MST_HAVE_PDEATHSIG 1
#else
#define MST_HAVE_PDEATHSIG 0
#endif

// close_range().
#if MST_BY_DEFAULT && !defined(MST_NO_CLOSE_RANGE)
#define MST_HAVE_CLOSE_RANGE 1
#else
#define MST_HAVE_CLOSE_RANGE 0
#endif

// /proc and /sys.
#if MST_BY_DEFAULT && !defined(MST_NO_PROC)
#define MST_HAVE_PROC 1
#define MST_PROC "/proc"
#define MST_SYS "/sys"
#else
#define MST_HAVE_PROC 0
#if MST_LINUX // these folders exist; no path below a device does
#define MST_PROC "/dev/null"
#define MST_SYS "/dev/null"
#else
#define MST_PROC "/proc"
#define MST_SYS "/sys"
#endif
#endif

// Descriptors that are sent to other processes.
#if !defined(MST_PORTABLE) && !defined(MST_NO_SCM_RIGHTS)
#define MST_HAVE_SCM_RIGHTS 1
#else
#define MST_HAVE_SCM_RIGHTS 0
#endif

// Memory as a descriptor, which can be sealed. Useless if it can't be sent.
#if MST_BY_DEFAULT && !defined(MST_NO_MEMFD) && MST_HAVE_SCM_RIGHTS
#define MST_HAVE_MEMFD 1
#else
#define MST_HAVE_MEMFD 0
#endif

// A forked R can go on running. macOS aborts a forked child that enters CoreFoundation, and R's
// BLAS there (Accelerate) does; other systems are untested. A fork server gets its workers' ends of
// the channels by SCM_RIGHTS.
#if MST_BY_DEFAULT && !defined(MST_NO_FORK) && MST_HAVE_SCM_RIGHTS
#define MST_HAVE_FORK 1
#else
#define MST_HAVE_FORK 0
#endif

// Linux's extras for sockets: flags at creation (SOCK_CLOEXEC, accept4, pipe2), loopback connects
// that are decided at once, EAGAIN if the queue of a unix listener is full, TCP_USER_TIMEOUT.
#if MST_BY_DEFAULT && !defined(MST_NO_SOCKET_FLAGS)
#define MST_HAVE_SOCKET_FLAGS 1
#else
#define MST_HAVE_SOCKET_FLAGS 0
#endif

// The kernel's information on sockets and network cards: sock_diag, TCP_INFO, ethtool.
#if MST_BY_DEFAULT && !defined(MST_NO_DIAG)
#define MST_HAVE_DIAG 1
#else
#define MST_HAVE_DIAG 0
#endif

// ppoll(): timeouts finer than a millisecond.
#if MST_BY_DEFAULT && !defined(MST_NO_PPOLL)
#define MST_HAVE_PPOLL 1
#else
#define MST_HAVE_PPOLL 0
#endif

// A list of the loaded libraries (dl_iterate_phdr).
#if MST_BY_DEFAULT && !defined(MST_NO_DL_ITERATE)
#define MST_HAVE_DL_ITERATE 1
#else
#define MST_HAVE_DL_ITERATE 0
#endif

// mst_features lists all of them, for people and tests.
struct mst_feature {
  const char *name;
  int is_here;
};
const struct mst_feature *mst_features(size_t *n);

#endif
