# The house style as a test: prints file:line and what to do instead for each
# offence, and ends with `tidy: N passed, N failed, N skipped`; a rule is one.
#   Rscript tools/tidy.R       in the checkout's root
# R is read as R's parser reads it and comments and strings are taken out of C,
# so text about a banned call is no offence. A line that ends in a comment
# `tidy: <why>` is let through: the reason is the price.

line_length_max <- 100L
file_lines_max <- 600L
file_bytes_max <- 1024^2

# ---- what is looked at -------------------------------------------------------

# Files that git knows or would add; without git all but what is built.
tree_files <- function() {
  files <- tryCatch(
    suppressWarnings(system2("git", c("ls-files", "-co", "--exclude-standard"),
                             stdout = TRUE, stderr = FALSE)),
    error = function(e) character()
  )
  if (!length(files)) {
    files <- list.files(".", recursive = TRUE, all.files = TRUE)
    files <- grep("(^|/)([.]git|[.]lib|build|[^/]*[.]Rcheck)/|[.](o|so|dylib)$", files,
                  value = TRUE, invert = TRUE)
  }
  sort(unique(files[file.exists(files) & !dir.exists(files)]))
}

is_text <- function(file) {
  bytes <- readBin(file, "raw", 8000L)
  !any(bytes == as.raw(0L)) && validUTF8(paste(read_lines(file), collapse = "\n"))
}

read_lines <- function(file) {
  readLines(file, warn = FALSE, skipNul = TRUE, encoding = "UTF-8")
}

files <- tree_files()
text_files <- Filter(is_text, files)
lines <- sapply(text_files, read_lines, simplify = FALSE)

matching <- function(pattern, from = text_files) grep(pattern, from, value = TRUE)
r_files <- matching("[.][rR]$")
c_files <- matching("^(src|tests|bench)/.*[.][ch]$")
shell_files <- matching("^([.]ci/run|configure|cleanup|.*[.]sh)$")
package_r <- matching("^R/", r_files)
test_r <- matching("^tests/", r_files)
package_c <- matching("^src/", c_files)

blank_out <- function(text) gsub("[^\n]", " ", text)

# Comments, strings and character constants of C.
c_token <- paste0("(?s)/[*].*?[*]/|//[^\n]*|\"(?:[^\"\\\\\n]|\\\\.)*\"",
                  "|'(?:[^'\\\\\n]|\\\\.)*'")

# C without these; lines stay where they are.
c_code <- function(file) {
  text <- paste(lines[[file]], collapse = "\n")
  found <- gregexpr(c_token, text, perl = TRUE)
  regmatches(text, found) <- lapply(regmatches(text, found), blank_out)
  strsplit(text, "\n", fixed = TRUE)[[1L]]
}
c_lines <- sapply(c_files, c_code, simplify = FALSE)

# The comments of C alone, likewise.
c_comments <- function(file) {
  text <- paste(lines[[file]], collapse = "\n")
  found <- gregexpr(c_token, text, perl = TRUE)
  tokens <- regmatches(text, found)[[1L]]
  comments <- ifelse(startsWith(tokens, "/"), tokens, blank_out(tokens))
  text <- blank_out(text)
  regmatches(text, found) <- list(comments)
  strsplit(text, "\n", fixed = TRUE)[[1L]]
}

# R as tokens: the parser's table, or NULL with a message where it can't parse.
r_tokens <- function(file) {
  parsed <- tryCatch(parse(file, keep.source = TRUE, encoding = "UTF-8"),
                     error = function(e) e)
  if (inherits(parsed, "error")) {
    return(conditionMessage(parsed))
  }
  utils::getParseData(parsed, includeText = TRUE)
}
tokens <- sapply(r_files, r_tokens, simplify = FALSE)
parses <- vapply(tokens, function(x) !is.character(x), logical(1))

# ---- how offences are found ---------------------------------------------------

offence <- function(file, line, message) {
  data.frame(file = rep_len(file, length(line)), line = as.integer(line),
             message = rep_len(message, length(line)))
}

# Offences in a list of files' lines. not_in: files where it is allowed.
search_lines <- function(pattern, message, in_lines, not_in = character()) {
  do.call(rbind, lapply(setdiff(names(in_lines), not_in), function(file) {
    hits <- grep(pattern, in_lines[[file]], perl = TRUE)
    offence(file, hits, message)
  }))
}

# Calls of C functions, by name, with what to use instead.
search_calls <- function(replacements, in_lines, not_in = character()) {
  do.call(rbind, lapply(names(replacements), function(name) {
    search_lines(paste0("(?<![A-Za-z0-9_.>])", name, "\\s*\\("),
                 paste0(name, "(): ", replacements[[name]]), in_lines, not_in)
  }))
}

