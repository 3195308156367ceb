"""What the workflows name is there, and they run on the Pythons that the package names."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lnlib.book.home import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
PHONY = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf8"), re.M)
TARGETS = {target for line in PHONY for target in line.split()}
PYTHON = "Programming Language :: Python :: 3."


def pythons(job: dict[str, Any]) -> set[str]:
    """Return the versions of Python that a job runs on."""
    set_up = [step for step in job["steps"] if "setup-python" in step.get("uses", "")]
    said = [step["with"]["python-version"] for step in set_up]
    said += job.get("strategy", {}).get("matrix", {}).get("python", [])
    assert all(isinstance(version, str) for version in said)  # 3.10 would be 3.1
    return {each for each in said if not each.startswith("${{")}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_names_is_there(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf8"))["jobs"]
    minors = {int(n.removeprefix(PYTHON)) for n in PROJECT["classifiers"] if PYTHON in n}
    assert PROJECT["requires-python"] == f">=3.{min(minors)}"
    supported = {f"3.{minor}" for minor in minors}
    if path.stem == "book":
        assert pythons(jobs["check"]) == supported  # every one is tested
    for job in jobs.values():
        assert pythons(job) <= supported
        assert {*job.get("strategy", {}).get("matrix", {}).get("target", [])} <= TARGETS
        for step in job["steps"]:
            assert re.search(r"@(release/)?v\d+$", step.get("uses", "@v1"))
            for script in re.findall(r"\bbash (\S+)", step.get("run", "")):
                text = (ROOT / script).read_text(encoding="utf8")
                named = re.findall(r"(?:\bmake |targets=\()([\w -]+)", text)
                assert {target for names in named for target in names.split()} <= TARGETS, script
            for named in step.get("with", {}).get("cache-dependency-path", "").split():
                assert (ROOT / named).is_file()


def test_tests_that_are_left_out_are_there_to_be_left_out() -> None:
    (mac,) = re.findall(r"^for name in (.*); do$", (ROOT / ".ci/mac").read_text("utf8"), re.M)
    make = (ROOT / "Makefile").read_text("utf8").replace("\\\n", " ")
    (pinned,) = re.findall(r"^PINNED := (.*)$", make, re.M)
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    assert {*mac.split(), *pinned.split()} <= tests


def test_make_compiles_again_after_a_change_of_any_source() -> None:
    make = subprocess.run(["make", "-pn", "setup"], cwd=ROOT, capture_output=True, text=True)
    (needed,) = re.findall(r"^\.venv/\.ready\S*: (.*)$", make.stdout, re.M)
    sources = {*ROOT.glob("lnlib/**/*.cpp"), *ROOT.glob("lnlib/**/*.h")}
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= {*needed.split()}
