# Each target does its own set-up: a virtual environment in .venv with what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test whole quick lint types bench docs clean

demo: .venv/run
	$(BIN)/python -m tutorials.demo

test: .venv/test
	$(BIN)/python -m tests.halves

whole: .venv/test
	$(BIN)/python -m tests.halves -m ""

quick: .venv/test
	$(BIN)/python -m tests.halves --quick

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

bench: .venv/run
	$(BIN)/python -m benchmarks.all
	$(BIN)/python -m benchmarks.compare

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "minitensor needs Python 3.10 or newer; set PYTHON=... to one"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { echo "cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }

.venv/run: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

.venv/docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@
