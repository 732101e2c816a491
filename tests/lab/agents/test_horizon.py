"""The test at a horizon: the share of the largest return of agents whose share is known."""

import pytest
import torch
from torch import nn

from sparsam.lab.agents import horizon
from sparsam.lab.agents.environments import HORIZONS


class Known(nn.Module):
    """An agent that remembers the cue for `span` steps, as its 'core', and then says 0."""

    def __init__(self, name, span):
        super().__init__()
        self.name, self.span, self.core = name, span, self
        self.heads = self.policy = nn.Identity()

    def initial(self, batch):
        return torch.zeros(batch, 2, dtype=torch.long)

    def run(self, x, state):
        logits, state = torch.zeros(*x.shape[:2], 4), state.clone()
        for t, now in enumerate(x):
            state[:, 0] = torch.where(state[:, 1] == 0, now.argmax(1), state[:, 0])
            cue = torch.where(state[:, 1] < self.span, state[:, 0], 0)
            state[:, 1] += 1
            action = cue if self.name == "RepeatFirst" else torch.where(now[:, 3] > 0, 1 + cue, 0)
            logits[t, torch.arange(len(now)), action] = 1.0
        return logits, state


@pytest.mark.parametrize("name", HORIZONS)
def test_a_perfect_memory_has_it_all(name):
    assert horizon.test(Known(name, 10**9), name, 1_500)["share"] == 1.0


def test_one_that_forgets_has_what_was_paid_till_then():
    # of four cues, one is what a forgetful agent says anyway; the others lose a point where it gained one
    assert horizon.test(Known("RepeatFirst", 750), "RepeatFirst", 1_500)["share"] == pytest.approx(0.25)
    assert horizon.test(Known("TMaze", 750), "TMaze", 1_500)["share"] == pytest.approx(0.45)  # half at 1, half at -0.1
