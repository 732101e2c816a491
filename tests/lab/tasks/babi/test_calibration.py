"""Temperature and threshold: on made-up logits, and questions taken out of a story."""

from __future__ import annotations

import pytest
import torch

from sparsam.lab.data.babi import parse_stories
from sparsam.lab.tasks.babi.calibration import Calibration, fit, questions_of


def test_temperature_of_overconfident_logits_is_found():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 1, 6, generator=generator) * 2
    right = torch.multinomial(logits[:, 0].softmax(-1), 1, generator=generator)
    found = fit(list(3 * logits), list(right))
    assert found.temperature == pytest.approx(3.0, abs=0.3)
    assert found.questions == 4000
    confidence = logits[:, 0].softmax(-1).max(-1)
    given = confidence.values >= found.threshold
    correct = (confidence.indices == right[:, 0])[given].float().mean()
    assert 0.5 < found.threshold < 1 and correct > 0.97


def test_other_questions_are_left_out():
    text = "1 Mary went to the kitchen.\n2 Where is Mary? \tkitchen\t1\n3 Mary got the milk there.\n"
    text += "4 What is Mary carrying? \tmilk,apple\t3\n"
    (story,) = parse_stories(text)
    first, second = questions_of(story)
    assert " ".join(first[0]) == "mary went to the kitchen . where is mary ? -" and first[1] == ["kitchen"]
    assert " ".join(second[0]) == "mary went to the kitchen . mary got the milk there . what is mary carrying ? - -"
    assert second[1] == ["milk", "apple"]


def test_kept_beside_the_weights(tmp_path):
    weights = tmp_path / "x.safetensors"
    assert Calibration.beside(weights) == Calibration()
    made = Calibration(1.5, 0.7, 100)
    assert made.save(weights) == tmp_path / "x.calibration.json"
    assert Calibration.beside(weights) == made
