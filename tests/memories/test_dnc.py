"""The DNC: one step against Graves 2016 in loops, and a list that is written and read back along its links."""

from __future__ import annotations

import numpy as np
import torch

from .functions import sigmoid, similarity, softmax, softplus


def definition(model, x, memory):
    """One batch element in plain loops, letters as in Graves 2016."""
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    heads, width, rows = model.num_heads, model.word_size, model.memory_size
    h = c = np.zeros(model.hidden_size)
    r, memory = np.zeros((heads, width)), memory.copy()
    w_read, w_write, u, prec, link = np.zeros((heads, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows), None
    link = np.zeros((rows, rows))
    outputs = []
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
        v = list(p["interface.weight"] @ h + p["interface.bias"])

        def take(count, v=v):
            taken = np.array(v[:count])
            del v[:count]
            return taken

        read_keys = take(heads * width).reshape(heads, width)
        read_strengths = [1 + softplus(z) for z in take(heads)]
        write_key, write_strength = take(width), 1 + softplus(take(1)[0])
        erase = np.array([sigmoid(z) for z in take(width)])
        word = take(width)
        free = [sigmoid(z) for z in take(heads)]
        g_alloc, g_write = sigmoid(take(1)[0]), sigmoid(take(1)[0])
        modes = [softmax(list(mode)) for mode in take(3 * heads).reshape(heads, 3)]
        assert not v

        for row in range(rows):
            psi = np.prod([1 - free[head] * w_read[head, row] for head in range(heads)])
            u[row] = (u[row] + w_write[row] - u[row] * w_write[row]) * psi
        allocation, product = np.zeros(rows), 1.0
        for row in sorted(range(rows), key=lambda row: (u[row], row)):
            allocation[row] = (1 - u[row]) * product
            product *= u[row]
        content = np.array(softmax([write_strength * similarity("cosine", write_key, m) for m in memory]))
        w_write = g_write * (g_alloc * allocation + (1 - g_alloc) * content)
        memory = memory * (1 - np.outer(w_write, erase)) + np.outer(w_write, word)
        new = np.zeros_like(link)
        for a in range(rows):
            for b in range(rows):
                if a != b:
                    new[a, b] = (1 - w_write[a] - w_write[b]) * link[a, b] + w_write[a] * prec[b]
        link = new
        prec = (1 - w_write.sum()) * prec + w_write
        for head in range(heads):
            forward, backward = link @ w_read[head], link.T @ w_read[head]
            scores = [read_strengths[head] * similarity("cosine", read_keys[head], m) for m in memory]
            w_read[head] = modes[head][0] * backward + modes[head][1] * np.array(softmax(scores))
            w_read[head] += modes[head][2] * forward
            r[head] = w_read[head] @ memory
        outputs.append(p["output.weight"] @ np.concatenate([h, r.ravel()]) + p["output.bias"])
    return np.stack(outputs), link


def test_equals_its_definition(make):
    model = make("dnc")
    with torch.no_grad():
        model.interface.weight.mul_(3)
    x = torch.randn(8, 2, 3, dtype=torch.float64)
    memory = torch.randn(2, 9, 4, dtype=torch.float64)
    y, state = model(x, model.initial_state(2, initial_memory=memory))
    for b in range(2):
        expected, link = definition(model, x[:, b].numpy(), memory[b].numpy())
        np.testing.assert_allclose(y[:, b].detach().numpy(), expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.link[b].detach().numpy(), link, rtol=1e-8, atol=1e-10)


def test_writes_a_list_into_free_rows_and_links_it(make):
    """Write and allocation gates open: rows 0, 1, 2 are written in turn and L points each to the one before."""
    model = make("dnc", num_heads=1, word_size=2, memory_size=5)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias.zero_()
        start = 2 + 1 + 2 + 1 + 2 + 2  # read key, strength, write key, strength, erase, write word
        model.interface.bias[start] = -1e3  # nothing is freed
        model.interface.bias[start + 1 : start + 3] = 1e3  # allocation gate, write gate
    _, state = model(torch.zeros(3, 1, 3, dtype=torch.float64))
    assert state.write_weights[0].tolist() == [0, 0, 1, 0, 0]
    assert state.usage[0].tolist() == [1, 1, 0, 0, 0]
    assert state.link[0].nonzero().tolist() == [[1, 0], [2, 1]]
    assert state.precedence[0].tolist() == [0, 0, 1, 0, 0]
