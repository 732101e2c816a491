"""`sparsam bench ann`: what the approximate indexes find among words that a trained model wrote, and how long it takes.

Speed is quoted for the fastest index whose recall of all K on trained words is at least 0.95 (`LEARNS`), with its
default settings. Random words (figure 1a) stand beside them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsam
from benchmarks import ann_long, benchmark, trained_words
from benchmarks.correct import require_equal
from benchmarks.recall import replayed
from benchmarks.report import Line, Report
from benchmarks.setting import BATCH, STEPS, lstm_step, model_of, training_step
from benchmarks.speed import dense_step, filled_step
from benchmarks.timing import take_turns
from sparsam import indexes
from sparsam.engines.native.index import core_settings

MILLION, TEN_THOUSAND = 1_000_000, 10_000
WIDTH, K = 32, 4
NOISE = 0.3  # of a stored word's norm, added to make a query of it
LEARNS = 0.95  # recall of all K, heads apart, that an index must reach for its speed to count
KINDS: dict[str, indexes.Index] = {"scan": sparsam.Scan(), "LSH": sparsam.LSH(), "k-d forest": sparsam.KDForest()}
TRADE_OFFS: dict[str, list[indexes.Index]] = {
    "scan, checks": [sparsam.Scan(checks=n) for n in (8, 16, 32, 64, 128)],
    "LSH, probes": [sparsam.LSH(probes=n, checks=max(32, n // 2)) for n in (48, 192, 768, 3072)],
    "k-d forest, checks": [sparsam.KDForest(checks=n) for n in (32, 128, 512, 2048)],
}
PAIRS = (4_096, 50_000, 200_000)  # of the trained model


@benchmark("Time and recall of SAM with an approximate index over a memory full of words (figure 1a, 'SAM ANN').")
def run(out: Path, quick: bool = False) -> Report:
    """Check, time, print, and write ann.json and ann.png."""
    report = Report("ann")
    print(f"native equals reference to {require_equal('sam'):.0e}")
    for name in ("scan", "lsh", "kdtree"):
        print(f"{name}: gradients equal the reference's for the same selections to {require_replayed(name):.0e}")
    large = 100_000 if quick else MILLION
    seconds = 5.0 if quick else 20.0
    trained = {pairs: trained_words.written(pairs) for pairs in ((1_000, 4_096) if quick else PAIRS)}
    on_trained = {
        name: {pairs: on_written(data, index) for pairs, data in trained.items()} for name, index in KINDS.items()
    }
    report.raw["trained words"] = on_trained
    for name, by_pairs in on_trained.items():
        for pairs, row in by_pairs.items():
            lowest = min(row["recall of K by head"])
            bound = LEARNS if name == "scan" else 0.9
            report.add(Line(f"{name}: recall@K, {pairs:,} pairs, lowest head", lowest, "", bound, at_most=False))
    wrong = ann_long.bits_wrong(1_000 if quick else 4_096)
    report.raw["bits wrong, 64 cues"] = wrong
    for name, bits in wrong.items():
        report.add(Line(f"{name}: bits wrong of 64 cues beyond exact search's", bits - wrong["linear"], "bits", 2))
    words = random_words(large)
    found = {name: measure(words, index, quick) for name, index in KINDS.items()}
    report.raw["index alone"] = found
    times, fastest = step_times(words, seconds)
    report.raw["us per step"], report.raw["us per step, fastest"] = times, fastest
    learns = [name for name in KINDS if all(min(r["recall of K by head"]) >= LEARNS for r in on_trained[name].values())]
    better = min(learns, key=lambda name: times[name])
    print(
        f"  the fastest index that learns: {better}; us per step: "
        + ", ".join(f"{k} {v:,.0f}" for k, v in times.items())
    )
    ann, label = times[better], f"N = {large:,} filled"
    report.add(Line(f"{better} step over nn.LSTM step, {label}", ann / times["nn.LSTM"], bound=10, paper="7 ms in all"))
    report.add(Line("the same, fastest of each", fastest[better] / fastest["nn.LSTM"]))
    exact = filled_step(large) * 1e6
    report.raw["us per step"]["exact"] = exact
    report.add(
        Line(f"exact-search step over {better} step, {label}", exact / ann, bound=None if quick else 50, at_most=False)
    )
    dense_size = 16_384 if quick else MILLION
    ntm = dense_step("ntm", dense_size)["seconds"] * 1e6
    report.raw["us per step"][f"NTM {dense_size:,}"] = ntm
    most = None if quick else 5_000  # targets are for the full size
    report.add(
        Line(f"NTM step (N = {dense_size:,}) over {better} step", ntm / ann, bound=most, at_most=False, paper="1,600")
    )
    report.add(Line(f"top-1 recall of {better}, {label}", found[better]["recall"], "", bound=0.95, at_most=False))
    report.add(Line(f"recall of all K = {K}", found[better]["recall of K"], ""))
    growth = ann / times[f"{better} 10,000"]
    report.add(Line(f"growth of the {better} step from N = 10,000 to {large:,}", growth, bound=3))
    for name in KINDS:
        report.add(Line(f"{name}: insert + remove of one word", found[name]["us insert + remove"], "us", bound=2))
        report.add(Line(f"{name}: bytes per word", found[name]["bytes per word"], "bytes"))
    tenths = long_sequence(10_000 if quick else 100_000)
    report.raw["us per step, each tenth of a long sequence"] = tenths
    ratio = tenths[-1] / tenths[0]
    report.add(Line(f"T = {10_000 if quick else 100_000:,}, blank 2,000,000: last tenth over first", ratio, bound=2))
    report.raw["over N"] = over_sizes(quick)
    sizes = sorted(report.raw["over N"]["exact"])
    report.raw["auto"] = {"exact until": indexes.CROSSOVER}
    beaten = [n for n in sizes if report.raw["over N"]["scan"][n]["us"] < report.raw["over N"]["exact"][n]["us"]]
    report.add(
        Line("filled words from which on a scan beats exact search", min(beaten, default=large), "", bound=16_000)
    )
    middle = trained[min(trained, key=lambda pairs: abs(pairs - 50_000))]
    report.raw["trade-off"] = {name: [on_written(middle, each) for each in row] for name, row in TRADE_OFFS.items()}
    _plot(report.raw, out / "ann.png")
    print(report.table())
    print(report.write(out))
    return report


def require_replayed(index: str) -> float:
    """Outputs and gradients with an index against the reference that is handed the same selections."""
    model = sparsam.SAM(4, 3, hidden_size=20, memory_size=60, word_size=8, index=index, engine="native").double()
    x = torch.randn(30, 3, 4, dtype=torch.float64)
    worst = 0.0
    results = []
    for each in (model, replayed(model, x)):
        y, _ = each(x)
        loss = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()
        results.append([y.detach(), *torch.autograd.grad(loss, list(each.parameters()))])
    for ours, theirs in zip(*results):
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)))
    if not worst <= 1e-9:
        raise RuntimeError(f"index {index!r} differs from the reference by {worst:.1e}; not timing it")
    return worst


def random_words(rows: int, seed: int = 0) -> np.ndarray:
    words = np.random.default_rng(seed).standard_normal((rows, WIDTH), dtype=np.float32)
    return words / np.linalg.norm(words, axis=1, keepdims=True)


def noisy_queries(words: np.ndarray, count: int, seed: int = 1) -> np.ndarray:
    """Stored words plus noise, of unit length."""
    random = np.random.default_rng(seed)
    queries = words[random.integers(len(words), size=count)]
    noise = random.standard_normal(queries.shape, dtype=np.float32)
    queries = queries + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return queries / np.linalg.norm(queries, axis=1, keepdims=True)


def nearest(words: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The K most similar rows of each query, most similar first."""
    rows = []
    for some in np.array_split(queries, max(1, len(queries) // 50)):
        scores = some @ words.T
        top = np.argpartition(-scores, K, axis=1)[:, :K]
        rows.append(np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1), 1))
    return np.concatenate(rows)


