# What one of R's own workers is told in secret: its word, which proves its identity to the
# session, and the settings and code that the user wants in it before anything else.
#
# The worker reads it from its standard input, as lines of R code (ASCII) up to a line "end". Not
# in its command line, which every user of the machine can read (ps); not in environment
# variables, which neither ssh, sudo nor containers pass on. A standard input gets through all of
# these, and through the user's wrappers. `ssh -n` and `docker run` without `-i` leave it empty:
# the worker then ends at once, and the error says why. In the other direction, nothing proves to
# the worker that this is the session: it connects to a port that the session has held since
# before the launch, or to a tunnel of the session's own.

# The worker's first expression. There are no quotation marks in it: they would let cmd.exe
# see operators of its own in the rest.
hear_call <- paste0(
  "invisible(local({i<-file(as.character(quote(stdin)));open(i);l<-NULL;",
  "repeat{n<-readLines(i,1L);if(length(n)==0L||n==quote(end))break;l<-c(l,n)};close(i);",
  "if(is.null(l))stop(quote(nothing_came_by_standard_input));eval(parse(text=l),globalenv())}))"
)
no_input <- "nothing_came_by_standard_input"

# In front of a word, see src/stock/word.h.
word_mark <- "muster-word-"

# told_lines() gives the lines for a worker, without the last.
told_lines <- function(o, word) {
  code <- setup_code(o, byte_code)
  code <- ifelse(grepl("^[ -~]*$", code, useBytes = TRUE), code,
    paste0("eval(parse(text=", byte_code(code), "))")
  )
  c(paste0("options(muster.stock_word=\"", word_mark, word, "\")"), code)
}

# The same for ffi_stock_spawn(), with the path of a file for where there is no memory that
# a program could read from.
told_input <- function(lines) {
  list(charToRaw(paste(c(lines, "end", ""), collapse = "\n")), tempfile("stdin-"))
}

# R's handshake, which asks for the word. Any peer may see it.
word_question <- quote(list(Sys.getpid(), getOption("muster.stock_word")))

# A command for people to run who then have to hand over these lines. shell: as in
# `rscript_sh`.
told_by_hand <- function(command, lines, shell = "sh") {
  if (is.null(lines)) {
    return(paste0("  ", command))
  }
  if (shell == "cmd") {
    return(c(
      paste0("  ", command), "", "and give it these lines, including the last one, as its input:",
      lines, "end"
    ))
  }
  c(paste0("  ", command, " <<'end'"), lines, "end")
}

# Containers have a standard input if they are told so.
with_input <- function(words) {
  programs <- c("docker", "podman", "nerdctl", "kubectl")
  at <- match(TRUE, basename(words) %in% programs)
  verb <- if (!is.na(at)) match(TRUE, seq_along(words) > at & words %in% c("run", "exec"))
  if (is.null(verb) || is.na(verb)) words else append(words, "-i", verb)
}
