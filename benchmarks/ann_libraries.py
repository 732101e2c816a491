"""faiss, hnswlib and usearch in what a step of SAM asks of an index: a few queries, many updates. One thread each.

They come with `pip install "sparsam[bench-ann]"`; those that are not there are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WIDTH = 32
LISTS, TRAINED_ON = 1_024, 50_000  # of faiss's inverted lists
NEIGHBOURS, BUILD_EF = 16, 100  # of the graphs: their usual settings


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
    bytes: Callable[[], int]

    def label(self, setting: int) -> str:
        return f"{self.name}, {self.knob} = {setting}" if self.knob else self.name


def hnswlib_graph(words: np.ndarray) -> Contender:
    import hnswlib  # type: ignore[import-not-found]

    graph = hnswlib.Index(space="ip", dim=WIDTH)
    graph.init_index(max_elements=len(words), ef_construction=BUILD_EF, M=NEIGHBOURS)
    graph.set_num_threads(1)
    return Contender(
        f"hnswlib, M = {NEIGHBOURS}",
        "ef",
        (8, 32, 128, 512, 2_048),
        graph.set_ef,
        lambda all_words: graph.add_items(all_words, np.arange(len(all_words))),
        lambda rows, new: graph.add_items(new, rows),
        lambda queries, k: np.concatenate([graph.knn_query(each[None], k=k)[0] for each in queries]),
        lambda: int(graph.index_file_size()),
    )


def usearch_graph(words: np.ndarray) -> Contender:
    from usearch.index import Index  # type: ignore[import-not-found]

    graph = Index(ndim=WIDTH, metric="ip", connectivity=NEIGHBOURS, expansion_add=BUILD_EF, expansion_search=64)

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
        (8, 32, 128, 512, 2_048),
        set_expansion,
        lambda all_words: graph.add(np.arange(len(all_words)), all_words, threads=1),
        update,
        query,
        lambda: int(graph.memory_usage),
    )


def faiss_lists(words: np.ndarray) -> Contender:
    import faiss  # type: ignore[import-not-found]

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
        lambda: int(lists.ntotal * (WIDTH * 4 + 8) + LISTS * WIDTH * 4),  # words and their numbers in lists
    )


def faiss_exact(words: np.ndarray) -> Contender:
    import faiss  # type: ignore[import-not-found]

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
        lambda: int(flat.ntotal * WIDTH * 4),
    )


def contenders(words: np.ndarray) -> Iterator[Contender]:
    """Those that are installed, the quickest to build first."""
    for make in (faiss_exact, faiss_lists, hnswlib_graph, usearch_graph):
        try:
            yield make(words)
        except ImportError as error:
            print(f"(left out: {error})", flush=True)
