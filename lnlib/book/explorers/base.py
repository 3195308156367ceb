"""What every explorer is built on: files joined, traits checked, a still for paper.

An explorer is one anywidget: ``name.py`` with the traits, ``name.mjs`` with arithmetic and page,
``name.css``. In Jupyter its traits follow the reader and can be set and observed from Python; in
the built book ``assets/explorers.js`` shows it without a kernel; on paper and on GitHub a picture
and a sentence stand in for it, which `make stills` takes from the page and keeps in ``stills``.
"""

import base64
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import filterfalse
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import anywidget
import traitlets

HERE = Path(__file__).parent
QUANTITIES = {  # by the name of a trait: what it is called, and measured in
    "x": {"symbol": "x", "title": "Feature", "unit": "units of x"},
    "eps": {"symbol": "ε", "title": "Constant", "unit": "units of x²"},
    "weight": {"symbol": "γ", "title": "Scale", "unit": "no units"},
    "bias": {"symbol": "β", "title": "Shift", "unit": "no units"},
}
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.mjs)";[^\n]*\n', re.MULTILINE)
LEFT_OUT = re.compile(
    r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n|^ *//.*\n|^ +|^\n|(?<=[;,{}()\]]) // .*$|^export (?!default)",
    re.MULTILINE,
)
LEFT_OUT_OF_SHEETS = re.compile(
    r" ?/\*.*?\*/\n?|^ +|(?<=[:;,{]) +|(?<=[;{,])\n| (?=[{}])", re.DOTALL | re.M
)


class TraitValueError(traitlets.TraitError, ValueError):
    """A value that a trait cannot take: a TraitError, as ipywidgets raises, and a ValueError."""


class Trait(traitlets.TraitType[Any, Any]):
    """A trait that follows the reader; what its arguments say is declared to the page.

    A subclass has ``_kept``, the value as it is kept or None if there is none like it, and
    ``_expected``, what it takes.
    """

    def __init__(self, first: Any, **declared: Any) -> None:
        super().__init__(first)
        self.declared = {"first": first, **declared}
        self.tag(sync=True)

    def class_init(self, cls: Any, name: str | None) -> None:
        """Take from its name what it is called, and its unit."""
        super().class_init(cls, name)
        self.declared = {**QUANTITIES.get(name or "", {}), **self.declared}

    _kept: Callable[..., Any]
    _expected: Callable[[], str]

    def validate(self, obj: Any, value: Any) -> Any:
        """Return ``value`` as it is kept, or raise before anything has changed."""
        kept = self._kept(value)
        if kept is None:
            raise TraitValueError(
                f"{self.name} must be {self._expected()}, got {value!r}; it is unchanged. "
                f"Try {self.name} = {self.default_value!r}."
            )
        return kept


class Number(Trait):
    """A float from ``low`` to ``high``, both included; with ``zero``, also exactly 0.

    ``more`` is for the page: ``unit``, ``title`` and ``symbol`` are beside a slider; ``step`` is
    its step, or else it is logarithmic, with ``per_decade`` steps, 20 if that is not said;
    ``reach`` is its first and last number, where those are not the bounds; with ``round`` the two
    ends meet.
    """

    def __init__(
        self, first: float, *, low: float, high: float, zero: bool = False, **more: Any
    ) -> None:
        self.low, self.high, self.zero = low, high, zero
        super().__init__(first, low=low, high=high, zero=zero, **more)

    def _kept(self, value: Any) -> float | None:
        if not isinstance(value, Real) or isinstance(value, bool):
            return None
        x = float(value) + 0.0  # -0.0 becomes 0.0
        return x if self.low <= x <= self.high or (self.zero and x == 0) else None

    def _expected(self) -> str:
        bounds = f"{self.low:g} to {self.high:g}{', or 0' if self.zero else ''}"
        return f"a number from {bounds} ({self.declared['unit']})"


