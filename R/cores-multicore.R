# May this session fork? Not in RStudio's console, whose own threads don't survive a fork; its
# terminal is as good as any. Options overrule: fork.enable outright, and
# supportsMulticore.disableOn tells in which of RStudio's places not to.
cores_multicore <- function() {
  enable <- as.logical(cores_option("fork.enable", NA))
  if (length(enable) == 1L && !is.na(enable)) {
    return(enable)
  }
  if (Sys.getenv("RSTUDIO") != "1") {
    return(TRUE)
  }
  place <- if (nzchar(Sys.getenv("RSTUDIO_TERM"))) "rstudio_terminal" else "rstudio_console"
  !place %in% cores_option("supportsMulticore.disableOn", "rstudio_console")
}
