"""Runs of notebooks: a process for each core, one thread in each.

MyST-NB runs notebooks one after another while it reads them. It finds here what has run before.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import nbformat
from digests import CACHE, NEEDS_TRITON
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from lnlib.book import style
from lnlib.triton_kernel.runtime import why_not

LONGEST = 180  # seconds that a cell may take
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def isolate_kernels(folder: Path) -> None:
    """Keep a reader's own IPython profile, and a warning about local sockets, out of the runs."""
    profile = folder / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
    os.environ["IPYTHONDIR"] = str(profile.parent)


def fill_cache(build: Path, paths: list[Path]) -> bool:
    """Run the notebooks whose run is not in the cache, and tell whether all went through.

    Each runs top to bottom, in its own folder; what one raises is printed.
    """
    isolate_kernels(build)
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", style.PAGES: "yes"}
    cache = get_cache(build / CACHE)
    missing = [path for path in paths if stored_run(cache, path) is None]
    if why_not() is not None:
        missing = [path for path in missing if path.stem != NEEDS_TRITON]
    try:
        return asyncio.run(_run_all(missing, cache))
    finally:
        del os.environ[style.PAGES]


async def _run_all(paths: list[Path], cache: JupyterCacheAbstract) -> bool:
    cores = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(path: Path) -> bool:
        notebook = nbformat.read(path, as_version=4)
        place = {"metadata": {"path": f"{path.parent}"}}
        # With times in its cells, the cache would not know the notebook again.
        client = NotebookClient(notebook, timeout=LONGEST, record_timing=False, resources=place)
        async with cores:
            start = time.monotonic()
            try:
                await client.async_execute()
            except (CellExecutionError, CellTimeoutError) as raised:
                print(f"{raised}\n{path.name} FAILED", flush=True)
                return False
        seconds = time.monotonic() - start
        bundle = CacheBundleIn(notebook, f"{path}", data={"execution_seconds": seconds})
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        print(f"ran {path.name}, {seconds:.0f} s", flush=True)
        return True

    # Those at the end of the book take the longest: they start first.
    return all(await asyncio.gather(*map(one, reversed(paths))))


def stored_run(cache: JupyterCacheAbstract, path: Path) -> Any:
    """Return a notebook with the outputs of the run that a cache holds, None if it holds none."""
    try:
        return cache.merge_match_into_notebook(nbformat.read(path, as_version=4))[1]
    except KeyError:
        return None


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
