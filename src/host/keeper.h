// host/keeper: a thread for a link of the session's. It greets the host process, which may take as
// long as a command waits in a queue; then it keeps the link (mst_link_keep), so that the other end
// hears of this one whatever R does: at an idle prompt, in browser(), in ten minutes of C. No R.
#ifndef MST_HOST_KEEPER_H
#define MST_HOST_KEEPER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "host/link.h"

struct mst_keeper;

// mst_keeper_start starts the thread. It uses the config's descriptors until the greeting is over,
// at until_ns at the latest; they stay the caller's. 0, -MST_EMEM, -MST_ESYS.
int mst_keeper_start(const struct mst_link_config *config, int64_t until_ns,
                     struct mst_keeper **out, struct mst_err *err);
// mst_keeper_fd gives a descriptor that is readable once the greeting is over. mst_keeper_greeted
// asks for its outcome: 1, 0 while it lasts, or an error as of mst_greet_session.
// mst_keeper_skipped gives what came before the other end's mark, up to MST_TAIL_BYTES; once it is
// over. Returns the number of bytes.
int mst_keeper_fd(const struct mst_keeper *keeper);
int mst_keeper_greeted(const struct mst_keeper *keeper, struct mst_err *err);
size_t mst_keeper_skipped(const struct mst_keeper *keeper, char *out);
// mst_keeper_keep has it keep this link from now on.
void mst_keeper_keep(struct mst_keeper *keeper, struct mst_link *link);
// mst_keeper_end ends the thread, within milliseconds; may be called again. mst_keeper_free then
// frees it. NULL is allowed. Only in the process that started it; another one may free it.
void mst_keeper_end(struct mst_keeper *keeper);
void mst_keeper_free(struct mst_keeper *keeper);

#endif
