"""Is the memory used? The numbers against a loop over a trace, and the advice against models made to deserve it."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.trace import READ, WRITE, WRITTEN, Access, Trace


def trace_of(*accesses: tuple[int, int, list[int], list[float]]) -> Trace:
    """One sequence, one head: (kind, time, rows, weights)."""
    return Trace.of(Access(k, t, torch.tensor([[rows]]), torch.tensor([[weights]])) for k, t, rows, weights in accesses)


def test_age_counts_from_the_last_write_of_a_word():
    seen = trace_of(
        (WRITE, 0, [5], [1.0]),
        (READ, 0, [5, 7], [0.75, 0.25]),
        (WRITE, 2, [5, 7], [1.0, 0.05]),  # 7 hardly: it is still unwritten
        (READ, 3, [5, 7], [0.5, 0.5]),
        (WRITE, 4, [9], [1.0]),
        (READ, 6, [9], [1.0]),
    )
    use = seen.summary()
    assert use.written_before == pytest.approx((0.75 + 0.5 + 1.0) / 3)
    assert use.age == pytest.approx((0.75 * 0 + 0.5 * 1 + 1.0 * 2) / 2.25)
    assert use.read_weight == pytest.approx((0.75 + 0.5 + 1.0) / 3)
    assert (use.rows_read, use.rows_written) == (3, 2)
    assert use.write_weight == pytest.approx(3.05 / 5)  # five steps with an access


def test_summary_is_what_a_loop_over_the_entries_finds():
    torch.manual_seed(0)
    model = sparsam.SAM(3, 2, hidden_size=8, memory_size=12, word_size=4, num_heads=2, k=2)
    seen = model.trace(torch.randn(20, 3, 3))
    written: dict[tuple[int, int], int] = {}
    total = found = age = 0.0
    for time, b, row, weight, kind in zip(
        *(getattr(seen, n).tolist() for n in ("time", "batch", "row", "weight", "kind"))
    ):
        if kind == WRITE and weight >= WRITTEN:
            written[b, row] = time
        elif kind == READ:
            total += weight
            if (b, row) in written:
                found += weight
                age += weight * (time - written[b, row])
    use = seen.summary()
    assert use.written_before == pytest.approx(found / total, rel=1e-4)
    assert use.age == pytest.approx(age / found, rel=1e-4)


def test_an_empty_trace_has_a_summary():
    assert set(vars(Trace.of([]).summary()).values()) == {0.0}


@pytest.mark.parametrize("name", ["sam", "sdnc", "dam", "ntm", "dnc"])
def test_a_diagnosis_changes_nothing_and_has_the_gates(name):
    torch.manual_seed(0)
    model = sparsam.build(name, input_size=3, output_size=2, hidden_size=8, memory_size=16, dropout=0.5, num_layers=2)
    model.controller.eval()
    x = torch.randn(6, 2, 3)
    found = sparsam.diagnose(model, x)
    assert model.training and not model.controller.training
    assert not model.interface._forward_hooks
    assert str(found).splitlines()[0] == str(model.eval().trace(x).summary()).splitlines()[0]
    assert found.gates and all(value > 0 for value in found.gates.values())


def test_gates_are_those_of_the_interface():
    model = sparsam.SparseMemory(3, memory_size=64, num_heads=2)
    at = model.memory.interface.offsets()["write_gate"]
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias[at : at + 2] = torch.tensor([0.0, 50.0])
    assert sparsam.diagnose(model, torch.randn(5, 1, 3)).gates["write_gate"] == pytest.approx(0.75)


def biased(model, **fields):
    """The model with the biases of its interface's fields set."""
    at = model.memory.interface.offsets()
    with torch.no_grad():
        for name, value in fields.items():
            model.interface.bias[at[name] : at[name] + model.num_heads] = value
    return model


@pytest.mark.parametrize(
    ("fields", "rows", "words"),
    [
        ({"write_gate": -20.0}, 64, "hardly anything is written"),
        ({"write_gate": 5.0, "interpolation": -5.0}, 8, "of 8 rows are written"),
        ({"write_gate": 5.0, "interpolation": -5.0, "strength": -20.0}, 64, "blurred"),
    ],
)
def test_advice_for_a_number_that_is_wrong(fields, rows, words):
    torch.manual_seed(0)
    model = biased(sparsam.SAM(3, 2, memory_size=rows, num_heads=1, start="plain"), **fields)
    assert any(words in line for line in sparsam.diagnose(model, torch.randn(12, 2, 3)).advice)


@pytest.mark.parametrize("name", ["sam", "sdnc", "dam", "layer"])
def test_a_new_default_model_gets_no_advice(name):
    torch.manual_seed(0)
    sizes = {"memory_size": 128}
    model = (
        sparsam.SparseMemory(6, **sizes)
        if name == "layer"
        else sparsam.build(name, input_size=6, output_size=2, **sizes)
    )
    x = torch.randint(2, (24, 2, 6)).float()
    assert not sparsam.diagnose(model, x).advice and not sparsam.diagnose(model, x[:1]).advice


def test_a_closed_write_gate_writes_no_rows():
    model = biased(sparsam.SAM(3, 2, memory_size=64), write_gate=-20.0)
    assert sparsam.diagnose(model, torch.randn(12, 2, 3)).use.rows_written == 0


def test_numbers_that_are_not_finite_are_the_only_advice():
    model, x = sparsam.SAM(3, 2, memory_size=64), torch.randn(12, 2, 3)
    x[3, 0] = torch.nan
    (line,) = sparsam.diagnose(model, x).advice
    assert line.startswith("x or the state has numbers that are not finite")
    with torch.no_grad():
        model.interface.weight[0, 0] = torch.inf
    (line,) = sparsam.diagnose(model, x).advice
    assert line.startswith("interface.weight is not finite")


def test_words_of_a_state_are_not_called_unwritten():
    """Too little is written at a time for a word to count, so nothing is found that was written before."""
    torch.manual_seed(0)
    model = biased(sparsam.SAM(3, 2, memory_size=64, num_heads=1, start="plain"), write_gate=-2.5, interpolation=0.0)
    x = torch.randn(4, 1, 3)
    state = model.initial_state(1, torch.randn(64, 32))
    assert any("never written" in line for line in sparsam.diagnose(model, x).advice)
    assert not any("never written" in line for line in sparsam.diagnose(model, x, state).advice)


def test_what_has_no_memory_is_refused():
    with pytest.raises(TypeError, match="model: expected a model or a layer with a memory, got LSTM"):
        sparsam.diagnose(sparsam.LSTM(3, 2), torch.randn(4, 1, 3))


@pytest.mark.parametrize("kind", ["sam", "layer"])
def test_padding_counts_for_nothing(kind):
    torch.manual_seed(0)
    sizes = dict(memory_size=64, word_size=4, num_heads=2)
    model = sparsam.SAM(3, 2, 8, **sizes) if kind == "sam" else sparsam.SparseMemory(3, **sizes)
    x = torch.randn(12, 1, 3)
    alone = sparsam.diagnose(model, x[:5])
    padded = sparsam.diagnose(model, x, lengths=[5])
    for name, value in alone.numbers().items():
        assert padded.numbers()[name] == pytest.approx(value, rel=1e-5)
