# Everything a contributor runs. `make help` lists it; CI runs the same commands through .ci/run.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Most tests wait for leases and time-outs rather than for the processor, so more run at once than there are cores.
export RUST_TEST_THREADS ?= 4

CARGO_DENY_VERSION := 0.20.2

# The same storm every time; more of it by make chaos.
SHORT_STORM := CHAOS_SECONDS=10 CHAOS_SEED=1 CHAOS_FAULTS= CHAOS_MAX_FAULTS= cargo test -q -p api --test chaos -- --test-threads=1

SHORT_REQUESTS := cargo bench --profile dev -p api --bench requests -- --seconds 1 --connections 1,8 --slow-seconds 7
SHORT_BACKLOG := cargo bench --profile dev -p api --bench backlog -- --leases 200 --expired 5000 --rate 10 --quiet 1

CARGO_MUTANTS_VERSION := 27.1.0

.PHONY: help build test test-contract test-clients test-browser lint lint-openapi openapi chaos bench backlog bench-short planted mutants deny-installed

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

build: ## build every binary
	cargo build --workspace

test: build ## run all tests and a short storm, on SQLite and on PostgreSQL, and Swagger UI in a browser (what is missing is installed on Debian)
	.ci/needs "ls /usr/sbin/pgbouncer || command -v pgbouncer" pgbouncer
	.ci/with-postgres bash -c 'cargo test --workspace && $(SHORT_STORM)'
	timeout 10m .ci/browser

test-contract: ## run schemathesis against the server, on SQLite and on PostgreSQL (SECONDS_EACH=600 for longer)
	.ci/contract

test-clients: build ## run the clients' tests: helpers, generated SDKs, docs/try-it.md (KILLS=50 for longer)
	.ci/clients

test-browser: build ## try Swagger UI and the TypeScript helper in Chromium (SCREENSHOTS=docs/images keeps pictures)
	.ci/browser

lint: deny-installed ## check formatting, lints, licences and sources
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo deny check bans licenses sources

lint-openapi: ## check openapi.yaml with two validators and a linter (needs Python and Node.js)
	.ci/lint-openapi

openapi: ## regenerate openapi.yaml from the code
	cargo run -q -p api -- openapi > openapi.yaml.new
	mv openapi.yaml.new openapi.yaml

bench: ## run the benchmarks, on SQLite and on PostgreSQL (BENCH="--seconds 10 --connections 1,16")
	.ci/with-postgres cargo bench -p api --bench requests -- $(BENCH)

backlog: ## clear 10,000 stale leases and 200,000 expired keys beside live requests (BACKLOG="--expired 2000000 --database postgres")
	cargo build --release -p jobs
	.ci/with-postgres cargo bench -p api --bench backlog -- $(BACKLOG)

# No figure of it means anything: it shows that the benchmarks still run, and that each request gets the status it should.
bench-short: build ## run both benchmarks for seconds and unoptimised, so that they keep working (part of CI)
	.ci/with-postgres bash -c '$(SHORT_REQUESTS) && $(SHORT_BACKLOG)'

chaos: build ## break everything at random and compare (SECONDS=60 MAX_FAULTS=1000 SEED=7 DB=sqlite FAULTS=kill,pause)
	CHAOS_SECONDS=$(or $(SECONDS),$(if $(MAX_FAULTS),600,60)) CHAOS_MAX_FAULTS=$(MAX_FAULTS) CHAOS_SEED=$(SEED) CHAOS_FAULTS=$(FAULTS) \
		$(if $(filter sqlite,$(DB)),,.ci/with-postgres) cargo test -q -p api --test chaos -- --nocapture --test-threads=1 $(DB)

planted: ## remove single guards in a copy, and see that a test notices each: docs/mutation-testing.md
	.ci/with-postgres .ci/plant

mutants: ## run cargo-mutants over what decides about keys, for an hour or two (MUTANTS="jobs --file jobs/src/rules.rs")
	@cargo mutants --version 2>/dev/null | grep -qx 'cargo-mutants $(CARGO_MUTANTS_VERSION)' || \
		CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --debug --force cargo-mutants --version $(CARGO_MUTANTS_VERSION)
	.ci/with-postgres .ci/mutants $(MUTANTS)

# Unoptimised: it runs for a second, and compiles in a third of the time.
deny-installed:
	@cargo deny --version 2>/dev/null | grep -qx 'cargo-deny $(CARGO_DENY_VERSION)' || \
		CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --debug --force cargo-deny --version $(CARGO_DENY_VERSION)
