// Tests of host/link: random traffic over a link and a relay.
#include "mst_relay_test.h"

#define WORKERS 4
struct flow_test {
  struct worker worker;
  struct mst_io io;
  uint64_t sent[2], taken[2]; // frames from here, from there
  uint64_t printed, seen;
  uint8_t there, closed[2], reads;
};
static struct flow_test flows[WORKERS];
static uint64_t seed;
static uint64_t below(uint64_t n) { return mst_random_below(&seed, n); }

static void check_frame(struct mst_chan *chan, const struct mst_frame *frame,
                        uint64_t call) {
  CHECK_INT(frame->head.call, call);
  const int has = (frame->head.flags & MST_FLAG_SEGMENT) != 0;
  CHECK_INT(has, call % 5 == 0);
  if (has) {
    const struct mst_map *map = mst_chan_map(chan, frame);
    CHECK(map != NULL && map->data[0] == (uint8_t)call);
    CHECK(map->data[map->bytes - 64] == (uint8_t)call);
  } else {
    for (uint64_t i = 0; i < frame->head.length; i += 1009)
      CHECK_INT(frame->payload[i], (uint8_t)(call + i));
  }
}

static void send_any(struct flow_test *flow, int side) {
  static uint8_t bytes[400000];
  struct mst_chan *chan = &flow->worker.data[side];
  if (flow->closed[side] || chan->out_bytes > 500000) return;
  const uint64_t call = ++flow->sent[side];
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = call};
  struct mst_blob *blob;
  if (call % 5 == 0) {
    blob =
        blob_with(64 * (1 + below(below(3) == 0 ? 30000 : 100)), (uint8_t)call);
  } else {
    const size_t n = below(below(4) == 0 ? sizeof bytes : 300);
    for (size_t i = 0; i < n; i++)
      bytes[i] = (uint8_t)(call + i);
    blob = mst_blob_new();
    CHECK_INT(mst_buf_append(&blob->buf, bytes, n), 0);
  }
  const int rc = mst_chan_send(chan, &head, blob, NULL, 0, 0, NULL);
  CHECK(rc == 0 || flow->closed[!side]);
  mst_blob_release(blob);
}

static void take_any(struct flow_test *flow, int side) {
  struct mst_frame frame;
  struct mst_chan *chan = &flow->worker.data[side];
  if (flow->closed[side]) return;
  if (chan->out_first != NULL) (void)mst_chan_flush(chan, NULL);
  (void)mst_chan_fill(chan, 0, NULL);
  for (int rc; (rc = mst_chan_peek(chan, &frame, NULL)) != 0;) {
    CHECK_INT(rc, 1);
    check_frame(chan, &frame, ++flow->taken[!side]);
    mst_chan_take(chan, &frame);
  }
}

static void data_ready(struct mst_io *io, uint32_t ready) {
  struct flow_test *flow = io->owner;
  if ((ready & MST_READABLE) != 0 && below(4) > 0) take_any(flow, 0);
}

static void close_flow(struct flow_test *flow, int side) {
  if (flow->closed[side]) return;
  if (side == 0) mst_loop_remove(loop, &flow->io);
  close_side(&flow->worker, side);
  flow->closed[side] = 1;
}

static void print_any(struct flow_test *flow) {
  char bytes[3000];
  if (flow->closed[0] || flow->closed[1]) return;
  const size_t n = 1 + below(sizeof bytes);
  for (size_t i = 0; i < n; i++)
    bytes[i] = (char)('a' + (flow->printed + i) % 26);
  mst_net_unblock(flow->worker.output_there);
  const int64_t sent = mst_net_write(flow->worker.output_there, bytes, n, NULL);
  if (sent > 0) flow->printed += (uint64_t)sent;
}

static void see_prints(struct flow_test *flow) {
  if (flow->closed[0]) return;
  for (const char *at = printed(&flow->worker); *at != '\0'; at++) {
    CHECK_INT(*at, 'a' + (int)(flow->seen % 26));
    flow->seen++;
  }
}

static void any(struct flow_test *flow, int closes) {
  const int side = (int)below(2);
  switch (below(8)) {
  case 0:
  case 1:
    send_any(flow, side);
    break;
  case 2:
  case 3:
    take_any(flow, side);
    break;
  case 4:
    print_any(flow);
    break;
  case 5:
    see_prints(flow);
    break;
  case 6:
    if (!flow->closed[0])
      CHECK_INT(mst_loop_want(loop, &flow->io,
                              (uint32_t)below(2) * MST_READABLE, NULL),
                0);
    break;
  default:
    if (closes && below(40) == 0) close_flow(flow, side);
    break;
  }
}

static int all_came(const struct flow_test *flow) {
  return flow->closed[0] || flow->closed[1] ||
         (flow->taken[0] == flow->sent[0] && flow->taken[1] == flow->sent[1] &&
          flow->seen == flow->printed);
}

// run_any runs some workers. closes: at random moments, too.
static void run_any(int closes, int steps) {
  memset(flows, 0, sizeof flows);
  for (uint32_t i = 0; i < WORKERS; i++) {
    struct flow_test *flow = &flows[i];
    start_worker(&flow->worker, i);
    flow->io = (struct mst_io){.fd = -1,
                               .line = flow->worker.data[0].line,
                               .wanted = MST_READABLE,
                               .ready = data_ready,
                               .owner = flow};
    CHECK_INT(mst_loop_add(loop, &flow->io, NULL), 0);
  }
  for (int step = 0; step < steps; step++) {
    any(&flows[below(WORKERS)], closes);
    if (below(3) == 0) turn();
    CHECK_INT(failures[0], 0);
    CHECK_INT(failures[1], 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    struct flow_test *flow = &flows[i];
    UNTIL((take_any(flow, 0), take_any(flow, 1), see_prints(flow),
           all_came(flow)));
  }
  for (int i = 0; i < WORKERS; i++) {
    const int side = (int)below(2);
    close_flow(&flows[i], side);
    UNTIL(flows[i].closed[!side] ||
          (take_any(&flows[i], !side), flows[i].worker.data[!side].ended));
    close_flow(&flows[i], !side);
  }
}

TEST("Frames, segments and output arrive once, in order, whatever is closed") {
  NEEDS(MST_HAVE_MEMFD);
  open_link();
  start_server();
  const int before = open_files();
  const size_t count = session->trunk.mux.count;
  for (int round = 0; round < 12; round++) {
    seed = 100 + (uint64_t)round;
    run_any(round % 2, 600);
    for (struct mst_cargo *at = session->cargo; at != NULL; at = at->next)
      at->used_ns = -MST_LINK_KEEP_NS; // isn't used again
    session->forget_ns = 0;
    UNTIL((session->forget_ns = 0, session->cargo == NULL) &&
          session->trunk.mux.count == count &&
          relay->trunk.mux.count == count && session->spent.first == NULL &&
          open_files() == before);
    CHECK(session->lines != NULL);
  }
  close_link();
  CHECK(links.first == NULL);
}
