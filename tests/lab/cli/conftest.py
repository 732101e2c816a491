"""Commands are run in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest


def run(*arguments: str) -> int:
    """The exit code of a command."""
    from sparsam.lab.cli import main  # needs typer, without which the tests of commands are skipped

    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code or 0  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
