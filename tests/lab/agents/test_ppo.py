"""PPO: advantages as they are defined, runs that go on as if they had not stopped, an agent that learns to remember."""

import json

import pytest
import torch

from sparsam.lab.agents import ppo
from sparsam.lab.agents.config import AgentConfig, AgentFolder
from sparsam.lab.agents.ppo import Rollout, advantages
from sparsam.lab.training.checkpoint import CheckpointError

SMALL = (
    "task.name=RepeatFirst",
    "task.longest=6",
    "ppo.batch=8",
    "ppo.length=16",
    "ppo.parts=2",
    "block=512",
    "steps=1536",
)


def small(*settings):
    return AgentConfig().with_settings([*SMALL, *settings])


def test_advantages_are_the_weighted_sum_of_what_surprised():
    torch.manual_seed(0)
    rewards, values, last = torch.randn(7, 2), torch.randn(7, 2), torch.randn(2)
    ended = torch.tensor([0, 0, 1, 0, 0, 0, 0]).bool()[:, None].expand(7, 2)
    rollout = Rollout(None, *[None] * 4, values, rewards, ended, last)
    after = torch.cat([values[1:], last[None]])
    wanted = torch.zeros(7, 2)
    for t in range(7):
        weight = 1.0
        for later in range(t, 7):
            going = 0.0 if ended[later, 0] else 1.0
            wanted[t] += weight * (rewards[later] + 0.9 * going * after[later] - values[later])
            weight *= 0.9 * 0.8 * going
    torch.testing.assert_close(advantages(rollout, 0.9, 0.8), wanted)


@pytest.mark.parametrize("core", ["sam", "gru"])
def test_a_run_that_goes_on_is_the_run_that_never_stopped(core, tmp_path, monkeypatch):
    config = small(f"model.name={core}")
    assert ppo.train(config, tmp_path / "whole", quiet=True).reason == "steps"
    kept, calls = ppo._save, []

    class Killed(Exception):
        pass

    def killed(*arguments):
        kept(*arguments)
        calls.append(arguments)
        raise Killed

    monkeypatch.setattr(ppo, "_save", killed)
    with pytest.raises(Killed):
        ppo.train(config, tmp_path / "cut", quiet=True)
    monkeypatch.setattr(ppo, "_save", kept)
    assert ppo.train(config, tmp_path / "cut", resume=True, quiet=True).reason == "steps"
    whole, cut = (torch.load(tmp_path / name / "checkpoint.pt", weights_only=True) for name in ("whole", "cut"))
    assert all(torch.equal(value, cut["agent"][name]) for name, value in whole["agent"].items())
    assert [point[:3] for point in whole["curve"]] == [point[:3] for point in cut["curve"]]
    assert (
        AgentFolder(tmp_path / "cut").result()["evaluation"] == AgentFolder(tmp_path / "whole").result()["evaluation"]
    )


def test_other_settings_are_not_gone_on_with(tmp_path):
    ppo.train(small("steps=512"), tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="other settings"):
        ppo.train(small("steps=512", "ppo.discount=0.5"), tmp_path / "run", resume=True, quiet=True)


def test_an_agent_learns_to_remember(tmp_path):
    config = small("steps=16384", "block=4096", "task.longest=4", "ppo.batch=32", "ppo.parts=4")
    ppo.train(config, tmp_path / "run", quiet=True)
    curve = [event["mean_return"] for event in AgentFolder(tmp_path / "run").events("eval")]
    assert curve[0] < 0 < curve[-1]  # chance is -0.5


@pytest.mark.parametrize(
    "setting, named",
    [
        ("task.name=Chess", "task.name"),
        ("model.name=elman", "model.name"),
        ("steps=1000", "steps"),
        ("ppo.parts=3", "ppo.parts"),
        ("ppo.batch=much", "ppo.batch"),
        ("ppo.rate=1", "settings"),
    ],
)
def test_errors_name_the_setting(setting, named):
    with pytest.raises((ValueError, TypeError), match=named):
        AgentConfig().with_settings([setting])


def test_a_config_that_is_none_names_its_file(tmp_path):
    folder = AgentFolder(tmp_path)
    for text in ("{", "[]", json.dumps({"model": {"name": "subprocess:Popen"}}), "[" * 5000):
        folder.config_file.write_text(text)
        with pytest.raises(ValueError, match=r"config\.json"):
            folder.config()


@pytest.mark.parametrize("change", ["block", "curve", "weights", "statistics", "name"])
def test_a_checkpoint_that_is_another_is_refused(change, tmp_path):
    config = small("steps=512", "model.name=gru")
    ppo.train(config, tmp_path / "run", quiet=True)
    file = tmp_path / "run" / "checkpoint.pt"
    kept = torch.load(file, weights_only=True)
    if change == "block":
        kept["block"] = "many"
    elif change == "curve":
        kept["curve"] = []
    elif change == "weights":
        next(iter(kept["agent"].values()))[:] = float("nan")
    elif change == "statistics":
        kept["optimizer"]["state"][0]["exp_avg"] = torch.zeros(1)
    else:
        kept["agent"] = {"other": torch.zeros(1)}
    torch.save(kept, file)
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt"):
        ppo.train(config, tmp_path / "run", resume=True, quiet=True)
