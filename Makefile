# All commands run in .venv. The first one creates it and installs the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help demo test test-full test-slow fix bench clean

help:
	@echo "make demo       set up, test a trained network on rotated digits, then train and test four more; see demo/report.html"
	@echo "make test       set up and run the tests"
	@echo "make test-full  install the libraries that the models work with, and run the tests against them"
	@echo "make test-slow  run the tests that take minutes each"
	@echo "make bench      compare speed and memory with other implementations (numbers and plots in benchmarks/results/)"
	@echo "make fix        format, lint, check types and imports"
	@echo "make clean      remove .venv and caches"

$(INSTALLED): pyproject.toml constraints.txt $(wildcard csrc/*)
	@test -d .venv || $(PYTHON) -m venv .venv
	@echo "installing into .venv (the first time this takes a few minutes)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(INSTALLED)
	$(BIN)/spectral-vmamba demo --output demo

# One process per core, each with one thread; the tests of a file run in one process. In file order: the slow files are
# not at the end then.
test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Tests with segmentation-models-pytorch, transformers and captum, and tests that take longer than those of `make test`.
test-full: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[integrations]"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m full

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "mambapy==1.2.0" --no-deps
	$(BIN)/python -m benchmarks --output benchmarks/results

fix: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

clean:
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis build
