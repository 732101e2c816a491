"""On PYTHONPATH, Python and its children take the core from the file that SPARSAM_SANITIZED names (`make sanitize`).

The editable installation has a finder of its own, which goes before PYTHONPATH; this one goes before that.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec


class SanitizedCore:
    """Finds `sparsam._native` in the sanitized build and nothing else."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "sparsam._native":
            return None
        return importlib.util.spec_from_file_location(name, os.environ["SPARSAM_SANITIZED"])


if "SPARSAM_SANITIZED" in os.environ:
    sys.meta_path.insert(0, SanitizedCore)  # type: ignore[arg-type]
