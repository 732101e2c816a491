"""bAbI v1.2 (Weston et al. 2015): reading and verifying the official files.

A line is `id text` or, for a question, `id text<TAB>answer<TAB>supporting ids`; id 1 begins a story; an answer may be a
list, `apple,milk`. A story here is everything up to the next id 1, with all its questions, as one sequence:

    mary moved to the bathroom . what is mary carrying ? - - john ...

One dash stands for each answer word that is due; the answer itself and the supporting ids are never among the words.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparsam.lab.data.babi_official import CHECKSUMS, DASH, STEMS
from sparsam.lab.data.cache import digest
from sparsam.lab.data.locate import DataError, MissingData, find
from sparsam.weights import open_plain, read_plain

__all__ = ["VARIANTS", "BabiFiles", "Story", "open_babi", "parse_stories", "words_of"]

# Folder in the archive -> questions in a complete training file. A test file has 1,000 in both.
VARIANTS = {"en-10k": 10_000, "en": 1_000}
TEST_QUESTIONS = 1_000
LARGEST, LARGEST_TOTAL = 16 << 20, 256 << 20  # bytes of one file and of all; official ones have 2.5 and 30 million
LARGEST_UNPACKED, MOST_MEMBERS = 1 << 29, 10_000  # bytes of an archive, and its files

MISSING = (
    "bAbI was not found. Download tasks_1-20_v1-2.tar.gz (the bAbI tasks data v1.2) from the "
    "bAbI project's page, https://research.facebook.com/downloads/babi/, and leave it as it is or unpack it to "
    "tasks_1-20_v1-2/ (a babi/ folder around either is fine)."
)
FOLDERS = (
    "babi/tasks_1-20_v1-2",
    "tasks_1-20_v1-2",
    "tasks_1-20_v1-2.tar.gz",
    "babi/tasks_1-20_v1-2.tar.gz",
    "babi/tasks_1-20_v1-2.tgz",
    "tasks_1-20_v1-2.tgz",
)

_WORD = re.compile(r"[a-z]+|[.?]")
_FILE = re.compile(r"(?:^|/)((?:en|en-10k)/qa\d+_[a-z-]+_(?:train|train\.partial|test)\.txt)$")


@dataclass
class Story:
    """`words` with a dash per answer word; `answers[i]` is the word due at step `steps[i]` for question
    number `questions[i]`; `sentences[t]` numbers the line that word t belongs to, from 0; `needed` holds the
    lines that are questions or that the data names as supporting an answer."""

    words: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    questions: list[int] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)

    def add(self, words: list[str]) -> None:
        line = self.sentences[-1] + 1 if self.sentences else 0
        self.words += words
        self.sentences += [line] * len(words)

    def ask(self, answers: list[str], support: Iterable[int] = ()) -> None:
        """Dashes for the answers to the question that was just added, which the lines `support` answer."""
        number = self.questions[-1] + 1 if self.questions else 0
        self.steps += range(len(self.words), len(self.words) + len(answers))
        self.answers += answers
        self.questions += [number] * len(answers)
        self.words += [DASH] * len(answers)
        self.needed |= {self.sentences[-1], *support}
        self.sentences += [self.sentences[-1]] * len(answers)

    @property
    def num_questions(self) -> int:
        return self.questions[-1] + 1 if self.questions else 0


def story_lines(path: Path) -> list[str]:
    """The lines of a file with stories; one that is no text raises ValueError with its name."""
    try:
        return read_plain(path, LARGEST).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text ({error})") from error


def words_of(text: str) -> list[str]:
    """Lower-case words and the marks `. ?` of a sentence.

    Raises:
        ValueError: for anything else in it, such as digits or a dash.
    """
    words = _WORD.findall(text.lower())
    if "".join(words) != re.sub(r"\s+", "", text.lower()):
        raise ValueError(f"text: expected words, spaces, '.' and '?', got {text!r}")
    return words


def parse_stories(text: str, name: str = "text") -> list[Story]:
    """The stories of a file.

    Raises:
        DataError: naming the file and line that is not in the format.
    """
    stories: list[Story] = []
    expected = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        identity, _, rest = line.strip().partition(" ")
        if identity == "1":
            stories.append(Story())
            expected = 1
        if not identity.isdigit() or int(identity) != expected or not stories:
            raise DataError(
                f"{name}, line {number}: expected a line that begins with the id {expected} or 1 (a new story), "
                f"got {line[:60]!r}; the file is damaged or not a bAbI file"
            )
        expected += 1
        sentence, *columns = rest.split("\t")
        try:
            words = words_of(sentence)
        except ValueError as error:
            raise DataError(f"{name}, line {number}: {error}") from error
        if not words:
            raise DataError(f"{name}, line {number}: there is no sentence in {line[:60]!r}")
        stories[-1].add(words)
        if columns:
            answers = columns[0].lower().split(",")
            if not all(re.fullmatch("[a-z]+", answer) for answer in answers):
                raise DataError(
                    f"{name}, line {number}: expected an answer of words separated by commas, got {columns[0]!r}"
                )
            support = columns[1].split() if len(columns) > 1 else []
            stories[-1].ask(answers, (int(entry) - 1 for entry in support if entry.isdigit()))
    if not stories:
        raise DataError(f"{name}: there is no story in it; the file is empty or damaged")
    return stories


@dataclass(frozen=True)
class BabiFiles:
    """The 20 training and 20 test files of one variant, as bytes, by path in the archive."""

    source: Path
    variant: str
    contents: dict[str, bytes]

    def path(self, task: int, split: str) -> str:
        """The archive path of a task's file; the partial training file where the full one is not there."""
        stem = f"{self.variant}/qa{task}_{STEMS[task]}_{split}"
        full, partial = f"{stem}.txt", f"{stem}.partial.txt"
        return partial if full not in self.contents and partial in self.contents else full

    @property
    def partial(self) -> list[int]:
        """Tasks whose training file is only a part of the official one."""
        return [task for task in STEMS if self.path(task, "train").endswith(".partial.txt")]

    @property
    def checksum(self) -> str:
        """A key for what is prepared from the files that are used."""
        return digest((path, self.contents[path]) for path in self.used())

    def used(self) -> list[str]:
        return [self.path(task, split) for task in STEMS for split in ("train", "test")]

    def stories(self, task: int, split: str) -> list[Story]:
        path = self.path(task, split)
        try:
            text = self.contents[path].decode("ascii")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.source}: {path} is not plain text ({error}); the file is damaged") from error
        return parse_stories(text, path)

    def verify(self) -> list[str]:
        """Check names, question counts and SHA-256 against the official download.

        Returns:
            what a reader of results has to know (a partial training file, a file without a known checksum).

        Raises:
            DataError: naming every file that differs.
        """
        notes, wrong = [], []
        for task in STEMS:
            for split, expected in (("train", VARIANTS[self.variant]), ("test", TEST_QUESTIONS)):
                path = self.path(task, split)
                count = sum(b"\t" in line for line in self.contents[path].splitlines())
                known = CHECKSUMS.get(path)
                if known is not None and hashlib.sha256(self.contents[path]).hexdigest() != known:
                    wrong.append(f"{path} ({count:,} questions) differs from the official file")
                elif path.endswith(".partial.txt"):
                    notes.append(
                        f"task {task}: the full training file is absent, the partial one is used: "
                        f"{count:,} questions instead of {expected:,}, validation part included"
                    )
                elif count != expected:
                    wrong.append(f"{path} has {count:,} questions instead of {expected:,}")
                elif known is None:
                    notes.append(f"{path}: no checksum is known for it; its {count:,} questions are complete")
        if wrong:
            raise DataError(
                f"bAbI in {self.source} is damaged or was changed:\n  "
                + "\n  ".join(wrong)
                + "\nDownload it again, or pass verify=False to use other files in this format."
            )
        return notes


