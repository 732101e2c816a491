"""A memory in stable-baselines3: policies for sb3-contrib's `RecurrentPPO`. Needs `pip install sb3-contrib`.

    import sparsam.adapters.sb3  # makes the names known
    from sb3_contrib import RecurrentPPO

    agent = RecurrentPPO("MlpSamPolicy", env, policy_kwargs={"memory_kwargs": {"memory_size": 1024}})

Their buffers hold (h, c) of an LSTM. Here h and c are tickets (`sparsam.tickets`): the states are in a table of this
process, and zeros are a fresh one. All else is theirs, `save` and `load` too.
"""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, NatureCNN
from torch import Tensor, nn

import sparsam
from sparsam import checks, tickets

MEMORIES = ("sam", "sdnc", "dam", "ntm", "dnc")
NO_STATE = 255.0  # what a call with gradients gives for a state: no ticket, and refused if used


class TicketMemory(nn.Module):
    """A model with the face that sb3-contrib knows of `nn.LSTM`: one layer whose h and c are tickets."""

    num_layers, hidden_size = 1, tickets.WIDTH

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.input_size = model, model.input_size

    def forward(self, x: Tensor, carried: tuple[Tensor, Tensor], starts: Tensor) -> tuple[Tensor, Any]:
        """x (T, B, I) from tickets (1, B, 10); an element starts anew before each step where `starts` (T, B) holds."""
        fresh = starts[0].view(1, -1, 1)
        state = (carried[0].masked_fill(fresh, 0.0), carried[1].masked_fill(fresh, 0.0))
        resets = starts.clone()
        resets[0] = False
        y, after = self.model(x, state, resets=resets if bool(resets.any()) else None)
        if torch.is_grad_enabled():  # an update: nobody uses the states, which would push the rollout's from the table
            return y, tuple(torch.full_like(part, NO_STATE) for part in carried)
        return y, tickets.lstm_shaped(after)


class MlpSamPolicy(RecurrentActorCriticPolicy):
    """Actor and critic around a memory.

    Args:
        memory: "sam", "sdnc" or another memory model of sparsam.
        memory_kwargs: of its constructor; it gives `output_size` numbers to the actor's and the critic's layers.
        output_size: 64 by default.
        keep: the least number of states that the table keeps. An update needs those of a whole rollout: `n_steps` of
            the actor, as many of the critic, and a few more where episodes are cut off.
        shared_lstm, enable_critic_lstm and all others: as in sb3-contrib, for the memory in place of the LSTM.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Any,
        *arguments: Any,
        memory: str = "sam",
        memory_kwargs: dict[str, Any] | None = None,
        output_size: int = 64,
        keep: int = 16_384,
        **named: Any,
    ) -> None:
        for name in ("lstm_hidden_size", "n_lstm_layers", "lstm_kwargs"):
            if name in named:
                raise ValueError(f"{name}: expected output_size and memory_kwargs, which a memory has instead")
        checks.one_of("memory", memory, MEMORIES)
        tickets.keep(max(tickets.keep(), checks.positive_int("keep", keep)))
        settings: Any = {**named, "lstm_hidden_size": output_size}
        super().__init__(observation_space, action_space, lr_schedule, *arguments, **settings)
        self.memory_settings: dict[str, Any] = {
            "memory": memory, "memory_kwargs": memory_kwargs or {}, "output_size": output_size, "keep": keep
        }  # fmt: skip
        self.lstm_actor: Any = self._memory()
        if self.enable_critic_lstm:
            self.lstm_critic: Any = self._memory()
        self.lstm_hidden_state_shape = (1, 1, tickets.WIDTH)
        rate = lr_schedule(1)
        self.optimizer: Any = self.optimizer_class(self.parameters(), lr=rate, **self.optimizer_kwargs)  # type: ignore[call-arg]

    def _memory(self) -> TicketMemory:
        settings = self.memory_settings
        model = sparsam.build(
            settings["memory"],
            input_size=self.features_dim,
            output_size=settings["output_size"],
            **settings["memory_kwargs"],
        )
        return TicketMemory(model)

    @staticmethod
    def _process_sequence(features: Tensor, lstm_states: Any, episode_starts: Tensor, lstm: Any) -> tuple[Tensor, Any]:
        """Features (B · T, I), element by element, through the memory in one call."""
        batch = lstm_states[0].shape[1]
        x = features.reshape(batch, -1, lstm.input_size).transpose(0, 1)
        starts = episode_starts.reshape(batch, -1).transpose(0, 1) > 0.5
        y, after = lstm(x, lstm_states, starts)
        return y.transpose(0, 1).flatten(0, 1), after

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """What their `save` writes so that `load` makes the policy again."""
        return {**super()._get_constructor_parameters(), **self.memory_settings}


class CnnSamPolicy(MlpSamPolicy):
    """The same for images."""

    def __init__(self, *arguments: Any, features_extractor_class: Any = NatureCNN, **named: Any) -> None:
        super().__init__(*arguments, features_extractor_class=features_extractor_class, **named)


class MultiInputSamPolicy(MlpSamPolicy):
    """The same for dictionaries of observations."""

    def __init__(self, *arguments: Any, features_extractor_class: Any = CombinedExtractor, **named: Any) -> None:
        super().__init__(*arguments, features_extractor_class=features_extractor_class, **named)


for _policy in (MlpSamPolicy, CnnSamPolicy, MultiInputSamPolicy):
    RecurrentPPO.policy_aliases[_policy.__name__] = _policy
