# Two commands for a newcomer: `make demo` and `make test`. `make help` lists the rest.
# Everything is made inside the checkout, in .venv; only Debian packages go elsewhere, and those
# are installed only where that is allowed (.ci/debian).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

FILES ?=
WORKERS ?= 3
SECONDS_EACH ?= 600
MINUTES ?= 20
PEERS := openai-agents disk-objectstore dulwich pydantic-ai-harness google-adk

bin := .venv/bin
pip := $(bin)/python -m pip --quiet --quiet --disable-pip-version-check --no-input --no-cache-dir

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\):.* ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: demo
demo: .venv/runtime ## the whole line on sample files; FILES="a b" adds your own
	@$(bin)/attachstore demo $(FILES)

.PHONY: test
test: .venv/development programs ## every check that CI makes
	@$(bin)/ruff check --quiet
	@$(bin)/ruff format --check --quiet
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(bin)/pyright
	@$(bin)/pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: bench
bench: .venv/development ## ratios to floors and peers, and docs/performance.md from them; MINUTES=20
	@$(bin)/python -m benchmarks --minutes $(MINUTES)

.PHONY: proof
proof: .venv/development programs ## every rig at full scale, and docs/reliability.md from it; hours
	@$(bin)/python -m tests.rigs

.PHONY: peers
peers: .venv/development ## what the benchmarks compare with, in .peers only
	@$(pip) install --upgrade --target .peers $(PEERS) || for peer in $(PEERS); do \
		$(pip) install --upgrade --target .peers $$peer || echo "Not installed: $$peer"; done

.PHONY: fuzz
fuzz: .venv/development ## damaged files against admission; SECONDS_EACH=3600, findings in .fuzz/
	@$(bin)/python -m tests.fuzz.admission --seconds $(SECONDS_EACH) --folder .fuzz

.PHONY: docs
docs: .venv/development ## the documentation as web pages, in site/
	@NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --quiet --strict --config-file .mkdocs.yml
	@echo "site/index.html"

.PHONY: format
format: .venv/development ## write the code the way `make test` wants it
	@$(bin)/ruff check --fix --quiet
	@$(bin)/ruff format --quiet

# pip-compile reads .pip-tools.toml. The development lock holds the runtime lock's versions.
.PHONY: lock
lock: .venv/development ## choose and pin the newest versions that pyproject.toml allows
	@$(bin)/pip-compile --upgrade --output-file requirements.lock pyproject.toml
	@$(bin)/pip-compile --upgrade --extra dev --constraint requirements.lock \
		--output-file requirements-dev.lock pyproject.toml

.PHONY: setup
setup: .venv/development ## only make .venv, with everything for development
	@echo ".venv is ready"

# Stamps: set-up runs again only when what it was made from has changed.

.venv/runtime: requirements.lock pyproject.toml .ci/python
	@.ci/python
	@echo "Installing attachstore into .venv"
	@$(pip) install --require-hashes --no-deps --requirement requirements.lock
	@$(pip) install --no-deps --no-build-isolation --editable .
	@$(bin)/python -c 'import magic' 2>/dev/null || .ci/debian libmagic1
	@touch $@

.venv/development: .venv/runtime requirements-dev.lock
	@echo "Installing the development tools into .venv"
	@$(pip) install --require-hashes --no-deps --requirement requirements-dev.lock
	@touch $@

# Programs that only tests use. Without them those tests are skipped, and say so; CI skips none.
# What rigs on disks of their own need (rigs 5 to 7) is of use to root only.
.PHONY: programs
programs:
	@missing=; for program in chromium zsh fish gcc strace; do \
		command -v $$program >/dev/null || missing+=" $$program"; done; \
	if [[ $$(id -u) == 0 ]]; then \
		for pair in mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs \
				qemu-storage-daemon:qemu-system-common; do \
			command -v $${pair%:*} >/dev/null || missing+=" $${pair#*:}"; done; fi; \
	[[ -z $$missing ]] || .ci/debian $$missing fonts-dejavu-core libc6-dev || [[ -z "$${CI:-}" ]]
