"""The bAbI task: what the loss sees, batches by length, results per question, learning."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sparsam.lab.data.babi import Story, open_babi, words_of
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.data.locate import DataError, MissingData
from sparsam.lab.tasks import FiniteTask
from sparsam.lab.tasks.babi.task import Babi, BabiTable, Encoded, encode, question_results, word_numbers

SAMPLE = Path(__file__).parents[2] / "data" / "babi"
DASH = VOCABULARY.index("-")


@pytest.fixture
def task(tmp_path, monkeypatch) -> Babi:
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    return Babi(SAMPLE, verify=False, validation=0.25)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def text(batch, element: int) -> str:
    length = int(batch.lengths[element])
    return " ".join(VOCABULARY[i] for i in batch.inputs[:length, element].argmax(-1))


class Padded(nn.Module):
    """A GRU with the models' calling convention."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.recurrent = nn.GRU(len(VOCABULARY), size)
        self.output = nn.Linear(size, len(VOCABULARY))

    def forward(self, x, lengths=None):
        y = self.output(self.recurrent(x)[0])
        if lengths is not None:
            y = y * (torch.arange(len(x)).unsqueeze(1) < lengths).unsqueeze(-1)
        return y, None


def test_it_is_a_finite_task(task):
    assert isinstance(task, FiniteTask)
    assert task.input_size == task.output_size == 159


def test_inputs_are_one_hot_and_padding_is_blank(task):
    batch = task.sample(8, generator())
    inside = torch.arange(len(batch.inputs)).unsqueeze(1) < batch.lengths
    assert torch.equal(batch.inputs.sum(-1), inside.float())
    assert ((batch.inputs == 0) | (batch.inputs == 1)).all()
    assert not batch.mask[~inside].any()


def test_scale_is_the_value_of_a_word_in_every_split(task):
    loud = Babi(SAMPLE, verify=False, validation=0.25, scale=12)
    quiet, batch = task.sample(8, generator()), loud.sample(8, generator())
    assert torch.equal(batch.inputs, 12 * quiet.inputs) and torch.equal(batch.targets, quiet.targets)
    assert next(loud.evaluation_batches("test", 4)).inputs.max() == 12


def test_the_input_is_a_dash_exactly_where_the_loss_looks(task):
    for batch in task.evaluation_batches("test", 8):
        assert torch.equal(batch.inputs[..., DASH] == 1, batch.mask)
        assert torch.equal(batch.targets >= 0, batch.mask)


def test_loss_sees_answers_only(task):
    batch = task.sample(4, generator())
    outputs = torch.randn(*batch.targets.shape, 159, requires_grad=True)
    task.loss(outputs, batch).backward()
    touched = (outputs.grad != 0).any(-1)
    assert torch.equal(touched, batch.mask)


def test_answers_do_not_leak_into_the_inputs():
    """Every answer exchanged for another word: the inputs stay the same to the last bit, the targets do
    not."""
    stories, swapped = [], []
    files = open_babi(SAMPLE)
    for number in range(1, 21):
        for story in files.stories(number, "train"):
            stories.append((number, story))
            answers = ["yellow"] * len(story.answers)
            swapped.append((number, Story(story.words, story.steps, answers, story.questions, story.sentences)))
    every = np.arange(len(stories))
    batch, other = encode(stories).batch(every), encode(swapped).batch(every)
    assert torch.equal(batch.inputs, other.inputs)
    assert not (batch.targets[batch.mask] == other.targets[batch.mask]).any()


def test_batching_by_length_equals_one_by_one(task):
    torch.manual_seed(0)
    model = Padded()
    together, alone = task.evaluate(model, "test", 7), task.evaluate(model, "test", 1)
    assert together.asked.tolist() == alone.asked.tolist()
    assert together.wrong.tolist() == alone.wrong.tolist()
    several = next(task.evaluation_batches("test", 7))
    one = next(b for b in task.evaluation_batches("test", 1) if text(b, 0) == text(several, 0))
    length = int(one.lengths[0])
    torch.testing.assert_close(
        model(several.inputs, several.lengths)[0][:length, 0], model(one.inputs, one.lengths)[0][:, 0]
    )


