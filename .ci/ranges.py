"""Print what `make test-latest` or `test-oldest` installs: python3 .ci/ranges.py latest|oldest.

lnlib and its chapters get the newest versions that pyproject.toml allows, or the oldest that it
names. The tools that run the tests are the pinned ones, so that a failure is about the former.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = (
    *("pytest", "pytest-xdist", "hypothesis", "nbval", "nbclient", "nbformat", "ipykernel"),
    *("PyYAML", "mpmath", "playwright", "axe-playwright-python"),
)


def requirements(end: str) -> list[str]:
    """Return the lines of a requirements file for one end of the ranges, "latest" or "oldest"."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["book"]]
    if end == "oldest":
        needs = [need.replace(">=", "==") for need in needs]
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    return [*needs, *(pin for pin in pins if pin.split("==")[0] in TOOLS)]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
