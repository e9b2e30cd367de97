# What muster was compiled to use of this system: src/base/mst_features.h. Elsewhere than on
# Linux, or in a build that does without it (-DMST_NO_EPOLL and its like), some of it isn't there.

# One of the names of ffi_built_with().
is_built_with <- function(feature) .Call(ffi_built_with)[[feature]]

# The kernel's folders. In a Linux build without them, below a device, where no path exists.
proc_place <- function() kernel_place("/proc")
sys_place <- function() kernel_place("/sys")
kernel_place <- function(folder) {
  hidden <- !is_built_with("proc") && Sys.info()[["sysname"]] == "Linux"
  if (hidden) "/dev/null" else folder
}
