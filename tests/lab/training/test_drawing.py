"""A process that draws for another: the same arrays, whatever happens to it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from sparsam.lab.training.config import TaskConfig
from sparsam.lab.training.drawing import Drawer, DrawerGone, can_draw_apart
from sparsam.lab.training.prefetch import Prefetch
from sparsam.lab.training.seeds import MinibatchSeeds

SAMPLE = Path(__file__).parents[1] / "data" / "babi"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    settings = {"root": str(SAMPLE), "verify": False, "validation": 0.25, "exchange": 1.0}
    return TaskConfig("babi", settings, {"easy_first": [16], "retell": 0.5})


def same(one, other):
    return all(np.array_equal(values, getattr(other, name)) for name, values in vars(one).items())


def test_what_it_sends_is_what_is_drawn_here(config):
    task, seeds = config.build(for_training=True), MinibatchSeeds(5, 2)
    drawer = Drawer(config, 6, 5, 2)
    asked = [(0, None), (1, 30), (9, 100)]
    for step, level in asked:
        drawer.ask(step, level)
    for step, level in asked:
        assert same(drawer.answer(), task.draw(6, seeds.at(step), level))
    drawer.close()


def test_batches_made_of_it_are_those_of_sample(config):
    task, seeds = config.build(for_training=True), MinibatchSeeds(1)
    ahead = Prefetch(_Unpinned(task), MinibatchSeeds(1), 4, "cpu", Drawer(config, 4, 1))
    for step, level in [(0, 10), (1, 10), (2, 40), (3, 40), (8, 40), (9, None)]:
        batch, expected = ahead.take(step, level), task.sample(4, seeds.at(step), level)
        for name in ("inputs", "targets", "mask", "lengths"):
            assert torch.equal(getattr(batch, name), getattr(expected, name)), (step, name)


def test_a_process_that_was_killed_is_replaced_by_drawing_here(config):
    task, seeds = config.build(for_training=True), MinibatchSeeds(1)
    drawer = Drawer(config, 4, 1)
    ahead = Prefetch(_Unpinned(task), MinibatchSeeds(1), 4, "cpu", drawer)
    with pytest.warns(UserWarning, match="drawn in the training process from now on"):
        ahead.take(0, None)
        os.kill(drawer._process.pid, signal.SIGKILL)
        drawer._process.wait()
        for step in range(1, 12):
            batch = ahead.take(step, None)
            assert torch.equal(batch.inputs, task.sample(4, seeds.at(step)).inputs), step


def test_what_went_wrong_there_is_told(config):
    config.settings["root"] = "/nowhere"
    drawer = Drawer(config, 4, 1)
    with pytest.raises(DrawerGone, match=r"(?s)failed:.*nowhere"):
        drawer.answer()


def test_it_ends_with_the_process_that_asks(config):
    drawer = Drawer(config, 4, 1)
    process = drawer._process
    drawer.ask(0, None)
    drawer.answer()
    del drawer
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() == 0


def test_tasks_that_draw_tensors_or_are_somebody_s_own_are_drawn_here(config):
    copy = TaskConfig("copy")
    assert not can_draw_apart(copy, copy.build())
    task = config.build()
    assert can_draw_apart(config, task)
    assert not can_draw_apart(TaskConfig("somewhere:Stories"), task)


class _Unpinned:
    """The task, whose batches need not be pinned where there is no GPU."""

    def __init__(self, task):
        self._task = task

    def __getattr__(self, name):
        return getattr(self._task, name)

    def sample(self, *given):
        return _Batch(self._task.sample(*given))

    def batch_of(self, drawn):
        return _Batch(self._task.batch_of(drawn))

    def draw(self, *given):
        return self._task.draw(*given)

    def loss(self, outputs, batch):
        return self._task.loss(outputs, batch)

    def errors(self, outputs, batch):
        return self._task.errors(outputs, batch)


class _Batch:
    def __init__(self, batch):
        self._batch = batch

    def pinned(self):
        return self._batch
