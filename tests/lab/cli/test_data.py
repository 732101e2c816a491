"""`sparsam data`: what it says when data is there, damaged or absent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the lab extra")
from sparsam.lab.cli import USAGE
from sparsam.lab.data.babi import open_babi
from sparsam.lab.data.locate import MissingData
from tests.lab.cli.conftest import run

SAMPLE = Path(__file__).parents[1] / "data" / "babi"


@pytest.mark.parametrize(
    ("name", "files"),
    [("babi", ["tasks_1-20_v1-2.tar.gz"]), ("omniglot", ["images_background.zip", "images_evaluation.zip"])],
)
def test_absent_data_says_what_to_download_and_where_to_put_it(name, files, tmp_path, capsys):
    assert run("data", name, "--root", str(tmp_path)) == USAGE
    message = capsys.readouterr().err
    for part in [*files, str(tmp_path), "--root", "SPARSAM_DATA"]:
        assert part in message
    assert "Traceback" not in message


def test_changed_data_is_refused(tmp_path, capsys):
    shutil.copytree(SAMPLE, tmp_path / "babi")
    assert run("data", "babi", "--root", str(tmp_path)) == USAGE
    captured = capsys.readouterr()
    assert "differs from the official file" in captured.err
    assert "prepared" not in captured.out


def test_official_babi_is_verified_and_prepared(capsys):
    try:
        partial = open_babi().partial
    except MissingData:
        pytest.skip("the bAbI download is not on this machine (set SPARSAM_DATA)")
    assert run("data", "babi") == 0
    out = capsys.readouterr().out
    assert "verified  40 files" in out
    assert "test: 6,267 stories, 20,000 questions" in out
    assert ("1,925 questions instead of 10,000" in out) == bool(partial)
