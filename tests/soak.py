"""The state machine, the fuzzers and threads for as long as asked: `python tests/soak.py --minutes 5` (`make soak`).

Each round draws cases that no round before it had. Prints what was done after each, and at the end whether the memory
of the process stayed flat. Ends with code 1 at the first thing that is wrong, with the seed that shows it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

import sparsam

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.state_machine import StateMachine, machines  # noqa: E402

HISTORIES, STEPS = 10, 20
INDEXES = ("linear", "scan", "lsh", "kdtree", "auto")


class Wrong(Exception):
    """Something is not as promised."""


class Soak:
    """What was done so far, and the rounds."""

    def __init__(self, first: int) -> None:
        self.round, self.done = first, Counter[str]()
        self.resident: list[int] = []
        self.kinds = machines()
        self._count_calls()

    def _count_calls(self) -> None:
        run_both, done = StateMachine.run_both, self.done

        def counted(machine: Any, *arguments: Any) -> Any:
            done["calls of the state machine"] += 1
            return run_both(machine, *arguments)

        StateMachine.run_both = counted  # type: ignore[method-assign]

    def histories(self) -> None:
        kinds, name = self.kinds, list(self.kinds)[self.round % len(self.kinds)]
        many = settings(max_examples=HISTORIES, stateful_step_count=STEPS, deadline=None, database=None,
                        suppress_health_check=list(HealthCheck))  # fmt: skip
        try:
            run_state_machine_as_test(seed(self.round)(kinds[name]), settings=many)
        except Exception as error:
            raise Wrong(f"state machine {name}, seed {self.round}: {error}") from error
        self.done["histories"] += HISTORIES

    def programs(self) -> None:
        """The fuzzers, in processes of their own: a crash is theirs."""
        n = self.round
        for what, count, command in (
            ("direct calls of the core", 500, ["engines/native/fuzz.py", str(500 * n + 2000), str(500 * n + 2500)]),
            ("altered states", 130, ["engines/state_fuzz.py", str(100 + n), "130"]),
            ("malformed public calls", 0, ["public_fuzz.py", str(n // 4 % 8), "8"]),
        ):
            run = [sys.executable, str(HERE / command[0]), *command[1:]]
            done = subprocess.run(run, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                said = (done.stdout[-500:] + done.stderr[-2000:]).strip()
                raise Wrong(f"{' '.join(command)} ended with code {done.returncode}: {said}")
            self.done[what] += count or int(done.stdout.splitlines()[-1].split()[2])

    def threads(self) -> None:
        """Threads with states of their own, and with one that they share, on one model; some save meanwhile."""
        index, draw = INDEXES[self.round % len(INDEXES)], random.Random(self.round)
        torch.manual_seed(self.round)
        model = sparsam.SAM(4, 3, hidden_size=8, memory_size=200, word_size=6, num_heads=2, k=3, index=index)
        x = torch.randn(8, 2, 4)
        with torch.no_grad():
            shared = model(x)[1]
            expected = model(x, shared)[0]
        problems: list[str] = []
        counts: Counter[str] = Counter()
        seeds, clones = [draw.random() for _ in range(4)], [shared.clone() for _ in range(4)]

        def work(number: int) -> None:
            chance, own = random.Random(seeds[number]), clones[number]
            for _ in range(40):
                try:
                    state = own if chance.random() < 0.6 else shared
                    if chance.random() < 0.2:
                        state = pickle.loads(pickle.dumps(state))
                    y, after = model(x, state)
                    if chance.random() < 0.5:
                        torch.autograd.grad(y.sum(), list(model.parameters()))
                    if not torch.equal(y, expected):
                        problems.append(f"thread {number}: another output")
                    if chance.random() < 0.3:
                        model(x, after.detach())
                    counts["ran"] += 1
                except RuntimeError as error:
                    if "in use by another thread" not in str(error):
                        problems.append(f"thread {number}: {error}")
                    counts["told that a state is busy"] += 1

        before = torch.get_num_threads()
        torch.set_num_threads(1 + self.round % 2)
        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        torch.set_num_threads(before)
        if problems:
            raise Wrong(f"threads, index {index}, round {self.round}: {problems[0]}")
        self.done["calls in threads"] += counts["ran"]
        self.done["busy states told"] += counts["told that a state is busy"]

    def one_round(self) -> None:
        self.histories()
        self.threads()
        if self.round % 4 == 0:
            self.programs()
        gc.collect()
        self.resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        self.round += 1

    def growth(self) -> float:
        """Bytes of the last quarter of the rounds beyond those of the second, on average; the first warms up."""
        quarter = max(1, len(self.resident) // 4)
        early, late = self.resident[quarter : 2 * quarter] or self.resident[:1], self.resident[-quarter:]
        return sum(late) / len(late) - sum(early) / len(early)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--first", type=int, default=int(time.time()) % 100_000, help="number of the first round")
    parser.add_argument("--most", type=float, default=64.0, help="MiB that the process's memory may grow by")
    given = parser.parse_args()
    soak, end = Soak(given.first), time.monotonic() + 60 * given.minutes
    print(f"rounds from {given.first} on", flush=True)
    wrong = None
    try:
        while time.monotonic() < end:
            soak.one_round()
            print(f"round {soak.round - 1}: {soak.resident[-1] / 2**20:.0f} MiB; {dict(soak.done)}", flush=True)
    except Wrong as error:
        wrong = str(error)
    growth = soak.growth() / 2**20 if soak.resident else 0.0
    if wrong is None and growth > given.most:
        wrong = f"memory grew by {growth:.0f} MiB"
    report = {**soak.done, "rounds": len(soak.resident), "growth_mib": round(growth, 1), "wrong": wrong}
    print(json.dumps(report), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
