"""What `sparsam bench step` measures beside its ratios."""

from __future__ import annotations

from benchmarks import step
from benchmarks.setting import model_of


def test_import_is_timed_in_a_process_of_its_own_after_one_that_leaves_bytecode(monkeypatch, tmp_path):
    assert "import sparsam" in step.IMPORT
    log = tmp_path / "log"
    monkeypatch.setattr(step, "IMPORT", f"open({str(log)!r}, 'a').write('x'); print(len(open({str(log)!r}).read()))")
    assert step.import_seconds(2) == [2, 3]


def test_first_and_last_calls_are_told_apart():
    first, last = step.filling(model_of("sam", 100), 1, 20)
    assert first > 0 and last > 0
