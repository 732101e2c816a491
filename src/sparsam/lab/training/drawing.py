"""A process that draws minibatches for one that trains on a GPU.

Where a minibatch is drawn by rules, as bAbI's stories are, the processor takes about as long for it as the GPU does to
learn from it, and a thread beside the training would take turns with it for the interpreter. So a process of its own
draws, and sends what was drawn as plain arrays. A step's random numbers depend on nothing but the step, so that they
are the arrays the training process would have drawn.

It is started as a program and not forked, since a GPU's context does not survive a fork, and ends when the pipe to it
does, whatever became of the process that trains.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
import weakref
from contextlib import suppress
from typing import Any

from sparsam.lab.tasks.task import DrawnApart
from sparsam.lab.training.config import TaskConfig, from_dict
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.lab.training.user_classes import is_own

__all__ = ["Drawer", "DrawerGone", "can_draw_apart", "serve"]

_PROGRAM = "from sparsam.lab.training.drawing import serve; serve()"


class DrawerGone(RuntimeError):
    """The drawing process has ended or failed; the message has what it said last."""


def can_draw_apart(config: TaskConfig, task: Any) -> bool:
    """Whether a process of its own can draw for this task: one that can be built anywhere and draws plain arrays."""
    return isinstance(task, DrawnApart) and not is_own(config.name)


class Drawer:
    """`ask(step, level)` for minibatches, then take each `answer()` in the same order."""

    def __init__(self, config: TaskConfig, batch_size: int, seed: int, rank: int = 0) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        environment = os.environ | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        # A session of its own: Ctrl-C is for the process that trains, which still takes what it asked for.
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _end, self._process)
        self._send((vars(config), batch_size, seed, rank))

    def ask(self, step: int, level: int | None) -> None:
        self._send((step, level))

    def answer(self) -> Any:
        """What the task drew for the oldest question that is open.

        Raises:
            DrawerGone: the process is no more, or could not draw.
        """
        assert self._process.stdout is not None
        try:
            drawn, failure = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self._process.poll()
            raise DrawerGone(f"the process that draws minibatches ended ({error or code})") from error
        if failure is not None:
            raise DrawerGone(f"the process that draws minibatches failed:\n{failure}")
        return drawn

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise DrawerGone(f"the process that draws minibatches ended ({error})") from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes, by which the process ends, and wait for it."""
    assert process.stdin is not None and process.stdout is not None
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # there may be something left to send to a process that is gone
            pipe.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve() -> None:
    """The drawing process: answers questions until there are no more."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not come between the answers
    try:
        config, batch_size, seed, rank = pickle.load(questions)
        task = from_dict(TaskConfig, config).build(for_training=True)
        seeds = MinibatchSeeds(seed, rank)
        while True:
            step, level = pickle.load(questions)
            pickle.dump((task.draw(batch_size, seeds.at(step), level), None), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass
    except Exception:
        pickle.dump((None, traceback.format_exc()), answers)
        answers.flush()
    finally:
        try:
            answers.close()
        except BrokenPipeError:
            os._exit(0)
