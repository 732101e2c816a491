"""A controller's weights as the kernels read them, and their gradients as the models want them.

The sums of a unit are four rows of one matrix over [h, r]: the LSTM's i, f, g, o; the GRU's r, z, and its new state's
two sums, of which one sees only r_{t-1} (and x), the other only h_{t-1}.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.cuda.layout import Controlled


class Weights(NamedTuple):
    """Parameters of controller and interface, named and shaped as in `nn.LSTM`, `nn.GRU` and `nn.Linear`."""

    input: Tensor  # weight_ih (4 H or 3 H, I + R W)
    hidden: Tensor  # weight_hh
    input_bias: Tensor
    hidden_bias: Tensor
    interface: Tensor  # (F, H)
    interface_bias: Tensor


class Packed(NamedTuple):
    """What the forward kernel streams."""

    recurrent: Tensor  # (J, 4 H)
    recurrent_bias: Tensor  # (4 H)
    interface_matrix: Tensor  # (H, FS), rows padded to 16 bytes
    interface_bias: Tensor  # (F)


class PackedBackward(NamedTuple):
    """What the backward kernel streams."""

    recurrent: Tensor  # (4 H, JS), rows padded to 16 bytes
    interface_matrix: Tensor  # (F, HS)


def aligned_tensor(value: Tensor) -> Tensor:
    """`value` side by side in memory from a multiple of 16 bytes on, as the kernels are compiled for."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()


def _gru_matrix(weights: Weights, w_read: Tensor, size: Controlled) -> Tensor:
    """(4 H, J): a GRU's four sums over [h, r]."""
    units = size.H
    recurrent = weights.hidden.new_zeros(4 * units, size.J)
    recurrent[: 2 * units, :units] = weights.hidden[: 2 * units]
    recurrent[: 3 * units, units:] = w_read
    recurrent[3 * units :, :units] = weights.hidden[2 * units :]
    return recurrent


def _of_read(weights: Weights, size: Controlled) -> Tensor:
    """The part of the input's weights that r_{t-1} has; x's part is one product over all steps."""
    return weights.input[:, weights.input.shape[1] - size.R * size.W :]


def as_made(weights: Weights) -> bool:
    """Whether the weights lie side by side from multiples of 16 bytes on, as torch makes them."""
    return all(value.is_contiguous() and value.data_ptr() % 16 == 0 for value in weights)


def packed(weights: Weights, size: Controlled) -> Packed:
    units, w_read = size.H, _of_read(weights, size)
    if size.CONTROLLER == "lstm":
        recurrent, bias = torch.cat([weights.hidden.mT, w_read.mT]), weights.hidden_bias
    else:
        recurrent = _gru_matrix(weights, w_read, size).mT.contiguous()
        bias = torch.zeros_like(recurrent[0])
        bias[: 2 * units] = weights.hidden_bias[: 2 * units]
        bias[3 * units :] = weights.hidden_bias[2 * units :]
    interface_matrix = weights.interface.mT
    return Packed(
        recurrent,
        aligned_tensor(bias),
        F.pad(interface_matrix, (0, size.FS - size.F)) if size.FS > size.F else interface_matrix.contiguous(),
        aligned_tensor(weights.interface_bias),
    )


def packed_backward(weights: Weights, size: Controlled) -> PackedBackward:
    w_read, interface_matrix = _of_read(weights, size), weights.interface
    lstm = size.CONTROLLER == "lstm"
    recurrent = torch.cat([weights.hidden, w_read], dim=1) if lstm else _gru_matrix(weights, w_read, size)
    return PackedBackward(
        F.pad(recurrent, (0, size.JS - size.J)) if size.JS > size.J else recurrent,
        F.pad(interface_matrix, (0, size.HS - size.H)) if size.HS > size.H else aligned_tensor(interface_matrix),
    )


def input_sums(x: Tensor, weights: Weights, size: Controlled, gates: Tensor) -> None:
    """The input's share of every unit's sums, over all steps, into gates (T, B, 4 H)."""
    steps, batch, inputs = x.shape
    flat = x.reshape(steps * batch, inputs)
    into = gates.view(steps * batch, -1)
    if size.CONTROLLER != "lstm":  # of a GRU's four sums x has a part in three
        into = into[:, : weights.input.shape[0]]
    if x.dtype == gates.dtype:
        torch.addmm(weights.input_bias, flat, weights.input[:, :inputs].mT, out=into)
    else:
        into.copy_(F.linear(flat, weights.input[:, :inputs], weights.input_bias))


def weight_gradients(
    x: Tensor, joint: Tensor, d_gates: Tensor, d_interface: Tensor, weights: Weights, size: Controlled
) -> tuple[Tensor, Weights]:
    """Gradients of x and of the weights: products over all steps.

    [h, r] (T + 1, B, J) from before the first step on; gradients of the sums (T, B, 4 H) and of the interface.
    """
    steps, batch, inputs = x.shape
    units, kind = size.H, x.dtype
    flat = d_gates.view(steps * batch, -1).to(kind)
    d_vectors = d_interface.view(steps * batch, -1).to(kind)
    told = flat[:, : weights.input.shape[0]]  # the sums in which x has a part
    before = joint[:-1].reshape(steps * batch, -1).to(kind)
    d_recurrent = flat.mT @ before
    d_bias = flat.sum(0)
    d_input = torch.cat([told.mT @ x.reshape(steps * batch, inputs), d_recurrent[: told.shape[1], units:]], dim=1)
    if size.CONTROLLER == "lstm":
        d_hidden, d_hidden_bias = d_recurrent[:, :units], d_bias
    else:
        d_hidden = torch.cat([d_recurrent[: 2 * units, :units], d_recurrent[3 * units :, :units]])
        d_hidden_bias = torch.cat([d_bias[: 2 * units], d_bias[3 * units :]])
    hidden = joint[1:, :, :units].reshape(steps * batch, units).to(kind)
    d_x = (told @ weights.input[:, :inputs]).view(steps, batch, inputs)
    bias = d_bias[: told.shape[1]]
    return d_x, Weights(d_input, d_hidden, bias, d_hidden_bias, d_vectors.mT @ hidden, d_vectors.sum(0))
