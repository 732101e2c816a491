"""What a training run has to survive. Each scenario yields (what was done, what went wrong or None).

python tests/lab/training/faults/scenarios.py kills=100 refusals=6
python tests/lab/training/faults/scenarios.py kills500 --processes 8 --json
python tests/lab/training/faults/scenarios.py all
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import damage
from bench import Bench, Result
from injection import (
    BROKEN,
    NO_SPACE,
    READ_ONLY,
    Ended,
    Operations,
    finish,
    in_child,
    same_bits,
    start_child,
)
from kills import kills, rank_kills, torchrun, worker_kills
from processes import dead_workers, workers

from sparsam.lab.cli import main
from sparsam.lab.training import checkpoint
from sparsam.lab.training.folder import RunFolder

EXECUTED = Path(damage.EXECUTED)


def refusals(bench: Bench, count: int) -> Iterator[Result]:
    """The disk refuses one operation, or all from one on (full, read-only, broken): the exit code tells the truth."""
    total = bench.operations(bench.fresh())
    faults = {"full": NO_SPACE, "read-only": READ_ONLY, "broken": BROKEN}
    places = sorted({1 + i * total // count for i in range(count)})
    for number, place in bench.mine(list(enumerate(places))):
        name, fault = list(faults.items())[number % 3]
        once = number % 2 == 0
        folder = bench.fresh()
        due = (lambda n, at=place: n == at) if once else (lambda n, at=place: n >= at)
        ended = bench.train(folder, Operations(folder, due, fault).install)
        what = f"disk {name} {'at' if once else 'from'} file operation {place} of {total}"
        yield what, _told_the_truth(bench, folder, ended)


def full_disk(bench: Bench, count: int) -> Iterator[Result]:
    """No file may grow beyond so many bytes."""
    largest = max(file.stat().st_size for file in bench.whole.rglob("*") if file.is_file())
    for number in bench.mine(list(range(count))):
        limit = round(largest * 1.1 * number / max(count - 1, 1))
        folder = bench.fresh()
        ended = bench.train(folder, lambda most=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
        yield f"files of {limit:,} bytes at most", _told_the_truth(bench, folder, ended)


def _told_the_truth(bench: Bench, folder: Path, ended: Ended) -> str | None:
    """Code 0 only with the last weights on disk; without, the message names the step that is. Going on works."""
    if "Traceback" in ended.err:
        return f"a traceback: {ended.err}"
    on_disk = checkpoint.whole_steps(folder / "checkpoints")
    last = on_disk[-1] if on_disk else None
    if ended.code == 0 and last != bench.config.steps:
        return f"code 0 with checkpoint {last}"
    if "could not be written" in ended.err and ended.code == 1 and "last weights" in ended.err:
        told = f"minibatch {last} is on disk" if last else "no checkpoint is on disk"
        if told not in ended.err:
            return f"says something else than {told!r}: {ended.err}"
        if RunFolder(folder).result() is not None:
            return "has a result"
    if ended.code == 0 and not (folder / "result.json").exists():
        return "code 0 without a result"
    return bench.resumed_to_same_bits(folder, log=False)  # a line that the disk refused is lost


def read_only(bench: Bench, count: int) -> Iterator[Result]:
    """A folder that this user cannot write."""
    folder = bench.fresh()
    shutil.copytree(bench.whole, folder)
    os.chmod(folder, 0o555)
    os.chmod(bench.scratch, 0o777)

    def not_root() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    for options in bench.mine([["--steps", "20"], ["--force", "--steps", "3"]]):
        before = sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
        ended = bench.train(folder, not_root, *options)
        after = sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
        problem = None
        if ended.code != 1 or "ermission" not in ended.err or "Traceback" in ended.err:
            problem = f"code {ended.code}: {ended.err}"
        elif before != after:
            problem = "something has changed"
        yield f"a read-only folder, {options[0]}", problem
    os.chmod(folder, 0o755)


def two_processes(bench: Bench, count: int) -> Iterator[Result]:
    """A second process on the same run is refused, by the name of the first; a crash of the first lets it in."""
    if not bench.mine([0]):
        return
    folder = bench.fresh()
    pause = Operations(folder, lambda n: n == 15, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    first = start_child(bench.command(folder, pause.install), bench.scratch)
    os.waitpid(first, os.WUNTRACED)
    for _ in range(2):
        second = bench.train(folder)
        refused = second.code == 1 and f"is in use by process {first}" in second.err
        yield "two processes on one run", None if refused else f"code {second.code}: {second.err}"
    os.kill(first, signal.SIGCONT)
    ended = finish(first, bench.scratch)
    yield "the first of two", f"code {ended.code}: {ended.err}" if ended.code else bench.resumed_to_same_bits(folder)
    folder = bench.fresh()
    first = start_child(bench.command(folder, Operations(folder, pause._due, pause._fault).install), bench.scratch)
    os.waitpid(first, os.WUNTRACED)
    os.kill(first, signal.SIGKILL)
    finish(first, bench.scratch)
    yield "a crash gives the lock back", bench.resumed_to_same_bits(folder)


def damaged(bench: Bench, count: int) -> Iterator[Result]:
    """Kinds of damage: the documented outcome of `eval` and of `train --resume`, and never a traceback."""
    for kind in bench.mine(damage.KINDS[:: max(1, len(damage.KINDS) // count)]):
        for accept in [[]] if kind.accept is None else [[], ["--accept", "damage"]]:
            evaluated, resumed = kind.accept if kind.accept and accept else (kind.evaluate, kind.resume)
            folder = bench.fresh()
            shutil.copytree(bench.whole, folder)
            kind.apply(folder)
            what = f"{kind.name}{', accepted' if accept else ''}"
            ended = in_child(lambda at=folder, a=accept: main(["eval", str(at), "--batches", "1", *a]), bench.scratch)
            yield f"{what}: eval", damage.judge(evaluated, ended)
            ended = bench.train(folder, lambda: None, *accept)
            yield f"{what}: resume", damage.judge(resumed, ended) or _after(bench, folder, ended)
            if EXECUTED.exists():
                yield f"{what}: executed", "code in a file was executed"
                EXECUTED.unlink()


def _after(bench: Bench, folder: Path, ended: Ended) -> str | None:
    return None if ended.code or same_bits(bench.whole, folder) else "other bits"


SCENARIOS: dict[str, tuple[Callable[[Bench, int], Iterator[Result]], int]] = {
    "kills": (kills, 300),
    "worker_kills": (worker_kills, 100),
    "rank_kills": (rank_kills, 60),
    "torchrun": (torchrun, 40),
    "refusals": (refusals, 60),
    "full_disk": (full_disk, 20),
    "read_only": (read_only, 1),
    "two_processes": (two_processes, 1),
    "damaged": (damaged, len(damage.KINDS)),
    "dead_workers": (dead_workers, 1),
    "workers": (workers, 3),
}
GROUPS = {
    "kills500": ["kills", "rank_kills", "worker_kills", "torchrun"],
    "all": [name for name in SCENARIOS if name != "dead_workers"],  # a part of workers
}


def run(
    name: str, count: int | None = None, share: tuple[int, int] = (0, 1), seconds: float = math.inf
) -> list[Result]:
    """The results of a scenario, or of a share of it, in a scratch folder of its own; no new case after so long."""
    (scenario, usual), end = SCENARIOS[name], time.monotonic() + seconds
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as scratch:
        for result in scenario(Bench(Path(scratch), share=share), usual if count is None else count):
            results.append(result)
            if time.monotonic() > end:
                break
    return results


def run_in(processes: int, name: str, count: int | None, seconds: float) -> list[Result]:
    """As `run`, the cases shared out among processes."""
    if processes == 1:
        return run(name, count, seconds=seconds)
    command = [sys.executable, __file__, name if count is None else f"{name}={count}", "--json"]
    command += ["--seconds", str(seconds)]
    shares = [
        subprocess.Popen([*command, "--share", f"{number}/{processes}"], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    results: list[Result] = []
    for number, share in enumerate(shares):
        said = share.communicate()[0].splitlines()
        if share.returncode not in (0, 1) or not said:
            results.append((f"share {number}", f"ended with code {share.returncode}"))
            continue
        told = json.loads(said[-1])
        wrong = [tuple(each) for each in told["wrong"]]
        results += wrong + [("", None)] * (told["done"] - len(wrong))
    return results


def _asked(text: str) -> dict[str, int | None]:
    name, _, count = text.partition("=")
    if name not in SCENARIOS and name not in GROUPS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join([*SCENARIOS, *GROUPS])}, got {name}")
    return dict.fromkeys(GROUPS.get(name, [name]), int(count) if count else None)


def command_line() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", type=_asked, help="name, or name=cases; else all of the long run")
    parser.add_argument("--processes", type=int, default=1, help="that share the cases")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each scenario, then no new case is begun")
    parser.add_argument("--share", default="0/1", help="i/n: only these cases")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each scenario")
    given = parser.parse_args()
    share = tuple(int(part) for part in given.share.split("/"))
    failed = 0
    for name, count in (case for asked in given.scenarios for case in asked.items()):
        begin = time.monotonic()
        if share == (0, 1):
            results = run_in(given.processes, name, count, given.seconds)
        else:
            results = run(name, count, share, given.seconds)
        wrong = [(what, problem) for what, problem in results if problem is not None]
        failed += len(wrong)
        took = round(time.monotonic() - begin)
        if given.json:
            print(json.dumps({"scenario": name, "done": len(results), "seconds": took, "wrong": wrong}), flush=True)
            continue
        print(f"{name}: {len(results) - len(wrong)} of {len(results)} ({took} s)", flush=True)
        for what, problem in wrong:
            print(f"  {what}: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(command_line())
