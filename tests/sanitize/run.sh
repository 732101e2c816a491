#!/usr/bin/env bash
# run.sh PYTHON: the Python tests of the native engine on the core in build/sanitize_python, which was built with the
# address and undefined-behaviour sanitizers (`make sanitize`). PYTEST_ARGS chooses other tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
core=$(ls build/sanitize_python/_native*.so)
# The sanitizer's runtime has to be there before Python, and the C++ runtime with it, since exceptions pass through both.
preload="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libstdc++.so)"
# Python keeps memory until the process ends, so leaks are not asked for; torch's own libraries are not instrumented.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:detect_odr_violation=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export SPARSAM_SANITIZED=$PWD/$core PYTHONPATH=$PWD/tests/sanitize${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1 SPARSAM_LONG=1
LD_PRELOAD=$preload "$python" -c "
from sparsam import _native
assert 'sanitize_python' in _native.__file__, _native.__file__"
tests=${PYTEST_ARGS:-"tests/engines/native/test_fuzz.py tests/engines/test_state_fuzz.py tests/engines/native/test_core.py
  tests/engines/native/test_rollback.py tests/engines/native/test_sdnc.py tests/engines/native/test_index.py
  tests/engines/native/test_search.py tests/engines/native/test_array_index.py
  tests/engines/test_same_bits.py tests/test_state_algebra.py tests/test_state_machine.py
  tests/models/test_default_device.py"}
LD_PRELOAD=$preload exec "$python" -m pytest -q -p no:cacheprovider $tests
