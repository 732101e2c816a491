"""What a memory wrote and read: by a trace made by hand, and from a run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sparsam.lab.recipes import long_copies, mqar, token_trace
from sparsam.lab.recipes.experiment import reproduce
from sparsam.lab.tasks.tokens.induction import Induction
from sparsam.lab.tasks.tokens.mqar import Mqar
from sparsam.lab.tasks.tokens.selective_copy import SelectiveCopy
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.trace import READ, WRITE, Access, Trace

TINY = ["model.hidden_size=16", "model.word_size=8", "model.memory_size=256", "model.parameters=60000", "batch_size=2",
        "steps=1", "eval_every=1", "eval_batches=1", "eval_batch_size=2", "tensorboard=false"]  # fmt: skip


def _access(kind: int, time: int, rows: list[int], weights: list[float]) -> Access:
    return Access(kind, time, torch.tensor(rows).view(1, 1, -1), torch.tensor(weights).view(1, 1, -1))


def test_reads_are_put_down_to_the_step_that_wrote_the_word() -> None:
    trace = Trace.of(
        [
            _access(WRITE, 0, [5], [0.9]),
            _access(WRITE, 1, [5, 6], [0.1, 0.8]),  # adds a little to what was read: still the word of step 0
            _access(READ, 1, [5, 9], [0.7, 0.3]),  # nobody wrote row 9
            _access(READ, 2, [6, 5], [0.6, 0.4]),
        ]
    )
    gates, reads = token_trace.what_was_read(trace, steps=3, heads=1)
    torch.testing.assert_close(gates, torch.tensor([[0.9], [0.8], [0.0]]))
    torch.testing.assert_close(reads[:, 0], torch.tensor([[0, 0, 0], [0.7, 0, 0], [0.4, 0.6, 0]]))


@pytest.mark.parametrize(
    "task", [Mqar(vocabulary=64, slices=[(64, 8)]), Induction(max_length=256), SelectiveCopy(items=4, min_length=8)]
)
def test_every_token_has_a_kind_and_answers_were_shown_where_it_says(task: Mqar | Induction | SelectiveCopy) -> None:
    batch = task.sample_size(1, MinibatchSeeds(0).at(0), 12)
    tokens, targets, mask = batch.inputs[:, 0], batch.targets[:, 0], batch.mask[:, 0]
    counts = torch.stack(list(token_trace.kinds(task, tokens, mask).values())).int().sum(0)
    assert (counts == 1).all()
    assert tokens[token_trace.shown_at(task, tokens, targets, mask)].equal(targets[mask])


def test_a_run_is_summed_up(tmp_path: Path) -> None:
    experiment = long_copies.induction(seeds=1, models=["memory-selective"])
    more = mqar.mqar(seeds=1, tasks=["zoology"], models=["attention"]).runs
    experiment.runs = {name: config.with_settings(TINY) for name, config in (experiment.runs | more).items()}
    reproduce(experiment, tmp_path, quiet=True)
    found = token_trace.summary(tmp_path / "induction-memory-selective-0", 30)
    assert found["write_gate"].keys() == {"special", "after it", "others"}
    assert all(0.05 < gate < 0.3 for gate in found["write_gate"].values())  # began nearly closed
    assert len(found["right_word_first"]) == 1 and 0 <= found["weight_on_the_right_word"][0] <= 1
    with pytest.raises(ValueError, match="expected a SparseMemory layer in it, got none"):
        token_trace.summary(tmp_path / "zoology-attention-0", 8)
