# `make demo` shows the device at work; `make test` runs the tests, `make soak` the long checks (three hours),
# `make docs` builds the site of the docs.
# Each sets up what it needs, with the first Python from 3.11 on that it finds; PYTHON=... names one.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --prefer-binary
# pytest keeps what it makes of the tests as bytecode, also where Python is told to write none: 8 s of each process.
# A process runs files in their order and steals of another's when it is done; tests/conftest.py says which come first.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses auto --dist worksteal

.PHONY: demo test test-web quick lint types compiled unit long seconds soak arm package wheels release bench changes docs pictures predictions reference clean

demo: $(VENV)/.ready
	$(BIN)/aisrv demo

test: lint types unit

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deptry aisrv phy flash_server host_tools
	$(BIN)/deptry --ignore DEP002,DEP004 tests benchmarks examples docs
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/pytest --quiet tests/house

types: $(VENV)/.ready-test
	$(BIN)/mypy

# Tests start many programs: each would compile what it imports where Python is told to write no bytecode.
compiled: $(VENV)/.ready-test
	@$(BIN)/python -m compileall -q aisrv phy flash_server host_tools

unit: compiled
	$(PYTEST)

# What does not run every day, but in CI: the mark `long` says why.
long: compiled
	$(PYTEST) --long --quiet -m long

# The everyday tests, and then tables of where their time goes.
seconds: compiled
	rm -rf build/seconds
	$(PYTEST) --seconds=build/seconds --quiet
	$(BIN)/python -m tests.support.seconds_table build/seconds

quick: compiled
	$(PYTEST) --quiet -m quick

# The kernels' tests and the demo in an aarch64 Python under QEMU; minutes.
arm: $(VENV)/.ready-test
	.ci/arm

# The page in Chromium; `make test` leaves out tests/browser, a few minutes.
test-web: compiled
	$(PYTEST) --long --quiet tests/browser tests/addons/web \
		tests/integration/test_web_page.py tests/integration/test_web_page_of_a_host.py \
		tests/integration/test_web_accessibility.py

package: $(VENV)/bin/python
	.ci/package

# The source distribution, and wheels for eight platforms; two minutes.
wheels: $(VENV)/bin/python
	.ci/wheels

# make release VERSION=1.2.3: all but the upload.
release: $(VENV)/.ready-docs
	.ci/release $(VERSION)

soak: $(VENV)/.ready-test
	$(PYTEST) --in-full --quiet -m in_full
	$(BIN)/python -m tests.soak $(SOAK)

bench: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks

# The section of the changelog that the fragments in docs/changes make.
changes: $(VENV)/.ready-test
	@$(BIN)/towncrier build --draft --version Unreleased

docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs.yml

# Writes the tables of the reference pages from the code; a test fails where a page differs.
reference: $(VENV)/.ready
	$(BIN)/python -m docs.generate

# Writes what was published of XMOS's chips beside what is predicted; a test fails where the page differs.
predictions: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks.predictions --write

$(VENV)/bin/python:
	@python=$$(.ci/find-python $(PYTHON)) && set -x && "$$python" -m venv $(VENV)

# What an installation compiles is part of it.
BUILD := pyproject.toml setup.py $(shell find aisrv/addons/kernels/backends/native -name "*.[ch]")

$(VENV)/.ready: $(VENV)/bin/python $(BUILD)
	$(PIP) -e .
	touch $@

$(VENV)/.ready-test: $(VENV)/bin/python $(BUILD)
	$(PIP) -e ".[test]"
	touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: $(VENV)/bin/python pyproject.toml
	$(PIP) -e ".[docs]"
	touch $@ $(VENV)/.ready

# Makes the pictures of the docs anew; needs chromium. Look at them before you commit them.
pictures: $(VENV)/.ready-docs
	$(BIN)/python -m docs.generate.pictures

clean:
	rm -rf $(VENV) build *.egg-info aisrv/addons/kernels/backends/native/*.so .mypy_cache .ruff_cache .hypothesis
