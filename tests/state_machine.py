"""Histories of states drawn by hypothesis; the native engine beside the reference.

Called, branched, gone back to, differentiated in any order, cloned, indexed, joined, saved, loaded, reset, converted,
with failed calls in between.
"""

from __future__ import annotations

import io
import pickle

import torch
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

import sparsam

SIZES = dict(input_size=3, output_size=2, hidden_size=5, memory_size=10, word_size=4, num_heads=2, k=3)


def model_of(name, engine, **settings):
    torch.manual_seed(1)
    model = sparsam.build(name, **{**SIZES, **settings, "engine": engine}).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


class StateMachine(RuleBasedStateMachine):
    """Every state of the native engine beside the reference's, through any history.

    An index that looks at no fewer words than there are finds what exact search finds, however it came to be.
    """

    index = "linear"
    name = "sam"
    pairs = Bundle("pairs")
    graphs = Bundle("graphs")

    @initialize(target=pairs, filled=st.booleans())
    def begin(self, filled):
        self.native = model_of(self.name, "native", index=self.index)
        self.reference = model_of(self.name, "reference")
        torch.manual_seed(3)
        memory = torch.randn(10, 4, dtype=torch.float64) if filled else None
        return tuple(m.initial_state(2, initial_memory=memory) for m in (self.native, self.reference))

    def run_both(self, pair, seed, steps, backward):
        x = torch.randn(steps, len(pair[0]), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        results = []
        for model, state in zip((self.native, self.reference), pair):
            y, after = model(x, state.detach())
            found = torch.autograd.grad(y.square().sum(), list(model.parameters())) if backward else []
            results.append((y, after, found))
        (y, after, found), (y_ref, after_ref, found_ref) = results
        torch.testing.assert_close(y, y_ref, rtol=1e-7, atol=1e-9)
        for a, b in zip(found, found_ref):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
        return after.detach(), after_ref.detach()

    @rule(target=pairs, pair=pairs, seed=st.integers(0, 3), steps=st.integers(1, 4), backward=st.booleans())
    def call(self, pair, seed, steps, backward):
        return self.run_both(pair, seed, steps, backward)

    @rule(pair=pairs, seed=st.integers(0, 3), backward=st.booleans())
    def same_bits_again(self, pair, seed, backward):
        x = torch.randn(3, len(pair[0]), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        y, _ = self.native(x, pair[0])
        if backward:
            y.sum().backward()
        again, _ = self.native(x, pair[0])
        assert torch.equal(y, again)

    @rule(target=pairs, pair=pairs)
    def clone(self, pair):
        return tuple(state.clone() for state in pair)

    @rule(target=pairs, pair=pairs)
    def save_and_load(self, pair):
        return tuple(pickle.loads(pickle.dumps(state)) for state in pair)

    @rule(target=pairs, pair=pairs)
    def torch_save_and_load(self, pair):
        loaded = []
        for state in pair:
            file = io.BytesIO()
            torch.save(state, file)
            file.seek(0)
            loaded.append(torch.load(file))
        return tuple(loaded)

    @rule(target=pairs, pair=pairs, mask=st.lists(st.booleans(), min_size=4, max_size=4))
    def reset(self, pair, mask):
        return tuple(state.reset(torch.tensor(mask[: len(state)])) for state in pair)

    @rule(target=pairs, pair=pairs, at=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def index_some(self, pair, at):
        return tuple(state[[b % len(state) for b in at]] for state in pair)

    @rule(target=pairs, first=pairs, second=pairs)
    def join(self, first, second):
        joined = tuple(sparsam.cat([a, b]) for a, b in zip(first, second))
        return tuple(state[:4] for state in joined)

    @rule(target=pairs, pair=pairs)
    def there_and_back(self, pair):
        return pair[0].to(engine="reference").to(engine="native"), pair[1].to(engine="native").to(engine="reference")

    @rule(target=pairs, pair=pairs)
    def swap_engines(self, pair):
        return pair[1].to(engine="native"), pair[0].to(engine="reference")

    @rule(pair=pairs)
    def a_bad_call_changes_nothing(self, pair):
        x = torch.full((2, len(pair[0]), 3), torch.nan, dtype=torch.float64)
        try:
            y, _ = self.native(x, pair[0])
            y.sum().backward()
        except (ValueError, RuntimeError):
            pass
        for parameter in self.native.parameters():
            parameter.grad = None
        self.run_both(pair, 7, 2, True)

    @rule(target=graphs, pair=pairs, seed=st.integers(0, 3), steps=st.integers(1, 3))
    def call_and_keep_the_graph(self, pair, seed, steps):
        x = torch.randn(steps, len(pair[0]), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        return [model(x, state.detach())[0] for model, state in zip((self.native, self.reference), pair)]

    @rule(graph=graphs)
    def backward_of_any_graph(self, graph):
        """In any order, and again: the memory beneath has gone on meanwhile."""
        found = [
            torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)
            for model, y in zip((self.native, self.reference), graph)
        ]
        for a, b in zip(*found):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


def machines() -> dict[str, type[StateMachine]]:
    """One for every model and index."""
    kinds = [("sam", index) for index in ("linear", "scan", "lsh", "kdtree", "auto")]
    kinds += [("sdnc", "linear"), ("sdnc", "scan"), ("sdnc", "kdtree")]
    return {
        f"{name} {index}": type("Machine", (StateMachine,), {"name": name, "index": index}) for name, index in kinds
    }
