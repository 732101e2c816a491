"""bAbI's forms against the files: every line is read, as a line of its own task."""

from __future__ import annotations

import re

import pytest

from sparsam.lab.data.babi import open_babi, words_of
from sparsam.lab.data.locate import MissingData
from sparsam.lab.tasks.babi.forms import ANSWERS, QUESTIONS, SENTENCES, nearest_questions, read


def check(contents: dict[str, bytes]) -> int:
    """Read every line of some files; returns how many different ones there were."""
    known: dict[tuple[int, str], list] = {}
    for path, data in contents.items():
        task = int(re.search(r"qa(\d+)_", path)[1])
        mentioned: set[str] = set()
        for line in data.decode().splitlines():
            number, _, rest = line.strip().partition(" ")
            if number == "1":
                mentioned = set()
            text, _, columns = rest.partition("\t")
            words = words_of(text)[:-1]
            if (task, text) not in known:
                readings = read(words, QUESTIONS if columns else SENTENCES)
                known[task, text] = [reading for reading in readings if task in reading.tasks]
            readings = known[task, text]
            assert readings, f"task {task}: {text!r}"
            if not columns:
                mentioned |= set(words)
                continue
            answer = set(columns.partition("\t")[0].lower().split(","))
            assert any(answer <= ANSWERS[reading.form.answer] for reading in readings), (task, text, answer)
            assert any(set(reading.mentioned) <= mentioned for reading in readings), (task, text)
    return len(known)


def test_every_line_of_the_official_test_files_is_read():
    try:
        files = open_babi()
    except MissingData:
        pytest.skip("the download is not on this machine (set SPARSAM_DATA)")
    assert check({path: data for path, data in files.contents.items() if "_test" in path}) > 2_000


@pytest.mark.parametrize("form", [*SENTENCES, *QUESTIONS], ids=lambda form: form.text)
def test_examples_have_their_own_form(form):
    assert any(form.tasks[0] in reading.tasks for reading in read(form.example().split(), [form]))


def test_other_lines_have_no_form_or_no_task():
    assert read(["where", "are", "mary", "and", "john"], QUESTIONS) == []
    assert [reading.tasks for reading in read(["where", "is", "fred"], QUESTIONS)] == [frozenset()]
    assert "where is daniel" in nearest_questions(["where", "are", "mary"])
