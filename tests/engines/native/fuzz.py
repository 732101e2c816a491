"""Malformed direct calls of `_native`, in a process of its own: `python tests/engines/native/fuzz.py FIRST LAST`.

Each case takes a good call and spoils one or two of its arguments. A call has to raise an error that names one of them;
what was spoiled may also be good by chance, and then the call has to return. Prints a line before each case, so that a
crash can be told.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sparsam.engines.native.core import native

T, B, INPUTS, H = 3, 2, 4, 5
BIG = (-(2**70), -(2**63), -(2**31) - 1, -1, 0, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, 2**70)
JUNK = (
    None,
    "x",
    b"x",
    1.5,
    float("nan"),
    float("inf"),
    [],
    {},
    (),
    object(),
    True,
    7,
    [1, 2],
    np.zeros(0),
    np.float32(1),
)


class Trial(NamedTuple):
    """A call, and the names of which its error has to say one."""

    call: Callable[[], Any]
    names: tuple[str, ...]


def sizes(rng: random.Random, links: bool, free: bool = False) -> Any:
    settings = rng.choice([None, None, native.IndexSettings("lsh", {}), native.IndexSettings("kdtree", {})])
    k_links = 3 if links else 0
    return native.Sizes(
        8, 3, 2, 2, native.Similarity.cosine, 0.005, k_links, links and rng.random() < 0.5, free, settings
    )


class Wrapper(torch.Tensor):
    """A tensor without numbers of its own."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("a wrapper")


MKLDNN = torch.backends.mkldnn.is_available()
# PyTorch's tensor of the same numbers, or one that has none where the core looks.
SPOILED_TENSORS: tuple[Callable[[torch.Tensor, random.Random], Any], ...] = (
    lambda good, rng: good.to_sparse() if good.dim() else good,
    lambda good, rng: good.to("meta"),
    lambda good, rng: good.to(rng.choice([torch.float16, torch.bfloat16, torch.complex64, torch.bool, torch.int32])),
    lambda good, rng: torch._neg_view(good),
    lambda good, rng: torch.complex(good.double(), good.double()).conj().imag,
    lambda good, rng: good[:1].expand_as(good) if good.dim() else good,
    lambda good, rng: good.mT if good.dim() > 1 else good,
    lambda good, rng: FakeTensorMode().from_tensor(good),
    lambda good, rng: Wrapper(good),
    lambda good, rng: good.flip(0)[..., ::2] if good.dim() else good,
    lambda good, rng: torch.nested.nested_tensor(list(good.float())) if good.dim() > 1 else good,
    lambda good, rng: good.reshape(1, 1, 1, 1, *good.shape),
    lambda good, rng: good.to_mkldnn() if good.dtype == torch.float32 and MKLDNN else good,
    lambda good, rng: good[:-1],
)
TYPES = [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, bool, object, "U3"]


def along(good: np.ndarray, rng: random.Random, part: slice) -> np.ndarray:
    """This part of some dimension."""
    return good[(slice(None),) * rng.randrange(good.ndim) + (part,)]


# An array that is wrong in one way, or a wrong thing altogether; the last is not aligned.
SPOILED_ARRAYS: tuple[Callable[[np.ndarray, random.Random], Any], ...] = (
    lambda good, rng: rng.choice(JUNK),
    lambda good, rng: good.astype(rng.choice(TYPES)),
    lambda good, rng: good.astype(good.dtype.newbyteorder()),
    lambda good, rng: np.concatenate([good, good], axis=rng.randrange(good.ndim)),
    lambda good, rng: along(good, rng, slice(0, -1)),
    lambda good, rng: along(good, rng, slice(None, None, -1)),
    lambda good, rng: np.repeat(good, 2, axis=-1)[..., ::2],
    lambda good, rng: good[None],
    lambda good, rng: good.reshape(-1),
    lambda good, rng: np.broadcast_to(good[:1], good.shape),
    lambda good, rng: np.frombuffer(b"\0" + good.tobytes(), good.dtype, count=0).reshape((0,) * good.ndim),
    lambda good, rng: np.frombuffer(bytearray(1) + bytearray(good.tobytes()), good.dtype, offset=1).reshape(good.shape),
)


def spoiled_array(rng: random.Random, good: Any) -> Any:
    """An array that is wrong in one way, a tensor, or a wrong thing altogether."""
    if isinstance(good, torch.Tensor):
        good = good.detach().numpy()
    if isinstance(good, np.ndarray) and good.dtype.kind in "fi" and good.flags.c_contiguous and rng.random() < 0.35:
        return rng.choice(SPOILED_TENSORS)(torch.from_numpy(np.array(good)), rng)  # contiguous, and writable
    spoil = rng.choice(SPOILED_ARRAYS)
    return spoil(good, rng) if isinstance(good, np.ndarray) else rng.choice(JUNK)


