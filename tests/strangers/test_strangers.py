"""No file runs anything when it is loaded, whatever the entry, and none takes much memory or time to be refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the command line needs the lab extra")
pytest.importorskip("safetensors", reason="weights are read with it")
sys.path.insert(0, str(Path(__file__).parent))
from corpus import CANARY, CASES, EVIL, Case, write

FILES = ("load", "info", "ask", "eval", "view", "weights", "hub")
FOLDERS = ("load", "eval", "view", "plot", "resume", "config")
GROUPS = (("load", "info", "ask", "eval", "view", "plot"), ("resume", "weights", "config"), ("hub",))
MOST_SECONDS, MOST_GROWTH = 1.0, 100.0  # of processor time to refuse a file; MiB over all of them


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers") / "files"
    write(folder)
    return folder


def load_all(group: tuple[str, ...], corpus: Path, place: Path) -> dict[str, Any]:
    """What became of every case in the entries of a group, which one process loads."""
    wanted = {}
    for entry in group:
        shutil.copytree(corpus, place / entry, symlinks=True, copy_function=_copied)
        kinds = {False: entry in FILES, True: entry in FOLDERS}
        wanted[entry] = [_file_of(case) for case in CASES if kinds[case.run]]
    shutil.copy(corpus / f"{EVIL}.py", place)
    (place / "wanted.json").write_text(json.dumps(wanted))
    path = os.pathsep.join([".", *filter(None, sys.path)])
    program = [sys.executable, str(Path(__file__).with_name("load_all.py")), "wanted.json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(program, cwd=place, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(place.rglob(CANARY))
    found: dict[str, Any] = json.loads((place / "results.json").read_text())
    assert sum(case["grown"] for entry in found.values() for case in entry["cases"].values()) < MOST_GROWTH
    return found


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_nothing_runs_and_every_refusal_names_file_and_field(
    group: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    if "hub" in group:
        pytest.importorskip("huggingface_hub", reason="the Hub needs its package")
    results = load_all(group, corpus, tmp_path)
    wrong = {}
    for entry in group:
        good = results[entry]["good"]
        assert good["ended"] == ("refused" if entry == "ask" else "fine"), (entry, good)
        for name, found in results[entry]["cases"].items():
            problems = _problems(entry, next(case for case in CASES if name == _file_of(case)), found)
            if problems:
                wrong[f"{entry}: {name}"] = problems
    assert not wrong, json.dumps(wrong, indent=1)


def _problems(entry: str, case: Case, found: dict[str, Any]) -> list[str]:
    problems = list(found["seen"])
    if found["ended"] not in ("fine", "refused"):
        problems.append(found["ended"])
    if found["ended"] == "refused":
        problems += _of_refusal(found, case.name)
    told = found["ended"] == "refused" and re.search(case.says, found["said"], re.DOTALL)
    if entry in case.refused and not told:
        problems.append(f"expected to be refused with {case.says!r}, {found['ended']}: {found['said'][:300]}")
    return problems


def _file_of(case: Case) -> str:
    return case.name if case.run else f"{case.name}.safetensors"


def _copied(source: str, target: str) -> None:
    if stat.S_ISFIFO(os.stat(source).st_mode):
        os.mkfifo(target)
    elif os.stat(source).st_size > 1 << 30:  # all of it holes
        with open(source, "rb") as old, open(target, "wb") as new:
            new.write(old.read(1 << 16))
            new.truncate(os.stat(source).st_size)
    else:
        shutil.copy2(source, target)


def _of_refusal(found: dict[str, Any], name: str) -> list[str]:
    """One line that names the file, or the option that a person would have to give, and soon."""
    said, problems = found["said"], []
    if (len(said.splitlines()) != 1 and "Searched:" not in said) or len(said) > 2000:  # for a data set, in folders
        problems.append(f"expected one line, got {said[:500]!r}")
    if name not in said and not re.search("--(task|logger) |[a-z]: ", said):
        problems.append(f"expected the name of the file, got {said[:300]!r}")
    if found["seconds"] > MOST_SECONDS:
        problems.append(f"took {found['seconds']:.1f} s")
    return problems


def test_the_corpus_is_large_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
