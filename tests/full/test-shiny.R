# A Shiny app whose outputs are promises of tasks. Two headless browsers show its pages "a" and "b",
# each a session of the app: they click on what the test names, and tell the app what they show.

browser_path <- unname(Sys.which("chromium"))

has_browser <- has_later() && requireNamespace("shiny", quietly = TRUE) &&
  nzchar(browser_path) && has_proc()

# It attaches shiny, too.
run_app <- function(ui, server, port) {
  withr::local_package("shiny")
  shiny::runApp(shiny::shinyApp(ui, server), port, FALSE, "127.0.0.1", quiet = TRUE)
}

# Shiny, httpuv and later keep threads and descriptors.
if (has_browser) {
  later::later_fd(function(ready) NULL, .Call(ffi_notify, FALSE), timeout = 0)
  later::later(shiny::stopApp)
  run_app("", function(input, output) NULL, freePort())
}

# Shows a page of this machine, and can't reach another.
local_browser <- function(url, frame) {
  folder <- local_folder(frame)
  local_seed(1) # processx draws a number
  browser <- processx::process$new(browser_path,
    c(
      "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
      "--no-first-run", "--disable-background-networking", "--disable-component-update",
      "--disable-sync", "--disable-breakpad", "--no-proxy-server",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
      paste0("--user-data-dir=", folder), url
    ),
    env = c("current", HOME = folder, TMPDIR = folder), poll_connection = FALSE
  )
  defer(function() {
    end_browser(browser)
    # unlink() takes a socket for a folder.
    file.remove(Sys.glob(file.path(folder, "org.chromium.*", "SingletonSocket")))
  }, frame)
  browser
}

# With all that it has started: processx has it lead a session of the kernel's.
end_browser <- function(browser) {
  wait_until({
    known <- processes(list.files("/proc", "^[0-9]+$"))
    leaders <- vapply(process_pids(known), function(pid) process_stat(pid)[4L], "")
    left <- known[leaders %in% browser$get_pid() & still_runs(known)]
    tools::pskill(process_pids(left), tools::SIGKILL)
    !length(left)
  })
  browser$wait(1000)
  !browser$is_alive()
}

page_script <- "
  $(document).one('shiny:idle', () => {
    const who = new URLSearchParams(location.search).get('who');
    const shown = document.getElementById('shown');
    const tell = () =>
      Shiny.setInputValue('seen', {who, text: shown.innerText}, {priority: 'event'});
    new MutationObserver(tell).observe(shown, {childList: true, subtree: true});
    Shiny.addCustomMessageHandler('click', id => document.getElementById(id).click());
    tell();
  });"

app_page <- function(ids = c("quick", "long", "dies", "fails", "background", "cancel")) {
  shiny::tagList(
    lapply(ids, function(id) shiny::actionButton(id, id)),
    shiny::div(id = "shown", lapply(paste0("shown_", ids), shiny::textOutput)),
    shiny::tags$script(shiny::HTML(page_script))
  )
}

# What tasks do. A literal in the server would take Shiny's session along.
works_in <- function(folder) {
  works <- list(
    quick = function(n) paste("quick", n),
    long = function(n) {
      file.create(file.path(folder, "begun"))
      while (!file.exists(file.path(folder, "go"))) Sys.sleep(0.01) # tidy: the test's word
      "long"
    },
    dies = function(n) {
      died <- file.path(folder, "died")
      if (!file.exists(died) && file.create(died)) tools::pskill(Sys.getpid(), tools::SIGKILL)
      "healed"
    },
    fails = function(n) stop("it failed")
  )
  lapply(works, remote, folder = folder)
}

app_server <- function(cl, works, app) {
  function(input, output, session) {
    # Names the page that a value is for: what follows a promise has to know its session.
    mine <- function(value) {
      search <- shiny::getDefaultReactiveDomain()$clientData$url_search
      paste(value, "for", shiny::parseQueryString(search)$who)
    }
    lapply(names(works), function(id) {
      output[[paste0("shown_", id)]] <- shiny::renderText({
        task <- task_submit(cl, works[[id]], as.integer(shiny::req(input[[id]])))
        promises::then(task, mine) # Shiny shows an error itself
      })
    })
    # While an output waits for its promise, Shiny looks at no click of that page. So a task that
    # can be cancelled isn't the output's own.
    task <- NULL
    text <- shiny::reactiveVal()
    output$shown_background <- shiny::renderText(text())
    shiny::observeEvent(input$background, {
      task <<- task_submit(cl, works$long, 1)
      promises::then(task, text, function(e) text(paste(class(e)[1L], mine(conditionMessage(e)))))
      NULL
    })
    shiny::observeEvent(input$cancel, task_cancel(task))
    shiny::observeEvent(input$seen, {
      who <- input$seen$who
      app$sessions[[who]] <- session
      app$texts[[who]] <- input$seen$text
      session$onSessionEnded(function() app$left <- union(app$left, who))
    })
  }
}