def test_evaluation_takes_every_story_once(task):
    seen = [text(b, i) for b in task.evaluation_batches("test", 6) for i in range(b.batch_size)]
    assert len(seen) == len(task.test) == 40
    files = open_babi(SAMPLE)
    assert sorted(seen) == sorted(" ".join(s.words) for n in range(1, 21) for s in files.stories(n, "test"))


def test_the_first_evaluation_batches_are_not_the_shortest(task):
    """A trainer that looks at a few batches must see more than the easy stories."""
    lengths = [int(batch.lengths.max()) for batch in task.evaluation_batches("test", 4)]
    assert lengths != sorted(lengths)
    assert lengths == [int(batch.lengths.max()) for batch in task.evaluation_batches("test", 4)]


def test_validation_is_held_out_the_same_way_each_time(task):
    again = Babi(SAMPLE, verify=False, validation=0.25)
    other = Babi(SAMPLE, verify=False, validation=0.25, seed=1)
    assert len(task.train) == 60 and len(task.validation) == 20
    assert np.bincount(task.validation.tasks)[1:].tolist() == [1] * 20
    assert np.array_equal(task.validation.words, again.validation.words)
    assert not np.array_equal(task.validation.words, other.validation.words)
    assert len(task.train.words) + len(task.validation.words) == len(other.train.words) + len(other.validation.words)


def test_same_generator_same_batch(task):
    a, b, c = (task.sample(5, generator(seed)) for seed in (3, 3, 4))
    assert torch.equal(a.inputs, b.inputs)
    assert a.inputs.shape != c.inputs.shape or not torch.equal(a.inputs, c.inputs)


def test_tasks_are_drawn_equally_often_whatever_their_size(task):
    few = np.flatnonzero((task.train.tasks != 3) | (np.arange(len(task.train)) % 3 == 0))
    task.train = task.train.subset(few)
    task._buckets = type(task._buckets)(task.train, "task", {}, 1.1)
    assert np.bincount(task.train.tasks)[3] == 1
    random = generator()
    drawn = np.concatenate([task.train.tasks[task._buckets.draw(8, random)] for _ in range(3000)])
    share = np.bincount(drawn, minlength=21)[1:] / len(drawn)
    assert np.abs(share - 0.05).max() < 0.012  # 24,000 draws in groups of 8; measured 0.006


def test_groups_are_of_similar_length_and_a_minibatch_mixes_them(task):
    random, mixed = generator(), 0
    for _ in range(50):
        batch = task.sample(8, random)
        assert batch.groups == 4
        for lengths in batch.lengths.view(4, 2):
            assert lengths.max() <= max(1.1 * float(lengths.min()), float(lengths.min()) + 4)
        mixed += len(set(batch.info["tasks"].tolist())) > 2
    assert mixed > 40  # measured 50


def test_a_minibatch_of_fewer_stories_than_groups_has_a_group_each(task):
    assert task.sample(1, generator()).groups == 1
    assert [part.batch_size for part in task.sample(3, generator()).parts()] == [1, 1, 1]
    assert [part.batch_size for part in task.sample(10, generator()).parts()] == [3, 3, 2, 2]


