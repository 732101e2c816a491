"""sb3-contrib's RecurrentPPO with a memory in place of its LSTM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparsam import tickets
from tests.adapters.conftest import guest

gymnasium = guest("gymnasium")
RecurrentPPO = guest("sb3_contrib").RecurrentPPO
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from sparsam.adapters.sb3 import MlpSamPolicy  # noqa: E402

SIZES = {"hidden_size": 16, "memory_size": 32, "word_size": 6, "num_heads": 2}


class Recall(gymnasium.Env):
    """The first observation names the action that the last step rewards."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count, self.cue = 0, int(self.np_random.integers(2))
        return np.array([1, 2 * self.cue - 1, 0], np.float32), {}

    def step(self, action):
        self.step_count += 1
        done = self.step_count == 4
        reward = float(action == self.cue) if done else 0.0
        return np.array([0, 0, self.step_count == 3], np.float32), reward, done, False, {}


def agent(policy="MlpSamPolicy", envs=3, **changes):
    kwargs = {"memory_kwargs": SIZES, "output_size": 16, **changes.pop("policy_kwargs", {})}
    settings = {"n_steps": 16, "batch_size": 24, "seed": 0, "device": "cpu", **changes}
    return RecurrentPPO(policy, DummyVecEnv([Recall] * envs), policy_kwargs=kwargs, **settings)


@pytest.mark.parametrize(
    "policy_kwargs",
    [
        {},
        {"memory": "sdnc"},
        {"memory": "ntm"},
        {"enable_critic_lstm": False},
        {"enable_critic_lstm": False, "shared_lstm": True},
    ],
)
def test_it_learns_steps_by_name(policy_kwargs):
    model = agent(policy_kwargs=policy_kwargs)
    before = [p.detach().clone() for p in model.policy.lstm_actor.parameters()]
    model.learn(96)
    assert type(model.policy) is MlpSamPolicy
    assert all(not torch.equal(p, old) for p, old in zip(model.policy.lstm_actor.parameters(), before))


def test_the_update_sees_what_the_rollout_saw():
    """With the parameters of the rollout, the log-probabilities and values of the buffer come back from its tickets."""
    model = agent()
    model.learn(0)
    _, callback = model._setup_learn(48)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=16)
    checked = 0
    for data in model.rollout_buffer.get(24):
        with torch.no_grad():
            values, log_prob, _ = model.policy.evaluate_actions(
                data.observations, data.actions.long().flatten(), data.lstm_states, data.episode_starts
            )
        mask = data.mask > 0
        torch.testing.assert_close(log_prob[mask], data.old_log_prob[mask], rtol=0, atol=1e-5)
        torch.testing.assert_close(values.flatten()[mask], data.old_values[mask], rtol=0, atol=1e-5)
        checked += int(mask.sum())
    assert checked == 48


def test_their_save_and_load(tmp_path):
    model = agent(policy_kwargs={"memory": "sdnc"})
    model.learn(48)
    model.save(tmp_path / "agent.zip")
    again = RecurrentPPO.load(tmp_path / "agent.zip", env=model.env, device="cpu")
    observation, state, twin = model.env.reset(), None, None
    for step in range(3):
        start = np.full(3, step == 0)
        action, state = model.predict(observation, state, start, deterministic=True)
        other, twin = again.predict(observation, twin, start, deterministic=True)
        assert (action == other).all()
    again.learn(48, reset_num_timesteps=False)
    assert again.policy.memory_settings == model.policy.memory_settings
    policy = MlpSamPolicy.load(save(model, tmp_path))
    assert (policy.predict(observation, None, np.ones(3, bool), deterministic=True)[0]
            == model.predict(observation, None, np.ones(3, bool), deterministic=True)[0]).all()  # fmt: skip


def save(model, folder):
    model.policy.save(folder / "policy.pt")
    return folder / "policy.pt"


def test_an_update_leaves_the_table_alone():
    model = agent()
    model.learn(48)
    model._last_lstm_states  # noqa: B018
    before = tickets.TABLE.next
    model.train()
    assert tickets.TABLE.next == before


def test_settings_are_checked():
    with pytest.raises(ValueError, match="memory: expected"):
        agent(policy_kwargs={"memory": "lstm"})
    with pytest.raises(ValueError, match="lstm_hidden_size: expected output_size"):
        agent(policy_kwargs={"lstm_hidden_size": 8})


def test_it_learns_to_remember():
    shared = {"enable_critic_lstm": False, "shared_lstm": True}
    model = agent(envs=8, n_steps=32, batch_size=128, n_epochs=10, learning_rate=1e-3, gamma=0.9, policy_kwargs=shared)
    model.learn(4_000)
    reward, _ = evaluate_policy(model, DummyVecEnv([Recall] * 8), n_eval_episodes=40)
    assert reward > 0.9  # 0.5 without a memory
