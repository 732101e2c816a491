"""README, the results pages and the JSON beside them say the same: every number of their tables is compared.

A printed number agrees with a value when it is the value rounded to the digits that are printed.
"""

from __future__ import annotations

import re
import statistics
from decimal import Decimal

import pytest

from tests.docs.pages import (
    README,
    REAL,
    RESULTS,
    agrees,
    assert_cell,
    load,
    mean_and_deviation,
    numbers,
    percent,
    plain,
    row,
    table,
    tables,
)


def test_numbers_are_read_and_compared_as_printed() -> None:
    assert numbers("1.00 (4,096: 57; 45), 4.5 ± 1.6%") == [
        Decimal(text) for text in ("1.00", "4096", "57", "45", "4.5", "1.6")
    ]
    assert agrees(Decimal("0.173"), 0.1734) and not agrees(Decimal("0.173"), 0.1766)
    assert agrees(Decimal("8192"), 8192) and not agrees(Decimal("8192"), 4096)


# bAbI


def test_babi_by_task() -> None:
    babi = load("babi")
    head = next(t[0] for t in tables(REAL.read_text()) if t[0][:2] == ["task", "sdnc, from scratch"])
    best = min(("sdnc-0", "sdnc-1", "sdnc-2"), key=lambda run: babi[run]["validation"]["mean"])
    runs = {
        "sdnc, from scratch": "sdnc-0, from scratch",
        "sdnc": best,
        "sam, retold": "sam-0, retold",
        "sam, asked more": "sam-0, on",
        "sam": "sam-0",
        "lstm": "lstm-0",
    }
    runs |= {f"{model}, unfinished": f"{model}-0" for model in ("dam", "ntm", "dnc")}
    for cells in table(REAL, "task", "sdnc, from scratch"):
        for column, name in enumerate(head):
            if name not in runs:
                continue
            test = babi[runs[name]]["test"]
            if cells[0].startswith("mean"):
                wanted = 100 * test["mean"]
            elif cells[0].startswith("failed"):
                wanted = test["failed"]
            else:
                wanted = 100 * test["tasks"][cells[0].partition(":")[0]]
            assert_cell(cells[column], [wanted], f"bAbI, {cells[0]}, {name}")


def test_babi_targets_and_readme() -> None:
    babi = load("babi")
    sdnc = [percent(babi[f"sdnc-{seed}"]) for seed in range(3)]
    mean, deviation = statistics.mean(sdnc), statistics.stdev(sdnc)
    best = min((babi[f"sdnc-{seed}"] for seed in range(3)), key=lambda run: run["validation"]["mean"])
    cells = row(REAL, "the same by an earlier recipe, best of 3 seeds")
    assert_cell(cells[3], [percent(best), best["test"]["failed"]], "best SDNC by an earlier recipe")
    newest = babi["sdnc-0, from scratch"]
    cells = row(REAL, "bAbI mean test error, SDNC, best")
    assert_cell(cells[3].partition(" (")[0], [percent(newest), newest["test"]["failed"]], "best SDNC")
    assert newest == {part: load("babi_from_scratch")["sdnc fourth"]["runs"]["sdnc-0"][part] for part in newest}
    assert cells[4] == ("met" if percent(newest) <= 0.6 else "not reached")
    assert_cell(row(README, "bAbI, one SDNC")[2], [percent(newest), newest["test"]["failed"]], "README, best SDNC")
    assert_cell(row(REAL, "bAbI mean test error, SDNC, 3 seeds")[3], [mean, deviation, *sdnc], "SDNC of 3 seeds")
    sam, asked, before = (babi[f"sam-0{part}"] for part in (", retold", ", on", ""))
    assert_cell(row(REAL, "bAbI mean test error, SAM")[3], [percent(sam), sam["test"]["failed"]], "SAM")
    cells = row(REAL, "the same before stories were retold")
    assert_cell(cells[3], [percent(asked), asked["test"]["failed"]], "SAM before stories were retold")
    cells = row(REAL, "the same before task 16 was asked for more")
    assert_cell(cells[3], [percent(before), before["test"]["failed"]], "SAM before it was asked more")
    assert_cell(row(REAL, "bAbI, LSTM")[3], [percent(babi["lstm-0"])], "LSTM")
    unfinished = numbers(row(REAL, "bAbI, DAM, NTM, DNC")[3].partition("; earlier ")[2])[:3]
    for printed, model in zip(unfinished, ("dam", "ntm", "dnc"), strict=True):
        assert agrees(printed, percent(babi[f"{model}-0"])), model
    assert_cell(row(README, "bAbI, one SAM")[2], [percent(sam), sam["test"]["failed"]], "README, SAM on bAbI")
    assert_cell(row(README, "bAbI, SDNC, mean")[2], [mean, deviation], "README, SDNC on bAbI")
    claim = numbers(row(RESULTS, "bAbI with augmentation")[1])
    for printed, value in zip(claim[:4], (percent(newest), percent(best), mean, deviation), strict=True):
        assert agrees(printed, value), "results.md, bAbI"
    assert agrees(claim[5], percent(sam)), "results.md, SAM on bAbI"