# Tokens of R: kind and text as the parser names them.
search_tokens <- function(kind, text, message, in_files, keep = function(table, row) TRUE) {
  do.call(rbind, lapply(in_files[parses[in_files]], function(file) {
    table <- tokens[[file]]
    table <- table[order(table$line1, table$col1), ]
    # A member, as in x$stop(), is another function.
    member <- c("", head(ifelse(table$terminal, table$text, ""), -1L)) == "$"
    rows <- which(table$token == kind & grepl(text, table$text) & !member)
    rows <- Filter(function(row) keep(table, row), rows)
    offence(file, table$line1[rows], message)
  }))
}

# Sys.sleep() is a wait where the test itself runs it. It is work where a worker
# does: in a function literal given to a call, or in an expression quoted.
sleeps_in_test <- function(table, row) {
  id <- table$parent[row]
  while (id > 0L) {
    at <- match(id, table$id)
    children <- table[table$parent == id, ]
    first <- children[1L, ]
    if (first$token %in% c("FUNCTION", "'\\\\'")) {
      siblings <- table[table$parent == table$parent[at], ]
      if (any(siblings$token %in% c("LEFT_ASSIGN", "EQ_ASSIGN"))) {
        return(siblings$text[1L] != "wait_until")
      }
      return(FALSE)
    }
    if (nrow(children) > 1L && children$token[2L] == "'('" &&
          sub("^.*::", "", first$text) %in%
            c("clusterEvalQ", "quote", "bquote", "substitute", "expression")) {
      return(FALSE)
    }
    id <- table$parent[at]
  }
  TRUE
}

# ---- the rules ----------------------------------------------------------------

skip_rule <- function(reason) structure(list(reason = reason), class = "skipped_rule")

never_in_package <- c(
  system = "start programs by fork and exec, with descriptors closed",
  abort = "MST_ASSERT(), or raise(SIGABRT) in a worker",
  exit = "end R by quit(), or a worker by raise()",
  `_exit` = "end R by quit(), or a worker by raise()",
  printf = "fill a struct mst_err; a worker may write(2) one line",
  puts = "fill a struct mst_err; a worker may write(2) one line",
  signal = "no handlers in the user's session; sigaction() in a worker"
)
unsafe_in_c <- c(
  strcpy = "memcpy() with a checked length, or snprintf()",
  strcat = "snprintf()",
  sprintf = "snprintf()",
  vsprintf = "vsnprintf()",
  gets = "a read with a limit",
  atoi = "strtol() with its checks",
  atol = "strtol() with its checks",
  atof = "strtod() with its checks"
)

exports_without_help <- function() {
  if (!file.exists("NAMESPACE")) {
    return(skip_rule("there is no NAMESPACE yet"))
  }
  directives <- parse("NAMESPACE")
  exports <- unlist(lapply(directives, function(x) {
    if (identical(x[[1L]], quote(export))) as.character(x[-1L])
  }))
  aliases <- unlist(lapply(matching("^man/.*[.]Rd$"), function(file) {
    hits <- grep("^\\\\alias\\{", lines[[file]], value = TRUE)
    gsub("\\%", "%", sub("^\\\\alias\\{(.*)\\}\\s*$", "\\1", hits), fixed = TRUE)
  }))
  lost <- setdiff(exports, aliases)
  at <- vapply(lost, function(name) grep(name, lines[["NAMESPACE"]], fixed = TRUE)[1L], 1L)
  offence("NAMESPACE", at, sprintf("%s() is exported and has no help page", lost))
}

functions_in_r <- function() {
  do.call(rbind, lapply(package_r, function(file) {
    at <- grep("^[A-Za-z_.0-9]+ <- function", lines[[file]])
    data.frame(name = sub(" .*", "", lines[[file]][at]), file = rep(file, length(at)), line = at)
  }))
}

# One word each, so that this file doesn't name what it looks for.
todo <- paste0("\\b(", paste0("TO", "DO"), "|", paste0("FIX", "ME"), "|", paste0("XX", "X"), ")\\b")
machine_path <- paste0("(?<![A-Za-z0-9_.~-])/(", "work", "|", "farm", ")/",
                       "|(?<![A-Za-z0-9_])[.]", "library", "\\b")

# Phrases that a native engineer wouldn't write in a comment.
stiff <- paste0("\\b(all the same|without a word|of a sudden|has it that|such a one|",
                "will have it that|in sight|want of|let(s|ting)? go of|of no use|",
                "mend(s|ed|ing)?)\\b")
# Old names of things, as words or as parts of names.
old_names <- "(?i)(?<![a-z])(deput(y|ies)|doors?|lanes?)(?![a-z])"

