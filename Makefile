# `make demo` shows the device at work; `make test` runs everything CI runs. Each sets up what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types unit bench clean

demo: $(VENV)/.ready
	$(BIN)/aisrv demo

test: lint types unit

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test
	$(BIN)/mypy

unit: $(VENV)/.ready-test
	$(BIN)/pytest

bench: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "aisrv needs Python 3.11 or later; name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.ready-test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .hypothesis
