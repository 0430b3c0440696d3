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
# Python compiles a module when it is first imported. Most of what pip installs never is.
export PIP_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# Tests of Python on as many processes as there are cores, those that are idle taking over from the others.
# Polars would start as many threads in each, which wait for each other on tables this small.
# Random cases are the same each time, so that what a test says depends on the code alone. `make test-drawn SEED=2` draws others.
export PROPTEST_RNG_SEED := $(or $(SEED),1)
SEEDED := --hypothesis-seed=$(or $(SEED),1)
PYTEST := POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n logical --dist worksteal

.PHONY: help build demo test test-rust test-python test-long test-relations reference-large test-pages test-drawn fuzz lint lint-rust lint-python release-build bench bench-bare bench-against feature-speed mutants audit-catalogue audit-genuine audit-traces reference-cases player-frames play-picture gallery pages generate docs wheel sdist wheels release-check clean

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
	$(BIN)/maturin develop --profile develop --extras test
	touch $@ $(VENV)/.package

# Without what tests need, which is several times as much to download.
$(VENV)/.package: $(VENV)/.tools pyproject.toml $(RUST)
	$(BIN)/maturin develop --profile develop
	touch $@

demo: $(VENV)/.package ## fifo, sjf-bco, gittins and repack on a bundled sample; results and a picture in demo/
	$(BIN)/ringbco demo -o demo --force

lint: lint-rust lint-python ## formats, lints, types

# Each prints all it has to say when it has ended. After a failure nothing more is begun, and make fails.
test: ## lint, then the tests of both languages, two things at a time
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-rust test-python lint

test-rust: ## the engine's tests, which need no Python
	cargo test --locked --no-default-features

test-python: build
	$(PYTEST) $(SEEDED) -m "not long"

# Modules with random cases, or moments, of which RINGBCO_CASES sets the number.
DRAWN := cases requests_drawn equality preempt_equality types_custom_policy planner audit audit_genuine audit_no_length custom_policies custom_policy_resize \
	shell repack elastic_turns capacity diff why_drawn player timeline_samples

test-long: build ## tests that take long; all golden runs; lints without Python
	cargo clippy --locked --profile develop --all-targets --no-default-features -- -D warnings
	RINGBCO_CASES=30 cargo test --locked --no-default-features -- slow_twin
	RINGBCO_CASES=600 $(PYTEST) $(SEEDED) -m "not long" tests/engine/test_golden.py
	RINGBCO_CASES=300 $(PYTEST) $(SEEDED) -n 3 -m "long and not pages" # they wait for other processes

test-relations: build ## relations between two runs on N jobs (default 100000), minutes
	RINGBCO_RELATION_JOBS=$(or $(N),100000) $(PYTEST) $(SEEDED) tests/engine/test_relations.py

reference-large: build ## N decisions (default 100) in the midst of runs of JOBS jobs (default 100000) of each policy by SEED (default 1), the engine's and the reference model's, minutes
	RINGBCO_LARGE_JOBS=$(or $(JOBS),100000) RINGBCO_LARGE_DECISIONS=$(or $(N),100) RINGBCO_LARGE_SEED=$(or $(SEED),1) \
		$(PYTEST) $(SEEDED) tests/engine/test_reference_large.py

test-pages: build ## does all that README, the pages of questions, adding-a-column.md and adding-a-policy.md say, which builds the engine three times
	$(PYTEST) -n 0 -m pages tests/docs

