"""Tasks and loggers of a user's own, named module:Class."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sparsam.lab.training import user_classes
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.loggers import build_loggers
from sparsam.lab.training.loop import train
from sparsam.lab.training.trained import load_model
from sparsam.lab.training.user_classes import NotNamed, own_task, use_logger, use_task

MODULE = """
import torch
from sparsam.lab.tasks import Batch

class Parity:
    name, input_size, output_size = "parity", 1, 1
    def __init__(self, length=4):
        self.length = length
    def sample(self, batch_size, generator, level=None):
        x = torch.randint(0, 2, (self.length, batch_size, 1), generator=generator).float()
        return Batch(x, x.cumsum(0) % 2, torch.ones(x.shape[:2], dtype=torch.bool))
    def loss(self, outputs, batch):
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs, batch.targets)
    def errors(self, outputs, batch):
        return {"wrong": float(((outputs > 0) != (batch.targets > 0.5)).float().mean())}

class Half:
    name, input_size = "half", 1
    def sample(self, batch_size, generator, level=None): ...

class NoSize(Half):
    def loss(self, outputs, batch): ...
    def errors(self, outputs, batch): ...

class NoLoss(Parity):
    def loss(self, outputs, batch):
        return 3.0

class NoErrors(Parity):
    def errors(self, outputs, batch):
        return [1]

class Numbers:
    seen = []
    def start(self, config, folder, step):
        self.seen.append(("start", config["steps"], step))
    def log(self, kind, step, values):
        self.seen.append((kind, step, sorted(values)))
    def close(self):
        self.seen.append(("close",))

class Broken(Numbers):
    def log(self, kind, step, values):
        raise ValueError("no network")

class Deaf:
    def start(self, config, folder, step): ...
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "my_parity.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(user_classes, "_used", {})
    yield
    sys.modules.pop("my_parity", None)


def test_a_task_of_ones_own_trains_and_loads(tiny: Any, tmp_path: Path) -> None:
    use_task("my_parity:Parity")
    config = tiny("task.name=my_parity:Parity", 'task.settings={"length": 3}', "steps=6")
    outcome = train(config, tmp_path / "run", quiet=True)
    assert list(outcome.evaluation) == ["wrong", "loss"]
    _, task, _ = load_model(tmp_path / "run")
    assert task.length == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Task", "no module named 'nowhere'"),
        ("my_parity:Nothing", r"no class 'Nothing' \(it has: .*Parity"),
        ("my_parity:", "expected module:Class"),
        ("my_parity:Half", r"lacks loss\(\), errors\(\)\. A task is a class with"),
        ("my_parity:NoSize", r"lacks output_size\. A task is a class with"),
        ("subprocess:Popen", r"lacks sample\(\), loss\(\), errors\(\)"),
    ],
)
def test_what_is_missing_is_said_with_the_protocol(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use_task(name)
        own_task(name, {})


@pytest.mark.parametrize(
    ("name", "message"), [("NoLoss", "loss: expected a scalar"), ("NoErrors", "errors: expected a")]
)
def test_answers_that_cannot_be_used_are_found_before_the_run(
    tiny: Any, tmp_path: Path, name: str, message: str
) -> None:
    use_task(f"my_parity:{name}")
    with pytest.raises(ValueError, match=message):
        train(tiny(f"task.name=my_parity:{name}", "task.settings={}"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("what", ["task", "logger"])
def test_a_file_cannot_name_code(tmp_path: Path, what: str) -> None:
    """A class that runs a command when it is made, in a config: nothing is imported, nothing is called."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()")
    with pytest.raises(NotNamed, match=rf"{what}: 'evil:Task' is .*--{what} evil:Task"):
        own_task("evil:Task", {}) if what == "task" else build_loggers(["evil:Task"])
    with pytest.raises(NotNamed):
        own_task("subprocess:Popen", {"args": ["touch", str(tmp_path / "canary")]})
    assert not (tmp_path / "canary").exists() and "evil" not in sys.modules


def test_a_class_is_judged_before_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "called.py").write_text("class Task:\n    def __init__(self):\n        raise SystemExit(1)\n")
    with pytest.raises(ValueError, match="lacks sample"):
        use_task("called:Task")


def test_a_mistake_in_the_module_shows_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "with_typo.py").write_text("import torch\n\nx = trch.zeros(1)\n")
    with pytest.raises(ValueError, match=r"NameError: name 'trch' is not defined.*with_typo\.py, line 3"):
        use_task("with_typo:Task")


def test_a_logger_sees_loss_error_and_gradient_norm(tiny: Any, tmp_path: Path) -> None:
    use_logger("my_parity:Numbers")
    config = tiny('loggers=["my_parity:Numbers"]', "steps=10")
    train(config, tmp_path / "run", quiet=True)
    seen = sys.modules["my_parity"].Numbers.seen
    assert seen[0] == ("start", 10, 0) and seen[-1] == ("close",)
    trained = [keys for kind, step, keys in seen[1:-1] if kind == "train"]
    assert {"loss", "bits_per_sequence", "gradient_norm"} <= set(trained[0])
    assert [step for kind, step, _ in seen[1:-1] if kind == "eval"] == [10]


def test_a_logger_that_fails_costs_a_warning(tiny: Any, tmp_path: Path) -> None:
    use_logger("my_parity:Broken")
    with pytest.warns(UserWarning, match="Broken: ValueError: no network; continuing without it"):
        outcome = train(tiny('loggers=["my_parity:Broken"]', "steps=10"), tmp_path / "run", quiet=True)
    assert outcome.step == 10 and RunFolder(tmp_path / "run").events("train")


def test_a_logger_must_have_its_three_methods() -> None:
    with pytest.raises(ValueError, match=r"lacks log\(\), close\(\)"):
        use_logger("my_parity:Deaf")


def test_tensorboard_has_loss_error_gradient_norm_reads_and_writes(tiny: Any, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(tiny("model.name=sam", "model.memory_size=16", "tensorboard=true", "steps=10"), tmp_path / "run", quiet=True)
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    shown = {"train/loss", "train/bits_per_sequence", "train/gradient_norm", "eval/bits_per_sequence",
             "memory/rows_read", "memory/rows_written", "memory/read_weight", "memory/write_weight"}  # fmt: skip
    assert shown <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("memory/rows_read")] == [10]
