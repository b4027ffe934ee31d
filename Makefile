# `make demo` shows the device at work; `make test` runs the tests, `make docs` builds the site of the docs.
# Each sets up what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types unit bench docs clean

demo: $(VENV)/.ready
	$(BIN)/aisrv demo

test: lint types unit

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deptry aisrv phy flash_server host_tools
	$(BIN)/deptry --ignore DEP002,DEP004 tests benchmarks examples
	$(BIN)/lint-imports --no-logo --no-cache

types: $(VENV)/.ready-test
	$(BIN)/mypy

unit: $(VENV)/.ready-test
	$(BIN)/pytest

bench: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks

docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs.yml

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "aisrv needs Python 3.11 or later; name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.ready-test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .hypothesis
