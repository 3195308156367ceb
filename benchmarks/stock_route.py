"""The book's notebooks as Jupyter Book 1 builds them on its own: the route this book left.

Without `sphinx_ext` a page with a widget loads RequireJS, html-manager and anywidget
from two CDNs, and MathJax from one of them. `fetch` brings those packages from npm, by checksum;
`find` answers for the CDNs with their files.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from make_book import JUPYTER_BOOK
from myst_nb.core.config import ipywidgets_js_factory

MATHJAX = r"/npm/mathjax@3/es5/(.+)"
OURS_ALONE = (  # options of _config.yml that a stock book does not have
    "nb_ipywidgets_js",
    "mathjax_path",
    "html_static_path",
    "html_css_files",
    "html_js_files",
)


class UnavailableError(Exception):
    """The stock route cannot be had here; says why."""


class Package(NamedTuple):
    """An npm package and the digest of its archive."""

    name: str
    version: str
    sha256: str

    @property
    def archive(self) -> str:
        """The name that ``npm pack`` gives the archive."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


REQUIRE = Package(
    "requirejs", "2.3.4", "583693b373f6ab0528ea6644fab5cdb5822011c9b5b1ff1615590d5f2f473dcd"
)
MANAGER = Package(
    "@jupyter-widgets/html-manager",
    "1.0.6",
    "6c198ceb99ba7e7526990a1de16e8147ad7d3a714e3fb06741183623c04b5f6e",
)
ANYWIDGET = Package(
    "anywidget", "0.11.0", "44efed0d0c9999ec94cd3a86e317e902591f01df8edb3c8006b7e390b7e15ed8"
)
UGLIFY = Package(
    "uglify-js", "3.19.3", "744d9f31fe424514dd44728daa3e562a703fca53b6627ddeb655f77c2aa88ab4"
)
PACKAGES = (REQUIRE, MANAGER, ANYWIDGET, UGLIFY)


def fetch(cache: Path) -> Path:
    """Bring the packages into ``cache``, unless they are there, and return it.

    Raises:
        UnavailableError: npm or node is missing, npm reaches no registry, or a package is not the
            one that was meant.
    """
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{tool} is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        archive = cache / package.archive
        if not archive.exists():
            command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
            packed = subprocess.run(command, cwd=cache, capture_output=True, text=True)
            if packed.returncode:
                raise UnavailableError(f"npm could not bring {package.name} {package.version}")
        unpack(archive, package)
    minified = cache / "require.min.js"
    # The CDN has RequireJS minified, npm has not.
    uglify = cache / f"uglify-js-{UGLIFY.version}" / "package" / "bin" / "uglifyjs"
    source = file_of(cache, REQUIRE, "require.js")
    command = ["node", f"{uglify}", "-c", "-m", "-o", f"{minified}", "--", f"{source}"]
    subprocess.run(command, check=True)
    return cache


def unpack(archive: Path, package: Package) -> None:
    """Unpack an archive beside itself.

    Raises:
        UnavailableError: its digest is another; the archive is removed.
    """
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != package.sha256:
        archive.unlink()
        raise UnavailableError(f"{archive.name} has the digest {digest}, not {package.sha256}")
    with tarfile.open(archive) as tar:
        tar.extractall(archive.with_suffix(""), filter="data")


def file_of(cache: Path, package: Package, path: str) -> Path:
    """Return where a file of a package lies once it is unpacked."""
    return cache / package.archive.removesuffix(".tgz") / "package" / path


def find(cache: Path, host: str, path: str) -> Path | None:
    """Return the file that a CDN has at ``path``, or None for one that it was not asked for yet."""
    exact = {
        (
            "cdnjs.cloudflare.com",
            "/ajax/libs/require.js/2.3.4/require.min.js",
        ): cache / "require.min.js",
        (
            "cdn.jsdelivr.net",
            "/npm/@jupyter-widgets/html-manager@1.0.6/dist/embed-amd.js",
        ): file_of(cache, MANAGER, "dist/embed-amd.js"),
        # The range of versions in which html-manager looks for the widget's module.
        ("cdn.jsdelivr.net", "/npm/anywidget@~0.11.*/dist/index.js"): file_of(
            cache, ANYWIDGET, "dist/index.js"
        ),
    }
    file = exact.get((host, path))
    mathjax = re.fullmatch(MATHJAX, path) if host == "cdn.jsdelivr.net" else None
    if mathjax:  # the package that this book copies its MathJax from
        root = Path(f"{resources.files('mathjax')}") / "static" / "mathjax" / "es5"
        file = root / mathjax[1]
    return file if file is not None and file.is_file() else None


def stock_config(ours: dict[str, Any], cache: Path) -> dict[str, Any]:
    """Return ``_config.yml`` without what this book puts in place of the stock route.

    Args:
        ours: the content of this book's file, which stays as it is.
        cache: of Jupyter Book, with the runs of the notebooks.
    """
    config = copy.deepcopy(ours)
    config["sphinx"].pop("local_extensions")
    for option in OURS_ALONE:
        del config["sphinx"]["config"][option]
    scripts = ipywidgets_js_factory()
    for attributes in scripts.values():
        # Of RequireJS as the CDN minified it, whose bytes npm does not have.
        attributes.pop("integrity", None)
    config["sphinx"]["config"]["nb_ipywidgets_js"] = scripts
    config["execute"]["cache"] = f"{cache}"
    return config


def build(book: Path, work: Path) -> Path:
    """Build the notebooks of ``book`` into ``work`` without its extension; return the pages.

    The runs of the notebooks are taken from the cache of ``book``.

    Raises:
        UnavailableError: the build failed.
    """
    cache = work / "cache"
    shutil.copytree(book / "_build" / ".jupyter_cache", cache)
    ours = yaml.safe_load((book / "_config.yml").read_text(encoding="utf8"))
    config = work / "stock.yml"
    # In the order given: RequireJS has to come before html-manager.
    text = yaml.safe_dump(stock_config(ours, cache), sort_keys=False)
    config.write_text(text, encoding="utf8")
    options = ["build", f"{book}", "--config", f"{config}", "--path-output", f"{work}"]
    command = [sys.executable, "-c", JUPYTER_BOOK, *options]
    environment = os.environ | {"PYTHONPATH": f"{book}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    pages = work / "_build" / "html"
    if done.returncode or not pages.is_dir():
        raise UnavailableError(f"stock Jupyter Book did not build: {done.stderr[-300:]}")
    return pages
