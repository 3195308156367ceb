"""C++ is compiled once on a machine, trusted only if nobody else could write it, and not needed."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from tiers import few

from lnlib.cpp_kernel import compile

HAS_CPP = sys.platform == "linux" and shutil.which("g++") is not None
NEEDS_CPP = pytest.mark.skipif(not HAS_CPP, reason="no g++, or not Linux")


class Compiler:
    """A folder with a g++ in it, which writes down each of its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "bin", folder / "log"
        self.folder.mkdir()
        self.does(f'exec "{shutil.which("g++")}" "$@" -O0')  # the one there is, in a hurry

    def does(self, command: str) -> None:
        """Let it do something else."""
        program = self.folder / "g++"
        program.write_text(f'#!/bin/sh\necho "$@" >> "{self.log}"\n{command}\n')
        program.chmod(0o755)

    @property
    def first(self) -> str:
        """The PATH on which it is found."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    @property
    def runs(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a space in its name, to keep what was compiled in."""
    folder = tmp_path / "a home"
    folder.mkdir()
    return folder


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


@pytest.fixture
def env(home: Path, compiler: Compiler) -> dict[str, str]:
    """What is set for a call; whatever it is for the tests, the processor is this one."""
    folders = {"XDG_CACHE_HOME": str(home), "HOME": str(home)}
    return {**folders, "PATH": compiler.first, "LNLIB_CPP": ""}


@NEEDS_CPP
def test_gpp_runs_once_a_machine_and_file(nursery, compiler, env, home):
    for _ in range(3):
        nursery.run("expects", "cpp", **env)
    assert compiler.runs == 2  # the layer norm and the LSTM
    kept = list((home / "lnlib").iterdir())
    assert sorted(path.suffix for path in kept) == [".so", ".so"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (home / "lnlib", *kept)} == {0o700}
    nursery.run("expects", "cpp", **env | {"LNLIB_CPP": "x86-64"})
    assert compiler.runs == 4


@NEEDS_CPP
@few("who", ["eight_threads", "three_processes"], 1)
@few("name", ["auto", "LSTM"], 1)
def test_those_whose_first_call_is_one_moment_compile_once(nursery, compiler, env, who, name):
    nursery.run(f"{who}_at_one_moment", name, str(compiler.log), **env)


@NEEDS_CPP
@few("writable", ["file", "folder"], 1)
def test_what_others_may_write_is_not_loaded(nursery, compiler, env, home, writable):
    nursery.run("expects", "cpp", **env)
    folder = home / "lnlib"
    for path in folder.iterdir():
        path.write_text("This is no library: to load it fails.")
        path.chmod(0o777 if writable == "file" else 0o700)
    folder.chmod(0o777 if writable == "folder" else 0o700)
    nursery.run("expects", "cpp", **env)
    assert compiler.runs == 4
    nursery.run("expects", "cpp", **env)
    assert compiler.runs == (4 if writable == "file" else 6)


@NEEDS_CPP
def test_what_belongs_to_another_user_is_not_loaded(nursery, compiler, env):
    nursery.run("expects", "cpp", **env)
    nursery.run("expects_of_another_user", "cpp", **env)
    assert compiler.runs == 4


def test_a_failure_is_told_and_remembered_and_no_call_raises(nursery, compiler, env, home):
    compiler.does("echo 'cc1plus: out of order' >&2; exit 1")
    for _ in range(2):
        nursery.run("expects", "reference", "out of order", **env)
    assert compiler.runs == 2
    for path in (home / "lnlib").iterdir():
        os.utime(path, (0, 0))  # long ago
    nursery.run("expects", "reference", "remove ", **env)
    assert compiler.runs == 4
    for path in (home / "lnlib").iterdir():
        os.utime(path, (4e9, 4e9))  # a clock was wrong
    nursery.run("expects", "reference", "out of order", **env)
    assert compiler.runs == 6


@pytest.mark.tier("all")
@pytest.mark.parametrize(
    ("what", "line", "backend", "reason"),
    [
        ("there is none", "slower: there is no g++", "reference", "there is no g++"),
        ("it fails", "slower: ", "reference", "failed"),
        ("it failed within the hour", "slower: ", "reference", "failed"),
        pytest.param("others may write", "anew", "cpp", "", marks=NEEDS_CPP),
        pytest.param("all is well", "", "cpp", "", marks=NEEDS_CPP),
        ("the user forbids it", "", "reference", "off forbids"),
    ],
)
def test_the_log_says_in_one_line_what_is_slow_and_why(
    nursery, compiler, env, home, what, line, backend, reason
):
    if "fail" in what:
        compiler.does("echo one; echo 'two: out of order' >&2; echo three >&2; exit 1")
    if what == "it failed within the hour":
        nursery.run("expects", "reference", "failed", **env)
    if what == "there is none":
        env["PATH"] = str(home)
    if what == "the user forbids it":
        env["LNLIB_CPP"] = "off"
    if what == "others may write":
        (home / "lnlib").mkdir()
        (home / "lnlib").chmod(0o777)
    nursery.run("expects_to_be_told", line, backend, reason, **env)


def test_a_failure_is_told_where_no_file_can_say_it(nursery, compiler, env, tmp_path):
    compiler.does("exit 1")
    folder = f"{tmp_path}/\udcff"  # as Python has a name that is no UTF-8
    nursery.run("expects", "reference", "failed", **env | {"XDG_CACHE_HOME": folder})


