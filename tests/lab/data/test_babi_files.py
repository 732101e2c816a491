"""Reading and verifying bAbI files: the format, lists of answers, the partial file, damage."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from sparsam.lab.data import babi, locate
from sparsam.lab.data.babi import open_babi, parse_stories, words_of
from sparsam.lab.data.babi_official import CHECKSUMS, STEMS, VOCABULARY
from sparsam.lab.data.locate import DataError, MissingData, find, roots

SAMPLE = Path(__file__).parent / "babi"

TEXT = (
    "1 Mary moved to the bathroom.\n"
    "2 Mary got the apple there.\n"
    "3 What is Mary carrying? \tapple\t2\n"
    "4 Mary took the milk.\n"
    "5 What is Mary carrying? \tapple,milk\t2 4\n"
    "1 Where is John? \toffice\t1\n"
)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the made-up files that a test may damage."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "babi"))


def official() -> Path:
    try:
        return open_babi().source
    except MissingData:
        pytest.skip("the bAbI download is not on this machine (set SPARSAM_DATA)")


def test_story_is_everything_up_to_the_next_id_1():
    first, second = parse_stories(TEXT)
    assert " ".join(first.words) == (
        "mary moved to the bathroom . mary got the apple there . what is mary carrying ? - "
        "mary took the milk . what is mary carrying ? - -"
    )
    assert " ".join(second.words) == "where is john ? -"


def test_list_answers_get_one_dash_each():
    first, _ = parse_stories(TEXT)
    assert first.answers == ["apple", "apple", "milk"]
    assert first.questions == [0, 1, 1]
    assert first.num_questions == 2
    assert [first.words[step] for step in first.steps] == ["-"] * 3


def test_sentences_number_the_lines():
    first, _ = parse_stories(TEXT)
    by_line = {}
    for word, line in zip(first.words, first.sentences):
        by_line.setdefault(line, []).append(word)
    assert len(by_line) == 5
    assert by_line[1] == words_of("Mary got the apple there.")
    assert by_line[4][-2:] == ["-", "-"]


def test_answers_and_supporting_ids_never_reach_the_words():
    """Other answers and ids in the file, the same words: what goes in cannot tell what is due."""
    other = TEXT.replace("apple\t2", "football\t1").replace("apple,milk\t2 4", "n,s\t9 9").replace("office", "park")
    for story, changed in zip(parse_stories(TEXT), parse_stories(other)):
        assert story.words == changed.words
        assert story.answers != changed.answers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no story"),
        ("2 Mary moved.\n", "line 1"),
        ("1 Mary moved.\n3 Mary moved.\n", "line 2.*id 2"),
        ("1 Mary mov\x00ed 12.\n", "line 1"),
        ("1 Where is John?\t\t3\n", "expected an answer of words"),
        ("no id here\n", "line 1"),
    ],
)
def test_damaged_text_is_named_by_line(text, message):
    with pytest.raises(DataError, match=message):
        parse_stories(text, "qa1.txt")


def test_archive_and_folder_read_the_same(sample, tmp_path):
    with tarfile.open(tmp_path / "tasks_1-20_v1-2.tar.gz", "w:gz") as archive:
        archive.add(sample / "tasks_1-20_v1-2", "tasks_1-20_v1-2")
    folder = open_babi(sample)
    for root in (tmp_path / "tasks_1-20_v1-2.tar.gz", tmp_path):
        shutil.rmtree(sample, ignore_errors=True)
        archive_files = open_babi(root)
        assert archive_files.source.name.endswith(".tar.gz")
        assert archive_files.contents == folder.contents
        assert archive_files.checksum == folder.checksum


def test_partial_file_is_used_only_without_the_full_one(sample):
    assert open_babi(sample).partial == [3]
    folder = sample / "tasks_1-20_v1-2" / "en-10k"
    shutil.copy(folder / f"qa2_{STEMS[2]}_train.txt", folder / f"qa3_{STEMS[3]}_train.txt")
    full = open_babi(sample)
    assert full.partial == []
    assert full.contents[full.path(3, "train")] == full.contents[full.path(2, "train")]


def test_missing_says_what_to_download_and_where_to_put_it(tmp_path):
    with pytest.raises(MissingData) as caught:
        open_babi(tmp_path)
    assert "tasks_1-20_v1-2.tar.gz" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_file_is_named(sample):
    (sample / "tasks_1-20_v1-2" / "en-10k" / f"qa7_{STEMS[7]}_test.txt").unlink()
    with pytest.raises(MissingData, match=r"lacks 1 of the 40 files.*qa7_counting_test"):
        open_babi(sample)


def test_damaged_archive_is_named(tmp_path):
    (tmp_path / "tasks_1-20_v1-2.tar.gz").write_bytes(b"this is no archive")
    with pytest.raises(DataError, match="cannot be read"):
        open_babi(tmp_path)


def test_made_up_files_do_not_pass_for_the_official_ones():
    with pytest.raises(DataError, match="differs from the official file"):
        open_babi(SAMPLE).verify()


def test_wrong_variant_is_refused():
    with pytest.raises(ValueError, match="'en-10k', 'en'"):
        open_babi(SAMPLE, "fr")


def test_a_root_is_named_or_set_or_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARSAM_DATA", str(tmp_path / "mine"))
    assert roots("there") == [Path("there")]
    assert roots() == [tmp_path / "mine"]
    monkeypatch.delenv("SPARSAM_DATA")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("sys.platform", "linux")
    assert roots() == [tmp_path / "xdg" / "sparsam", tmp_path / "home" / ".sparsam" / "data"]
    (tmp_path / "xdg" / "sparsam").mkdir(parents=True)
    (tmp_path / "xdg" / "sparsam" / "thing").touch()
    assert find(None, ["thing"], "") == tmp_path / "xdg" / "sparsam" / "thing"


def test_folders_around_the_library_or_the_user_are_not_searched(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARSAM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    package = Path(locate.__file__).resolve().parents[1]
    for folder in roots():
        assert "shared" not in folder.parts and not folder.is_relative_to(tmp_path)
        assert not folder.is_relative_to(package.parents[1])


def test_a_small_archive_that_unpacks_to_much_is_refused(tmp_path):
    with tarfile.open(tmp_path / "tasks_1-20_v1-2.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("tasks_1-20_v1-2/en-10k/qa1_single-supporting-fact_train.txt")
        member.size = 40 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    assert (tmp_path / "tasks_1-20_v1-2.tar.gz").stat().st_size < 100_000
    with pytest.raises(DataError, match="more than the official files"):
        open_babi(tmp_path)


@pytest.mark.parametrize("kind", ["one large file", "many files", "a long name"])
def test_an_archive_of_other_things_is_read_up_to_a_limit(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(babi, "LARGEST_UNPACKED", 1 << 20)
    monkeypatch.setattr(babi, "MOST_MEMBERS", 50)
    with tarfile.open(tmp_path / "tasks_1-20_v1-2.tar.gz", "w:gz") as archive:
        for number in range(60 if kind == "many files" else 1):
            member = tarfile.TarInfo("x" * (2 << 20) if kind == "a long name" else f"other{number}")
            member.size = 2 << 20 if kind == "one large file" else 0
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    with pytest.raises(DataError, match="more than the official files"):
        open_babi(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_among_the_files_is_refused(sample):
    file = next(sample.rglob("qa*.txt"))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DataError, match="expected a plain file, got a pipe"):
        open_babi(sample)


def test_a_story_that_is_no_text_is_named(tmp_path):
    (tmp_path / "story.txt").write_bytes(b"Mary \xff")
    with pytest.raises(ValueError, match="story\\.txt: expected text"):
        babi.story_lines(tmp_path / "story.txt")


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_archive_is_one_clear_error(tmp_path, damage):
    file = tmp_path / "tasks_1-20_v1-2.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(SAMPLE, "tasks_1-20_v1-2")
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises((DataError, MissingData)):
        open_babi(tmp_path).verify()


@pytest.mark.parametrize("variant", ["en-10k", "en"])
def test_official_files_verify(variant):
    files = open_babi(official(), variant)
    notes = files.verify()
    assert bool(files.partial) == any("1,925 questions instead of 10,000" in note for note in notes)


def test_one_changed_letter_in_an_official_file_is_found():
    files = open_babi(official())
    path = files.path(5, "test")
    files.contents[path] = files.contents[path].replace(b"Fred", b"Bill", 1)
    with pytest.raises(DataError, match="qa5_three-arg-relations_test"):
        files.verify()


def test_truncated_full_file_of_task_3_is_found():
    files = open_babi(official())
    full = f"en-10k/qa3_{STEMS[3]}_train.txt"
    files.contents[full] = files.contents[files.path(3, "test")]
    with pytest.raises(DataError, match="1,000 questions instead of 10,000"):
        files.verify()


def test_vocabulary_is_that_of_the_official_files():
    files = open_babi(official())
    words = {"-"}
    for task in STEMS:
        for split in ("train", "test"):
            for story in files.stories(task, split):
                words |= set(story.words) | set(story.answers)
    assert tuple(sorted(words)) == VOCABULARY


def test_vocabulary_is_stable():
    """A trained model depends on this order; changing it makes every checkpoint wrong."""
    assert len(VOCABULARY) == len(set(VOCABULARY)) == 159
    assert list(VOCABULARY) == sorted(VOCABULARY)
    digest = hashlib.sha256(" ".join(VOCABULARY).encode()).hexdigest()
    assert digest.startswith("dc59b8a7f654954e")
    assert len(CHECKSUMS) == 80
