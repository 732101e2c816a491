"""Alters saved states at random and hands them to the native engine; run as a program by test_state_fuzz.py.

Each case ends in an error that names the state, or in the right answer: that of the reference engine for the same
state. A crash ends the program, which is how the test sees it.
"""

from __future__ import annotations

import copy
import random
import sys

import torch

import sparsam

SIZES = dict(input_size=3, output_size=2, hidden_size=5, memory_size=12, word_size=3, num_heads=2, k=3)
MODELS = {
    "sam": {},
    "sdnc": {"k_links": 3},
    "free": {"k_links": 3, "allocation": "free"},
}
TENSORS = ("hidden", "cell", "read", "read_rows", "read_weights")


def model_of(kind: str, engine: str):
    torch.manual_seed(0)
    name = "sam" if kind == "sam" else "sdnc"
    return sparsam.build(name, **SIZES, **MODELS[kind], engine=engine).double()


def altered_tensor(value: torch.Tensor, draw: random.Random) -> object:
    """Another shape, type, or numbers; or no tensor at all."""
    flat = value.clone()
    choice = draw.randrange(12)
    if choice == 0:
        return flat[:-1] if flat.dim() and len(flat) else flat.unsqueeze(0)
    if choice == 1:
        return torch.cat([flat, flat]) if flat.dim() and len(flat) else flat.unsqueeze(0)
    if choice == 2:
        return flat.unsqueeze(-1)
    if choice == 3:
        return flat.to(draw.choice([torch.float32, torch.float16, torch.int32, torch.int64, torch.bool]))
    if choice == 4:
        return draw.choice([None, 3, "words", [], {}, [[0.5]]])
    if choice == 5:
        return flat.flatten()
    if choice == 6:
        return flat.new_zeros(0)
    if flat.numel() == 0:
        return torch.ones(draw.randrange(1, 4), *flat.shape[1:], dtype=flat.dtype)
    at = draw.randrange(flat.numel())
    if flat.is_floating_point():
        extreme = draw.choice([float("nan"), float("inf"), -float("inf"), 1e300, -1.0, 0.0, 2.0])
    else:
        extreme = draw.choice([-1, -2, -(2**31), 2**31 - 1, 2**40, 11, 12, 13, 24, 25, 0])
        info = torch.iinfo(flat.dtype)
        extreme = max(min(extreme, info.max), info.min)
    flat = flat.contiguous()
    flat.view(-1)[at] = extreme
    if choice == 7 and flat.numel() > 1:
        flat.view(-1)[0] = flat.view(-1)[-1].clone()  # a repeat
    return flat


def altered_saved(saved: dict, draw: random.Random) -> dict:
    """A saved native memory with one thing changed."""
    saved = copy.deepcopy(saved)
    place = draw.choice(["kind", "parts", "part", "part", "part", "part", "origins", "origin_of", "key"])
    if place == "kind":
        key = draw.choice(list(saved["kind"]))
        saved["kind"][key] = draw.choice(
            [0, -1, 1, 2**31, 2**40, 3.5, None, "free", True, torch.float32, torch.int8, 5]
        )
    elif place == "parts":
        saved["parts"] = draw.choice([[], None, saved["parts"][:1], saved["parts"] * 2, [3], {}, [None] * 2, "x"])
    elif place == "part":
        part = draw.choice([p for p in saved["parts"] if p])
        key = draw.choice(list(part))
        if draw.random() < 0.1:
            del part[key]
        else:
            part[key] = altered_tensor(part[key], draw)
    elif place == "origins":
        words = torch.randn(12, 3, dtype=torch.float64)
        saved["origins"] = draw.choice([None, [altered_tensor(words, draw)], [words, words], [words[:, :2]], [3]])
    elif place == "origin_of":
        saved["origin_of"] = draw.choice([None, [5, 5], [-2, -1], [0], ["a", "b"], [0.0, 0.0], [-1, -1], [0, 0]])
    else:
        key = draw.choice(list(saved))
        if draw.random() < 0.5:
            del saved[key]
        else:
            saved["more"] = 1
    return saved


def altered(state, draw: random.Random):
    """A state with one field changed, as after `torch.load` of a damaged file or a mistaken `replace`."""
    if draw.random() < 0.35:
        name = draw.choice(TENSORS)
        return state.with_fields(**{name: altered_tensor(getattr(state, name), draw)})
    memory = copy.copy(state.memory)
    memory.__setstate__(altered_saved(state.memory.__getstate__(), draw))
    return state.with_fields(memory=memory)


def ordinary(state) -> bool:
    """Finite numbers of a size at which two ways of summing agree."""
    return all(bool((getattr(state, name).abs() < 1e6).all()) for name in TENSORS)


def swapped(states: dict, draw: random.Random):
    """Parts of states of different models and sizes in one."""
    first, second = (states[draw.choice(list(states))] for _ in range(2))
    name = draw.choice(["memory", *TENSORS])
    return first.with_fields(**{name: getattr(second, name)})


def run(seed: int, cases: int) -> None:
    draw = random.Random(seed)
    native = {kind: model_of(kind, "native") for kind in MODELS}
    plain = {kind: model_of(kind, "reference") for kind in MODELS}
    x = torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    states, memory = {}, torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for kind, model in native.items():
        for filled in (None, memory):
            states[kind, filled is not None] = model(x, model.initial_state(2, filled))[1].detach()
    refused = right = 0
    for case in range(cases):
        kind, filled = draw.choice(list(states))
        try:
            state = swapped(states, draw) if draw.random() < 0.15 else altered(states[kind, filled], draw)
            y, _ = native[kind](x, state)
            y.sum().backward()
            other, _ = plain[kind](x, state.to(engine="reference"))
        except (ValueError, TypeError, RuntimeError) as error:
            if not str(error).strip():
                raise AssertionError(f"seed {seed}, case {case}: an error without a word") from error
            refused += 1
            continue
        if not ordinary(state):
            continue  # what such a state gives is its own call's affair; the good states are looked at below
        if not torch.allclose(y, other, rtol=1e-6, atol=1e-8, equal_nan=True):
            raise AssertionError(f"seed {seed}, case {case}: accepted, and the answer is wrong")
        right += 1
    for (kind, filled), state in states.items():  # the good states are what they were
        y, _ = native[kind](x, state)
        other, _ = plain[kind](x, state.to(engine="reference"))
        assert torch.allclose(y, other, rtol=1e-6, atol=1e-8), (kind, filled)
    print(f"{cases} cases: {refused} refused, {right} right")


if __name__ == "__main__":
    *seeds, cases = map(int, sys.argv[1:])
    for seed in seeds:
        run(seed, cases)
