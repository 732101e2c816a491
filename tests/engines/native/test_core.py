"""The core's sequences (`_native.forward64`, `backward64`) against plain PyTorch: outputs and every gradient."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from sparsam.engines.native.core import native
from tests import oracle as plain

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")

SAM = plain.Sizes(9, 3, 2, 2)
SIZES = {
    "sam": SAM,
    "sam_euclidean": replace(SAM, similarity="euclidean"),
    "sam_dot": replace(SAM, similarity="dot"),
    "sam_one_head": plain.Sizes(4, 5, 1, 3),
    "sdnc": replace(SAM, k_links=3),
    "sdnc_one_link": replace(SAM, k_links=1, link_gradients=True),
    "sdnc_link_gradients": replace(SAM, k_links=4, link_gradients=True),
    "free": replace(SAM, k_links=3, free_usage=True),
    "free_link_gradients": replace(SAM, k_links=3, link_gradients=True, free_usage=True),
    "erase": replace(SAM, erase=True),
    "erase_links": replace(SAM, k_links=3, link_gradients=True, erase=True),
    "erase_free": replace(SAM, k_links=3, free_usage=True, erase=True),
}
BLOCKS = {"lstm": 4, "gru": 3, "none": 0}
WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh", "w_interface", "b_interface")


def as_numpy(made: Any) -> list[Any]:
    return [value.numpy() if isinstance(value, torch.Tensor) else value for value in made.outputs()]


class Run:
    """A record, with what it puts out by name."""

    def __init__(self, record: Any) -> None:
        self.record = record
        self.joint, self.hidden, self.cell, self.read, self.weights, self.rows, _ = as_numpy(record)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)


class Gradients(NamedTuple):
    x: Any
    w_ih: Any
    w_hh: Any
    b_ih: Any
    b_hh: Any
    w_interface: Any
    b_interface: Any
    w_output: Any
    b_output: Any
    hidden: Any
    cell: Any
    read: Any
    weights: Any
    memory_at: Any
    memory_words: Any
    links_at: Any
    links_values: Any


def core_sizes(s: plain.Sizes, index: Any = None) -> Any:
    similarity = getattr(native.Similarity, s.similarity)
    links = (s.k_links, s.link_gradients, s.free_usage)
    return native.Sizes(s.rows, s.width, s.heads, s.k, similarity, s.delta, *links, index, s.erase)


@dataclass
class Case:
    """Everything that a call takes, as tensors."""

    sizes: plain.Sizes
    controller: str
    hidden: int
    x: torch.Tensor
    weights: dict[str, torch.Tensor]
    initial: torch.Tensor | None
    lengths: list[int]

    def numpy(self, dtype: Any = np.float64) -> dict[str, Any]:
        return {name: None if w is None else w.detach().numpy().astype(dtype) for name, w in self.weights.items()}


def make_case(name: str, controller: str, steps: int = 7, batch: int = 3, seed: int = 0, initial: bool = False) -> Case:
    torch.manual_seed(seed)
    s = SIZES[name]
    hidden, inputs, blocks = (5, 4, BLOCKS[controller]) if controller != "none" else (0, s.interface, 0)
    rows, width = blocks * hidden, s.heads * s.width
    shapes = {"w_ih": (rows, inputs + width), "w_hh": (rows, hidden), "b_ih": (rows,), "b_hh": (rows,)}
    shapes |= {"w_interface": (s.interface, hidden), "b_interface": (s.interface,)}
    new = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    weights = {key: new(*shapes[key]) if blocks else None for key in WEIGHTS}
    lengths = [steps - 2 * b if b < 2 else 0 for b in range(batch)]
    return Case(
        s, controller, hidden, new(steps, batch, inputs), weights, new(s.rows, s.width) if initial else None, lengths
    )


def start(case: Case, dtype: Any = np.float64) -> dict[str, Any]:
    """A fresh state, as the core takes it."""
    s, batch = case.sizes, case.x.shape[1]
    zeros = lambda *shape: np.zeros(shape, dtype)  # noqa: E731
    return {
        "h0": zeros(batch, case.hidden) if case.controller != "none" else None,
        "c0": zeros(batch, case.hidden) if case.controller == "lstm" else None,
        "read0": zeros(batch, s.heads, s.width),
        "rows0": np.full((batch, s.heads, s.k), -1),
        "weights0": zeros(batch, s.heads, s.k),
    }


def run_core(case: Case, state: dict[str, Any], versions: list[Any], steps: slice = slice(None), **options: Any) -> Run:
    lengths = np.array([max(0, min(n, steps.stop or 10**9) - (steps.start or 0)) for n in case.lengths])
    options = {"record": True, "trace": False, "threads": 1, "index": None, "lengths": lengths} | options
    sizes = core_sizes(case.sizes, options.pop("index"))
    x = np.ascontiguousarray(case.x.detach().numpy()[steps])
    kind = options.pop("kind", "sdnc" if sizes.k_links else "sam")
    rest = {"versions": versions, **options}
    return Run(native.forward64(sizes, kind, case.controller, case.hidden, x, **case.numpy(), **state, **rest))


def fresh_versions(case: Case) -> list[Any]:
    initial = None if case.initial is None else native.Initial64(case.initial.detach().numpy())
    return [native.Version64.fresh(core_sizes(case.sizes), initial) for _ in case.lengths]


def run_plain(case: Case) -> tuple[torch.Tensor, list[plain.Memory], list[torch.Tensor], list[torch.Tensor | None]]:
    """joint (T, B, H+RW), and per element the memory, h and c in the end."""
    joints, memories, hiddens, cells = [], [], [], []
    for b, length in enumerate(case.lengths):
        memory = plain.fresh(case.sizes, case.initial)
        h = torch.zeros(case.hidden, dtype=torch.float64)
        c: torch.Tensor | None = torch.zeros(case.hidden, dtype=torch.float64)
        rows = []
        for t in range(case.x.shape[0]):
            if t >= length:
                rows.append(torch.zeros(case.hidden + case.sizes.heads * case.sizes.width, dtype=torch.float64))
                continue
            vector = case.x[t, b]
            if case.controller != "none":
                h, c = plain.gates(case.controller, torch.cat([vector, memory.read.flatten()]), h, c, case.weights)
                vector = case.weights["w_interface"] @ h + case.weights["b_interface"]
            rows.append(torch.cat([h, plain.step(case.sizes, vector, memory)]))
        joints.append(torch.stack(rows))
        memories.append(memory)
        hiddens.append(h)
        cells.append(c)
    return torch.stack(joints, 1), memories, hiddens, cells


def random_like(value: Any) -> torch.Tensor:
    return torch.randn(tuple(value.shape), dtype=torch.float64)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), torch.as_tensor(theirs).detach().numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("controller", list(BLOCKS))
@pytest.mark.parametrize("name", list(SIZES))
def test_equals_plain_pytorch(name, controller, initial):
    case = make_case(name, controller, seed=len(name) + len(controller), initial=initial)
    s, batch = case.sizes, len(case.lengths)
    joint, memories, hiddens, cells = run_plain(case)
    record = run_core(case, start(case), fresh_versions(case), trace=True)
    ours = record.joint
    close(ours, joint)
    ours[:] = np.nan  # the caller's own
    assert record.rows.tolist() == [memory.rows for memory in memories]
    close(record.weights, torch.stack([memory.weights for memory in memories]))
    close(record.read, torch.stack([memory.read for memory in memories]))
    for b, (memory, version) in enumerate(zip(memories, record.after)):
        part = version.export()
        close(part["words"], memory.words[part["rows"]])
        if s.k_links:
            _close_links(s, part, memory)
        if not s.free_usage:
            assert part["recency"].tolist() == memory.ring[len(memory.ring) - len(part["recency"]) :]
        for kind, seen in enumerate((memory.reads, memory.writes)):
            trace_rows, trace_weights = record.trace[2 * kind], record.trace[2 * kind + 1]
            assert (trace_rows[case.lengths[b] :, b] == -1).all()
            for t, (expected_rows, expected_weights) in enumerate(seen):
                assert trace_rows[t, b].tolist() == expected_rows
                close(trace_weights[t, b], expected_weights)

    # A random loss of everything that comes out.
    d_joint, d_read = random_like(joint), torch.randn(batch, s.heads, s.width, dtype=torch.float64)
    d_weights = torch.randn(batch, s.heads, s.k, dtype=torch.float64)
    d_hidden = torch.randn(batch, case.hidden, dtype=torch.float64) if controller != "none" else None
    d_cell = torch.randn(batch, case.hidden, dtype=torch.float64) if controller == "lstm" else None
    d_words = torch.randn(batch, s.rows, s.width, dtype=torch.float64)
    loss = (joint * d_joint).sum()
    for b, memory in enumerate(memories):
        loss = loss + (memory.read * d_read[b]).sum() + (memory.weights * d_weights[b]).sum()
        loss = loss + (memory.words * d_words[b]).sum()
        if d_hidden is not None:
            loss = loss + (hiddens[b] * d_hidden[b]).sum()
        if d_cell is not None:
            loss = loss + (cells[b] * d_cell[b]).sum()
    link_at, link_values = None, None
    if s.link_gradients:
        places = []
        for b, memory in enumerate(memories):
            for kind, matrix in enumerate((memory.before, memory.after)):
                places += [(b, 2 * i + kind, j) for i, j in torch.nonzero(matrix).tolist()]
            places += [(b, 2 * s.rows, j) for (j,) in torch.nonzero(memory.precedence).tolist()]
        link_values = torch.randn(len(places), dtype=torch.float64)
        link_at = np.array(places, dtype=np.int64).reshape(-1, 3).T.copy()
        for (b, link, j), value in zip(places, link_values):
            memory = memories[b]
            row = memory.precedence if link == 2 * s.rows else (memory.before, memory.after)[link % 2][link // 2]
            loss = loss + row[j] * value
    loss.backward()
    at = np.array([[b, row] for b in range(batch) for row in range(s.rows)]).T.copy()
    d_joint_padded = d_joint.numpy().copy()
    for b, length in enumerate(case.lengths):
        d_joint_padded[length:, b] = np.nan  # not looked at
    array = lambda tensor: None if tensor is None else tensor.detach().numpy()  # noqa: E731
    g = gradients(
        case,
        record,
        d_joint_padded,
        d_hidden=array(d_hidden),
        d_cell=array(d_cell),
        d_read=array(d_read),
        d_weights=array(d_weights),
        memory_at=at,
        memory_words=array(d_words).reshape(-1, s.width),
        link_at=link_at,
        link_values=array(link_values),
        threads=2,
    )
    close(g.x, case.x.grad)
    for key in WEIGHTS:
        if controller == "none":
            assert getattr(g, key) is None
        else:
            close(getattr(g, key), case.weights[key].grad)
    if case.initial is not None:
        d_initial = np.zeros((batch, s.rows, s.width))
        d_initial[g.memory_at[0], g.memory_at[1]] = g.memory_words
        close(d_initial.sum(0), case.initial.grad)
    with pytest.raises(RuntimeError, match="has run already"):
        gradients(case, record, None)


D_NAMES = ("d_joint", "d_hidden", "d_cell", "d_read", "d_weights")
D_NAMES += ("memory_at", "memory_words", "link_at", "link_values")


def _close_links(s: plain.Sizes, part: Any, memory: plain.Memory) -> None:
    dense = torch.zeros(2 * s.rows + 1, s.rows, dtype=torch.float64)
    ids, columns, weights = (part[name].tolist() for name in ("link_ids", "link_columns", "link_weights"))
    for link, some, values in zip(ids, columns, weights):
        for column, value in zip(some, values):
            if column >= 0:
                dense[link, column] = value
    close(dense[: 2 * s.rows : 2], memory.before)
    close(dense[1 : 2 * s.rows : 2], memory.after)
    close(dense[2 * s.rows], memory.precedence)


def state_of(record: Run) -> dict[str, Any]:
    return {
        "h0": record.hidden,
        "c0": record.cell,
        "read0": record.read,
        "rows0": record.rows,
        "weights0": record.weights,
    }


def gradients(case: Case, record: Run, d_joint: Any, **more: Any) -> Gradients:
    arguments = dict.fromkeys(D_NAMES) | {"d_joint": d_joint, "needs_x": True, "threads": 1} | more
    found = native.backward64(record.record, case.x.detach().numpy(), **case.numpy(), **arguments)
    return Gradients(*as_numpy(found))


def without_output(g: Gradients) -> list[Any]:
    """Gradients of x, the weights, h, c, r and its weights, but not of an output layer."""
    return [*g[:7], *g[9:13]]


@pytest.mark.parametrize("outputs", [1, 3, 40])
@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_an_output_layer_inside_the_call(controller, outputs):
    """y = W [h, r] + b is what the layer gives outside, gradients included; steps past the lengths do not count."""
    case = make_case("sam", controller)
    plain_record = run_core(case, start(case), fresh_versions(case))
    joint = torch.from_numpy(plain_record.joint).requires_grad_()
    layer = torch.nn.Linear(joint.shape[-1], outputs, dtype=torch.float64)
    past = torch.arange(len(joint))[:, None] >= torch.tensor(case.lengths)
    y = layer(joint).masked_fill(past[..., None], 0.0)
    d_y = torch.randn_like(y)
    d_joint, d_weight, d_bias = torch.autograd.grad(y, [joint, layer.weight, layer.bias], d_y)
    expected = gradients(case, plain_record, d_joint.numpy())
    weights = {"w_output": layer.weight.detach().numpy(), "b_output": layer.bias.detach().numpy()}
    given = d_y.masked_fill(past[..., None], float("nan")).numpy()
    for threads in (1, 3):
        record = run_core(case, start(case), fresh_versions(case), threads=threads, **weights)
        close(record.joint, y)
        assert not record.joint[past.numpy()].any()
        g = gradients(case, record, given, **weights)
        for ours, theirs in zip(without_output(g), without_output(expected)):
            if theirs is None:
                assert ours is None
            else:
                close(ours, theirs)
        close(g.w_output, d_weight)
        close(g.b_output, d_bias)
    silent = gradients(case, run_core(case, start(case), fresh_versions(case), **weights), None, **weights)
    assert not silent.w_output.any() and not silent.b_output.any()
    for wrong in ({"w_output": weights["w_output"]}, {"b_output": weights["b_output"]}):
        with pytest.raises((TypeError, ValueError), match="b_output"):
            run_core(case, start(case), fresh_versions(case), **wrong)


@pytest.mark.parametrize("name", ["sam", "sdnc", "free"])
@pytest.mark.parametrize("controller", list(BLOCKS))
def test_a_sequence_in_two_calls(name, controller):
    """Without and with a record, in any order, the versions are values."""
    case = make_case(name, controller, steps=8)
    whole = run_core(case, start(case), fresh_versions(case))
    versions = fresh_versions(case)
    for record in (False, True, False):
        first = run_core(case, start(case), versions, slice(0, 3), record=record)
        for again in (False, True):
            second = run_core(case, state_of(first), first.after, slice(3, 8), record=again)
            assert np.array_equal(np.concatenate([first.joint, second.joint]), whole.joint)
            assert np.array_equal(second.weights, whole.weights)
            for ours, theirs in zip(second.after, whole.after):
                for key, value in theirs.export().items():
                    assert np.array_equal(ours.export()[key], value), key


@pytest.mark.parametrize("name", ["sam", "sdnc", "free"])
def test_long_sequences_without_a_record_run_in_pieces(name):
    case = make_case(name, "gru", steps=1100)
    case.lengths = [1100, 600, 0]
    whole = run_core(case, start(case), fresh_versions(case), trace=True)
    pieces = run_core(case, start(case), fresh_versions(case), record=False, trace=True)
    assert np.array_equal(whole.joint, pieces.joint) and pieces.bytes == 0 and whole.bytes > 0
    for ours, theirs in zip(pieces.trace, whole.trace):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(whole.rows, pieces.rows) and np.array_equal(whole.hidden, pieces.hidden)
    # From a version that somebody may use again as well.
    held = [version.copied() for version in fresh_versions(case)]
    for _ in range(2):
        assert np.array_equal(run_core(case, start(case), held, record=False).joint, whole.joint)


def test_a_fresh_version_can_be_used_any_number_of_times():
    case = make_case("sdnc", "lstm", initial=True)
    versions = fresh_versions(case)
    joints = [run_core(case, start(case), versions, record=False).joint for _ in range(3)]
    assert np.array_equal(joints[0], joints[1]) and np.array_equal(joints[0], joints[2])
    assert len(versions[0].export()["rows"]) == 0


def test_one_memory_for_two_elements():
    """Versions of one memory that occur twice in a batch go on each by itself."""
    case = make_case("sdnc", "lstm", batch=2)
    case.lengths = [7, 7]
    case.x = case.x[:, :1].expand(-1, 2, -1).contiguous()
    first = run_core(case, start(case), fresh_versions(case), slice(0, 4))
    apart = run_core(case, state_of(first), first.after, slice(4, 7))
    shared = run_core(case, state_of(first), [first.after[0], first.after[0]], slice(4, 7))
    assert np.array_equal(apart.joint, shared.joint)
    mixed = run_core(case, state_of(first), [first.after[0], first.before[0]], slice(4, 7))
    assert np.array_equal(mixed.joint[:, 0], apart.joint[:, 0])


@pytest.mark.parametrize("name", ["sam", "sdnc", "free"])
def test_export_and_restore(name):
    case = make_case(name, "lstm", steps=8)
    first = run_core(case, start(case), fresh_versions(case), slice(0, 4))
    sizes = core_sizes(case.sizes)
    restored = [native.Version64.restored(sizes, None, version.export()) for version in first.after]
    for ours, theirs in zip(restored, first.after):
        for key, value in theirs.export().items():
            assert np.array_equal(ours.export()[key], value), key
    one = run_core(case, state_of(first), first.after, slice(4, 8))
    other = run_core(case, state_of(first), restored, slice(4, 8))
    assert np.array_equal(one.joint, other.joint)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("controller", list(BLOCKS))
def test_threads_change_nothing(controller, threads):
    case = make_case("sdnc", controller, batch=11)
    case.lengths = [7 - b % 3 for b in range(11)]
    one = run_core(case, start(case), fresh_versions(case))
    many = run_core(case, start(case), fresh_versions(case), threads=threads)
    assert np.array_equal(one.joint, many.joint)
    d_joint = random_like(one.joint).numpy()
    first, second = gradients(case, one, d_joint), gradients(case, many, d_joint)
    assert np.array_equal(first.x, second.x) and np.array_equal(first.memory_words, second.memory_words)


def test_numbers_past_a_length_are_nobodys():
    case = make_case("sam", "lstm")
    record = run_core(case, start(case), fresh_versions(case))
    expected = gradients(case, record, np.ones_like(record.joint))
    with torch.no_grad():
        for b, length in enumerate(case.lengths):
            case.x[length:, b] = np.nan
    dirty = run_core(case, start(case), fresh_versions(case))
    assert np.array_equal(dirty.joint, record.joint)
    ours = gradients(case, dirty, np.ones_like(record.joint))
    for key in ("x", *WEIGHTS):
        assert np.array_equal(getattr(ours, key), getattr(expected, key)), key


def test_the_interface_is_declared_as_the_plain_one():
    for s in SIZES.values():
        at, expected = 0, []
        for field, size in s.fields().items():
            expected.append((field, at, size))
            at += size
        assert core_sizes(s).interface_fields() == expected
        assert core_sizes(s).interface_size == at


def test_reading_a_memory_while_another_thread_runs_it():
    """Each read is right, or the error that says the memory is busy; the run is right in any case."""
    case = make_case("sdnc", "lstm", steps=400)
    case.lengths = [400, 400, 400]
    first = run_core(case, start(case), fresh_versions(case), slice(0, 2))
    expected = run_core(case, state_of(first), first.after, slice(2, 400))
    contents = first.after[0].export()
    done, wrong = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            try:
                found = first.after[0].export()
                if any(not np.array_equal(found[key], contents[key]) for key in contents):
                    wrong.append(found)
                first.after[0].export(["ring"])
                first.after[0].copied()
            except RuntimeError as error:
                if "in use by another thread" not in str(error):
                    wrong.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            try:
                again = run_core(case, state_of(first), first.after, slice(2, 400))
            except RuntimeError as error:
                assert "in use by another thread" in str(error)
                continue
            assert np.array_equal(again.joint, expected.joint)
    finally:
        done.set()
        reader.join()
    assert not wrong


def test_float32_and_float64_are_near():
    case = make_case("sdnc", "gru")
    wide = run_core(case, start(case), fresh_versions(case))
    sizes = core_sizes(case.sizes)
    narrow = native.forward32(
        sizes,
        "sdnc",
        "gru",
        case.hidden,
        case.x.detach().numpy().astype(np.float32),
        **case.numpy(np.float32),
        **start(case, np.float32),
        lengths=np.array(case.lengths),
        versions=[native.Version32.fresh(sizes) for _ in case.lengths],
        record=False,
        trace=False,
        threads=1,
    )
    np.testing.assert_allclose(Run(narrow).joint, wide.joint, atol=1e-4)


def test_kinds_are_looked_up_by_name():
    assert native.memories == ("sam", "sdnc") and native.controllers == ("none", "lstm", "gru")
    sam, sdnc = make_case("sam", "lstm"), make_case("sdnc", "lstm")
    for case, kind, message in (
        (sam, "dnc", "memory: expected sam or sdnc, got dnc"),
        (sam, "sdnc", r"sizes: expected links \(k_links > 0\) for memory sdnc, got k_links = 0"),
        (sdnc, "sam", "sizes: expected no links for memory sam, got k_links = "),
    ):
        with pytest.raises(ValueError, match=message):
            run_core(case, start(case), fresh_versions(case), kind=kind)
    other = replace(sam, controller="LSTM")
    with pytest.raises(ValueError, match="controller: expected none, lstm or gru, got LSTM"):
        run_core(other, start(sam), fresh_versions(sam))
