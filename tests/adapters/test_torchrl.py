"""torchrl's own pieces around `MemoryModule`: environments, a collector, a replay buffer, PPO."""

from __future__ import annotations

import pytest
import torch

import sparsam
from tests.adapters.conftest import guest

guest("torchrl")
guest("gymnasium")
from tensordict import TensorDict  # noqa: E402
from tensordict.nn import ProbabilisticTensorDictModule as Draw  # noqa: E402
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule, TensorDictSequential  # noqa: E402
from torchrl.collectors import Collector  # noqa: E402
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, TensorDictReplayBuffer  # noqa: E402
from torchrl.envs import GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv  # noqa: E402
from torchrl.modules import set_recurrent_mode  # noqa: E402
from torchrl.objectives import ClipPPOLoss  # noqa: E402
from torchrl.objectives.value import GAE  # noqa: E402

from sparsam.adapters.torchrl import MemoryModule  # noqa: E402

SIZES = {"hidden_size": 16, "memory_size": 64, "word_size": 6, "num_heads": 2}
ROWS = (None, 64)  # tickets, packed


def memory(rows=None, name="sam", **options):
    torch.manual_seed(0)
    model = sparsam.build(name, input_size=4, output_size=8, **SIZES, **options)
    return MemoryModule(model, in_key="observation", out_key="features", rows=rows)


def actor_and_critic(module):
    actor = ProbabilisticTensorDictSequential(
        module,
        TensorDictModule(torch.nn.Linear(8, 2), in_keys=["features"], out_keys=["logits"]),
        Draw(["logits"], ["action"], distribution_class=torch.distributions.OneHotCategorical, return_log_prob=True),
    )
    critic = TensorDictSequential(
        module, TensorDictModule(torch.nn.Linear(8, 1), in_keys=["features"], out_keys=["state_value"])
    )
    return actor, critic


def environments(module, envs=3, most=9):
    def one():
        return TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=most))

    env = TransformedEnv(SerialEnv(envs, one), InitTracker())
    env.append_transform(module.make_tensordict_primer())
    env.set_seed(0)
    return env


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"name": "sdnc"}, {"name": "ntm"}])
def test_steps_equal_a_sequence(rows, options):
    module = memory(rows, **options)
    x, is_init = torch.randn(3, 7, 4), torch.zeros(3, 7, 1, dtype=torch.bool)
    is_init[:, 0] = is_init[1, 4] = is_init[2, 2] = True
    held, outputs = TensorDict(batch_size=[3]), []
    with torch.no_grad():
        for t in range(7):
            held.update({"observation": x[:, t], "is_init": is_init[:, t]})
            outputs.append(module(held)["features"])
            held["recurrent_state"] = held["next", "recurrent_state"]
        with set_recurrent_mode(True):
            whole = module(TensorDict({"observation": x, "is_init": is_init}, batch_size=[3, 7]))
    torch.testing.assert_close(torch.stack(outputs, 1), whole["features"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", ROWS)
def test_a_sequence_goes_on_from_a_stored_state(rows):
    module = memory(rows)
    data = environments(module).rollout(30, actor_and_critic(module)[0], break_when_any_done=False)
    assert data["is_init"].sum() > 6  # episodes begin inside
    for begin in (0, 5, 13):
        with set_recurrent_mode(True), torch.no_grad():
            again = module(data[:, begin:].exclude("features", "next").clone())
        torch.testing.assert_close(again["features"], data["features"][:, begin:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", ROWS)
def test_states_inside_a_sequence_are_refused(rows):
    module = memory(rows)
    held = TensorDict({"observation": torch.randn(2, 5, 4), "is_init": torch.zeros(2, 5, 1).bool()}, batch_size=[2, 5])
    with set_recurrent_mode(True):
        held = module(held)
    following = held.exclude("next")
    following["recurrent_state"] = held["next", "recurrent_state"]
    module(following[:, -1])
    with pytest.raises(ValueError, match="state: expected"):
        module(following[:, 2])


@pytest.mark.parametrize("rows", ROWS)
def test_ppo_with_a_collector_of_several_environments(rows, tmp_path):
    module = memory(rows)
    actor, critic = actor_and_critic(module)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    advantage = GAE(gamma=0.9, lmbda=0.9, value_network=critic, deactivate_vmap=True)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    collector = Collector(environments(module), actor, frames_per_batch=60, total_frames=120)
    storage = LazyTensorStorage(3) if rows is None else LazyMemmapStorage(3, scratch_dir=str(tmp_path))
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    seen = 0
    for data in collector:
        assert data.shape == (3, 20)
        with set_recurrent_mode(True), torch.no_grad():
            data = advantage(data)
        buffer = TensorDictReplayBuffer(storage=storage, batch_size=2)
        buffer.extend(data)
        with set_recurrent_mode(True):
            found = loss(buffer.sample())
        total = sum(value for name, value in found.items() if name.startswith("loss_"))
        optimizer.zero_grad()
        total.backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in module.parameters())
        optimizer.step()
        seen += data.numel()
    collector.shutdown()
    assert seen == 120
    assert all(not torch.equal(p, before[name]) for name, p in module.named_parameters())


def test_the_ratio_of_fresh_data_is_one():
    """The loss runs the sequences as the collector ran the steps: the same log-probabilities."""
    module = memory()
    actor, critic = actor_and_critic(module)
    with torch.no_grad():
        data = environments(module).rollout(25, actor, break_when_any_done=False)
    with set_recurrent_mode(True), torch.no_grad():
        data = GAE(gamma=0.9, lmbda=0.9, value_network=critic, deactivate_vmap=True)(data)
        found = ClipPPOLoss(actor, critic)(data)
    assert abs(float(found["kl_approx"])) < 1e-6 and float(found["clip_fraction"]) == 0


def test_keys_are_checked():
    model = memory().model
    with pytest.raises(ValueError, match="in_key"):
        MemoryModule(model, in_key="a", in_keys=["a", "s"], out_key="y")
    with pytest.raises(ValueError, match="out_keys"):
        MemoryModule(model, in_key="a", out_keys=["y"])
    own = MemoryModule(model, in_keys=["a", "s"], out_keys=["y", ("next", "s")])
    assert own.in_keys == ["a", "s", "is_init"] and "s" in own.make_tensordict_primer().primers.keys()  # noqa: SIM118
    with pytest.raises(RuntimeError, match="next"):
        MemoryModule(model, in_keys=["a", "s"], out_keys=["y", "s"]).make_tensordict_primer()
