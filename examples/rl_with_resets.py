"""Reinforcement learning with a memory: act step by step in many environments, reset those whose episode ends, learn
from pieces of the stream.

The environment: a light shows which of two doors is right, goes out, and some steps later the agent has to choose.
Without a memory it can only guess.

    python examples/rl_with_resets.py
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import sparsam


class Doors:
    """B environments side by side. Observations: light left, light right, choose now."""

    def __init__(self, batch: int, delay: int, generator: torch.Generator) -> None:
        self.batch, self.delay, self.generator = batch, delay, generator
        self.clock = torch.randint(delay + 2, (batch,), generator=generator)  # they are not in step
        self.door = torch.randint(2, (batch,), generator=generator)

    def observe(self) -> Tensor:
        seen = torch.zeros(self.batch, 3)
        seen[torch.arange(self.batch), self.door] = (self.clock == 0).float()
        seen[:, 2] = (self.clock == self.delay + 1).float()
        return seen

    def act(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards, and which episodes have ended."""
        done = self.clock == self.delay + 1
        reward = torch.where(done, (action == self.door).float() * 2 - 1, 0.0)
        self.clock = torch.where(done, 0, self.clock + 1)
        self.door = torch.where(done, torch.randint(2, (self.batch,), generator=self.generator), self.door)
        return reward, done


class Agent(nn.Module):
    """A policy and a value estimate from one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = sparsam.SAM(3, 16, hidden_size=32, memory_size=256, word_size=16, num_heads=1, k=2)
        self.policy, self.value = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, seen: Tensor, state: object) -> tuple[Tensor, Tensor, object]:
        y, state = self.memory(seen.unsqueeze(0), state)  # one step: (1, B, 3)
        return self.policy(y[0]), self.value(y[0]).squeeze(-1), state


def main(updates: int = 100, batch: int = 32, delay: int = 4, piece: int = 12, discount: float = 0.9) -> float:
    torch.manual_seed(0)
    doors = Doors(batch, delay, torch.Generator().manual_seed(0))
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=5e-3)
    state = agent.memory.initial_state(batch)
    score = 0.0
    for update in range(1, updates + 1):
        state = state.detach()  # truncated: gradients stay within the piece
        chances, values, rewards, ends = [], [], [], []
        for _ in range(piece):
            logits, value, state = agent(doors.observe(), state)
            choice = torch.distributions.Categorical(logits=logits)
            action = choice.sample()
            reward, done = doors.act(action)
            state = state.reset(done)  # these environments begin anew, with an empty memory
            chances.append((choice.log_prob(action), choice.entropy()))
            values.append(value)
            rewards.append(reward)
            ends.append(done)
        with torch.no_grad():
            following = agent(doors.observe(), state)[1]  # a state is a value: looking ahead does not change it
        loss = torch.zeros(())
        for (log_chance, entropy), value, reward, done in zip(chances[::-1], values[::-1], rewards[::-1], ends[::-1]):
            following = reward + discount * following * (~done).float()
            advantage = following - value
            loss = loss + (advantage.square() * 0.5 - log_chance * advantage.detach() - 0.02 * entropy).mean()
        optimizer.zero_grad()
        (loss / piece).backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        optimizer.step()
        finished = torch.stack(ends)
        score = float(torch.stack(rewards)[finished].mean()) if finished.any() else score
        if update % 25 == 0 or update == updates:
            print(f"{update:>5} updates: mean reward of finished episodes {score:+.2f} (chance 0, best +1)")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--delay", type=int, default=4)
    main(**vars(parser.parse_args()))
