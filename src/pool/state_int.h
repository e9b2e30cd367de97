// What the files of the pool's state share.
#ifndef MST_POOL_STATE_INT_H
#define MST_POOL_STATE_INT_H

#include "pool/state.h"

#define NEVER INT64_MAX

// mst_pool_due_ns gives the time of the next limit exactly, in O(workers);
// wake_ns of the pool is never later.
int64_t mst_pool_due_ns(const struct mst_pool *pool);

// The limits of one worker, or of the pool; NEVER where none runs.
int64_t mst_pool_news_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_kill_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_reap_due_ns(const struct mst_worker *worker);
int64_t mst_pool_restart_due_ns(const struct mst_pool *pool,
                                const struct mst_worker *worker);
int64_t mst_pool_away_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_start_due_ns(const struct mst_pool *pool);
int64_t mst_pool_words_due_ns(const struct mst_pool *pool);

// mst_worker_is_live tells whether it is neither to be launched nor at its end.
int mst_worker_is_live(const struct mst_worker *worker);

// mst_pool_skip_launched moves next to the first worker that was not launched.
void mst_pool_skip_launched(struct mst_pool *pool);

// mst_pool_begin_worker makes an incarnation that is not launched yet.
void mst_pool_begin_worker(struct mst_worker *worker, uint32_t epoch);

// The steps of state_step.c, for one event each. arm lowers wake_ns; give queues an
// action; is_on_its_way: launched, neither ready nor at its end; set_state keeps the
// counts; ask_again notes whether the next incarnation is wanted; await_no_more: its
// end is known, never was, or it is given up; want_kill ends its process or launch;
// give_lost gives LOST once, or lets a drained worker be left; say_bye asks it to
// end, once.
void mst_pool_arm(struct mst_pool *pool, int64_t at_ns);
void mst_pool_give(struct mst_pool *pool, enum mst_action_kind kind,
                   uint32_t worker);
int mst_worker_is_on_its_way(enum mst_worker_state state);
void mst_pool_set_state(struct mst_pool *pool, struct mst_worker *worker,
                        enum mst_worker_state state);
void mst_pool_ask_again(struct mst_pool *pool, struct mst_worker *worker,
                        uint8_t again);
void mst_pool_await_no_more(struct mst_pool *pool, struct mst_worker *worker);
void mst_pool_give_kill(struct mst_pool *pool, uint32_t index);
void mst_pool_give_cancel(struct mst_pool *pool, uint32_t index);
void mst_pool_want_kill(struct mst_pool *pool, uint32_t index, int64_t now_ns);
void mst_pool_give_lost(struct mst_pool *pool, uint32_t index);
void mst_pool_say_bye(struct mst_pool *pool, uint32_t index, int64_t now_ns);

// The events AWAY and BACK, in state_time.c as they only change limits.
void mst_pool_on_away(struct mst_pool *pool, uint32_t index, int64_t now_ns);
void mst_pool_on_back(struct mst_pool *pool, uint32_t index, int64_t now_ns);

#endif
