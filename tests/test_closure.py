"""What a result is made by: what is followed, what counts, and what makes no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lnlib.book.records.closure import Code

FILES = {
    "lnlib/__init__.py": "from lnlib import plain\nfrom lnlib.deep.inner import shown as given\n"
    "__version__ = '1'\n",
    "lnlib/plain.py": '''"""Plain."""
from __future__ import annotations

import math as m
from functools import cache

import lnlib

LIMIT, OTHER = 3, 4
UNUSED = 5
COUNT, EACH = 18, (19, 20)


def used(x: int, by: int = LIMIT) -> float:
    """Do it."""
    # why
    total = x + by
    return m.sqrt(total)


def unused(x):
    return x - 1


@cache
def hinted(x: Small) -> Small:
    return x


class Base:
    field: Small = 0


class Child(Base):
    def method(self):
        return helper()


def helper():
    return 7


class Small(int): ...


def reading():
    global COUNT
    COUNT = COUNT + 1
    limit = [OTHER for OTHER in range(2)]
    return limit, lnlib.__version__


def looping():
    return [EACH for EACH in EACH]
''',
    "lnlib/deep/__init__.py": "",
    "lnlib/deep/inner.py": """from .. import plain
from ..plain import Child

def shown():
    from lnlib.deep import late
    return plain.used(1), Child, late.value()
""",
    "lnlib/deep/late.py": "def value():\n    return 8\n\ndef other():\n    return 9\n",
    "lnlib/table.py": """from lnlib.deep import late
TABLE = {}
TABLE["late"] = late.other
SIZES = [1]
SIZES.append(2)
SIZES += [3]

def register(function):
    TABLE[function.__name__] = function
    return function

@register
def registered():
    return 10

def find(name):
    return TABLE[name]
""",
    "lnlib/patch.py": """from lnlib import table
table.TABLE['late'] = lambda: 11
NAME = 12
if True:
    table.TABLE['early'] = 21
""",
    "lnlib/pack/__init__.py": "from lnlib.pack.part import give\nLOCAL = 22\n",
    "lnlib/pack/part.py": "def give():\n    return 23\n",
    "lnlib/loading.py": """from importlib import import_module
from pathlib import Path
LOADS = ("lnlib.loaded", "code.cpp")

def load():
    return import_module("lnlib.loaded").run()
""",
    "lnlib/loaded.py": "def run():\n    return 13\n",
    "lnlib/code.cpp": """// a kernel
int f(int a) { return a + 14; } /* "//" */
#define N 1
int g;
""",
    "lnlib/whole.py": "def one():\n    return 15\n\ndef two():\n    return 16\n",
    "benchmarks/bench.py": """import inspect
import lnlib
from lnlib import loading, pack, table, whole
from lnlib.plain import hinted, looping, reading, unused
from lnlib.plain import helper as first, used as second
import other

def run():
    return lnlib.given()

def through_a_module():
    return lnlib.plain.used(2)

def by_name(name):
    return getattr(whole, name)

def by_name_of_a_package(name):
    return getattr(pack, name)

def by_a_name_that_is_nowhere():
    return whole.made_later()

def by_table():
    return table.find("late"), table.SIZES

def with_a_patch():
    return by_table(), other.value

def loads():
    return loading.load()

def reads_source():
    return inspect.getsource(unused)

def both():
    return first() - second(1)

def hints():
    return hinted(1)

def counts():
    return reading()

def loops():
    return looping()

if __name__ == "__main__":
    print(run())
