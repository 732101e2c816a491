"""The demonstration's moving parts; that it learns within its time is `make demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.cli.conftest import run


def test_demo_leaves_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # a second one replaces the first
        assert run("demo", "--out", str(tmp_path / "demo"), "--steps", "10", "-q") == 0
    text = capsys.readouterr().out
    assert "bits per sequence" in text and "ten times longer" in text
    assert all((tmp_path / "demo" / name).exists() for name in ("view.html", "curves.png", "memory.png", "report.html"))


def test_demo_without_matplotlib_says_what_is_left_out(tmp_path, capsys, monkeypatch):
    import importlib.util

    plain = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "matplotlib" else plain(name, *a))
    assert run("demo", "--out", str(tmp_path / "demo"), "--steps", "5", "-q") == 0
    assert 'pip install ".[lab]"' in capsys.readouterr().out
    assert (tmp_path / "demo" / "view.html").exists() and not (tmp_path / "demo" / "curves.png").exists()
