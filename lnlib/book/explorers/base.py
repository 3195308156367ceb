"""What every explorer is built on: files joined, traits checked, a still for paper.

An explorer is one anywidget: ``name.py`` with the traits, ``name.mjs`` with arithmetic and page,
``name.css``. In Jupyter its traits follow the reader and can be set and observed from Python; in
the built book ``assets/explorers.js`` shows it without a kernel; on paper and on GitHub a picture
and a sentence stand in for it, which `make stills` takes from the page and keeps in ``stills``.
"""

import base64
import json
import re
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import anywidget
import traitlets

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.mjs)";[^\n]*\n', re.MULTILINE)
LEFT_OUT = re.compile(
    r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n|^ *//.*\n|^ +|^\n|(?<=[;,{}()\]]) // .*$", re.MULTILINE
)


class TraitValueError(traitlets.TraitError, ValueError):
    """A value that a trait cannot take: a TraitError, as ipywidgets raises, and a ValueError."""


def refusal(trait: Any, expected: str, value: object, advice: object) -> TraitValueError:
    """Return the error for a value that ``trait`` cannot take."""
    return TraitValueError(
        f"{trait.name} must be {expected}, got {value!r}; "
        f"it is unchanged. Try {trait.name} = {advice}."
    )


class Trait(traitlets.TraitType[Any, Any]):
    """A trait that follows the reader; what its arguments say is declared to the page."""

    def __init__(self, first: Any, **declared: Any) -> None:
        super().__init__(first)
        self.declared = {"first": first, **declared}
        self.tag(sync=True)


class Number(Trait):
    """A float from ``low`` to ``high``, both included; with ``zero``, also exactly 0.

    Args:
        first: the first value.
        low, high: the bounds.
        zero: whether 0, outside the bounds, is allowed.
        unit: what the number is measured in, for the error and beside a slider.
        more: for the page. ``title`` and ``symbol`` are what a slider is called; ``step`` is its
            step, or else it is logarithmic, with ``per_decade`` steps, 20 if that is not said;
            ``reach`` is its first and last number, where those are not the bounds; with ``round``
            the two ends meet.
    """

    def __init__(
        self, first: float, *, low: float, high: float, unit: str, zero: bool = False, **more: Any
    ) -> None:
        self.low, self.high, self.zero, self.unit = low, high, zero, unit
        super().__init__(first, low=low, high=high, zero=zero, unit=unit, **more)

    def holds(self, value: object) -> bool:
        """Whether ``value`` is a number within the bounds."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        x = float(value)
        return self.low <= x <= self.high or (self.zero and x == 0)

    def validate(self, obj: Any, value: Any) -> float:
        """Return ``value`` as a float, or raise before anything has changed."""
        if self.holds(value):
            return float(value) + 0.0  # -0.0 becomes 0.0
        expected = f"a number from {self.low:g} to {self.high:g}{', or 0' if self.zero else ''}"
        raise refusal(self, f"{expected} ({self.unit})", value, f"{self.default_value:g}")


class Numbers(Trait):
    """As many floats as ``first`` has, each as a ``Number`` of the same arguments.

    Any sequence is taken and kept as a tuple, so that no element can change unseen.
    """

    def __init__(self, first: Sequence[float], **each: Any) -> None:
        self.each = Number(first[0], **each)
        super().__init__(tuple(map(float, first)), **each)

    def validate(self, obj: Any, value: Any) -> tuple[float, ...]:
        """Return ``value`` as a tuple of floats, or raise before anything has changed."""
        numbers = value.tolist() if hasattr(value, "tolist") else value
        size = len(self.default_value)
        if (
            isinstance(numbers, list | tuple)
            and len(numbers) == size
            and all(map(self.each.holds, numbers))
        ):
            return tuple(float(x) + 0.0 for x in numbers)
        low, high, unit = self.each.low, self.each.high, self.each.unit
        expected = f"{size} numbers from {low:g} to {high:g} ({unit})"
        raise refusal(self, expected, value, self.default_value)


class Whole(Trait):
    """A whole number of ``things`` from ``low`` to ``high``, both included."""

    def __init__(self, first: int, *, low: int, high: int, things: str, **more: Any) -> None:
        self.low, self.high, self.things = low, high, things
        super().__init__(first, low=low, high=high, whole=True, step=1, **more)

    def validate(self, obj: Any, value: Any) -> int:
        """Return ``value`` as an int, or raise before anything has changed."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if whole and self.low <= value <= self.high:
            return int(value)
        expected = f"a whole number of {self.things} from {self.low} to {self.high}"
        raise refusal(self, expected, value, self.default_value)


class Choice(Trait):
    """One of ``options``; the first is the default."""

    def __init__(self, *options: str | int) -> None:
        self.options = options
        super().__init__(options[0], options=options)

    def validate(self, obj: Any, value: Any) -> Any:
        """Return ``value`` if it is an option, or raise before anything has changed."""
        for option in self.options:
            if type(value) is type(option) and value == option:
                return option
        raise refusal(self, f"one of {self.options}", value, repr(self.default_value))


def join_modules(path: Path) -> str:
    """Return the module at ``path`` with its imports of sibling files replaced by their text.

    anywidget loads a module from a blob URL, where a sibling has no address. Each file is put in
    once, where it is first imported. Only the form ``import { a, b } from "./file.mjs";`` is known;
    any other import is an error here rather than in the reader's browser. Comments, empty lines
    and indentation are left out: every page that shows an explorer carries this text. So no line
    of a template may begin with a blank.

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

    A subclass names its files and declares its traits::

        class EpsilonExplorer(Explorer, files="epsilon"):
            eps = Number(1e-5, low=1e-12, high=1, unit="units of x²")

    With ``ask=False`` one that begins with a guess shows all at once.
    """

    ask = traitlets.Bool(True).tag(sync=True)
    _told = traitlets.Dict().tag(sync=True)  # by the page: a state, and its sentence
    _declared = traitlets.Dict().tag(sync=True)  # to the page: what is declared of each
    _files = ""

    @traitlets.default("_declared")
    def _declare(self) -> dict[str, Any]:
        return {name: self.traits()[name].declared for name in self.state()}

    def __init_subclass__(cls, files: str | None = None, **kwargs: Any) -> None:
        """Join the modules and sheets of ``files`` into the two strings anywidget sends."""
        if files is not None:
            cls._files = files
            cls._esm = join_modules(HERE / f"{files}.mjs")
            sheets = [HERE / "common.css", HERE / f"{files}.css"]
            cls._css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
        super().__init_subclass__(**kwargs)

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
