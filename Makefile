# SPDX-License-Identifier: Apache-2.0
# Every command of the project. `make` alone explains them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export GRIDSTEAD_LAB_NAME ?= default
export PYTHONDONTWRITEBYTECODE := 1

LAB := molecule/lab/lab.py
APT_LISTS := $(wildcard molecule/lab/requirements.apt plugins/requirements.apt requirements/*.apt)

# What these start ends with the lab, whatever becomes of make.
up demo bench: export GRIDSTEAD_LAB = $(shell $(LAB) prefix)

.PHONY: lock help setup demo test check lint up down status shell bench bench-lab bench-site bench-directory bench-chain bench-logs bench-definitions proto contracts gas fuzz hostile artifacts wheel molecule molecule-all clean

help: ## Explain the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready .venv/slither/.ready .venv/traefik/.ready contracts/node_modules/.ready ## Install what development, tests and the lab need on this machine.

.venv/.apt: $(APT_LISTS)
	@tools/install-packages $(APT_LISTS)
	@mkdir -p .venv && touch $@

.venv/.ready: requirements/dev.txt .venv/.apt
	@tools/install-environment requirements/dev.txt .venv
	@touch $@

.venv/slither/.ready: requirements/slither.txt .venv/.ready
	@tools/install-environment requirements/slither.txt .venv/slither
	@touch $@

.venv/traefik/.ready: requirements/traefik.txt .venv/.ready
	@tools/install-environment requirements/traefik.txt .venv/traefik
	@touch $@

contracts/node_modules/.ready: contracts/package-lock.json .venv/.apt
	@echo "setup: tools of the chain"
	@cd contracts && npm ci --silent --no-fund --no-audit
	@touch $@

up: setup ## Build the lab and run site.yml on it.
	@$(LAB) up
	@ansible-playbook site.yml

demo: up ## Take one job the whole way, from a workflow to its payment.
	@python tools/demo.py

test: setup ## Run every check of the project; builds its own lab and takes it down.
	@tools/test

check: setup ## Run every check that needs no hosts.
	@tools/check

lint: setup ## Check style, types, layers, roles and scripts.
	@tools/lint

down: ## Take the lab down and leave no trace of it.
	@$(LAB) down

status: ## Show the lab's hosts.
	@$(LAB) status

shell: ## Open a shell on a host: make shell HOST=controller.
	@test -n "$(HOST)" || { echo "name a host: make shell HOST=controller" >&2; exit 64; }
	@$(LAB) shell $(HOST)

bench: setup ## Measure the grid beside plain Slurm, on the lab.
	@python tests/bench/jobs.py

bench-chain: setup ## Measure the sender beside raw transactions, on a chain of its own; needs no lab.
	@python tests/bench/settlements.py

bench-logs: setup ## Measure the logger and what logging adds to a job; needs no lab.
	@python tests/bench/logs.py

bench-definitions: setup ## Measure the Job Definition service: rendering, submissions, fetches; needs no lab.
	@python tests/bench/definitions.py

bench-lab: setup ## Measure how a lab comes up, is asked for again, and goes down.
	@python tests/bench/labs.py

bench-site: setup ## Measure site.yml on new hosts, by phase, and again; ARGS=--plain begins with a bare Debian.
	@python tests/bench/site_yml.py $(ARGS)

bench-directory: setup ## Measure new users, and look-ups while the directory is dead, on the lab.
	@python tests/bench/directory.py

molecule: setup ## Run the scenarios of molecule that CI runs: a site on three hosts, and one on a bare host.
	@tools/molecule default single

molecule-all: setup ## Run every scenario of molecule, two at a time (25 minutes).
	@tools/molecule

proto: setup ## Generate the wire formats' Python.
	@python -m grpc_tools.protoc -I control --python_out=control --pyi_out=control --grpc_python_out=control \
		control/gridstead/proto/*.proto

contracts: setup ## Prove the contracts: artifacts, tests, coverage, slither, gas.
	@tools/contracts

gas: setup ## Measure what the contracts' calls cost, into contracts/gas.md.
	@GRIDSTEAD_GAS=write pytest --quiet --capture=no tests/contracts/test_gas.py

fuzz: setup ## Prove the contracts at length: 100,000 runs, ledger, mutants (hours).
	@tools/fuzz

hostile: setup ## Prove the workflow language at length: each random script, hostile text, size (an hour).
	@GRIDSTEAD_HOSTILE=1 GRIDSTEAD_ALL_EXAMPLES=1 pytest --quiet --override-ini timeout=7200 tests/unit/workflow/test_random.py \
		tests/unit/workflow/test_injection.py
	@python tests/bench/workflow_scaling.py

artifacts: setup ## Build the contracts' artifacts into the Python package.
	@contracts/build-artifacts.py

wheel: setup ## Build the control plane's wheel into dist/.
	@uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir dist

clean: down ## Remove what was built here, the lab's image included.
	@rm -rf .venv dist contracts/node_modules contracts/out contracts/cache
	@$(LAB) image --remove

LOCK := UV_PYTHON_DOWNLOADS=never uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --upgrade

lock: ## Resolve the Python dependencies anew into requirements/.
	@$(LOCK) -o requirements/control.txt pyproject.toml requirements/control.in
	@$(LOCK) -o requirements/dev.txt pyproject.toml requirements/dev.in
	@$(LOCK) -o requirements/slither.txt requirements/slither.in
	@$(LOCK) -o requirements/traefik.txt requirements/traefik.in