def test_babi_two_protocols() -> None:
    before, after = load("babi_as_they_come"), load("babi")
    best = min((after[f"sdnc-{seed}"] for seed in range(3)), key=lambda run: run["validation"]["mean"])
    whole = load("babi_from_scratch")
    parts = [whole[part]["runs"]["sdnc-0"] for part in ("sdnc", "sdnc again", "sdnc third", "sdnc fourth")]
    scratch = {"test": parts[-1]["test"] | {"step": sum(part["minibatches"] for part in parts)}}
    columns = {
        "SAM, best": (before["sam-0"], *(after[f"sam-0{part}"] for part in ("", ", on", ", retold"))),
        "SDNC, best": (before["sdnc-1, on"], best, None, scratch),
        **{f"{model.upper()}": (before[f"{model}-0"],) for model in ("lstm", "dam", "ntm", "dnc")},
    }
    rows = table(REAL, "model", "stories as they come")
    for cells in rows:
        if cells[0] == "SDNC, 3 seeds":
            for cell, runs in zip(cells[1:3], (before, after)):
                three = [runs[f"sdnc-{seed}"] for seed in range(3)]
                steps = [run["test"]["step"] for run in three]
                errors = [percent(run) for run in three]
                wanted = [statistics.mean(errors), statistics.stdev(errors), min(steps), max(steps)]
                assert_cell(cell, wanted, "bAbI, 3 seeds")
            continue
        runs = columns[cells[0].removesuffix(", unfinished")]
        for cell, run in zip(cells[1:], runs):
            wanted = [] if run is None else [percent(run), run["test"]["step"]]
            assert_cell(cell, wanted, f"bAbI, {cells[0]}")
    assert len(rows) == len(columns) + 1
    shown = [before[name]["test"] for name in ("sdnc-1, on", "sam-0", "lstm-0")]
    for cells in table(REAL, "task", "sdnc, as they come"):
        for cell, test in zip(cells[1:], shown, strict=True):
            task = cells[0].partition(":")[0]
            wanted = {"mean error (%)": 100 * test["mean"], "failed (> 5%)": test["failed"]}.get(cells[0])
            assert_cell(cell, [100 * test["tasks"][task] if wanted is None else wanted], f"as they come, {cells[0]}")


def test_babi_task_16() -> None:
    curves = load("babi_task16")
    head = next(t[0] for t in tables(REAL.read_text()) if t[0][:2] == ["minibatches", "2,000"])
    steps = [int(numbers(cell)[0]) for cell in head[1:]]
    for cells in table(REAL, "minibatches", "2,000"):
        name = "without" if "not asked" in cells[0] else "with further questions"
        errors = {entry[0]: entry[2 if cells[0].startswith("task 16") else 1] for entry in curves[name]}
        for cell, step in zip(cells[1:], steps, strict=True):
            assert_cell(cell, [100 * errors[step]], f"bAbI, {cells[0]}, minibatch {step}")


# Omniglot


def test_omniglot_by_presentation() -> None:
    results = load("omniglot")["sam, stroke directions, 500 labels"]
    rows = table(REAL, "characters", "error", "1st")
    assert len(rows) == 8
    for cells in rows:
        entry = results[cells[0]]
        shown = [entry["error"], *(entry["by_presentation"][n - 1] for n in (1, 2, 3, 4, 5, 10)), 1 - 1 / int(cells[0])]
        for cell, value in zip(cells[1:], shown, strict=True):
            assert_cell(cell, [value], f"Omniglot, strokes, {cells[0]} characters")


def test_omniglot_short_runs() -> None:
    results = load("omniglot")
    for cells in table(REAL, "model", "minibatches", "minutes"):
        model = cells[0].partition(",")[0].lower()
        entry = results.get(f"{model}, short unfinished run") or results["sam, stroke directions, 500 labels"]
        for cell, size in zip(cells[3:], (10, 25, 100, 500), strict=True):
            value = 1 - 1 / size if model == "chance" else entry[str(size)]["error"]
            assert_cell(cell, [value], f"Omniglot, {model}, {size} characters")


