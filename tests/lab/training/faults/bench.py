"""A scratch folder with a run that nothing has happened to, and others to be compared with it."""

from __future__ import annotations

import contextlib
import io
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from injection import Ended, Operations, in_child, leftovers, numbers, same_bits, tiny

from sparsam.lab.cli import main
from sparsam.lab.training.loop import train

Result = tuple[str, str | None]  # what was done, and what went wrong, or None
Case = TypeVar("Case")


def preload() -> None:
    """Import what a command imports on its way, so that children need not, whoever they run as."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        main(["eval", "nowhere-at-all"])
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # the first one imports torch's compiler, for a second


class Bench:
    """A scratch folder with a run that nothing has happened to."""

    def __init__(self, scratch: Path, *settings: str, share: tuple[int, int] = (0, 1)) -> None:
        self.scratch, self.config, self.share = scratch, tiny(*settings), share
        self.whole = scratch / "whole"
        preload()
        self.config_file = scratch / "config.json"
        self.config_file.write_text(self.config.to_json())
        self._number = 0
        began = time.monotonic()
        ended = self.train(self.whole)
        self.seconds = time.monotonic() - began
        assert ended.code == 0, ended.err

    def other(self, *settings: str) -> Bench:
        """One for a run of other settings, in a folder inside this one's."""
        scratch = self.fresh()
        scratch.mkdir()
        return Bench(scratch, *settings, share=self.share)

    def mine(self, cases: list[Case]) -> list[Case]:
        """This process's share of the cases; several processes work on one scenario."""
        return cases[self.share[0] :: self.share[1]]

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def fresh(self) -> Path:
        return self.scratch / f"run{self.next_number()}"

    def train(self, folder: Path, prepare: Callable[[], object] = lambda: None, *options: str) -> Ended:
        """The command line's `train` on a folder, which goes on if there is a run, in a child prepared like this."""
        return in_child(self.command(folder, prepare, *options), self.scratch)

    def command(
        self, folder: Path, prepare: Callable[[], object] = lambda: None, *options: str, resumes: bool | None = None
    ) -> Callable[[], None]:
        def work() -> None:
            prepare()
            goes_on = (folder / "config.json").exists() if resumes is None else resumes
            how = ["--resume", str(folder)] if goes_on else ["--out", str(folder)]
            more = ["--config", str(self.config_file)] if how[0] == "--out" else []
            main(["train", *how, *more, "-q", *options])

        return work

    def operations(self, folder: Path) -> int:
        """How many file operations a run has."""
        report = self.scratch / "count"

        def work() -> None:
            counter = Operations(folder, lambda n: False, lambda: None).install()
            train(self.config, folder, quiet=True)
            report.write_text(str(counter.count))

        ended = in_child(work, self.scratch)
        assert ended.code == 0, ended.err
        shutil.rmtree(folder)
        return int(report.read_text())

    def resumed_to_same_bits(self, folder: Path, log: bool = True) -> str | None:
        """Go on with the run, and what is then not as in the run that nothing happened to."""
        ended = self.train(folder)
        if ended.code != 0:
            return f"could not go on, code {ended.code}: {ended.err}"
        if not same_bits(self.whole, folder):
            return "other bits"
        if log and numbers(self.whole) != numbers(folder):
            return "another log"
        if leftovers(folder):
            return f"left behind: {leftovers(folder)}"
        shutil.rmtree(folder)
        return None
