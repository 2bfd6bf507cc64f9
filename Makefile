# `make` alone lists what there is. Everything works on a fresh Debian machine as root; elsewhere the first call
# says which system packages to install.
SHELL := /bin/bash
PYTHON_IN_VENV := .venv/bin/python
STAGES := $(PYTHON_IN_VENV) -m tools.stages
ONLY := $(if $(STAGE),--only $(STAGE))

.PHONY: help setup demo demo-down test test-fast e2e chaos soak mutants bench generate lock sbom audit fmt
.NOTPARALLEL:

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## make .venv from requirements.lock (under a second once it is there)
	@tools/setup.sh

demo: setup ## from nothing to a running demo cluster on this machine
	@$(PYTHON_IN_VENV) -m e2e.demo up

demo-down: setup ## take the demo down again, with everything it made
	@$(PYTHON_IN_VENV) -m e2e.demo down

test: setup ## everything that must hold before a change lands (STAGE="unit kube" for some stages only)
	@$(STAGES) test $(ONLY)

test-fast: setup ## the stages that need no testbed
	@$(STAGES) test-fast $(ONLY)

e2e: setup ## every scenario on the testbed
	@$(STAGES) e2e $(ONLY)

chaos: setup ## random faults on the testbed, with everything read back (SEED=1 MINUTES=30)
	@$(PYTHON_IN_VENV) -m e2e.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

soak: setup ## LIVES=1000 simulated lives on all cores; prints lives per second and the seeds that failed (START=1)
	@$(PYTHON_IN_VENV) -m tests.sim --lives $(or $(LIVES),1000) --start $(or $(START),1)

mutants: setup ## each safety rule made to say yes: which test notices? (LIVES=200 for what no other test does; NAME=shrink; WORLD=1)
	@$(PYTHON_IN_VENV) -m tests.mutants --lives $(or $(LIVES),200) $(if $(WORLD),--world) $(NAME)

bench: setup ## the benchmarks: passes, planner, moves, forecast, scrub, slow disks, the job (HISTORY=x.parquet: that one through it)
	@$(PYTHON_IN_VENV) -m bench.passes
	@$(PYTHON_IN_VENV) -m bench.planner
	@$(PYTHON_IN_VENV) -m bench.moves
	@$(PYTHON_IN_VENV) -m bench.forecast
	@$(PYTHON_IN_VENV) -m bench.scrub
	@$(PYTHON_IN_VENV) -m bench.slow
	@$(PYTHON_IN_VENV) -m bench.pipeline
	@$(if $(HISTORY),$(PYTHON_IN_VENV) -m bench.through $(HISTORY))

generate: setup ## crds/, the chart's CRDs and the reference page from the models
	@$(PYTHON_IN_VENV) -m tools.generate
	@$(PYTHON_IN_VENV) -m tools.chart_crds

lock: setup ## requirements.lock from pyproject.toml
	@.venv/bin/uv pip compile pyproject.toml --quiet --all-extras --generate-hashes --no-header --python-version 3.11 \
		--output-file requirements.lock

sbom: setup ## what each image is made of, as CycloneDX, in build/sbom (builds the images if need be)
	@$(PYTHON_IN_VENV) -m tools.sbom

audit: setup ## known vulnerabilities of what requirements.lock pins; fails, too, where the index does not say
	@$(PYTHON_IN_VENV) -m tools.audit

fmt: setup ## format, and mend what ruff can mend
	@$(PYTHON_IN_VENV) -m ruff format .
	@$(PYTHON_IN_VENV) -m ruff check --fix .
