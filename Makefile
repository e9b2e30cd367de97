# muster's checkout, in one command each. GNU make.
#
#   make demo         install what is missing, build, show what muster gains: demo/tour.R
#   make check        install what tests need, judge a change: some 25 minutes, the same
#                     verdict each time
#   make check-all    every test there is, each time with another seed: an hour
#   make soak         kill workers, 10,000 times, under load (KILLS=300 SEED=1), or for
#                     HOURS=1 random events, and check their history
#   make bench        measure, write the table into bench/README.md, and check the bars of
#                     bench/bars.R; fails if one isn't met (BENCH=bars: the bars alone)
#   make bench-fetch  do fetches of a shuffle stall? Into bench/ too (RUNS=100)
#   make build        the source package, in build/package/
#   make install      muster into ./.lib
#   make document     NAMESPACE and man/ from the comments in R/
#   make lint         the house style, as a test
#   make clean        remove what the others left, but not R packages in ./.lib
#
# WORKERS=8 make demo       start 8 workers, not 64, beside those of parallel
# make check SUITES="c sim" some suites only; tools/suite.sh names them
# MISSING=skip make check     go on without system packages that are missing
# FILTER=fork make check SUITES=testthat
#                           only the files of tests that match
# make check-all MUSTER_TEST_SEED=7
#                           with this seed
#
# Everything is put into ./.lib (R packages) and ./build; the scripts in tools/
# do the work and say more.

SHELL = /bin/sh
MAKEFLAGS += --no-print-directory
export R_LIBS := $(CURDIR)/.lib$(if $(R_LIBS),:$(R_LIBS))

.PHONY: all demo check check-all soak bench bench-fetch build install document lint clean
.NOTPARALLEL:

all: install

demo:
	@tools/setup.sh run
	@tools/install.sh
	@tools/demo.sh

check:
	@tools/setup.sh check
	@tools/check.sh $(SUITES)

check-all:
	@BROWSER=yes tools/setup.sh check
	@tools/check.sh $(or $(SUITES),all)

soak:
	@tools/setup.sh run
	@tools/install.sh
	@$(if $(HOURS),Rscript tests/soak/history.R $(HOURS) $(SEED),Rscript tests/soak/soak.R $(or $(KILLS),$(SOAK),10000) $(SEED))

bench:
	@tools/setup.sh bench
	@tools/install.sh
	@tools/bench.sh $(BENCH)

bench-fetch:
	@tools/setup.sh run
	@tools/install.sh
	@tools/bench-fetch.sh $(or $(RUNS),100)

build:
	@tools/setup.sh run
	@tools/build.sh

install:
	@tools/setup.sh run
	@tools/install.sh

document:
	@tools/setup.sh document
	@tools/install.sh
	@Rscript tools/document.R

lint:
	@Rscript tools/tidy.R

clean:
	@tools/clean.sh
