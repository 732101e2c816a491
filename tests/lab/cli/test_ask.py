"""`sparsam ask`: answers, lists, several stories, and the sentences behind the rows that were read."""

from __future__ import annotations

import io
import json

import pytest
import torch
from torch import nn

pytest.importorskip("typer", reason="the command line needs the lab extra")
import sparsam
from sparsam.lab.cli import USAGE
from sparsam.lab.cli.ask import Dialogue, load
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.tasks.babi.ask import BLANK, Conversation, UnknownWords, sentence_of_rows
from sparsam.lab.tasks.babi.calibration import Calibration
from sparsam.lab.training.checkpoint import weights_to_bytes
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig
from sparsam.trace import Trace
from tests.lab.cli.conftest import run


def trace(*entries: tuple[int, int, float, int]) -> Trace:
    """Entries (time, row, weight, kind) of one head."""
    time, row, weight, kind = zip(*entries)
    zero = torch.zeros(len(entries), dtype=torch.int64)
    return Trace(
        torch.tensor(time), zero, zero, torch.tensor(row), torch.tensor(weight), torch.tensor(kind, dtype=torch.int8)
    )


class Scripted(nn.Module):
    """Answers with the word that went in `back` steps before the dash and reads the row of that step."""

    def __init__(self, back: int) -> None:
        super().__init__()
        self.back = back
        self.scale = nn.Parameter(torch.ones(()))
        self.memory_size = 1000
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
    assert answer.confidence > 0.99
    assert answer.why_not == "the best guess, 'the', is no place"
    assert [(e.line, e.sentence, e.share) for e in answer.evidence] == [
        (2, "John went to the garden", pytest.approx(0.75)),
        (None, None, pytest.approx(0.25)),
    ]
    assert answer.evidence[1].rows == (900,)


def test_the_question_is_no_evidence():
    talk = Conversation(Scripted(back=2))
    talk.tell("Mary went to the kitchen.")
    assert [entry.line for entry in talk.ask("Where is Mary?").evidence] == [None]


def test_each_question_is_put_to_the_story_alone():
    model = Scripted(1)
    talk = Conversation(model, scale=3.0)
    talk.tell("Mary got the milk there.")
    talk.ask("What is Mary carrying", words=2)
    assert " ".join(model.seen) == "mary got the milk there . what is mary carrying ? - -"
    talk.ask("Where is Mary?")
    assert " ".join(model.seen) == "mary got the milk there . where is mary ? -"
    assert model.height == 3.0


def test_a_row_is_the_sentence_of_its_largest_write_before_the_read():
    sentences = [0, 0, 1, 1, 2, 2]
    writes = trace((0, 5, 0.9, 1), (2, 5, 0.2, 1), (4, 5, 1.0, 1), (1, 6, 0.5, 1), (3, 6, 0.5, 1))
    rows = torch.tensor([5, 6, 7])
    assert sentence_of_rows(writes, rows, 3, sentences) == [0, 1, BLANK]  # equal weights: the later one
    assert sentence_of_rows(writes, rows, 5, sentences) == [2, 1, BLANK]


def test_unknown_words_are_all_named_with_their_nearest_and_leave_the_story_alone():
    talk = Conversation(Scripted(1))
    talk.tell("Mary went to the kitchen.")
    with pytest.raises(UnknownWords) as caught:
        talk.tell("The zebra, and 3 aples!")
    assert list(caught.value.nearest) == ["zebra", ",", "3", "aples", "!"]
    assert caught.value.nearest["3"] == ["three"] and "apple" in caught.value.nearest["aples"]
    assert "apple" in str(caught.value) and "zebra" in str(caught.value)
    assert talk.lines == ["Mary went to the kitchen."]


def dialogue(model, lines, **options):
    talk = Dialogue(model, 1.0, Calibration(), **options)
    for line in lines:
        talk.take(line)
    return talk


def test_dialogue_takes_stories_questions_and_bAbI_lines(capsys):
    model = Scripted(1)
    lines = [
        "Mary went to the kitchen.",
        "Where is Mary?",
        "",
        "John got the apple there.",
        "What is John carrying? - -",
        "1 Mary got the milk there.",
        "2 What is Mary carrying? \tmilk,apple\t1",
        "This is a xylophone.",
    ]
    assert dialogue(model, lines).mistakes == 1
    captured = capsys.readouterr()
    assert (
        "Where is Mary? I cannot tell: the best guess, '?', is no place (a guess would be ?, over 99%)" in captured.out
    )
    assert "What is John carrying? I cannot tell: the best guess, '? -', is no things" in captured.out
    assert "[in the data: milk,apple]" in captured.out
    assert "'xylophone'" in captured.err
    assert " ".join(model.seen) == "mary got the milk there . what is mary carrying ? - -"


