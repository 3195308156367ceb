"""Build the book, or store fresh outputs: ``python book/_ext/make_book.py html|refresh``.

What has not changed is not built again; what takes long to import is imported when it is needed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import contents

ROOT = Path(__file__).resolve().parents[2]
# What pages are made of. The last is for the code that made the tables they show.
SOURCES = (
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "book",
    "notebooks",
    "lnlib",
    "benchmarks",
)
FEW = 10  # MB, on a disk that is as good as full
FINISHED = "finished"  # in _build, says of what the last build was if it went through


def fingerprint(root: Path) -> str:
    """Return a digest of every file that the pages are made of, and of the Python that runs."""
    total = hashlib.sha256(sys.version.encode())
    for path in sorted(_files(root)):
        name = path.relative_to(root).as_posix()
        total.update(f"{name} {path.stat().st_size} ".encode() + path.read_bytes())
    return total.hexdigest()


def _files(root: Path) -> list[Path]:
    found = []
    for source in SOURCES:
        paths = (root / source).rglob("*") if (root / source).is_dir() else [root / source]
        found += [path for path in paths if path.is_file()]
    passing = {"__pycache__", ".ipynb_checkpoints"}
    return [path for path in found if not passing.intersection(path.parts)]


def build_html(root: Path) -> int:
    """Execute what changed, build the HTML with warnings as errors, print the page to open."""
    build, now = root / "_build", fingerprint(root)
    finished, index = build / FINISHED, build / "html" / "index.html"
    if finished.exists() and finished.read_text() == now and index.exists():
        print(f"Nothing has changed since the book was built. Open {index.as_uri()}")
        return 0
    status = 1
    if finished.exists():
        finished.write_text("")  # the pages are whole, but the runs are about to change
    if run_what_changed(root):
        finished.unlink(missing_ok=True)
        status = write_pages(root)
    if status:
        print("\nThe book was not built: see the warnings and errors above.", file=sys.stderr)
        return status
    # What was changed meanwhile may be on the pages or not.
    finished.write_text(now if fingerprint(root) == now else "")
    print(f"\nThe book is built. Open {index.as_uri()}")
    return 0


def write_pages(root: Path) -> int:
    """Let Jupyter Book write the pages that changed, and return its exit status."""
    # jsonschema would compile a grammar of addresses with it, which takes three seconds.
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    from jupyter_book.cli.main import main

    try:
        main(["build", f"{root}", "-W", "-n", "--keep-going"], standalone_mode=False)
    except SystemExit as ended:
        if isinstance(ended.code, KeyboardInterrupt):  # what Jupyter Book makes of one
            raise KeyboardInterrupt from None
        return int(ended.code or 0)
    except RuntimeError as failed:  # Sphinx has told why
        print(failed, file=sys.stderr)
        return 1
    return 0


def run_what_changed(root: Path) -> bool:
    """Run every notebook that something it depends on has changed for; tell if all went through."""
    import digests
    import runs

    build = root / "_build"
    if not (build / FINISHED).exists():
        # The last build failed or was interrupted. Sphinx warns only about pages it reads, and it
        # would take a page that was half written for one that is up to date.
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
        runs.drop_broken_cache(build)
    return runs.fill_cache(root, digests.notebooks(root))


def refresh(root: Path, paths: list[Path]) -> int:
    """Put all notebooks in order, and store in those that are named, or all, what a run says.

    A run that is up to date, as after a build, is taken; a notebook that fails keeps its outputs.
    """
    import digests
    import found
    import likeness
    import nbformat
    import runs
    import tidy

    complaints = tidy.tidy_all(root)
    print(*complaints, sep="\n", file=sys.stderr, end="\n" if complaints else "")
    paths = paths or digests.notebooks(root)
    is_fine = runs.fill_cache(root, paths)
    for path in paths:
        fresh = runs.stored_run(root, path)
        if fresh is not None:
            stored = nbformat.read(path, as_version=4)
            found.keep_digits(stored, runs.stable(fresh))
            likeness.keep_pictures(stored, fresh)
            digests.write(path, nbformat.writes(fresh) + "\n")
    return 0 if is_fine and not complaints else 1


class BusyError(Exception):
    """Another process is at work here; the message says which."""


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keep every other build of this checkout out; one that has died keeps out none.

    Raises: BusyError.
    """
    build = root / "_build"
    build.mkdir(exist_ok=True)
    with (build / "lock").open("a+", encoding="utf8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise BusyError(f"{lock.read()} Wait for it, or stop it.") from None
        lock.truncate(0)
        since = f"since {datetime.now():%H:%M}"
        lock.write(f"Process {os.getpid()} has been at work in {build} {since}.")
        lock.flush()
        yield


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="make_book.py", description=__doc__)
    parser.add_argument("command", choices=["html", "refresh"])
    parser.add_argument("notebook", nargs="*", type=Path, help="refresh these only (default: all)")
    arguments = parser.parse_args()
    if not os.access(ROOT, os.W_OK):
        print(
            f"Nothing can be written in {ROOT}: copy the checkout and build there.", file=sys.stderr
        )
        return 1
    try:
        contents.pages(ROOT)
        with alone(ROOT):
            if arguments.command == "html":
                status = build_html(ROOT)
            else:
                status = refresh(ROOT, [path.resolve() for path in arguments.notebook])
    except (contents.ContentsError, BusyError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Finished runs are kept; the same command goes on.", file=sys.stderr)
        return 130
    except Exception:
        if not is_full(ROOT):
            raise
        status = 1
    if status and is_full(ROOT):
        print(f"Fewer than {FEW} MB are left on the disk of {ROOT}: make room.", file=sys.stderr)
    return status


def is_full(folder: Path) -> bool:
    """Tell whether a disk has no room left to speak of; what failed on it may have freed a bit."""
    return shutil.disk_usage(folder).free < FEW * 2**20


if __name__ == "__main__":
    sys.exit(main())
