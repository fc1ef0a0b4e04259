# Everything a developer runs. Needs only make and Python 3.11 or newer; each target builds what it needs in $(VENV).

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=
# The planner's benchmark wants files that are not kept here: python benchmarks/planner.py FILE.csv ...
BENCHMARKS ?= $(filter-out benchmarks/planner.py benchmarks/_%,$(wildcard benchmarks/*.py))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
BUILD_FILES := setup.py pyproject.toml

# One virtual environment is shared by all targets, so two installs must never run at once.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@echo "Targets (variables: PYTHON=$(PYTHON) VENV=$(VENV) JOBS=$(JOBS) PYTEST_ARGS=...):"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.stamp-run ## Compile the examples, run them at several sizes, compare with numpy
	$(BIN)/python examples/demo.py

.PHONY: test
test: $(VENV)/.stamp-test ## Run the test suite, slow tests left out
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(PYTEST_ARGS)

.PHONY: test-all
test-all: $(VENV)/.stamp-test ## Run every test, slow ones too
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

.PHONY: bless
bless: $(VENV)/.stamp-test ## Rewrite the expected output of file tests and documentation; read the diff before committing it
	$(BIN)/python -m pytest tests/test_files.py tests/test_docs.py --bless $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.stamp-lint ## ruff, mypy --strict, and who may import whom (import-linter)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.PHONY: bench
bench: $(VENV)/.stamp-test ## Run every benchmark in benchmarks/ and print its numbers
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file; done

.PHONY: docs
docs: $(VENV)/.stamp-run ## Regenerate the generated pages in docs/
	$(BIN)/python docs/generate.py

.PHONY: clean
clean: ## Remove the virtual environment, builds and caches
	rm -rf $(VENV) build dist pliant.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. A stamp is written only after a whole install, so that an interrupted one is done again.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pliant needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Say: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-run: $(BUILD_FILES) | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.stamp-test: requirements-test.txt $(BUILD_FILES) | $(VENV)/.stamp-run
	$(PIP) install --quiet --requirement requirements-test.txt
	@touch $@

$(VENV)/.stamp-lint: requirements-lint.txt $(BUILD_FILES) | $(VENV)/.stamp-run
	$(PIP) install --quiet --requirement requirements-lint.txt
	@touch $@
