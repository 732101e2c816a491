from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sparsam.lab.tasks.task import Task
from sparsam.lab.tasks.tokens.mqar import Mqar
from sparsam.lab.tasks.tokens.task import TokenInput, base_of, digits_of, write_in_digits
from sparsam.lab.training.seeds import MinibatchSeeds


def test_digits() -> None:
    assert write_in_digits(torch.tensor([1000, 3]), 512, 2).tolist() == [[1, 488], [0, 3]]
    assert base_of(2**18, 2) == 512 and base_of(100, 1) == 100
    assert digits_of(2**18, 1024) == 2 and digits_of(100, 100) == 1
    with pytest.raises(ValueError, match="vocabulary"):
        base_of(1000, 2)
    with pytest.raises(ValueError, match="output_size"):
        digits_of(2**18, 1000)


def test_input_layer_of_one_digit_is_an_embedding_tied_to_the_output() -> None:
    layer = TokenInput(12, 4)
    tokens = torch.tensor([[3, 11], [0, 5]])
    assert layer(tokens).equal(layer.table[tokens])
    features = torch.randn(2, 2, 4)
    assert layer.scores(features).equal(F.linear(features, layer.table)) and layer.output_size == 12


def test_a_token_of_two_digits_is_the_sum_of_their_vectors_and_its_probability_the_product() -> None:
    layer = TokenInput(9, 4, digits=2)
    tokens = torch.arange(9)
    torch.testing.assert_close(layer(tokens), layer.table[tokens // 3] + layer.table[3 + tokens % 3])
    task = Mqar(vocabulary=16, slices=[(8, 2)], digits=2)
    batch = task.sample(3, MinibatchSeeds(0).at(0))
    outputs = torch.randn(8, 3, task.output_size, dtype=torch.float64)
    logits = outputs[batch.mask]
    joint = (logits[:, :4].log_softmax(-1)[:, :, None] + logits[:, 4:].log_softmax(-1)[:, None]).flatten(1)
    answers = batch.targets[batch.mask]
    torch.testing.assert_close(task.loss(outputs, batch), F.nll_loss(joint, answers))
    wrong = (joint.argmax(-1) != answers).double().mean()
    assert task.errors(outputs, batch)["error_rate"] == pytest.approx(float(wrong))


def test_answers_alone_give_the_loss_of_all_outputs() -> None:
    task = Mqar(vocabulary=16, slices=[(8, 2)])
    assert isinstance(task, Task)
    batch = task.sample(3, MinibatchSeeds(0).at(0))
    outputs = torch.randn(8, 3, 16)
    assert task.loss(outputs, batch) == task.loss(outputs[batch.mask], batch)
    assert task.errors(outputs, batch) == task.errors(outputs[batch.mask], batch)
    with pytest.raises(ValueError, match="outputs: expected scores of shape"):
        task.loss(outputs[batch.mask][1:], batch)
    with pytest.raises(ValueError, match="outputs: expected steps and batch"):
        task.loss(outputs[1:], batch)
