"""Pictures from made-up runs: they exist, they say what they show, and groups are formed by seed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparsam.lab.plots import canvas, curves, raster
from sparsam.lab.plots.report import write_report
from sparsam.lab.training.config import CurriculumConfig, ModelConfig, RunConfig
from sparsam.lab.training.folder import RunFolder


def make_run(path: Path, config: RunConfig, errors: list[float]) -> Path:
    RunFolder(path).create(config)
    events = [
        {
            "kind": "eval",
            "step": i,
            "bits_per_sequence": error,
            "loss": error / 10,
            "level": None,
            "seconds": i,
            "sequences": 8 * i,
        }
        for i, error in enumerate(errors, 1)
    ]
    if config.curriculum:
        events += [{"kind": "level", "step": i, "level": 2**i, "sequences": 8 * i, "seconds": i} for i in (2, 3)]
    (path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"kind": "ev')
    return path


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    paths = []
    for model in ("sam", "lstm"):
        for seed in (0, 1, 2):
            config = RunConfig(seed=seed, model=ModelConfig(model), curriculum=CurriculumConfig())
            paths.append(make_run(tmp_path / f"{model}{seed}", config, [10.0, 5.0 + seed, 1.0 + seed]))
    return paths


def test_seeds_form_one_line_with_median_and_range(runs: list[Path]) -> None:
    lines = curves.collect([RunFolder(path) for path in runs], "bits_per_sequence")
    assert [(line.label, len(line.seeds)) for line in lines] == [("SAM", 3), ("LSTM", 3)]
    x, middle, low, high = lines[0].spread()
    assert x.tolist() == [8, 16, 24]
    assert middle.tolist() == [10, 6, 2] and low.tolist() == [10, 5, 1] and high.tolist() == [10, 7, 3]


def test_a_seed_that_has_ended_counts_on_with_its_last_value(tmp_path: Path) -> None:
    lengths = {0: [10.0, 0.0], 1: [10.0, 8.0, 6.0, 4.0], 2: [10.0, 9.0, 8.0]}
    folders = [RunFolder(make_run(tmp_path / str(seed), RunConfig(seed=seed), y)) for seed, y in lengths.items()]
    for folder in folders:
        folder.write_result({"reason": "steps"})
    (line,) = curves.collect(folders, "bits_per_sequence")
    x, middle, low, high = line.spread()
    assert x.tolist() == [8, 16, 24, 32]  # as far as the longest run
    assert middle.tolist() == [10, 8, 6, 4] and low.tolist() == [10, 0, 0, 0] and high.tolist() == [10, 9, 8, 8]
    assert line.ends() == ([16, 32, 24], [0, 4, 8])


def test_a_seed_that_was_cut_off_counts_as_far_as_it_went(tmp_path: Path) -> None:
    lengths = {0: [10.0, 0.0], 1: [10.0, 8.0, 6.0, 4.0]}
    folders = [RunFolder(make_run(tmp_path / str(seed), RunConfig(seed=seed), y)) for seed, y in lengths.items()]
    folders[1].write_result({"reason": "steps"})
    (line,) = curves.collect(folders, "bits_per_sequence")
    x, middle, low, high = line.spread()
    assert x.tolist() == [8, 16, 24, 32]
    assert middle.tolist() == [10, 4, 6, 4] and low.tolist() == [10, 0, 6, 4] and high.tolist() == [10, 8, 6, 4]


def test_over_seconds(runs: list[Path]) -> None:
    (line, *_) = curves.collect([RunFolder(runs[0])], "bits_per_sequence", against="seconds")
    assert line.seeds[0][0].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="against: expected one of sequences, seconds"):
        curves.collect([RunFolder(runs[0])], "loss", against="days")


def test_a_curriculum_that_never_rises_is_a_flat_line(tmp_path: Path) -> None:
    config = RunConfig(curriculum=CurriculumConfig(start=16))
    make_run(tmp_path / "run", config, [5.0, 5.0])
    log = tmp_path / "run" / "log.jsonl"
    log.write_text("".join(line + "\n" for line in log.read_text().splitlines() if '"kind": "eval"' in line))
    (line,) = curves.collect([RunFolder(tmp_path / "run")], "level", "level")
    x, y = line.seeds[0]
    assert x.tolist() == [0, 16] and y.tolist() == [16, 16]


def test_labels_name_only_what_differs() -> None:
    configs = [RunConfig(model=ModelConfig("sam", index=index)) for index in ("linear", "kdtree")]
    assert curves.run_labels([*configs, RunConfig(model=ModelConfig("lstm"))]) == [
        "SAM index linear",
        "SAM index kdtree",
        "LSTM",
    ]


def test_how_often_a_run_saves_is_not_its_name() -> None:
    configs = [RunConfig(model=ModelConfig("sam"), checkpoint_seconds=seconds) for seconds in (60.0, 120.0)]
    assert curves.run_labels(configs) == ["SAM", "SAM"]


def test_levels_are_a_staircase(runs: list[Path]) -> None:
    (line, *_) = curves.collect([RunFolder(runs[0])], "level", "level")
    x, y = line.seeds[0]
    assert x.tolist() == [0, 16, 24, 24] and y.tolist() == [2, 4, 8, 8]
    other = curves.Curve("", [*line.seeds, (np.array([0.0, 20.0]), np.array([2.0, 32.0]))], steps=True)
    x, middle, low, high = other.spread()
    assert x.tolist() == [0, 16, 20, 24]
    assert low.tolist() == [2, 2, 4, 8] and high.tolist() == [2, 4, 32, 32] and middle.tolist() == [2, 3, 18, 20]


def test_curves_and_report_are_written_and_self_contained(runs: list[Path], tmp_path: Path) -> None:
    picture = curves.plot_curves(runs, tmp_path / "out" / "curves.png")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    page = write_report(runs, tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 and "http" not in page
    assert "SAM" in page and "LSTM" in page and "bits per sequence" in page


def test_a_run_before_its_first_evaluation_shows_its_minibatches(tmp_path: Path) -> None:
    events = [{"kind": "train", "step": step, "sequences": 8 * step, "loss": 1 / step} for step in (1, 2, 3)]
    strange = [{"kind": "train", "step": 4, "loss": 0.5}, {"kind": "train", "sequences": "x", "loss": [1]}]
    run = make_run(tmp_path / "run", RunConfig(), [])
    (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events + strange))
    assert curves.plot_curves([tmp_path / "run"], tmp_path / "curves.png").stat().st_size > 1000
    assert "loss" in write_report([tmp_path / "run"], tmp_path / "report.html").read_text()


def test_a_run_without_numbers_is_said(tmp_path: Path) -> None:
    make_run(tmp_path / "run", RunConfig(), [])
    with pytest.raises(ValueError, match="logged"):
        curves.plot_curves([tmp_path / "run"], tmp_path / "curves.png")


def test_raster_draws_touched_rows_only(tmp_path: Path) -> None:
    def part(head: list[int], row: list[int]) -> SimpleNamespace:
        count = len(head)
        return SimpleNamespace(
            time=torch.arange(count), head=torch.tensor(head), row=torch.tensor(row), weight=torch.full((count,), 0.5)
        )

    trace = SimpleNamespace(reads=lambda b: part([0, 1], [5, 1_999_999]), writes=lambda b: part([0, 0], [7, 5]))
    figure = raster.draw(trace, answers=slice(1, 2))
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylim() == (2.5, -0.5)  # three rows of two million
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["5", "7", "1,999,999"]
    assert canvas.save(raster.draw(trace), tmp_path / "memory.png").stat().st_size > 1000
