# Needs Python 3.11 or newer, pip and make; everything goes into .venv beside this file.
#
#   make look      see a real model's attention (the first run also installs and fetches the model)
#   make test      the whole test suite
#   make quick     the part of it that takes a moment
#   make browser   the browser side alone: its types, its unit tests, its screens in Chromium
#   make lint      style          make types    static types
#   make docs      write anew what the docs take from the program
#   make pictures  take the README's pictures anew, of the app in Chromium
#   make wheel     dist/*.whl and dist/*.tar.gz
#   make clean     remove what was built; make distclean removes .venv too

PYTHON ?= python3
TEXT ?= Xiao Ming gave the apple to Xiao Wang. Who has the apple now? The apple is with
MODEL ?= smollm2
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile -c constraints.txt
export TEXT MODEL
# pip compiles nothing (most of what it installs is never imported: half a minute saved); what is
# imported is compiled once and kept, whatever the shell's own setting.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help look test quick browser scripts lint types docs pictures wheel constraints clean distclean

help:
	@sed -n '3,12s/^# *//p' Makefile

# One stamp per set of packages: a later run installs nothing unless one of these two files changed.
$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "attnscope needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.look: pyproject.toml constraints.txt | $(VENV)/.venv
	@echo "Installing attnscope and what it needs into $(VENV) (once, about a minute)"
	@$(PIP) -e '.[look,table,serve,lessons]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.venv
	@echo "Installing attnscope and what its tests need into $(VENV) (once, about a minute)"
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.look

# What checks the browser side; users need none of it.
node_modules/.made: package.json package-lock.json
	@for tool in chromium node npm; do command -v $$tool >/dev/null || { \
	  echo "The tests of the browser side need Chromium, Node and npm: apt-get install -y chromium nodejs npm" >&2; exit 1; }; done
	@npm ci --no-audit --no-fund --silent
	@touch $@

look: $(VENV)/.look
	@$(BIN)/attnscope models pull "$$MODEL"
	@$(BIN)/attnscope look --model "$$MODEL" -- "$$TEXT"

# The tests that watch real models take them from the user's cache, so they are put there first.
test: $(VENV)/.dev node_modules/.made
	@$(MAKE) --no-print-directory scripts
	@$(BIN)/attnscope models pull smollm2
	@$(BIN)/attnscope models pull gemma3
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not real_model and not browser"

browser: $(VENV)/.dev node_modules/.made scripts
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/browser

scripts: node_modules/.made
	node_modules/.bin/tsc
	node --test tests/browser/unit/*.test.js

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	@$(BIN)/attnscope models pull smollm2
	$(BIN)/python docs/build.py
	$(BIN)/python docs/build_experiments.py

pictures: $(VENV)/.dev
	@$(BIN)/attnscope models pull smollm2
	$(BIN)/python docs/pictures.py

wheel: $(VENV)/.dev
	$(BIN)/python -m build --outdir dist .

# Rewrites constraints.txt from .venv, keeping its opening comment.
constraints: $(VENV)/.dev
	@{ sed -n '/^#/p' constraints.txt; \
	   $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) node_modules
