"""Real data sets: finding, verifying and reading them. Nothing here downloads anything."""

from __future__ import annotations

from sparsam.lab.data.locate import DataError, MissingData

__all__ = ["DataError", "MissingData"]
