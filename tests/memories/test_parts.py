"""Parts of a memory plug into its seams: another one is a class, and no base class knows of it."""

from __future__ import annotations

import inspect
from typing import ClassVar

import pytest
import torch
from torch import nn

import sparsam
from sparsam.controllers.bypass import BypassOutput
from sparsam.controllers.kind import ControllerKind
from sparsam.memories.addressing import Addressing, MaskedAddressing
from sparsam.memories.dam import DAMMemory
from sparsam.memories.description import SparseSizes
from sparsam.memories.dnc import DNCMemory
from sparsam.memories.memory import Memory
from sparsam.memories.ntm import NTMMemory
from sparsam.memories.sam import SAMMemory
from sparsam.memories.sdnc import SDNCMemory
from sparsam.models.composition import MemoryModel
from sparsam.models.contract import Recurrent

SIZES = dict(input_size=3, output_size=2, hidden_size=5, memory_size=8, word_size=4, num_heads=2)
OPTIONS = {"masked", "layer_norm", "bypass_dropout"}


@pytest.mark.parametrize(
    "base", [Recurrent, MemoryModel, Memory, SAMMemory, SDNCMemory, DNCMemory, DAMMemory, NTMMemory]
)
def test_no_flag_of_an_option_goes_through_a_base_class(base):
    assert not OPTIONS & set(inspect.signature(base.__init__).parameters)


def test_the_description_knows_only_what_engines_run():
    assert not OPTIONS & set(SparseSizes.__dataclass_fields__)


def test_arguments_of_the_constructors_choose_the_parts():
    model = sparsam.DNC(**SIZES, masked=True, deallocate=True, bypass_dropout=0.25)
    assert type(model.memory.addressing) is MaskedAddressing
    assert type(model.output) is BypassOutput and (model.masked, model.deallocate) == (True, True)
    model = sparsam.SDNC(**SIZES, allocation="free")
    assert type(model.memory.addressing) is Addressing
    assert type(model.output) is nn.Linear and not model.masked


def test_parts_stay_when_a_setting_changes():
    model = sparsam.SAM(**SIZES, masked=True)
    model.delta = 0.25
    assert (
        model.masked
        and model.memory.sizes.delta == 0.25
        and model.memory.interface.size == model.interface.out_features
    )


def test_a_part_of_ones_own():
    class FirstHalf(Addressing):
        """Only the first half of a word is compared."""

        options: ClassVar = {"half": True}

        def key(self, key, request):
            return key[..., : key.shape[-1] // 2]

        def words(self, words, request):
            return words[..., : words.shape[-1] // 2]

    torch.manual_seed(0)
    model = sparsam.SAM(**SIZES, k=2, engine="reference").double()
    model.memory = SAMMemory(model.memory.sizes, FirstHalf())
    words = torch.randn(8, 4, dtype=torch.float64)
    other = words.clone()
    other[:, 2:] += torch.randn(8, 2, dtype=torch.float64)
    x = torch.randn(1, 3, 3, dtype=torch.float64)
    states = [model(x, model.initial_state(3, initial_memory=memory))[1] for memory in (words, other)]
    assert torch.equal(states[0].read_rows, states[1].read_rows)
    torch.testing.assert_close(states[0].read_weights, states[1].read_weights)
    assert model.options_in_use() == ["half=True"]


def test_controllers_name_the_options_that_ask_for_them():
    assert ControllerKind.options == {} and sparsam.SAM(**SIZES).options_in_use() == []
    assert sparsam.SAM(**SIZES, layer_norm=True).options_in_use() == ["layer_norm=True"]
    with pytest.raises(ValueError, match="layer_norm: expected controller='lstm' beside it, got 'gru'"):
        sparsam.SAM(**SIZES, layer_norm=True, controller="gru")
