# The muster command's man page and its completion for bash and zsh, made from the help texts
# of its commands, so that an option is in all of them or in none.

# Values that options take, beside numbers, names and addresses.
cli_values <- function() {
  list(
    probe = list(service = c("tcp", "pcp", "psock", "tls", "pmcd", "pmproxy"), timeout = "auto"),
    doctor = list(item = names(doctor_items()))
  )
}

# The options of a command's help: a data frame with name (with its dashes), value ("" for a
# flag, its name otherwise) and about.
help_options <- function(help) {
  pattern <- "^  (--[a-z-]+)( [A-Z][^ ]*)?  +(.*)$"
  at <- grep(pattern, help)
  about <- vapply(at, function(i) {
    more <- help[-seq_len(i)]
    more <- more[cumsum(!grepl("^ {10,}\\S", more)) == 0L]
    paste(c(sub(pattern, "\\3", help[i]), trimws(more)), collapse = " ")
  }, "")
  value <- trimws(sub(pattern, "\\2", help[at]))
  data.frame(name = sub(pattern, "\\1", help[at]), value = value, about = about)
}

command_help <- function(command) cli_commands()[[command]]$run("--help")$text
command_about <- function() vapply(cli_commands(), `[[`, "", "about")

# ---- the man page, man(7)

roff <- function(text) {
  text <- gsub("\\", "\\e", text, fixed = TRUE)
  text <- gsub("-", "\\-", text, fixed = TRUE)
  sub("^([.'])", "\\\\&\\1", text)
}

# What a command's help says besides its options, in paragraphs as they are written.
help_prose <- function(help) {
  lines <- help[!grepl("^ {2,}", help) & !grepl("^Usage:", help)]
  lines <- lines[cumsum(nzchar(lines)) > 0L]
  lines <- lines[nzchar(lines) | c(TRUE, nzchar(lines[-length(lines)]))]
  ifelse(nzchar(lines), roff(lines), ".PP")
}

man_options <- function(options) {
  unlist(Map(function(name, value, about) {
    c(".TP", paste0("\\fB", roff(name), "\\fR", if (nzchar(value)) paste0(" \\fI", roff(value),
      "\\fR")), roff(about))
  }, options$name, options$value, options$about), use.names = FALSE)
}

man_command <- function(command) {
  help <- command_help(command)
  usage <- grep("^(Usage:|       )(?! *-)", help, perl = TRUE, value = TRUE)
  usage <- sub("^(Usage:)? *", "", usage)
  c(
    paste(".SS", roff(paste("muster", command))),
    ".nf", roff(usage), ".fi", ".PP", help_prose(help), man_options(help_options(help))
  )
}

man_page <- function() {
  commands <- command_about()
  version <- utils::packageVersion("muster")
  c(
    paste0(".TH MUSTER 1 \"\" \"muster ", version, "\" \"User Commands\""),
    ".SH NAME", "muster \\- find services in a network, and check a machine for clusters of R",
    ".SH SYNOPSIS", "\\fBmuster\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]", ".br",
    "\\fBmuster\\fR [\\fICOMMAND\\fR] \\fB\\-\\-help\\fR", ".br",
    "\\fBmuster\\fR \\fB\\-\\-version\\fR",
    ".SH DESCRIPTION",
    "The command of the R package muster, which starts clusters of R workers.",
    unlist(Map(function(name, about) c(".TP", paste0("\\fB", name, "\\fR"), roff(about)),
      names(commands), commands), use.names = FALSE),
    ".SH COMMANDS", unlist(lapply(names(commands), man_command)),
    ".SH EXIT STATUS",
    ".TP", "0", "Something was found, or the machine is healthy.",
    ".TP", "1", "Nothing was found, or something needs attention.",
    ".TP", "2", "The arguments can't be understood, or the command failed.",
    ".SH EXAMPLES", ".nf", roff(c(
      "muster probe 127.0.0.0/24 --port 44321",
      "muster probe -m probe=127.0.0.0/24,timeout=0.02 -s pmcd",
      "muster doctor --interval 10",
      "muster doctor --json"
    )), ".fi",
    ".SH SEE ALSO",
    "In R: \\fBhelp(discover, muster)\\fR, \\fBhelp(doctor, muster)\\fR,",
    "\\fBvignette(\"start\", \"muster\")\\fR.",
    "\\fBpmfind\\fR(1), \\fBRscript\\fR(1)"
  )
}