test-drawn: build ## random tests with many more cases, N of each (default 600), drawn by SEED (default 1)
	RINGBCO_CASES=$(or $(N),600) $(PYTEST) $(SEEDED) -m "not long" $(DRAWN:%=tests/*/test_%.py)
	$(BIN)/python -W ignore tests/cases/files.py $(or $(N),600) target/drawn.txt
	RINGBCO_DRAWN=target/drawn.txt cargo test --locked --no-default-features -- drawn
	$(BIN)/python tests/cases/serving.py $(or $(N),600) target/serving.txt
	RINGBCO_SERVING=target/serving.txt cargo test --locked --no-default-features -- serving
	RINGBCO_CASES=$(or $(N),600) CARGO_PROFILE_TEST_OPT_LEVEL=1 cargo test --locked --no-default-features -- slow_twin

fuzz: build ## damaged inputs for every parser, N cases of each kind (default 2000), new ones unless there is a SEED
	RINGBCO_FUZZ=$(or $(N),2000) $(PYTEST) $(SEED:%=--hypothesis-seed=%) tests/fuzz

# In the profile of the build, which has compiled the macros and the build scripts that clippy runs.
lint-rust: $(VENV)/.tools
	cargo fmt --check
	cargo clippy --locked --profile develop --all-targets --features python -- -D warnings
	cargo clippy --locked --profile develop --test all --features python -- -D warnings

# The package's types are for mypy: stubtest compares the stub with the engine and reads no other module.
lint-python: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m ringbco.dev.words
	$(BIN)/mypy --strict
	$(BIN)/python -m mypy.stubtest --mypy-config-file <(printf '[mypy]\n[mypy-ringbco.*]\nfollow_imports = skip\n') ringbco._core

release-build: $(VENV)/.tools
	$(BIN)/maturin develop --release --extras test
	touch $(VENV)/.built

bench: release-build ## how long loading, the profile, a replay, its metrics and writing take
	$(BIN)/python -m pytest benches --benchmark-enable --benchmark-only

bench-bare: ## the engine against a bare loop that knows fifo alone, which must say the same bit for bit
	cargo bench --locked --bench bare --no-default-features

bench-against: build ## the engine against another commit: make bench-against REV=HEAD^ [WITH=--instructions, or --audit]
	$(BIN)/python benches/against.py $(or $(REV),HEAD^) $(WITH)

feature-speed: build ## as bench-against, what costs many times as much as fifo: make feature-speed REV=HEAD^ [WITH='--jobs 1000000 --rounds 3']
	$(BIN)/python benches/against.py $(or $(REV),HEAD^) --slow $(WITH)

mutants: $(VENV)/.mutants ## faults planted at random, N in each language (default 20) by SEED (default 1), and how many the tests catch
	$(BIN)/python benches/mutants.py $(or $(N),20) --seed $(or $(SEED),1) $(ONLY:%=--only %)

$(VENV)/.mutants: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.4,<9' 'pytest-cov>=6,<8'
	cargo install --quiet --locked --root $(VENV) cargo-mutants@27.1.0
	touch $@

audit-catalogue: build ## what share of corruptions the audit catches, of N random cases (default 200) by SEED (default 1); ONE="1.17 cells" shows one
	PYTHONPATH=tests:tests/shared POLARS_MAX_THREADS=1 $(BIN)/python benches/audit_catalogue.py $(or $(N),200) --seed $(or $(SEED),1) \
		--jobs $(or $(JOBS),1) $(if $(ONE),--one $(ONE))

audit-genuine: build ## how many of N random results (default 1000) by SEED (default 1) the audit finds fault with: none should be
	PYTHONPATH=tests:tests/shared POLARS_MAX_THREADS=1 $(BIN)/python benches/audit_catalogue.py $(or $(N),1000) --seed $(or $(SEED),1) \
		--jobs $(or $(JOBS),1) --genuine

audit-traces: release-build ## the audit of every public trace in TRACES under all POLICIES, and its cost; or of MADE=1000000 jobs; REPEAT=0 leaves the repeat out
	$(BIN)/python benches/audit_traces.py $(TRACES:%=--traces %) $(if $(POLICIES),--policies $(POLICIES)) $(MADE:%=--made %) \
		$(if $(filter 0,$(REPEAT)),--no-repeat) $(LIMIT:%=--limit %)

reference-cases: build ## how many of N random cases (default 1000) by SEED (default 1) a reference model decides and agrees, by feature; RULES="fairshare protection" forces these in turn
	PYTHONPATH=tests:tests/shared POLARS_MAX_THREADS=1 $(BIN)/python benches/reference_cases.py $(or $(N),1000) --seed $(or $(SEED),1) \
		--jobs $(or $(JOBS),1) $(if $(RULES),--rules $(RULES))

player-frames: build ## how large the page of `ringbco play` is, and how smoothly it scrubs in Chromium
	PYTHONPATH=tests/shared $(BIN)/python benches/player_frames.py

play-picture: build ## the pictures of README and docs/play.md, from the public traces in TRACES (default ../shared/traces)
	PYTHONPATH=tests/shared $(BIN)/python benches/play_picture.py $(or $(TRACES),../shared/traces) docs/images

gallery: build ## the pictures of docs/gallery.md, by the commands below them; no trace is needed
	PYTHONPATH=tests/shared POLARS_MAX_THREADS=1 $(BIN)/python benches/gallery.py

# Speed is that of an engine built for release.
pages: $(if $(findstring performance,$(ROW)),release-build,build) ## whether the tables of the docs are what they are made of: all, or ROW="elastic certainty/real-traces"; WRITE=1 writes them; from TRACES and PEERS (default ../shared/traces, ../shared/peers)
	POLARS_MAX_THREADS=1 $(BIN)/python -W ignore benches/pages.py $(ROW) $(TRACES:%=--traces %) $(PEERS:%=--peers %) $(WRITE:%=--write)

generate: build ## what is made of the tables of options and policies: types of options, docs/cli/, tables in the docs
	$(BIN)/python -m ringbco.dev.generate

docs: $(VENV)/.docs ## the documentation as a site in site/, links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The package is there already: this adds what the extra needs, and builds nothing again.
$(VENV)/.docs: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'ringbco[docs]'
	touch $@

# zig alone is 400 MB, and tests may be running in .venv: what makes releases has an environment of its own.
RELEASE := target/release-tools
# On Linux: for every one since 2014. zig links against the C library of that year; maturin looks for it in the path.
ifeq ($(shell uname -s),Linux)
OLDEST := --zig --compatibility manylinux2014
ZIG := 'ziglang>=0.17,<0.18'
endif

$(RELEASE)/.tools: $(VENV)/.tools
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2' 'twine>=6.1,<8' $(ZIG)
	touch $@

# Times in archives and in the list of parts are those of the commit.
IN_RELEASE := PATH="$(CURDIR)/$(RELEASE)/bin:$$PATH" VIRTUAL_ENV="$(CURDIR)/$(RELEASE)" \
	PYO3_PYTHON="$(CURDIR)/$(RELEASE)/bin/python" SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)

wheel: $(RELEASE)/.tools ## the wheel in dist/, its library stripped, below 5 MB, its engine built for replays that are counted first; PGO=0 without them
	rm -f dist/*.whl
	$(IN_RELEASE) $(if $(filter 0,$(PGO)),,.ci/profiled) maturin build --release --locked --strip $(OLDEST) --out dist
	$(RELEASE)/bin/twine check --strict dist/*.whl
	@test $$(wc -c <dist/*.whl) -lt 5000000 || { echo "the wheel is not below 5 MB" >&2; exit 1; }

sdist: $(RELEASE)/.tools ## the source distribution in dist/
	rm -f dist/*.tar.gz
	$(IN_RELEASE) maturin sdist --out dist
	$(RELEASE)/bin/twine check --strict dist/*.tar.gz

wheels: ## the wheel and the source distribution in dist/, each tried in an empty environment
	$(MAKE) --no-print-directory wheel
	$(MAKE) --no-print-directory sdist
	@echo "trying both"; .ci/try dist/*.tar.gz >target/tried 2>&1 & sdist=$$!; \
	{ .ci/try dist/*.whl questions && wait $$sdist; } || { cat target/tried >&2; exit 1; }; tail -n 1 target/tried

release-check: ## all that a release must hold: docs/releasing.md; TAG=v0.2.0 also that this is that version
	$(MAKE) --no-print-directory wheels
	$(RELEASE)/bin/python .ci/release_check.py $(TAG)

clean: ## removes what was built
	rm -rf $(VENV) target demo site dist
