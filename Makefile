# `make` alone lists the targets. Everything works on a fresh Debian machine as root; elsewhere the first call
# prints which system packages to install.
SHELL := /bin/bash
PYTHON_IN_VENV := .venv/bin/python
STAGES := $(PYTHON_IN_VENV) -m tools.stages
ONLY := $(if $(STAGE),--only $(STAGE))

.PHONY: help setup demo demo-down test test-fast e2e chaos soak mutants bench generate site lock release sbom audit fmt
.NOTPARALLEL:

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## create .venv from requirements.lock (under a second if it is up to date)
	@tools/setup.sh

demo: setup ## create a demo cluster on this machine
	@$(PYTHON_IN_VENV) -m e2e.demo up

demo-down: setup ## remove the demo and everything it created
	@$(PYTHON_IN_VENV) -m e2e.demo down

test: setup ## all checks that a change must pass (STAGE="unit kube": only these stages)
	@$(STAGES) test $(ONLY)

test-fast: setup ## the stages of test that need no testbed
	@$(STAGES) test-fast $(ONLY)

e2e: setup ## all scenarios on the testbed
	@$(STAGES) e2e $(ONLY)

chaos: setup ## random faults on the testbed; verifies all records afterwards (SEED=1 MINUTES=30)
	@$(PYTHON_IN_VENV) -m e2e.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

soak: setup ## LIVES=1000 simulated runs on all cores; prints runs per second and the failed seeds (START=1: first seed)
	@$(PYTHON_IN_VENV) -m tests.sim --lives $(or $(LIVES),1000) --start $(or $(START),1)

mutants: setup ## disable each safety check in turn and show which tests fail (LIVES=200 simulated runs if no other test fails; NAME=…: only these; WORLD=1)
	@$(PYTHON_IN_VENV) -m tests.mutants --lives $(or $(LIVES),200) $(if $(WORLD),--world) $(NAME)

bench: setup ## benchmarks: passes, observations of large clusters (with a real quorum), planner, moves, forecast, agent, scrub, slow disks, rebalance job, the map, the commands (HISTORY=x.parquet: run the job on that history)
	@$(PYTHON_IN_VENV) -m bench.passes
	@$(PYTHON_IN_VENV) -m bench.fleet.passes
	@$(PYTHON_IN_VENV) -m bench.fleet.look
	@$(PYTHON_IN_VENV) -m bench.fleet.look --growing
	@$(PYTHON_IN_VENV) -m bench.fleet.pages
	@$(PYTHON_IN_VENV) -m bench.fleet.quorum
	@$(PYTHON_IN_VENV) -m bench.planner
	@$(PYTHON_IN_VENV) -m bench.moves
	@$(PYTHON_IN_VENV) -m bench.forecast
	@$(PYTHON_IN_VENV) -m bench.agent
	@$(PYTHON_IN_VENV) -m bench.scrub
	@$(PYTHON_IN_VENV) -m bench.slow
	@$(PYTHON_IN_VENV) -m bench.pipeline
	@$(PYTHON_IN_VENV) -m bench.disk_map
	@$(PYTHON_IN_VENV) -m bench.commands
	@$(if $(HISTORY),$(PYTHON_IN_VENV) -m bench.through $(HISTORY))

generate: setup ## generate crds/, the chart's CRDs and the reference pages from the models
	@$(PYTHON_IN_VENV) -m tools.generate
	@$(PYTHON_IN_VENV) -m tools.chart_crds

site: setup ## build the documentation as a site in build/site; fails if a link or an anchor leads nowhere
	@$(PYTHON_IN_VENV) -m tools.site

lock: setup ## generate requirements.lock from pyproject.toml, and the lock file of the images' Debian packages from apt
	@.venv/bin/uv pip compile pyproject.toml --quiet --all-extras --generate-hashes --no-header --python-version 3.11 \
		--output-file requirements.lock
	@$(PYTHON_IN_VENV) -m tools.images.debian

release: setup ## VERSION=1.2.3: images, chart, SBOMs and checksums of the last commit, in dist/1.2.3 (CHECK=1: make them twice and compare)
	@$(PYTHON_IN_VENV) -m tools.release "$(VERSION)" $(if $(CHECK),--check)

sbom: setup ## write a CycloneDX SBOM of each image to build/sbom (builds the images if needed)
	@$(PYTHON_IN_VENV) -m tools.sbom

audit: setup ## known vulnerabilities of the packages in requirements.lock; fails also if the index cannot tell
	@$(PYTHON_IN_VENV) -m tools.audit

fmt: setup ## format, and apply ruff's automatic fixes
	@$(PYTHON_IN_VENV) -m ruff format .
	@$(PYTHON_IN_VENV) -m ruff check --fix .
