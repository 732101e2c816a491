"""docs/trust.md names tests that exist, and every promise names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.(?:py|cpp)(?:::\w+| \w+)?)`", TEXT)))


def rows() -> list[list[str]]:
    lines = [line for line in TEXT.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named: str) -> None:
    file, _, test = named.replace("::", " ").partition(" ")
    found = [path for path in (ROOT / "tests").rglob(Path(file).name) if path.as_posix().endswith(f"/{file}")]
    assert found, f"no test file {file}"
    if test:
        text = found[0].read_text(encoding="utf-8")
        assert f"def {test}(" in text or f'"{test}": (' in text, f"{file} has no {test}"


def test_every_promise_names_a_test() -> None:
    promises = [row for row in rows() if len(row) == 2 and row != ["promise", "test"]]
    assert len(promises) > 25
    for promise, tests in promises:
        assert re.search(r"\.(py|cpp)", tests), promise


def test_the_counts_are_those_of_the_tests() -> None:
    fuzz = (ROOT / "tests" / "engines" / "native" / "test_fuzz.py").read_text(encoding="utf-8")
    (cases,) = re.findall(r"CASES = (\d+)", fuzz)
    assert f"{int(cases):,} of them" in TEXT
    damage = (ROOT / "tests" / "lab" / "training" / "faults" / "damage.py").read_text(encoding="utf-8")
    assert f"has {len(re.findall(r'^    Kind[(]', damage, flags=re.MULTILINE))} kinds of damage" in TEXT
