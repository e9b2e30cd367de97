// The process's limits on descriptors. See net.h.
#include "net/net.h"

#include <dirent.h>
#include <sys/resource.h>

#include "base/mst_features.h"

static int64_t as_count(rlim_t limit) {
  return limit == RLIM_INFINITY || limit > (rlim_t)INT64_MAX ? INT64_MAX
                                                             : (int64_t)limit;
}

// count_open counts the entries of a directory that lists open descriptors, minus the one used to
// read it. -1 if it can't be read.
static int64_t count_open(const char *path) {
  DIR *dir = opendir(path);
  if (dir == NULL) return -1;
  int64_t n = 0;
  for (struct dirent *entry = readdir(dir); entry != NULL;
       entry = readdir(dir)) {
    if (entry->d_name[0] != '.') n++;
  }
  (void)closedir(dir);
  return n - 1;
}

void mst_net_fd_limits(int64_t *soft, int64_t *hard, int64_t *open_now) {
  struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  *soft = as_count(limit.rlim_cur);
  *hard = as_count(limit.rlim_max);
  *open_now = count_open(MST_PROC "/self/fd");
  if (*open_now < 0) *open_now = count_open("/dev/fd");
}

int64_t mst_net_fd_raise_limit(int64_t want) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  if (as_count(limit.rlim_cur) < want) {
    const rlim_t hard = limit.rlim_max;
    limit.rlim_cur = as_count(hard) < want ? hard : (rlim_t)want;
    (void)setrlimit(RLIMIT_NOFILE, &limit); // getrlimit below reads the outcome
    (void)getrlimit(RLIMIT_NOFILE, &limit);
  }
  return as_count(limit.rlim_cur);
}
