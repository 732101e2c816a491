from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from sparsam import KDForest
from sparsam.lab.training.config import CurriculumConfig, ModelConfig, RunConfig, TaskConfig
from sparsam.models import MODELS


def test_json_round_trip() -> None:
    config = RunConfig(
        seed=3,
        model=ModelConfig("dam", memory_size=64),
        task=TaskConfig("sort", {"bits": 4}),
        curriculum=CurriculumConfig(start=4),
        seconds=1.5,
    )
    assert RunConfig.from_json(config.to_json()) == config
    assert RunConfig.from_json(RunConfig().to_json()) == RunConfig()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.memory_sise=3", "model.memory_sise.*did you mean 'memory_size'"),
        ("modle.k=3", "did you mean 'model'"),
        ("steps=many", "steps: expected int"),
        ("batch_size=0", "batch_size: expected at least 1"),
        ("model.name=samm", "did you mean 'sam'"),
        ("optimizer.name=rmsprob", "did you mean 'rmsprop'"),
        ("optimizer.learning_rate=-1", "learning_rate: expected a positive number"),
        ("seed=true", "seed: expected int"),
        ("steps", "path=value"),
        ("curriculum.patience=0", "patience"),
    ],
)
def test_a_wrong_setting_is_named(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig().with_settings([setting])


def test_settings_change_a_copy() -> None:
    base = RunConfig()
    changed = base.with_settings(["model.k=8", "task.settings.bits=4", "curriculum.start=4", "seconds=2"])
    assert (changed.model.k, changed.task.settings, changed.seconds) == (8, {"bits": 4}, 2.0)
    assert changed.curriculum is not None and changed.curriculum.start == 4
    assert base == RunConfig()


def test_models_get_only_what_they_understand() -> None:
    assert ModelConfig("lstm").arguments().items() >= {"hidden_size": 100, "engine": "auto"}.items()
    assert "k" not in ModelConfig("lstm").arguments() and "memory_size" not in ModelConfig("lstm").arguments()
    assert "k" not in ModelConfig("ntm").arguments() and ModelConfig("sam", k=2).arguments()["k"] == 2
    assert ModelConfig("sam", extra={"delta": 0.1}).arguments()["delta"] == 0.1


def test_an_index_with_settings_of_its_own() -> None:
    from sparsam import KDForest

    config = RunConfig().with_settings(["model.index=kdtree", 'model.index_settings={"checks": 256}'])
    assert config.model.arguments()["index"] == KDForest(checks=256)
    assert RunConfig.from_json(config.to_json()) == config
    for index, settings in (("kdtree", {"leaves": 3}), ("linear", {"checks": 3}), ("kd", {"checks": 3})):
        with pytest.raises(ValueError, match="index"):
            ModelConfig(index=index, index_settings=settings).arguments()


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("lstm", {"k": 3}, r"model.k: lstm has no such setting \(it has: hidden_size"),
        ("lstm", {"memory_size": 8}, "model.memory_size: lstm has no such setting"),
        ("ntm", {"index": "kdtree"}, "model.index: ntm has no such setting"),
        ("ntm", {"index_settings": {"checks": 3}}, "model.index_settings: ntm has no such setting"),
        ("sam", {"k_links": 3}, "model.k_links: sam has no such setting"),
        ("sam", {"extra": {"k_links": 3}}, "model.k_links: sam has no such setting"),
        ("sam", {"memory_sise": 3}, "did you mean 'memory_size'"),
        ("sam", {"k": "many"}, "model.k: expected int, got 'many'"),
        ("sam", {"index": KDForest()}, "model.index: expected str"),
        ("sam", {"k": True}, "model.k: expected int, got True"),
        ("sam", {"delta": "x"}, "model.delta: expected float"),
        ("sdnc", {"link_gradients": "yes"}, "model.link_gradients: expected bool"),
    ],
)
def test_a_setting_that_a_model_does_not_have_is_an_error(model: str, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig(model, **settings)


@pytest.mark.parametrize("name", MODELS)
def test_settings_are_those_of_the_constructor(name: str) -> None:
    decided = {"self", "input_size", "output_size", "batch_first", "device", "dtype"}
    wanted = {key for key in inspect.signature(MODELS[name].__init__).parameters if not key.startswith("_")} - decided
    config = ModelConfig(name)
    assert set(config.arguments()) == wanted
    assert RunConfig.from_json(RunConfig(model=config).to_json()).model == config
    config.build(3, 2)


def test_a_new_argument_of_a_constructor_is_a_new_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wider(MODELS["sam"]):  # type: ignore[misc, valid-type, name-defined]
        def __init__(
            self, input_size: int, output_size: int, controller: str | None = "lstm", **others: object
        ) -> None:
            super().__init__(input_size, output_size, **others)
            self.kind = controller

    monkeypatch.setitem(MODELS, "wider", Wider)
    config = RunConfig().with_settings(["model.name=wider", "model.controller=gru", "model.k=2"])
    model = config.model.build(3, 2)
    assert (model.kind, model.k, model.memory_size) == ("gru", 2, 65_536)


def test_a_setting_of_an_earlier_version_is_passed_over() -> None:
    text = RunConfig(model=ModelConfig("ntm")).to_json()
    with_it = text.replace('"name": "ntm"', '"name": "ntm", "compile_step": true')
    assert with_it != text and RunConfig.from_json(with_it) == RunConfig.from_json(text)


def test_another_model_keeps_the_settings_that_it_has() -> None:
    config = RunConfig().with_settings(["model.k=8", "model.hidden_size=32"]).with_settings(["model.name=lstm"])
    assert config.model == ModelConfig("lstm", hidden_size=32)
    assert config.model.k is None
    with pytest.raises(ValueError, match=r"model\.k: lstm has no such setting"):
        RunConfig().with_settings(["model.name=lstm", "model.k=8"])
    with pytest.raises(AttributeError, match="nonsense"):
        config.model.nonsense  # noqa: B018


def test_all_settings_at_once_are_refused_as_one_is() -> None:
    """They look like a config of the first format, which had all of them, and are not one."""
    given = ["memory_size=8", "word_size=8", "num_heads=2", "k=3", "index=kdtree", "engine=cuda", "hidden_size=8"]
    with pytest.raises(ValueError, match="lstm has no such setting"):
        RunConfig().with_settings(["model.name=lstm", *(f"model.{setting}" for setting in given)])


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".", "", "a\\b"])
def test_a_name_is_a_folder_and_not_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="name: expected the name of a folder"):
        RunConfig(name=name)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"model": [1]}', '{"model": {"name": 3}}', "[" * 100_000])
def test_what_is_no_config_says_so(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config.json"):
        RunConfig.load(tmp_path / "config.json")
