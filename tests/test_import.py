"""What `import sparsam` loads: nothing of torch that `import torch` leaves out."""

from __future__ import annotations

import subprocess
import sys


def test_importing_sparsam_leaves_the_compiler_alone():
    code = (
        "import sys, torch; before = set(sys.modules); import sparsam;"
        "print([m for m in set(sys.modules) - before if m.split('.')[0] == 'torch'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert found.stdout.strip() == "[]"