def measure(words: np.ndarray, index: indexes.Index, quick: bool = False) -> dict[str, Any]:
    """An index by itself over words that are all there: build, query, change, recall."""
    from sparsam import _native

    made = _native.ArrayIndex(words, core_settings(index))
    rows = np.arange(len(words), dtype=np.int32)
    begin = time.perf_counter()
    made.build(rows, torch.get_num_threads())
    build = time.perf_counter() - begin
    queries = noisy_queries(words, 300 if quick else 1000)
    truth = nearest(words, queries)
    proposed = [set(made.query(query)) for query in queries]
    # New queries and rows in each pass: those of the pass before would come out of the caches.
    timed = np.array_split(noisy_queries(words, 5 * len(queries), seed=2), 5)
    changed = np.array_split(np.random.default_rng(2).permutation(len(words))[: 2 * 5 * 5000].astype(np.int32), 10)
    return {
        "index": repr(index),
        "seconds to build": build,
        "us per query": _us_each(made.nearest, timed),
        "us insert + remove": _us_each(made.churn, changed[:5]),
        "us update": _us_each(made.update_all, changed[5:]),
        "bytes per word": made.bytes / len(words),
        "recall": float(np.mean([row in found for row, found in zip(truth[:, 0].tolist(), proposed)])),
        "recall of K": float(np.mean([row in found for some, found in zip(truth, proposed) for row in some.tolist()])),
    }


