"""What the workflows name is there, and they run on the Pythons that the package names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
TARGETS = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf8"), re.M)
PYTHON = "Programming Language :: Python :: "


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf8"))["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def in_matrix(job: dict[str, Any], name: str) -> list[str]:
    found: list[str] = job.get("strategy", {}).get("matrix", {}).get(name, [])
    return found


def pythons(job: dict[str, Any]) -> set[str]:
    """Return the versions of Python that a job runs on."""
    set_up = [step for step in job["steps"] if "setup-python" in step.get("uses", "")]
    said = [step["with"]["python-version"] for step in set_up]
    assert all(isinstance(version, str) for version in said)  # 3.10 would be 3.1
    return {each for each in [*said, *in_matrix(job, "python")] if not each.startswith("${{")}


def supported() -> set[str]:
    names = [name.removeprefix(PYTHON) for name in PROJECT["classifiers"] if PYTHON in name]
    return {name for name in names if re.fullmatch(r"\d\.\d+", name)}


def test_the_oldest_supported_python_is_the_one_that_is_required() -> None:
    oldest = min(supported(), key=lambda version: int(version.split(".")[1]))
    assert PROJECT["requires-python"] == f">={oldest}"


def test_every_supported_python_is_tested_and_no_workflow_runs_another() -> None:
    assert pythons(jobs(ROOT / ".github/workflows/book.yml")["check"]) == supported()
    for path in WORKFLOWS:
        for job in jobs(path).values():
            assert pythons(job) <= supported(), path.name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_name_targets_and_files_that_are_there(path: Path) -> None:
    targets = {target for line in TARGETS for target in line.split()}
    for job in jobs(path).values():
        assert set(in_matrix(job, "target")) <= targets
    for step in steps(path):
        command = step.get("run", "")
        for script in re.findall(r"\bbash (\S+)", command):
            text = (ROOT / script).read_text(encoding="utf8")
            named = re.findall(r"(?:\bmake |targets=\()([\w -]+)", text)
            assert {target for names in named for target in names.split()} <= targets, script
        for named in step.get("with", {}).get("cache-dependency-path", "").split():
            assert (ROOT / named).is_file(), named


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_their_major_version(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert [action for action in used if not re.search(r"@(release/)?v\d+$", action)] == []


@pytest.mark.parametrize(
    ("file", "names"),
    [(".ci/mac", r"^for name in (.*); do$"), ("Makefile", r"^PINNED := ((?:.*\\\n)*.*)")],
)
def test_what_is_left_out_is_there_to_be_left_out(file: str, names: str) -> None:
    (named,) = re.findall(names, (ROOT / file).read_text(encoding="utf8"), re.MULTILINE)
    there = {path.stem for path in (ROOT / "tests").glob("*/test_*.py")}
    assert {f"test_{name}" for name in named.replace("\\", "").split()} <= there
