# Writes NAMESPACE and man/ from the comments in R/, with the code as installed
# in ./.lib: `make document` installs it first. Nothing is built inside src/.
roxygen2::roxygenise(".", load_code = "installed")
