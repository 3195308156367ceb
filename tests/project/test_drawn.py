"""A page draws what a benchmark recorded, as a numbered figure that everybody can read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from drawings import DRAWINGS

from lnlib.book.home import ROOT
from lnlib.book.records import tables

# A book with one table and one drawing of it, on two of its pages.
CONF = """
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from lnlib.book.records import tables
from drawings import DRAWINGS
from drawn import Drawn
import toy

tables.RESULTS = Path(__file__).parent / "results"
DRAWINGS["toy"] = toy.draw
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
numfig = True

def setup(app):
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True}
"""
TOY = """
from lnlib.book import style
from lnlib.book.records.tables import recorded

def draw():
    fig, ax = style.figure(height=2.5)
    ax.plot(recorded("toy")["height"])
    return fig
"""
ALT = "A line that starts at one, climbs to two and then falls back to one again."
PAGE = f"""# Toys

What {{numref}}`fig-toy` shows.

```{{drawn}} toy
:name: fig-toy
:alt: {ALT}
It climbs by $x^2$ to the *end*.
```
"""
AGAIN = f"# More toys\n\n```{{drawn}} toy\n:alt: {ALT}\nThe same, without a name.\n```\n"


def write_book(root: Path, pages: dict[str, str]) -> Path:
    contents = "# All\n\n```{toctree}\n" + "\n".join(pages) + "\n```\n"
    files = {f"{name}.md": text for name, text in pages.items()}
    files |= {"index.md": contents, "conf.py": CONF, "toy.py": TOY}
    (root / "results").mkdir(parents=True)
    (root / "results" / "toy.csv").write_text("height\n1\n2\n1\n")
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf8")
    return root


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages, warnings as errors, in a process that has another backend by default."""
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-j", "2"]
    paths = os.pathsep.join([f"{ROOT}", f"{ROOT / 'book' / '_ext'}"])
    environment = os.environ | {"PYTHONPATH": paths, "MPLBACKEND": "svg"}
    command += ["-d", f"{root / 'parsed'}", f"{root}", f"{root / 'out'}"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


@pytest.mark.tier("all")
def test_a_drawing_is_a_numbered_figure_and_drawn_again_when_the_table_changes(tmp_path):
    pages = {"toys": PAGE, "again": AGAIN}
    pages |= {f"empty{n}": f"# Nothing {n}\n" for n in range(5)}  # from six on, read in parallel
    book, svgs = write_book(tmp_path / "book", pages), []
    for height, read in ((2, "8 added, 0 changed"), (2, "0 added, 0"), (3, "0 added, 2 changed")):
        if height == 3:
            (book / "results" / "toy.csv").write_text("height\n1\n3\n1\n")
        done = build(book)
        assert done.returncode == 0, done.stderr
        assert read in done.stdout
        html = (book / "out" / "toys.html").read_text(encoding="utf8")
        svgs.append(re.search(r'<svg class="ln-figure".*?</svg>', html, re.DOTALL)[0])
    assert svgs[0] == svgs[1] != svgs[2]
    figure = re.search(r'<figure[^>]*id="fig-toy".*?</figure>', html, re.DOTALL)[0]
    assert f'aria-label="{ALT}"' in figure
    assert "Fig. 1" in figure
    assert "to the <em>end</em>" in figure
    assert re.search(r'class="math[^"]*">', figure)
    assert re.search(r'href="#fig-toy"><span class="std std-numref">Fig. 1</span>', html)


@pytest.mark.tier("all")
def test_what_a_page_forgets_is_an_error_of_the_build(tmp_path):
    slips = {
        (f":alt: {ALT}\n", ""): "alt needs 10 words or more, got ''",
        (ALT, "A line that climbs"): "alt needs 10 words or more, got 'A line that climbs'",
        ("{drawn} toy", "{drawn} train"): "no drawing is called 'train'; there are",
        ("It climbs by $x^2$ to the *end*.\n", ""): "a drawing needs a caption of one",
        ("to the", "\n\nto the"): "a drawing needs a caption of one",
    }
    pages = {}
    for number, (old, new) in enumerate(slips):
        assert old in PAGE
        pages[f"slip{number}"] = PAGE.replace(old, new).replace("fig-toy", f"fig-{number}")
    done = build(write_book(tmp_path / "book", pages))
    assert done.returncode != 0
    for number, message in enumerate(slips.values()):
        where = rf"slip{number}\.md:\d+: ERROR: .*{re.escape(message)}"
        assert re.search(where, done.stderr), (message, done.stderr)


def test_a_drawing_is_what_the_page_shows_and_depends_on_its_code_and_every_table(site):
    import drawn  # here: Sphinx would slow down each process of a worker
    from figures import inline

    draw, open_before = DRAWINGS["speed"], plt.get_fignums()  # another test's
    svg = drawn.svg(draw)
    assert "<dc:date>" not in svg
    page = (site / "book" / "benchmarks.html").read_text(encoding="utf8")
    assert inline(svg, "").partition("viewBox")[2] in page
    assert plt.get_fignums() == open_before
    found = {path.relative_to(ROOT).as_posix() for path in drawn.sources(draw)}
    code = {"book/_ext/drawn.py", "book/_ext/drawings.py", "lnlib/book/style.py"}
    assert found >= code | {f"benchmarks/results/{p.name}" for p in tables.RESULTS.glob("*.csv")}
