// Shared by the files of the pool's state.
#ifndef MST_POOL_STATE_INT_H
#define MST_POOL_STATE_INT_H

#include "pool/state.h"

#define NEVER INT64_MAX

// mst_pool_due_ns gives the exact time of the next limit, O(workers); the pool's wake_ns is never
// later.
int64_t mst_pool_due_ns(const struct mst_pool *pool);

// The limits of one worker, or of the pool; NEVER: no limit.
int64_t mst_pool_news_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_kill_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_reap_due_ns(const struct mst_worker *worker);
int64_t mst_pool_restart_due_ns(const struct mst_pool *pool,
                                const struct mst_worker *worker);
int64_t mst_pool_start_due_ns(const struct mst_pool *pool);
int64_t mst_pool_words_due_ns(const struct mst_pool *pool);

// mst_worker_is_live tells whether it was launched and shows no sign of its end.
int mst_worker_is_live(const struct mst_worker *worker);

// mst_pool_skip_launched moves `next` to the first worker that isn't launched.
void mst_pool_skip_launched(struct mst_pool *pool);

// mst_pool_begin_worker sets up an incarnation that isn't launched yet.
void mst_pool_begin_worker(struct mst_worker *worker, uint32_t epoch);

// Steps of events (state_step.c). arm lowers wake_ns; give notes what is due; is_on_its_way:
// launched, neither ready nor ended; set_state updates the counts; ask_again notes whether the next
// incarnation is wanted; await_no_more: it ended, never started, or is given up; want_kill ends its
// process or launch; give_lost has its loss judged once, or makes a drained worker `left`; say_bye
// asks it to end, once.
void mst_pool_arm(struct mst_pool *pool, int64_t at_ns);
void mst_pool_give(struct mst_pool *pool, enum mst_do what, uint32_t index);
int mst_worker_is_on_its_way(enum mst_worker_state state);
void mst_pool_set_state(struct mst_pool *pool, struct mst_worker *worker,
                        enum mst_worker_state state);
void mst_pool_ask_again(struct mst_pool *pool, struct mst_worker *worker,
                        uint8_t again);
void mst_pool_await_no_more(struct mst_pool *pool, struct mst_worker *worker);
void mst_pool_give_kill(struct mst_pool *pool, uint32_t index);
void mst_pool_want_kill(struct mst_pool *pool, uint32_t index, int64_t now_ns);
void mst_pool_give_lost(struct mst_pool *pool, uint32_t index);
void mst_pool_say_bye(struct mst_pool *pool, uint32_t index, int64_t now_ns);

#endif
