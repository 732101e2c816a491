"""The input layer of labelled images: what it shows when, that its parts learn, that answers are scored by label."""

from __future__ import annotations

import math

import pytest
import torch

from sparsam.lab.tasks.omniglot import labelled_images
from sparsam.lab.tasks.omniglot.labelled_images import ImageEncoder, LabelledImages

SIDE, LABELS = 8, 5


def make(**settings) -> LabelledImages:
    torch.manual_seed(0)
    return LabelledImages(SIDE, LABELS, **{"features": 6, "channels": (4, 8), "label_size": 3, **settings})


def steps(count: int = 4, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.zeros(count, batch, SIDE**2 + LABELS)
    inputs[..., : SIDE**2] = torch.rand(count, batch, SIDE**2, generator=generator)
    inputs[1:, :, SIDE**2 + 2] = 1
    return inputs


def test_features_have_one_length_and_depend_on_their_image_alone():
    encoder = make().images.eval()
    images = torch.rand(5, SIDE, SIDE)
    features = encoder(images)
    assert features.shape == (5, 6)
    assert torch.allclose(features.norm(dim=-1), torch.full((5,), math.sqrt(6)), atol=1e-5)
    assert torch.allclose(encoder(images[2:3])[0], features[2], atol=1e-5)


def test_with_fixed_norm_an_image_is_seen_alike_in_training():
    images = torch.rand(5, SIDE, SIDE)
    fixed, free = make(fixed_norm=True).images.train(), make().images.train()
    assert torch.allclose(fixed(images[:1])[0], fixed(images)[0], atol=1e-5)
    assert not torch.allclose(free(images[:1])[0], free(images)[0], atol=1e-3)


def test_chunks_give_the_same_features_and_gradients(monkeypatch):
    images = torch.rand(7, SIDE, SIDE)
    encoder = make(fixed_norm=True).images
    whole = encoder(images)
    gradients = torch.autograd.grad(whole[:, 0].sum(), list(encoder.parameters()))
    monkeypatch.setattr(labelled_images, "CHUNK", 3)
    parts = encoder(images)
    assert torch.allclose(whole, parts, atol=1e-6)
    for one, other in zip(gradients, torch.autograd.grad(parts[:, 0].sum(), list(encoder.parameters()))):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_step_holds_this_image_the_last_one_and_the_last_ones_label():
    layer, inputs = make().eval(), steps()
    shown, features = layer(inputs), layer.features_of(inputs)
    both, apart, label = shown[..., :6], shown[..., 6:12], shown[..., 12:]
    now = (both / labelled_images.TOGETHER + apart / labelled_images.APART) / 2
    before = (both / labelled_images.TOGETHER - apart / labelled_images.APART) / 2
    assert torch.allclose(now, features, atol=1e-4)
    assert torch.allclose(before[1:], features[:-1], atol=1e-4) and before[0].abs().max() < 1e-4
    assert torch.equal(label[1:], layer.table[2].expand_as(label[1:])) and not label[0].any()
    changed = inputs.clone()
    changed[3] = 0.5
    assert torch.equal(layer(changed)[:3], shown[:3])  # nothing is seen before it is shown


def test_answers_are_scored_by_the_label_vectors():
    layer = make()
    scores = layer.scores(layer.table.unsqueeze(1))
    assert scores.shape == (LABELS, 1, LABELS)
    assert torch.allclose(scores[2, 0], layer.table @ layer.table[2] / math.sqrt(3))


def test_everything_learns():
    layer = make()
    layer.scores(layer(steps())[..., :3]).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert all(parameter.grad.any() for parameter in (layer.table, layer.images.last.weight))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": ()}, "channels: expected at least one layer"),
        ({"channels": (4, 4, 4, 4, 4, 4)}, "side: expected at least 32 for 6 layers, got 8"),
        ({"features": 0}, "features: expected at least 1, got 0"),
        ({"label_size": 0}, "label_size: expected at least 1, got 0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_the_encoder_says_what_it_is():
    assert "side=8, features=64" in repr(ImageEncoder(8, channels=(4,)))
