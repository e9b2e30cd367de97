// The names of mst_features.h. See there.
#include "base/mst_features.h"

static const struct mst_feature features[] = {
    {"epoll", MST_HAVE_EPOLL},
    {"timerfd", MST_HAVE_TIMERFD},
    {"pidfd", MST_HAVE_PIDFD},
    {"parent signal", MST_HAVE_PDEATHSIG},
    {"close_range", MST_HAVE_CLOSE_RANGE},
    {"proc", MST_HAVE_PROC},
    {"sent descriptors", MST_HAVE_SCM_RIGHTS},
    {"memfd", MST_HAVE_MEMFD},
    {"fork", MST_HAVE_FORK},
    {"socket flags", MST_HAVE_SOCKET_FLAGS},
    {"socket states", MST_HAVE_DIAG},
    {"ppoll", MST_HAVE_PPOLL},
    {"libraries", MST_HAVE_DL_ITERATE},
};

const struct mst_feature *mst_features(size_t *n) {
  *n = sizeof features / sizeof features[0];
  return features;
}
