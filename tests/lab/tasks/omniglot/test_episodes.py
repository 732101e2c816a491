"""Omniglot episodes: splits, labels, the previous label, presentations, augmentation, learning."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from sparsam.lab.data.locate import MissingData
from sparsam.lab.data.omniglot import DRAWINGS, OmniglotImages
from sparsam.lab.tasks import FiniteTask
from sparsam.lab.tasks.omniglot import episodes as module
from sparsam.lab.tasks.omniglot.episodes import Omniglot, OmniglotTable


@pytest.fixture
def make(monkeypatch):
    """Omniglot over made-up images: every pixel of character c, drawing d has the value 8 c + d / 4."""
    value = 8 * np.arange(30)[:, None] + np.arange(DRAWINGS) // 4
    images = np.broadcast_to(value[..., None, None], (30, DRAWINGS, 28, 28)).astype(np.uint8)
    data = OmniglotImages(images, np.arange(30) >= 18, np.array([f"character{c}" for c in range(30)]))
    monkeypatch.setattr(module, "load_images", lambda root, verify: data)

    def build(**settings):
        defaults = {"labels": 20, "max_size": 8, "image_size": 6, "validation": 5, "evaluation_size": 4}
        return Omniglot(**{**defaults, **settings})

    return build


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_shapes(make):
    task = make()
    batch = task.sample_size(3, generator(), 5)
    assert isinstance(task, FiniteTask)
    assert batch.inputs.shape == (50, 3, 36 + 20)
    assert batch.targets.shape == batch.mask.shape == (50, 3)
    assert batch.mask.all() and batch.lengths is None and batch.level == 5


def test_splits_are_disjoint_and_always_the_same(make):
    task, again, other = make(), make(), make(seed=1)
    splits = [set(task.characters(name).tolist()) for name in ("train", "validation", "test")]
    assert [len(split) for split in splits] == [13, 5, 12]
    assert set.union(*splits) == set(range(30))
    assert task.characters("validation").tolist() == again.characters("validation").tolist()
    assert task.characters("validation").tolist() != other.characters("validation").tolist()
    assert task.characters("test").tolist() == list(range(18, 30))


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_episodes_show_characters_of_their_split_only(make, split):
    task = make()
    batch = task.sample_size(16, generator(), 5, split)
    assert set(batch.info["character"].unique().tolist()) <= set(task.characters(split).tolist())


def test_every_character_comes_ten_times_under_one_label(make):
    batch = make().sample_size(4, generator(), 7)
    for b in range(4):
        labels, counts = batch.targets[:, b].unique(return_counts=True)
        assert len(labels) == 7 and counts.tolist() == [10] * 7
        for label in labels:
            mine = batch.targets[:, b] == label
            assert len(batch.info["character"][mine, b].unique()) == 1
            assert batch.info["presentation"][mine, b].tolist() == list(range(10))


def test_images_are_those_of_the_character_and_no_drawing_comes_twice(make):
    task = make(augment=False, presentations=20)
    batch = task.sample_size(2, generator(), 3)
    value = (batch.inputs[..., :36].mean(-1) * 255).round().long()
    assert torch.equal(value // 8, batch.info["character"])
    for b in range(2):
        for label in batch.targets[:, b].unique():
            shown = value[batch.targets[:, b] == label, b] % 8
            assert shown.bincount().tolist() == [4] * 5  # 20 drawings in fives of equal value


def test_input_carries_the_label_of_the_step_before(make):
    batch = make().sample_size(4, generator(), 6)
    labels = batch.inputs[..., 36:]
    assert labels[0].sum() == 0
    assert torch.equal(labels[1:].sum(-1), torch.ones(59, 4))
    assert torch.equal(labels[1:].argmax(-1), batch.targets[:-1])
    loud = make(scale=12).sample_size(4, generator(), 6)
    assert torch.equal(loud.inputs[..., 36:], 12 * labels)
    assert torch.equal(loud.inputs[..., :36], batch.inputs[..., :36])


def test_labels_are_uniform_over_all_of_them_and_independent_of_the_character(make):
    task = make()
    random = generator()
    counts = torch.zeros(30, 20)
    for _ in range(40):
        batch = task.sample_size(64, random, 4)
        first = batch.info["presentation"] == 0
        counts.index_put_((batch.info["character"][first], batch.targets[first]), torch.ones(256), accumulate=True)
    total = counts.sum(0)  # 10,240 draws over 20 labels: 512 each, standard deviation 22
    assert (total - 512).abs().max() < 5 * 22
    rows = counts[torch.from_numpy(task.characters("train"))]  # 788 draws a character: 39 a label, deviation 6
    assert (rows - rows.sum(1, keepdim=True) / 20).abs().max() < 5 * 6.2


def test_order_of_presentations_is_random(make):
    batch = make().sample_size(64, generator(), 2)
    same_as_before = (batch.targets[1:] == batch.targets[:-1]).float().mean()
    assert float(same_as_before) == pytest.approx(9 / 19, abs=0.05)


def test_sizes_follow_the_level(make):
    task = make()
    random = generator()
    assert {task.sample(1, random, level=3).level for _ in range(60)} == {1, 2, 3}
    assert {task.sample(1, random).level for _ in range(120)} == set(range(2, 9))
    assert {make(min_share=0.5).sample(1, random, level=7).level for _ in range(60)} == {4, 5, 6, 7}
    with pytest.raises(ValueError, match=r"level: expected 1 to labels \(20\), got 21"):
        task.sample(1, random, level=21)


def test_more_characters_than_the_split_holds_are_orientations(make):
    task = make()
    batch = task.sample_size(3, generator(), 18, "validation")  # 5 characters, up to 4 orientations each
    for b in range(3):
        labels = [batch.targets[batch.info["character"][:, b] == c, b].unique() for c in task.characters("validation")]
        assert sorted(len(found) for found in labels) == [3, 3, 4, 4, 4]
    with pytest.raises(ValueError, match="at most 48"):
        make(labels=60).sample_size(1, generator(), 49, "test")
    with pytest.raises(ValueError, match="at most 5"):
        make(augment=False).sample_size(1, generator(), 6, "validation")


def test_labels_come_from_a_pool_that_grows_with_the_level(make):
    task = make(pool=1.5)
    random = generator()
    for level, pool in ((2, 3), (4, 6), (16, 20)):
        drawn = torch.cat([task.sample(32, random, level=level).targets.flatten() for _ in range(20)])
        assert drawn.unique().tolist() == list(range(pool))
    assert task.sample_size(1, random, 4).info["pool"] == 20  # evaluation always uses all of them
    batch = task.sample(4, random, level=2)
    outputs = torch.zeros(*batch.targets.shape, 20)
    outputs[..., 3:] = 50.0  # outputs of labels that cannot come do not count
    assert float(task.loss(outputs, batch)) == pytest.approx(math.log(3))
    some_levels = make(pool=1.5, pool_below=4)
    assert [some_levels.sample(1, random, level=level).info["pool"] for level in (2, 3, 4, 8)] == [3, 5, 20, 20]
    assert task.floor(2, 3) == pytest.approx((math.log(3) + math.log(2)) / 20)
    with pytest.raises(ValueError, match=r"pool: expected size \(4\)"):
        task.sample_size(1, random, 4, pool=3)


@pytest.fixture
def lines(monkeypatch):
    """Omniglot over made-up characters of two strokes each."""
    random = np.random.default_rng(0)
    images = np.zeros((30, DRAWINGS, 28, 28), np.uint8)
    for character in images:
        for start, end in random.integers(4, 24, (2, 2, 2)):
            for row, column in np.linspace(start, end, 40).round().astype(int):
                character[:, row : row + 2, column : column + 2] = 255
    data = OmniglotImages(images, np.arange(30) >= 18, np.array([f"character{c}" for c in range(30)]))
    monkeypatch.setattr(module, "load_images", lambda root, verify: data)
    defaults = {"labels": 12, "max_size": 8, "validation": 5, "evaluation_size": 4}
    return lambda **settings: Omniglot(**{**defaults, **settings})


def test_variety_changes_a_character_as_a_whole_and_in_training_only(lines):
    task = lines(variety=0.15, augment=False, min_size=8)
    batch = task.sample(4, generator())
    plain = task.sample_size(4, generator(), 8)
    images = batch.inputs[..., :400]
    for b in range(4):
        for label in batch.targets[:, b].unique():
            mine = images[batch.targets[:, b] == label, b]
            torch.testing.assert_close(mine, mine[:1].expand_as(mine), atol=1e-4, rtol=0)  # all drawings alike
    shown = {tuple(batch.info["character"][t, b : b + 1].tolist()) for t in range(80) for b in range(4)}
    assert len(shown) > 8
    known = {int(c): plain.inputs[t, b, :400] for t in range(80) for b, c in enumerate(plain.info["character"][t])}
    moved = [
        float((images[0, b] - known[int(c)]).square().mean())
        for b, c in enumerate(batch.info["character"][0])
        if int(c) in known
    ]
    assert moved and min(moved) > 0.02  # no longer what was drawn: 0.04 at least
    with_it, without = (next(iter(t.evaluation_batches("validation", 4))) for t in (task, lines(augment=False)))
    assert torch.equal(with_it.inputs, without.inputs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_training_episodes_drawn_on_the_gpu(lines):
    task = lines(variety=0.1, device="cuda")
    batch = task.sample(4, generator(), level=8)
    assert batch.inputs.is_cuda and batch.targets.is_cuda
    assert batch.pinned().to("cuda", non_blocking=True).inputs is batch.inputs
    assert torch.equal(batch.inputs, task.sample(4, generator(), level=8).inputs)
    outputs = torch.zeros(*batch.targets.shape, 12, device="cuda")
    assert float(task.loss(outputs, batch)) == pytest.approx(math.log(12))
    assert task.errors(outputs, batch)["error_rate"] > 0.5
    cpu, gpu = (next(iter(t.evaluation_batches("test", 4))).inputs for t in (lines(), task))
    assert torch.equal(cpu, gpu)


def test_same_generator_same_episode(make):
    task = make()
    a, b, c = (task.sample_size(2, generator(seed), 3) for seed in (1, 1, 2))
    assert torch.equal(a.inputs, b.inputs)
    assert not torch.equal(a.inputs, c.inputs)


def test_evaluation_episodes_are_always_the_same(make):
    task = make(evaluation_episodes=10)
    first, again = (list(task.evaluation_batches("test", 4)) for _ in range(2))
    assert [batch.batch_size for batch in first] == [4, 4, 2]
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(first, again))
    assert {batch.level for batch in task.evaluation_batches("test", 4, size=7)} == {7}


def test_errors_by_presentation(make):
    task = make()
    batch = task.sample_size(8, generator(), 4)
    outputs = nn.functional.one_hot(batch.targets, 20).float()
    outputs[batch.info["presentation"] == 0] = 0
    outputs[batch.info["presentation"] == 0, 0] = 1  # every first one answered with label 0
    errors = task.errors(outputs, batch)
    lucky = float((batch.targets[batch.info["presentation"] == 0] == 0).float().mean())
    assert next(iter(errors)) == "error_rate"
    assert errors["presentation_1"] == pytest.approx(1 - lucky)
    assert errors["error_rate"] == pytest.approx((1 - lucky) / 10)
    assert [errors[f"presentation_{n}"] for n in range(2, 11)] == [0.0] * 9
    assert OmniglotTable(10).summary()["error_rate"] == 0.0


def test_floor_is_the_loss_of_a_perfect_learner(make):
    task = make()
    batch = task.sample_size(64, generator(), 6)
    outputs = 100.0 * nn.functional.one_hot(batch.targets, 20).float()
    for b in range(64):
        seen: list[int] = []
        for t in (batch.info["presentation"][:, b] == 0).nonzero()[:, 0].tolist():
            outputs[t, b] = 0.0
            outputs[t, b, seen] = -100.0
            seen.append(int(batch.targets[t, b]))
    assert float(task.loss(outputs, batch)) == pytest.approx(task.floor(6), abs=1e-4)
    assert task.floor(1) == pytest.approx(math.log(20) / 10)


def test_wrong_arguments_are_refused(make):
    for wrong in (
        {"max_size": 21},
        {"evaluation_size": 21},
        {"presentations": 21},
        {"validation": 18},
        {"scale": 0},
        {"pool": 0.5},
        {"variety": -0.1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            make(**wrong)
    with pytest.raises(ValueError, match="split"):
        make().characters("dev")


def test_tiny_model_overfits_one_small_episode(make):
    torch.manual_seed(0)
    task = make()
    batch = task.sample_size(1, generator(), 2)
    lstm, output = nn.LSTM(task.input_size, 48), nn.Linear(48, task.output_size)
    optimizer = torch.optim.Adam([*lstm.parameters(), *output.parameters()], lr=0.02)
    for _ in range(200):
        loss = task.loss(output(lstm(batch.inputs)[0]), batch)
        if loss < 0.02:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert task.errors(output(lstm(batch.inputs)[0]), batch)["error_rate"] == 0.0


def test_official_images():
    try:
        task = Omniglot()
    except MissingData:
        pytest.skip("the Omniglot download is not on this machine (set SPARSAM_DATA)")
    assert [len(task.characters(split)) for split in ("train", "validation", "test")] == [800, 164, 659]
    batch = task.sample_size(2, generator(), 500, "validation")
    assert batch.inputs.shape == (5000, 2, 900)
    images = batch.inputs[..., :400]
    assert images.min() >= 0 and images.max() <= 1 + 1e-5
    assert (images.amax(-1) > 0.3).float().mean() > 0.99  # ink is still there after the warp