def test_every_story_is_drawn_equally_often_by_story(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    task = Babi(SAMPLE, verify=False, validation=0.25, balance="story")
    random, draws = generator(), 2000
    counts = np.zeros(len(task.train))
    for _ in range(draws):
        for _ in range(task.groups):
            np.add.at(counts, task._buckets.draw(8, random), 1)
    share = counts / counts.sum() * len(counts)
    # 64,000 draws in groups of 8 of 60 stories: a bucket's share of the groups deviates by up to 1 / sqrt(8000 / 20).
    assert np.abs(share - 1).max() < 0.25  # measured 0.09


def test_parts_are_the_minibatch_without_the_padding_between_groups(task):
    batch = task.sample(8, generator())
    start = 0
    for part in batch.parts():
        stop = start + part.batch_size
        assert len(part.inputs) == int(part.lengths.max())
        for name in ("inputs", "targets", "mask"):
            whole, own = getattr(batch, name)[:, start:stop], getattr(part, name)
            assert torch.equal(whole[: len(own)], own)
        assert not batch.mask[len(part.inputs) :, start:stop].any()
        start = stop
    assert start == 8


def test_a_question_is_right_only_if_all_its_words_are(task):
    story = Story()
    story.add(words_of("what is mary carrying ?"))
    story.ask(["apple", "milk"])
    story.add(words_of("where is mary ?"))
    story.ask(["park"])
    batch = encode([(8, story), (8, story)]).batch(np.array([0, 1]))
    outputs = nn.functional.one_hot(batch.targets.clamp(min=0), 159).float()
    outputs[6, 1] = 0  # the second word of the first question of the second story
    tasks, right = question_results(outputs, batch)
    assert tasks.tolist() == [8] * 4
    assert right.tolist() == [True, True, False, True]
    errors = task.errors(outputs, batch)
    assert next(iter(errors)) == "error_rate"
    assert errors["error_rate"] == pytest.approx(1 / 4)
    assert errors["word_error_rate"] == pytest.approx(1 / 6)


def test_table_has_mean_over_tasks_and_failed_tasks():
    table = BabiTable()
    table.count(torch.tensor([1] * 100), torch.arange(100) >= 5)  # 5%: not failed
    table.count(torch.tensor([2] * 10), torch.arange(10) >= 1)  # 10%: failed
    assert table.errors == {1: 0.05, 2: 0.1}
    assert table.mean == pytest.approx(0.075)
    assert table.failed == 1
    assert list(table.summary())[:2] == ["error_rate", "failed_tasks"]


def test_max_length_is_said_and_leaves_evaluation_alone(task):
    limit = int(np.median(task.train.lengths))
    with pytest.warns(UserWarning, match="left out"):
        short = Babi(SAMPLE, verify=False, validation=0.25, max_length=limit)
    assert short.train.lengths.max() <= limit
    assert len(short.test) == len(task.test)
    assert len(short.validation) == len(task.validation)


def test_some_tasks_only(task):
    only = Babi(SAMPLE, verify=False, validation=0.25, tasks=[1, 19])
    assert set(only.train.tasks) == set(only.validation.tasks) == set(only.test.tasks) == {1, 19}


def test_unknown_word_is_named():
    with pytest.raises(DataError, match="zebra"):
        word_numbers(["the", "zebra"])


def test_wrong_arguments_are_refused(task):
    for wrong in (
        {"balance": "words"},
        {"validation": 0.0},
        {"tasks": [21]},
        {"spread": 0.5},
        {"scale": 0},
        {"exchange": 2},
        {"emphasis": {0: 1}},
        {"emphasis": {"x": 1}},
        {"emphasis": {1: float("inf")}},
        {"emphasis": [3]},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Babi(SAMPLE, verify=False, **wrong)
    with pytest.raises(ValueError, match="split"):
        next(task.evaluation_batches("dev", 4))


def test_cache_gives_what_was_made(task, tmp_path):
    assert len(list(tmp_path.glob("babi-*.npz"))) == 2
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(b"broken")
    again = Babi(SAMPLE, verify=False, validation=0.25)
    for name in ("words", "targets", "questions", "starts", "tasks"):
        assert np.array_equal(getattr(again.train, name), getattr(task.train, name))


def test_tiny_model_overfits_20_stories(task):
    torch.manual_seed(0)
    stories: Encoded = task.train
    batch = stories.batch(np.argsort(stories.lengths, kind="stable")[:20])
    model = Padded(64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(400):
        loss = task.loss(model(batch.inputs, batch.lengths)[0], batch)
        if loss < 0.02:
            break
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert task.errors(model(batch.inputs, batch.lengths)[0], batch)["error_rate"] == 0.0


def test_official_data_counts():
    try:
        partial = open_babi().partial
    except MissingData:
        pytest.skip("the bAbI download is not on this machine (set SPARSAM_DATA)")
    if not partial:
        pytest.skip("the counts below are those with the partial file of task 3")
    with pytest.warns(UserWarning, match="partial"):
        task = Babi()
    assert len(task.train) + len(task.validation) == 61_046
    assert len(task.train.words) + len(task.validation.words) == 4_938_140
    table = task.table()
    for batch in task.evaluation_batches("test", 256):
        table.add(torch.zeros(*batch.targets.shape, 2), batch)
    assert table.asked[1:].tolist() == [1000] * 20
    assert table.mean == 1.0  # nothing is answered with a dash
    assert any("1,925 questions" in note for note in table.notes)


def test_exchanged_stories_ask_the_same_with_other_names(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    plain, told = (Babi(SAMPLE, verify=False, validation=0.25, tasks=[1], exchange=share) for share in (0.0, 1.0))
    before, after = plain.sample(16, generator()), told.sample(16, generator())
    assert torch.equal(before.mask, after.mask) and torch.equal(before.lengths, after.lengths)
    assert not torch.equal(before.inputs, after.inputs) and not torch.equal(before.targets, after.targets)
    # Word by word one renaming turns the one into the other, inputs and answers alike.
    for element in range(16):
        length, asked = int(before.lengths[element]), before.mask[:, element]
        old, new = (batch.inputs[:length, element].argmax(-1).tolist() for batch in (before, after))
        pairs = set(zip(old, new, strict=True)) | set(
            zip(before.targets[asked, element].tolist(), after.targets[asked, element].tolist(), strict=True)
        )
        assert len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})


def test_half_of_the_stories_are_exchanged_when_half_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    plain, told = (Babi(SAMPLE, verify=False, validation=0.25, tasks=[1], exchange=share) for share in (0.0, 0.5))
    before, after = plain.sample(400, generator()), told.sample(400, generator())
    changed = (before.inputs != after.inputs).flatten(2).any(-1).any(0).float().mean()
    assert 0.35 < changed < 0.6


def test_emphasis_draws_a_task_more_often(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    task = Babi(SAMPLE, verify=False, validation=0.25, emphasis={1: 1e6})
    assert (task.sample(32, generator()).info["tasks"] == 1).all()


def test_easy_stories_keep_questions_and_what_supports_them():
    story = Story()
    for line in ("mary is in the park .", "john is in the office .", "mary is in the office ."):
        story.add(words_of(line))
    story.add(words_of("where is mary ?"))
    story.ask(["office"], support=[2])
    stories = encode([(1, story), (1, story)])
    left_out = np.array([[True, False]] * 4)
    batch = stories.batch(np.array([0, 1]), left_out=left_out)
    assert batch.lengths.tolist() == [6 + 5, 18 + 5]
    assert batch.inputs[: 6 + 5, 0].argmax(-1).tolist() == word_numbers(
        [*words_of("mary is in the office . where is mary ?"), "-"]
    )
    assert batch.targets[10, 0] == word_numbers(["office"])[0]
    assert batch.mask.sum(0).tolist() == [1, 1]
    assert not batch.inputs[11:, 0].any()  # padding


def test_the_level_says_how_much_of_an_easy_task_is_told():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        easy = Babi(SAMPLE, verify=False, validation=0.25, tasks=[16], easy_first=[16])
    questions = easy.sample(8, generator()).mask.sum()
    lengths = [easy.sample(8, generator(), level).lengths.sum() for level in (1, 50, 100)]
    assert lengths[0] < lengths[1] < lengths[2] == easy.sample(8, generator()).lengths.sum()
    assert easy.sample(8, generator(), 1).mask.sum() == questions
    with pytest.raises(ValueError, match="easy_first"):
        Babi(SAMPLE, verify=False, easy_first=[21])