def pixels(model: str, size: str) -> list[float]:
    """Test errors of a model's seeds from pixels."""
    runs = load("omniglot_pixels")["runs"]
    mine = [run["test"] for name, run in runs.items() if re.fullmatch(f"{model}-\\d", name)]
    return [test[size]["error"] for test in mine if size in test]


def test_omniglot_from_pixels() -> None:
    near = load("omniglot_pixels")["neighbours"]
    encoders = [entry for name, entry in near.items() if name.startswith("encoder")]
    rows = table(REAL, "characters", "episodes", "chance")
    assert {"100", "500"} <= {cells[0] for cells in rows}
    for size, episodes, chance, by_pixels, by_encoder, sam in rows:
        where = f"Omniglot from pixels, {size} characters"
        assert_cell(episodes, [near["pixels"][size]["episodes"]], where)
        assert_cell(chance, [1 - 1 / int(size)], where)
        assert_cell(by_pixels, [near["pixels"][size]["error"]], where)
        assert_cell(by_encoder, mean_and_deviation([entry[size]["error"] for entry in encoders]), where)
        assert_cell(sam, mean_and_deviation(pixels("sam", size)), where)


def test_omniglot_from_pixels_earlier_runs() -> None:
    earlier = load("omniglot_pixels")["earlier"]["runs"]
    rows = table(REAL, "run", "minibatches", "level")
    assert len(rows) == len(earlier)
    for cells, run in zip(rows, earlier.values(), strict=True):
        asked = [("validation", "100"), ("validation", "500"), ("test", "100"), ("test", "500")]
        assert_cell(cells[1], [run["minibatches"]], cells[0])
        assert_cell(cells[2], [run["level"]], cells[0])
        for cell, (split, size) in zip(cells[3:], asked, strict=True):
            assert_cell(cell, [run[split][size]["error"]] if size in run[split] else [], cells[0])


def test_omniglot_from_pixels_targets_and_readme() -> None:
    near = load("omniglot_pixels")["neighbours"]
    readme = row(README, "Omniglot, 100 and 500 new characters, error, from pixels")
    shown: list[float] = []
    for size, limit in (("100", 0.14), ("500", 0.22)):
        errors = pixels("sam", size)
        encoder = statistics.mean(entry[size]["error"] for name, entry in near.items() if name.startswith("encoder"))
        cells = row(REAL, f"Omniglot from pixels, SAM, error at {size}")
        assert_cell(cells[3], [*mean_and_deviation(errors), encoder, near["pixels"][size]["error"]], cells[0])
        assert cells[4] == ("met" if statistics.mean(errors) <= limit else "not reached"), cells
        shown += mean_and_deviation(errors)
    assert_cell(readme[2], shown, "README, Omniglot from pixels")


def test_omniglot_targets_and_readme() -> None:
    results = load("omniglot")
    strokes, near = results["sam, stroke directions, 500 labels"], results["nearest neighbour, stroke directions"]
    target = numbers(row(REAL, "Omniglot, SAM, error at 100 characters, stroke")[3])
    assert agrees(target[0], strokes["100"]["error"]) and agrees(target[1], near["100"]["error"])
    cells = row(README, "Omniglot, 100 new characters, error, stroke directions")
    assert_cell(cells[2], [strokes["100"]["error"]], "README, Omniglot by strokes")
    assert agrees(numbers(cells[3])[-1], near["100"]["error"]), "README, nearest neighbour on strokes"
    for kind, said in (("stroke directions", "0.130 at"), ("pixels as they are", "0.629, 0.719")):
        sentence = re.search(rf"[^.]*?{said}.*?(?=[.:] )", plain(REAL), flags=re.DOTALL)
        assert sentence is not None, f"results_real_data.md: nearest neighbour, {kind}"
        found = [n for n in numbers(sentence[0]) if n < 1]
        wanted = [results[f"nearest neighbour, {kind}"][str(size)]["error"] for size in (10, 25, 100, 500)]
        assert all(any(agrees(n, value) for n in found) for value in wanted), f"nearest neighbour, {kind}: {found}"
    claim = numbers(row(RESULTS, "Omniglot: SAM")[1])
    assert any(agrees(printed, strokes["100"]["error"]) for printed in claim), "results.md, Omniglot at 100"


# Figures 2 and 3, extrapolation

