"""Which files of the project a notebook reads, written down by its own kernel.

Those are the modules that it imports, the files that it opens and the libraries that it loads,
also where they are not there, and what its children do of that.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["environment", "watch"]

ROOT, LOG = "LN_ROOT", "LN_READS"  # the variables that name the project, and the file to write to
WATCHED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watched")
MADE = ("_build", ".venv", ".git", "__pycache__")  # folders that hold no source
WRITES = os.O_WRONLY | os.O_RDWR


def environment(root: str, log: str) -> dict[str, str]:
    """Return the variables by which a kernel, and every Python that it starts, is watched."""
    paths = [WATCHED, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, ROOT: root, LOG: log, "PYTHONPATH": os.pathsep.join(paths)}


def watch() -> None:
    """From now on write down each file of the project once."""
    root = os.environ[ROOT]
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    known = set()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        path = file_of(event, arguments)
        if path is None:
            return
        full = os.path.abspath(os.fsdecode(path))
        if full in known:
            return
        known.add(full)
        name = os.path.relpath(full, root)
        folders = name.split(os.sep)
        if os.pardir != folders[0] and not any(f.startswith(MADE) for f in folders):
            os.write(log, f"{'/'.join(folders)}\n".encode())

    sys.addaudithook(note)


def file_of(event: str, arguments: tuple[Any, ...]) -> Any:
    """Return the file that an audited event reads, None if it reads none."""
    if event == "open":
        path, _, flags = arguments
        return path if isinstance(path, (str, bytes)) and not flags & WRITES else None
    if event == "ctypes.dlopen":  # by its path; a bare name is searched for elsewhere
        path = arguments[0]
        return path if isinstance(path, str) and os.sep in path else None
    if event == "exec":  # a module, whether it comes from its source or is compiled already
        path = arguments[0].co_filename
        return path if os.path.isabs(path) else None
    return None
