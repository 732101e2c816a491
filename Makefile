# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
FAULT_PROCESSES ?= 2
SOAK_MINUTES ?= 5
VENV   := .venv
GUESTS := tensordict torchrl gymnasium popgym sb3-contrib lightning accelerate transformers torchinfo
BIN    := $(VENV)/bin
CSRC   := $(wildcard csrc/*/*) csrc/core.cmake CMakeLists.txt pyproject.toml constraints.txt

.PHONY: demo test lint types unit ctest sanitize sanitize-core sanitize-threads sanitize-python faults soak bench wheel docs clean setup

setup: .stamps/installed

.stamps/venv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt torch numpy scikit-build-core nanobind cmake ninja
	$(BIN)/python -m pip install --quiet -c constraints.txt triton || echo "no triton here: tests of the GPU kernels are skipped"
	mkdir -p .stamps && touch $@

# Editable: Python files are live; a change of the C++ core or of the packaging installs again (an incremental build).
.stamps/installed: .stamps/venv $(CSRC)
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/sparsam demo --out runs/demo

test: lint types ctest unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# Other people's libraries, which the adapters are tested with. A demo needs none of them.
.stamps/guests: .stamps/installed constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt torch $(GUESTS) || echo "no guests here: their tests are skipped"
	touch $@

unit: setup .stamps/guests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# C++ structures by themselves.
ctest: setup
	$(BIN)/cmake -S tests/csrc -B build/ctest -DCMAKE_BUILD_TYPE=Release -DCMAKE_RULE_MESSAGES=OFF >/dev/null
	$(BIN)/cmake --build build/ctest -j 2
	cd build/ctest && ../../$(BIN)/ctest --output-on-failure

# The same programs under the address and undefined-behaviour sanitizers, those with threads under the thread sanitizer,
# and the Python tests of the native engine on a core built with the former (Linux and GCC; half an hour on two cores).
sanitize: sanitize-core sanitize-threads sanitize-python

sanitize-core: setup
	$(BIN)/cmake -S tests/csrc -B build/sanitize -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSPARSAM_SANITIZE=address >/dev/null
	$(BIN)/cmake --build build/sanitize -j 2
	cd build/sanitize && ../../$(BIN)/ctest --output-on-failure

sanitize-threads: setup
	$(BIN)/cmake -S tests/csrc -B build/sanitize_threads -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSPARSAM_SANITIZE=thread >/dev/null
	$(BIN)/cmake --build build/sanitize_threads -j 2 --target test_threads --target test_sequence
	cd build/sanitize_threads && ../../$(BIN)/ctest --output-on-failure -R 'test_(threads|sequence)'

sanitize-python: setup
	$(BIN)/cmake -S . -B build/sanitize_python -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSPARSAM_SANITIZE=address \
	  -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" >/dev/null
	$(BIN)/cmake --build build/sanitize_python -j 2
	tests/sanitize/run.sh $(BIN)/python

# What training survives, at length (Linux; FAULT_PROCESSES=8 for eight cores): 500 kills and every other kind of fault.
faults: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/lab/training/faults/scenarios.py all --processes $(FAULT_PROCESSES)

# State machine, fuzzers and threads for SOAK_MINUTES, every round with cases of its own; memory has to stay flat (Linux).
soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak.py --minutes $(SOAK_MINUTES)

bench: setup
	$(BIN)/sparsam bench speed
	$(BIN)/sparsam bench memory

# A wheel for this machine and the source distribution, checked. Wheels for others: .github/workflows/wheels.yml.
wheel: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt build
	$(BIN)/python -m pip install --quiet auditwheel abi3audit || echo "no auditwheel or abi3audit here: not asked"
	rm -rf dist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python packaging/check_wheel.py dist/*.whl

# Without --quiet, which would hide the warnings from --strict too.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site

clean:
	rm -rf build dist site .stamps $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
