"""The pages of docs/: the site builds without a warning, and the Python in its tutorial and how-to pages runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparsam

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "docs" / "index.md", *(ROOT / "docs").glob("tutorial/*.md"), *(ROOT / "docs").glob("howto/*.md")]
)
NEEDED = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for adapter, package in (("hub", "huggingface_hub"), ("torchrl", "torchrl"), ("sb3", "sb3_contrib")):
        if f"sparsam.adapters.{adapter}" in text:
            pytest.importorskip(package, reason=f'this page is about {package}: pip install ".[guests,hub]"')
    if "sparsam.SparseMemory" in text and not hasattr(sparsam, "SparseMemory"):
        pytest.skip("this version has no memory layer")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of `folder` as `make docs` does."""
    (options,) = re.findall(r"-m mkdocs build (.*) --site-dir site", (ROOT / "Makefile").read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "mkdocs", "build", *options.split(), "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


FAULTS = {
    "": "",
    "raw Markdown": "<div>[Home](index.md)</div>",
    "no such anchor": "[here](#nowhere)",
    "code of more than": f"```python\n{'x' * 110}\n```",
}


@pytest.mark.skipif(bool(NEEDED), reason=f"the site is built with {', '.join(NEEDED)}")
@pytest.mark.parametrize("told", FAULTS)
def test_a_fault_on_a_page_fails_the_build(told: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{FAULTS[told]}\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: a page\nhooks: [{ROOT / 'docs' / 'hooks.py'}]\nvalidation: {{anchors: warn}}\n", encoding="utf-8"
    )
    done = build(tmp_path, tmp_path / "site")
    assert bool(done.returncode) == bool(told) and told in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(bool(NEEDED), reason=f"the site is built with {', '.join(NEEDED)}")
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    reference = "".join(page.read_text() for page in (tmp_path / "site" / "reference").rglob("*.html"))
    assert not [name for name in sparsam.__all__ if f'id="sparsam.{name}"' not in reference]
    assert reference.index('id="sparsam.SAM"') < reference.index('id="sparsam.LSTM"')
    commands = (tmp_path / "site" / "reference" / "cli" / "index.html").read_text()
    assert "sparsam ask" in commands and "--calibrate" in commands and "sparsam bench speed" in commands
    assert re.search(r"Random seed of the sequences\.</td>\s*<td>0</td>", commands)
