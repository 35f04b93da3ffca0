PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DOCS := $(VENV)/.ready-docs
READY_COVERAGE := $(VENV)/.ready-coverage
READY_MUTATE := $(VENV)/.ready-mutate
# A process per core, up to eight; each computes with one thread.
PARALLEL := --numprocesses=logical --maxprocesses=8 --dist=worksteal
PYTEST := $(BIN)/python -m pytest $(PARALLEL)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all stress mutate coverage lint types docs clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(READY)  ## Train on real data beside two other models, and write a report: demo.html
	$(BIN)/python examples/digits.py

test: lint types  ## Lint, check types and run the fast tests; three minutes at most
	$(PYTEST) -m "not slow and not process"

test-all: test  ## The same, and then the tests that take long or start processes
	$(PYTEST) -m "slow or process"

# One problem again: cd tests && ../.venv/bin/python -m stress --seed N
stress: $(READY)  ## Try 10,000 random problems that are nasty on purpose; up to half an hour
	cd tests && ../$(BIN)/python -m stress

# Results stay in mutants/: a run goes on where it was stopped, and tries again what has changed.
# Some alone: make mutate MUTANTS="'sepgp.gp.fitc*'"
mutate: $(READY_MUTATE)  ## Break the mathematics in small ways, and see whether tests notice; hours
	export PATH="$(abspath $(BIN)):$$PATH" OMP_NUM_THREADS=1 && \
	mutmut run $(MUTANTS) && mutmut results

# Commands, workers and processes that end early are measured too.
coverage: $(READY_COVERAGE)  ## Line coverage of src/ by all tests; 95 % at least
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest $(PARALLEL)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(READY)  ## Check style, formatting and the directions of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache --no-logo

types: $(READY)  ## Check types
	$(BIN)/mypy src

# Material's notice about a version of MkDocs that is not used here is no warning about the pages.
docs: $(READY_DOCS)  ## Build the documentation into site/; a warning is an error
	$(BIN)/python docs/commands.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

clean:  ## Remove the virtual environment and all caches
	rm -rf $(VENV) build dist mutants site .coverage* src/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The version is read from __init__.py, and the installed metadata must agree with it.
$(READY): pyproject.toml constraints.txt src/sepgp/__init__.py
	@echo "Setting up $(VENV); the first time this takes a minute or more."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(READY_DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(READY_COVERAGE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[coverage]'
	@touch $@

$(READY_MUTATE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutate]'
	@touch $@
