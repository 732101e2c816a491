"""Tables of models that had the same budget (docs/results.md, docs/results_real_data.md) against their JSON."""

from __future__ import annotations

import re
import statistics
from typing import Any

import pytest

from sparsam.experiments import babi_paper
from tests.docs.pages import (
    README,
    REAL,
    RESULTS,
    assert_cell,
    load,
    mean_and_deviation,
    plain,
    row,
    table,
    tables,
)

NAMES = {
    "SAM, K = 4": "sam-linear",
    "SAM, K = 8": "sam-k8",
    "SAM, K = 16": "sam-k16",
    "DAM": "dam",
    "NTM": "ntm",
    "LSTM": "lstm",
}
MODELS = ["sdnc", "dam", "sam", "dnc", "ntm", "lstm"]


def test_figure_2_by_sequences() -> None:
    runs = load("figure2_sequences")["rows"]
    rows = table(RESULTS, "By sequences", "Model")
    assert {(cells[0], NAMES[cells[1]]) for cells in rows} == {(run["task"], run["model"]) for run in runs}
    for task, model, seeds, below, reached, final, seen in rows:
        mine = [run for run in runs if (run["task"], run["model"]) == (task, NAMES[model])]
        where = f"figure 2 by sequences, {task}, {model}"
        solved = [run["below_0.1_at"] for run in mine if run["below_0.1_at"] is not None]
        bits = sorted(run["bits_per_sequence"] for run in mine)
        sequences = [run["sequences"] for run in mine]
        assert_cell(seeds, [len(mine)], where)
        assert_cell(below, [len(solved)], where)
        assert_cell(reached, [statistics.median(solved), min(solved), max(solved)] if solved else [], where)
        assert_cell(final, [statistics.median(bits), *bits], where)
        assert_cell(seen, sorted({min(sequences), max(sequences)}), where)
    repeated = row(RESULTS, "Figure 2 by sequences")
    assert_cell(repeated[3], [len(runs)], "runs of figure 2 by sequences")


def test_figure_2_on_the_way() -> None:
    runs = load("figure2_sequences")["rows"]
    head = next(t[0] for t in tables(RESULTS.read_text(encoding="utf-8")) if t[0][0] == "Bits after")
    for first, *cells in table(RESULTS, "Bits after"):
        task, sequences = first.split(", ")
        for name, cell in zip(head[1:], cells, strict=True):
            mine = [run for run in runs if (run["task"], run["model"]) == (task, NAMES[name])]
            there = [dict(map(tuple, run["curve"])).get(int(sequences.replace(",", ""))) for run in mine]
            bits = [value for value in there if value is not None]
            assert_cell(cell, sorted({min(bits), max(bits)}), f"figure 2, {task} after {sequences}, {name}")


def babi_from_scratch() -> dict[str, list[dict[str, Any]]]:
    """The runs of each column: three seeds of a part. At the end each SAM is as the last part that it took left it."""
    found = load("babi_from_scratch")
    again, third = found["again"]["runs"], found["third"]["runs"]
    return {
        "sam": list(found["long"].values()),
        "sam, gone on": list(again.values()),
        "sam, at the end": list((again | third).values()),
        "sdnc": list(found["sdnc"]["runs"].values()),
        "sdnc, gone on": list(found["sdnc again"]["runs"].values()),
        "sam, as they come": list(found["paper"]["runs"].values()),
    }


def errors_of(runs: list[dict[str, Any]]) -> list[float]:
    """Mean test errors in percent."""
    return [100 * run["test"]["mean"] for run in runs]


def test_babi_from_scratch() -> None:
    parts = babi_from_scratch()
    head = next(t[0] for t in tables(REAL.read_text(encoding="utf-8")) if t[0][0] == "task, from scratch")
    assert [name for name in head[1:] if not name.endswith("(paper)")] == [f"{part} (3)" for part in parts]
    for cells in table(REAL, "task, from scratch"):
        for runs, cell in zip(parts.values(), cells[1:]):
            tests = [run["test"] for run in runs]
            task = cells[0].partition(":")[0]
            errors = [100 * (test["tasks"][task] if task.isdigit() else test["mean"]) for test in tests]
            if cells[0].startswith("failed"):
                errors = [test["failed"] for test in tests]
            assert_cell(cell, mean_and_deviation(errors), f"bAbI from scratch, {cells[0]}")


