"""DAM against its definition in loops: dense reads and writes, U^(1), rows erased."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .functions import sigmoid, similarity, softmax, softplus


def definition(model, x, memory):
    """One batch element in plain loops."""
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    n, width, rows = model.num_heads, model.word_size, model.memory_size
    h = c = np.zeros(model.hidden_size)
    r, previous, usage = np.zeros((n, width)), np.zeros((n, rows)), np.zeros(rows)
    outputs, memory = [], memory.copy()
    for step in x:
        gates = (
            p["controller.weight_ih_l0"] @ np.concatenate([step, r.ravel()])
            + p["controller.bias_ih_l0"]
            + p["controller.weight_hh_l0"] @ h
            + p["controller.bias_hh_l0"]
        ).reshape(4, -1)
        i, f, o = (np.array([sigmoid(z) for z in gates[g]]) for g in (0, 1, 3))
        c = f * c + i * np.tanh(gates[2])
        h = o * np.tanh(c)
        v = p["interface.weight"] @ h + p["interface.bias"]
        q, a = v[: 2 * n * width].reshape(2, n, width)
        beta, alpha, gamma = v[2 * n * width :].reshape(3, n)
        unused = sorted(range(rows), key=lambda row: (usage[row], row))[:n]
        writes = np.zeros((n, rows))
        for head in range(n):
            g = sigmoid(gamma[head])
            writes[head] = g * previous[head]
            writes[head, unused[head]] += 1 - g
            writes[head] *= sigmoid(alpha[head])
        memory[unused] = 0
        for head in range(n):
            memory += np.outer(writes[head], a[head])
        for head in range(n):
            scores = [(1 + softplus(beta[head])) * similarity(model.similarity, q[head], word) for word in memory]
            previous[head] = softmax(scores)
            r[head] = previous[head] @ memory
        usage = model.discount * usage + writes.sum(0) + previous.sum(0)
        outputs.append(p["output.weight"] @ np.concatenate([h, r.ravel()]) + p["output.bias"])
    return np.stack(outputs), memory, usage


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("discount", [0.99, 0.3])
def test_equals_its_definition(make, similarity, discount):
    model = make("dam", similarity=similarity, discount=discount)
    x = 2 * torch.randn(8, 2, 3, dtype=torch.float64)
    memory = torch.randn(2, 9, 4, dtype=torch.float64)
    y, state = model(x, model.initial_state(2, initial_memory=memory))
    for b in range(2):
        expected, words, usage = definition(model, x[:, b].numpy(), memory[b].numpy())
        np.testing.assert_allclose(y[:, b].detach().numpy(), expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.memory[b].detach().numpy(), words, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.usage[b].numpy(), usage, rtol=1e-8, atol=1e-10)


def test_usage_has_no_gradient(make):
    _, state = make("dam")(torch.randn(3, 2, 3, dtype=torch.float64))
    assert state.read_weights.requires_grad and not state.usage.requires_grad