def spoiled_numbers(rng: random.Random, good: np.ndarray) -> np.ndarray:
    """Values out of range."""
    bad = good.copy()
    if bad.size:
        for _ in range(rng.randrange(1, 4)):
            bad.reshape(-1)[rng.randrange(bad.size)] = rng.choice(
                [-(2**62), -(2**31), -2, 8, 9, 17, 2**31, 2**40, 2**62]
            )
    return bad


def spoiled(rng: random.Random, good: Any) -> Any:
    if isinstance(good, torch.Tensor):
        good = good.detach().numpy()
    if isinstance(good, np.ndarray):
        if good.dtype == np.int64 and rng.random() < 0.5:
            return spoiled_numbers(rng, good)
        return spoiled_array(rng, good)
    if isinstance(good, bool) or good is None:
        return rng.choice(JUNK[1:])
    if isinstance(good, int):
        return rng.choice(BIG + JUNK[:8])
    if isinstance(good, list):
        return rng.choice([good[:-1], good + good, [], None, [None] * len(good), [1] * len(good), tuple, good[0]])
    return rng.choice(JUNK)


def forward_arguments(rng: random.Random, controller: str, s: Any, suffix: str) -> dict[str, Any]:
    dtype = np.float32 if suffix == "32" else np.float64
    numbers = lambda *shape: np.random.default_rng(rng.randrange(2**31)).standard_normal(shape).astype(dtype)  # noqa: E731
    blocks = {"none": 0, "lstm": 4, "gru": 3}[controller]
    hidden, inputs, rows = (H, INPUTS, blocks * H) if blocks else (0, s.interface_size, 0)
    width = s.heads * s.width
    shapes = {"w_ih": (rows, inputs + width), "w_hh": (rows, hidden), "b_ih": (rows,), "b_hh": (rows,)}
    shapes |= {"w_interface": (s.interface_size, hidden), "b_interface": (s.interface_size,)}
    version = getattr(native, f"Version{suffix}")
    return {
        "sizes": s,
        "memory": "sdnc" if s.k_links else "sam",
        "controller": controller,
        "hidden": hidden,
        "x": numbers(T, B, inputs),
        **{name: numbers(*shape) if blocks else None for name, shape in shapes.items()},
        "h0": numbers(B, hidden) if blocks else None,
        "c0": numbers(B, hidden) if controller == "lstm" else None,
        "read0": numbers(B, s.heads, s.width),
        "rows0": np.random.default_rng(1).integers(-1, s.rows, (B, s.heads, s.k)),
        "weights0": abs(numbers(B, s.heads, s.k)),
        "lengths": rng.choice([None, np.array([T, 0]), np.array([1, 2])]),
        "versions": [version.fresh(s) for _ in range(B)],
        "record": True,
        "trace": rng.random() < 0.5,
        "threads": rng.choice([1, 2]),
    }


def fuzz_forward(rng: random.Random) -> Trial:
    suffix, controller = rng.choice(["32", "64"]), rng.choice(["none", "lstm", "gru"])
    links = rng.random() < 0.6
    arguments = forward_arguments(rng, controller, sizes(rng, links, links and rng.random() < 0.4), suffix)
    chosen = rng.sample(list(arguments), rng.choice([1, 1, 2]))
    for name in chosen:
        if name == "versions" and rng.random() < 0.5:
            other = rng.choice([sizes(rng, not links), native.Sizes(9, 3, 2, 2, native.Similarity.dot, 0.0)])
            made = getattr(native, f"Version{rng.choice(['32', '64'])}").fresh(other)
            arguments[name] = [made, arguments[name][1]]
        elif name == "memory":
            arguments[name] = rng.choice([*native.memories, "dnc", 1, None])
        elif name == "controller":
            arguments[name] = rng.choice([*native.controllers, "LSTM", 1, None])
        elif name == "sizes":
            arguments[name] = rng.choice([sizes(rng, not links), None, 3, native.Similarity.dot])
        else:
            arguments[name] = spoiled(rng, arguments[name])
    # Other sizes, another controller or width are found out by what no longer fits them.
    everything = tuple(arguments) if {"sizes", "memory", "controller", "hidden", "x"} & set(chosen) else tuple(chosen)
    return Trial(lambda: getattr(native, f"forward{suffix}")(**arguments), everything)


def numbers_of(result: Any) -> Any:
    return result.numpy() if isinstance(result, torch.Tensor) else result


