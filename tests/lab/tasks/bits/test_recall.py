from __future__ import annotations

import pytest
import torch

from sparsam.lab.tasks.bits.recall import Recall


@pytest.mark.parametrize("item_length", [1, 3])
def test_the_answer_is_the_value_of_the_only_matching_key(item_length: int) -> None:
    """Two bits only, so that keys collide in nearly every episode before the task resolves it."""
    task = Recall(bits=2, item_length=item_length)
    pairs = 8
    batch = task.sample_size(64, torch.Generator().manual_seed(0), pairs)
    items = batch.inputs.view(2 * pairs + 2, item_length, 64, task.input_size)
    keys, values = items[0 : 2 * pairs : 2, ..., :2], items[1 : 2 * pairs : 2, ..., :2]
    cue, answer = items[2 * pairs, ..., :2], batch.targets.view(2 * pairs + 2, item_length, 64, 2)[-1]
    for b in range(64):
        matching = [i for i in range(pairs) if torch.equal(keys[i, :, b], cue[:, b])]
        assert len(matching) == 1
        assert torch.equal(values[matching[0], :, b], answer[:, b])


def test_channels_say_what_an_item_is() -> None:
    task = Recall(bits=4)
    batch = task.sample_size(2, torch.Generator().manual_seed(0), 3)
    markers = batch.inputs[:, 0, 4:]
    key, value, cue, blank = [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]
    assert markers.tolist() == [key, value] * 3 + [cue, blank]
    assert (batch.inputs[-1] == 0).all()
    assert batch.mask[:, 0].tolist() == [False] * 7 + [True]


def test_every_pair_is_asked_for() -> None:
    task = Recall(bits=16)
    batch = task.sample_size(500, torch.Generator().manual_seed(0), 4)
    values = batch.inputs[1:8:2, :, :16]
    asked = (values == batch.targets[-1]).all(-1).float().sum(1)
    assert asked.sum() == 500 and (asked > 90).all()


def test_the_ntm_form() -> None:
    task = Recall(bits=6, item_length=3)
    assert task.chance(4) == 9.0
    generator = torch.Generator().manual_seed(0)
    assert {task.sample(1, generator).level for _ in range(100)} == {3, 4, 5, 6}


def test_paired_layout_asks_with_the_cue_itself() -> None:
    task = Recall(bits=2, paired=True)
    batch = task.sample_size(64, torch.Generator().manual_seed(0), 5)
    assert batch.inputs.shape == (6, 64, 5) and batch.answers == slice(5, 6)
    assert (batch.inputs[5, :, 2:4] == 0).all() and (batch.inputs[5, :, 4] == 1).all()
    assert (batch.inputs[:5, :, 4] == 0).all()
    matching = (batch.inputs[:5, :, :2] == batch.inputs[5, :, :2]).all(-1)  # (5, 64)
    assert (matching.sum(0) == 1).all()
    values = (batch.inputs[:5, :, 2:4] * matching.unsqueeze(-1)).sum(0)
    assert torch.equal(values, batch.targets[5])
    with pytest.raises(ValueError, match="item_length"):
        Recall(item_length=3, paired=True)


@pytest.mark.parametrize(("paired", "item_length"), [(True, 1), (False, 1), (False, 2)])
def test_several_cues_ask_for_different_pairs(paired: bool, item_length: int) -> None:
    task = Recall(bits=12, item_length=item_length, paired=paired, cues=3)
    for size, cues in ((5, 3), (2, 2)):
        batch = task.sample_size(4, torch.Generator().manual_seed(0), size)
        assert batch.mask[:, 0].sum() == task.answer_steps(size) == cues * item_length
        answers = batch.targets[batch.mask[:, 0]].view(cues, item_length, 4, 12)
        if paired:
            values = batch.inputs[:size, :, 12:24].unsqueeze(1)
        else:
            values = batch.inputs[: 2 * size * item_length, :, :12].view(size, 2, item_length, 4, 12)[:, 1]
        found = (values.unsqueeze(1) == answers).all(-1).all(2)  # (size, cues, B)
        assert (found.sum(0) == 1).all() and (found.sum(1) <= 1).all()


@pytest.mark.parametrize("paired", [False, True])
def test_near_keys_are_earlier_ones_but_for_a_bit(paired):
    task = Recall(bits=16, paired=paired, near=1.0, cues=4)
    batch = task.sample_size(8, torch.Generator().manual_seed(0), 12)
    steps = batch.inputs[:12] if paired else batch.inputs[:24:2]
    keys = steps[..., :16]
    apart = (keys.unsqueeze(0) != keys.unsqueeze(1)).sum(-1)  # (pairs, pairs, B)
    for pair in range(1, 12):
        assert (apart[pair, :pair].min(0).values <= 2).all()  # one bit, and one more where it was made unique
    with pytest.raises(ValueError, match="near"):
        Recall(near=1.5)
