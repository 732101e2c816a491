"""What 'sparse' has to mean: in place, taken back bit for bit, constant per step, nothing for what is not touched."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import sparsam
from benchmarks.resident import kept_bytes
from tests.beside import assert_run_in_forks

SIZES = {"input_size": 4, "output_size": 3, "hidden_size": 16, "word_size": 8, "num_heads": 2, "k": 3}


def sam(memory_size=50, dtype=torch.float32, **kwargs):
    torch.manual_seed(0)
    return sparsam.SAM(memory_size=memory_size, engine="native", **{**SIZES, **kwargs}).to(dtype)


def contents(state, b=0):
    """Every bit of an element's memory and ring."""
    rows, words = state.memory._written(b)
    return rows.tolist(), words.numpy().tobytes(), state.memory.recency(b).tolist()


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_backward_ends_on_the_starting_memory_bit_for_bit():
    model = sam()
    with torch.no_grad():
        _, start = model(torch.randn(20, 2, 4))
    before = [contents(start, b) for b in range(2)]
    y, after = model(torch.randn(30, 2, 4), start)
    ends = [contents(after, b) for b in range(2)]
    assert ends != before
    y, after = model(torch.randn(30, 2, 4), start)
    y.sum().backward()
    assert all(version.is_current for version in start.memory.versions), "the buffer was not taken back"
    assert not any(version.is_current for version in after.memory.versions)
    assert [contents(start, b) for b in range(2)] == before


def test_final_state_is_usable_after_backward():
    model = sam(dtype=torch.float64)
    x, more = torch.randn(25, 3, 4, dtype=torch.float64), torch.randn(10, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        _, state = model(x)
        expected, _ = model(more, state)
    y, state = model(x)
    end = contents(state)
    y.sum().backward()
    assert contents(state) == end
    actual, _ = model(more, state.detach())
    assert torch.equal(actual, expected)


def test_an_old_state_used_again_gives_the_same_answer():
    model = sam()
    _, state = model(torch.randn(10, 2, 4))
    state = state.detach()
    x, other = torch.randn(12, 2, 4), torch.randn(7, 2, 4)
    first, _ = model(x, state)
    model(other, state)  # writes over the buffer
    second, branch = model(x, state)
    assert torch.equal(first, second)
    second.sum().backward()
    first.sum().backward()  # its journal belongs to a branch that the buffer has left
    again, _ = model(x, state)
    assert torch.equal(first, again)
    model(other, branch.detach())


def test_two_branches_of_one_state_have_the_gradients_of_the_reference():
    native, reference = sam(dtype=torch.float64), sam(dtype=torch.float64)
    reference.engine = "reference"
    x, left, right = (torch.randn(t, 2, 4, dtype=torch.float64) for t in (6, 4, 5))
    gradients = []
    for model in (native, reference):
        _, state = model(x)
        a, _ = model(left, state)
        b, _ = model(right, state)
        gradients.append(torch.autograd.grad((a**2).sum() + (b**2).sum(), list(model.parameters())))
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_a_second_backward_runs_again_and_a_double_backward_says_why():
    model = sam()
    x = torch.randn(5, 1, 4, requires_grad=True)
    y, _ = model(x)
    y.sum().backward(retain_graph=True)
    first, x.grad = x.grad, None
    y.sum().backward()
    assert torch.equal(x.grad, first)
    y, _ = model(x)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    y.sum().backward()  # the refusal took nothing away


def test_journal_bytes_per_step_do_not_depend_on_the_memory_size():
    kept = {size: kept_bytes(sam(size)(torch.randn(40, 1, 4))[0]) for size in (100, 1_000_000)}
    assert kept[100] == kept[1_000_000]
    longer = kept_bytes(sam(100)(torch.randn(80, 1, 4))[0])
    assert longer - kept[100] <= kept[100], "more than linear in T"


def test_paper_setting_keeps_at_most_8_kib_per_step():
    model = sparsam.SAM(8, 8, memory_size=1_000_000, engine="native")
    assert kept_bytes(model(torch.randn(100, 1, 8))[0]) / 100 <= 8 * 1024


def test_blank_million_word_states_cost_next_to_nothing():
    model = sam(2_000_000, word_size=32)
    x = torch.randn(1, 1, 4)
    with torch.no_grad():
        model(x)
        before = resident()
        held = [model(x)[1] for _ in range(20)]
        grown = resident() - before
    assert len(held) == 20
    assert grown / 20 < 2**20, f"{grown / 20:.0f} bytes resident per state"


def test_resident_memory_is_flat_over_a_thousand_training_steps():
    model = sam(100_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def train(steps):
        for _ in range(steps):
            y, _ = model(torch.randn(10, 2, 4))
            optimizer.zero_grad()
            (y**2).mean().backward()
            optimizer.step()

    train(100)
    before = resident()
    train(1000)
    assert resident() - before < 4 * 2**20


def test_streaming_without_gradients_frees_its_journals():
    model = sam(10_000)
    x = torch.randn(200, 1, 4)
    with torch.no_grad():
        _, state = model(x)
        for _ in range(20):
            _, state = model(x, state)
        before = resident()
        for _ in range(300):
            _, state = model(x, state)
    assert resident() - before < 8 * 2**20  # the written words themselves stay


def test_abandoned_forward_leaves_the_next_call_right():
    model = sam()
    x = torch.randn(9, 2, 4)
    expected, _ = model(x)
    for _ in range(3):
        model(torch.randn(20, 2, 4))  # nobody goes backward
    with pytest.raises(ValueError):
        model(torch.randn(9, 2, 5))
    actual, _ = model(x)
    assert torch.equal(actual, expected)


def test_equal_inputs_give_equal_bits_whatever_the_threads():
    model = sam(dtype=torch.float64)
    x = torch.randn(12, 7, 4, dtype=torch.float64)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3, 2):
            torch.set_num_threads(count)
            y, _ = model(x)
            model.zero_grad()
            y.sum().backward()
            found.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        for ours, theirs in zip(found[0], other):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    assert all(torch.equal(a, b) for a, b in zip(found[1], found[3])), "same threads, other bits"


@pytest.mark.parametrize(
    "make", [lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), lambda x: x[:, :1].expand(-1, 3, -1)]
)
def test_strided_and_expanded_inputs(make):
    model = sam()
    x = make(torch.randn(6, 3, 4))
    assert torch.equal(model(x)[0], model(x.contiguous())[0])
    y, _ = model(x)
    y.sum().expand(2)[0].backward()  # an expanded gradient