""",
    "benchmarks/other.py": "from lnlib import patch\nvalue = 17\n",
}

Digest = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf8")
    return tmp_path


def digest(project: Path, entry: str) -> str:
    return Code(project).of(f"bench:{entry}").digest


def change(project: Path, file: str, old: str, new: str) -> None:
    text = (project / file).read_text(encoding="utf8")
    assert old in text
    (project / file).write_text(text.replace(old, new), encoding="utf8")


COUNTS = {  # entry, file, what becomes what
    "a function, through a name that was handed on": ("run", "lnlib/plain.py", "x + by", "x * by"),
    "a default": ("run", "lnlib/plain.py", "by: int = LIMIT", "by: int = 2"),
    "a constant": ("run", "lnlib/plain.py", "OTHER = 3, 4", "OTHER = 2, 4"),
    "a base class": ("run", "lnlib/plain.py", "field: Small = 0", "field: Small = 1"),
    "the hint of a field": ("run", "lnlib/plain.py", "field: Small", "field: int"),
    "what a method calls": ("run", "lnlib/plain.py", "return 7", "return 70"),
    "what is imported in a function": ("run", "lnlib/deep/late.py", "return 8", "return 80"),
    "a function, through its module": ("through_a_module", "lnlib/plain.py", "x + by", "x * by"),
    "all of a module that is a value": ("by_name", "lnlib/whole.py", "return 16", "return 160"),
    "what a package hands on": ("by_name_of_a_package", "lnlib/pack/part.py", "23", "230"),
    "a module with a name that it does not bind": (
        *("by_a_name_that_is_nowhere", "lnlib/whole.py", "return 16", "return 160"),
    ),
    "what is global": ("counts", "lnlib/plain.py", "= 18,", "= 180,"),
    "what a comprehension goes through": ("loops", "lnlib/plain.py", "(19, 20)", "(19, 200)"),
    "what is put into a table": ("by_table", "lnlib/deep/late.py", "return 9", "return 90"),
    "what a method adds": ("by_table", "lnlib/table.py", "append(2)", "append(20)"),
    "what is added": ("by_table", "lnlib/table.py", "[3]", "[30]"),
    "what a decorator takes note of": ("by_table", "lnlib/table.py", "return 10", "return 100"),
    "what an import changes elsewhere": ("with_a_patch", "lnlib/patch.py", "11", "110"),
    "what it changes there perhaps": ("with_a_patch", "lnlib/patch.py", "21", "210"),
    "a module that is loaded": ("loads", "lnlib/loaded.py", "return 13", "return 130"),
    "a file that is loaded": ("loads", "lnlib/code.cpp", "a + 14", "a + 140"),
    "a directive of C++": ("loads", "lnlib/code.cpp", "#define N 1\n", "#define N 1 "),
    "a comment that is read": ("reads_source", "lnlib/plain.py", "return x - 1", "return x - 1  #"),
    "the hint of a decorated function": ("hints", "lnlib/plain.py", "(x: Small)", "(x: int)"),
    "what such a hint names": ("hints", "lnlib/plain.py", "Small(int)", "Small(float)"),
    "where a name of Python's comes from": (
        *("run", "lnlib/plain.py", "import math as m", "import cmath as m"),
    ),
    "two names that change places": (
        *("both", "benchmarks/bench.py", "helper as first, used as second"),
        "helper as second, used as first",
    ),
}


@pytest.mark.parametrize("what", COUNTS)
def test_it_counts(what: str, project: Path) -> None:
    entry, *changed = COUNTS[what]
    before = digest(project, entry)
    assert digest(project, entry) == before
    change(project, *changed)
    assert digest(project, entry) != before


SAME = {
    "a docstring": ("run", "lnlib/plain.py", "Do it.", "Do this."),
    "a docstring more": ("run", "lnlib/plain.py", "    return 7", '    """Seven."""\n    return 7'),
    "a comment": ("run", "lnlib/plain.py", "# why", "# because"),
    "layout": ("run", "lnlib/plain.py", "x + by", "(\n        x\n        + by\n    )"),
    "a hint": ("run", "lnlib/plain.py", "x: int,", "x: float,"),
    "a hint of a variable": ("run", "lnlib/plain.py", "total = x", "total: int = x"),
    "another function of a module": ("run", "lnlib/plain.py", "x - 1", "x - 2"),
    "another constant": ("run", "lnlib/plain.py", "UNUSED = 5", "UNUSED = 50"),
    "another class": ("through_a_module", "lnlib/plain.py", "Small = 0", "Small = 1"),
    "a name of the same spelling in a function": ("counts", "lnlib/plain.py", "3, 4", "3, 40"),
    "the version": ("counts", "lnlib/__init__.py", "'1'", "'2'"),
    "what another table is made of": ("run", "lnlib/table.py", "[3]", "[30]"),
    "a module that others load": ("run", "lnlib/loaded.py", "return 13", "return 130"),
    "what is for scripts": ("run", "benchmarks/bench.py", "print(run())", "print(0)"),
    "a name that nobody reads of a module that patches": (
        "both",
        "lnlib/patch.py",
        "NAME = 12",
        "NAME = 120",
    ),
    "an import more": ("run", "lnlib/plain.py", "import math as m", "import math as m\nimport os"),
    "the form of an import": ("run", "lnlib/deep/inner.py", "from ..plain", "from lnlib.plain"),
    "a comment of C++": ("loads", "lnlib/code.cpp", "// a kernel", "// the kernel"),
    "layout of C++": ("loads", "lnlib/code.cpp", "{ return a + 14; }", "{\n  return a+14;\n}"),
}


@pytest.mark.parametrize("what", SAME)
def test_it_makes_no_difference(what: str, project: Path) -> None:
    entry, *changed = SAME[what]
    before = digest(project, entry)
    change(project, *changed)
    assert digest(project, entry) == before


def test_another_name_for_an_import_makes_no_difference(project: Path) -> None:
    before = digest(project, "run")
    change(project, "lnlib/plain.py", "import math as m", "import math")
    change(project, "lnlib/plain.py", "m.sqrt", "math.sqrt")
    change(project, "lnlib/deep/inner.py", "from .. import plain", "from ..plain import used")
    change(project, "lnlib/deep/inner.py", "plain.used", "used")
    assert digest(project, "run") == before


def test_a_function_that_moves_and_a_file_that_is_renamed_make_no_difference(project: Path) -> None:
    entries = ("run", "through_a_module", "both", "reads_source", "loads")
    before = [digest(project, entry) for entry in entries]
    moved = "def helper():\n    return 7\n"
    change(project, "lnlib/plain.py", moved, "from lnlib.moved import helper\n")
    (project / "lnlib/moved.py").write_text(f"# new\n\n{moved}", encoding="utf8")
    (project / "lnlib/plain.py").rename(project / "lnlib/deep/simple.py")
    (project / "lnlib/code.cpp").rename(project / "lnlib/kernel.cpp")
    for file, old, new in (
        ("lnlib/__init__.py", "from lnlib import plain", "from lnlib.deep import simple"),
        ("lnlib/deep/inner.py", "from .. import plain", "from . import simple as plain"),
        ("lnlib/deep/inner.py", "..plain", ".simple"),
        ("benchmarks/bench.py", "lnlib.plain import", "lnlib.deep.simple import"),
        ("benchmarks/bench.py", "lnlib.plain.used", "lnlib.deep.simple.used"),
        ("lnlib/loading.py", "code.cpp", "kernel.cpp"),
    ):
        change(project, file, old, new)
    assert [digest(project, entry) for entry in entries] == before


def test_what_is_known_not_to_run_is_left_out_with_what_it_alone_reaches(project: Path) -> None:
    def cut() -> str:
        return Code(project).of("bench:run", without=("lnlib.deep.late",)).digest

    before = cut()
    assert before != digest(project, "run")
    change(project, "lnlib/deep/late.py", "return 8", "return 80")
    assert cut() == before
    change(project, "lnlib/plain.py", "x + by", "x * by")
    assert cut() != before


def test_a_program_reaches_what_its_text_names(project: Path) -> None:
    code = Code(project)
    closure = code.of_text("from lnlib.whole import one\nx = one()\n")
    assert {path.name for path in closure.files} == {"whole.py"}
    change(project, "lnlib/whole.py", "return 16", "return 160")
    assert (
        Code(project).of_text("from lnlib.whole import one\nx = one()\n").digest == closure.digest
    )
    change(project, "lnlib/whole.py", "return 15", "return 150")
    assert (
        Code(project).of_text("from lnlib.whole import one\nx = one()\n").digest != closure.digest
    )


def test_a_change_can_be_tried_in_memory(project: Path) -> None:
    code = Code(project)
    before = code.of("bench:by_name").digest
    text = FILES["lnlib/whole.py"].replace("return 16", "return 160")
    tried = code.changed("lnlib.whole", text).of("bench:by_name").digest
    assert code.of("bench:by_name").digest == before != tried
    change(project, "lnlib/whole.py", "return 16", "return 160")
    assert digest(project, "by_name") == tried


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("benchmarks/bench.py", "def run", "def ran", "no code is called bench:run"),
        ("lnlib/plain.py", "import math as m", "from math import *", r"imports \* from math"),
        ("lnlib/deep/inner.py", "def shown", "LOADS = ('x.cpp',)\n\ndef shown", "loads x.cpp"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    file: str, old: str, new: str, message: str, project: Path
) -> None:
    change(project, file, old, new)
    with pytest.raises(ValueError, match=message):
        digest(project, "run")
