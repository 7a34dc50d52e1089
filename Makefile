# Each target does its own set-up: a virtual environment in .venv with what it needs.
# ARGS are further arguments: make demo ARGS=--quick, make test ARGS="-k split"
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test whole quick fuzz lint types bench docs clean

demo: .venv/run
	$(BIN)/python -m tutorials.demo $(ARGS)

test: .venv/test
	$(BIN)/python -m tests.halves $(ARGS)

whole: .venv/test
	$(BIN)/python -m tests.halves -m "" $(ARGS)

quick: .venv/test
	$(BIN)/python -m tests.halves --quick $(ARGS)

fuzz: .venv/test
	$(BIN)/python -m minitensor fuzz $(ARGS)

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
	@command -v $(PYTHON) >/dev/null || \
	  { echo "there is no $(PYTHON) on PATH; set PYTHON=... to Python 3.10 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "minitensor needs Python 3.10 or newer; set PYTHON=... to one"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }

# minitensor, and the packages of extras
.venv/run: EXTRAS := [onnx]
.venv/test: EXTRAS := [test]
.venv/dev: EXTRAS := [test,dev]
.venv/docs: EXTRAS := [docs]
.venv/run .venv/test .venv/dev .venv/docs: .venv/bin/python pyproject.toml setup.py
	@$(BIN)/python -m pip --version >/dev/null || \
	  { echo "the environment in .venv has no pip, so it is not whole: make clean, then again"; exit 1; }
	@echo "pip installs minitensor$(EXTRAS) into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(EXTRAS)' || \
	  { echo "pip cannot install what this command needs, minitensor$(EXTRAS): it says why above."; \
	    echo "Without a network, bring a folder of wheels that was filled elsewhere, in a clone:"; \
	    echo "    python -m pip download -d wheels 'setuptools>=64' '.$(EXTRAS)'"; \
	    echo "and start with it: PIP_NO_INDEX=1 PIP_FIND_LINKS=$(CURDIR)/wheels make ..."; exit 1; }
	@touch $@