# ---- completion

words_of <- function(x) paste(x, collapse = " ")

# bash: the word after an option that takes a value is one of its values, or left to the
# shell; any other is an option of the command.
bash_completion <- function() {
  commands <- names(cli_commands())
  values <- cli_values()
  cases <- unlist(lapply(commands, function(command) {
    options <- help_options(command_help(command))
    sprintf("    %s:*) words='%s' ;;", command, words_of(options$name))
  }))
  valued <- unlist(lapply(commands, function(command) {
    options <- help_options(command_help(command))
    taking <- options$name[nzchar(options$value)]
    known <- values[[command]]
    c(
      sprintf("    %s:--%s) words='%s' ;;", command, names(known), vapply(known, words_of, "")),
      sprintf("    %s:%s) return ;;", command, setdiff(taking, paste0("--", names(known))))
    )
  }))
  c(
    "_muster() {",
    "  local command='' words='' previous='' word",
    "  COMPREPLY=()",
    "  [ \"$COMP_CWORD\" -lt 2 ] || command=${COMP_WORDS[1]}",
    "  [ \"$COMP_CWORD\" -lt 2 ] || previous=${COMP_WORDS[COMP_CWORD-1]}",
    "  # In \"--name=value\" the sign is a word of its own.",
    "  [ \"$previous\" != = ] || previous=${COMP_WORDS[COMP_CWORD-2]}",
    "  case $command:$previous in",
    sprintf("    :*) words='%s --help --version' ;;", words_of(commands)),
    valued,
    cases,
    "  esac",
    "  word=${COMP_WORDS[COMP_CWORD]}",
    "  [ \"$word\" != = ] || word=",
    "  # Words are from the list above, without blanks.",
    "  # shellcheck disable=SC2207",
    "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))",
    "}",
    "complete -o default -F _muster muster"
  )
}

# zsh: what _arguments wants for each option. Brackets, colons and quotes end a description.
zsh_completion <- function() {
  plain <- function(text) gsub("[]:'\\[]", "", text)
  specs <- function(command) {
    options <- help_options(command_help(command))
    known <- cli_values()[[command]]
    values <- known[match(sub("^--", "", options$name), names(known))]
    value <- ifelse(nzchar(options$value), paste0(":", plain(tolower(options$value)), ":"), "")
    value <- ifelse(lengths(values) & nzchar(value),
      paste0(value, "(", vapply(values, words_of, ""), ")"), value)
    again <- ifelse(grepl("may be repeated", options$about, fixed = TRUE), "*", "")
    paste0("        '", again, options$name, ifelse(nzchar(value), "=", ""), "[",
      plain(options$about), "]", value, "'")
  }
  commands <- command_about()
  c(
    "_muster() {",
    "  local -a commands",
    "  commands=(",
    sprintf("    '%s:%s'", names(commands), plain(commands)),
    "  )",
    "  if (( CURRENT == 2 )); then",
    "    _describe command commands",
    "    return",
    "  fi",
    "  case $words[2] in",
    unlist(lapply(names(commands), function(command) {
      arguments <- c(specs(command), if (command == "probe") "        '*:target:_hosts'")
      c(
        paste0("    ", command, ")"), "      (( CURRENT-- ))", "      shift words",
        "      _arguments \\",
        paste0(arguments, c(rep(" \\", length(arguments) - 1L), "")), "      ;;"
      )
    })),
    "  esac",
    "}",
    "_muster \"$@\""
  )
}
