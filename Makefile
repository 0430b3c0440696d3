# Everything here sets itself up in .venv; a step runs again only when what it depends on has changed.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs')

# maturin and pyo3 must see this environment, whichever one the shell is in.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

.PHONY: help build demo test lint bench policy-table docs clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

build: $(VENV)/.built ## the package, built and installed in .venv

$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("ringbco needs Python 3.11 or newer: make PYTHON=...")'
	@command -v cargo >/dev/null || { echo "ringbco needs Rust 1.88 or newer: https://rustup.rs" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
	touch $@

$(VENV)/.built: $(VENV)/.tools pyproject.toml $(RUST)
	$(BIN)/maturin develop --release --extras test
	touch $@

demo: build ## FIFO, SJF and SJF-BCO on a bundled sample; results and a picture in demo/
	$(BIN)/ringbco demo -o demo --force

lint: build ## formats, lints, types
	cargo fmt --check
	cargo clippy --locked --all-targets --no-default-features -- -D warnings
	cargo clippy --locked --all-targets --features python -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/python -m mypy.stubtest ringbco._core

test: lint ## lint, then every test of both languages
	cargo test --locked --no-default-features
	$(BIN)/python -m pytest

bench: build ## how long loading, the profile, a replay, its metrics and writing take
	$(BIN)/python -m pytest benches --benchmark-enable --benchmark-only

policy-table: build ## docs/results-policies.md, from the public traces in TRACES (default ../shared/traces)
	$(BIN)/python benches/policy_table.py $(or $(TRACES),../shared/traces) docs/results-policies.md

docs: $(VENV)/.docs ## the documentation as a site in site/, links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.docs: $(VENV)/.built
	$(BIN)/maturin develop --release --extras docs
	touch $@

clean: ## removes what was built
	rm -rf $(VENV) target demo site
