test_that("Results of groups are bound at once as they are one by one", {
  one_by_one <- function(results, by) {
    frames <- lapply(results, group_frame, by)
    list(values = bind_frames(frames), rows = vapply(frames, frame_rows, 0L))
  }
  day <- as.Date("2026-11-22")
  forms <- list(
    single = list(1, NULL, 3), mixed = list(1L, 2.5), texts = list("a", NA, "b"),
    named_one = list(c(m = 1), c(m = 2)), named = list(c(a = 1, b = 2), NULL, c(a = 3, b = 4)),
    lists = list(list(a = 1L, b = "x"), list(a = 2L, b = NA_character_)),
    types = list(list(a = 1L), list(a = 2.5)), dates = list(list(d = day), list(d = day + 1)),
    date = list(day, day), factors = list(list(f = factor("u")), list(f = factor("v"))),
    with_key = list(list(k = 1, a = 2), list(k = 3, a = 4)),
    frames = list(data.frame(a = 1:2), NULL, data.frame(a = 3L)),
    nothing = list(NULL, NULL), order = list(list(a = 1, b = 2), list(a = 3, b = 4))
  )
  for (form in names(forms)) {
    got <- bind_results(forms[[form]], "k")
    expect_identical(got, one_by_one(forms[[form]], "k"), info = form)
  }
  wrong <- list(list(1:2), list(c(1, 2), c(3, 4)), list(list(a = 1:2)), list(list(1)), list(mean))
  for (results in wrong) {
    expect_error(bind_results(results, "k"), "must return", class = "muster_part_error")
  }
  expect_error(
    bind_results(list(list(a = 1), list(b = 1)), "k"), "different columns",
    class = "muster_part_error"
  )
})