rules <- list(
  "R files parse" = function() {
    bad <- names(tokens)[!parses]
    offence(bad, rep(1L, length(bad)), unlist(tokens[bad]))
  },
  "no unsafe calls in C" = function() search_calls(unsafe_in_c, c_lines),
  "no calls in src/ that end or disturb the user's session" = function() {
    inside <- c_lines[package_c]
    rbind(
      search_calls(never_in_package, inside),
      search_lines("\\b(stderr|stdout)\\b", "R's console isn't ours: fill a struct mst_err",
                   inside),
      search_lines("^\\s*#\\s*include\\s*<assert[.]h>", "mst_assert.h: R builds with NDEBUG",
                   lines[package_c])
    )
  },
  "R's headers only in src/ffi" = function() {
    outside <- setdiff(package_c, c(matching("^src/ffi/", package_c), "src/init.c"))
    rbind(
      search_lines("^\\s*#\\s*include\\s*[<\"](R|Rinternals|Rdefines|Rmath|R_ext/.*)[.]h[>\"]",
                   "only src/ffi and src/init.c include R's headers", lines[outside]),
      search_lines("\\bRf_[a-z]", "only src/ffi calls R", c_lines[outside])
    )
  },
  "errors go through R/util-conditions.R" = function() {
    search_tokens("SYMBOL_FUNCTION_CALL", "^(stop|warning|message)$",
                  "abort_muster(), warn_muster() or inform_muster()",
                  setdiff(package_r, "R/util-conditions.R"))
  },
  # It takes over SIGINT: a Ctrl-C meanwhile is lost, or ends R.
  "no system2(timeout = ) in R/" = function() {
    calls <- function(code) {
      if (!is.call(code)) return(FALSE)
      name <- if (is.symbol(code[[1L]])) as.character(code[[1L]]) else ""
      (name %in% c("system", "system2") && "timeout" %in% names(code)) ||
        any(vapply(Filter(is.language, as.list(code)), calls, NA))
    }
    bad <- Filter(function(file) any(vapply(parse(file), calls, NA)), package_r)
    offence(bad, rep(1L, length(bad)), "the program `timeout` has a limit that Ctrl-C passes")
  },
  "no library() in R/" = function() {
    search_tokens("SYMBOL_FUNCTION_CALL", "^(library|require)$",
                  "requireNamespace() and `::`, or an import", package_r)
  },
  "no `:::` in R/" = function() {
    search_tokens("NS_GET_INT", "", "what others don't export isn't ours to use", package_r)
  },
  "TRUE and FALSE in full" = function() {
    search_tokens("SYMBOL", "^[TF]$", "write TRUE or FALSE", r_files)
  },
  "tests wait for conditions, not for time" = function() {
    search_tokens("SYMBOL_FUNCTION_CALL", "^Sys[.]sleep$", "wait_until(condition, timeout_s)",
                  test_r, sleeps_in_test)
  },
  # What took too long is a machine's fault as often as muster's: bars are in bench/bars.R.
  "tests don't judge by the clock" = function() {
    of_r <- "expect_lte?[(].*(elapsed|took|second|_s\\b|difftime|proc[.]time|Sys[.]time)"
    of_c <- "CHECK[(].*(ms_since[(]\\w+[)]|mst_clock_now[(][)] - \\w+|\\btook\\w*) <"
    message <- "a limit for what hangs, or a bar in bench/bars.R"
    rbind(search_lines(of_r, message, lines[test_r]),
          search_lines(of_c, message, c_lines[matching("^tests/", c_files)]))
  },
  "lines end in time" = function() {
    read <- c(r_files, c_files, shell_files)
    long <- lapply(lines[read], function(x) ifelse(nchar(x, "width") > line_length_max, "x", ""))
    search_lines("x", paste("more than", line_length_max, "characters"), long)
  },
  "no tabs, no blanks at the end" = function() {
    read <- lines[c(r_files, c_files, shell_files)]
    rbind(search_lines("\t", "a tab: two blanks instead", read),
          search_lines("[ \t]$", "blanks at the end", read))
  },
  "nothing is left to do without an issue" = function() {
    hits <- search_lines(todo, "name the issue, as in (#12), or do it", lines)
    named <- mapply(function(file, line) grepl("#[0-9]+", lines[[file]][line]),
                    hits$file, hits$line)
    hits[!as.logical(named), ]
  },
  "comments are in plain English" = function() {
    message <- "short sentences, active verbs, the usual word"
    rbind(search_lines(stiff, message, sapply(package_c, c_comments, simplify = FALSE)),
          search_tokens("COMMENT", stiff, message, package_r))
  },
  "no old names of things" = function() {
    read <- c(package_c, package_r, matching("^(docs/.*[.]md|CONTRIBUTING[.]md)$"))
    # The lanes of mst_hash.c are sums side by side.
    search_lines(old_names, "say I/O thread (deputy), acceptor (door), mailbox (lane)",
                 lines[read], not_in = "src/base/mst_hash.c")
  },
  "what is exported has a help page" = exports_without_help,
  "what C calls is a function in R/" = function() {
    file <- "src/ffi/entry/r.c"
    hits <- grep("^    \\[FFI_[A-Z_]+\\] = \"", lines[[file]])
    lost <- !sub(".*\"(.*)\".*", "\\1", lines[[file]][hits]) %in% functions_in_r()$name
    if (!length(hits)) return(offence(file, 1L, "there are no callbacks"))
    offence(file, hits[lost], "R/ has no function of this name")
  },
  "no two functions have one name" = function() {
    found <- functions_in_r()
    found <- found[found$name %in% found$name[duplicated(found$name)], ]
    offence(found$file, found$line, paste0(found$name, "() is defined elsewhere, too"))
  },
  "files have one job" = function() {
    count <- lengths(lines[matching("^(R|src|tests)/.*[.]([rR]|[ch]|sh)$")])
    long <- names(count)[count > file_lines_max]
    offence(long, count[long], sprintf("more than %d lines: look for the second job",
                                       file_lines_max))
  },
  "files are small" = function() {
    large <- files[file.size(files) > file_bytes_max]
    offence(large, rep(0L, length(large)), "more than 1 MB")
  },
  # R-devel's check complains of both, R 4.2's doesn't. roxygen2 makes an anchor of a page's file,
  # which may be no topic: such links are written as \\link[package:topic]{} in the comment.
  "help pages link to topics, others' with a package" = function() {
    pages <- matching("^man/.*[.]Rd$")
    search_links <- function(pattern, is_good, message) {
      do.call(rbind, lapply(pages, function(file) {
        found <- regmatches(lines[[file]], gregexpr(pattern, lines[[file]]))
        bad <- vapply(found, function(links) !all(is_good(sub(pattern, "\\1", links))), NA)
        offence(file, which(bad), message)
      }))
    }
    own <- sub("^.alias[{](.*)[}]$", "\\1", grep("^.alias[{]", unlist(lines[pages]), value = TRUE))
    is_topic <- function(links) {
      vapply(strsplit(links, ":", fixed = TRUE), function(words) {
        index <- file.path(system.file("help", package = words[1L]), "aliases.rds")
        !file.exists(index) || words[2L] %in% names(readRDS(index))
      }, NA)
    }
    rbind(
      search_links("\\\\link\\[=([^]]*)\\]", function(x) x %in% own,
                   "say whose: [package::topic()]"),
      search_links("\\\\link\\[([a-z]+:[^]]*)\\]", is_topic, "no topic of that package")
    )
  },
  "no paths of one machine" = function() {
    search_lines(machine_path, "a path of one machine", lines)
  },
  "shell scripts are well-formed" = function() {
    bad <- Filter(function(file) {
      shell <- if (grepl("bash", lines[[file]][1L])) "bash" else "sh"
      system2(shell, c("-n", shQuote(file)), stdout = FALSE, stderr = FALSE) != 0L
    }, shell_files)
    offence(bad, rep(1L, length(bad)), "the shell can't parse it")
  },
  "shellcheck has no complaint" = function() {
    if (!nzchar(Sys.which("shellcheck"))) {
      return(skip_rule("shellcheck isn't here"))
    }
    out <- suppressWarnings(system2("shellcheck", c("-x", "-P", "SCRIPTDIR", "-f", "gcc",
                                                    shQuote(shell_files)), stdout = TRUE))
    parts <- regmatches(out, regexec("^([^:]+):([0-9]+):[0-9]+: (.*)$", out))
    parts <- Filter(length, parts)
    do.call(rbind, lapply(parts, function(x) offence(x[2L], x[3L], x[4L])))
  }
)

# ---- run ------------------------------------------------------------------------

excused <- function(file, line) {
  line > 0L && file %in% names(lines) && grepl("(#|//) tidy: \\S", lines[[file]][line])
}

counts <- c(passed = 0L, failed = 0L, skipped = 0L)
for (name in names(rules)) {
  found <- rules[[name]]()
  if (is.data.frame(found)) {
    found <- found[!as.logical(mapply(excused, found$file, found$line)), ]
  }
  if (inherits(found, "skipped_rule")) {
    verdict <- "skipped"
    cat("skipped: ", name, ": ", found$reason, "\n", sep = "")
  } else if (is.null(found) || nrow(found) == 0L) {
    verdict <- "passed"
  } else {
    verdict <- "failed"
    cat("failed: ", name, "\n", sep = "")
    cat(sprintf("  %s:%d: %s\n", found$file, found$line, found$message), sep = "")
  }
  counts[verdict] <- counts[verdict] + 1L
}
cat(sprintf("tidy: %d passed, %d failed, %d skipped\n",
            counts[["passed"]], counts[["failed"]], counts[["skipped"]]))
quit(status = as.integer(counts[["failed"]] > 0L))
