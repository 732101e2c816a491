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


@pytest.mark.parametrize("seed", range(4))
def test_altered_states(seed):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), "260"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert "260 cases" in done.stdout
