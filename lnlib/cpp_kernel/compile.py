"""C++ in lnlib: compiled by g++ when it is first used, once on a machine, and loaded from then on.

What g++ made lies in the user's cache folder, ``$XDG_CACHE_HOME/lnlib`` or ``~/.cache/lnlib``, and
so does what it said where it failed, for an hour. A name there is a digest of the source and its
headers, the flags, the compiler, the C library and the processor: if one of them changes, g++ runs
again. Where that folder cannot be used, each process compiles for itself.

The environment variable ``LNLIB_CPP`` forbids C++ with "off", or compiles for another processor, by
the names of g++'s ``-march``, such as "x86-64-v3"; one that lacks what you name ends the process
there. It is read at the first use.
"""

import ctypes
import hashlib
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

# The last two let sqrt and rounding become instructions; they change no result.
FLAGS = ["-std=c++17", "-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
VARIABLE = "LNLIB_CPP"
PATIENCE = 300  # seconds that g++ may take
REMEMBERED = 3600  # seconds for which a failure is not tried again

Build = tuple[Path, *tuple[str, ...]]  # a source, and flags of its own

_found: dict[Build, ctypes.CDLL | str] = {}  # what g++ made, or why there is nothing
_one_at_a_time = threading.Lock()
_at_it: int | None = None  # the thread that holds it
_has_threads = False
# How many threads a loop may have: PyTorch's number, or 1 after a fork that lost some. OpenMP's
# threads do not survive a fork, and a child would wait for them forever.
threads: Callable[[], int] = torch.get_num_threads
_said: set[str] = set()  # what the log has been told


def library(source: Path, *flags: str) -> ctypes.CDLL | None:
    """Return what g++ makes of a file, or None if there is nothing; `why_not` says why.

    Args:
        source: a C++ file, whose functions are ``extern "C"``. It names its headers by their paths
            from where it is.
        flags: for g++, besides `FLAGS`. With others, a file is compiled once more.
    """
    found = _find((source, *flags))
    return None if isinstance(found, str) else found


def why_not(source: Path, *flags: str) -> str | None:
    """Return why there is no `library` of a file here, and what to do; None if there is one."""
    found = _find((source, *flags))
    return found if isinstance(found, str) else None


def check(input: Tensor, reason: str | None) -> None:
    """Raise RuntimeError, with what to do, if there is a reason against C++ for ``input``."""
    if reason is not None:
        raise RuntimeError(
            f'backend "cpp" does not take {input.dtype} on {input.device}: {reason}; use "auto"'
        )


def _before_fork() -> None:
    """Have OpenMP end its threads, which a child would wait for; the next loop starts new ones."""
    global _has_threads
    try:
        openmp = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)  # PyTorch's, if it is loaded
        _has_threads = openmp.omp_pause_resource_all(1) != 0
    except (OSError, AttributeError):
        _has_threads = True


def _after_fork() -> None:
    global threads, _one_at_a_time, _at_it
    if _has_threads:
        threads = lambda: 1  # noqa: E731
    _one_at_a_time, _at_it = threading.Lock(), None  # a thread that held it is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def say_once(what: str, reason: str) -> None:
    """Tell the log, in one line and once a process, what is slower, and why."""
    if what not in _said:
        _said.add(what)
        first, *rest = reason.splitlines()
        more = f" [{len(rest)} more lines: print(lnlib.backends())]" if rest else ""
        # No warning, which a filter may have made an error: only speed is lost.
        logging.getLogger("lnlib").warning("%s: %s%s", what, first, more)


def _find(build: Build) -> ctypes.CDLL | str:
    global _at_it
    if build in _found:
        return _found[build]
    if _at_it == threading.get_ident():  # a signal, or what hears of the log, calls lnlib meanwhile
        return "C++ is being compiled"
    with _one_at_a_time:
        _at_it = threading.get_ident()
        try:
            if build not in _found:  # still, now that no other thread is at it
                _found[build] = _load(*build)
        finally:
            _at_it = None
    found = _found[build]
    if isinstance(found, str) and _why_never() is None:
        say_once("lnlib runs without its C++, so slower", found)
    return found


def _command(source: Path, *flags: str) -> list[str] | str:
    """Return what calls g++, up to what it makes; or why it cannot be called."""
    processor = os.environ.get(VARIABLE) or "native"
    compiler = shutil.which("g++")
    if reason := _why_never():
        return reason
    if compiler is None:
        return "there is no g++ on the PATH; install it, as with `apt install g++`"
    return [compiler, *FLAGS, *flags, f"-march={processor}", "-fPIC", "-shared", str(source)]