class Numbers(Trait):
    """As many floats as ``first`` has, each as a ``Number`` of the same arguments.

    Any sequence is kept as a tuple, so that no element can change unseen.
    """

    def __init__(self, first: Sequence[float], **each: Any) -> None:
        self.each = Number(first[0], **each)
        super().__init__(tuple(map(float, first)), **each)

    def _kept(self, value: Any) -> tuple[float, ...] | None:
        numbers = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(numbers, list | tuple) or len(numbers) != len(self.default_value):
            return None
        kept = tuple(x for x in map(self.each._kept, numbers) if x is not None)
        return kept if len(kept) == len(numbers) else None

    def _expected(self) -> str:
        low, high, unit = (self.declared[said] for said in ("low", "high", "unit"))
        return f"{len(self.default_value)} numbers from {low:g} to {high:g} ({unit})"


class Whole(Trait):
    """A whole number of ``things`` from ``low`` to ``high``, both included."""

    def __init__(self, first: int, *, low: int, high: int, things: str, **more: Any) -> None:
        self.low, self.high, self.things = low, high, things
        super().__init__(first, low=low, high=high, whole=True, step=1, **more)

    def _kept(self, value: Any) -> int | None:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if whole and self.low <= value <= self.high else None

    def _expected(self) -> str:
        return f"a whole number of {self.things} from {self.low} to {self.high}"


class Choice(Trait):
    """One of ``options``; the first is the default."""

    def __init__(self, *options: str | int) -> None:
        self.options = options
        super().__init__(options[0], options=options)

    def _kept(self, value: Any) -> Any:
        same = (one for one in self.options if type(value) is type(one) and value == one)
        return next(same, None)

    def _expected(self) -> str:
        return f"one of {self.options}"