def fuzz_backward(rng: random.Random) -> Trial:
    suffix, controller = rng.choice(["32", "64"]), rng.choice(["none", "lstm", "gru"])
    s = sizes(rng, rng.random() < 0.6)
    forward = forward_arguments(rng, controller, s, suffix)
    record = getattr(native, f"forward{suffix}")(**forward)
    dtype = forward["x"].dtype
    joint, hidden, cell_, read, read_weights = map(numbers_of, record.outputs()[:5])
    weights = ("w_ih", "w_hh", "b_ih", "b_hh", "w_interface", "b_interface")
    arguments = {
        "record": record,
        "x": forward["x"],
        **{name: forward[name] for name in weights},
        "d_joint": np.ones_like(joint),
        "d_hidden": None if hidden is None else np.ones_like(hidden),
        "d_cell": None if cell_ is None else np.ones_like(cell_),
        "d_read": np.ones_like(read),
        "d_weights": np.ones_like(read_weights),
        "memory_at": np.array([[0, 1, 1], [0, 3, 7]]),
        "memory_words": np.ones((3, s.width), dtype),
        "link_at": np.array([[0, 1], [0, 16], [0, 7]]) if s.link_gradients else None,
        "link_values": np.ones(2, dtype) if s.link_gradients else None,
        "needs_x": True,
        "threads": 1,
    }
    chosen = rng.sample(list(arguments), rng.choice([1, 1, 2]))
    for name in chosen:
        if name == "record":
            other = "64" if suffix == "32" else "32"
            theirs = forward_arguments(rng, controller, s, other)
            unrecorded = getattr(native, f"forward{suffix}")(
                **forward_arguments(rng, controller, s, suffix) | {"record": False}
            )
            arguments[name] = rng.choice([None, 3, unrecorded, getattr(native, f"forward{other}")(**theirs)])
        else:
            arguments[name] = spoiled(rng, arguments[name])
    pairs = {
        "memory_at": "memory_words",
        "memory_words": "memory_at",
        "link_at": "link_values",
        "link_values": "link_at",
    }
    beside = [pairs[name] for name in chosen if name in pairs]
    everything = [*arguments, "state"] if "record" in chosen else [*chosen, *beside]
    return Trial(lambda: getattr(native, f"backward{suffix}")(**arguments), tuple(everything))


def fuzz_sizes(rng: random.Random) -> Trial:
    arguments: dict[str, Any] = {"rows": 8, "width": 3, "heads": 2, "k": 2, "similarity": native.Similarity.dot}
    arguments |= {
        "delta": 0.1,
        "k_links": 2,
        "link_gradients": True,
        "free_usage": False,
        "index": None,
        "erase": False,
    }
    chosen = rng.sample(list(arguments), rng.choice([1, 2]))
    for name in chosen:
        arguments[name] = rng.choice(BIG + JUNK + (-0.5, 1 << 17, 9))
    beside = {"rows": ("heads", "k"), "k_links": ("link_gradients", "free_usage")}
    return Trial(lambda: native.Sizes(**arguments), (*chosen, *(n for name in chosen for n in beside.get(name, ()))))


def fuzz_version(rng: random.Random) -> Trial:
    suffix = rng.choice(["32", "64"])
    links = rng.random() < 0.7
    s = sizes(rng, links, links and rng.random() < 0.5)
    dtype = np.float32 if suffix == "32" else np.float64
    version, initial = getattr(native, f"Version{suffix}"), getattr(native, f"Initial{suffix}")
    words = np.ones((s.rows, s.width), dtype)
    kind = rng.randrange(6)
    if kind == 0:
        wrong = [(0, 4), (-1, 4), (s, words), (s, initial(words[:-1])), (s, initial(words[:, :-1].copy())), (), (None,)]
        chosen = rng.choice(wrong)
        return Trial(lambda: version.fresh(*chosen), ("sizes", "initial", "words"))
    if kind == 1:
        return Trial(lambda: initial(spoiled(rng, words)), ("words",))
    if kind == 2:
        made = initial(words)
        return Trial(lambda: made.equals(spoiled_array(rng, words)), ("words",))
    if kind == 3:
        fresh = version.fresh(s)
        return Trial(lambda: fresh.candidates(spoiled_array(rng, words[0])), ("query",))
    arguments = forward_arguments(rng, "lstm", s, suffix)
    parts = getattr(native, f"forward{suffix}")(**arguments | {"lengths": None}).after[0].export()
    for name in rng.sample(list(parts), rng.choice([1, 1, 2])):
        what = rng.randrange(5)
        if what == 0:
            del parts[name]
        elif what == 1 and parts[name].ndim == 1 and parts[name].size > 1:
            parts[name][0] = parts[name][-1]  # twice
        elif what == 2:
            parts[rng.choice(["link_ids", "usage_rows", "more", "rows"])] = parts[name]
        elif what == 3 and parts[name].dtype == np.int32:
            parts[name].reshape(-1)[rng.randrange(parts[name].size)] = rng.choice([-(2**31), -2, 0, 1, 8, 2**31 - 1])
        else:
            parts[name] = spoiled(rng, parts[name])
    if rng.random() < 0.1:
        parts = rng.choice(JUNK)

    def restore_and_run() -> Any:
        restored = version.restored(s, None, parts)
        restored.export()
        again = getattr(native, f"forward{suffix}")(**arguments | {"versions": [restored, restored.copied()]})
        return again.after[0].export()

    return Trial(restore_and_run, PARTS)


