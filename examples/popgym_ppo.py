"""PPO with a memory, in one file: POPGym's RepeatPreviousEasy, where the answer is the suit of the card four deals ago.

What a memory asks of a PPO loop: carry the state from rollout to rollout, reset it where an episode has ended, keep the
state that a rollout began with, and run the update over whole sequences from there. The marks (1) to (5) show where.

    python examples/popgym_ppo.py             # popgym's own environment where it is installed
    python examples/popgym_ppo.py --model lstm
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsam

SUITS, BACK, DECK = 4, 4, 52


class Cards:
    """B games side by side by popgym's rules: +1/48 for a right suit, -1/48 for a wrong one."""

    def __init__(self, batch: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.batch, self.each = batch, torch.arange(batch)
        self.decks, self.shown = self.shuffled(batch), torch.zeros(batch, dtype=torch.long)

    def shuffled(self, n: int) -> Tensor:
        return torch.rand(n, DECK, generator=self.generator).argsort(1) % SUITS

    def observe(self) -> Tensor:
        return self.decks[self.each, self.shown]

    def step(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards and ended episodes; those begin again."""
        asked = self.decks[self.each, (self.shown - BACK + 1).clamp(min=0)]
        reward = torch.where(action == asked, 1.0, -1.0) / (DECK - BACK) * (self.shown + 1 >= BACK)
        self.shown = self.shown + 1
        done = self.shown == DECK - 1
        if bool(done.any()):
            self.decks[done], self.shown[done] = self.shuffled(int(done.sum())), 0
        return reward, done


class Popgym:
    """B environments of popgym behind the same two methods."""

    def __init__(self, batch: int, seed: int) -> None:
        from popgym.envs.repeat_previous import RepeatPreviousEasy

        self.games = [RepeatPreviousEasy() for _ in range(batch)]
        self.seen = [game.reset(seed=seed + b)[0] for b, game in enumerate(self.games)]

    def observe(self) -> Tensor:
        return torch.tensor(self.seen)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor]:
        after = [game.step(a) for game, a in zip(self.games, action.tolist())]
        self.seen = [game.reset()[0] if done else seen for game, (seen, _, done, _, _) in zip(self.games, after)]
        return torch.tensor([a[1] for a in after]), torch.tensor([a[2] for a in after])


def environments(batch: int, seed: int) -> Cards | Popgym:
    try:
        return Popgym(batch, seed)
    except ImportError:
        return Cards(batch, seed)


def advantages(rewards: Tensor, values: Tensor, last: Tensor, done: Tensor, discount: float, lam: float) -> Tensor:
    """Generalised advantage estimation over a rollout (T, B)."""
    found, ahead = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        going = (~done[t]).float()
        ahead = rewards[t] + discount * going * last - values[t] + discount * lam * going * ahead
        found[t], last = ahead, values[t]
    return found


def main(
    model: str = "sam", steps: int = 300_000, batch: int = 32, length: int = 64, epochs: int = 4, parts: int = 4,
    discount: float = 0.9, rate: float = 2e-3, entropy: float = 0.01, seed: int = 0, env: str = "popgym",
    goal: float = 0.95,
) -> float:  # fmt: skip
    """The best mean return of the episodes that ended in one rollout; 1 is perfect, -0.5 is chance."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 64} if model == "lstm" else {"hidden_size": 64, "memory_size": 128, "word_size": 16}
    agent: nn.Module = sparsam.build(model, input_size=SUITS, output_size=SUITS + 1, **sizes)  # (1) logits and value
    games = environments(batch, seed) if env == "popgym" else Cards(batch, seed)
    optimizer = torch.optim.Adam(agent.parameters(), lr=rate, eps=1e-5)
    state, begins = agent.initial_state(batch), torch.zeros(batch, dtype=torch.bool)
    total, best, begun = torch.zeros(batch), -1.0, time.time()
    for update in range(steps // (batch * length)):
        first, seen, taken, rewards, resets, ended = state, [], [], [], [], []  # (2) what the rollout began with
        log_probs, values, done_at = [], [], []
        with torch.no_grad():
            for _ in range(length):
                x = F.one_hot(games.observe(), SUITS).float()
                out, state = agent(x[None], state, resets=begins[None])  # (3) one step; ended episodes start anew
                policy = torch.distributions.Categorical(logits=out[0, :, :-1])
                action = policy.sample()
                reward, done = games.step(action)
                total += reward
                ended += total[done].tolist()
                total[done] = 0
                for held, value in zip(
                    (seen, taken, rewards, resets, log_probs, values, done_at),
                    (x, action, reward, begins, policy.log_prob(action), out[0, :, -1], done),
                ):
                    held.append(value)
                begins = done
            x = F.one_hot(games.observe(), SUITS).float()
            last = agent(x[None], state, resets=begins[None])[0][0, :, -1]  # (4) a look ahead: `state` stays as it was
        xs, actions, flags = torch.stack(seen), torch.stack(taken), torch.stack(resets)
        old, known, rewarded = torch.stack(log_probs), torch.stack(values), torch.stack(rewards)
        gains = advantages(rewarded, known, last, torch.stack(done_at), discount, 0.95)
        wanted = gains + known
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        for _ in range(epochs):
            for part in torch.randperm(batch).chunk(parts):  # (5) whole sequences and the states that they began with
                out, _ = agent(xs[:, part], first[part], resets=flags[:, part])
                policy = torch.distributions.Categorical(logits=out[..., :-1])
                ratio = (policy.log_prob(actions[:, part]) - old[:, part]).exp()
                clipped = torch.minimum(ratio * gains[:, part], ratio.clamp(0.8, 1.2) * gains[:, part])
                loss = -clipped.mean() + 0.5 * (out[..., -1] - wanted[:, part]).square().mean()
                loss = loss - entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if ended:
            mean = sum(ended) / len(ended)
            best = max(best, mean)
            print(f"{(update + 1) * batch * length:8,} steps  {time.time() - begun:4.0f} s  return {mean:+.2f}")
        if best >= goal:
            break
    return best


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="sam", choices=["sam", "sdnc", "lstm"])
    arguments.add_argument("--steps", type=int, default=300_000)
    arguments.add_argument("--env", default="popgym", choices=["popgym", "cards"], help="cards: the same game, faster")
    main(**vars(arguments.parse_args()))
