# Everything a contributor runs. Each target sets up what it needs first; a second run is instant.
VENV := .venv
BIN := $(VENV)/bin
# Hundreds of short processes are started by the tests; compiling the sources anew in each is not free.
export PYTHONDONTWRITEBYTECODE :=
QUICK := $(wildcard tests/unit tests/tidy tests/scenarios tests/golden)
# Two halves that take about as long. A process each is quicker than workers that are told each test.
QUICK_1 := $(wildcard tests/unit/test_[a-l]*.py tests/tidy tests/scenarios tests/golden)
QUICK_2 := $(filter-out $(QUICK_1),$(wildcard tests/unit/test_*.py))
# Two files at a time: most wait more than they work. Each worker has servers of its own.
PAIRED := $(wildcard tests/contract tests/integration tests/simulation)

.DEFAULT_GOAL := help
.PHONY: help setup setup-browser demo test test-unit quick-1 quick-2 test-matrix test-compose check fmt bench bench-core bench-log bench-fanout bench-audit bench-movement bench-console screenshots lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.project $(VENV)/.java $(VENV)/.kafka ## install everything into .venv, and Java where it is missing

setup-browser: $(VENV)/.browser ## make sure of a Chromium for the browser tests

demo: setup ## show a small cluster at work
	$(BIN)/python -m ringlog.demo

test: check setup-browser $(VENV)/.classes ## check, then run every test
	@$(MAKE) --no-print-directory test-unit
	$(BIN)/pytest -n 2 --dist loadfile $(PAIRED)
	$(BIN)/pytest $(QUICK:%=--ignore=%) $(PAIRED:%=--ignore=%)

test-unit: setup ## run the quick tests: unit, tidy, scenarios, golden
	@$(MAKE) --no-print-directory -j 2 --output-sync=target quick-1 quick-2

# Without plugins that take longer to import than most of these tests to run.
quick-1 quick-2: quick-%:
	$(BIN)/pytest -q -p no:schemathesis -p no:xdist -p no:cov $(QUICK_$*)

test-matrix: setup ## kill everything in every moment of every sequence; MATRIX_TABLE=FILE for the table
	MATRIX_CELLS=all $(BIN)/pytest -q -s tests/e2e/test_crash_matrix.py

test-compose: setup ## build and run docker-compose.yml, break it and see it recover
	deploy/test-compose.sh $(ARGS)

check: setup ## lint, formatting, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2

fmt: setup ## format, and fix what can be fixed
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: setup setup-browser ## run all benchmarks
	$(BIN)/python -m bench

bench-core: setup ## benchmark the pure core
	$(BIN)/python -m bench.core

bench-log: setup ## benchmark the log service beside etcd and pgbench; ARGS="--quick", "--full", "--profile"
	$(BIN)/python -m bench.log $(ARGS)

bench-fanout: setup ## benchmark commit to applied beside an etcd watch; ARGS="--full"
	$(BIN)/python -m bench.fanout $(ARGS)

bench-audit: setup ## benchmark audits of an archive beside bare decoding; ARGS="--full"
	$(BIN)/python -m bench.audit $(ARGS)

bench-movement: setup ## benchmark moving a range beside a plain copy by Spark and cp; ARGS="--quick", "--rows N"
	$(BIN)/python -m bench.movement $(ARGS)

bench-console: setup setup-browser ## benchmark the console with 1,000 nodes and 100,000 entries in Chromium
	$(BIN)/python -m bench.console $(ARGS)

screenshots: setup setup-browser ## make the pictures of docs/screenshots anew
	$(BIN)/python -m tests.browser.screenshots

lock: ## pin requirements/*.in; ARGS="--upgrade-package NAME" to move a pin
	deploy/lock.sh $(ARGS)

clean: ## remove caches and build products; .venv and .state stay
	deploy/clean.sh

$(VENV)/.requirements: requirements/build.txt requirements/dev.txt
	deploy/setup.sh requirements
$(VENV)/.project: pyproject.toml $(VENV)/.requirements
	deploy/setup.sh project
$(VENV)/.java: | $(VENV)/.requirements
	deploy/setup.sh java
$(VENV)/.kafka: services/local/kafka_jars.txt | $(VENV)/.project $(VENV)/.java
	deploy/setup.sh kafka
$(VENV)/.classes: $(VENV)/.requirements | $(VENV)/.project $(VENV)/.java
	deploy/setup.sh classes
$(VENV)/.browser: | $(VENV)/.requirements
	deploy/setup.sh browser