def test_two_models_in_two_threads():
    models = [sam(), sam(60)]
    x = torch.randn(30, 2, 4)
    expected = [model(x)[0] for model in models]
    found = [[], []]

    def work(i):
        for _ in range(20):
            y, _ = models[i](x)
            y.sum().backward()
            found[i].append(y.detach())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(2):
        assert len(found[i]) == 20
        assert all(torch.equal(y, expected[i]) for y in found[i])


class Outputs(torch.utils.data.Dataset):
    """Runs a model in a DataLoader worker."""

    def __init__(self, model, x):
        self.model, self.x = model, x

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.model(self.x)[0].detach()


def test_forked_data_loader_worker():
    model, x = sam(), torch.randn(6, 2, 4)
    expected, _ = model(x)
    loader = torch.utils.data.DataLoader(Outputs(model, x), num_workers=1, multiprocessing_context="fork")
    for y in loader:
        assert torch.equal(y[0], expected)


EQUAL = """
import os; os.environ["SPARSAM_ISA"] = {isa!r}
import torch, sparsam; from sparsam import _native; torch.manual_seed(1)
assert _native.selected_isa() == {isa!r}
m = sparsam.SAM(3, 2, hidden_size=9, memory_size=20, word_size=5, engine="native").double()
x = torch.randn(8, 3, 3, dtype=torch.float64); y, _ = m(x); y.sum().backward()
r = sparsam.SAM(3, 2, hidden_size=9, memory_size=20, word_size=5, engine="reference").double()
r.load_state_dict(m.state_dict()); z, _ = r(x); z.sum().backward()
assert torch.allclose(y, z, rtol=1e-10, atol=1e-12)
pairs = zip(m.parameters(), r.parameters())
assert all(torch.allclose(a.grad, b.grad, rtol=1e-9, atol=1e-11) for a, b in pairs)
"""
WRONG = """
import os; os.environ["SPARSAM_ISA"] = "mmx"
try:
    from sparsam import _native; _native.selected_isa()
except Exception as error:
    assert "expected baseline, avx2 or avx512, got mmx" in str(error), error
else:
    raise AssertionError("mmx was not refused")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_lower_instruction_sets_give_the_same_and_a_wrong_one_is_named():
    """Each set in a process of its own, since the choice is made once; those that this processor has."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    sets = ["baseline", *(isa for isa, flag in {"avx2": " avx2 ", "avx512": " avx512f "}.items() if flag in flags)]
    assert_run_in_forks(*(EQUAL.format(isa=isa) for isa in sets), WRONG)


def test_gradient_of_a_leaf_initial_memory_is_sparse():
    model = sam(1000)
    memory = torch.randn(1000, 8, requires_grad=True)
    y, _ = model(torch.randn(3, 2, 4), model.initial_state(2, initial_memory=memory))
    y.sum().backward()
    assert memory.grad.is_sparse
    assert memory.grad.coalesce().indices().shape[1] < 100
    doubled = memory.detach() * 2  # not a leaf: the operations before it take dense gradients
    doubled.requires_grad_()
    y, _ = model(torch.randn(3, 2, 4), model.initial_state(2, initial_memory=doubled * 1))
    y.sum().backward()
    assert not doubled.grad.is_sparse


INTERRUPTED = """
import os, signal, threading, time, torch, sparsam
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process started in the background ignores it
torch.set_num_threads(2)
model = sparsam.SAM(4, 3, hidden_size=16, word_size=8, num_heads=2, k=3, memory_size=1_000_000, engine="native")
x = torch.randn(8, 2, 4)
_, state = model(x)
state = state.detach()
expected, _ = model(x, state)

def interrupted(call, seconds):
    def interrupt():
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
        time.sleep(5)
    except KeyboardInterrupt:
        thread.join()
    else:
        raise SystemExit("not interrupted")
    actual, _ = model(x, state)
    assert torch.equal(actual, expected), "the state was left half way"

interrupted(lambda: model(torch.randn(300_000, 2, 4), state), 0.3)
y, after = model(torch.randn(6_000, 2, 4), state)
loss = y.sum()
interrupted(lambda: loss.backward(), 0.02)
"""


def test_ctrl_c_ends_a_long_call_and_leaves_states_right():
    """A real SIGINT to a process of its own, in the middle of a call, forward and backward, that takes much longer."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=120)
