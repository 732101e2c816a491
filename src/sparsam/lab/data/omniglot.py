"""Omniglot (Lake et al. 2015): reading, verifying and shrinking the official images.

1,623 characters of 50 alphabets, 20 drawings of each, 105 x 105 pixels of one bit: 964 characters in
`images_background.zip` and 659 in `images_evaluation.zip`, as `set/alphabet/character/drawing.png`.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsam.lab.data.cache import cached, digest
from sparsam.lab.data.locate import DataError, find
from sparsam.weights import open_plain, read_plain

__all__ = ["DRAWINGS", "SETS", "OmniglotFiles", "OmniglotImages", "load_images", "open_omniglot"]

DRAWINGS = 20
PIXELS = 105  # a side of an official image
LARGEST, LARGEST_COUNT = 1 << 16, 1 << 16  # bytes of an image, images; official ones have a few hundred, and 32,460


@dataclass(frozen=True)
class _Official:
    characters: int
    digest: str  # SHA-256 over the sorted names and PNG bytes, whatever they were packed in


SETS = {
    "images_background": _Official(964, "07356096b8076fcf915341f8715e94822249e2a4d5b999fd2d0f6cf9ebffebd5"),
    "images_evaluation": _Official(659, "f5165eb5f20d18e13c6515650b69a42a2c0507506969d410ba5e4a1c572bd542"),
}
MISSING = (
    "Omniglot was not found ({name}). Download images_background.zip and images_evaluation.zip from the "
    "Omniglot project's page, https://github.com/brendenlake/omniglot (folder python), and leave them as they "
    "are or unpack them to images_background/ and images_evaluation/ (an omniglot/ folder around them is fine)."
)
_FILE = re.compile(r"(?:^|/)(images_(?:background|evaluation)/[^/]+/character\d+/\d+_\d+\.png)$")


@dataclass(frozen=True)
class OmniglotFiles:
    """Where the two sets are, each a zip or a folder."""

    sources: dict[str, Path]

    def key(self) -> str:
        """Changes when an archive's bytes, or a folder's names and bytes, change."""
        key = hashlib.sha256()
        for name, source in self.sources.items():
            data = digest(self.read(name)) if source.is_dir() else _digest_of_file(source)
            key.update(f"{name} {data}\n".encode())
        return key.hexdigest()

    def read(self, name: str) -> list[tuple[str, bytes]]:
        """Sorted (path, PNG bytes) of a set."""
        source = self.sources[name]
        try:
            return sorted(itertools.islice(_read(source), LARGEST_COUNT))
        except (zipfile.BadZipFile, OSError, EOFError, zlib.error, RuntimeError, MemoryError) as error:
            raise DataError(f"{source} cannot be read ({error}); download {name}.zip again") from error

    def verify(self) -> list[str]:
        """Check characters, drawings and the SHA-256 over all images of both sets.

        Returns:
            one line per set on what was found.

        Raises:
            DataError: saying what differs from the official images.
        """
        found = []
        for name, official in SETS.items():
            images, source, again = self.read(name), self.sources[name], f"download {name}.zip again"
            characters, wanted = _by_character(images), official.characters
            if len(characters) != wanted:
                raise DataError(f"{source} has {len(characters)} characters instead of {wanted}; {again}")
            for character, drawings in characters.items():
                if len(drawings) != DRAWINGS:
                    told = f"{character} has {len(drawings)} drawings instead of {DRAWINGS}"
                    raise DataError(f"{source}: {told}; {again}")
            if digest(images) != official.digest:
                told = "has the right number of images, but some differ from the official ones"
                raise DataError(f"{source} {told}; {again}")
            found.append(f"{name}: {len(characters)} characters, {DRAWINGS} drawings each, as published")
        return found


@dataclass(frozen=True)
class OmniglotImages:
    """`images` (characters, drawings, size, size) uint8, 255 is ink; `evaluation` (characters,) true for
    the characters of images_evaluation; `names` like `images_background/Greek/character03`; `key` changes with
    the files that they come from."""

    images: np.ndarray
    evaluation: np.ndarray
    names: np.ndarray
    key: str = ""


def open_omniglot(root: str | os.PathLike[str] | None = None) -> OmniglotFiles:
    """Find both sets, as zips or folders.

    Raises:
        MissingData: saying what to download and where to put it.
    """
    sources = {}
    for name in SETS:
        candidates = [f"{folder}{name}{suffix}" for folder in ("omniglot/", "") for suffix in (".zip", "")]
        candidates.append(f"omniglot/python/{name}.zip")
        sources[name] = find(root, candidates, MISSING.format(name=name))
    return OmniglotFiles(sources)


def load_images(root: str | os.PathLike[str] | None = None, size: int = 28, verify: bool = True) -> OmniglotImages:
    """All images shrunk to `size` x `size` by averaging, verified and prepared once and cached after that."""
    files = open_omniglot(root)
    key = files.key()

    def make() -> dict[str, np.ndarray]:
        if verify:
            files.verify()
        names, sets, images = [], [], []
        for name in SETS:
            for character, drawings in _by_character(files.read(name)).items():
                if len(drawings) != DRAWINGS:
                    raise DataError(f"{character}: expected {DRAWINGS} drawings, got {len(drawings)}")
                names.append(character)
                sets.append(name == "images_evaluation")
                images.append([_shrink(path, data, size) for path, data in drawings])
        return {"images": np.array(images, np.uint8), "evaluation": np.array(sets), "names": np.array(names)}

    checked = "" if verify else "-unverified"
    return OmniglotImages(**cached(f"omniglot-1-{size}-{key[:16]}{checked}", make), key=key)


def _shrink(path: str, data: bytes, size: int) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('reading Omniglot needs Pillow: pip install ".[lab]"') from error
    try:
        packed = Image.open(io.BytesIO(data))
        if max(packed.size) > 10 * PIXELS:
            raise ValueError(f"{packed.size[0]} x {packed.size[1]} pixels")
        image = packed.convert("L")
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not an image that can be read ({error}); the download is damaged") from error
    return 255 - np.asarray(image.resize((size, size), Image.Resampling.BOX))


def _by_character(images: list[tuple[str, bytes]]) -> dict[str, list[tuple[str, bytes]]]:
    characters: dict[str, list[tuple[str, bytes]]] = {}
    for path, data in images:
        characters.setdefault(path.rpartition("/")[0], []).append((path, data))
    return characters


def _digest_of_file(source: Path) -> str:
    found = hashlib.sha256()
    with open_plain(source) as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def _read(source: Path) -> Iterator[tuple[str, bytes]]:
    if source.is_dir():
        for path in source.rglob("*.png"):
            match = _FILE.search(f"{source.name}/{path.relative_to(source).as_posix()}")
            if match:
                _check_size(match[1], path.stat().st_size)
                yield match[1], read_plain(path, LARGEST)
        return
    with open_plain(source) as packed, zipfile.ZipFile(packed) as archive:
        for entry in archive.infolist():
            if match := _FILE.search(entry.filename):
                _check_size(match[1], entry.file_size)
                yield match[1], archive.read(entry)


def _check_size(name: str, size: int) -> None:
    """A small archive can hold a file that fills the memory."""
    if size > LARGEST:
        raise DataError(f"{name} has {size:,} bytes, more than any Omniglot image; the download is damaged")
