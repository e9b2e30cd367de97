# Turns discover()'s targets, as users write them, into addresses.

# The maximum number of addresses in one call, unless more are allowed.
discover_addresses_max <- 65536

# Reads targets into list(ranges, hosts, lost): addresses for C code, the name of each address that
# was given by its name, and names that couldn't be looked up, with the reason.
read_targets <- function(targets, name, edges, call) {
  if (is.null(targets) && name == "exclude") {
    targets <- character()
  } else if (!is.character(targets) || !length(targets) || anyNA(targets)) {
    abort_input(name, "a character vector of addresses, blocks, ranges and host names",
      targets, call
    )
  }
  targets <- expand_files(trimws(enc2utf8(targets)), name, call)
  kinds <- .Call(ffi_targets_kind, targets, edges)
  refuse_targets(targets, kinds, name, call)
  read <- look_up_all(unique(targets[kinds$kind == target_kinds[["name"]]]))
  read$ranges <- c(targets[kinds$kind == target_kinds[["range"]]], names(read$hosts))
  warn_lost(read$lost)
  read
}

# A target with a slash that isn't a block is a file of targets; so is one that begins with a slash,
# or with `./`, `../` or `~/`.
expand_files <- function(targets, name, call) {
  is_file <- grepl("^([.]{1,2}|~)?/", targets) |
    (grepl("/", targets, fixed = TRUE) & !grepl("^[0-9a-fA-F.:]+/[^/]*$", targets))
  as.character(unlist(Map(function(target, file) {
    if (file) read_hostfile(target, name, call) else target
  }, targets, is_file), use.names = FALSE))
}

read_hostfile <- function(path, name, call) {
  if (!file.exists(path) || dir.exists(path)) {
    abort_muster("input", paste0("`", name, "` has a file that can't be read: \"", path, "\"."),
      hints = "A target with a `/` is a block, such as 10.15.16.0/24, or a file of targets.",
      argument = name, call = call
    )
  }
  lines <- sub("#.*", "", readLines(path, warn = FALSE))
  words <- sub("[[:space:]].*", "", trimws(lines))
  words[nzchar(words)]
}

refuse_targets <- function(targets, kinds, name, call) {
  bad <- which(kinds$kind %in% target_kinds[c("bad", "large")])
  if (!length(bad)) {
    return(invisible())
  }
  shown <- utils::head(bad, 5L)
  kind <- if (all(kinds$kind[bad] == target_kinds[["large"]])) "limit" else "input"
  abort_muster(kind,
    paste0("`", name, "` has ", if (length(bad) > 1L) paste(length(bad), "targets") else
      "a target", " that can't be probed."),
    details = c(
      paste0("\"", targets[shown], "\": ", kinds$why[shown], "."),
      if (length(bad) > 5L) paste("and", length(bad) - 5L, "more.")
    ),
    hints = paste(
      "Addresses, blocks (10.15.16.0/24, fd00::/120), ranges (10.0.0.1-50), host names, or",
      "a file that lists these, such as \"./hosts\"."
    ),
    argument = name, targets = targets[bad], call = call
  )
}

# Addresses of names: list(hosts: names by address, lost: reasons by name).
look_up_all <- function(names) {
  hosts <- lost <- character()
  for (name in names) {
    found <- .Call(ffi_name_lookup, name)
    if (is.list(found)) {
      lost[[name]] <- found$error
    } else {
      found <- sub("%.*", "", found) # a zone can't be part of a target
      hosts <- c(hosts, stats::setNames(rep(name, length(found)), found))
    }
  }
  list(hosts = hosts[!duplicated(names(hosts))], lost = lost)
}

warn_lost <- function(lost) {
  if (length(lost)) {
    warn_muster("lookup",
      paste0(if (length(lost) == 1L) "A host name has" else "Some host names have",
        " no address; all others are probed."),
      details = unname(lost), hosts = names(lost)
    )
  }
}

check_targets <- function(wanted, without, edges, public, call) {
  sum <- .Call(ffi_targets_sum, wanted$ranges, without$ranges, edges)
  if (sum$total == 0 && !length(wanted$lost)) {
    abort_muster("input",
      if (length(wanted$ranges)) {
        "`targets` must have an address that isn't excluded."
      } else {
        "`targets` has no address: its files list none."
      },
      argument = "targets", call = call
    )
  }
  if (!public && !is.na(sum$public)) {
    abort_muster("input",
      paste0("`targets` has addresses on the public internet, such as ", sum$public, "."),
      hints = paste(
        "If you may scan them, use `public = TRUE`; see ?discover for the",
        "reason."
      ),
      argument = "targets", address = sum$public, call = call
    )
  }
  most <- discover_max()
  if (sum$total > most && !agreed(sum$total)) {
    count <- format(sum$total, big.mark = ",", decimal.mark = ".", scientific = FALSE)
    abort_muster("limit", paste0("`targets` has ", count, " addresses."),
      hints = paste0(
        "To probe them all, set options(muster.discover_max = ",
        format(sum$total, scientific = FALSE), ")."
      ),
      argument = "targets", addresses = sum$total, call = call
    )
  }
}

discover_max <- function() {
  most <- getOption("muster.discover_max")
  if (is.numeric(most) && length(most) == 1L && !is.na(most)) most else discover_addresses_max
}

# Asks the user, if there is one.
agreed <- function(total) {
  interactive() && isTRUE(utils::askYesNo(paste(
    "Really ask", format(total, big.mark = ",", decimal.mark = "."), "addresses?"
  ), default = FALSE))
}
