"""`sparsam bench trainer` runs the real loop: minibatches are counted, the log is written."""

from __future__ import annotations

import json

from benchmarks import trainer
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig


def test_loop_and_engine_are_timed_in_turns(tmp_path):
    config = RunConfig(
        model=ModelConfig(name="sam", memory_size=32, hidden_size=8, word_size=4, num_heads=1),
        task=TaskConfig("copy", {"min_size": 2, "max_size": 2}),
        batch_size=2,
        log_every=10,
    )
    spent = trainer.measure(config, tmp_path / "run", 0.01)
    assert spent["engine"] > 0 and spent["training loop"] > 0
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events[:2]] == ["train", "train"]
