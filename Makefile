# SPDX-License-Identifier: Apache-2.0
# Every command of the project. Run `make` without a target to list the commands.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export GRIDSTEAD_LAB_NAME ?= default
export PYTHONDONTWRITEBYTECODE := 1

LAB := molecule/lab/lab.py
APT_LISTS := $(wildcard molecule/lab/requirements.apt plugins/slurm/requirements.apt requirements/*.apt)

# Processes that these targets start carry this variable. `lab.py down` ends them, even if make
# was killed. Without python3 the value is empty, until `make setup` has installed python3.
up demo bench: export GRIDSTEAD_LAB = $(if $(shell command -v python3),$(shell $(LAB) prefix))

.PHONY: lock help setup demo test check lint up down status shell python3 vm vm-site vm-demo
.PHONY: bench bench-lab bench-site bench-directory bench-chain bench-matching bench-logs
.PHONY: campaign-attacks campaign-flood campaign-outliers campaign-scenarios campaign-soak bench-decisions
.PHONY: campaign-paid-jobs campaign-slow-nodes
.PHONY: bench-definitions bench-start bench-supervisor bench-ticks
.PHONY: proto contracts gas fuzz hostile artifacts wheel collection molecule molecule-all clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready .venv/benchmarks/.ready .venv/slither/.ready .venv/traefik/.ready
setup: contracts/node_modules/.ready ## Install the packages for development, tests and the lab.

.venv/.apt: $(APT_LISTS)
	@tools/install-packages $(APT_LISTS)
	@mkdir -p .venv && touch $@

.venv/.ready: requirements/dev.txt pyproject.toml cvmfs/pyproject.toml .venv/.apt
	@tools/install-environment requirements/dev.txt .venv
	@touch $@

.venv/benchmarks/.ready: requirements/benchmarks.txt .venv/.ready
	@tools/install-environment requirements/benchmarks.txt .venv/benchmarks
	@touch $@

.venv/slither/.ready: requirements/slither.txt .venv/.ready
	@tools/install-environment requirements/slither.txt .venv/slither
	@touch $@

.venv/traefik/.ready: requirements/traefik.txt .venv/.ready
	@tools/install-environment requirements/traefik.txt .venv/traefik
	@touch $@

contracts/node_modules/.ready: contracts/package-lock.json .venv/.apt
	@echo "setup: Node.js packages for the contracts"
	@cd contracts && npm ci --silent --no-fund --no-audit
	@touch $@

up: setup ## Build the lab and run site.yml on it.
	@$(LAB) up
	@tools/site

demo: up ## Run one job on the lab, from its workflow to its payment.
	@python tools/demo.py

test: setup ## Run every check of the project, on a lab that is built and removed.
	@tools/test $(SCENARIOS)

check: setup ## Run every check that needs no hosts, except `make contracts`.
	@tools/check

lint: setup ## Check style, types, layers, roles and scripts.
	@tools/lint

# These targets do not run `make setup`, which installs python3.
down status shell: python3

python3:
	@command -v python3 >/dev/null || { echo "error: python3 is not installed" >&2; \
		echo "  hint: Run apt-get install python3, or make setup as root." >&2; exit 69; }

vm: vm-site vm-demo ## Try a site and `make demo` on a stock Debian 13 in a virtual machine.

vm-site: setup ## Set up a site on the virtual machine, and run paid jobs around a reboot.
	@molecule/lab/vm.py site $(ARGS)

vm-demo: setup ## Run make demo and make down in the virtual machine.
	@molecule/lab/vm.py demo $(ARGS)

down: ## Remove the lab and everything that it created.
	@$(LAB) down

status: ## Show the lab's hosts.
	@$(LAB) status

shell: ## Open a shell on a host: make shell HOST=controller.
	@test -n "$(HOST)" || { echo "name a host: make shell HOST=controller" >&2; exit 64; }
	@$(LAB) shell $(HOST)

bench: setup ## Compare the grid with plain Slurm, on the lab.
	@python tests/bench/jobs.py

bench-chain: setup ## Compare the sender with raw transactions, on its own chain; needs no lab.
	@python tests/bench/settlements.py

bench-matching: setup ## Measure the meta-scheduler with many registrations; needs no lab.
	@python tests/bench/matching.py

bench-ticks: setup ## Measure the meta-scheduler with 100,000 pending jobs; needs no lab.
	@python tests/bench/ticks.py

bench-decisions: setup ## Measure how many matches per second are decided; needs no lab.
	@python tests/bench/decisions.py

campaign-attacks: setup ## Check that tricks gain no service and no reputation, in simulations.
	@python tests/bench/attacks.py
	@python tests/bench/reputation_attacks.py

campaign-flood: setup ## Check what a flood of jobs costs the other customers, in simulations.
	@python tests/bench/flood.py $(ARGS)

campaign-scenarios: setup ## Check reservations and fairness on 1,000 seeded simulated grids.
	@python tests/bench/seeded_scenarios.py $(ARGS)

campaign-outliers: setup ## Check on 1,000 synthetic clusters that slow nodes are found.
	@python tests/bench/outliers.py

campaign-slow-nodes: setup ## Slow down a node of the lab, and check that benchmarks name it.
	@python tests/bench/slow_nodes.py $(ARGS)

campaign-paid-jobs: setup ## Compare jobs during benchmarks with jobs on an idle lab.
	@python tests/bench/jobs_and_benchmarks.py $(ARGS)

campaign-soak: setup ## Run 10,000 jobs while services are killed, and check all; ARGS=--lab.
	@python tests/bench/soak.py $(ARGS)

bench-supervisor: setup ## Measure the supervisor with 10,000 jobs; needs no lab.
	@python tests/bench/supervisor.py

bench-logs: setup ## Measure the logger, and the time that logging adds to a job; needs no lab.
	@python tests/bench/logs.py

bench-start: setup ## Measure how long the commands of the client take to start; needs no lab.
	@python tests/bench/start.py

bench-definitions: setup ## Measure the Job Definition service; needs no lab.
	@python tests/bench/definitions.py

bench-lab: setup ## Measure how long a lab takes to start, to start again and to stop.
	@python tests/bench/labs.py

bench-site: setup ## Measure site.yml on new hosts; ARGS=--plain starts with plain Debian.
	@python tests/bench/site_yml.py $(ARGS)

bench-directory: setup ## Measure new users, and look-ups while the directory is down.
	@python tests/bench/directory.py

molecule: setup ## Run the molecule scenarios of CI: three hosts, and one bare host.
	@tools/molecule default single

molecule-all: setup ## Run every molecule scenario, two at a time (25 minutes).
	@tools/molecule

proto: setup ## Generate Python code from the proto files.
	@python -m grpc_tools.protoc -I control --python_out=control --pyi_out=control \
		--grpc_python_out=control control/gridstead/proto/*.proto

contracts: setup ## Test the contracts: artifacts, tests, coverage, slither, gas.
	@tools/contracts

gas: setup ## Measure the gas of the contracts' calls and write contracts/gas.md.
	@GRIDSTEAD_GAS=write pytest --quiet --capture=no tests/contracts/test_gas.py

fuzz: setup ## Test the contracts with 100,000 runs, the ledger model and mutants (hours).
	@tools/fuzz

hostile: setup ## Test the workflow language with random scripts and hostile text (an hour).
	@GRIDSTEAD_HOSTILE=1 GRIDSTEAD_ALL_TESTS=1 pytest --quiet --override-ini timeout=7200 \
		tests/unit/workflow/test_random.py tests/unit/workflow/test_injection.py
	@python tests/bench/workflow_mutants.py
	@python tests/bench/workflow_scaling.py

artifacts: setup ## Build the contracts' artifacts into the Python package.
	@contracts/build-artifacts.py

wheel: setup ## Build the wheels of gridstead and gridstead-cvmfs into dist/.
	@uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir dist
	@uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir dist cvmfs

collection: setup ## Build the collection gridstead.site, with the wheels, into dist/.
	@tools/collection

clean: down ## Remove everything that was built here, including the lab's image.
	@rm -rf .venv dist contracts/node_modules contracts/out contracts/cache
	@$(LAB) image --remove

LOCK := UV_PYTHON_DOWNLOADS=never uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --upgrade
# cvmfs/pyproject.toml requires gridstead[site], so it brings the dependencies of both wheels.
LOCK_WHEELS := --no-emit-package gridstead cvmfs/pyproject.toml

lock: ## Resolve the Python dependencies again and write requirements/.
	@$(LOCK) -o requirements/control.txt $(LOCK_WHEELS) requirements/control.in
	@$(LOCK) -o requirements/dev.txt $(LOCK_WHEELS) requirements/dev.in
	@$(LOCK) -o requirements/benchmarks.txt requirements/benchmarks.in
	@$(LOCK) -o requirements/slither.txt requirements/slither.in
	@$(LOCK) -o requirements/traefik.txt requirements/traefik.in
