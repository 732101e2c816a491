"""One self-contained page in the browser that plays a sequence: what was read and written when, and for what."""

from __future__ import annotations

from sparsam.lab.viewer.page import write_page

__all__ = ["write_page"]
