// host/gate: where hosts that come by themselves are let in (dialin/intake.h), and given to the
// remotes (remote.h) that wait for one. No R. One thread, that which has the session.
#ifndef MST_HOST_GATE_H
#define MST_HOST_GATE_H

#include "dialin/intake.h"
#include "host/remote.h"

struct mst_gate;

// mst_gate_open listens; `prints` says when a host has come. greeting_ns: how long such a host may
// take to greet. As mst_intake_open.
int mst_gate_open(const struct mst_intake_config *config,
                  struct mst_loop *prints, int64_t greeting_ns,
                  struct mst_gate **out, struct mst_err *err);
// mst_gate_await: the remote gets the next host that comes, or one that waits already.
void mst_gate_await(struct mst_gate *gate, struct mst_remote *remote);
// mst_gate_forget: the remote is ended, before it is freed. Another host may come in its place.
void mst_gate_forget(struct mst_gate *gate, const struct mst_remote *remote);
// mst_gate_knows tells whether the remote waits for a host, or has one that came this way.
int mst_gate_knows(const struct mst_gate *gate,
                   const struct mst_remote *remote);
// mst_gate_close stops listening. NULL is allowed. mst_gate_break does where the loop is given up.
void mst_gate_close(struct mst_gate *gate);
void mst_gate_break(struct mst_gate *gate);

#endif
