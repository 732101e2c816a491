"""A thousand altered states: each is refused or answered rightly, and none brings the process down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sparsam
from sparsam import engines

PROGRAM = Path(__file__).with_name("state_fuzz.py")

pytestmark = pytest.mark.skipif(
    engines.why_not("native", sparsam.SAM(3, 2)) is not None, reason="the native engine is not built here"
)


def test_altered_states():
    command = [sys.executable, str(PROGRAM), "0", "1", "2", "3", "260"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert done.stdout.count("260 cases") == 4
