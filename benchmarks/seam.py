"""`sparsam bench seam`: what another controller, the layer, and a controller of one's own cost beside SAM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import sparsam
from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.setting import BATCH, LSTM_INPUT, SIZES, STEPS, lstm_step, model_of, training_step
from benchmarks.setting import PROTOCOL as PROTOCOL
from benchmarks.timing import take_turns

MILLION = 1_000_000
WIDTH = 128  # D of the layer


@benchmark("What a GRU, SparseMemory and a custom controller cost compared with SAM.")
def run(out: Path, quick: bool = False) -> Report:
    """Check, time, print, and write seam.json."""
    report = Report("seam")
    for name in ("lstm", "gru", "feedforward"):
        worst = require_equal("sam", controller=name)
        print(f"native equals reference with controller {name!r} to {worst:.0e}; {torch.get_num_threads()} threads")
    seconds = 4.0 if quick else 20.0
    own = {size: own_controller(size) for size in (1_000, MILLION)}
    times = take_turns(
        {
            "nn.LSTM(136, 100)": lstm_step(),
            "nn.GRU(136, 100)": gru_step(),
            "SAM": training_step(model_of("sam", MILLION)),
            "SAM with GRU": training_step(model_of("sam", MILLION, controller="gru")),
            "SAM, feed-forward": training_step(model_of("sam", MILLION, controller="feedforward")),
            "SAM, feed-forward, called": called_feedforward(),
            "SparseMemory": layer_step(),
            "own controller, 1,000": own[1_000],
            "own controller, 1,000,000": own[MILLION],
            "the module alone": module_alone(),
        },
        seconds,
    )
    spent = {name: timing.median / STEPS * 1e6 for name, timing in times.items()}
    report.raw["us per step"] = spent
    lstm, gru = spent["SAM"] / spent["nn.LSTM(136, 100)"], spent["SAM with GRU"] / spent["nn.GRU(136, 100)"]
    report.add(Line("SAM step over nn.LSTM step, 1,000,000 blank words", lstm))
    report.add(Line("SAM with GRU over nn.GRU, over the line above", gru / lstm, bound=1.1))
    report.add(Line("SAM with a feed-forward controller over SAM's step", spent["SAM, feed-forward"] / spent["SAM"]))
    called = spent["SAM, feed-forward, called"] / spent["SAM, feed-forward"]
    report.add(Line("the same called step by step, over inside the loop", called))
    report.add(Line("SparseMemory, D = 128, over SAM's step", spent["SparseMemory"] / spent["SAM"], bound=0.7))
    beyond = {size: spent[f"own controller, {size:,}"] - spent["the module alone"] for size in own}
    report.add(Line("own controller (an MLP), beyond the module itself", beyond[MILLION], "us per step", bound=150))
    report.add(Line("the same at 1,000,000 words over 1,000", beyond[MILLION] / beyond[1_000], bound=1.1))
    print(report.table())
    print(report.write(out))
    return report


def gru_step() -> Callable[[], None]:
    """`nn.GRU` of the widths that SAM's controller has."""
    gru, x = nn.GRU(LSTM_INPUT, SIZES["hidden_size"]), torch.randn(STEPS, BATCH, LSTM_INPUT)

    def call() -> None:
        gru(x)[0].sum().backward()

    return call


def called_feedforward() -> Callable[[], None]:
    """A feed-forward controller with a hook, which the engine has to call at every step."""
    model = model_of("sam", MILLION, controller="feedforward")
    model.controller.register_forward_hook(lambda module, inputs, output: None)
    return training_step(model)


def layer_step() -> Callable[[], None]:
    """The layer with its defaults, forward and backward, gradient of the input included."""
    torch.manual_seed(0)
    layer, x = sparsam.SparseMemory(WIDTH), torch.randn(STEPS, BATCH, WIDTH, requires_grad=True)

    def call() -> None:
        layer(x)[0].sum().backward()

    return call


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(LSTM_INPUT, 100), nn.Tanh(), nn.Linear(100, 100))


def own_controller(memory_size: int) -> Callable[[], None]:
    """SAM whose controller is an MLP of the user's, so that every step is a call."""
    return training_step(model_of("sam", memory_size, controller=mlp()))


def module_alone() -> Callable[[], None]:
    """What the step-by-step run spends on the user's own modules: controller, interface and output layer."""
    model = model_of("sam", 1_000, controller=mlp())
    x, reads = torch.randn(STEPS, BATCH, SIZES["input_size"]), torch.randn(STEPS, BATCH, LSTM_INPUT - 8)

    def call() -> None:
        hidden = [model.controller(torch.cat(parts, dim=-1)) for parts in zip(x, reads)]
        vectors = sum(model.interface(one).sum() for one in hidden)
        (model.output(torch.cat([torch.stack(hidden), reads], dim=-1)).sum() + vectors).backward()

    return call