def test_babi_from_scratch_targets() -> None:
    parts = babi_from_scratch()
    begins = {
        "sam": "bAbI, SAM, 3 seeds, with augmentation, from scratch",
        "sam, gone on": "the same, gone on by a second command",
        "sam, at the end": "the same, seed 2 gone on by a third command",
        "sdnc": "bAbI, SDNC, 3 seeds, with augmentation, from scratch",
    }
    for part, begin in begins.items():
        runs = parts[part]
        errors, steps = errors_of(runs), [run["minibatches"] for run in runs]
        cells = row(REAL, begin)
        shown = re.split(r", one failed| of 32| more of seed 2", cells[3])[0]
        counted = steps[2:] if part == "sam, at the end" else [min(steps), max(steps)]
        assert_cell(shown, [*mean_and_deviation(errors), *errors, *counted], begin)
        limit = 6.4 if part == "sdnc" else 1.0
        assert cells[4] == ("met" if statistics.mean(errors) <= limit else "not reached"), begin
    run = load("babi_from_scratch")["sdnc third"]["runs"]["sdnc-0"]
    shown = row(REAL, "the same, seed 0 gone on by two more commands")[3].partition(" failed")[0]
    assert_cell(shown, [100 * run["test"]["mean"], run["test"]["failed"]], "bAbI, SDNC, seed 0 after three")
    run = load("babi_from_scratch")["sdnc fourth"]["runs"]["sdnc-0"]
    shown = row(REAL, "the same, seed 0 gone on by a further one")[3]
    wanted = [100 * run["test"]["mean"], run["test"]["failed"], run["minibatches"]]
    assert_cell(shown, wanted, "bAbI, SDNC, seed 0 at the end")
    long, short = row(REAL, "bAbI, the paper's protocol, best")[3].split("; before, ")
    shown = [*re.findall(r"(\w+ \S+% \(.+?%) over 3 seeds", long), re.findall(r"SAM .+?%\)", short)[0]]
    for cell, runs in zip(shown, (at_40000("paper-", "sam"), at_40000("paper-", "sdnc"), parts["sam, as they come"])):
        wanted = [best_of(runs), *mean_and_deviation(errors_of(runs))]
        assert_cell(cell, wanted, "bAbI, the paper's protocol")
    assert len(shown) == 3
    dense = row(REAL, "bAbI, DAM, NTM, DNC, the paper's protocol, best")[3].partition(" (one each")[0]
    wanted = [best_of(at_40000("paper-", model)) for model in ("dam", "ntm", "dnc")]
    assert_cell(dense.replace("3 seeds", "three"), wanted, "bAbI, DAM, NTM, DNC")


def test_babi_from_scratch_in_the_readme() -> None:
    parts = babi_from_scratch()
    cells = row(README, "bAbI, SAM, mean over runs, from scratch")
    second, third = cells[3].rpartition("more often, ")[2].split("; by a third")
    shown = (cells[2], second, third.rpartition("), ")[2])
    for part, cell in zip(("sam", "sam, gone on", "sam, at the end"), shown, strict=True):
        assert_cell(cell, mean_and_deviation(errors_of(parts[part])), f"README, bAbI, {part}")
    sdnc = row(README, "bAbI, SDNC, mean over runs")[3].rpartition("from scratch by one command ")[2].partition("%")[0]
    assert_cell(sdnc, mean_and_deviation(errors_of(parts["sdnc"])), "README, bAbI, SDNC from scratch")
    for page, begin in ((README, "bAbI, SDNC, mean over runs"), (RESULTS, "bAbI with augmentation")):
        further = " ".join(row(page, begin)).partition("in three further runs ")[2].partition("%")[0]
        assert_cell(further, all_of("", "sdnc"), f"{page.name}, bAbI, SDNC from scratch, 40,000 minibatches")
    came = plain(README).partition("With stories as they come, as in the paper, bAbI stands at")[2]
    first, _, augmented = came.partition("([results_real_data.md]")[0].partition("with augmentation SAM")
    first = re.sub(r"after 40,000 .+? In runs of the same length", "", first).partition("(one each")[0]
    wanted = []
    for model in ("sdnc", "sam"):
        runs = at_40000("paper-", model)
        wanted += [best_of(runs), *mean_and_deviation(errors_of(runs))]
    wanted += [x for model in ("dam", "dnc", "ntm", "lstm") for x in all_of("paper-", model)]
    assert_cell(first, wanted, "README, bAbI as it comes")
    wanted = [x for model in ("sam", "sdnc", "dam", "dnc", "ntm", "lstm") for x in all_of("", model)]
    assert_cell(augmented, wanted, "README, bAbI with augmentation, 40,000 minibatches")


def at_40000(prefix: str, model: str) -> list[dict[str, Any]]:
    """A model's runs of 40,000 minibatches under a protocol."""
    runs = load("babi_from_scratch")["40,000 minibatches of 32"]["runs"]
    return [run for key, run in runs.items() if re.fullmatch(rf"{prefix}{model}-\d", key)]


