"""Malformed calls of every public function end in an error that names the argument (`public_fuzz.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "public_fuzz.py"


def test_malformed_calls_name_the_argument():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    wrong, _, cases, *_ = done.stdout.splitlines()[-1].split()
    assert int(wrong) == 0 and int(cases) >= 5000  # 426 of 1,945 did not, once