# Serves two pages until each step of a story has returned TRUE, one after the other. Steps are
# functions of what is known of the app: its folder, browsers, sessions and texts, and who has left.
tell_story <- function(workers, ...) {
  skip_if_not(has_browser, "shiny, later >= 1.4.0, promises or chromium isn't here")
  steps <- list(...)
  cl <- local_cluster(workers)
  app <- list2env(list(folder = local_folder()))
  taken <- 0L
  end <- now_seconds() + 120
  go_on <- function() {
    if (isTRUE(steps[[taken + 1L]](app))) taken <<- taken + 1L
    over <- taken == length(steps) || now_seconds() > end
    if (over) shiny::stopApp() else later::later(go_on, 0.01)
  }
  go_on()
  port <- freePort()
  frame <- environment()
  app$browsers <- lapply(c(a = "a", b = "b"), function(who) {
    local_browser(sprintf("http://127.0.0.1:%d/?who=%s", port, who), frame)
  })
  withCallingHandlers(
    healed(run_app(app_page(), app_server(cl, works_in(app$folder), app), port)),
    warning = function(w) {
      # Shiny tells of errors in outputs so, with a trace.
      if (grepl("it failed", conditionMessage(w))) invokeRestart("muffleWarning")
    }
  )
  expect_identical(taken, length(steps), info = paste(app$texts, collapse = "\n"))
  expect_length(the_parallel$promises, 0L)
  expect_length(the_parallel$listens, 0L)
}

shows <- function(app, who, text) any(grepl(text, app$texts[[who]], fixed = TRUE))

click <- function(app, who, id) {
  if (is.null(app$sessions[[who]])) return(FALSE) # not there yet
  app$sessions[[who]]$sendCustomMessage("click", id)
  TRUE
}

has_file <- function(app, name) file.exists(file.path(app$folder, name))
let_go <- function(app) file.create(file.path(app$folder, "go"))

test_cluster("a click is answered while another page waits for its task", {
  tell_story(2,
    function(app) click(app, "a", "long"),
    function(app) has_file(app, "begun") && click(app, "b", "quick"),
    function(app) {
      if (!shows(app, "b", "quick 1 for b")) return(FALSE)
      expect_length(the_parallel$promises, 1L)
      expect_false(shows(app, "a", "long"))
      let_go(app)
    },
    function(app) shows(app, "a", "long for a") && !shows(app, "b", "long")
  )
})

test_cluster("a page shows that a task was cancelled, was healed or has failed, and goes on", {
  tell_story(1,
    function(app) click(app, "a", "background"),
    function(app) has_file(app, "begun") && click(app, "a", "cancel"),
    function(app) {
      shows(app, "a", "muster_error_cancelled The task was cancelled. for a") &&
        click(app, "a", "dies")
    },
    function(app) shows(app, "a", "healed for a") && click(app, "a", "fails"),
    function(app) shows(app, "a", "it failed") && click(app, "b", "quick"),
    function(app) shows(app, "b", "quick 1 for b") && click(app, "a", "quick"),
    function(app) shows(app, "a", "quick 1 for a")
  )
})

test_cluster("a page that is closed while it waits doesn't hold up the other", {
  tell_story(2,
    function(app) click(app, "a", "long"),
    function(app) has_file(app, "begun") && end_browser(app$browsers$a),
    function(app) "a" %in% app$left && click(app, "b", "quick"),
    function(app) {
      shows(app, "b", "quick 1 for b") && length(the_parallel$promises) == 1L && let_go(app)
    },
    function(app) !length(the_parallel$promises) && click(app, "b", "quick"),
    function(app) shows(app, "b", "quick 2 for b")
  )
})
