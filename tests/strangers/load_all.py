"""Loads every file of a corpus through some entries, watched: `python load_all.py WANTED`, see `main`.

An audit hook writes down every import of what no file may name, every process, socket and execution of a file's code.
For each case the results have how it ended, what was said, the processor time and how much the process had to grow.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOM = 1 << 30  # bytes of address space that may be taken beyond what the imports take
FORBIDDEN = {
    *("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn", "pty.spawn", "subprocess.Popen"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request", "webbrowser.open"),
    "ctypes.dlopen",
}

COMMIT = ["git", "describe", "--always", "--abbrev=12", "--dirty"]  # a run writes down which version made it

RUNS_ONLY = ("plot", "resume", "config")

seen: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "import" and re.match("evil|antigravity$|this$", str(arguments[0])):
        seen.append(f"import {arguments[0]}")
    elif event == "exec" and "evil" in getattr(arguments[0], "co_filename", ""):
        seen.append(f"exec {arguments[0]}")
    elif event in FORBIDDEN and arguments[:2] != ("git", COMMIT):
        seen.append(f"{event} {arguments!r:.200}")


def entry_of(name: str) -> Callable[[Path], object]:
    """What loads a path, as a user would."""
    if name == "load":
        import sparsam
        import sparsam.lab

        return sparsam.load
    if name == "hub":
        import sparsam.lab
        from sparsam.adapters import hub

        def from_hub(path: Path) -> object:
            folder = Path("hub") / path.stem
            folder.mkdir(parents=True)
            shutil.copy(path, folder / "model.safetensors")
            (folder / "config.json").write_text(
                '{"hidden_size": 14000, "num_layers": 100000, "controller": "evil_module:T"}'
            )
            return hub.SAM.from_pretrained(str(folder))

        return from_hub
    import typer

    from sparsam.lab import cli

    made = getattr(cli, "made", None)
    command = cli.made = made or typer.main.get_command(cli.build_app())  # once: it takes longer than most of the cases
    cli.build_app = lambda *_, **__: lambda arguments: command.main(arguments, prog_name="sparsam")
    small = ["-q", "--steps", "1", "--set", "eval_batches=1", "--set", "tensorboard=false"]
    model = ["--hidden-size", "6", "--memory-size", "16", "--word-size", "4", "--num-heads", "2", "--k", "2"]
    copy = ["copy", *model, *small, "--set", "task.settings.bits=3", "--set", "task.settings.max_size=2"]
    calls: dict[str, Callable[[str], list[str]]] = {
        "info": lambda path: ["info", path],
        "ask": lambda path: ["ask", path, "--question", "Where is Mary?"],
        "eval": lambda path: ["eval", path, "--batches", "1"],
        "view": lambda path: ["view", path, "--out", "page.html"],
        "plot": lambda path: ["plot", path],
        "resume": lambda path: ["train", "--resume", path, "-q"],
        "weights": lambda path: ["train", *copy, "--weights", path, "--out", f"out/{Path(path).stem}"],
        "config": lambda path: ["train", "--config", f"{path}/config.json", "--out", f"out/{Path(path).name}", "-q"],
    }
    return lambda path: cli.main(calls[name](str(path)))


def judged(load: Callable[[Path], object], path: Path) -> dict[str, Any]:
    """How it ended; what a command says goes to its standard error."""
    said = io.StringIO()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load(path)
            ended = "fine"
        except SystemExit as error:
            ended = {0: "fine", None: "fine", 1: "refused", 2: "refused"}.get(error.code, f"exit code {error.code}")
        except (ValueError, FileNotFoundError) as error:  # what the library may raise
            ended = "refused"
            said.write(str(error))
        except BaseException as error:
            ended = f"{type(error).__name__}: {error!s:.300}"
    lines = [line for line in said.getvalue().splitlines() if line and not line.startswith("sparsam: warning")]
    return {
        "ended": ended,
        "said": "\n".join(lines),
        "seconds": time.process_time() - start,
        "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "seen": [seen.pop() for _ in range(len(seen))],
    }


def main(wanted: str) -> None:
    """`wanted` has the names of the files by entry, as JSON; each entry has a copy of the corpus to itself.

    Entries share a process, since importing torch takes longer than most of them.
    """
    import torch

    torch.set_num_threads(1)
    home, firsts = Path.cwd(), {}
    names = json.loads(Path(wanted).read_text())
    for entry in names:  # imports what the entries need
        os.chdir(home / entry)
        load = entry_of(entry)
        firsts[entry] = load, judged(load, Path("good_run" if entry in RUNS_ONLY else "good.safetensors"))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    sys.addaudithook(watch)
    found = {}
    for entry, (load, first) in firsts.items():
        os.chdir(home / entry)
        found[entry] = {"good": first, "cases": {name: judged(load, Path(name)) for name in names[entry]}}
    (home / "results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
