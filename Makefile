# Development tasks. Each target sets up the environment that it needs, once.
PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv-demo/bin
# Write bytecode regardless of the environment: otherwise each test process compiles our modules again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 2

.PHONY: demo test check fuzz agree format peer

demo: .venv-demo/ready  ## check a program with a race on simulated GPUs; prints a finding
	@$(DEMO)/syncheck run --backend sim fixtures/unordered-read/bad.py || test $$? -eq 1

test: .venv/ready  ## run the tests that are fast and need no network
	$(PYTEST) -m "not gpu and not slow and not network"

check: .venv/ready  ## format, lint, types, import contracts, tests, as in CI
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(MAKE) -j 2 types-linux types-win32 types-darwin
	$(BIN)/lint-imports
	$(PYTEST) -m "not gpu"

types-%: .venv/ready  # for each platform, because mypy skips the code of the others
	$(BIN)/mypy --platform $* --cache-dir .mypy_cache/$*

fuzz: .venv/ready  ## fuzz with damaged traces, records, baselines, caches, settings and sources, for an hour: make fuzz SECONDS=60
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),3600)

agree: .venv/ready  ## check random programs for agreement of verdicts, reachability and schedules: make agree PROGRAMS=10000
	SYNCHECK_AGREE=$(or $(PROGRAMS),5000) $(BIN)/pytest -q -o timeout=0 -o faulthandler_timeout=0 tests/agreement tests/properties \
		tests/ranks/test_witness.py tests/unit/cuda/test_recorders_agree.py

format: .venv/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

peer: .venv/ready  ## run PyTorch's own tests on simulated GPUs and compare with the expected outcomes: about 25 minutes
	$(BIN)/python peer/run.py

# numpy: without it, torch warns when it is imported.
.venv-demo/ready: pyproject.toml constraints.txt
	@$(SUPPORTED)
	@echo "make demo: installing torch and syncheck into .venv-demo (once; delete the folder to undo it)"
	@$(PYTHON) -m venv --clear .venv-demo
	@$(DEMO)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch]' numpy
	@touch $@

.venv/ready: pyproject.toml constraints.txt
	@$(SUPPORTED)
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'  # the first version that supports dependency groups
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[torch]' --group dev
	$(BIN)/python -m compileall -q -j 0 syncheck  # otherwise, each test process compiles all modules
	@touch $@

# Works in every Python, so that an old version can report the problem.
define SUPPORTED
command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer" >&2; exit 1; }; \
$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'syncheck needs Python 3.11 or newer, and \
$(PYTHON) is %d.%d; name another one: make PYTHON=python3.12 $(MAKECMDGOALS)' % sys.version_info[:2])"
endef
