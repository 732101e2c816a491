"""What an agent's return is at a horizon far beyond those that it was trained at.

What the games of any length show does not depend on what the agent does, as long as it goes on. So a test runs the
agent over whole pieces of the episode, with the state carried from piece to piece and the most probable actions, and
adds up what the game pays until it ends.
"""

from __future__ import annotations

import resource
import time

import torch

from sparsam.lab.agents.environments import HORIZONS
from sparsam.lab.agents.ppo import Agent

EPISODES = 4
PIECE = 1_000  # steps in one call


@torch.no_grad()
def test(agent: Agent, name: str, length: int, episodes: int = EPISODES) -> dict[str, float]:
    """The mean return as a share of the largest, over episodes of exactly `length` steps, each cue equally often."""
    games = HORIZONS[name](episodes, length, length, length)
    cue, whole = torch.arange(episodes) % games.cues, torch.full((episodes,), length)
    state, total = agent.core.initial(episodes), torch.zeros(episodes, dtype=torch.float64)
    alive = torch.ones(episodes, dtype=torch.bool)
    began = time.process_time()
    for start in range(0, length, PIECE):
        times = torch.arange(start, min(start + PIECE, length))[:, None].expand(-1, episodes)
        features, state = agent.core.run(games.shown(times, cue, whole), state)
        actions = agent.policy(agent.heads(features)).argmax(-1)
        rewards, ended = games.paid(actions, times, cue, whole)
        over = ended.cumsum(0) - ended.long()  # how often it had ended before this step
        total += torch.where((over == 0) & alive, rewards.double(), 0.0).sum(0)
        alive = alive & ~ended.any(0)
    return {
        "share": round(float(total.mean()) / games.optimum, 5),
        "us_per_step": round((time.process_time() - began) * 1e6 / length / episodes, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
