"""Finds the OpenMP runtime that torch has loaded, so that the native engine shares its threads.

A second pool of threads would fight torch's workers, which spin for a while after each parallel region.
"""

from __future__ import annotations

import os
import re

RUNTIME = re.compile(r"/(libgomp|libomp|libiomp5)[^/]*\.so[^/]*$")


def loaded_runtime(maps: str = "/proc/self/maps") -> str | None:
    """Path of the OpenMP runtime in this process, None where it cannot be told."""
    if not os.path.exists(maps):
        return None
    with open(maps, encoding="utf-8") as lines:
        for line in lines:
            path = line.split(maxsplit=5)[-1].strip()
            if RUNTIME.search(path):
                return path
    return None
