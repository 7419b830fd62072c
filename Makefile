# Every target sets up its own virtual environment first; nothing needs to be installed by hand.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint bench statistical fuzz clean

demo: $(READY)
	$(BIN)/bagwise demo --output demo

test: lint
	$(BIN)/pytest -m "not statistical" -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

statistical: $(READY)
	$(BIN)/pytest -m statistical

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,arviz]'
	touch $@

clean:
	rm -rf $(VENV) demo build fuzz_failures .pytest_cache .mypy_cache .ruff_cache .hypothesis
