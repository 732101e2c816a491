"""What is added to an error about a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, choices: Iterable[str]) -> str:
    """The nearest known name, or all of them when none is near."""
    known = list(choices)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(sorted(known))})"
