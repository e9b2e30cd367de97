// Calls that differ between systems: sys_linux.c, sys_other.c. Only for net/.
#ifndef MST_NET_SYS_H
#define MST_NET_SYS_H

#include <sys/types.h>

#include "net/addr.h"

// mst_sys_socket makes a stream socket, mst_sys_accept accepts one: non-blocking, close-on-exec,
// without SIGPIPE. Returns the descriptor, or -1 and errno.
int mst_sys_socket(int family);
int mst_sys_accept(int listener, struct mst_addr *peer);
// mst_sys_pipe makes a pipe, close-on-exec from birth where the system can. 0, or -1 and errno.
int mst_sys_pipe(int fds[2]);
// mst_sys_connect is connect(), but reports an outcome that is known at once: 0, or -1 and errno
// (EINPROGRESS: not decided).
int mst_sys_connect(int fd, const struct mst_addr *addr);
// mst_sys_keepalive sets how an idle connection is probed.
void mst_sys_keepalive(int fd, int idle_s, int interval_s, int count);
// mst_sys_peer_uid gives the user at the other end of a unix socket. 0, or -1 and errno.
int mst_sys_peer_uid(int fd, uid_t *uid);
// mst_sys_is_full tells whether an errno of a connect to a unix path may only mean that the
// listener's queue is full.
int mst_sys_is_full(int number);
// mst_sys_user_timeout: 0, or -1 and errno.
int mst_sys_user_timeout(int fd, int ms);

#endif
