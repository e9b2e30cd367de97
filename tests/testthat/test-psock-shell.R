# Words and shell text.

test_that("text is split into words as a shell does, or left to a shell", {
  expect_identical(shell_words("-i key -o A=b"), c("-i", "key", "-o", "A=b"))
  expect_identical(shell_words(c("-R 1:g:2", "'a b'\"c d\"\\ e")), c("-R", "1:g:2", "a bc d e"))
  expect_identical(shell_words("\"a\\\"b\\$c\" ''"), c("a\"b$c", ""))
  home <- path.expand("~")
  expect_identical(shell_words("~/k ~ a~b"), c(file.path(home, "k"), home, "a~b"))
  expect_identical(shell_words(""), character())
  for (text in c(
    "$HOME", "`id`", "a;b", "a|b", "a>b", "*", "'open", "\"open", "\"$x\"", "a\\", "~u/x"
  )) {
    expect_null(shell_words(text), info = text)
  }
})

test_that("what is quoted comes back from a shell as it was", {
  skip_if(!nzchar(Sys.which("printf")), "there is no printf")
  for (text in c("a b", "it's", "\"q\" $HOME `id` \\n", "!x", "a;b|c&d>e", "é *", "'\"'", "-n")) {
    back <- system(paste("printf %s", quoted_if_needed(text)), intern = TRUE)
    expect_identical(back, text)
    assigned <- system(paste(quoted_assignment(paste0("X=", text)), "printenv X"), intern = TRUE)
    expect_identical(assigned, text)
  }
})

test_that("code with quotes of both kinds is the same string to R", {
  for (text in c("a'b\"c", "back\\slash", "new\nline", "é€")) {
    expect_identical(eval(parse(text = string_code(text))), text)
    expect_identical(eval(parse(text = string_code(text, "'"))), text)
  }
})
