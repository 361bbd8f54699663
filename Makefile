# One verb per task; each sets up .venv by itself. `make demo` is the place to start.
PYTHON ?= python3
# Where pip finds a CPU build of torch 2.13.0, if your default index has none: make demo TORCH_INDEX=<address>
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: lists demo test unit test-slow test-optimized stress test-postgres lint types bench bench-masks bench-quality clean
.DEFAULT_GOAL := demo

demo: $(READY)
	@$(BIN)/python -m deployments.demo

# Every unit test, and the promise on one running application.
test: unit
	$(BIN)/python -m pytest -m "e2e and not slow and not stress"

# Two processes, whose libraries start no threads of their own: they would take each other's cores.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not e2e and not slow and not stress" -n 2 --dist worksteal

# Kills, restarts, two nodes, long runs, engines of their own.
test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow and not stress"

# Ten times as many random examples, and what is left out elsewhere: for an hour or two without anybody watching.
stress: $(READY)
	$(BIN)/python -m pytest -m "stress or not (e2e or slow)" --hypothesis-profile stress

# Without the asserts of the package and of every library; those of the tests stay.
test-optimized: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -O -m pytest -m "not e2e and not slow and not stress" -n 2 --dist worksteal

# Starts a server of its own from the machine's PostgreSQL programs; installs none, and says so where there are none.
test-postgres: $(READY)
	@$(BIN)/python -m tests.deployments.batch.postgresql_server
	$(BIN)/python -m pytest -m postgres tests/deployments/batch

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory types

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# What a mask costs with each engine; other tokenizers and languages: python benchmarks/masks.py --help
bench-masks: $(READY)
	@$(PIP) install -qq --progress-bar off -c constraints.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks masks

# How well each way to choose a text reads; takes hours, and goes on where it was ended: benchmarks/quality.py --help
bench-quality: $(READY)
	@$(PIP) install -qq --progress-bar off -c constraints.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks quality

# The data of the built-in lists, and the table of docs/word-lists.md; needs npm and the network.
lists: $(READY)
	$(BIN)/python -m list_builder

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .coverage

# The stamp is newer than what it was made from, so a second run starts at once.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else f"wordbound needs Python 3.11 to 3.13, and $(PYTHON) is {v.major}.{v.minor}. Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@echo "[1/3] virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] torch, built for the CPU"
	@$(PIP) install -qq --progress-bar off -c constraints.txt "torch==2.13.0+cpu" $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
	  || { echo "pip finds no CPU build of torch 2.13.0. Name an index that has it: make TORCH_INDEX=<address> $(MAKECMDGOALS)"; exit 1; }
	@echo "[3/3] Ray, vLLM and the rest (about 2 GB; some minutes)"
	@$(PIP) install -qq --progress-bar off -c constraints.txt -e ".[cpu,dev]"
	@# vLLM asks for these three, whose public builds do not match the CPU build of torch and break `import transformers`.
	@$(PIP) uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