def join_modules(path: Path) -> str:
    """Return the module at ``path`` with its imports of sibling files replaced by their text.

    anywidget loads a module from a blob URL, where a sibling has no address. Each file is put in
    once, where it is first imported. Only the form ``import { a, b } from "./file.mjs";`` is known;
    any other import is an error here rather than in the reader's browser. What a page can do
    without, such as comments and indentation, is left out, since every page that shows an explorer
    carries this text. So no line of a template may begin with a blank.

    Raises:
        ValueError: if an import is left over.
    """
    seen: set[str] = set()

    def inline(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        return IMPORT.sub(inline, (path.parent / name).read_text(encoding="utf-8"))

    text = IMPORT.sub(inline, path.read_text(encoding="utf-8"))
    left = re.search(r"^\s*import\b.*", text, re.MULTILINE)
    if left:
        raise ValueError(f'{path.name}: expected import {{ … }} from "./file.mjs";, got {left[0]}')
    return LEFT_OUT.sub("", text)


def script(kind: str, content: Any) -> str:
    """Return data of a page; nothing in it can end the script."""
    text = json.dumps(content, ensure_ascii=False)  # one byte for a letter, two for a Greek one
    return f'<script type="{kind}">' + text.replace("</", "<\\/") + "</script>"


class Still(NamedTuple):
    """What stands in for an explorer where none can run: a PNG of 640 px, and its sentence."""

    png: bytes
    sentence: str


class Explorer(anywidget.AnyWidget):
    """An anywidget made of ``name.mjs`` and ``name.css``, with a still that stands in for it.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = EpsilonExplorer(eps=1e-5)
        explorer.spread = 1e-3
        explorer.observe(print, "eps")

    With ``ask=False`` one that begins with a guess shows all at once.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a trait cannot take a value; it says
            what it takes, and nothing has changed.
        TypeError, AttributeError: for the name of no trait.
    """

    ask = traitlets.Bool(True).tag(sync=True)
    _told = traitlets.Dict().tag(sync=True)  # by the page: a state, and its sentence
    _declared = traitlets.Dict().tag(sync=True)  # to the page: what is declared of each
    _files = _anchor = ""  # the names of its files, and of its place in a page

    @traitlets.default("_declared")
    def _declare(self) -> dict[str, Any]:
        return {name: self.traits()[name].declared for name in self.state()}

    def __init_subclass__(cls, files: str | None = None, **kwargs: Any) -> None:
        """Join the modules and sheets of ``files`` into the two strings anywidget sends."""
        if files is not None:
            cls._files, cls._anchor = files, f"explorer-{files.replace('_', '-')}"
            cls._esm = join_modules(HERE / f"{files}.mjs")
            sheets = (HERE / f"{name}.css" for name in ("symbols", "common", files))
            css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
            cls._css = LEFT_OUT_OF_SHEETS.sub("", css)
        super().__init_subclass__(**kwargs)

    def __init__(self, **traits: Any) -> None:
        """Set traits; raises a TypeError, before any is set, if one is called otherwise."""
        for name in filterfalse(self.has_trait, traits):
            raise TypeError(self._no(name))
        super().__init__(**traits)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a trait; raises an AttributeError if it is called otherwise."""
        if not (name.startswith("_") or hasattr(type(self), name)):
            raise AttributeError(self._no(name))
        super().__setattr__(name, value)

    def _no(self, name: str) -> str:
        """Say that there is no such trait, and which was meant: σ is called ``spread``.

        >>> from lnlib.book.explorers import EpsilonExplorer
        >>> EpsilonExplorer().sigma = 1
        Traceback (most recent call last):
        AttributeError: EpsilonExplorer has no 'sigma', but eps, spread. Did you mean spread?
        """
        called = {trait: trait for trait in self._declared}
        for trait, said in self._declared.items():
            letter = said.get("symbol", "")[:1]
            called |= {unicodedata.name(letter, "").split(" ")[-1].lower(): trait, letter: trait}
        close = [called[one] for one in get_close_matches(name, called, n=1, cutoff=0.5)]
        meant = "".join(f" Did you mean {trait}?" for trait in close)
        return f"{type(self).__name__} has no {name!r}, but {', '.join(self._declared)}.{meant}"

    def state(self) -> dict[str, Any]:
        """Return the traits that say what is drawn, each with its value."""
        named = [name for kind in reversed(type(self).__mro__) for name in vars(kind)]
        own = self.traits()
        return {name: getattr(self, name) for name in named if isinstance(own.get(name), Trait)}

    def still(self) -> Still | None:
        """Return what `make stills` has recorded of its first state, or None in any other."""
        traits = self.traits()
        if any(value != traits[name].default_value for name, value in self.state().items()):
            return None
        path = HERE / "stills" / f"{self._files}.png"
        sentence = path.with_suffix(".txt").read_text(encoding="utf-8").rstrip("\n")
        return Still(path.read_bytes(), sentence)

    def sentence(self) -> str:
        """Return what the page says of this state; "" if no page has shown it."""
        state = {name: list(v) if isinstance(v, tuple) else v for name, v in self.state().items()}
        if self._told.get("state") == state:
            return str(self._told["sentence"])
        still = self.still()
        return still.sentence if still else ""

    def __repr__(self) -> str:
        """Return the state, and what the page says of it.

        >>> from lnlib.book.explorers import EpsilonExplorer
        >>> EpsilonExplorer(eps=1e-3)
        EpsilonExplorer(eps=0.001, spread=3e-05)
        """
        state = ", ".join(f"{name}={value!r}" for name, value in self.state().items())
        return f"{type(self).__name__}({state})\n{self.sentence()}".rstrip("\n")

    def page_state(self) -> dict[str, Any]:
        """Return what a page without a kernel needs of it: module, sheet and its own traits."""
        shared = ("_esm", "_css", "_declared", "ask")
        return {name: getattr(self, name) for name in (*shared, *self.state())}

    def page_scripts(self, name: str) -> tuple[str, str]:
        """Return two scripts that show it on a page: one in its place, one with its state.

        The page knows it by ``name``.
        """
        models = {"version_major": 2, "state": {name: {"state": self.page_state()}}}
        kind = "application/vnd.jupyter.widget-{}+json"
        return script(kind.format("view"), {"model_id": name}), script(kind.format("state"), models)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the widget, and what to show where none can run.

        That is a PNG and a sentence of its first state, or any other state in words. A front end
        takes the richest that it can show: HTML the widget, LaTeX and GitHub the picture, a
        terminal the words.
        """
        bundle: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        still = self.still()
        if still is None:
            return {**data, "text/plain": repr(self)}, metadata
        png = base64.b64encode(still.png).decode("ascii")
        return {**data, "text/plain": still.sentence, "image/png": png}, metadata
