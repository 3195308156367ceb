"""Which files of the project a notebook reads, written down by its own kernel.

Those are the modules that it imports, the files that it opens and the libraries that it loads,
also where they are not there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["LOG", "configuration", "watch"]

LOG = "LN_READS"  # the variable that names the file to write to
MADE = ("_build", ".venv", ".git", "__pycache__")  # folders that hold no source
WRITES = os.O_WRONLY | os.O_RDWR


def configuration(root: str) -> str:
    """Return what has to stand in the configuration of IPython for a kernel to be watched."""
    here = os.path.dirname(os.path.abspath(__file__))
    lines = f"sys.path.append({here!r})", "import reads", f"reads.watch({root!r})", "sys.path.pop()"
    return "\n".join(("import sys", *lines, ""))


def watch(root: str) -> None:
    """From now on write down each file below ``root`` once, in children of a fork too."""
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    known = set()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        path = file_of(event, arguments)
        if path is None or path in known:
            return
        known.add(path)
        full = os.path.abspath(os.fsdecode(path))
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
    if event == "ctypes.dlopen":
        return arguments[0]
    if event == "exec":  # a module, whether it comes from its source or is compiled already
        path = arguments[0].co_filename
        return path if os.path.isabs(path) else None
    return None