def all_of(prefix: str, model: str) -> list[float]:
    """Mean and deviation of the test errors of these runs in percent."""
    return mean_and_deviation(errors_of(at_40000(prefix, model)))


def best_of(runs: list[dict[str, Any]]) -> float:
    """The test error in percent of the run with the lowest validation error."""
    best = min(runs, key=lambda run: run["validation"]["mean"])
    return 100 * float(best["test"]["mean"])


def test_babi_to_the_end_of_one_schedule() -> None:
    rows = table(REAL, "protocol, 40,000", "model", "seeds")
    assert [(cells[0], cells[1]) for cells in rows] == [
        *(("the paper's", model) for model in ("SAM", "SDNC", "DAM", "NTM", "DNC", "LSTM")),
        *(("augmented", model) for model in ("SAM", "SDNC", "DAM", "NTM", "DNC", "LSTM")),
    ]
    targets = row(REAL, "bAbI, all six models at an equal number")[3].partition("with augmentation")
    for protocol, model, seeds, minibatches, *cells in rows:
        where = f"bAbI, 40,000 minibatches, {protocol}, {model}"
        mine = at_40000("" if protocol == "augmented" else "paper-", model.lower())
        assert_cell(seeds, [3 if model in ("SAM", "SDNC", "DAM") else 1], where)
        assert_cell(seeds, [len(mine)], where)
        assert_cell(minibatches, sorted({run["minibatches"] for run in mine}), where)
        for cell, step in zip(cells[:5], ("8000", "16000", "24000", "32000", "40000"), strict=True):
            parts = [run["error on a part of validation"] for run in mine]
            errors = [100 * part[step] for part in parts if step in part]
            assert_cell(cell, mean_and_deviation(errors), f"{where}, {step}")
        test, best, failed = cells[5:8]
        assert_cell(test, mean_and_deviation(errors_of(mine)), f"{where}, test")
        assert_cell(best, [best_of(mine)], f"{where}, best")
        assert_cell(failed, mean_and_deviation([run["test"]["failed"] for run in mine]), f"{where}, failed")
        repeated = re.search(rf"\b{model} (\d+\.\d(?: ± \d+\.\d)?)", targets[2 if protocol == "augmented" else 0])
        assert repeated is not None and repeated[1] == test, where


def test_babi_under_the_papers_protocol_for_longer() -> None:
    run = load("babi_from_scratch")["paper, sam, longer"]["runs"]["sam-0"]
    curve, test, minibatches = run["error on a part of validation"], run["test"], run["minibatches"]
    shown = plain(REAL).partition("with two or three other trainings beside it,")[2]
    shown = re.split("stands at|, no better than", shown)[1]
    wanted = [100 * test["mean"], test["failed"], minibatches, 19, 100 * test["tasks"]["19"]]
    wanted += [100 * curve["40000"], 40_000, 100 * curve[str(minibatches)]]
    assert_cell(shown, wanted, "bAbI, SAM as it comes, longer")


def test_babi_claims_under_the_papers_protocol() -> None:
    """Each claim names the paper's figures and those of the runs under its protocol, model by model."""
    spread = {model: f"{error} ± {deviation}" for model, (error, deviation) in babi_paper.OVER_TASKS.items()}
    columns = {
        "bAbI, stories as they come, best": (
            {model: str(error) for model, error in babi_paper.BEST_MEAN.items()},
            lambda runs: [best_of(runs)],
            MODELS,
        ),
        "bAbI, stories as they come, mean": (spread, lambda runs: mean_and_deviation(errors_of(runs)), MODELS[:3]),
    }
    for begin, (theirs, ours, shown) in columns.items():
        claim, here, _ = row(RESULTS, begin)
        quoted, found = (dict(re.findall(r"(\w+) (\d+\.\d(?: ± \d+\.\d)?)%", cell)) for cell in (claim, here))
        assert quoted == {model.upper(): theirs[model] for model in MODELS}, begin
        assert set(found) == {model.upper() for model in shown}, begin
        for model, cell in found.items():
            assert_cell(cell, ours(at_40000("paper-", model.lower())), f"{begin}, {model}")


def at_3000(prefix: str, model: str) -> list[dict[str, Any]]:
    """The runs of a model under a protocol that came to 3,000 minibatches; where there is none, what there is."""
    runs = load("babi_from_scratch")["3,000 minibatches of 32"]
    mine = [run for key, run in runs.items() if re.fullmatch(rf"{prefix}{model}-\d", key)]
    return [run for run in mine if "test" in run] or mine


