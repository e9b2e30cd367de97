// Tests of pool/job and base/mst_hash: the same bytes are one job; which workers have it; which
// jobs are kept.
#include <stdlib.h>
#include <string.h>

#include "base/mst_hash.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/job.h"

static struct mst_jobs jobs;

static struct mst_blob *blob_of(const void *bytes, size_t n) {
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  CHECK_INT(mst_buf_append(&blob->buf, bytes, n), 0);
  return blob;
}

static struct mst_job *hold(const char *text) {
  struct mst_blob *blob = blob_of(text, strlen(text));
  struct mst_job *job = mst_jobs_hold(&jobs, blob);
  mst_blob_release(blob);
  CHECK(job != NULL);
  return job;
}

static uint32_t trim(void) {
  struct mst_job *job;
  uint32_t gone = 0;
  while ((job = mst_jobs_surplus(&jobs)) != NULL) {
    mst_job_forgotten(job);
    gone++;
  }
  return gone;
}

TEST("A hash tells contents apart by any bit, any length and any order") {
  uint8_t bytes[80] = {0};
  uint64_t seen[80 * 8 + 81];
  size_t n = 0;
  for (size_t length = 0; length <= sizeof bytes; length++)
    seen[n++] = mst_hash(bytes, length); // zeros of every length
  for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
    bytes[bit / 8] = (uint8_t)(1u << bit % 8);
    seen[n++] = mst_hash(bytes, sizeof bytes);
    bytes[bit / 8] = 0;
  }
  for (size_t i = 0; i < n; i++)
    for (size_t k = i + 1; k < n; k++)
      CHECK(seen[i] != seen[k]);
  uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8}, turned[8];
  for (size_t i = 0; i < 8; i++)
    turned[i] = words[(i + 4) % 8];
  CHECK(mst_hash(words, sizeof words) != mst_hash(turned, sizeof turned));
  CHECK(mst_hash(words, sizeof words) == mst_hash(words, sizeof words));
  CHECK(mst_hash(NULL, 0) == mst_hash(bytes, 0));
}

TEST("The same bytes are the same job while it is kept, others have other "
     "numbers") {
  struct mst_job *one = hold("one");
  struct mst_job *two = hold("two");
  CHECK(one != two && one->id != two->id);
  CHECK(hold("one") == one);
  CHECK_INT(one->refs, 2);
  CHECK(jobs.first == one); // used last
  mst_job_release(one);
  mst_job_release(one);
  CHECK_INT(trim(), 0);
  CHECK(hold("one") == one);
  CHECK(hold("") != one);
  CHECK(hold("on") != one);
}

TEST("Jobs with one hash and other bytes are told apart") {
  struct mst_job *one = hold("one");
  struct mst_blob *blob = blob_of("two", 3);
  one->hash = mst_hash("two", 3); // as if
  struct mst_job *two = mst_jobs_hold(&jobs, blob);
  mst_blob_release(blob);
  CHECK(two != one);
  CHECK_INT(memcmp(two->bytes->buf.data, "two", 3), 0);
}

TEST("Jobs with the same bytes and other segments are told apart") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_job *made[3];
  for (int i = 0; i < 3; i++) {
    struct mst_blob *blob = blob_of("one", 3);
    CHECK_INT(mst_segment_open(&blob->segment, 3, NULL), 0);
    CHECK_INT(
        mst_segment_append(&blob->segment, i == 1 ? "one" : "two", 3, NULL), 0);
    CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
    made[i] = mst_jobs_hold(&jobs, blob);
    mst_blob_release(blob);
  }
  CHECK(made[0] != made[1]);
  CHECK(made[0] == made[2]);
  struct mst_job *bare = hold("one");
  CHECK(bare != made[0]);
  mst_jobs_free(&jobs);
  mst_job_release(bare);
  for (int i = 0; i < 3; i++)
    mst_job_release(made[i]);
}

static struct mst_blob *blob_with(const char *text, const char *shared) {
  struct mst_blob *blob = blob_of(text, strlen(text));
  const size_t n = strlen(shared);
  CHECK_INT(mst_segment_open(&blob->segment, n, NULL), 0);
  CHECK_INT(mst_segment_append(&blob->segment, shared, n, NULL), 0);
  CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
  return blob;
}

TEST("A blob borrows a segment that holds the same, and keeps it") {
  NEEDS(MST_HAVE_MEMFD);
  struct mst_blob *one = blob_with("one", "same"), *bare = blob_of("bare", 4);
  struct mst_blob *two = blob_with("two", "same");
  struct mst_blob *other = blob_with("one", "other");
  CHECK_INT(mst_blob_borrow(other, one), 0);
  CHECK_INT(mst_blob_borrow(bare, one), 0);
  CHECK_INT(mst_blob_borrow(one, bare), 0);
  CHECK_INT(mst_blob_borrow(two, one), 1);
  CHECK_INT(two->segment.fd, one->segment.fd);
  mst_blob_release(one);
  struct mst_blob *three = blob_with("three", "same");
  CHECK_INT(mst_blob_borrow(three, two), 1); // from the owner
  CHECK(three->lender == two->lender);
  mst_blob_release(two);
  struct mst_map *map = NULL;
  CHECK_INT(mst_map_open(three->segment.fd, &map, NULL), 0);
  CHECK_INT(memcmp(map->data, "same", 4), 0);
  mst_map_release(map);
  mst_blob_release(three); // frees all: the sanitizer would report leaks
  mst_blob_release(other);
  mst_blob_release(bare);
}

