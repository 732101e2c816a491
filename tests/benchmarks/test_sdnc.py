"""The probes of `sparsam bench sdnc` on small sizes: they measure what they say."""

from __future__ import annotations

import pytest

from benchmarks import sdnc
from benchmarks.setting import model_of
from sparsam import engines

pytestmark = pytest.mark.skipif(
    engines.why_not("native", model_of("sdnc", 64)) is not None, reason="the native engine is not built here"
)


def test_the_dnc_keeps_its_link_matrix_at_every_step():
    matrices = 4 * 1024**2 * sdnc.SHORT
    assert matrices < sdnc.dnc_bytes(1024) < 1.5 * matrices


def test_the_sdnc_keeps_no_more_for_a_larger_memory():
    assert sdnc.sdnc_bytes(1_000_000) < 2**20  # a row of links per word would be 64 MiB


def test_seconds_are_those_of_a_step(monkeypatch):
    monkeypatch.setattr(sdnc, "AGAINST_DNC", 64)
    spent = sdnc.seconds_of_both()
    assert set(spent) == {"dnc", "sdnc"}
    assert min(spent.values()) > 0