def test_babi_at_equal_minibatches() -> None:
    rows = table(REAL, "protocol", "model", "seeds")
    assert len(rows) == 12  # six models, two protocols
    for protocol, model, seeds, *cells in rows:
        where = f"bAbI, {protocol}, {model}"
        mine = at_3000("" if protocol == "augmented" else "paper-", model.lower())
        ended = [run for run in mine if "test" in run]
        assert_cell(seeds, [len(mine)], where)
        assert len(ended) >= (3 if model in ("SAM", "SDNC", "DAM") else 0), where
        assert {run["minibatches"] for run in ended} <= {3000}, where
        for cell, step in zip(cells[:3], ("1000", "2000", "3000"), strict=True):
            parts = [run["error on a part of validation"] for run in mine]
            errors = [100 * part[step] for part in parts if step in part]
            assert_cell(cell, mean_and_deviation(errors), f"{where}, {step}")
        assert_cell(cells[3], mean_and_deviation([100 * run["test"]["mean"] for run in ended]), f"{where}, test")


@pytest.mark.parametrize("minibatches,runs_of", [("3,000", at_3000), ("40,000", at_40000)])
def test_babi_at_equal_minibatches_by_task(minibatches: str, runs_of: Any) -> None:
    title = f"task, {minibatches} minibatches"
    head = next(t[0] for t in tables(REAL.read_text(encoding="utf-8")) if t[0][0] == title)
    assert len(head) == 13
    for cells in table(REAL, title):
        for name, cell in zip(head[1:], cells[1:], strict=True):
            model, _, came = name.partition(" (")[0].partition(", ")
            tests = [run["test"] for run in runs_of("paper-" if came else "", model) if "test" in run]
            task = cells[0].partition(":")[0]
            errors = [100 * (test["tasks"][task] if task.isdigit() else test["mean"]) for test in tests]
            assert_cell(cell, mean_and_deviation(errors), f"bAbI, {minibatches} minibatches, {name}, {cells[0]}")


def test_omniglot_at_equal_minibatches() -> None:
    runs = load("omniglot_pixels")["equal"]["runs"]
    for model, level, to_16, *cells in table(REAL, "equal budget", "level"):
        name = model.partition(",")[0].lower()
        mine = [run for key, run in runs.items() if key.startswith(f"{name}-")]
        assert len(mine) == 3
        where = f"Omniglot at equal budgets, {model}"
        assert_cell(level, [mine[0]["level"]], where)
        steps = [dict(map(tuple, run["levels"])).get(16) for run in mine]
        assert_cell(to_16, [min(steps), max(steps)] if None not in steps else [], where)
        columns = ("error of the last minibatch", "2nd presentation", "10th presentation")
        for cell, column in zip(cells, (*columns, "loss of the last 50 minibatches"), strict=True):
            assert_cell(cell, mean_and_deviation([run[column] for run in mine]), f"{where}, {column}")


def test_omniglot_all_models() -> None:
    runs = load("omniglot_pixels")["runs"]
    targets = row(REAL, "Omniglot from pixels, SDNC, DAM, NTM, LSTM at equal budgets")
    rows = table(REAL, "from pixels", "seeds")
    assert len(rows) == 5
    for model, seeds, minibatches, level, *cells in rows:
        where, name = f"Omniglot from pixels, {model}", model.partition(",")[0]
        mine = [run for key, run in runs.items() if key.startswith(f"{name.lower()}-")]
        assert_cell(seeds, [len(mine)], where)
        assert_cell(minibatches, sorted({run["minibatches"] for run in mine}, reverse=True), where)
        assert_cell(level, {run["level"] for run in mine}, where)
        asked = [("validation", "100"), ("validation", "500"), ("test", "100"), ("test", "500")]
        for cell, (split, size) in zip(cells, asked, strict=True):
            assert_cell(cell, mean_and_deviation([run[split][size]["error"] for run in mine]), where)
        shown = re.search(rf"\b{name} (\d\.\d+ ± \d\.\d+)", targets[3])
        assert shown is not None and shown[1] == cells[2], where


