"""The compiled core, or the reason why it is not there."""

from __future__ import annotations

from typing import Any

from sparsam.engines.native import openmp

native: Any = None
missing: str | None = None

try:
    from sparsam import _native as native  # type: ignore[no-redef]
except ImportError as error:  # the extension was not built, for instance when running from a source tree
    missing = str(error)
else:
    _runtime = openmp.loaded_runtime()
    if _runtime is not None:
        native.use_openmp_runtime(_runtime)