def test_a_missing_question_mark_is_asked_about(capsys):
    model, asked = Scripted(1), []
    talk = dialogue(model, ["Mary went to the kitchen.", "where is mary"])
    assert talk.mistakes == 1 and "write 'where is mary?'" in capsys.readouterr().err
    assert talk.talk.lines == ["Mary went to the kitchen."]
    talk.confirm = lambda text: asked.append(text) or True
    talk.take("Where is Mary.")
    assert asked == ["Is this a question: 'Where is Mary?'"]
    assert capsys.readouterr().out.startswith("Where is Mary? I cannot tell")
    talk.take("Where is Mary? In the garden")
    assert "only dashes" in capsys.readouterr().err


def test_commands(capsys):
    talk = dialogue(Scripted(1), ["Mary went to the kitchen.", "John went to the garden.", "/undo", "/story"])
    assert capsys.readouterr().out == "taken back: John went to the garden.\n  1  Mary went to the kitchen.\n"
    assert talk.take("/words") and talk.take("/help") and talk.take("/new")
    assert "Commands:" in capsys.readouterr().out
    assert talk.talk.lines == [] and not talk.take("/quit")


@pytest.fixture(scope="module")
def trained():
    return load("babi-sam", "native")


@pytest.mark.parametrize(
    ("story", "question", "answer"),
    [
        ("Mary got the milk there. Mary went to the office. John went to the garden.", "Is Mary in the office?", "yes"),
        ("Mary got the milk there. Mary went to the office. John went to the garden.", "Where is the milk?", "office"),
        ("Mary got the milk there. Mary took the apple there.", "What is Mary carrying?", "milk apple"),
        ("Mary went to the office.", "Where is John?", "the story does not mention john"),
        ("", "Is Mary in the office?", "nothing has been told yet"),
        ("Mary went to the office.", "Why is Mary in the office?", "bAbI has no question of this form"),
        ("Fred went to the park. Mary went to the office.", "Where is Fred?", "bAbI never asks this in a story with"),
        (
            "Lily is a frog. Brian is a frog. Brian is a swan. Lily is a swan. Brian is green.",
            "What color is Lily?",
            "",
        ),
    ],
)
def test_answers_what_it_knows_and_says_why_not_otherwise(trained, story, question, answer):
    model, scale, file = trained
    talk = Conversation(model, scale, Calibration.beside(file))
    for sentence in filter(None, story.split(". ")):
        talk.tell(sentence)
    found = talk.ask(question)
    if found.why_not is None:
        assert " ".join(found.words) == answer or not answer
        assert found.confidence >= talk.calibration.threshold
    else:
        assert answer in found.why_not


def test_a_sentence_of_another_form_is_remarked_on(trained):
    model, scale, _ = trained
    talk = Conversation(model, scale)
    assert talk.tell("Mary went to the kitchen.") is None
    assert "no sentence of this form" in talk.tell("The milk is in the kitchen.")
    assert "not calibrated" in talk.ask("Where is Mary?").note


def test_story_file_question_and_json(tmp_path, capsys):
    (tmp_path / "story.txt").write_text("Mary went to the kitchen.\nJohn went to the garden.\n")
    arguments = ["ask", "babi-sam", "--story", str(tmp_path / "story.txt"), "--json"]
    assert not run(*arguments, "--question", "Where is Mary", "--question", "Where is Sandra?")
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["answer"] == ["kitchen"] and first["calibrated"] and first["confidence"] > 0.9
    assert first["evidence"][0]["sentence"] == "Mary went to the kitchen."
    assert second["answer"] is None and "sandra" in second["why_not"] and second["guess"]


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
    assert not run("ask", str(file))
    out = capsys.readouterr().out
    assert out.startswith("Where is Mary? ")
    assert ("has no memory" in out) == (name == "lstm")
    assert ("read" in out) == (name == "sam")


def test_a_run_of_another_task_is_refused(tmp_path, capsys):
    config = RunConfig(model=ModelConfig("lstm", hidden_size=4), task=TaskConfig("copy"))
    model = sparsam.build("lstm", input_size=7, output_size=6, hidden_size=4)
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_to_bytes(model.state_dict(), config.to_json()))
    assert run("ask", str(file)) == USAGE
    assert "'copy'" in capsys.readouterr().err