def on_written(data: trained_words.Written, index: indexes.Index) -> dict[str, Any]:
    """An index by itself over words that a trained model wrote, asked what that model asks."""
    from sparsam import _native

    made = _native.ArrayIndex(data.words, core_settings(index))
    made.build(np.arange(len(data.words), dtype=np.int32), 1)
    shares = trained_words.recall_by_head(made, data)
    steps = np.array_split(data.queries, 4)
    changed = np.random.default_rng(3).permutation(len(data.words))[:5000].astype(np.int32)
    row = {
        "index": repr(index),
        "words": len(data.words),
        "recall of K by head": shares,
        "recall of K": float(np.mean(shares)),
        "us per step, all heads": _us_each(
            lambda some: made.nearest(np.ascontiguousarray(some.reshape(-1, data.words.shape[1])), data.heads), steps
        ),
        "us insert + remove": _us_each(made.churn, [changed]),
        "bytes per word": made.bytes / len(data.words),
    }
    print(f"  {data.pairs:,} pairs, {row['words']:,} words: {row}", flush=True)
    return row


def _us_each(call: Any, passes: list[np.ndarray]) -> float:
    """Microseconds for each of a pass's items, median over the passes.

    Processor time of one thread: other work on the machine does not count.
    """
    times = []
    for items in passes:
        begin = time.thread_time()
        call(items)
        times.append((time.thread_time() - begin) / len(items) * 1e6)
    return float(np.median(times))


def step_times(words: np.ndarray, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds per training step, median and fastest, all candidates in turn."""
    calls: dict[str, Any] = {"nn.LSTM": lstm_step()}
    for name, index in KINDS.items():
        calls[name] = loaded_step(words, index)
        calls[f"{name} 10,000"] = loaded_step(words[:TEN_THOUSAND], index)
    times = take_turns(calls, seconds)
    medians = {name: timing.median / STEPS * 1e6 for name, timing in times.items()}
    return medians, {name: timing.fastest / STEPS * 1e6 for name, timing in times.items()}


def loaded_step(words: np.ndarray, index: indexes.Index) -> Any:
    """A training step from a memory full of these words; the index over them is made before the clock starts."""
    model = model_of("sam", len(words), index=index)
    state = model.initial_state(BATCH, torch.from_numpy(np.ascontiguousarray(words)))
    return training_step(model, state=state)


def long_sequence(steps: int, rows: int = 2_000_000) -> list[float]:
    """Microseconds per step (processor time), forward, in each tenth of a sequence from a blank memory, B = 1."""
    model = model_of("sam", rows, index=sparsam.Scan())
    spent, state = [], None
    with torch.no_grad():
        for _ in range(10):
            x = torch.randn(steps // 10, 1, 8)
            begin = time.thread_time()
            _, state = model(x, state)
            spent.append((time.thread_time() - begin) / (steps // 10) * 1e6)
    return spent


def over_sizes(quick: bool) -> dict[str, Any]:
    """Microseconds per training step, and recall, over N."""
    found: dict[str, Any] = {name: {} for name in KINDS}
    sizes = (1_000, 4_000, 16_000, 100_000) if quick else (1_000, 4_000, 16_000, 100_000, MILLION)
    for rows in sizes:
        words = random_words(rows)
        calls = {name: loaded_step(words, index) for name, index in KINDS.items()}
        times = take_turns(calls, 2.0)
        for name, index in KINDS.items():
            row = {"us": times[name].median / STEPS * 1e6, "recall": measure(words, index, True)["recall of K"]}
            found[name][rows] = row
            print(f"  {name}, N = {rows:,}: {row['us']:,.0f} us per step, recall@K {row['recall']:.3f}", flush=True)
    found["exact"] = {rows: {"us": filled_step(rows) * 1e6} for rows in sizes}
    return found


def _plot(raw: dict[str, Any], path: Path) -> None:
    from sparsam.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(12, 3.8, columns=3)
    times, recalls, trade = axes[0]
    for colour, (name, points) in zip(COLOURS, raw["over N"].items()):
        sizes = sorted(points)
        times.loglog(sizes, [points[size]["us"] for size in sizes], "o-", color=colour, label=name)
        if name in KINDS:
            recalls.semilogx(sizes, [points[size]["recall"] for size in sizes], "o-", color=colour, label=name)
    times.set_ylabel("us per step, forward and backward, B = 8")
    recalls.set_ylabel("recall of K, random words")
    for axis in (times, recalls):
        axis.set_xlabel("words in memory, N, all filled")
        axis.legend(frameon=False)
    for colour, (name, points) in zip(COLOURS, raw["trade-off"].items()):
        us, recall = ([p[what] for p in points] for what in ("us per step, all heads", "recall of K"))
        trade.semilogx(us, recall, "o-", color=colour, label=name)
    trade.set_xlabel("us per step, four heads")
    trade.set_ylabel("recall of K, trained words")
    trade.legend(frameon=False)
    save(figure, path)
