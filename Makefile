PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
DIST := .venv-dist

.PHONY: bench demo test test-all test-long test-apart test-oldest lint docs docs-links dist clean

demo: $(VENV)/.installed
	$(BIN)/coreplan plan random-linear --epsilon 1%

# All planners on the built-in problems, in under an hour on two cores; the tables of docs/benchmarks.md come from it.
bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/acting.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/standing.py --jobs 2

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Tests that take minutes and start other programs: browsers, worker processes, JavaScript.
APART := tests/report/test_browser.py tests/simulate/test_workers.py tests/export

# The long tests, the site and the package. Apart from them: `test-oldest`.
test-all: test-long test-apart docs dist

test-long: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m long $(addprefix --ignore=,$(APART))

test-apart: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m long $(APART)

# The site, in build/site/index.html: notebooks are executed, every link between pages is checked, a warning is an error.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -b html . build/site

# The source archive in dist/ and, built from it, the wheel; the wheel is used in an empty environment, as a new user would.
dist: $(DIST)/.installed
	rm -rf dist
	$(DIST)/bin/python -m build --outdir dist . > $(DIST)/build.log || (cat $(DIST)/build.log; exit 1)
	$(DIST)/bin/python tests/helpers/smoke.py dist

# Links to other sites; it needs the internet.
docs-links: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -c docs -b linkcheck . build/links

# The same tests with the oldest libraries that pyproject.toml allows (Python 3.11 or 3.12), a target of its own since it takes
# as long as `make test`. Two versions of Numba that share a cache overwrite each other's, so this one has its own. Pages
# show what the newest libraries print.
test-oldest: $(OLDEST)/.installed-test
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/numba COREPLAN_LIBRARIES=oldest \
	  $(OLDEST)/bin/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# QuantEcon compiles when it is imported first, and two processes that do so at once leave a broken cache, which aborts
# every later one. So one process imports it before the tests.
$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(BIN)/python -c "import quantecon"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(OLDEST)/.installed-test: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable '.[test]'
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/numba $(OLDEST)/bin/python -c "import quantecon"
	touch $@

$(DIST)/.installed:
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2'
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(DIST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