def open_babi(root: str | os.PathLike[str] | None = None, variant: str = "en-10k") -> BabiFiles:
    """Find bAbI as the official archive or the unpacked folder and read one variant of it.

    Args:
        root: folder that holds it, the unpacked folder itself or the archive; see `sparsam.lab.data.locate`.

    Raises:
        MissingData: when nothing is found, or when files are missing from what is found (it names them).
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant: expected one of {', '.join(map(repr, VARIANTS))}, got {variant!r}")
    source = _source(root)
    try:
        contents, total = {}, 0
        for path, data in _read(source):
            total += len(data)
            _check_size("all of it", total, LARGEST_TOTAL)
            if path.startswith(variant + "/"):
                contents[path] = data
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{source} cannot be read ({error}); download tasks_1-20_v1-2.tar.gz again") from error
    files = BabiFiles(source, variant, contents)
    missing = [path for path in files.used() if path not in contents]
    if missing:
        raise MissingData(
            f"{source} lacks {len(missing)} of the 40 files of {variant}: {', '.join(missing[:4])}"
            f"{' ...' if len(missing) > 4 else ''}. {MISSING.partition('. ')[2]}"
        )
    return files


def _source(root: str | os.PathLike[str] | None) -> Path:
    if root is not None:
        given = Path(root).expanduser()
        if given.is_file() or any((given / variant).is_dir() for variant in VARIANTS):
            return given
    return find(root, FOLDERS, MISSING)


def _read(source: Path) -> Iterator[tuple[str, bytes]]:
    """(path in the archive, bytes) of every task file."""
    if source.is_dir():
        for variant in VARIANTS:
            for path in sorted((source / variant).glob("qa*.txt")):
                if _FILE.search(f"{variant}/{path.name}"):
                    _check_size(path.name, path.stat().st_size)
                    yield f"{variant}/{path.name}", read_plain(path, LARGEST)
        return
    with open_plain(source) as packed, gzip.open(packed) as stream:
        unpacked: Any = _Unpacked(stream)
        archive = tarfile.open(fileobj=unpacked, mode="r|")  # noqa: SIM115 - it holds nothing but what is open
        for count, member in enumerate(archive):
            _check_size("its list of files", count, MOST_MEMBERS)
            match = _FILE.search(member.name)
            if match and member.isfile():
                _check_size(member.name, member.size)
            if match and member.isfile() and (content := archive.extractfile(member)):
                yield match[1], content.read()


class _Unpacked:
    """What an archive unpacks to, of which no more is read than official ones have."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int) -> bytes:
        data: bytes = self.stream.read(min(size, LARGEST_UNPACKED + 1 - self.count))
        self.count += len(data)
        _check_size("what it unpacks to", self.count, LARGEST_UNPACKED)
        return data


def _check_size(name: str, size: int, limit: int = LARGEST) -> None:
    """A small archive can hold files that fill the memory."""
    if size > limit:
        raise DataError(f"{name} has {size:,} bytes, more than the official files; the download is damaged")
