"""Check wheels before they leave the house: size, contents, licences, stable ABI, and what they link to.

    python packaging/check_wheel.py dist/*.whl

auditwheel and abi3audit are asked where they are installed (`pip install ".[package]"`).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

LIMIT = 10_000_000
WANTED = (
    "sparsam/py.typed",
    "sparsam/lab/data/babi_official.json",
    "sparsam/trained/babi-sam.safetensors",
    "sparsam/trained/babi-sam.calibration.json",
)
LICENCES = ("LICENSE", "nanobind.txt", "robin-map.txt")


def problems(wheel: Path) -> list[str]:
    """What is wrong with a wheel."""
    found = []
    if wheel.stat().st_size >= LIMIT:
        found.append(f"{wheel.stat().st_size:,} bytes, more than {LIMIT:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    found += [f"{name} is missing" for name in WANTED if name not in names]
    for licence in LICENCES:
        if not any(".dist-info/licenses/" in name and name.endswith(licence) for name in names):
            found.append(f"the licence {licence} is missing")
    if not any(name.startswith("sparsam/_native") and name.endswith((".so", ".pyd")) for name in names):
        found.append("the compiled core is missing")
    found += [
        f"{name} does not belong there"
        for name in names
        if not name.startswith(("sparsam/", "sparsam-", "sparsam.libs/"))
    ]
    if "-abi3-" in wheel.name:
        found += asked("abi3audit", [str(wheel)])
    if "linux" in wheel.name:
        found += asked("auditwheel", ["show", str(wheel)])
    return found


def asked(tool: str, arguments: list[str]) -> list[str]:
    """The complaint of a tool that is installed; a tool that is not is named and passed over."""
    if importlib.util.find_spec(tool) is None:
        print(f"  {tool} is not installed: not asked")
        return []
    done = subprocess.run([sys.executable, "-m", tool, *arguments], capture_output=True, text=True)
    print("  " + "\n  ".join((done.stdout + done.stderr).strip().splitlines()[:4]))
    return [f"{tool} complains"] if done.returncode else []


def main(files: list[str]) -> int:
    if not files:
        print("no wheel to check")
        return 1
    bad = 0
    for file in files:
        print(f"{file}: {Path(file).stat().st_size:,} bytes")
        for problem in problems(Path(file)):
            print(f"  {problem}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
