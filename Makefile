# Everything that one does with a checkout, by name. `make help` lists it. The work itself is in
# scripts/ and tools/, which can be called alone.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

python := .venv/bin/python
# pip and apt remember proxies and mirrors from the environment; nothing else needs the network.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help packages setup peers laboratory compiled compiled-tests build debug tsan test test-all test-lab test-slow test-readers lint format check-alone docs demo bench bench-before client-windows fuzz torture wheel clean distclean

help: ## This list
	@echo "Penstock: make <target>"
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

packages:
	@scripts/setup --packages

setup: packages ## Install what is missing: Debian packages, and Python packages into .venv (quick when nothing changed)
	@scripts/setup

# Compiling needs no Python packages, whose installation uses one processor: both go on side by side.
compiled: packages
	@scripts/build release programs

compiled-tests: packages
	@scripts/build release programs benchmarks

build: setup ## Build the native programs (build/release)
	@scripts/build release programs

debug: setup ## Build with the address and undefined-behaviour sanitizers (build/debug)
	@scripts/build debug

tsan: setup ## Build with the thread sanitizer (build/tsan)
	@scripts/build tsan

peers: setup
	@$(python) requirements/peers.py
	@scripts/setup --keep

laboratory: setup
	@scripts/setup-laboratory

test: packages ## Run the gate that continuous integration runs (25 minutes on 2 cores, 10 when built before)
	@$(MAKE) -j2 compiled-tests peers laboratory
	@$(python) tools/run_tests.py

test-all: peers laboratory ## Run everything: all presets, MPICH, long tests, clang-tidy, fuzzing, torture (hours)
	@$(python) tools/run_tests.py --all

test-lab: peers ## Run the tests of all storage systems of the laboratory, and with Slurm (root; installs their packages)
	@scripts/setup-laboratory --all
	@$(python) -m pytest -q -m "slow or not slow" tests/python/lab tests/torture/test_laboratory_kills.py tests/torture/test_rootless_kills.py

test-slow: build ## Run the slow Python tests alone
	@$(python) -m pytest -q -m slow tests/python

test-readers: build ## Recorded files in h5wasm, the engine of H5Web (needs Node.js 18 and npm)
	@scripts/test-readers

lint: setup ## Check formatting, prose, tidy rules, ruff, mypy, layers, headers and clang-tidy
	@$(python) tools/run_tests.py --all --only lint

format: setup ## Format C++ and Python in place
	@scripts/format

check-alone: setup ## Compile each native header and source alone
	@scripts/build --configure-only tidy
	@$(python) tools/check_alone.py

docs: setup ## Build the documentation site (build/site/index.html); needs no network
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict
	@echo "build/site/index.html"

demo: packages ## The main job, on simulated or your own images: detector to NeXus file, checked, with pictures in demo-out/
	@$(MAKE) -j2 compiled setup
	@$(python) -m penstock demo

bench: setup ## Measure Penstock beside its peers; results go into docs/benchmarks.md
	@scripts/bench

bench-before: setup ## Measure this checkout beside an earlier commit, interleaved (BEFORE=COMMIT)
	@scripts/bench-before "$${BEFORE:?set BEFORE to the commit to compare with}"

client-windows: ## Cross-compile the C client for Windows, where MinGW is installed (gcc-mingw-w64-x86-64)
	@tests/native/client/cross_compile.sh "$(CURDIR)" build/client-windows

fuzz: setup ## Fuzz the parsers for a while (FUZZ_SECONDS each, default 300)
	@scripts/build fuzz fuzz-targets
	@$(python) tools/run_fuzz.py --seconds "$${FUZZ_SECONDS:-300}"

torture: setup ## Kill recorders, fill disks, damage files, for hours (TORTURE_ROUNDS kills, default 200; TORTURE_SEED replays)
	@scripts/torture

wheel: setup ## A wheel with the native programs in dist/
	@$(python) -m build --wheel --no-isolation --outdir dist .

clean: ## Remove what was built
	@rm -rf build dist

distclean: clean ## Remove what was built and what setup made in the checkout; recorded files stay
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis tests/readers/node_modules
