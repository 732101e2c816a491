"""The figures of `sparsam bench ann` out of its parts, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.ann_curves import CURVES
from benchmarks.ann_steps import first_faster
from benchmarks.report import Line, Report
from sparsam import indexes

LEARNS = 0.95  # recall of all K that an index must reach for its speed to count
NTM_THREADS = "NTM's threads"
LIBRARIES = ("faiss, exact", "faiss IVF", "hnswlib", "usearch")
DRAWN = ("50,000 pairs", "200,000 pairs")  # sets whose curves are drawn


def report_of(parts: dict[str, Any], out: Path, quick: bool) -> Report:
    """Lines for whatever parts are there."""
    report = Report("ann", raw={"parts": parts, "exact until": indexes.CROSSOVER}, watch=None)
    found = {name: part["found"] for name, part in parts.items() if part["found"]}
    for name, part in found.items():
        if name.startswith("words: "):
            _words(report, part)
    _bits(report, found, quick)
    _steps(report, found)
    if "million" in found:
        _million(report, found["million"])
    if any(f"words: {name}" in found for name in DRAWN):
        draw(found, out / "ann.png")
    return report


def _words(report: Report, part: dict[str, Any]) -> None:
    trained = part["set"].endswith("pairs") or part["set"].startswith("SDNC")
    for point in part["points"]:
        if not point["default"]:
            continue
        name, where = point["curve"], f"{part['set']} ({point['words']:,} words)"
        bound = LEARNS if trained and name.startswith("scan") else None  # the paper's two are set for speed
        report.add(Line(f"{name}: recall@K, {where}", point["recall of K"], "", bound, at_most=False))
        report.add(Line(f"{name}: the same, lowest head", min(point["recall of K by head"]), ""))
        report.add(Line(f"{name}: four queries, {where}", point["us per step, all heads"], "us"))
        if "us insert + remove" in point:
            report.add(Line(f"{name}: insert + remove of a word, {where}", point["us insert + remove"], "us", 2))
        report.add(Line(f"{name}: bytes per word, {where}", point["bytes per word"], "bytes"))


def _bits(report: Report, found: dict[str, Any], quick: bool) -> None:
    if short := found.get("bits: 4,096 pairs"):
        for name, bits in short["bits wrong"].items():
            worst = max(a - b for a, b in zip(bits, short["bits wrong"]["linear"]))
            bound = None if name in ("lsh", "kdtree") else 2
            report.add(Line(f"{name}: bits wrong of 64 cues beyond exact search's, worst seed", worst, "bits", bound))
    for name, part in found.items():
        if not name.startswith("bits: ") or ", auto, " not in name or "bits wrong" not in part:
            continue
        exact = found.get(name.replace("auto", "linear"), {})
        where = f"{part['pairs']:,} pairs, {part['cues']} cues, seed {part['seed']}"
        if "bits wrong" in exact:
            ratio = part["bits wrong"]["auto"] / max(1, exact["bits wrong"]["linear"])
            report.add(Line(f"auto: bits over exact search's, {where}", ratio, "x", 1.1))
            seconds = part["processor seconds"] / exact["processor seconds"]
            report.add(Line(f"auto: time over exact search's, {where}", seconds, "x", 0.05))
        for other, bits in part["bits wrong"].items():
            same = part["bits wrong"].get("linear", 0)
            if other not in ("auto", "linear") and same:
                report.add(
                    Line(f"{other}: asked from auto's state, bits over exact search's, {where}", bits / same, "x", 1.1)
                )
    if babi := found.get("bits: bAbI"):
        for name, row in babi["SDNC"].items():
            more = row["loss"] / babi["SDNC"]["linear"]["loss"]
            report.add(Line(f"{name}: SDNC on bAbI, loss over exact search's", more, "x", 1.1))


def _steps(report: Report, found: dict[str, Any]) -> None:
    for part, words in (("steps: pre-loaded", "pre-loaded"), ("steps: written", "written")):
        if part in found:
            for name in ("scan", "auto"):
                begin = first_faster(found[part]["rows"], name)
                most = max(row["words"] for row in found[part]["rows"])
                none = "" if begin else f" (it does not up to {most:,})"
                label = f"{words} words from which on {name} beats exact search{none}"
                report.add(Line(label, begin or most, "words", 16_000))
    if long := found.get("steps: long"):
        tenths = long["us per step, each tenth"]
        report.add(
            Line(f"T = {long['steps']:,} from a blank memory, auto: last tenth over first", tenths[-1] / tenths[0])
        )


def _million(report: Report, part: dict[str, Any]) -> None:
    shares = part.get("recall of K by head")
    if shares is not None:
        report.add(Line(f"full {part['words']:,} words: recall@K, lowest head", min(shares), "", LEARNS, at_most=False))
    for name, us in part.items():
        if name.startswith("us per step, ") and name.endswith("threads"):
            ratio = us["trained"] / us["nn.LSTM"]
            report.add(Line(f"full {part['words']:,} words: step over nn.LSTM step, {name[13:]}", ratio, "x", 10))
            if "us per step, NTM" in part and name[13:] == f"{part[NTM_THREADS]} threads":
                ratio = part["us per step, NTM"] / us["trained"]
                report.add(
                    Line(f"NTM step over that step, {name[13:]}", ratio, "x", 5_000, at_most=False, paper="1,600")
                )


def draw(found: dict[str, Any], path: Path) -> None:
    """Recall against time on trained words, and time of a step over the number of words."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    sets = [name for name in DRAWN if f"words: {name}" in found]
    timed = "steps: pre-loaded" in found
    figure, axes = new_figure(5.5 * (len(sets) + timed), 4.2, columns=len(sets) + timed)
    for axis, of in zip(axes[0], sets):
        points = found[f"words: {of}"]["points"]
        for curve in dict.fromkeys(point["curve"] for point in points):
            ours = curve in CURVES
            kind = list(CURVES).index(curve) if ours else next(i for i, lib in enumerate(LIBRARIES) if lib in curve)
            here = [(p["us per step, all heads"], p["recall of K"]) for p in points if p["curve"] == curve]
            us, recall = zip(*here)
            axis.semilogx(us, recall, "o-" if ours else "s--", color=COLOURS[kind % len(COLOURS)], label=curve, ms=4)
        axis.axhline(LEARNS, color="grey", lw=0.8, ls=":")
        axis.set_title(f"words written along {of}", fontsize=10)
        axis.set_xlabel("us per step, four heads")
        axis.set_ylabel("recall of all K")
        axis.legend(frameon=False, fontsize=7)
    if timed:
        axis = axes[0][len(sets)]
        for colour, name in zip(COLOURS, ("exact", "scan", "auto", "nn.LSTM")):
            rows = found["steps: pre-loaded"]["rows"]
            axis.loglog([r["words"] for r in rows], [r["us"][name] for r in rows], "o-", color=colour, label=name, ms=4)
        axis.set_xlabel("words in memory, pre-loaded")
        axis.set_ylabel("us per step, forward and backward, B = 8")
        axis.legend(frameon=False, fontsize=7)
    save(figure, path)
