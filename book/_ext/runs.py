"""Runs of notebooks: a process for each core, one thread in each.

MyST-NB runs notebooks one after another while it reads them. It finds here what has run before.
A run is stored with what it has read, and counts until one of those files has changed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import reads
from digests import CACHE, NEEDS_TRITON, digests_of
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.cache.db import NbCacheRecord
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from lnlib.book import style
from lnlib.triton_kernel.runtime import why_not

LONGEST = 180  # seconds that a cell may take
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def isolate_kernels(root: Path) -> None:
    """Keep a reader's own IPython profile, and a warning about local sockets, out of the runs."""
    profile = root / "_build" / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
    os.environ["IPYTHONDIR"] = str(profile.parent)


def fill_cache(root: Path, paths: list[Path]) -> bool:
    """Run the notebooks of which the cache holds no run that counts; tell if all went through.

    Each runs top to bottom, in its own folder; what one raises is printed.
    """
    reasons = {path: why_it_runs(root, path) for path in paths}
    missing = {path: reason for path, reason in reasons.items() if reason}
    if why_not() is not None:
        missing = {p: reason for p, reason in missing.items() if p.stem != NEEDS_TRITON}
    for path, reason in missing.items():
        print(f"will run {path.name}: {reason}", flush=True)
    isolate_kernels(root)
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", style.PAGES: "yes"}
    try:
        return asyncio.run(_run_all(root, [*missing]))
    finally:
        del os.environ[style.PAGES]


async def _run_all(root: Path, paths: list[Path]) -> bool:
    cores = asyncio.Semaphore(os.cpu_count() or 1)
    # nbclient would take Ctrl-C to end one kernel; asyncio cancels all.
    asyncio.get_running_loop().add_signal_handler = lambda *_: None  # type: ignore[method-assign]

    async def one(path: Path) -> bool:
        async with cores:
            return await _run(root, path)

    async with asyncio.TaskGroup() as group:
        # Those at the end of the book take the longest: they start first.
        tasks = [group.create_task(one(path)) for path in reversed(paths)]
    return all(task.result() for task in tasks)


async def _run(root: Path, path: Path) -> bool:
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": f"{path.parent}"}}
    # With times in its cells, the cache would not know the notebook again.
    client = NotebookClient(notebook, timeout=LONGEST, record_timing=False, resources=place)
    client.shutdown_kernel = "immediate"  # one that is interrupted would tell of its sockets
    with tempfile.TemporaryDirectory() as folder:
        log, start = Path(folder) / "reads", time.time()
        try:
            await client.async_execute(env=reads.environment(f"{root}", f"{log}"))
        except (CellExecutionError, CellTimeoutError) as raised:
            print(f"{raised}\n{path.name} FAILED", flush=True)
            return False
        except DeadKernelError:
            task = asyncio.current_task()
            if task and task.cancelling():  # nbclient takes any cancellation for a death
                raise asyncio.CancelledError from None
            raise
        seconds = time.time() - start
        read = digests_of(root, log.read_text(encoding="utf8").splitlines())
    for name in read:
        if (root / name).exists() and (root / name).stat().st_mtime > start:
            read[name] = "changed while it ran"
    data = {"execution_seconds": seconds, "read": read}
    cache = get_cache(root / "_build" / CACHE)
    bundle = CacheBundleIn(notebook, f"{path}", data=data)
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    print(f"ran {path.name}, {seconds:.0f} s", flush=True)
    return True


def why_it_runs(root: Path, path: Path) -> str:
    """Return why the cache holds no run of a notebook that counts, "" if it holds one."""
    record = record_of(root, path)
    if record is None:
        return "its code is new"
    then = record.data.get("read", {})
    now = digests_of(root, then)
    changed = [name for name in now if now[name] != then.get(name)]
    more = f" and {len(changed) - 1} more" * (len(changed) > 1)
    return f"{changed[0]}{more} changed" if changed else ""


def record_of(root: Path, path: Path) -> NbCacheRecord | None:
    """Return what the cache knows of a run of a notebook's code, None if there was none."""
    cache = get_cache(root / "_build" / CACHE)
    try:
        return cache.match_cache_notebook(nbformat.read(path, as_version=4))
    except KeyError:
        return None


def stored_run(root: Path, path: Path) -> Any:
    """Return a notebook with the outputs of its run, None if it has none that counts."""
    if why_it_runs(root, path):
        return None
    notebook = nbformat.read(path, as_version=4)
    return get_cache(root / "_build" / CACHE).merge_match_into_notebook(notebook)[1]


def drop_broken_cache(build: Path) -> None:
    """Throw the cache away if a run is registered that was not stored: it could not be replaced."""
    folder = build / CACHE
    if not folder.exists():
        return
    cache = get_cache(folder)
    try:
        for record in cache.list_cache_records():
            cache.get_cache_bundle(record.pk)
    except (KeyError, ValueError):  # there is no such file, or it is cut off
        shutil.rmtree(folder)


def stable(notebook: Any) -> Any:
    """Drop from an executed notebook what differs from run to run: widget ids, times, chunks."""
    name = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    # What a kernel says when it starts: JupyterLab would write it, and the notebook be changed.
    told = notebook.metadata.language_info
    notebook.metadata = {"kernelspec": name, "language_info": told}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
        for output in cell.get("outputs", []):
            # A picture and a sentence stand for the widget where no kernel runs; SVG is for pages.
            for kind in (WIDGET_VIEW, "image/svg+xml"):
                output.get("data", {}).pop(kind, None)
    return notebook


def merge_streams(outputs: list[Any]) -> list[Any]:
    """Join what a cell printed: the kernel sends it in chunks, cut where the clock says."""
    merged: list[Any] = []
    for output in outputs:
        last: Any = merged[-1] if merged else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged
