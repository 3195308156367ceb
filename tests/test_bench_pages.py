"""The meter of the pages counts whole pages and every file, and `make bench` runs every script."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import bench_pages
import pytest

from lnlib.book.home import ROOT


def test_a_page_weighs_all_its_files_and_text_compressed(tmp_path: Path) -> None:
    text, picture = tmp_path / "a ü.css", tmp_path / "b.woff2"
    text.write_bytes(b"p{}" * 331)
    picture.write_bytes(b"\0" * 777)
    found = bench_pages.weight([text.as_uri(), f"{picture.as_uri()}?v=1", "data:,x"])
    sent = len(gzip.compress(text.read_bytes())) + 777
    assert found == {"requests": 2, "bytes": 993 + 777, "compressed": sent}


def test_a_page_that_asks_for_something_elsewhere_is_not_weighed() -> None:
    with pytest.raises(ValueError, match=r"cdn\.example"):
        bench_pages.weight(["https://cdn.example/x.js"])


def test_pages_are_those_that_a_reader_opens(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    for name in ("a.html", "_static/b.html"):
        (tmp_path / name).write_text("<!DOCTYPE html>" + "<p>" * 300)
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=a.html" />')
    assert bench_pages.pages_of(tmp_path) == [tmp_path / "a.html"]


def test_every_benchmark_has_its_turn_in_make_bench_or_bench_long() -> None:
    command = ["make", "--dry-run", "bench-long"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
    measure = {name for name in scripts if name.startswith(("bench_", "sweep_"))}
    assert set(re.findall(r"benchmarks/(\w+\.py)$", said, re.MULTILINE)) == measure
