# make demo: see it work.  make test: linters, types, import contracts, tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(BIN)/f2stnet demo

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2  # a core for each worker

# The stamps make a second call start at once; pyproject.toml is newer than them only when dependencies changed.
$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -e '.[dev]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) demo build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
