# Everything runs in .venv, which the first command creates and fills with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help demo test test-slow fix bench clean

help:
	@echo "make demo       set up, then train two small networks, turn their pictures, and report (demo/report.html)"
	@echo "make test       set up, then run the tests"
	@echo "make test-slow  the tests that take minutes each"
	@echo "make bench      compare speed and memory with other implementations (numbers and plots in benchmarks/results/)"
	@echo "make fix        format, lint, check types"
	@echo "make clean      remove .venv and caches"

$(INSTALLED): pyproject.toml constraints.txt $(wildcard csrc/*)
	@test -d .venv || $(PYTHON) -m venv .venv
	@echo "installing into .venv (the first time this takes a few minutes)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(INSTALLED)
	$(BIN)/spectral-vmamba demo --output demo

# One process for every processor, each with one thread, a file of tests at a time.
test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "mambapy==1.2.0" --no-deps
	$(BIN)/python -m benchmarks --output benchmarks/results

fix: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/pyright

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build
