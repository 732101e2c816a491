"""Malformed calls of every public function: `python tests/public_fuzz.py [PART OF PARTS]`.

A case takes a good call and gives one argument a bad value of some kind. It has to end in an error whose message names
the argument. The functions are listed by `targets`, their arguments are read off the signatures, and what is bad for an
argument depends on its kind (`BAD`, `kind_of`). Prints what went wrong and how many cases there were.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import sparsam
from sparsam.lab import tasks
from sparsam.lab.tasks.tokens.mqar import Mqar
from sparsam.lab.training import config as configs
from sparsam.models import MODELS

T, B, INPUTS = 3, 2, 3
ERRORS = (ValueError, AttributeError, TypeError, IndexError, RuntimeError, FileNotFoundError, ImportError)
NOT_A_NUMBER = (None, "3", b"3", [3], (3,), {}, object(), 1j, torch.nn.Identity())
BAD: dict[str, tuple[Any, ...]] = {
    "size": (*NOT_A_NUMBER, 0, -1, -(2**63), 2.0, 2.5, float("nan"), float("inf"), True, False, np.float32(2)),
    "count": (*NOT_A_NUMBER, -1, -(2**63), 2.5, float("nan"), True, np.float32(2)),
    "bool": (None, 0, 1, "False", "yes", 2.0, [], {}, object()),
    "share": (*NOT_A_NUMBER, -0.1, 1.5, float("nan"), float("inf"), -float("inf"), True),
    "number": (*NOT_A_NUMBER, float("nan"), float("inf"), -1.0, True),
    "choice": (None, "nonsense", "", 3, b"x", [], {}, object(), True),
    "index": (None, "nonsense", "", 3, b"x", [], {}, object(), sparsam.LSH),
    "controller": (None, "nonsense", "", 3, b"x", [], {}, object(), True, torch.nn.LSTM),
    "device": ("nonsense", 3.5, b"x", [], object()),
    "dtype": ("float32", 3, "x", torch.int64, torch.bool, torch.complex64, []),
    "name": (None, "nonsense", "", 3, [], object(), b"sam"),
}
KINDS = {
    **dict.fromkeys(["input_size", "output_size", "hidden_size", "memory_size", "word_size", "num_heads"], "size"),
    **dict.fromkeys(["k", "num_layers", "k_links", "batch_size", "n", "tables", "probes", "checks", "few"], "size"),
    **dict.fromkeys(["trees", "leaf", "exact_until", "bits", "min_size", "max_size", "item_length", "cues"], "size"),
    **dict.fromkeys(["vocabulary", "min_length", "max_length", "items", "digits"], "size"),
    **dict.fromkeys(["links", "conv", "seed"], "count"),
    **dict.fromkeys(["batch_first", "masked", "layer_norm", "deallocate"], "bool"),
    **dict.fromkeys(["link_gradients", "paired", "random_blanks"], "bool"),
    **dict.fromkeys(["dropout", "bypass_dropout", "discount"], "share"),
    **dict.fromkeys(["delta", "power"], "number"),
    **dict.fromkeys(["similarity", "engine", "allocation", "group", "start"], "choice"),
    **{"index": "index", "controller": "controller", "device": "device", "dtype": "dtype"},
}
SMALL = {"input_size": INPUTS, "output_size": 2, "hidden_size": 4, "memory_size": 9, "word_size": 4, "num_heads": 2}


def bad_values(argument: str, parameter: inspect.Parameter) -> tuple[Any, ...]:
    """What an argument must not be: by its kind, or, of an argument that is new here, by its annotation."""
    if argument in KINDS:
        return BAD[KINDS[argument]]
    plain = {"int": NOT_A_NUMBER, "float": NOT_A_NUMBER, "bool": BAD["bool"], "str": BAD["choice"]}
    return plain.get(str(parameter.annotation).strip("'"), ())


class Case(NamedTuple):
    """A call that has to fail, and what its message has to name."""

    target: str
    argument: str
    value: Any
    call: Callable[[], Any]
    says: tuple[str, ...] = ()


def spoiled(target: str, call: Callable[..., Any], good: dict[str, Any], bad: dict[str, Any]) -> Iterator[Case]:
    """A case for every bad value of every argument; and an argument that does not exist."""
    for name, values in bad.items():
        for value in values:
            yield Case(target, name, value, lambda n=name, v=value: call(**{**good, n: v}))
    yield Case(target, "no_such_thing", 1, lambda: call(**good, no_such_thing=1))


def constructors() -> Iterator[Case]:
    makers: dict[str, Any] = {**{name: kind for name, kind in MODELS.items()}, "SparseMemory": sparsam.SparseMemory}
    for name, kind in makers.items():
        arguments = inspect.signature(kind).parameters
        good = {key: value for key, value in SMALL.items() if key in arguments}
        bad = {key: bad_values(key, parameter) for key, parameter in arguments.items()}
        if name == "SparseMemory":  # None is its default: as wide as the input
            bad["output_size"] = tuple(value for value in bad["output_size"] if value is not None)
        if "memory_size" in arguments:
            bad["memory_size"] = (*bad["memory_size"], 2**31, 2**63, 2**70)
        yield from spoiled(name, kind, good, bad)
        for missing in ("input_size", "output_size"):
            left = {key: value for key, value in good.items() if key != missing}
            if arguments[missing].default is inspect.Parameter.empty:
                yield Case(name, missing, "missing", lambda k=kind, rest=left: k(**rest))
    yield from (
        Case("build", "name", value, lambda v=value: sparsam.build(v, input_size=3, output_size=2))
        for value in BAD["name"]
    )
    for index in (sparsam.LSH, sparsam.KDForest, sparsam.Scan, sparsam.Linear, sparsam.Auto):
        arguments = {name: bad_values(name, p) for name, p in inspect.signature(index).parameters.items()}
        if index is sparsam.LSH:  # 0 bits: as many as are useful
            arguments["bits"] = (*BAD["count"], 25)
        if index is sparsam.Auto:
            arguments["index"] = (*BAD["index"], sparsam.Linear(), sparsam.Auto(), "scan")
            arguments["exact_until"] = tuple(value for value in BAD["count"] if value is not None)  # None: as measured
        yield from spoiled(index.__name__, index, {}, arguments)


def bad_inputs() -> dict[str, tuple[Any, ...]]:
    good = torch.zeros(T, B, INPUTS)
    return {
        "x": (None, "x", 3, [[[0.0] * INPUTS] * B] * T, good.numpy(), {}, object(), good.double(), good.half(),
              good.long(), good.bool(), good.cfloat(), good[0, 0], good[0, 0, 0], good[None], good[..., :2],
              good[:0], good[:, :0], good[..., :0], good.to("meta"), good.to_sparse(), (good, good)),
        "lengths": ("x", 3, {}, object(), torch.tensor([1.0, 2.0]), torch.tensor([True, False]), torch.tensor([0, 1]),
                    torch.tensor([1, T + 1]), torch.tensor([-1, 1]), torch.tensor([1]), torch.tensor([1, 2, 3]),
                    torch.tensor([[1, 2]]), torch.tensor(1), [1], [None, 1], ["a", "b"], torch.tensor([1j, 2])),
        "resets": ("x", 3, {}, object(), torch.zeros(T, B), torch.zeros(T, B, dtype=torch.int64),
                   torch.zeros(B, T + 1, dtype=torch.bool), torch.zeros(T, dtype=torch.bool), torch.tensor(True),
                   [True], [[None] * B] * T),
    }  # fmt: skip


def calls() -> Iterator[Case]:
    x = torch.zeros(T, B, INPUTS)
    for name, engine in [*((name, "auto") for name in MODELS), ("sam", "reference"), ("SparseMemory", "auto")]:
        model = small(name, engine)
        target = f"{name}({engine})"
        others = [torch.zeros(2, 4), "x", 3, (1, 2), {}, object(), sparsam.LSTM]
        others += [small(other)(x)[1] for other in MODELS if other != name]
        others += [small(name, engine)(torch.zeros(T, B + 1, INPUTS))[1], model(x)[1].to(torch.float64)]
        if name != "lstm":
            others += [small(name, engine, memory_size=10)(x)[1], small(name, engine, word_size=5)(x)[1]]
            others += [small(name, engine, num_heads=1)(x)[1]]
        bad = {**bad_inputs(), "state": others}
        yield from spoiled(target, model, {"x": x}, bad)
        yield from spoiled(f"{target}.trace", model.trace, {"x": x}, {key: bad[key][:6] for key in bad})
        memories = (
            "x", 3, [[0.0]], {}, np.zeros((9, 4), np.float32), torch.zeros(9, 5), torch.zeros(10, 4), torch.zeros(9),
            torch.zeros(3, 9, 4), torch.zeros(9, 4).double(), torch.zeros(9, 4).long(), torch.full((9, 4), torch.nan),
            torch.zeros(9, 4).to("meta"), torch.full((9, 4), torch.inf),
        )  # fmt: skip
        yield from spoiled(
            f"{target}.initial_state", model.initial_state, {"batch_size": B},
            {"batch_size": BAD["size"], "initial_memory": memories},
        )  # fmt: skip
        yield from settings_of(target, model)
        yield from state_methods(target, model(x)[1], others)


def settings_of(target: str, model: Any) -> Iterator[Case]:
    """Attributes that can be set, and those that cannot."""
    for name in ("engine", "delta", "index", "k", "similarity"):
        if hasattr(model, name):
            for value in BAD[KINDS[name]]:
                yield Case(target, name, value, lambda n=name, v=value: setattr(model, n, v))


def state_methods(target: str, state: Any, others: list[Any]) -> Iterator[Case]:
    flags = torch.tensor([True, False])
    masks = (
        None,
        "x",
        3,
        {},
        object(),
        flags.float(),
        flags.long(),
        flags[:1],
        flags[None],
        torch.tensor(True),
        [1, 0],
    )
    yield from spoiled(f"{target}.state.reset", state.reset, {"mask": flags}, {"mask": masks})
    yield from spoiled(
        f"{target}.state.blend", state.blend, {"mask": flags, "other": state},
        {"mask": masks, "other": [other for other in others if not isinstance(other, type(state))]},
    )  # fmt: skip
    yield from spoiled(f"{target}.state.expand", state.expand, {"n": 2}, {"n": BAD["size"]})
    elements = (None, "x", 1.5, [0], -1, B, 10**9, True, torch.tensor(0), object())
    yield from spoiled(f"{target}.state.memory_rows", state.memory_rows, {"b": 0}, {"b": elements})
    indices = (None, "x", 1.5, B, -B - 1, {}, object(), [5], [0.5], flags[:1], torch.tensor([[0]]), [None], ["a"], ...)
    for value in indices:
        yield Case(f"{target}.state[]", "index", value, lambda v=value: state[v])
    yield from spoiled(f"{target}.state.to", state.to, {}, {"engine": ("nonsense", 3, [], b"native")})
    for value in ("nonsense", torch.int64, torch.bool, torch.complex64):
        says = ("dtype", "device", "nonsense")
        yield Case(f"{target}.state.to", "dtype", value, lambda v=value: state.to(v), says)
    for value in (None, 3, [], {}, [state, 3], [None], "x", [state, *others[:1]]):
        yield Case("cat", "states", value, lambda v=value: sparsam.cat(v))


def small(name: str, engine: str = "auto", **changes: Any) -> Any:
    if name == "SparseMemory":
        sizes = {key: value for key, value in {**SMALL, **changes}.items() if key != "hidden_size"}
        return sparsam.SparseMemory(**sizes, k=2, engine=engine)
    sizes = SMALL if name != "lstm" else {key: SMALL[key] for key in ("input_size", "output_size", "hidden_size")}
    return sparsam.build(name, **{**sizes, **changes}, engine=engine)


def task_calls() -> Iterator[Case]:
    for kind in (*map(tasks.task_class, ("copy", "recall", "sort")), Mqar):
        name = kind.name
        arguments = inspect.signature(kind).parameters
        bad = {key: BAD[KINDS[key]] for key in arguments if key in KINDS}
        yield from spoiled(name, kind, {}, bad)
        task = kind()
        level = tuple(value for value in BAD["size"] if value is not None)
        yield from spoiled(
            f"{name}.sample", task.sample, {"batch_size": 2, "generator": torch.Generator()},
            {"batch_size": BAD["size"], "generator": (None, 3, "x", object()), "level": level},
        )  # fmt: skip
        batch = task.sample(2, torch.Generator())
        outputs = torch.zeros(*batch.mask.shape, task.output_size)
        wrong = (None, 3, "x", outputs[:-1], outputs[..., :-1], outputs[0, :-1], outputs[:, :1])
        yield from spoiled(f"{name}.loss", task.loss, {"outputs": outputs, "batch": batch}, {"outputs": wrong})
        yield from spoiled(f"{name}.errors", task.errors, {"outputs": outputs, "batch": batch}, {"outputs": wrong})
    for value in (None, "nonsense", 3, [], "copyy"):
        yield Case("tasks.build", "name", value, lambda v=value: tasks.build(v), ("name", "task"))
    yield Case("tasks.build", "bitz", 3, lambda: tasks.build("copy", bitz=3))


OF_HINT = {
    int: ("x", 2.5, [], {}, True, -(2**63)), float: ("x", [], {}, True, float("nan"), -1.0), bool: (1, "x", [], 0.0),
    str: (3, [], {}, True), dict: (3, "x", [1]), list: (3, "x", {}, [3]),
}  # fmt: skip


def config_calls() -> Iterator[Case]:
    """Every field of every config, as JSON has it and as Python has it."""
    import typing

    plain = configs.RunConfig(curriculum=configs.CurriculumConfig())
    parts = {
        "": configs.RunConfig, "optimizer": configs.OptimizerConfig, "task": configs.TaskConfig,
        "curriculum": configs.CurriculumConfig,
    }  # fmt: skip
    for part, kind in parts.items():
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            members = [m for m in (typing.get_args(hints[field.name]) or (hints[field.name],)) if m is not type(None)]
            wanted = typing.get_origin(hints[field.name]) or members[0]
            wanted = wanted if wanted in OF_HINT else members[0]
            for value in OF_HINT.get(wanted, (3, "x", [1])):
                if wanted is int and value == -(2**63) and field.name in ("seed",):
                    continue
                if wanted is float and isinstance(value, float) and field.name in FREE_NUMBERS:
                    continue

                def changed(n: str = field.name, v: Any = value, p: str = part) -> Any:
                    values = plain.to_dict()
                    (values[p] if p else values)[n] = v
                    return configs.RunConfig.from_dict(values)

                yield Case(f"RunConfig.from_dict {part}", field.name, value, changed)
                yield Case(kind.__name__, field.name, value, lambda k=kind, n=field.name, v=value: k(**{n: v}))
        yield Case(kind.__name__, "no_such_thing", 1, lambda k=kind: k(no_such_thing=1))
    for name in MODELS:
        for key in ("hidden_size", "engine", "batch_first", "nonsense", "memory_size", "index"):
            value = 3 if key in ("engine", "index") else "x"
            settings = {"name": name, key: value}
            yield Case("ModelConfig", key, value, lambda s=settings: configs.ModelConfig(**s))
    for text in (
        "x",
        "model.name=3",
        "model.name=nonsense",
        "nonsense=1",
        "model.nonsense=1",
        "steps=0",
        "steps=x",
        "=3",
    ):
        says = ("settings?", "name", "nonsense", "steps")
        yield Case("with_settings", "setting", text, lambda t=text: plain.with_settings([t]), says)
    for text in ("", "{", "[]", "3", "null", '{"model": 3}', '{"steps": "x"}', "[" * 100_000):
        yield Case("from_json", "config", text[:20], lambda t=text: configs.RunConfig.from_json(t),
                   ("config", "model", "steps"))  # fmt: skip


FREE_NUMBERS = ("stop_below", "threshold")


def load_calls(scratch: Path) -> Iterator[Case]:
    empty, text, folder = scratch / "empty.safetensors", scratch / "text.safetensors", scratch / "folder"
    empty.write_bytes(b"")
    text.write_text("hello")
    folder.mkdir()
    for value in (None, 3, [], "nonsense", "", "../nonsense", empty, text, folder, b"x", scratch / "none"):
        says = ("name", re.escape(str(value)) or "name")
        yield Case("load", "name", value, lambda v=value: sparsam.load(v), says)
    known = "copy-sam" if (Path(sparsam.weights.folders()[0]) / "copy-sam.safetensors").exists() else None
    if known:
        for changes in ({"nonsense": 1}, {"engine": "nonsense"}, {"memory_size": 0}, {"k": "x"}):
            (argument, value), = changes.items()  # fmt: skip
            yield Case("load", argument, value, lambda c=changes: sparsam.load(known, **c))


def every_case(scratch: Path) -> Iterator[Case]:
    yield from constructors()
    yield from calls()
    yield from task_calls()
    yield from config_calls()
    yield from load_calls(scratch)


def judged(case: Case) -> str | None:
    """What is wrong with how the call ended."""
    what = f"{case.target}({case.argument}={str(case.value)[:60]!r})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.call()
    except ERRORS as error:
        named = case.says or (re.escape(case.argument),)
        if any(re.search(rf"(?<![a-z]){each}(?![a-z])", str(error)) for each in named):
            return None
        return f"{what}: {type(error).__name__} that does not name it: {str(error)[:150]!r}"
    except Exception as error:
        return f"{what}: {type(error).__name__}: {str(error)[:150]!r}"
    return f"{what}: accepted"


def main(part: int = 0, parts: int = 1) -> int:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        cases = list(every_case(Path(scratch)))[part::parts]
        wrong = [problem for case in cases if (problem := judged(case)) is not None]
    for problem in wrong:
        print(problem)
    print(f"{len(wrong)} of {len(cases)} malformed calls end in no error that names the argument")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
