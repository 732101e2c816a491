"""Reading and verifying Omniglot's images: zips and folders, counts, damage."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sparsam.lab.data.locate import DataError, MissingData
from sparsam.lab.data.omniglot import DRAWINGS, SETS, load_images, open_omniglot

Image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow, which the lab extra installs")


def write_sample(root: Path, background: int = 3, evaluation: int = 2, drawings: int = DRAWINGS) -> Path:
    """Made-up characters in the official layout: a black bar whose column is the character's number."""
    root.mkdir(parents=True, exist_ok=True)
    for name, characters in (("images_background", background), ("images_evaluation", evaluation)):
        with zipfile.ZipFile(root / f"{name}.zip", "w") as archive:
            for character in range(1, characters + 1):
                for drawing in range(1, drawings + 1):
                    pixels = np.full((105, 105), 255, np.uint8)
                    pixels[drawing : drawing + 60, 15 * character : 15 * character + 4] = 0
                    data = io.BytesIO()
                    Image.fromarray(pixels).convert("1").save(data, "PNG")
                    path = f"{name}/Made_up/character{character:02}/{character:04}_{drawing:02}.png"
                    archive.writestr(path, data.getvalue())
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path / "cache"))


def test_images_are_ink_on_nothing(tmp_path):
    data = load_images(write_sample(tmp_path / "root"), size=35, verify=False)
    assert data.images.shape == (5, 20, 35, 35)
    assert data.images.dtype == np.uint8
    assert data.evaluation.tolist() == [False] * 3 + [True] * 2
    first = data.images[0, 2]  # rows 3 to 62, columns 15 to 18
    assert first[1:21, 5].tolist() == [255] * 20
    assert first[1:21, 6].tolist() == [85] * 20
    assert first[:, 8:].max() == 0 and first[22:].max() == 0


def test_zip_and_folder_read_the_same(tmp_path):
    root = write_sample(tmp_path / "zips")
    for name in SETS:
        zipfile.ZipFile(root / f"{name}.zip").extractall(tmp_path / "folders" / "omniglot")
    packed, unpacked = open_omniglot(root), open_omniglot(tmp_path / "folders")
    assert all(source.is_dir() for source in unpacked.sources.values())
    for name in SETS:
        assert packed.read(name) == unpacked.read(name)
    one, other = load_images(root, verify=False), load_images(tmp_path / "folders", verify=False)
    assert np.array_equal(one.images, other.images)
    assert one.names.tolist() == other.names.tolist()


def test_cache_follows_the_data(tmp_path):
    root = write_sample(tmp_path / "root")
    before = load_images(root, verify=False)
    assert len(list((tmp_path / "cache").glob("omniglot-*.npz"))) == 1
    write_sample(root, background=4)
    assert len(load_images(root, verify=False).names) == len(before.names) + 1


def test_missing_says_what_to_download_and_where_to_put_it(tmp_path):
    with pytest.raises(MissingData) as caught:
        open_omniglot(tmp_path)
    for part in ("images_background.zip", "images_evaluation.zip", str(tmp_path)):
        assert part in str(caught.value)


def test_wrong_number_of_characters_is_refused(tmp_path):
    with pytest.raises(DataError, match="3 characters instead of 964"):
        load_images(write_sample(tmp_path / "root"))


def test_missing_drawing_is_refused(tmp_path):
    root = write_sample(tmp_path / "root", background=964, evaluation=1, drawings=1)
    with pytest.raises(DataError, match="character01 has 1 drawings instead of 20"):
        open_omniglot(root).verify()


def test_damaged_zip_is_named(tmp_path):
    root = write_sample(tmp_path / "root")
    whole = (root / "images_background.zip").read_bytes()
    (root / "images_background.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="zip cannot be read"):
        load_images(root, verify=False)


def test_damaged_image_is_named(tmp_path):
    root = write_sample(tmp_path / "root")
    zipfile.ZipFile(root / "images_evaluation.zip").extractall(root)
    (root / "images_evaluation.zip").unlink()
    (root / "images_evaluation" / "Made_up" / "character02" / "0002_07.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="character02/0002_07"):
        load_images(root, verify=False)


def test_official_images_verify():
    try:
        files = open_omniglot()
    except MissingData:
        pytest.skip("the Omniglot download is not on this machine (set SPARSAM_DATA)")
    assert [line.split(",")[0] for line in files.verify()] == [
        "images_background: 964 characters",
        "images_evaluation: 659 characters",
    ]
