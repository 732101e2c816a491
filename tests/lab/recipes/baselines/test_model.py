from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from sparsam.lab.recipes.baselines import TokenModel
from sparsam.lab.tasks.tokens.mqar import Mqar
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.evaluate import evaluate
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.loop import train
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.lab.training.trained import load_model

SMALL = {"hidden_size": 16, "memory_size": 64, "word_size": 4, "num_heads": 2, "k": 2}


@pytest.mark.parametrize("mixers", [["attention", "delta"], ["lstm", "sam"]])
def test_pieces_equal_the_whole_and_answers_alone_equal_all_outputs(mixers: list[str]) -> None:
    torch.manual_seed(0)
    model = TokenModel(50, 50, mixers=mixers, settings={"sam": {"hidden_size": 8}}, **SMALL).double()
    tokens = torch.randint(50, (19, 3))
    whole, _ = model(tokens)
    assert whole.shape == (19, 3, 50)
    first, state = model(tokens[:8])
    torch.testing.assert_close(torch.cat([first, model(tokens[8:], state)[0]]), whole)
    mask = torch.rand(19, 3) > 0.5
    torch.testing.assert_close(model(tokens, mask=mask)[0], whole[mask])


@pytest.mark.parametrize("mixers", [["lstm"], ["attention", "attention"], ["delta", "delta"], ["sam"]])
def test_equal_parameter_counts(mixers: list[str]) -> None:
    settings = {"sam": {"hidden_size": 64}}
    model = TokenModel(50, 50, mixers=mixers, parameters=280_000, settings=settings)
    assert 0.99 * 280_000 <= model.block_parameters <= 280_000


def test_digits_are_read_off_the_sizes() -> None:
    task = Mqar(vocabulary=64, slices=[(16, 4)], digits=2)
    model = TokenModel(task.input_size, task.output_size, 16, ["attention"])
    batch = task.sample(2, MinibatchSeeds(0).at(0))
    scores = model(batch.inputs, mask=batch.mask)[0]
    assert model.embed.digits == 2 and scores.shape == (8, 16)
    task.loss(scores, batch).backward()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="mixers: expected names among memory, sam"):
        TokenModel(8, 8, mixers=["mamba"])
    with pytest.raises(ValueError, match="mixers: expected at least one"):
        TokenModel(8, 8, mixers=[])
    with pytest.raises(ValueError, match="parameters: expected more than the"):
        TokenModel(8, 8, mixers=["lstm"], parameters=1_000)


def _config(steps: int, **changes: object) -> RunConfig:
    model = ModelConfig(
        "blocks", hidden_size=32, extra={"mixers": ["attention"], "settings": {"attention": {"num_heads": 2}}}
    )
    return RunConfig(
        model=model,
        task=TaskConfig("mqar", {"vocabulary": 32, "slices": [[16, 2]]}),
        optimizer=OptimizerConfig("adam", learning_rate=3e-3, epsilon=1e-8),
        batch_size=16,
        steps=steps,
        eval_every=20,
        eval_batches=2,
        eval_batch_size=16,
        tensorboard=False,
        **changes,  # type: ignore[arg-type]
    )


def test_the_trainer_trains_it_resumes_it_and_gives_it_back(tmp_path: Path) -> None:
    train(_config(40), tmp_path / "one", quiet=True)
    train(_config(20), tmp_path / "two", quiet=True)
    train(_config(40), tmp_path / "two", resume=True, quiet=True)
    one, task, config = load_model(tmp_path / "one")
    two, _, _ = load_model(tmp_path / "two")
    for key, value in one.state_dict().items():
        assert value.equal(two.state_dict()[key]), key
    assert isinstance(one, TokenModel) and config == _config(40)
    assert 0 <= evaluate(one, task, MinibatchSeeds(0), 1, 4, size=4)["error_rate"] <= 1


def test_attention_learns_two_pairs() -> None:
    learner = Learner(dataclasses.replace(_config(500), batch_size=32))
    for step in range(500):
        learner.apply(step, learner.gradient(step, None))
    assert evaluate(learner.model, learner.task, MinibatchSeeds(1), 4, 32)["error_rate"] < 0.05  # measured: 0


def test_a_start_moves_the_gates_of_memories_and_nothing_else() -> None:
    def made(start: dict | None) -> TokenModel:
        torch.manual_seed(0)
        settings = {"sam": {"hidden_size": 8}, "attention": {"num_heads": 2}}
        return TokenModel(8, 8, mixers=["sam", "memory", "attention"], settings=settings, start=start, **SMALL)

    gates = {"write": 1.0, "reuse": -3.0, "sharpness": 2.0}
    plain, moved = made({"memory": "plain", "sam": "plain"}), made({"memory": gates, "sam": gates})
    changed = set()
    for (name, before), after in zip(plain.named_parameters(), moved.parameters(), strict=True):
        if not before.equal(after):
            changed.add(name)
            torch.testing.assert_close((after - before)[-6:], torch.tensor([2.0, 2.0, 1.0, 1.0, -3.0, -3.0]), msg=name)
            assert after[:-6].equal(before[:-6])
    assert changed == {"blocks.0.mixer.model.interface.bias", "blocks.1.mixer.interface.bias"}
    assert made(None).blocks[1].mixer.start == made(None).blocks[0].mixer.model.start == "open"  # the models' own
    with pytest.raises(ValueError, match="start: expected settings of memory or sam"):
        made({"attention": gates})
