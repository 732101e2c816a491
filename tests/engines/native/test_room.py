"""Address space that runs out: what the pools keep is given back first, and only then is there a clear MemoryError."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sparsam.engines.native.core import native

pytestmark = pytest.mark.skipif(
    native is None or not sys.platform.startswith("linux"), reason="the native engine's mappings on Linux"
)

PROGRAM = """
import resource
import torch
import sparsam

torch.set_num_threads(1)
x = torch.zeros(2, 1, 3)

def run(rows):
    with torch.no_grad():
        sparsam.SAM(3, 2, hidden_size=4, memory_size=rows, word_size=32, engine="native")(x)

run(1000)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)
for number in range(24):  # a sixth of the room each, and each of another size
    run(1_000_000 + 1000 * number)
try:
    run(100_000_000)
except MemoryError as error:
    print(error)
run(1000)  # still in order
"""


def test_pools_give_back_before_memory_counts_as_full():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "no room for" in done.stdout and "bytes" in done.stdout and "memory_size" in done.stdout