MODELS = {
    "SAM exact": "sam-linear",
    "SAM exact, K = 8": "sam-k8",
    "SAM ANN": "sam-ann",
    "DAM": "dam",
    "NTM": "ntm",
    "LSTM": "lstm",
}


def test_hours() -> None:
    for result, _, _, taken, _ in table(RESULTS, "Result", "Command", "Seeds"):
        name = {"Figure 2": "figure2", "Figure 3": "figure3", "Extrapolation": "extrapolation"}.get(result)
        if name is not None:
            runs = load(name)["rows"]
            assert_cell(taken, [len(runs), sum(run["seconds"] for run in runs) / 3600], f"hours of {result}")


def test_figure_2() -> None:
    runs = load("figure2")["rows"]
    rows = table(RESULTS, "Task", "Model", "Seeds")
    assert len(rows) == 16
    for task, model, seeds, below, reached, final, lowest, seen, seconds in rows:
        mine = [run for run in runs if re.fullmatch(f"{task}-{MODELS[model]}-\\d+", run["run"])]
        where = f"figure 2, {task}, {model}"
        solved = [run["solved_at"] for run in mine if run["solved_at"] is not None]
        bits = sorted(run["bits_per_sequence"] for run in mine)
        sequences = [run["sequences"] for run in mine]
        assert_cell(seeds, [len(mine)], where)
        assert_cell(below, [len(solved)], where)
        wanted = [statistics.median(solved), min(solved), max(solved)] if solved else []
        assert_cell(reached, wanted, where)
        assert_cell(final, [statistics.median(bits), *bits], where)
        assert_cell(lowest, [min(run["lowest"] for run in mine)], where)
        assert_cell(seen, sorted({min(sequences), max(sequences)}), where)
        if seconds != "not comparable":
            assert_cell(seconds, [statistics.median(run["seconds"] for run in mine)], where)


def test_figure_3() -> None:
    runs = {run["run"]: run for run in load("figure3")["rows"]}
    for model, recall, seconds, copy, sort in table(RESULTS, "Model", "recall: level"):
        name = MODELS[re.split(r" \(|,", model)[0]]
        mine = [run for key, run in sorted(runs.items()) if re.fullmatch(f"recall-{name}-\\d", key)]
        assert_cell(recall, [run["level"] for run in mine], f"figure 3, recall, {model}")
        taken = [run["levels"].get(str(run["level"])) for run in mine]
        found = numbers(seconds)
        for second in (value for value in taken if value is not None):
            assert any(agrees(printed, second) for printed in found), f"figure 3, seconds of recall, {model}: {second}"
        for task, cell in (("copy", copy), ("sort", sort)):
            levels = [run["level"] for key, run in sorted(runs.items()) if re.fullmatch(f"{task}-{name}-\\d", key)]
            found = numbers(cell)
            assert all(any(agrees(printed, level) for printed in found) for level in levels), (
                f"figure 3, {task}, {model}"
            )
    recall = [run for key, run in runs.items() if key.startswith("recall-sam-linear")]
    cells = row(README, "associative recall with 2,000,000 words")
    assert_cell(cells[2], [min(run["level"] for run in recall)], "README, recall")
    reached = numbers(cells[3])[0]
    assert reached == len(recall), "README, seeds of recall"


def test_figure_3_keeps_what_it_has_learned() -> None:
    runs = {run["run"]: run for run in load("figure3")["rows"]}
    for name, seeds, learned, reached, times in table(RESULTS, "at the end", "seeds"):
        task = name.removeprefix("SAM, ")
        first, last = numbers(seeds)
        mine = [runs[f"{task}-sam-linear-{seed}"] for seed in range(int(first), int(last) + 1)]
        losses = [run["loss at the end, at half the level and at the level, 192 sequences"] for run in mine]
        assert_cell(learned, [half for half, _ in losses], f"figure 3, {task}, the level learned")
        assert_cell(reached, [whole for _, whole in losses], f"figure 3, {task}, the level reached")
        assert_cell(times, [run["retreats"] for run in mine], f"figure 3, {task}, times gone back")