TEST("A group stands for its jobs: it lacks what one of them lacks") {
  struct mst_job *two[] = {hold("one"), hold("two")}, *group = NULL;
  CHECK_INT(mst_job_group(two, 0, &group), 0);
  CHECK(group == NULL && mst_job_missing(NULL, 0, 0) == NULL);
  CHECK_INT(mst_job_group(two, 1, &group), 0);
  CHECK(group == two[0] && mst_job_missing(group, 0, 0) == two[0]);
  mst_job_release(group);
  CHECK_INT(mst_job_group(two, 2, &group), 0);
  CHECK_INT(two[1]->refs, 2);
  for (int i = 0; i < 2; i++) {
    CHECK(mst_job_missing(group, 0, 0) == two[i]);
    CHECK_INT(mst_job_note(two[i], 0, 0), 0);
  }
  CHECK(mst_job_missing(group, 0, 0) == NULL);
  CHECK(mst_job_missing(group, 0, 1) == two[0]);
  mst_job_again(group, 0);
  CHECK(mst_job_missing(group, 0, 0) == two[0]);
  for (int i = 0; i < 2; i++)
    mst_job_release(two[i]);
  mst_jobs_free(&jobs);
  CHECK_INT(two[1]->refs, 1);
  mst_job_release(group); // frees all: the sanitizer would report leaks
}

TEST("A job is at an incarnation that was sent it, and at no other") {
  struct mst_job *job = hold("one");
  CHECK(!mst_job_is_at(job, 0, 0));
  CHECK_INT(mst_job_note(job, 3, 0), 0);
  CHECK(mst_job_is_at(job, 3, 0));
  CHECK(!mst_job_is_at(job, 3, 1));
  CHECK(!mst_job_is_at(job, 2, 0));
  CHECK(!mst_job_is_at(job, 4, 0));
  CHECK_INT(mst_job_note(job, 3, 1), 0);
  CHECK(mst_job_is_at(job, 3, 1) && !mst_job_is_at(job, 3, 0));
  CHECK_INT(mst_job_note(job, 1000, 7), 0); // the cluster has grown
  CHECK(mst_job_is_at(job, 1000, 7) && mst_job_is_at(job, 3, 1));
  mst_job_release(job);
  mst_jobs_free(&jobs);
}

TEST("Recently used jobs are kept, and those in use") {
  struct mst_job *used = hold("used");
  char text[3] = "a0";
  for (int i = 0; i < 2 * (int)MST_JOBS_KEPT; i++) {
    text[1] = (char)('A' + i);
    mst_job_release(hold(text));
    (void)trim();
  }
  uint32_t kept = 0;
  for (const struct mst_job *at = jobs.first; at != NULL; at = at->next) {
    CHECK(at == used || at->bytes->buf.data[1] >= 'A' + (int)MST_JOBS_KEPT);
    kept++;
  }
  CHECK_INT(kept, MST_JOBS_KEPT + 1);
  CHECK(used->jobs == &jobs);
  mst_job_release(used);
  CHECK_INT(trim(), 1); // unused, and the oldest
  mst_jobs_free(&jobs);
  CHECK(jobs.first == NULL);
}

TEST("A job larger than the bound goes with its last use") {
  struct mst_job *small = hold("small");
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  CHECK_INT(mst_buf_reserve(&blob->buf, MST_JOBS_BYTES + 1), 0);
  memset(blob->buf.data, 1, MST_JOBS_BYTES + 1);
  blob->buf.len = MST_JOBS_BYTES + 1;
  struct mst_job *large = mst_jobs_hold(&jobs, blob);
  mst_blob_release(blob);
  mst_job_release(small);
  CHECK_INT(trim(), 0);
  mst_job_release(large);
  CHECK(trim() >= 1);
  for (const struct mst_job *at = jobs.first; at != NULL; at = at->next)
    CHECK(at->bytes->buf.len < 10);
  mst_jobs_free(&jobs);
}

TEST("A job outlives its list while it is referenced") {
  struct mst_job *job = hold("one");
  mst_job_keep(job);
  mst_jobs_free(&jobs);
  CHECK(job->jobs == NULL);
  mst_job_release(job);
  CHECK_INT(memcmp(job->bytes->buf.data, "one", 3), 0);
  mst_job_release(job); // frees it: the sanitizer would report a leak
}

TEST("The list keeps its invariants whatever is held, noted and released") {
  uint64_t random = mst_test_seed();
  struct mst_job *held[40] = {0};
  uint64_t last = 0;
  for (int step = 0; step < 20000; step++) {
    const size_t i = mst_random(&random) % 40;
    if (held[i] != NULL) {
      mst_job_release(held[i]);
      held[i] = NULL;
    } else {
      char text[8] = "job";
      text[3] = (char)('a' + mst_random(&random) % 20);
      held[i] = hold(text);
      CHECK_INT(held[i]->bytes->buf.data[3], text[3]);
      last = held[i]->id > last ? held[i]->id : last;
    }
    (void)trim();
    uint32_t idle = 0;
    for (const struct mst_job *at = jobs.first; at != NULL; at = at->next) {
      idle += at->refs == 0;
      for (const struct mst_job *other = at->next; other != NULL;
           other = other->next)
        CHECK(other->bytes->buf.data[3] != at->bytes->buf.data[3]);
    }
    CHECK(idle <= MST_JOBS_KEPT);
    CHECK(jobs.last_id == last);
  }
  for (size_t i = 0; i < 40; i++)
    mst_job_release(held[i]);
  mst_jobs_free(&jobs);
}