def _why_never() -> str | None:
    """Return why no C++ is meant to run here; None if it is."""
    if os.environ.get(VARIABLE) == "off":
        return f"{VARIABLE}=off forbids C++"
    if sys.is_finalizing():
        return "Python is ending"
    if sys.platform != "linux":
        return "C++ is compiled on Linux alone"
    return None


def _load(source: Path, *flags: str) -> ctypes.CDLL | str:
    command = _command(source, *flags)
    if isinstance(command, str):
        return command
    try:
        return _load_from_cache(source, command)
    except OSError as error:  # no such folder, or nothing can be written or loaded there
        reason = f"{error}; set XDG_CACHE_HOME to a folder in which you alone may write"
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, source.stem).with_suffix(".so")
            found = _compile(command, path) or ctypes.CDLL(str(path))
    except OSError as error:
        return f"C++ cannot be compiled and loaded here: {error}"
    if not isinstance(found, str):
        say_once(
            "lnlib compiles its C++ anew in every process, some seconds for each dtype", reason
        )
    return found


def _load_from_cache(source: Path, command: list[str]) -> ctypes.CDLL | str:
    path = _place(source, command)
    if not _is_whole(path):
        with _locked(path.parent):
            # Still, now that no other process is at it?
            said = None if _is_whole(path) else _compile_once(command, path)
        if said is not None:
            return said
    return ctypes.CDLL(str(path))


def _place(source: Path, command: list[str]) -> Path:
    return _cache() / f"{source.stem}-{_digest(source, command)}.so"


def _compile_once(command: list[str], path: Path) -> str | None:
    """Do as `_compile`, unless it failed within the hour; remember it if it fails."""
    failure = path.with_suffix(".failed")
    if _is_safe(failure) and 0 <= time.time() - failure.stat().st_mtime < REMEMBERED:
        return failure.read_text(encoding="utf8")
    said = _compile(command, path)
    if said is not None:
        said = f"{said}\nMend g++ and remove {failure} to try again before an hour is over."
        failure.write_text(said, encoding="utf8", errors="backslashreplace")
        failure.chmod(0o600)
    return said


def _compile(command: list[str], path: Path) -> str | None:
    """Write a library, whole or not at all; return what g++ said if it failed."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        try:
            subprocess.run(
                [*command, "-o", str(made)],
                env=os.environ | {"TMPDIR": folder},
                check=True,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE,
            )
        except subprocess.SubprocessError as error:
            return f"{command[0]} failed: {getattr(error, 'stderr', None) or error}"
        made.chmod(0o700)
        with made.open("ab") as file:
            file.write(path.name.encode())  # for `_is_whole`
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    return None


def _cache() -> Path:
    """Return the folder of what was compiled, which the user alone may change."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "lnlib")
    if not folder.is_absolute():
        raise FileNotFoundError("there is no home folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.resolve()  # some have it on another disk
    if not _is_safe(folder):
        raise PermissionError(f"others may write in {folder}")
    return folder


def _is_safe(path: Path) -> bool:
    """Tell whether a file or folder is there, is the user's own, and no one else may write it."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return False
    kept = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
    return kept and about.st_uid == os.geteuid() and not about.st_mode & 0o022


def _is_whole(path: Path) -> bool:
    """Tell whether a library is as `_compile` left it; one cut short would crash who loads it."""
    return _is_safe(path) and path.is_file() and path.read_bytes().endswith(path.name.encode())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from compiling the same, where the file system has locks.

    Raises:
        TimeoutError: one that has been stopped, say, holds the lock for longer than g++ may take.
    """
    import fcntl  # which Windows has not

    handle, end = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE
    try:
        while _is_taken(handle):
            if time.monotonic() > end:
                raise TimeoutError(f"{folder} is locked by another process")
            time.sleep(0.05)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile has it open, too
        os.close(handle)


def _is_taken(handle: int) -> bool:
    """Take the lock of a folder, or tell that another process has it."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # there are no locks
    return False


def _digest(source: Path, command: list[str]) -> str:
    compiler = Path(command[0]).resolve()
    about = compiler.stat()
    texts = [source.read_text(encoding="utf8")]
    headers = re.findall(r'^#include "(.+)"', texts[0], re.MULTILINE)
    texts += [(source.parent / name).read_text(encoding="utf8") for name in headers]
    said = [*texts, *command[:-1], str(compiler), about.st_size]
    said += [about.st_mtime_ns, _libc(), *_processor()]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _libc() -> str | None:
    with suppress(ValueError, OSError):
        return os.confstr("CS_GNU_LIBC_VERSION")
    return None


def _processor() -> list[str]:
    """Return what the system says of the first processor that decides on its instructions."""
    names = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU", "Features", "isa")
    with suppress(OSError):
        first, *_ = Path("/proc/cpuinfo").read_text(encoding="utf8").split("\n\n")
        return [line for line in first.splitlines() if line.startswith(names)]
    return []