def test_extrapolation() -> None:
    bits = load("extrapolation")["bits_per_cue"]
    exact, forest = bits["exact"], bits["kdtree, 1024 checks"]
    for pairs, by_exact, by_forest, *_ in table(RESULTS, "Pairs", "Exact search (three threads)"):
        size = pairs.replace(",", "")
        for cell, measured, seconds in (
            (by_exact, exact, bits["exact, seconds (three threads)"]),
            (by_forest, forest, bits["kdtree, 1024 checks, seconds (one thread)"]),
        ):
            if size in measured:
                assert_cell(cell, [measured[size], seconds[size]], f"extrapolation, {pairs} pairs")
    columns = ("near keys, exact, 256 cues", "exact, 256 cues", None, "trained with LSH, exact, 256 cues")
    rows = table(RESULTS, "Pairs", "`recall-near-sam`")
    assert [cells[0].replace(",", "") for cells in rows] == list(bits["exact, 256 cues"])
    for pairs, *cells in rows:
        size = pairs.replace(",", "")
        for cell, name in zip(cells, columns, strict=True):
            if name is None:
                wanted = [bits["exact, 256 cues, seconds (one thread)"][size]]
            else:
                wanted = [bits[name][size], bits[f"{name}, standard error"][size]] if size in bits[name] else []
            assert_cell(cell, wanted, f"extrapolation, 256 cues, {pairs} pairs, {name}")
    near = bits["near keys, exact, 256 cues"]
    cells = row(README, "recall trained to 10,000 pairs")
    assert_cell(cells[2], [near["200000"], 8], "README, extrapolation")
    assert any(agrees(number, bits["exact, 256 cues"]["200000"]) for number in numbers(cells[3])), "README, before"
    claim = row(RESULTS, "Supplementary figure: trained to 10,000")[1].split(":", 1)[1].partition(" (`")[0]
    error = bits["near keys, exact, 256 cues, standard error"]["200000"]
    shown = [numbers(part.replace(f"± {error:.2f} ", "")) for part in claim.split(", ")]
    assert len(shown) == 3
    for printed, size in shown:
        assert agrees(printed, near[str(int(size))]), f"results.md, extrapolation to {size}"


def test_copy_beyond_the_trained_length() -> None:
    found = load("copy_lengths")
    earlier = found["rmsprop"]
    for head, runs in (("seed", found["rows"]), ("seed, RMSProp", earlier["rows"])):
        for cells, run in zip(table(RESULTS, head, "minibatches", "20"), runs, strict=True):
            for cell, value in zip(cells, (run["seed"], run["minibatches"], *run["bits"].values()), strict=True):
                assert_cell(cell, [value], f"copy beyond the trained length, {head} {run['seed']}")
    (shipped,) = (run for run in earlier["rows"] if run["run"] == earlier["shipped"])
    cells = row(README, "copy, trained on 1 to 40 items")
    assert_cell(cells[2], [shipped["bits"]["200"], shipped["bits"]["400"]], "README, copy")


def test_readme_rows_say_protocol_seeds_and_condition() -> None:
    """Each row of what it reaches names the seeds (or that it is one run) and what the paper's runs did not have."""
    rows = table(README, "", "the paper", "here")
    assert len(rows) >= 6
    for cells in rows:
        how = cells[3]
        assert re.search(r"\bseeds?\b|\bone run\b|\bone set of weights\b|\bno training\b", how), cells
    for cells in rows:
        if cells[0].startswith(("bAbI", "Omniglot")):
            assert "the paper" in cells[3], f"{cells[0]}: what differs from the paper's protocol?"


@pytest.mark.parametrize(
    ("page", "old", "new", "check"),
    [
        (REAL, "| mean error (%) | 0.2 | 3.1 |", "| mean error (%) | 0.2 | 3.2 |", test_babi_by_task),
        (README, "4.5 ± 1.6%", "4.4 ± 1.6%", test_babi_targets_and_readme),
        (REAL, "| 500 | **0.314**", "| 500 | **0.304**", test_omniglot_by_presentation),
        (REAL, "| 100 | 16 | 0.990 | 0.816 |", "| 100 | 16 | 0.990 | 0.826 |", test_omniglot_from_pixels),
        (RESULTS, "| copy | SAM exact | 5 | 5 | 20,000", "| copy | SAM exact | 5 | 5 | 19,000", test_figure_2),
        (RESULTS, "| 8,192; 8,192; 8,192 |", "| 8,192; 8,192; 4,096 |", test_figure_3),
        (RESULTS, "| 1.19 (454 s)", "| 1.09 (454 s)", test_extrapolation),
    ],
)
def test_a_changed_number_is_noticed(page, old, new, check, tmp_path, monkeypatch) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{page.name} has no single {old!r}"
    changed = tmp_path / page.name
    changed.write_text(text.replace(old, new), encoding="utf-8")
    name = {README: "README", RESULTS: "RESULTS", REAL: "REAL"}[page]
    monkeypatch.setitem(globals(), name, changed)
    with pytest.raises(AssertionError):
        check()
