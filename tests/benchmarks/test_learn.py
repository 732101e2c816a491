"""`sparsam bench learn`: the claim that default models learn, in short, and how its record is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import learn
from benchmarks.learn_models import CHANGED, make, parameters
from benchmarks.learn_tasks import BITS, TASKS

RECORD = Path(__file__).parents[2] / "docs" / "bench" / "learn.json"
NEVER = float("inf")


def test_default_sam_learns_recall_of_8_pairs_within_2500_minibatches_where_an_lstm_has_not_begun() -> None:
    """Seen: 1,000 to 1,400 minibatches in every seed that was tried. What an LSTM does in 5,000 is in the record."""
    threads = torch.get_num_threads()
    try:
        sam = learn.carry_out(learn.Run("recall", "SAM", 0, 2500), "cpu", NEVER)
        lstm = learn.carry_out(learn.Run("recall", "LSTM", 0, 100, start=""), "cpu", NEVER)
    finally:
        torch.set_num_threads(threads)
    assert sam["ended"] == "right" and max(sam["errors"][-learn.IN_A_ROW :]) <= 0.01, sam["errors"][-5:]
    assert min(lstm["errors"]) > 0.3 and lstm["parameters"] <= sam["parameters"]


def test_models_are_as_large_as_sam_or_four_times() -> None:
    sam = parameters(make("SAM", 10, 8, 0))
    for name, times in {"LSTM": 1, "GRU": 1, "SparseMemory": 1, "LSTM x4": 4}.items():
        assert 0.97 * times * sam <= parameters(make(name, 10, 8, 0)) <= times * sam, name


def test_a_changed_interface_changes_what_its_name_says() -> None:
    x, hidden = torch.randn(2, 4, 10), 30 * torch.randn(4, 100)
    asked = {}
    for name in CHANGED:
        model: Any = make(name, 10, 8, 0)
        assert model(x)[0].shape == (2, 4, 8)
        vector = model.interface(hidden)
        assert torch.equal(model.interface(hidden), vector)
        model.interface.x = x[0]
        assert torch.equal(model.interface(hidden), vector) != (name == "SAM sees x")
        asked[name] = model.memory.interface.split(vector)
    assert 10 < asked["SAM beta 11"]["strength"].max() < 11.001 < asked["SAM sees x"]["strength"].max()
    assert asked["SAM query norm"]["query"].mean(-1).abs().max() < 1e-5


@pytest.mark.parametrize("name", TASKS)
def test_a_task_fits_its_description_and_draws_the_same_from_the_same_seed(name: str) -> None:
    task = TASKS[name]
    x, target, asked = task.draw(4, torch.Generator().manual_seed(0))
    again, same, _ = task.draw(4, torch.Generator().manual_seed(0))
    assert torch.equal(x, again) and torch.equal(target, same) and x.shape[1:] == (4, task.inputs)
    y = torch.zeros(x.shape[0], 4, task.outputs)[asked]
    assert y.shape[: target.dim()] == target.shape if task.kind != "class" else y.shape[:-1] == target.shape
    assert task.loss(y, target).isfinite() and 0 <= task.error(y, target) < 3


def test_the_answers_are_what_the_sequences_say() -> None:
    generator = torch.Generator().manual_seed(0)
    x, target, _ = TASKS["recall"].draw(64, generator)
    keys, values, cue = x[0:16:2, :, :BITS], x[1:16:2, :, :BITS], x[16, :, :BITS]
    found = (keys == cue).all(-1)
    assert torch.equal(found.sum(0), torch.ones(64, dtype=torch.int64))  # one key, never two
    assert torch.equal(values[found.int().argmax(0), torch.arange(64)], target[0])
    x, target, asked = TASKS["repeat"].draw(2, generator)
    assert torch.equal(target[5], x[5]) and asked.start == 12
    x, target, _ = TASKS["adding"].draw(8, generator)
    assert torch.allclose((x[..., 0] * x[..., 1]).sum(0), target[0, :, 0])
    x, target, asked = TASKS["sort"].draw(3, generator)
    order = x[:8, :, BITS].argsort(0, descending=True)
    assert torch.equal(target[0], x[order[0], torch.arange(3), :BITS])
    x, target, asked = TASKS["selective"].draw(2, generator)
    seen = [int(step[:10].argmax()) for step in x[:, 0] if step[:10].any()]
    assert seen == target[:, 0].tolist() and len(x[asked]) == len(target)
    x, target, _ = TASKS["latest"].draw(5, generator)
    for b in range(5):
        told = [step for step in x[:-1, b] if torch.equal(step[:8], x[-1, b, :8])]
        assert torch.equal(told[-1][8:-1], target[0, b])


def test_what_was_run_is_not_run_again_and_what_was_cut_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = learn.Run("recall", "LSTM", 0, 300, start="")
    done = {"task": "recall", "model": "LSTM", "label": "", "seed": 0, "minibatches": 300, "losses": [0.6] * 3}
    done |= {"errors": [0.4] * 3, "seconds": 1.0, "ended": "minibatches"}
    known: dict[str, Any] = {run.key: done}
    kept: list[int] = []
    learn.carry_out_all([run], known, 1, "cpu", 60.0, lambda: kept.append(1))
    assert not kept
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps({"raw": {"runs": {run.key: {**done, "ended": "time"}}}}))
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps({"raw": {"runs": known}}))
    assert learn.taken([cut, whole]) == learn.taken([whole, cut]) == known


def test_solved_means_at_most_one_percent_three_times_in_a_row() -> None:
    assert learn.solved_after({"errors": [0.3, 0.005, 0.02, 0.01, 0.0, 0.01, 0.4]}) == 400
    assert learn.solved_after({"errors": [0.3, 0.005, 0.02, 0.01]}) is None


def test_the_record_has_what_is_claimed_of_the_defaults() -> None:
    runs = json.loads(RECORD.read_text())["raw"]["runs"].values()
    for task in ("recall", "repeat", "copy"):
        sam = [run for run in runs if (run["task"], run["model"], run["label"]) == (task, "SAM", "open")]
        assert len(sam) >= 5 and all(learn.solved_after(run) for run in sam), task
    lstm = [run for run in runs if (run["task"], run["model"]) == ("recall", "LSTM") and run["minibatches"] == 5000]
    assert len(lstm) >= 5 and min(min(run["errors"]) for run in lstm) > 0.3


def test_the_page_has_the_table_of_the_record() -> None:
    page = (RECORD.parents[1] / "explanation" / "first_weights.md").read_text()
    assert learn.by_task(json.loads(RECORD.read_text())["raw"]["runs"]) in page


def test_a_cell_says_how_many_seeds_it_has() -> None:
    solved = {"errors": [0.0] * 3, "losses": [0.5] * 3}
    task = TASKS["recall"]
    assert learn.cell(task, []) == "" and learn.cell(task, [solved]) == "100 (1/1)"
    assert learn.cell(task, [solved, {"errors": [0.3, 0.0, 0.0, 0.0], "losses": [0.5]}]) == "100 to 200 (2/2)"
    assert learn.cell(task, [{"errors": [0.5, 0.25], "losses": [0.5]}] * 2) == "25% wrong (0/2)"
    assert learn.cell(TASKS["adding"], [solved]) == "0.5 (1)"
