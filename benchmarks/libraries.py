"""`sparsam bench libraries`: our indexes beside faiss, hnswlib and usearch, in what a step asks of one.

A step changes 36 words and asks for the 4 most similar to each of 4 queries. Ours is a whole step of the memory, which
reads and writes too, with 4 heads and K = 8; a library is given changes and queries one at a time. One thread each,
processor time, words of 32 numbers: random ones, asked near a word, and those that a trained model wrote along a
sequence, with what it asked. Recall is of the 4 most similar, over all queries.

The libraries come with `pip install ".[bench-ann]"`; those that are not there are left out. What was measured is
kept in `<out>/libraries_parts` and not measured again.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsam
from benchmarks import benchmark
from benchmarks.ann_words import drawn, words_of
from benchmarks.report import Line, Report
from benchmarks.timing import QUIET, Watch, threads
from benchmarks.trained_words import Written, nearest
from sparsam import indexes
from sparsam.trace import READ

SIZES = {100_000: "33,500 pairs", 1_000_000: "334,000 pairs"}  # words, and the sequence along which a model writes them
CHANGED, K = 36, 4
REPEATS, STEPS = 7, 40  # of ours; a library's steps are timed one by one
OURS: dict[str, indexes.Index] = {
    "exact": sparsam.Linear(),
    "auto": sparsam.Auto(),
    "lsh": sparsam.LSH(),
    "kdtree": sparsam.KDForest(),
}
EQUAL = 0.005  # of recall
Found = dict[str, Any]
WIDTH = 32
LISTS, TRAINED_ON = 1_024, 50_000  # of faiss's inverted lists
NEIGHBOURS, BUILD_EF = 16, 100  # of the graphs: their usual settings
GRAPHS_UP_TO = 100_000  # words: they take minutes to build there


@dataclass(frozen=True)
class Contender:
    """One library. `update` gives rows new words, `query` returns the k most similar rows of each of the queries."""

    name: str
    knob: str
    settings: Sequence[int]  # of the knob
    set: Callable[[int], object]
    build: Callable[[np.ndarray], object]
    update: Callable[[np.ndarray, np.ndarray], object]
    query: Callable[[np.ndarray, int], np.ndarray]

    def label(self, setting: int) -> str:
        return f"{self.name}, {self.knob} = {setting}" if self.knob else self.name


def library(name: str) -> Any:
    """A module that need not be there."""
    return importlib.import_module(name)


def hnswlib_graph(words: np.ndarray) -> Contender:
    graph: Any = library("hnswlib").Index(space="ip", dim=WIDTH)
    graph.init_index(max_elements=len(words), ef_construction=BUILD_EF, M=NEIGHBOURS)
    graph.set_num_threads(1)
    return Contender(
        f"hnswlib, M = {NEIGHBOURS}",
        "ef",
        (32, 512),
        graph.set_ef,
        lambda all_words: graph.add_items(all_words, np.arange(len(all_words))),
        lambda rows, new: graph.add_items(new, rows),
        lambda queries, k: np.concatenate([graph.knn_query(each[None], k=k)[0] for each in queries]),
    )


def usearch_graph(words: np.ndarray) -> Contender:
    settings = {"connectivity": NEIGHBOURS, "expansion_add": BUILD_EF, "expansion_search": 64}
    graph: Any = library("usearch.index").Index(ndim=WIDTH, metric="ip", **settings)

    def update(rows: np.ndarray, new: np.ndarray) -> None:
        for row, word in zip(rows.tolist(), new):
            graph.remove(row)
            graph.add(row, word)

    def set_expansion(value: int) -> None:
        graph.expansion_search = value

    def query(queries: np.ndarray, k: int) -> np.ndarray:
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for i, each in enumerate(queries):
            keys = graph.search(each, k, threads=1).keys
            found[i, : len(keys)] = keys
        return found

    return Contender(
        f"usearch, M = {NEIGHBOURS}",
        "expansion",
        (32, 512),
        set_expansion,
        lambda all_words: graph.add(np.arange(len(all_words)), all_words, threads=1),
        update,
        query,
    )


def faiss_lists(words: np.ndarray) -> Contender:
    faiss = library("faiss")
    faiss.omp_set_num_threads(1)
    coarse = faiss.IndexFlatIP(WIDTH)
    lists = faiss.IndexIVFFlat(coarse, WIDTH, LISTS, faiss.METRIC_INNER_PRODUCT)

    def build(all_words: np.ndarray) -> None:
        lists.train(all_words[:: max(1, len(all_words) // TRAINED_ON)])
        lists.add(all_words)
        lists.set_direct_map_type(faiss.DirectMap.Array)

    def probe(lists_read: int) -> None:
        lists.nprobe = lists_read

    return Contender(
        f"faiss IVF, {LISTS:,} lists",
        "probed",
        (8, 32, 128, 512),
        probe,
        build,
        lambda rows, new: lists.update_vectors(rows.astype(np.int64), new),
        lambda queries, k: np.concatenate([lists.search(each[None], k)[1] for each in queries]),
    )


def faiss_exact(words: np.ndarray) -> Contender:
    faiss = library("faiss")
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(WIDTH)

    def update(rows: np.ndarray, new: np.ndarray) -> None:
        faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * WIDTH).reshape(-1, WIDTH)[rows] = new

    return Contender(
        "faiss, exact",
        "",
        (0,),
        lambda _: None,
        flat.add,
        update,
        lambda queries, k: np.concatenate([flat.search(each[None], k)[1] for each in queries]),
    )


def contenders(words: np.ndarray) -> Iterator[Contender]:
    """Those that are installed, the quickest to build first."""
    graphs = (hnswlib_graph, usearch_graph) if len(words) <= GRAPHS_UP_TO else ()
    for make in (faiss_exact, faiss_lists, *graphs):
        try:
            yield make(words)
        except ImportError as error:
            print(f"(left out: {error})", flush=True)


@benchmark("Our indexes compared with faiss, hnswlib and usearch.", threads=False)
def run(out: Path, quick: bool = False) -> Report:
    """Measure what was not measured before, print, and write libraries.json, after each set of words."""
    report = Report("libraries", watch=None)
    points = report.raw["points"] = {}
    with threads(1):
        for count, sequence in [(10_000, "4,096 pairs")] if quick else SIZES.items():
            for kind in ("random", "trained"):
                label = f"{kind}, {count:,} words"
                kept = out / "libraries_parts" / f"{kind}-{count}.json"
                data = drawn(count) if kind == "random" else first(words_of(sequence, out / "ann_words"), count)
                points[label] = measured(data, kept, label)
                compare(report, label, points[label])
                path = report.write(out)
    print(report.table())
    print(path)
    return report


def first(data: Written, count: int) -> Written:
    """The first so many of the words, and what is nearest among them."""
    words = np.ascontiguousarray(data.words[:count])
    if len(words) < count:
        raise ValueError(f"count: expected at most the {len(words):,} words that were written, got {count:,}")
    return Written(data.pairs, words, data.queries, nearest(words, data.queries, K))


def measured(data: Written, kept: Path, label: str) -> list[Found]:
    """All points over one set of words; each is on disk as soon as it is there."""
    points: list[Found] = json.loads(kept.read_text()) if kept.exists() else []
    done = {point["name"] for point in points}

    def keep(some: Iterator[Found]) -> None:
        watch = Watch()
        for point in some:
            points.append(point | {"others used, cores": watch.read()})
            print(f"  {label}, {point['name']}, {point['us']:,.0f} us, recall {point['recall']:.3f}", flush=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(points))

    if not done.issuperset(OURS):
        points[:] = [point for point in points if point["name"] not in OURS]
        keep(ours(data))
    for contender in contenders(data.words):
        if contender.label(contender.settings[0]) not in done:
            keep(beside(data, contender))
    return points


def ours(data: Written) -> Iterator[Found]:
    """A step of the memory with each index, over these words, which it starts with."""
    words = torch.from_numpy(data.words)
    truth = None
    for name, index in OURS.items():
        module = sparsam.SparseMemory(1, memory_size=len(words), k=CHANGED // data.heads - 1, conv=0, index=index)
        vectors, at = torch.zeros(STEPS, 1, module.memory.interface.size), module.memory.interface.offsets()
        queries = torch.from_numpy(data.queries[:STEPS].reshape(STEPS, -1))
        for field, value in (("query", queries), ("write_word", queries.flip(0)), ("write_gate", 20.0)):
            vectors[:, 0, at[field] :][:, : queries.shape[1] if field != "write_gate" else data.heads] = value
        vectors[:, 0, at["interpolation"] :][:, : data.heads] = -20.0  # what is new goes to the least recent words
        plan, state = module.plan, module.initial_state(1, initial_memory=words)
        spent = []
        with torch.no_grad():
            ran = plan.engine.steps(plan.memory, vectors, state, None, True)  # makes the index
            for _ in range(REPEATS):
                begin = time.thread_time()
                plan.engine.steps(plan.memory, vectors, state, None, False)
                spent.append((time.thread_time() - begin) / STEPS * 1e6)
        rows = next(access.rows for access in ran.accesses if access.kind == READ)[:, 0, :, :K].numpy()
        truth = rows if truth is None else truth  # exact search comes first
        yield {"name": name, "setting": repr(index), "us": float(np.median(spent)), "recall": share(truth, rows)}


def beside(data: Written, contender: Contender) -> Iterator[Found]:
    """A library over the same words, at each of its settings."""
    random, held = np.random.default_rng(3), data.words.copy()
    begin = time.thread_time()
    contender.build(held)
    build = time.thread_time() - begin
    for setting in contender.settings:
        contender.set(setting)
        updates, asked, found, truth = [], [], [], []
        for queries in data.queries[:STEPS]:
            rows = random.choice(len(held), CHANGED, replace=False)
            new = held[rows] = held[np.roll(rows, 1)]  # so that no word is there twice
            begin = time.thread_time()
            contender.update(rows, new)
            updates.append(time.thread_time() - begin)
            begin = time.thread_time()
            found.append(contender.query(queries, K))
            asked.append(time.thread_time() - begin)
            truth.append(nearest(held, queries, K))
        us = [float(np.median(each)) * 1e6 for each in (updates, asked)]
        yield {
            "name": contender.label(setting),
            "us": sum(us),
            "us updates": us[0],
            "us queries": us[1],
            "recall": share(np.array(truth), np.array(found)),
            "seconds to build": build,
        }


def share(truth: np.ndarray, found: np.ndarray) -> float:
    """Of the true rows (..., K), those that were found."""
    return float((truth[..., :, None] == found[..., None, :]).any(-1).mean())


def compare(report: Report, label: str, points: Sequence[Found]) -> None:
    """Each of our indexes beside the fastest library that finds as much."""
    busy = max(point["others used, cores"] or 0.0 for point in points)
    unsure = f"other processes used {busy:.1f} cores" if busy > QUIET else ""
    for point in points:
        if point["name"] not in OURS:
            continue
        report.add(Line(f"{point['name']}: recall@{K}, {label}", point["recall"], ""))
        report.add(Line(f"{point['name']}: a step, {label}", point["us"], "us", unsure=unsure))
        as_good = [p for p in points if p["name"] not in OURS and p["recall"] >= point["recall"] - EQUAL]
        if not as_good:
            continue
        best = min(as_good, key=lambda p: p["us"])
        bound = 5.0 if label.startswith("trained") and point["name"] != "exact" else None
        report.add(
            Line(
                f"{point['name']}: {best['name']} over it, {label}",
                best["us"] / point["us"],
                bound=bound,
                at_most=False,
                times=f"{best['us']:,.4g} / {point['us']:,.4g} us",
                unsure=unsure,
            )
        )
