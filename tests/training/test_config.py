from __future__ import annotations

import pytest

from sparsam.training.config import CurriculumConfig, ModelConfig, RunConfig, TaskConfig


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
        ("steps=many", "steps must be int"),
        ("batch_size=0", "batch_size must be at least 1"),
        ("model.name=samm", "did you mean 'sam'"),
        ("optimizer.name=rmsprob", "did you mean 'rmsprop'"),
        ("optimizer.learning_rate=-1", "learning_rate must be positive"),
        ("seed=true", "seed must be int"),
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
    assert ModelConfig("lstm").arguments() == {"hidden_size": 100, "engine": "auto"}
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
