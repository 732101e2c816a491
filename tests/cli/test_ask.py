"""``sparsam ask``: answers, lists, several stories, and the sentences behind the rows that were read."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

pytest.importorskip("typer", reason="the command line needs the train extra")
import sparsam
from sparsam.cli import USAGE, main
from sparsam.cli.ask import converse
from sparsam.data.babi_official import VOCABULARY
from sparsam.tasks.babi_ask import BLANK, Conversation, sentence_of_rows
from sparsam.trace import Trace
from sparsam.training.checkpoint import weights_to_bytes
from sparsam.training.config import ModelConfig, RunConfig, TaskConfig


def trace(*entries: tuple[int, int, float, int]) -> Trace:
    """Entries (time, row, weight, kind) of one head."""
    time, row, weight, kind = zip(*entries)
    zero = torch.zeros(len(entries), dtype=torch.int64)
    return Trace(
        torch.tensor(time), zero, zero, torch.tensor(row), torch.tensor(weight), torch.tensor(kind, dtype=torch.int8)
    )


class Scripted(nn.Module):
    """Answers with the word that went in ``back`` steps before the dash and reads the row of that step."""

    def __init__(self, back: int) -> None:
        super().__init__()
        self.back = back
        self.scale = nn.Parameter(torch.ones(()))
        self.seen: list[str] = []
        self.height = 0.0

    def forward(self, x):
        self.seen = [VOCABULARY[i] for i in x[:, 0].argmax(-1)]
        self.height = float(x.max())
        return 20 * self.scale * torch.roll(x, self.back, 0), None

    def trace(self, x):
        last = len(x) - 1
        writes = [(t, t, 1.0, 1) for t in range(len(x))]
        return trace(*writes, (last, last - self.back, 0.75, 0), (last, 900, 0.25, 0))


def test_answer_and_the_sentence_that_wrote_what_was_read():
    talk = Conversation(Scripted(back=7))
    talk.tell("Mary went to the kitchen.")
    talk.tell("John went to the garden")
    answer = talk.ask("Where is John?")
    # ... to the garden . where is john ? -   seven words before the dash is "the"
    assert answer.words == ["the"]
    assert answer.probabilities[0] > 0.99
    assert [(m.sentence, m.share) for m in answer.memories] == [
        ("John went to the garden", pytest.approx(0.75)),
        (None, pytest.approx(0.25)),
    ]
    assert answer.memories[1].rows == (900,)


def test_only_dashes_stand_where_answers_are_due():
    model = Scripted(1)
    talk = Conversation(model, scale=3.0)
    talk.tell("Mary got the milk there.")
    talk.ask("What is Mary carrying", words=2)
    assert " ".join(model.seen) == "mary got the milk there . what is mary carrying ? - -"
    talk.ask("Where is Mary?")
    assert " ".join(model.seen[-5:]) == "where is mary ? -"
    assert model.seen.count("-") == 3
    assert model.height == 3.0


def test_a_row_is_the_sentence_of_its_largest_write_before_the_read():
    sentences = [0, 0, 1, 1, 2, 2]
    writes = trace((0, 5, 0.9, 1), (2, 5, 0.2, 1), (4, 5, 1.0, 1), (1, 6, 0.5, 1), (3, 6, 0.5, 1))
    rows = torch.tensor([5, 6, 7])
    assert sentence_of_rows(writes, rows, 3, sentences) == [0, 1, BLANK]  # equal weights: the later one
    assert sentence_of_rows(writes, rows, 5, sentences) == [2, 1, BLANK]


def test_unknown_word_is_named_and_leaves_the_story_alone():
    talk = Conversation(Scripted(1))
    talk.tell("Mary went to the kitchen.")
    for sentence in ("The zebra went to the kitchen.", "Mary has 3 apples."):
        with pytest.raises(ValueError, match=r"zebra|3 apples"):
            talk.tell(sentence)
    assert len(talk.lines) == 1 and talk.story.sentences[-1] == 0


def test_converse_takes_stories_questions_and_bAbI_lines(capsys):
    model = Scripted(1)
    lines = [
        "Mary went to the kitchen.",
        "Where is Mary?",
        "",
        "John got the apple.",
        "What is John carrying? - -",
        "1 Mary got the milk there.",
        "2 What is Mary carrying? \tmilk,apple\t1",
        "This is a xylophone.",
    ]
    assert converse(model, lines) == 1
    captured = capsys.readouterr()
    assert "Where is Mary? ? (100%)" in captured.out
    assert "What is John carrying? ? (100%) - (100%)" in captured.out
    assert "[in the data: milk,apple]" in captured.out
    assert "xylophone" in captured.err
    assert " ".join(model.seen) == "mary got the milk there . what is mary carrying ? - -"


@pytest.mark.parametrize("name", ["sam", "lstm"])
def test_command_answers_from_a_weights_file(name, tmp_path, monkeypatch, capsys):
    memory = {} if name == "lstm" else {"memory_size": 32, "word_size": 4, "num_heads": 1}
    config = RunConfig(
        model=ModelConfig(name, hidden_size=8, engine="reference", **memory),
        task=TaskConfig("babi"),
    )
    torch.manual_seed(0)
    model = sparsam.build(name, input_size=159, output_size=159, **config.model.arguments())
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_to_bytes(model.state_dict(), config.to_json()))
    monkeypatch.setattr("sys.stdin", io.StringIO("Mary went to the kitchen.\nWhere is Mary?\n"))
    with pytest.raises(SystemExit) as caught:
        main(["ask", str(file)])
    assert not caught.value.code
    out = capsys.readouterr().out
    assert out.startswith("Where is Mary? ")
    assert ("has no memory" in out) == (name == "lstm")
    assert ("read" in out) == (name == "sam")


def test_a_run_of_another_task_is_refused(tmp_path, capsys):
    config = RunConfig(model=ModelConfig("lstm", hidden_size=4), task=TaskConfig("copy"))
    model = sparsam.build("lstm", input_size=7, output_size=6, hidden_size=4)
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_to_bytes(model.state_dict(), config.to_json()))
    with pytest.raises(SystemExit) as caught:
        main(["ask", str(file)])
    assert caught.value.code == USAGE
    assert "'copy'" in capsys.readouterr().err