PARTS = ("rows", "words", "recency", "link_ids", "link_columns", "link_weights", "usage_rows", "usage", "parts")


def spoiled_call(
    rng: random.Random, call: Callable[..., Any], arguments: dict[str, Any], arrays: tuple[str, ...]
) -> Trial:
    """One argument spoiled; of arrays that have to fit each other, any may be named."""
    name = rng.choice(list(arguments))
    changed = arguments | {name: spoiled(rng, arguments[name])}
    return Trial(lambda: call(**changed), arrays if name in arrays else (name,))


NUMBERS = {
    "kdtree": ("trees", "checks", "leaf", "seed"),
    "lsh": ("tables", "bits", "probes", "checks", "few", "seed"),
    "scan": ("checks", "seed"),
}


def fuzz_index(rng: random.Random) -> Trial:
    """Indexes by themselves: their settings, and every method with rows, words and queries that do not serve."""
    kind = rng.choice(list(NUMBERS))
    if rng.random() < 0.4:
        arguments: dict[str, Any] = {"kind": kind, "numbers": {}, "exact_until": 0}
        name = rng.choice(["kind", "numbers", "exact_until", *NUMBERS[kind]])
        if name in arguments:
            arguments[name] = rng.choice(BIG + JUNK + ("graph", {"depth": 3}, {3: 3}, {"checks": "x"}))
        else:
            arguments["numbers"] = {name: rng.choice((-(2**63), -(2**31), -1, 0, 33, 2**31, 2**62, 2**70, 1.5, None))}
        return Trial(lambda: native.IndexSettings(**arguments), (name, "numbers", "seed", "depth"))
    settings = native.IndexSettings(kind, {"checks": rng.choice([1, 4, 100])})
    words = np.random.default_rng(1).standard_normal((12, 4)).astype(np.float32)
    if rng.random() < 0.2:
        arguments = {"words": words, "settings": settings}
        return spoiled_call(rng, native.ArrayIndex, arguments, ("words",))
    index = native.ArrayIndex(words, settings)
    index.build(np.arange(6, dtype=np.int32))
    row = rng.choice([*BIG, *JUNK, 3, 7, 11, 12, 100])
    rows = rng.choice([np.array([0, 3], np.int32), np.array([7, 8], np.int32), np.array([1, 1], np.int32)])
    bad_rows = rng.choice([spoiled(rng, rows), np.array([0, 12], np.int32), np.array([-1], np.int32), rows])
    if rng.random() < 0.2:
        words[3] = rng.choice([np.nan, np.inf, 1e38])
    called = rng.choice(
        [
            Trial(lambda: index.insert(row), ("row",)),
            Trial(lambda: index.remove(row), ("row",)),
            Trial(lambda: index.update(row), ("row",)),
            Trial(lambda: index.contains(row), ("row",)),
            Trial(lambda: index.build(bad_rows, rng.choice([1, 2, 0, -1, "x", 2**40])), ("rows?", "threads")),
            Trial(lambda: index.query(spoiled_array(rng, words[0])), ("query", "queries")),
            Trial(
                lambda: index.nearest(spoiled_array(rng, words), rng.choice([1, 4, 0, -1, None])), ("quer", "at_once")
            ),
            Trial(lambda: index.churn(bad_rows), ("rows?",)),
            Trial(lambda: index.update_all(bad_rows), ("rows?",)),
        ]
    )

    def then_query() -> None:
        try:
            called.call()
        finally:
            if np.isfinite(words).all():  # whatever was refused, the index still answers
                found = index.query(np.ones(4, np.float32))
                assert len(set(found)) == len(found) <= len(index) and all(0 <= row < 12 for row in found)

    return Trial(then_query, called.names)


KINDS = (fuzz_forward, fuzz_forward, fuzz_backward, fuzz_backward, fuzz_sizes, fuzz_version, fuzz_version)
KINDS += (fuzz_index,)
EXPECTED = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError)


def main(first: int, last: int) -> None:
    refused, unnamed = 0, []
    for case in range(first, last):
        rng = random.Random(case)
        make = KINDS[case % len(KINDS)]
        print("case", case, make.__name__, flush=True)
        trial = make(rng)
        try:
            trial.call()
        except EXPECTED as error:
            refused += 1
            if not any(re.search(rf"(?<![a-z_]){name}", str(error)) for name in trial.names):
                unnamed.append(f"case {case}: {type(error).__name__} that names none of {trial.names}: {error}")
    assert not unnamed, "\n".join(unnamed)
    print("refused", refused, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
