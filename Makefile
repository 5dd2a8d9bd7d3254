# Each target sets up what it needs: a virtual environment with every version pinned by constraints.txt.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.installed-demo
BENCH  := $(VENV)/.installed-bench
CLUSTERS := $(VENV)/.installed-clusters
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all lint format docs bench figures clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev,integrations,report,train,docs]'
	@touch $(DEMO) $@

$(DEMO): $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[report,train]'
	@touch $@

$(BENCH): $(STAMP)
	$(PIP) --editable '.[dev,integrations,report,train,docs,bench]'
	@touch $@

$(CLUSTERS): $(STAMP)
	$(PIP) --editable '.[dev,integrations,report,train,docs,clusters]'
	@touch $@

demo: $(DEMO) ## Train a search engine by four ways to choose batches; a table, a report, a search (three minutes)
	$(BIN)/batchcut demo

# One thread in each process: the tests run beside each other. Worksteal keeps both workers busy to the end; loadfile
# makes what a file of slow tests shares, such as two trained processes, once.
test: $(STAMP) ## Run the fast tests (under five minutes on two cores)
	OMP_NUM_THREADS=1 $(PYTEST) -m "not slow" --numprocesses auto --maxprocesses 4 --dist worksteal

test-slow: $(CLUSTERS) ## Run the slow tests: browser, processes, clusters, long searches
	OMP_NUM_THREADS=1 $(PYTEST) -m "slow and not alone" --numprocesses auto --maxprocesses 4 --dist loadfile
	$(PYTEST) -m alone

test-all: test test-slow ## Run all tests

lint: $(STAMP) ## Check style, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(BENCH) ## Measure speed and memory; prints ratios
	$(BIN)/python benchmarks/full_batch.py
	$(BIN)/python benchmarks/descent.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/renaming.py
	$(BIN)/python benchmarks/selection.py

# CIFAR: the folder that holds cifar-100-python. PAIRS: pairs of features, as in docs/guides/train.md. LISTS: a folder of
# apt's lists, if they are not where apt keeps them. What is stored in benchmarks/results is not measured again.
figures: $(BENCH) ## Measure what every table of the documents shows, and write them: make figures CIFAR=ROOT PAIRS=FILE
	@test -n "$(CIFAR)" -a -n "$(PAIRS)" || { echo "say make figures CIFAR=ROOT PAIRS=FILE"; exit 2; }
	sh benchmarks/figures.sh $(BIN)/python "$(CIFAR)" "$(PAIRS)" $(LISTS)

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
