"""The long minibatch, shortened."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import minibatch


def test_a_line_for_every_index(tmp_path: Path) -> None:
    report = minibatch.run(tmp_path, pairs=12, batch_size=2, repeats=1)
    raw = json.loads((tmp_path / "minibatch.json").read_text())["raw"]
    assert list(raw) == list(minibatch.INDEXES) and all(entry["seconds"] > 0 for entry in raw.values())
    assert report.lines[0].figure == "recall, 12 pairs, B = 2, exact"
