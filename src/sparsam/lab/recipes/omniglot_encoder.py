"""Training the encoder of Omniglot's pixels by itself, and the nearest neighbour on its features.

A minibatch is one episode of many training characters, ten drawings of each. Every drawing should be nearer to the
other nine of its character than to all others (supervised contrastive loss, Khosla et al. 2020):

    loss = - mean over pairs (i, j) of one character of  log softmax_j' != i (s cos(f_i, f_j'))_j

Nothing about labels of episodes, memories or order is learned here. The characters are the 800 of training, turned by
quarters, mirrored and bent like those that the models train on; every model begins with the same encoder.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.lab.tasks.omniglot.episodes import Omniglot, OmniglotTable
from sparsam.lab.tasks.omniglot.labelled_images import LabelledImages
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.seeds import MinibatchSeeds, mix

SHARPNESS = 12.0  # s
RATE, FINAL_RATE = 3e-3, 3e-5
WARMUP = 20
_PREFIX = "input_layer.images."  # of the encoder's weights in a model's


def contrastive_loss(features: Tensor, targets: Tensor, sharpness: float = SHARPNESS) -> Tensor:
    """The loss above of features (n, F), whatever their length, of characters `targets` (n,)."""
    unit = F.normalize(features, dim=-1)
    itself = torch.eye(len(targets), dtype=torch.bool, device=targets.device)
    likeness = (sharpness * unit @ unit.T).masked_fill(itself, -1e9).log_softmax(-1)
    same = (targets[:, None] == targets) & ~itself
    return -(likeness * same).sum() / same.sum()


def train_encoder(
    task: Any,
    seed: int = 0,
    steps: int = 3000,
    characters: int = 400,
    device: str = "cpu",
    variety: float = 0.1,
    start: LabelledImages | None = None,
    top_rate: float = RATE,
    first: int = 0,
) -> tuple[LabelledImages, dict[str, Any]]:
    """A trained input layer of `task` (its label vectors are the first ones), and what its training was.

    The rate falls from `top_rate` to 3e-5 along a cosine. A further round begins with the layer `start` and the
    minibatches from `first` on.
    """
    torch.manual_seed(mix(seed))
    layer = (task.input_layer() if start is None else start).to(device).train()
    layer.images.fixed_norm = False
    optimizer = torch.optim.AdamW(layer.images.parameters(), lr=top_rate, weight_decay=1e-2, fused=True)
    seeds, started, losses = MinibatchSeeds(seed), time.perf_counter(), []
    for step in range(1, steps + 1):
        rate = FINAL_RATE + (top_rate - FINAL_RATE) * (1 + math.cos(math.pi * ((step - 1) / steps))) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, step / WARMUP)
        generator = seeds.at(first + step - 1)
        if torch.device(device).type != "cpu":
            number = int(torch.randint(2**62, (), generator=generator))
            generator = torch.Generator(device).manual_seed(number)
        batch = task.sample_size(1, generator, characters, variety=variety)
        loss = contrastive_loss(layer.features_of(batch.inputs).flatten(0, 1), batch.targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == 1:
            losses.append((step, round(float(loss.detach()), 4)))
    layer.eval()
    kept = losses[:: max(1, len(losses) // 20)]
    return layer, {"minibatches": steps, "seconds": round(time.perf_counter() - started, 1), "losses": kept}


@torch.no_grad()
def nearest_neighbour(
    task: Omniglot,
    layer: LabelledImages | None = None,
    split: str = "test",
    size: int = 100,
    episodes: int = 8,
    device: str = "cpu",
) -> OmniglotTable:
    """Errors of answering with the label of the nearest drawing seen so far in the episode: by the cosine of an input
    layer's features, or of what the task shows, on the episodes that models are evaluated on."""
    table = task.table()
    for batch in task.evaluation_batches(split, 1, size, episodes):
        shown = batch.inputs.to(device)
        vectors = shown[..., : shown.shape[-1] - task.labels] if layer is None else layer.features_of(shown)
        unit = F.normalize(vectors.flatten(0, 1), dim=-1)
        targets = batch.targets.flatten().to(device)
        earlier = torch.ones(len(unit), len(unit), dtype=torch.bool, device=device).tril(-1)
        nearest = (unit @ unit.T).masked_fill(~earlier, -2.0).argmax(-1)
        answers = F.one_hot(targets[nearest], task.labels)
        answers[0] = 0  # nothing was seen yet
        answers[0, (targets[0] + 1) % task.labels] = 1
        table.add(answers.unsqueeze(1), batch.to(device))
    return table


def save_encoder(layer: LabelledImages, path: Path, about: dict[str, Any]) -> None:
    """A weights file of the encoder alone, for `RunConfig.weights`, written beside its place and moved there."""
    from safetensors.torch import save

    weights = {f"{_PREFIX}{name}": value.cpu().contiguous() for name, value in layer.images.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, save(weights, metadata={"format": "pt", "about": json.dumps(about)}))


def load_encoder(task: Any, path: Path) -> LabelledImages:
    """The input layer of `task` with the encoder of a file of `save_encoder`, or of a run's weights."""
    from sparsam.lab.training.checkpoint import load_weights

    saved = load_weights(path)[0]
    weights = {name.removeprefix(_PREFIX): value for name, value in saved.items() if name.startswith(_PREFIX)}
    layer = task.input_layer()
    layer.images.load_state_dict(weights)
    return layer.eval()
