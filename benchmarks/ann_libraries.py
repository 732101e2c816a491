"""Our indexes beside faiss, hnswlib and usearch, in what a step of SAM asks of an index: a few queries, many updates.

    pip install "sparsam[bench-ann]" && python -m benchmarks.ann_libraries

One thread, words of width 32 and unit length, queries a stored word plus noise of 0.3 of its norm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import sparsam
from benchmarks.ann import WIDTH, nearest, noisy_queries, random_words
from sparsam.engines.native.index import core_settings

ROWS, QUERIES, UPDATES = 200_000, 500, 500


@dataclass(frozen=True)
class Contender:
    """One library with one setting: `update` gives rows new words, `query` returns the most similar row of each."""

    name: str
    build: Callable[[np.ndarray], object]
    update: Callable[[np.ndarray, np.ndarray], object]
    query: Callable[[np.ndarray], np.ndarray]


def ours(name: str, index: sparsam.indexes.Index, words: np.ndarray) -> Contender:
    from sparsam import _native

    words = words.copy()
    made = _native.ArrayIndex(words, core_settings(index))

    def update(rows: np.ndarray, new: np.ndarray) -> None:
        words[rows] = new
        made.update_all(rows.astype(np.int32))

    return Contender(
        f"sparsam, {name}",
        lambda _: made.build(np.arange(len(words), dtype=np.int32)),
        update,
        lambda queries: np.array(made.nearest(queries)),
    )


def hnswlib_graph(words: np.ndarray) -> Contender:
    import hnswlib  # type: ignore[import-not-found]

    graph = hnswlib.Index(space="ip", dim=WIDTH)
    graph.init_index(max_elements=len(words), ef_construction=100, M=16)
    graph.set_num_threads(1)
    graph.set_ef(64)
    return Contender(
        "hnswlib, M = 16, ef = 64",
        lambda all_words: graph.add_items(all_words, np.arange(len(all_words))),
        lambda rows, new: graph.add_items(new, rows),
        lambda queries: graph.knn_query(queries, k=1)[0][:, 0],
    )


def usearch_graph(words: np.ndarray) -> Contender:
    from usearch.index import Index  # type: ignore[import-not-found]

    graph = Index(ndim=WIDTH, metric="ip", connectivity=16, expansion_add=100, expansion_search=64)

    def update(rows: np.ndarray, new: np.ndarray) -> None:
        for row, word in zip(rows.tolist(), new):
            graph.remove(row)
            graph.add(row, word)

    return Contender(
        "usearch, M = 16, ef = 64",
        lambda all_words: graph.add(np.arange(len(all_words)), all_words, threads=1),
        update,
        lambda queries: np.array([graph.search(query, 1, threads=1).keys[0] for query in queries]),
    )


def faiss_lists(words: np.ndarray, probes: int) -> Contender:
    import faiss  # type: ignore[import-not-found]

    faiss.omp_set_num_threads(1)
    coarse = faiss.IndexFlatIP(WIDTH)
    lists = faiss.IndexIVFFlat(coarse, WIDTH, 1024, faiss.METRIC_INNER_PRODUCT)
    lists.nprobe = probes

    def build(all_words: np.ndarray) -> None:
        lists.train(all_words[:50_000])
        lists.add(all_words)
        lists.set_direct_map_type(faiss.DirectMap.Array)

    def query(queries: np.ndarray) -> np.ndarray:  # one at a time, as a step asks
        return np.array([lists.search(each[None], 1)[1][0, 0] for each in queries])

    return Contender(
        f"faiss IVF, 1,024 lists, {probes} probed",
        build,
        lambda rows, new: lists.update_vectors(rows.astype(np.int64), new),
        query,
    )


def faiss_exact(words: np.ndarray) -> Contender:
    import faiss  # type: ignore[import-not-found]

    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(WIDTH)

    def update(rows: np.ndarray, new: np.ndarray) -> None:
        faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * WIDTH).reshape(-1, WIDTH)[rows] = new

    return Contender(
        "faiss, exact",
        flat.add,
        update,
        lambda queries: np.array([flat.search(each[None], 1)[1][0, 0] for each in queries]),
    )


def contenders(words: np.ndarray) -> Iterator[Contender]:
    yield ours("LSH", sparsam.LSH(), words)
    yield ours("k-d forest", sparsam.KDForest(), words)
    for make in (hnswlib_graph, usearch_graph, faiss_exact, lambda w: faiss_lists(w, 8), lambda w: faiss_lists(w, 32)):
        try:
            yield make(words)
        except ImportError as error:
            print(f"(left out: {error})")


def main() -> None:
    words = random_words(ROWS)
    rows = np.random.default_rng(3).permutation(ROWS)[:UPDATES]
    new = random_words(UPDATES, seed=4)
    after = words.copy()
    after[rows] = new
    queries = noisy_queries(after, QUERIES)
    truth = nearest(after, queries)[:, 0]
    print("| index | build, s | update, us | query, us | top-1 recall | 20 updates + 4 queries, us |")
    print("|---|---|---|---|---|---|")
    for each in contenders(words):
        build = _seconds(each.build, words)
        update = _seconds(each.update, rows, new) / UPDATES * 1e6
        query = min(_seconds(each.query, queries) for _ in range(3)) / QUERIES * 1e6
        recall = float(np.mean(each.query(queries) == truth))
        step = 20 * update + 4 * query
        print(f"| {each.name} | {build:.2f} | {update:.3g} | {query:.3g} | {recall:.3f} | {step:,.0f} |", flush=True)


def _seconds(call: Callable[..., object], *arguments: np.ndarray) -> float:
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
