"""What the official bAbI v1.2 download holds: names, SHA-256 of every file, and its words.

Weston et al. 2015, "Towards AI-complete question answering"; the archive is `tasks_1-20_v1-2.tar.gz`.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["CHECKSUMS", "DASH", "STEMS", "VOCABULARY"]

# Task number -> the middle of its file names, `qa{number}_{stem}_{train|test}.txt`.
STEMS: dict[int, str] = {
    1: "single-supporting-fact",
    2: "two-supporting-facts",
    3: "three-supporting-facts",
    4: "two-arg-relations",
    5: "three-arg-relations",
    6: "yes-no-questions",
    7: "counting",
    8: "lists-sets",
    9: "simple-negation",
    10: "indefinite-knowledge",
    11: "basic-coreference",
    12: "conjunction",
    13: "compound-coreference",
    14: "time-reasoning",
    15: "basic-deduction",
    16: "basic-induction",
    17: "positional-reasoning",
    18: "size-reasoning",
    19: "path-finding",
    20: "agents-motivations",
}

# The token that stands where one answer word is due.
DASH = "-"

# Every word of the English tasks in lower case with the marks `. ?` and the dash, sorted: 159 of them. The
# order is part of what a trained model is, so it is fixed here instead of being collected from files.
_OFFICIAL = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
VOCABULARY: tuple[str, ...] = tuple(_OFFICIAL["words"].split())

# SHA-256 of the files by their path in the archive. The full en-10k training file of task 3 has none: it is checked by
# its counts. Its stand-in `.partial.txt` holds 385 of the 2,000 official stories.
CHECKSUMS: dict[str, str] = _OFFICIAL["sha256"]
