"""Ctrl-C is noticed while the core works, by the clock, whatever it does; and nothing is spoiled.

Time is the processor's, so that it makes no difference how busy the machine is.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time

import pytest
import torch

import sparsam

pytest.importorskip("sparsam._native")
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are asked for as on Unix")

WIDTH = 32
INDEXES = {
    "linear": sparsam.Linear(),
    "scan": sparsam.Scan(),
    "lsh": sparsam.LSH(),
    "tables": sparsam.LSH(few=4096),
    "kdtree": sparsam.KDForest(),
}
indexes = pytest.mark.parametrize("index", INDEXES)


def make(index, rows):
    torch.manual_seed(0)
    model = sparsam.SAM(4, 3, hidden_size=8, memory_size=rows, word_size=WIDTH, num_heads=2, k=3, engine="native")
    model.index = INDEXES[index]
    return model


@contextlib.contextmanager
def ticks(handler):
    """`handler` is called about every 20 ms of the processor's time: where Python gets to it, that is."""
    before = signal.signal(signal.SIGPROF, lambda *_: handler())
    signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def longest_silence(work, *given):
    """The longest time in `work` without a look at signals, and how long all of it took."""
    seen = [time.process_time()]
    with ticks(lambda: seen.append(time.process_time())):
        work(*given)
    seen.append(time.process_time())
    return max(b - a for a, b in itertools.pairwise(seen)), seen[-1] - seen[0]


def assert_signals_are_seen(work):
    """`work(n)` takes longer the larger n is: as long as it takes to tell, however fast the machine is."""
    n, total = 1, 0.0
    while total < 0.4:
        silence, total = longest_silence(work, n)
        n *= 2
    assert silence < 0.75 * total


@indexes
def test_signals_are_looked_at_by_the_clock(index):
    """Copying and indexing the words, searching them, and going back."""
    rows = 30_000 if index == "kdtree" else 75_000
    model, words = make(index, rows), torch.randn(rows, WIDTH)
    x = torch.randn(60, 2, 4)
    assert_signals_are_seen(lambda n: model(x.repeat(n, 1, 1), model.initial_state(2, words))[0].sum().backward())


class Stop(Exception):
    """What the handler raises, as that of Ctrl-C raises KeyboardInterrupt."""


@indexes
def test_after_an_interrupt_all_is_as_before(index):
    rows = 8_000 if index == "kdtree" else 35_000
    model, words = make(index, rows), torch.randn(rows, WIDTH)
    steps, stopped = 40, 0
    while not stopped:  # a fast machine needs more of them
        stopped = stops_and_goes_on(model, words, torch.randn(steps, 2, 4))
        steps *= 2


def stops_and_goes_on(model, words, x):
    """How many of some calls were stopped; what is asked afterwards is answered as it was before."""
    stopped = 0

    def answer(state):
        y, _ = model(x, state)
        return y, *torch.autograd.grad(y.square().sum(), model.parameters())

    with torch.no_grad():
        _, state = model(x[:3], model.initial_state(2, words))
    expected = answer(state)
    for after in (1, 4):
        left = after

        def stop():
            nonlocal left
            left -= 1
            if left == 0:
                raise Stop

        fresh = model.initial_state(2, words.clone())  # to be copied and indexed anew
        for start in (fresh, state):
            left = after
            try:
                with ticks(stop):
                    answer(start)
                    left = -1
            except Stop:
                stopped += 1
            for ours, theirs in zip(answer(state), expected):
                assert torch.equal(ours, theirs)
    return stopped


def test_a_long_sequence_of_quick_steps_is_interrupted_too():
    torch.manual_seed(0)
    model = sparsam.SAM(4, 3, hidden_size=8, memory_size=500, word_size=8, num_heads=2, k=3, engine="native")
    x = torch.randn(100_000, 1, 4)
    assert_signals_are_seen(lambda n: model(x.repeat(n, 1, 1))[0].sum().backward())
