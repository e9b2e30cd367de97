# Command lines: words out of text that a user wrote for a shell, and text for a shell
# out of words. Only what parallelly's help calls unquoted is read as shell text.

# shell_words() splits text as a POSIX shell would: quotes, backslashes, "~" and "~/" at the
# begin of a word. NULL if it holds more than that ($, `, ;, *, ...): only a shell knows what
# it means.
shell_words <- function(text) {
  state <- list(words = character(), word = "", open = FALSE)
  chars <- strsplit(paste(text, collapse = " "), "", fixed = TRUE)[[1L]]
  i <- 1L
  while (i <= length(chars)) {
    one <- chars[i]
    if (one %in% c(" ", "\t", "\n")) {
      state <- end_word(state)
    } else {
      part <- word_part(chars, i, state)
      if (is.null(part)) {
        return(NULL)
      }
      state$word <- paste0(state$word, part$text)
      state$open <- TRUE
      i <- part$last
    }
    i <- i + 1L
  }
  end_word(state)$words
}

end_word <- function(state) {
  if (state$open) {
    state$words <- c(state$words, state$word)
  }
  list(words = state$words, word = "", open = FALSE)
}

# The text from chars[i] on: list(text, last), NULL if only a shell can interpret it.
word_part <- function(chars, i, state) {
  one <- chars[i]
  if (one == "'") {
    end <- match("'", chars[-seq_len(i)]) + i
    return(if (!is.na(end)) list(text = joined(chars, i + 1L, end - 1L), last = end))
  }
  if (one == "\"") {
    return(double_quoted(chars, i))
  }
  if (one == "\\") {
    return(if (i < length(chars)) list(text = chars[i + 1L], last = i + 1L))
  }
  if (one == "~" && !state$open) {
    alone <- i == length(chars) || chars[i + 1L] %in% c("/", " ", "\t", "\n")
    return(if (alone) list(text = path.expand("~"), last = i))
  }
  special <- c("$", "`", ";", "&", "|", "<", ">", "(", ")", "*", "?", "[", "#", "!", "{")
  if (!one %in% special) list(text = one, last = i)
}

double_quoted <- function(chars, i) {
  text <- ""
  repeat {
    i <- i + 1L
    if (i > length(chars) || chars[i] %in% c("$", "`")) {
      return(NULL)
    }
    if (chars[i] == "\"") {
      return(list(text = text, last = i))
    }
    if (chars[i] == "\\" && i < length(chars) && chars[i + 1L] %in% c("\"", "\\", "$", "`")) {
      i <- i + 1L
    }
    text <- paste0(text, chars[i])
  }
}

joined <- function(chars, from, to) {
  paste(chars[seq_len(max(0L, to - from + 1L)) + from - 1L], collapse = "")
}

# For a shell of this kind: "sh", "cmd" or "none".
quoted <- function(x, shell = "sh") {
  if (shell == "none") x else shQuote(x, type = shell)
}

# The same, but unquoted if a shell would read it as a plain word.
quoted_if_needed <- function(x, shell = "sh") {
  if (grepl("^[A-Za-z0-9_@%+=:,./-]+$", x)) x else quoted(x, shell)
}

# "NAME=value" of a command line, not yet quoted.
is_assignment <- function(words) grepl("^[[:alpha:]_][[:alnum:]_]*=", words)
quoted_assignment <- function(word, shell = "sh") {
  at <- regexpr("=", word, fixed = TRUE)
  value <- substring(word, at + 1L)
  paste0(substr(word, 1L, at), if (nzchar(value)) quoted_if_needed(value, shell))
}
