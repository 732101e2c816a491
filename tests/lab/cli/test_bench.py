"""`sparsam bench`: its commands and its JSON."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks import BENCHMARKS, Benchmark
from benchmarks.report import Line, Report
from tests.lab.cli.conftest import run


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_command_has_its_benchmark(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert importlib.util.find_spec(f"benchmarks.{name}") is not None
    assert not run("bench", name, "--help") and "--quick" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [False, True])
def test_json_is_all_that_stdout_has(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bench(out: Path, quick: bool) -> Report:
        report = Report("speed")
        report.add(Line("a step", 1.5, bound=2.0, timed=False))  # so that a busy machine does not spoil it
        print(report.write(out))
        return report

    monkeypatch.setitem(BENCHMARKS.known, "speed", Benchmark(bench, "", True))
    assert not run("bench", "speed", "--quick", "--out", str(tmp_path), *(["--json"] if as_json else []))
    shown = capsys.readouterr()
    written = json.loads((tmp_path / "speed.json").read_text())
    assert written["lines"][0]["met"] is True
    if as_json:
        assert json.loads(shown.out) == written and "a step" in shown.err
    else:
        assert "a step" in shown.out and "speed.json" in shown.out
