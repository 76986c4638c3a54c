# Two commands matter: `make run` and `make test`. Both set themselves up.
PYTHON ?= python3.11
VENV := .venv
READY := $(VENV)/.ready

.PHONY: run test lint schemas bench clean

run: $(READY)
	$(VENV)/bin/planloop run

test: $(READY) lint
	$(VENV)/bin/pytest

lint: $(READY)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/pyright

schemas: $(READY)
	$(VENV)/bin/python -m schemas.generate
	$(VENV)/bin/python -m schemas.reference

bench: $(READY)
	$(VENV)/bin/python -m tests.bench

clean:
	rm -rf $(VENV) .planloop

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[stack,train,dev]'
	touch $@