def test_what_hears_of_a_failure_may_call_lnlib(nursery, compiler, env):
    compiler.does("exit 1")
    nursery.run("expects_where_the_log_calls", "reference", "failed", seconds=60, **env)


@pytest.mark.tier("all")
@NEEDS_CPP
def test_a_signal_may_call_lnlib_while_gpp_runs(nursery, compiler, env):
    compiler.does(f'sleep 0.5; exec "{shutil.which("g++")}" "$@" -O0')
    nursery.run("expects_while_a_signal_calls", "cpp", seconds=60, **env)


@pytest.mark.tier("all")
@NEEDS_CPP
def test_what_is_there_is_loaded_though_another_process_holds_the_folder(
    nursery, compiler, env, home
):
    nursery.run("expects", "cpp", **env)
    nursery.run("expects_while_another_holds", str(home / "lnlib"), "cpp", seconds=60, **env)
    assert compiler.runs == 2


@NEEDS_CPP
@few("left", [0, 0.3, 0.95], 1)
def test_what_was_cut_short_is_compiled_again(nursery, compiler, env, home, left):
    nursery.run("expects", "cpp", **env)
    for path in (home / "lnlib").iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[: int(left * len(whole))])
    for _ in range(2):
        nursery.run("expects", "cpp", **env)
    assert compiler.runs == 4


@NEEDS_CPP
def test_the_folder_may_be_a_link_to_another_of_the_users(nursery, compiler, env, home, tmp_path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (home / "lnlib").symlink_to(tmp_path / "disk")
    for _ in range(2):
        nursery.run("expects", "cpp", **env)
    assert compiler.runs == 2


@NEEDS_CPP
def test_what_a_failing_gpp_has_begun_to_write_is_not_loaded(nursery, compiler, env, home):
    ill, real = home / "ill", shutil.which("g++")
    half = 'for out; do :; done; echo half > "$out"; exit 1'  # its last argument
    compiler.does(f'if [ -e "{ill}" ]; then {half}; fi; exec {real} "$@" -O0')
    ill.touch()
    nursery.run("expects", "reference", "failed", **env)
    ill.unlink()
    for path in (home / "lnlib").glob("*.failed"):
        path.unlink()
    for _ in range(2):
        nursery.run("expects", "cpp", **env)
    assert compiler.runs == 4


def test_its_name_is_another_once_anything_is_that_it_is_made_of(tmp_path, monkeypatch):
    source, compiler = tmp_path / "source.cpp", tmp_path / "g++"
    names = []

    def told(*flags):
        names.append(compile._digest(source, [str(compiler), *flags, str(source)]))

    source.write_text("one")
    compiler.write_text("one")
    told("-O2")
    told("-O2")
    assert names[0] == names[1]
    told("-O3")
    source.write_text('#include "header.h"')
    for text in ("one", "two"):
        (tmp_path / "header.h").write_text(text)
        told("-O3")
    compiler.write_text("another")
    told("-O3")
    for of_machine in ("_processor", "_libc"):
        monkeypatch.setattr(compile, of_machine, lambda: ["another"])
        told("-O3")
    assert len(set(names)) == len(names) - 1


def test_a_gpp_that_is_no_program_is_told(nursery, compiler, env):
    (compiler.folder / "g++").write_bytes(b"\0\0")
    nursery.run("expects", "reference", "cannot be compiled", **env)


def test_without_gpp_the_reference_runs_and_backends_says_why(nursery, tmp_path, env):
    env["PATH"] = str(tmp_path)
    nursery.run("expects", "reference", "there is no g++ on the PATH", **env)


@NEEDS_CPP
def test_a_variable_forbids_to_compile(nursery, compiler, env):
    reason = "LNLIB_CPP=off forbids C++"
    nursery.run("expects", "reference", reason, **env | {"LNLIB_CPP": "off"})
    nursery.run("expects_in_a_graph", False, **env | {"LNLIB_CPP": "off"})
    assert compiler.runs == 0


@pytest.mark.tier("all")
@NEEDS_CPP
def test_a_first_call_may_be_one_that_pytorchs_compiler_records(nursery, compiler, env):
    nursery.run("expects_in_a_graph", True, **env)
    assert compiler.runs == 1


@NEEDS_CPP
@few("folder", ["/proc", "nothing at all"], 1)
def test_where_no_cache_can_be_each_process_compiles(nursery, compiler, folder):
    env = {"XDG_CACHE_HOME": folder, "HOME": folder, "PATH": compiler.first}
    for runs in (2, 4):
        nursery.run("expects", "cpp", **env)
        assert compiler.runs == runs


@NEEDS_CPP
def test_where_no_temporary_folder_can_be_written_the_cache_is_enough(nursery, env):
    nursery.run("expects_where_no_folder_can_be_written", "cpp", TMPDIR="/proc", **env)


@NEEDS_CPP
def test_where_no_folder_can_be_written_the_reference_runs(nursery, env):
    reason = "C++ cannot be compiled and loaded here"
    env |= {"XDG_CACHE_HOME": "/proc", "HOME": "/proc"}
    nursery.run("expects_where_no_folder_can_be_written", "reference", reason, **env)


@pytest.mark.tier("all")
@NEEDS_CPP
def test_where_nothing_can_be_loaded_from_the_cache_or_from_anywhere(nursery, env, home):
    case = "expects_where_nothing_can_be_loaded_from"
    nursery.run(case, str(home), "cpp", **env)
    nursery.run(case, "/", "reference", "failed to map segment", **env)
