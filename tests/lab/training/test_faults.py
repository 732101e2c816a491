"""Training survives what can happen to it: a few cases of each scenario. `make faults` runs them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "faults" / "scenarios.py"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, POSIX signals and /proc")
@pytest.mark.parametrize("counts", [
    {"kills": 8, "refusals": 6, "full_disk": 3, "read_only": 1, "two_processes": 1, "damaged": 8},
    {"worker_kills": 1, "dead_workers": 1, "rank_kills": 1, "torchrun": 1},
], ids=["one process", "several"])  # fmt: skip
def test_a_run_survives(counts: dict[str, int]) -> None:
    command = [sys.executable, str(SCRIPT), *(f"{name}={count}" for name, count in counts.items()), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=environment)
    assert len(done.stdout.splitlines()) == len(counts), done.stderr
    for result in map(json.loads, done.stdout.splitlines()):
        assert result["wrong"] == [] and result["done"] >= counts[result["scenario"]], result
