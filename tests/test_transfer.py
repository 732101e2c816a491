"""What goes from the host to a GPU goes through pinned memory, so that nobody waits."""

from __future__ import annotations

import torch

from sparsam.transfer import sent


class OnTheHost:
    """Stands for a tensor: where it went, and how."""

    device = torch.device("cpu")

    def __init__(self, path=()):
        self.path = path

    def pin_memory(self):
        return OnTheHost((*self.path, "pinned"))

    def to(self, device, non_blocking=False):
        return (*self.path, str(device), "without waiting" if non_blocking else "waiting")


class OnTheGPU(OnTheHost):
    device = torch.device("cuda", 1)


def test_to_a_gpu_without_waiting():
    assert sent(OnTheHost(), "cuda") == ("pinned", "cuda", "without waiting")
    assert sent(OnTheHost(), torch.device("cuda", 1)) == ("pinned", "cuda:1", "without waiting")


def test_what_is_there_or_stays_here_is_not_pinned():
    assert sent(OnTheGPU(), "cuda:1") == ("cuda:1", "waiting")
    assert sent(OnTheHost(), "cpu") == ("cpu", "waiting")
    values = torch.arange(3)
    assert sent(values, "cpu") is values
