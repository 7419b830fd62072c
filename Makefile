# Every target sets up its own virtual environment first; nothing needs to be installed by hand.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
OLDEST := .venv-oldest
NEWEST := .venv-newest
CLEAN  := .venv-package
SITE   := docs/_build
PIP    := pip install --quiet --disable-pip-version-check
QUICK  := pytest -m "not statistical" -n 2 --dist worksteal

# Runs a command with an empty home folder, so that what this machine remembers cannot hide a failure.
AWAY   := home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT INT TERM && HOME="$$home" XDG_CACHE_HOME="$$home/.cache"

.PHONY: demo test test-versions test-oldest test-newest lint bench statistical browser fuzz mutants docs package clean

demo: $(READY)
	$(BIN)/bagwise demo --output demo

test: lint
	$(AWAY) $(BIN)/$(QUICK)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

statistical: $(READY)
	$(AWAY) $(BIN)/pytest -m statistical

# The pages in Debian's Chromium; BAGWISE_CHROMIUM names another browser. Installs what it may; what is missing is skipped.
browser: $(READY)
	$(BIN)/$(PIP) playwright
	command -v "$${BAGWISE_CHROMIUM:-chromium}" || apt-get install -y --no-install-recommends chromium || true
	$(AWAY) $(BIN)/pytest -m browser -rs

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

mutants: $(READY)
	$(BIN)/python -m tests.mutants

docs: $(VENV)/.docs
	$(AWAY) PYTHONPATH=src $(BIN)/sphinx-build -W --keep-going -b html docs $(SITE)/html

$(VENV)/.docs: $(READY)
	$(BIN)/$(PIP) -c constraints.txt -e '.[docs]'
	touch $@

# Wheel and source archive, tried as a user would: in an environment that has nothing else.
package:
	rm -rf dist build
	$(PYTHON) -m venv --clear $(CLEAN)
	$(CLEAN)/bin/$(PIP) build
	$(CLEAN)/bin/python -m build --outdir dist
	$(PYTHON) -m venv --clear $(CLEAN)
	$(CLEAN)/bin/$(PIP) -c constraints.txt dist/*.whl
	$(CLEAN)/bin/python -I tools/try_readme.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) -c constraints.txt -e '.[dev,arviz]'
	touch $@

# The tests with the oldest and with the newest versions that pyproject.toml allows. Each environment takes several GB.
test-versions: test-oldest test-newest

# Old versions use among themselves what newer ones have deprecated; that is no failure of ours. An old scikit-learn asks
# for SciPy's array API as soon as its checks are imported.
test-oldest: $(OLDEST)/.ready
	$(AWAY) SCIPY_ARRAY_API=1 $(OLDEST)/bin/$(QUICK) -W ignore::DeprecationWarning

$(OLDEST)/.ready: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) tools/lowest.py > $(OLDEST)/lowest.txt
	$(OLDEST)/bin/$(PIP) -c $(OLDEST)/lowest.txt -e '.[dev,arviz]'
	touch $@

test-newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/$(PIP) --upgrade --upgrade-strategy eager -e '.[dev,arviz]'
	$(AWAY) $(NEWEST)/bin/$(QUICK)

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) $(CLEAN) $(SITE) docs/gallery docs/api/generated demo build dist fuzz_failures .pytest_cache .mypy_cache .ruff_cache .hypothesis
