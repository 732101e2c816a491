"""Serving: one model, and a state for every user, kept between requests and put on disk when a user leaves.

A state is a value, so that is all there is to it: look up the user's state, make a step, keep the new one. A request
that fails leaves the old state in place.

    python examples/serve_users.py
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

import sparsam


class Service:
    """Answers for many users; the `most` last active ones stay in memory, the others on disk."""

    def __init__(self, model: torch.nn.Module, folder: Path, most: int = 1000) -> None:
        self.model, self.folder, self.most = model.eval(), folder, most
        self.states: OrderedDict[str, Any] = OrderedDict()
        self.lock = threading.Lock()

    @torch.no_grad()
    def answer(self, user: str, x: torch.Tensor) -> torch.Tensor:
        """The outputs (T, O) for the next inputs (T, I) of a user."""
        with self.lock:
            state = self._state(user)
            y, after = self.model(x.unsqueeze(1), state)
            self.states[user] = after
            self.states.move_to_end(user)
            while len(self.states) > self.most:
                name, oldest = self.states.popitem(last=False)
                torch.save(oldest, self._file(name))
        return y[:, 0]

    def forget(self, user: str) -> None:
        """Everything the model knows from this user is in the state, so this is all of it."""
        with self.lock:
            self.states.pop(user, None)
            self._file(user).unlink(missing_ok=True)

    def _state(self, user: str) -> Any:
        if user in self.states:
            return self.states[user]
        if self._file(user).exists():
            return torch.load(self._file(user), weights_only=False)  # written by this service, by nobody else
        return self.model.initial_state(1)  # type: ignore[operator]

    def _file(self, user: str) -> Path:
        return self.folder / f"{user.encode().hex()}.pt"


def main(users: int = 20, requests: int = 60) -> int:
    """Serve users in turn and compare with the same inputs in one go; returns how many were compared."""
    torch.manual_seed(0)
    model = sparsam.SAM(8, 4, hidden_size=32, memory_size=100_000, word_size=16, num_heads=2)
    inputs = {f"user {n}": torch.randn(requests // users * 3, 8) for n in range(users)}
    with tempfile.TemporaryDirectory() as folder:
        service = Service(model, Path(folder), most=5)
        given: dict[str, list[torch.Tensor]] = {user: [] for user in inputs}
        for start in range(0, requests // users * 3, 3):
            for user, x in inputs.items():
                given[user].append(service.answer(user, x[start : start + 3]))
        kept = len(service.states), len(list(Path(folder).iterdir()))
    for user, x in inputs.items():
        with torch.no_grad():
            whole = model(x.unsqueeze(1))[0][:, 0]
        torch.testing.assert_close(torch.cat(given[user]), whole, atol=1e-5, rtol=1e-5)
    print(f"{users} users served piece by piece, as if each were alone; {kept[0]} in memory, {kept[1]} on disk")
    return users


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20)
    main(**vars(parser.parse_args()))
