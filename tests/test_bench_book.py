"""What `bench_book` measures: the copy, whole pages and every load, and nothing from the web."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_book
import book_builds
import nbformat
import page_loads
import page_server
import page_tables
import pytest
import stock_route
import yaml
from docutils import nodes
from drawings import pages
from matplotlib import pyplot as plt

from lnlib.book.home import ROOT
from lnlib.book.records import tables

BUDGET = 3e6  # bytes, as book/benchmarks.md says
RESULTS = ROOT / "benchmarks" / "results"


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


# Builds


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with a tracked, an edited, a new, an ignored and a removed file."""
    root = tmp_path / "a checkout"
    (root / "sub").mkdir(parents=True)
    files = {"kept.txt": "kept", "sub/edited.txt": "old", "gone.txt": "gone", ".gitignore": "out/"}
    for name, text in files.items():
        (root / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    (root / "sub" / "edited.txt").write_text("new")
    (root / "sub" / "ü untracked.txt").write_text("untracked")
    (root / "gone.txt").unlink()
    (root / "out").mkdir()
    (root / "out" / "built.txt").write_text("built")
    return root


def test_the_copy_is_the_working_tree_without_builds(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    book_builds.copy_checkout(checkout, target)
    found = {
        path.relative_to(target).as_posix(): path.read_text()
        for path in target.rglob("*")
        if path.is_file()
    }
    assert found == {
        ".gitignore": "out/",
        "kept.txt": "kept",
        "sub/edited.txt": "new",
        "sub/ü untracked.txt": "untracked",
    }


def test_a_copy_builds_itself_and_not_the_installed_package(tmp_path: Path) -> None:
    package = tmp_path / "lnlib"
    package.mkdir()
    (package / "__init__.py").write_text("print(__file__)")
    # -P: as in a kernel, whose folder is another.
    _, output = book_builds.run_in(tmp_path, "-P", "-c", "import lnlib")
    assert Path(output.strip()) == package / "__init__.py"


def test_a_failing_build_stops_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no such luck"):
        book_builds.run_in(tmp_path, "-c", "raise SystemExit('no such luck')")


def test_only_executed_notebooks_count_as_run() -> None:
    log = (
        "a.ipynb: Executing notebook using local CWD [mystnb]\n"
        "a.ipynb: Executed notebook in 14.47 seconds [mystnb]\n"
        "a.ipynb: Cached executed notebook: ID=3 [mystnb]\n"
        "b.ipynb: Using cached notebook: ID=2 [mystnb]\n"
        "c.ipynb: Executed notebook in 3.00 seconds [mystnb]\n"
    )
    assert book_builds.executed(log) == 2


def test_nbval_runs_as_in_the_makefile(tmp_path: Path) -> None:
    assert "--nbval" in book_builds.nbval_options(ROOT)
    (tmp_path / "Makefile").write_text("X := 1\nNBVAL  := --nbval --slow\n")
    assert book_builds.nbval_options(tmp_path) == ["--nbval", "--slow"]


@pytest.fixture
def small_book(tmp_path: Path) -> Path:
    """Three notebooks, of which one calls a function of lnlib."""
    sources = {"uses": "import lnlib.one\nlnlib.one.f()", "plain": "import math"}
    sources["other"] = "import lnlib.one"
    for name, source in sources.items():
        cells = [nbformat.v4.new_markdown_cell("# Text"), nbformat.v4.new_code_cell(source)]
        notebook = nbformat.v4.new_notebook(cells=cells)
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        nbformat.write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
    chapters = [{"file": f"notebooks/{name}"} for name in sources]
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump({"parts": [{"chapters": chapters}]}))
    (tmp_path / "lnlib").mkdir()
    (tmp_path / "lnlib" / "__init__.py").write_text("")
    (tmp_path / "lnlib" / "one.py").write_text("def f():\n    return 1\n")
    (tmp_path / "requirements.txt").write_text("")
    return tmp_path


def test_a_changed_function_runs_again_who_calls_it_and_is_taken_back(small_book: Path) -> None:
    module = small_book / "lnlib" / "one.py"
    before = module.read_text()
    assert book_builds.run_again_by(small_book, "lnlib/one.py", "f") == 1
    assert module.read_text() == before


def test_every_function_that_is_changed_is_there(tmp_path: Path) -> None:
    for module, name in (book_builds.OF_ONE, *book_builds.COUNTED):
        text = (ROOT / module).read_text(encoding="utf8")
        (tmp_path / "copy.py").write_text(text, encoding="utf8")
        book_builds.change_function(tmp_path / "copy.py", name)
        lines = (tmp_path / "copy.py").read_text(encoding="utf8").splitlines()
        assert [line.strip() for line in lines].count("pass") == 1


def test_changed_prose_changes_no_code(small_book: Path) -> None:
    path = small_book / "notebooks" / "uses.ipynb"
    before = nbformat.read(path, as_version=4)
    book_builds.change_prose(small_book)
    after = nbformat.read(path, as_version=4)
    assert after.cells[0].source != before.cells[0].source
    assert after.cells[1:] == before.cells[1:]


# The server, and what it answers for the CDNs


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The packages of the stock route, as `fetch` leaves them, with a line in place of each."""
    files = {
        "require.min.js": "require",
        "jupyter-widgets-html-manager-1.0.6/package/dist/embed-amd.js": "manager",
        "anywidget-0.11.0/package/dist/index.js": "anywidget",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_script_that_myst_nb_names_is_answered(cache: Path) -> None:
    for url in stock_route.ipywidgets_js_factory():
        host, path = url.removeprefix("https://").split("/", 1)
        assert stock_route.find(cache, host, f"/{path}"), url


@pytest.mark.parametrize(
    ("host", "path", "text"),
    [
        ("cdn.jsdelivr.net", "/npm/anywidget@~0.11.*/dist/index.js", b"anywidget"),
        ("cdn.jsdelivr.net", "/npm/mathjax@3/es5/tex-mml-chtml.js", b"MathJax"),
        (
            "cdn.jsdelivr.net",
            "/npm/mathjax@3/es5/output/chtml/fonts/woff-v2/MathJax_Zero.woff",
            b"wOFF",
        ),
    ],
)
def test_what_the_scripts_ask_for_is_answered(
    cache: Path, host: str, path: str, text: bytes
) -> None:
    file = stock_route.find(cache, host, path)
    assert file is not None
    assert text in file.read_bytes()


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("cdn.jsdelivr.net", "/npm/anywidget@~0.12.*/dist/index.js"),
        ("cdn.jsdelivr.net", "/npm/mathjax@3/es5/none.js"),
        ("elsewhere.net", "/npm/mathjax@3/es5/tex-mml-chtml.js"),
        ("cdnjs.cloudflare.com", "/"),
    ],
)
def test_nothing_else_is_answered(cache: Path, host: str, path: str) -> None:
    assert stock_route.find(cache, host, path) is None


def test_a_page_that_lacks_something_is_not_timed() -> None:
    known = ["stock.test/notebooks/anywidget.js"]
    bench_book.refuse_unanswered(known)
    for url in ("cdn.jsdelivr.net/npm/x.js", "book.test/notebooks/anywidget.js"):
        with pytest.raises(SystemExit, match=url):
            bench_book.refuse_unanswered([*known, url])


def test_a_package_with_another_digest_is_thrown_away(tmp_path: Path) -> None:
    archive = tmp_path / stock_route.ANYWIDGET.archive
    archive.write_bytes(b"not what was meant")
    with pytest.raises(stock_route.UnavailableError, match="digest"):
        stock_route.unpack(archive, stock_route.ANYWIDGET)
    assert not archive.exists()


def test_without_node_the_stock_route_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(stock_route.UnavailableError, match="node is not installed"):
        stock_route.fetch(tmp_path)


def test_the_stock_route_has_nothing_of_this_book_and_html_manager_last(tmp_path: Path) -> None:
    ours = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    stock = stock_route.stock_config(ours, tmp_path)
    text = json.dumps(stock)
    for name in ("lnlib.book", "explorers.js", "book.css", "mathjax_path"):
        assert name in json.dumps(ours)
        assert name not in text
    first, last = stock["sphinx"]["config"]["nb_ipywidgets_js"]
    assert "require" in first
    assert "html-manager" in last
    assert stock["execute"]["cache"] == f"{tmp_path}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[page_server.Server]:
    """A server without TLS, which takes no openssl, of one folder for one host."""

    def find(host: str, path: str) -> Path | None:
        file = tmp_path / path.lstrip("/")
        return file if host == "book.test" and file.is_file() else None

    class Plain:
        def __init__(self, protocol: object) -> None: ...
        def load_cert_chain(self, certificate: Path) -> None: ...
        def wrap_socket(self, request: Any, server_side: bool) -> Any:
            return request

    monkeypatch.setattr(page_server.ssl, "SSLContext", Plain)
    monkeypatch.setattr(page_server, "certify", lambda folder: folder)
    with page_server.serving(find, tmp_path) as running:
        yield running


def asked(server: page_server.Server, host: str, path: str) -> tuple[int, bytes, Any]:
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    request = urllib.request.Request(url, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def test_the_server_counts_what_it_sends(server: page_server.Server, tmp_path: Path) -> None:
    text, picture = b"<p>text</p>" * 97, bytes(range(251))
    (tmp_path / "page.html").write_bytes(text)
    (tmp_path / "drawn.png").write_bytes(picture)
    status, body, heads = asked(server, "book.test", "/page.html?v=1")
    assert (status, gzip.decompress(body)) == (200, text)
    assert heads["Content-Type"] == "text/html"
    assert asked(server, "book.test", "/drawn.png")[1] == picture
    assert [each[1:] for each in server.sent] == [
        ("/page.html", len(body), len(text)),
        ("/drawn.png", len(picture), len(picture)),
    ]
    assert bench_book.sizes_of(server) == {
        "requests": 2,
        "sent": len(body) + len(picture),
        "unpacked": len(text) + len(picture),
    }


def test_the_server_notes_what_it_lacks(server: page_server.Server) -> None:
    assert asked(server, "book.test", "/none.js")[0] == 404
    assert asked(server, "cdn.example", "/x.js")[0] == 404
    assert asked(server, "book.test", "/favicon.ico")[0] == 404  # a browser's own wish
    assert server.unanswered == ["book.test/none.js", "cdn.example/x.js"]
    assert bench_book.sizes_of(server)["requests"] == 2


# Arithmetic


def test_a_page_weighs_all_its_files_and_text_compressed(tmp_path: Path) -> None:
    text, picture = tmp_path / "a.css", tmp_path / "b.woff2"
    text.write_bytes(b"p{}" * 331)
    picture.write_bytes(b"\0" * 777)
    found = page_loads.weight([text, picture])
    assert found["requests"] == 2
    assert found["bytes"] == 993 + 777
    assert found["compressed"] == len(gzip.compress(text.read_bytes())) + 777


def test_a_summary_has_median_and_quartiles_of_each_time() -> None:
    times = [{"live": live, "handler": 1.0} for live in (90.0, 10.0, 50.0, 20.0, 40.0)]
    live, handler = bench_book.summaries("this book", "fast", times)
    assert (live["low"], live["value"], live["high"]) == (20.0, 40.0, 50.0)
    assert (handler["low"], handler["value"], handler["high"]) == (1.0, 1.0, 1.0)
    assert (live["what"], live["unit"], live["loads"]) == ("live", "ms", 5)


def test_pages_are_those_that_a_reader_opens(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    page = "<!DOCTYPE html>" + "<p>" * 300
    for name in ("a.html", "_static/b.html"):
        (tmp_path / name).write_text(page)
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=a.html" />')
    assert bench_book.pages_of(tmp_path) == [tmp_path / "a.html"]


# What is recorded, and what the page shows of it


@pytest.mark.parametrize("name", ["book", "book_loads"])
def test_each_row_says_where_and_when(name: str) -> None:
    rows = table(name)
    assert rows
    for row in rows:
        assert row["date"]
        assert row["machine"]
        assert float(row["value"]) >= 0


def test_no_recorded_page_is_above_the_budget() -> None:
    weights = {
        row["subject"]: float(row["value"])
        for row in table("book")
        if row["what"] == "page compressed"
    }
    assert "notebooks/02_epsilon" in weights
    over = {page for page, sent in weights.items() if sent > BUDGET}
    assert over <= {"book/benchmarks"}  # the page says so of itself
    assert weights["book/benchmarks"] < 3.35e6


def test_the_table_of_loads_tells_each_value_by_its_unit() -> None:
    def line(route: str, what: str, value: str, unit: str, network: str = "") -> dict[str, str]:
        row = {"route": route, "network": network, "what": what, "value": value, "unit": unit}
        return row | {"low": "950", "high": "1250"}

    ours, stock = page_tables.ROUTES
    rows = [
        line(ours, "live", "1204", "ms", "4G"),
        line(stock, "live", "3000", "ms", "4G"),
        line(ours, "sent", "1299333", "B"),
        line(ours, "follows the arrow keys", "1", "yes or no"),
        line(stock, "follows the arrow keys", "0", "yes or no"),
    ]
    (shown,) = page_tables.book_loads(rows)
    lines = [[entry.astext() for entry in each] for each in shown.findall(nodes.row)]
    assert lines[1:] == [
        ["explorer shown, 4G", "1.20 s (0.95 s to 1.25 s)", "3.00 s (0.95 s to 1.25 s)"],
        ["sent, compressed", "1.30 MB", "–"],
        ["follows the arrow keys", "yes", "no"],
    ]


def test_the_table_of_builds_has_time_and_runs_of_each() -> None:
    rows = [
        {"what": "build", "subject": "cold", "value": "99.5"},
        {"what": "notebooks run by a build", "subject": "cold", "value": "12"},
        {"what": "notebooks run by a build", "subject": "a comment", "value": "11"},
    ]
    (shown,) = page_tables.book(rows)
    lines = [[entry.astext() for entry in each] for each in shown.findall(nodes.row)]
    assert lines[1:] == [["cold", "99.5 s", "12"], ["a comment", "not built", "11"]]


def test_the_table_of_explorers_names_the_slowest_control() -> None:
    row = {"explorer": "E", "bytes": "45002"}
    rows = [
        row | {"control": "quick", "handler_ms_p95": "9.5"},
        row | {"control": "slow", "handler_ms_p95": "10.5"},
    ]
    (shown,) = page_tables.explorers(rows)
    lines = [[entry.astext() for entry in each] for each in shown.findall(nodes.row)]
    assert lines[1:] == [["E", "45 kB", "2", "10.5 ms, slow"]]


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)

    def write(name: str, rows: list[dict[str, object]]) -> None:
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)

    yield write
    plt.close("all")


def test_marks_stand_at_the_medians_in_seconds_with_their_quartiles(drawn: Any) -> None:
    spots = {"this book": 500.0, "stock Jupyter Book": 1700.0}
    later = {"near": 0.0, "far": 9000.0}
    rows = [
        bench_book.load_row(route, network, what, middle, "ms", 3)
        | {"low": middle - 30, "high": middle + 70}
        for network, delay in later.items()
        for route, value in spots.items()
        for n, what in enumerate(pages.STEPS)
        if (middle := value + delay + 100 * n)
    ]
    rows.append(bench_book.load_row("this book", "", "sent", 5, "B", 1))
    drawn("book_loads", rows)
    figure = pages.loads()
    assert [ax.get_title() for ax in figure.axes] == list(later)
    for ax, delay in zip(figure.axes, later.values(), strict=True):
        ours, stock = ax.containers[:3], ax.containers[3:]
        for containers, value in zip((ours, stock), spots.values(), strict=True):
            for n, container in enumerate(containers):
                line, _, (bar,) = container
                middle = (value + delay + 100 * n) / 1000
                assert line.get_xdata()[0] == pytest.approx(middle)
                ends = [x for x, _ in bar.get_segments()[0]]
                assert ends == pytest.approx([middle - 0.03, middle + 0.07])


def test_bars_are_the_compressed_bytes_longest_first(drawn: Any) -> None:
    drawn(
        "book",
        [
            book_builds.row("page compressed", "book/short", 840_000, "B"),
            book_builds.row("page compressed", "notebooks/long", 2_500_000, "B"),
            book_builds.row("page bytes", "notebooks/long", 9_000_000, "B"),
        ],
    )
    (ax,) = pages.weight().axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([2.5, 0.84])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["long", "short"]
