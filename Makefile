# make train   trains on real images, on a local cluster, and shows how the transfers are planned
# make test    runs all tests; make test-oldest runs them with the oldest packages supported
# make lint    checks style; make format puts it right
# make build-file   writes BUILD anew from the imports
#
# All of them set up .venv first (test-oldest: .venv-oldest). Nothing else is to be installed.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
INSTALLED := $(VENV)/installed
CONSTRAINTS :=
LOGDIR ?= runs/train
TRAIN_FLAGS ?=

.PHONY: train test test-oldest lint format build-file clean

train: $(INSTALLED)
	$(VENV)/bin/dynacomm-train --cluster=local --workers=2 --ps=1 --epochs=5 --steps_per_epoch=200 \
	  --logdir=$(LOGDIR) --summary=$(LOGDIR)/summary.json $(TRAIN_FLAGS)

test: $(INSTALLED)
	$(VENV)/bin/pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test-oldest:
	$(MAKE) test VENV=.venv-oldest CONSTRAINTS=build_tools/oldest.txt

lint: $(INSTALLED)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

format: $(INSTALLED)
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

build-file: $(INSTALLED)
	$(VENV)/bin/python build_tools/build_file.py

clean:
	rm -rf $(VENV) .venv-oldest build dist runs *.egg-info

$(INSTALLED): setup.cfg pyproject.toml $(CONSTRAINTS)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo 'Python 3.11 is needed: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check \
	  $(CONSTRAINTS:%=--constraint=%) --editable '.[dev,plot,test]'
	@touch $@
