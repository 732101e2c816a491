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
@pytest.mark.parametrize(
    ("scenario", "count"),
    [
        ("kills", 8),
        ("refusals", 6),
        ("full_disk", 3),
        ("read_only", 1),
        ("two_processes", 1),
        ("damaged", 8),
        ("dead_workers", 1),
        ("rank_kills", 1),
        ("worker_kills", 1),
        ("torchrun", 1),
    ],
)
def test_a_run_survives(scenario: str, count: int) -> None:
    command = [sys.executable, str(SCRIPT), scenario, "--count", str(count), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=environment)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["wrong"] == [] and result["done"] >= count
