"""The games: what is shown, what is paid, and that none of them can be won without remembering."""

import pytest
import torch

from sparsam.lab.agents.environments import HORIZONS, PILOTS, POPGYM, make


@pytest.mark.parametrize("name", HORIZONS)
def test_who_remembers_the_cue_has_the_largest_return(name):
    games = make(name, 8, seed=3, longest=20)
    total, returns = torch.zeros(8), []
    for _ in range(200):
        time, cue, last = games.time, games.cue, games.length - 1
        actions = cue if name == "RepeatFirst" else torch.where(time == last, 1 + cue, 0)
        rewards, ended = games.step(actions)
        total += rewards
        returns += total[ended].tolist()
        total[ended] = 0.0
    assert returns == pytest.approx([games.optimum] * len(returns)) and len(returns) > 40


@pytest.mark.parametrize("name", HORIZONS)
def test_the_cue_is_shown_at_the_first_step_only(name):
    games = make(name, 4, seed=0, longest=30)
    first, cue = games.observe(), games.cue
    assert (first[:, : games.cues].argmax(1) == cue).all()
    games.time = games.time + 1
    if name == "TMaze":
        games.length = torch.full_like(games.length, 9)
        assert (games.observe() == torch.tensor([0.0, 0, 1, 0])).all()
    else:
        assert not games.observe()[:, 4].any()


def test_a_wrong_step_in_the_corridor_ends_the_game():
    games = make("TMaze", 3, seed=0, longest=30)
    games.length = torch.full_like(games.length, 9)
    rewards, ended = games.step(torch.tensor([0, 1, 2]))
    assert ended.tolist() == [False, True, True]
    torch.testing.assert_close(rewards, torch.tensor([0.0, -0.1, -0.1]))


@pytest.mark.parametrize("name", [*POPGYM, *PILOTS])
def test_popgym_side_by_side(name):
    pytest.importorskip("popgym", reason='pip install "sparsam[guests]"')
    games = make(name, 3, seed=0)
    x = games.observe()
    assert x.shape == (3, games.inputs) and x[:, -1].all() and not x[:, games.shown : -1].any()
    actions = torch.tensor([0, 1, 0])
    rewards, ended = games.step(actions)
    x = games.observe()
    assert rewards.shape == ended.shape == (3,) and not ended.any() and not x[:, -1].any()
    assert (x[:, games.shown : -1].argmax(1) == actions).all()
    alone = make(name, 3, seed=0)  # the same seed, the same games
    alone.step(actions)
    torch.testing.assert_close(alone.observe(), x)