def test_omniglot_with_lstm_controllers() -> None:
    found = load("omniglot_pixels")["with LSTM controllers"]
    three = [found["runs"][f"sam-{seed}"]["test"] for seed in range(3)]
    for model, seeds, minibatches, level, early, *cells in table(REAL, "full recipe", "seeds"):
        where = f"Omniglot, the full recipe, {model}"
        if model == "SAM":
            tests = [{size: test[size]["error"] for size in ("100", "500")} for test in three]
        else:
            name = "sam, label" if "label vectors" in model else f"{model.partition(',')[0].lower()}-"
            mine = [run for key, run in found["full recipe"]["runs"].items() if key.startswith(name)]
            tests = [run["test"] for run in mine if run["ended"]]
            assert_cell(seeds, [len(tests or mine), *([len(mine), 500] if 0 < len(tests) < len(mine) else [])], where)
            assert_cell(minibatches, {run["minibatches"] for run in mine if run["ended"] or not tests}, where)
            assert_cell(level, {run["level"] for run in mine}, where)
            part = [run["validation at 100, 8 episodes, after 500 minibatches"] for run in mine]
            assert_cell(early, mean_and_deviation(part), where)
        for cell, size in zip(cells, ("100", "500"), strict=True):
            assert_cell(cell, mean_and_deviation([test[size] for test in tests]) if tests else [], where)


def test_figure_3_as_in_the_paper() -> None:
    names = {"SAM exact": "sam-linear", "SAM LSH": "sam-lsh", "DAM": "dam", "NTM": "ntm"}
    runs = {run["run"]: run for run in load("figure3")["rows"] if run["run"].startswith("recall-one-cue-")}
    rows = table(RESULTS, "as in the paper", "seed")
    assert [f"recall-one-cue-{names[cells[0]]}-{cells[1]}" for cells in rows] == list(runs)
    for model, seed, level, *seconds, minibatches, taken in rows:
        run, where = runs[f"recall-one-cue-{names[model]}-{seed}"], f"figure 3 as in the paper, {model}, seed {seed}"
        assert_cell(level, [run["level"]], where)
        for cell, reached in zip(seconds, ("256", "1024", "2048", "4096"), strict=True):
            after = run["levels"].get(reached)
            assert_cell(cell, [] if after is None else [after], f"{where}, level {reached}")
        assert_cell(minibatches, [run["minibatches"]], where)
        assert_cell(taken, [run["seconds"]], where)
    exact = [run for name, run in runs.items() if "-sam-linear-" in name]
    cells = row(README, "the same as in the paper: key, then value, one cue")
    there = [run["levels"]["4096"] for run in exact if run["level"] >= 4096]
    assert_cell(cells[2], [4096], "README, figure 3 as in the paper")
    assert_cell(cells[3].partition(" s of")[0], [len(there), len(exact), min(there), max(there)], "README, seconds")
    there = [run["levels"]["4096"] for name, run in runs.items() if "-sam-lsh-" in name]
    shown = cells[3].partition("with LSH ")[2].partition(" s;")[0]
    assert_cell(shown, [len(there), len(there), min(there), max(there)], "README, seconds with LSH")
    claim = row(RESULTS, "Figure 3: the same as in the paper")[1].partition("LSH: level 4,096 after ")[2]
    assert_cell(claim.partition(" s")[0], there, "the claim, seconds with LSH")
    for what, to_16, level, after, ended in table(RESULTS, "seed 1, 16 cues"):
        (mine,) = (r for r in load("figure3")["in turn, what it took"] if r["what"].replace("**", "") == what)
        assert_cell(to_16, [mine["minibatches to level 16"]] if mine["minibatches to level 16"] else [], what)
        assert_cell(level, [mine["level"]], what)
        assert_cell(after, [mine["after"]] if mine["after"] else [], what)
        assert_cell(ended, [mine["seconds"]], what)


def test_extrapolation_with_the_papers_chance() -> None:
    found = load("extrapolation")
    columns = [found["wide"], found["wide, controller that remembers"]]
    rows = table(RESULTS, "Pairs, 96 bits")
    assert [cells[0].replace(",", "") for cells in rows] == list(columns[0]["bits per cue, exact, 256 cues"])
    for pairs, *cells in rows:
        size = pairs.replace(",", "")
        for cell, run in zip(cells, columns, strict=True):
            parts = [run["bits per cue, exact, 256 cues"], run["standard error"]]
            wanted = [part[size] for part in parts if size in part]
            assert_cell(cell, wanted, f"extrapolation with 96 bits, {pairs} pairs")
    bits, deviation = (columns[0][part] for part in ("bits per cue, exact, 256 cues", "standard error"))
    claim = row(RESULTS, "Supplementary figure: trained to 10,000")[1].partition("one seed trained to 10,000: ")[2]
    wanted = [bits["10000"], deviation["10000"], 10_000, bits["50000"], 50_000]
    assert_cell(claim, [*wanted, bits["200000"], deviation["200000"], 200_000], "the claim, 96 bits")
    cells = row(README, "the same in the paper's setting, chance 48 bits")
    assert_cell(cells[2], [bits["200000"], 48], "README, 96 bits")
