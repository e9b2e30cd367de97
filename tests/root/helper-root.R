# Helpers of the tests in this folder: what only root can bring about, as other users, file
# systems of one's own and settings of the kernel. Everything else runs as an ordinary user.

source("../full/helper-full.R", local = TRUE)

skip_unless_root <- function() skip_if_not(is_root(), "only root can bring this about")
