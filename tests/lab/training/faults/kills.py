"""Kills: of a run in one process, of one with workers, of the processes of torchrun. All go on from what is on disk.

One process and torchrun's end on the bits and the log of a run that nothing has happened to. A run with workers has no
such twin, its updates interleave: it goes on from the bits of its last checkpoint, and to the same bits every time.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from bench import Bench, Result
from injection import Ended, Operations, finish, gone, kill_self, numbers, same_bits, start_child
from processes import wait
from torch.distributed import run

from sparsam.lab.training import checkpoint
from sparsam.lab.training.folder import RunFolder

_MEMORY = ("model.memory_size=64", "model.word_size=8", "model.num_heads=2")
_LEVELS = 'curriculum={"start": 1, "max_level": 4, "threshold": 100.0, "patience": 2}'
_LONGER = ("--steps", "1200", "--set", "checkpoint_every=60", "--set", _LEVELS)
RUNS = {
    "lstm": (),
    "sam with a curriculum": ("model.name=sam", *_MEMORY, _LEVELS),
    "sdnc": ("model.name=sdnc", *_MEMORY),
}
_ENDLESS = [part for setting in ("steps=1000000000", "eval_every=1000000000", "checkpoint_every=40", "log_every=20",
            "workers=2") for part in ("--set", setting)]  # fmt: skip


def _spread(cases: list, count: int) -> list:
    """`count` of the cases, evenly."""
    return cases if count >= len(cases) else [cases[i * len(cases) // count] for i in range(count)]


def kills(bench: Bench, count: int) -> Iterator[Result]:
    """Killed at every file operation, at random moments, and a second time while going on; three kinds of run."""
    chance = random.Random(0)
    benches = {name: bench.other(*settings) for name, settings in RUNS.items()}
    totals = {name: each.operations(each.fresh()) for name, each in benches.items()}
    places = [(name, place, None) for name, total in totals.items() for place in range(1, total + 1)]
    cases: list[tuple[str, int | float, int | None]] = [*_spread(places, count - count // 4)]
    names = list(RUNS)
    for number in range((count - len(cases) + 1) // 2):  # half of the rest
        cases.append((names[number % 3], chance.random(), None))
    while len(cases) < count:
        name = names[len(cases) % 3]
        cases.append((name, chance.randint(totals[name] // 4, totals[name]), chance.randint(1, totals[name] // 2)))
    for name, place, second in bench.mine(cases):
        yield _killed(benches[name], name, place, second)


def _killed(bench: Bench, name: str, place: int | float, second: int | None) -> Result:
    folder = bench.fresh()
    if isinstance(place, float):
        what, ended = f"{name}: killed at a random moment ({place:.3f} of its time)", _at_random(bench, folder, place)
    else:
        what = f"{name}: killed at file operation {place}"
        ended = bench.train(folder, Operations(folder, lambda n: n == place, kill_self).install)
    if ended.code != -signal.SIGKILL:
        return what, f"was not killed, code {ended.code}: {ended.err}"
    if second is not None:
        bench.train(folder, Operations(folder, lambda n: n == second, kill_self).install)
        what += f", going on killed at {second}"
    return what, bench.resumed_to_same_bits(folder)


def _at_random(bench: Bench, folder: Path, moment: float) -> Ended:
    """Killed from outside, between any two instructions; one that was too quick is tried again and killed sooner."""
    while True:
        child = start_child(bench.command(folder), bench.scratch)
        time.sleep(moment * bench.seconds)
        os.kill(child, signal.SIGKILL)
        ended = finish(child, bench.scratch)
        if ended.code == -signal.SIGKILL:
            return ended
        shutil.rmtree(folder)
        moment *= 0.7


def worker_kills(bench: Bench, count: int) -> Iterator[Result]:
    """A run with two workers, killed at a file operation or at a random moment, alone or with its workers."""
    for number in bench.mine(list(range(count))):
        yield _killed_with_workers(bench, number)


def _killed_with_workers(bench: Bench, number: int) -> Result:
    chance, folder = random.Random(number), bench.fresh()
    how = ("at a file operation", "at a random moment", "at a random moment with its workers")[number % 3]
    what = f"run {number} with workers killed {how}"
    place = chance.randint(1, 150) if number % 3 == 0 else -1
    counter = Operations(folder, lambda n: n == place, kill_self)

    def prepare() -> None:
        os.setsid()
        counter.install()

    child = start_child(bench.command(folder, prepare, *_ENDLESS), bench.scratch)
    if place < 0:
        begun = number % 6 == 1 or wait(lambda: len(_workers(folder)) == 2 or gone(child))
        time.sleep(chance.uniform(0.0, 1.0))
        if not begun or gone(child):
            _end_group(child)
            return what, f"did not begin: {finish(child, bench.scratch).err}"
        if number % 3 == 2:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)
    ended = finish(child, bench.scratch)
    alone = wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in _workers(folder)))
    _end_group(child)
    if ended.code != -signal.SIGKILL:
        return what, f"was not killed, code {ended.code}: {ended.err}"
    if not alone:
        return what, "its workers live on"
    return what, _goes_on_from_its_checkpoint(bench, folder)


def _goes_on_from_its_checkpoint(bench: Bench, folder: Path) -> str | None:
    """Without workers, twice: to the same bits; from the beginning, where nothing was saved yet, to the usual ones."""
    on_disk = checkpoint.whole_steps(folder / "checkpoints") if folder.exists() else []
    step = on_disk[-1] if on_disk else 0
    before = checkpoint.load_newest(folder / "checkpoints")[1] if step else {}
    twin = bench.fresh()
    if folder.exists():
        shutil.copytree(folder, twin)
    for place in (folder, twin):
        more = ["--set", "workers=0", "--steps", str(step + 6 if step else bench.config.steps)]
        ended = bench.train(place, lambda: None, *more)
        if ended.code != 0:
            return f"could not go on, code {ended.code}: {ended.err}"
    if not same_bits(folder, twin):
        return "goes on to other bits a second time"
    if not step and not same_bits(folder, bench.whole):
        return "began again, to other bits"
    kept = folder / "checkpoints" / f"{step:010d}"
    if step and kept.exists():
        after = checkpoint.load_weights(kept / checkpoint.WEIGHTS)[0]
        if any(not (before[name] == after[name]).all() for name in before):
            return "the checkpoint itself has changed"
    shutil.rmtree(folder)
    shutil.rmtree(twin)
    return None


def _workers(folder: Path) -> list[int]:
    return [event["process"] for event in RunFolder(folder).events("worker")] if folder.exists() else []


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def rank_kills(bench: Bench, count: int) -> Iterator[Result]:
    """Two processes as torchrun starts them: the first killed at a file operation, either or both at random."""
    whole = _whole_ranks(bench)
    chance = random.Random(1)
    cases = [(n % 4, chance.randint(1, 56) if n % 4 == 0 else chance.random()) for n in range(count)]
    for how, place in bench.mine(cases):
        folder = bench.fresh()
        ended = _killed_ranks(bench, folder, how, place)
        again = [finish(child, bench.scratch) for child in _ranks(bench, folder)]
        what = ("rank 0 killed at a file operation", "rank 0 killed", "rank 1 killed", "both ranks killed")[how]
        problem = None
        if all(each.code != -signal.SIGKILL for each in ended):
            problem = f"was not killed, code {ended[0].code}: {ended[0].err}"
        elif any(each.code for each in again):
            problem = f"could not go on: {again[0].err[-2000:]}{again[1].err[-2000:]}"
        yield f"{what} ({place})", problem or _as_the_whole_one(whole, folder)


def _whole_ranks(bench: Bench, *options: str) -> Path:
    """A run of two processes that nothing happens to."""
    folder = bench.fresh()
    for child in _ranks(bench, folder, None, *options):
        ended = finish(child, bench.scratch)
        assert ended.code == 0, ended.err
    return folder


def _killed_ranks(bench: Bench, folder: Path, how: int, place: float) -> list[Ended]:
    while True:
        due = place if how == 0 else -1
        ranks = _ranks(bench, folder, Operations(folder, lambda n, at=due: n == at, kill_self))
        if how:
            time.sleep(place * bench.seconds * 1.5)
            for rank in {1: ranks[:1], 2: ranks[1:], 3: ranks}[how]:
                os.kill(rank, signal.SIGKILL)
        ended = [finish(child, bench.scratch) for child in ranks]
        if how == 0 or any(each.code for each in ended):
            return ended
        shutil.rmtree(folder)  # it was too quick
        place *= 0.7


def _ranks(bench: Bench, folder: Path, injected: Operations | None = None, *more: str) -> list[int]:
    port = _port(bench)

    def prepare(rank: int) -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
        os.environ.update(MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        if injected is not None and rank == 0:
            injected.install()

    options = ("--set", "wait_seconds=30", *more)  # what the other waits when one is killed before they have met
    # What there is to go on with is looked up here, once: rank 0 may be quick to make a folder.
    resumes = (folder / "config.json").exists()
    works = [bench.command(folder, lambda r=rank: prepare(r), *options, resumes=resumes) for rank in range(2)]
    return [start_child(work, bench.scratch) for work in works]


def _port(bench: Bench) -> int:
    """One that is free, of a range that belongs to this share of the work."""
    while True:
        port = 21000 + 500 * bench.share[0] + bench.next_number() % 500
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def _as_the_whole_one(whole: Path, folder: Path) -> str | None:
    if not same_bits(whole, folder):
        return "other bits"
    if numbers(whole) != numbers(folder):
        return "another log"
    shutil.rmtree(folder)
    return None


def torchrun(bench: Bench, count: int) -> Iterator[Result]:
    """torchrun with two processes: either is killed, or all of it, at random moments; the run goes on to the same bits.

    A dead process ends the others soon.
    """
    whole = _whole_ranks(bench, *_LONGER)
    for number in bench.mine(list(range(count))):
        folder, chance = bench.fresh(), random.Random(number)
        child = _launch(bench, folder)
        early = number % 8 >= 6  # before the first checkpoint, perhaps before anything
        if not early:
            wait(lambda at=folder, c=child: bool(checkpoint.steps(at / "checkpoints")) or gone(c))
        wait(lambda c=child: len(_ranks_of(c)) == 2 or gone(c))
        time.sleep(chance.uniform(0, 1.5 if early else 0.1))
        victim, ranks = number % 3, _ranks_of(child)
        if victim == 2:
            what = "torchrun and its processes killed"
            os.killpg(child, signal.SIGKILL)
        else:
            what = f"rank {victim} of 2 killed under torchrun"
            if len(ranks) == 2:
                os.kill(ranks[victim], signal.SIGKILL)
        dead = finish(child, bench.scratch)
        wait(lambda r=ranks: all(gone(pid) for pid in r))
        again = finish(_launch(bench, folder), bench.scratch)
        problem = None
        if dead.code == 0 or (dead.code == -9 and victim != 2):
            problem = f"killed, it ended with code {dead.code}"
        elif again.code != 0:
            problem = f"could not go on, code {again.code}: {again.err[-2000:]}"
        yield what, problem or _as_the_whole_one(whole, folder)


def _ranks_of(child: int) -> list[int]:
    """The processes that torchrun started, in the order of their ranks."""
    try:
        children = Path(f"/proc/{child}/task/{child}/children").read_text().split()
        return [int(pid) for pid in children if b"sparsam.lab.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    except OSError:
        return []


def _launch(bench: Bench, folder: Path) -> int:
    how = ["--resume", str(folder)] if (folder / "config.json").exists() else ["--out", str(folder)]
    more = ["--config", str(bench.config_file)] if how[0] == "--out" else []

    def work() -> None:
        os.setsid()
        os.environ["OMP_NUM_THREADS"] = "1"
        run.main(
            ["--nproc-per-node", "2", "--standalone", "-m", "sparsam.lab.cli", "train", *how, *more, "-q", *_LONGER]
        )

    return start_child(work, bench.scratch)
