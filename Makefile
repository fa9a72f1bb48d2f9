# gpuplan: every target sets up what it needs in .venv, from a bare clone with python3.11+ and make.
VENV  := .venv
BIN   := $(VENV)/bin
PARTS := analysis cli planner sample_traces simkit
# Tested versions of all packages, for every Python and system; `make lock` renews them.
PIP   := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# The first interpreter that runs and is new enough; set PYTHON=... to choose another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Where this is set, every worker and every command that a test starts compiles all sources anew.
unexport PYTHONDONTWRITEBYTECODE
# Tests of kernels that are quick as plain Python, where an index out of bounds is an error.
PLAIN := 'kernels and not compiled and not slow'

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage test-slow test-ray test-browser test-lowest test-all lock docs check typing format fuzz mutants bench dist samples clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: gpuplan needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed  ## install gpuplan in .venv

demo: $(VENV)/.installed  ## run the main job end to end on the shipped sample traces
	$(BIN)/gpuplan demo

test: $(VENV)/.installed-dev  ## run all tests but the slow ones
	$(BIN)/python -m pytest -q -rs -n 2 -m 'not slow'

coverage: $(VENV)/.installed-dev  ## run the tests of make test with line coverage; fail below 90%
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -q -rs -n 2 -m 'not slow' --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 -m $(PLAIN) --cov --cov-append --cov-report= \
		`grep -l 'mark\.kernels' tests/test_*.py`
	$(BIN)/python -m coverage report --fail-under=90

test-slow: $(VENV)/.installed-dev  ## run the slow tests: many examples, long replays, kernels as plain Python
	$(BIN)/python -m pytest -q -rs -n 2 -m slow --timeout 300 `grep -l 'mark\.slow' tests/test_*.py`
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 -m $(PLAIN) `grep -l 'mark\.kernels' tests/test_*.py`

test-ray: $(VENV)/.installed-dev  ## run the tests of --engine ray (installs Ray)
	$(PIP) --editable '.[ray]'
	$(BIN)/python -m pytest -q -rs -k ray tests/test_engine.py

test-all: coverage test-slow test-ray test-lowest docs check  ## run every test and check there is

LOWEST := build/lowest
test-lowest: $(VENV)/.installed-dev  ## run all tests but the slow ones with the oldest packages that pyproject.toml allows
	$(PIP) uv
	rm -rf $(LOWEST) && mkdir -p $(LOWEST)
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --no-header --no-annotate --extra dev \
		--output-file $(LOWEST)/constraints.txt pyproject.toml
	$(PYTHON) -m venv $(LOWEST)/venv
	$(LOWEST)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(LOWEST)/constraints.txt --editable '.[dev]'
	$(LOWEST)/venv/bin/python -m pytest -q -rs -n 2 -m 'not slow'

lock: $(VENV)/.installed-dev  ## renew constraints.txt with the newest packages of all extras
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --all-extras --universal --no-header --no-annotate \
		--no-emit-index-url --output-file constraints.txt pyproject.toml

test-browser: $(VENV)/.installed-dev  ## open the report in headless Chromium (Debian: apt-get install chromium chromium-driver)
	$(BIN)/python -m pytest -q -rs -m browser

mutants: $(VENV)/.installed-dev  ## change the lines of this branch in small ways; print what no test notices (ARGS="--sample 50")
	$(BIN)/python tests/mutants.py $(ARGS)

docs: $(VENV)/.installed-dev  ## build the pages of docs/ as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html (search needs a server: python -m http.server -d build/site)"

check: $(VENV)/.installed-dev typing  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

typing:  # link the folders as a gpuplan package, for type checkers and editors
	@mkdir -p build/typing/gpuplan
	@for p in $(PARTS); do ln -sfn ../../../$$p build/typing/gpuplan/$$p; done

format: $(VENV)/.installed-dev  ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

FUZZ_N ?= 5000
FUZZ_SEED ?= 1
fuzz: $(VENV)/.installed-dev  ## run FUZZ_N mutated cases of FUZZ_SEED, or FUZZ_CASE alone (docs/reliability.md)
	$(BIN)/python -m fuzz -n $(FUZZ_N) --seed $(FUZZ_SEED) $(if $(FUZZ_CASE),--case $(FUZZ_CASE)) \
		$(if $(FUZZ_KIND),--kind '$(FUZZ_KIND)')

bench: $(VENV)/.installed-dev  ## measure the speed bars (about 25 minutes), write docs/performance.md
	$(PIP) --editable '.[bench]'
	$(BIN)/python -m benchmarks --write docs/performance.md

DIST ?= dist
dist: $(VENV)/.installed-dev  ## build wheel and sdist with checksums in dist (DIST=... for another folder)
	rm -f $(DIST)/gpuplan-*.whl $(DIST)/gpuplan-*.tar.gz $(DIST)/SHA256SUMS
	$(BIN)/python -m build --no-isolation --outdir $(DIST) . > /dev/null
	@$(BIN)/python -c 'import hashlib, pathlib, sys; folder = pathlib.Path(sys.argv[1]); \
		(folder / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" \
		for one in sorted(folder.glob("gpuplan-*"))))' $(DIST)
	@cat $(DIST)/SHA256SUMS

samples: $(VENV)/.installed  ## make the sample traces again from their seed
	$(BIN)/python -m gpuplan.sample_traces.make_samples

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache
