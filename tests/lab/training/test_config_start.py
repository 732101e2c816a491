"""First weights in a config: a model's setting, and the section of its own that earlier configs had."""

from __future__ import annotations

import json

import pytest

import sparsam
from sparsam.lab.training.config import ModelConfig, RunConfig


def before(config: RunConfig, start: dict | None, **changes: object) -> str:
    """The config as a run wrote it when `start` was a section beside the model."""
    values = config.to_dict() | {"start": start} | changes
    values["model"].pop("start", None)
    return json.dumps(values)


def test_a_config_holds_a_name_or_numbers() -> None:
    for start in ("open", "plain", sparsam.Start(write=2.0, tied=True)):
        config = RunConfig(model=ModelConfig("sam", start=start))
        assert RunConfig.from_json(config.to_json()) == config
        assert config.model.build(3, 2).start == start
    assert RunConfig().model.start == "open"


def test_a_section_of_its_own_is_read_as_the_models() -> None:
    numbers = {"forget": 1.0, "write": 2.0, "reuse": -5.0, "sharpness": 3.0, "words": 2.0, "tied": False}
    config = RunConfig.from_json(before(RunConfig(), numbers))
    assert config.model.start == sparsam.Start(**numbers)
    assert RunConfig.from_json(before(RunConfig(), None)).model.start == "plain"
    assert RunConfig.from_json(before(RunConfig(model=ModelConfig("lstm")), None)).model.name == "lstm"
    with pytest.raises(ValueError, match="start: lstm has no such setting"):
        RunConfig.from_json(before(RunConfig(model=ModelConfig("lstm")), numbers))


def test_what_a_run_wrote_before_there_was_any_began_plain_and_what_a_user_writes_does_not() -> None:
    values = json.loads(before(RunConfig(), None))
    del values["start"]
    assert RunConfig.from_dict(values).model.start == "plain"
    assert RunConfig.from_json('{"model": {"name": "sam", "k": 8}}').model.start == "open"


def test_single_numbers_can_be_set() -> None:
    config = RunConfig().with_settings(["model.start=plain", "model.start.write=2", "start.tied=true"])
    assert config.model.start == sparsam.Start(write=2.0, tied=True)
    some = RunConfig().with_settings(["model.start.forget=0"]).model.start
    assert (some.forget, some.write) == (0.0, sparsam.start.STARTS["open"].write)
    with pytest.raises(ValueError, match=r"model\.start: expected one of 'open', 'plain', got 'shut'"):
        RunConfig().with_settings(["model.start=shut"])
    with pytest.raises(ValueError, match=r"model\.start: expected one of .*'write'"):
        RunConfig().with_settings(["model.start.writes=2"])


def test_other_first_weights() -> None:
    assert ModelConfig("sam", k=8).beginning("plain") == ModelConfig("sam", k=8, start="plain")
    assert ModelConfig("lstm").beginning("plain") == ModelConfig("lstm")


@pytest.mark.parametrize(("name", "start"), [("copy-sam", "plain"), ("recall-sam", sparsam.Start(1, 2, -5, 3, 2))])
def test_weights_that_come_with_the_package_say_how_they_began(name: str, start: object) -> None:
    assert sparsam.load(name).start == start
