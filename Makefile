# Everything a developer needs; the targets set up their own environment in .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check fuzz format peer

demo: .venv/ready  ## check a program with a race on simulated GPUs: prints a finding
	@$(BIN)/syncheck run --backend sim fixtures/unordered-read/bad.py || test $$? -eq 1

check: .venv/ready  ## format, lint, types, import contracts, tests: what CI runs
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not gpu"

fuzz: .venv/ready  ## damaged traces, records, baselines, caches, settings and sources, for an hour: make fuzz SECONDS=60
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),3600)

format: .venv/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

peer: .venv/ready  ## PyTorch's own tests on simulated GPUs, against the list of what is expected: about 20 minutes
	$(BIN)/python peer/run.py

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[torch,dev]'
	@touch $@
