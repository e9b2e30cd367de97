// Tests of net/card: the loopback interface is everywhere, other cards aren't.
#include <errno.h>
#include <string.h>

#include "mst_test.h"
#include "net/card.h"

TEST("The loopback interface has its features") {
  NEEDS(MST_HAVE_DIAG);
  struct mst_card card;
  struct mst_err err;
  CHECK_INT(mst_card_look("lo", &card, &err), 0);
  for (int i = 0; i < MST_CARD_FEATURES; i++) {
    CHECK(card.feature[i] >= -1 && card.feature[i] <= 1);
    CHECK(strlen(mst_card_feature_name((enum mst_card_feature)i)) > 0);
  }
  CHECK(card.feature[MST_CARD_UP] >= 0);
  // It never copies what a program sends, so it gathers pieces.
  CHECK_INT(card.feature[MST_CARD_SCATTER_GATHER], 1);
  CHECK_TEXT(mst_card_feature_name(MST_CARD_SCATTER_GATHER), "scatter-gather");
  CHECK_TEXT(mst_card_feature_name(MST_CARD_FEATURES), "");
}

TEST("A missing card is an error, and all its features are unknown") {
  struct mst_card card;
  struct mst_err err;
  CHECK_INT(mst_card_look("no-such-card", &card, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, MST_HAVE_DIAG ? ENODEV : ENOTSUP);
  for (int i = 0; i < MST_CARD_FEATURES; i++)
    CHECK_INT(card.feature[i], -1);
  NEEDS(MST_HAVE_DIAG);
  CHECK_INT(mst_card_look("", &card, &err), -MST_EINPUT);
  CHECK_INT(mst_card_look("a-name-of-sixteen", &card, NULL), -MST_EINPUT);
}
