"""The demonstration's moving parts; that it learns within its time is `make demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsam.cli import main


def test_demo_leaves_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # a second one replaces the first
        with pytest.raises(SystemExit) as ended:
            main(["demo", "--out", str(tmp_path / "demo"), "--steps", "10", "-q"])
        assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "bits per sequence" in text and "ten times longer" in text
    assert all((tmp_path / "demo" / name).exists() for name in ("curves.png", "memory.png", "report.html"))
