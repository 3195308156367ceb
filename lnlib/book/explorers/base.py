"""What every explorer is built on: files joined, traits checked, a still picture for paper.

An explorer is one anywidget: ``name.py`` with the traits, ``name.mjs`` with arithmetic and page,
``name.css``. In Jupyter its traits follow the reader and can be set and observed from Python; in
the built book ``assets/explorers.js`` shows it without a kernel; on paper and on GitHub its
picture and its sentence stand in for it.
"""

import base64
import io
import json
import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import anywidget
import matplotlib.style
import traitlets
from matplotlib.figure import Figure
from PIL import Image

HERE = Path(__file__).parent
# Colors as in common.css: of lines, and of the symbols.
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
MU, SIGMA, X_HAT, GAMMA, BETA = "#b23c00", "#0067a1", "#00704f", "#7a5a00", "#4a43b8"
MOVED = "#7b3fa0"  # the one color of what a reader can move
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.mjs)";[^\n]*\n', re.MULTILINE)
LEFT_OUT = re.compile(
    r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n|^ *//.*\n|^ +|(?<=[;,{}()\]]) // .*$", re.MULTILINE
)


class TraitValueError(traitlets.TraitError, ValueError):
    """A value that a trait cannot take: a TraitError, as ipywidgets raises, and a ValueError."""


def refusal(trait: Any, expected: str, value: object, advice: object) -> TraitValueError:
    """Return the error for a value that ``trait`` cannot take."""
    return TraitValueError(
        f"{trait.name} must be {expected}, got {value!r}; "
        f"it is unchanged. Try {trait.name} = {advice}."
    )


class Number(traitlets.TraitType[float, float]):
    """A float from ``low`` to ``high``, both included; with ``zero``, also exactly 0.

    Args:
        default: the first value.
        low, high: the bounds.
        zero: whether 0, outside the bounds, is allowed.
        unit: what the number is measured in, for the error.
    """

    def __init__(
        self, default: float, *, low: float, high: float, unit: str, zero: bool = False
    ) -> None:
        self.low, self.high, self.zero, self.unit = low, high, zero, unit
        super().__init__(default)

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
        expected = f"a number from {number(self.low)} to {number(self.high)}"
        if self.zero:
            expected += ", or 0"
        advice = number(self.default_value)
        raise refusal(self, f"{expected} ({self.unit})", value, advice)


class Numbers(traitlets.TraitType[tuple[float, ...], Any]):
    """As many floats as ``default`` has, each from ``low`` to ``high``, both included.

    Any sequence is taken and kept as a tuple, so that no element can change unseen.
    """

    def __init__(self, default: Sequence[float], *, low: float, high: float, unit: str) -> None:
        self.each = Number(default[0], low=low, high=high, unit=unit)
        super().__init__(tuple(map(float, default)))

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
        low, high, unit = number(self.each.low), number(self.each.high), self.each.unit
        expected = f"{size} numbers from {low} to {high} ({unit})"
        raise refusal(self, expected, value, self.default_value)


class Whole(traitlets.TraitType[int, int]):
    """A whole number of ``things`` from ``low`` to ``high``, both included."""

    def __init__(self, default: int, *, low: int, high: int, things: str) -> None:
        self.low, self.high, self.things = low, high, things
        super().__init__(default)

    def validate(self, obj: Any, value: Any) -> int:
        """Return ``value`` as an int, or raise before anything has changed."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if whole and self.low <= value <= self.high:
            return int(value)
        expected = f"a whole number of {self.things} from {self.low} to {self.high}"
        raise refusal(self, expected, value, self.default_value)


class Choice(traitlets.TraitType[Any, Any]):
    """One of ``options``; the first is the default."""

    def __init__(self, *options: str | int) -> None:
        self.options = options
        super().__init__(options[0])

    def validate(self, obj: Any, value: Any) -> Any:
        """Return ``value`` if it is an option, or raise before anything has changed."""
        for option in self.options:
            if type(value) is type(option) and value == option:
                return option
        raise refusal(self, f"one of {self.options}", value, repr(self.default_value))


def number(x: float, digits: int = 3) -> str:
    """Write ``x`` with three significant digits, as ``formatNumber`` in common.mjs does.

    >>> number(0.0909091), number(1e-5), number(316.2278), number(float("inf"))
    ('0.0909', '1e-5', '316', '∞')
    """
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    # JavaScript rounds a tie away from zero; Python's own formatting rounds it to even.
    rounded = float(Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(Decimal(x)))
    if rounded == 0:
        return "0"
    if not 1e-3 <= abs(rounded) < 1e5:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}e{int(exponent)}".replace("-", "−", 1 if rounded < 0 else 0)
    text = f"{rounded:.{digits + 3}f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


def sum_by_pairs(values: Sequence[float]) -> float:
    """Add up as many numbers as a power of 2 has, by pairs: the sum of equal ones is exact.

    So a constant row has σ = 0. common.mjs adds alike, to the last bit.
    """
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return sum_by_pairs(values[:half]) + sum_by_pairs(values[half:])


def join_modules(path: Path) -> str:
    """Return the module at ``path`` with its imports of sibling files replaced by their text.

    anywidget loads a module from a blob URL, where a sibling has no address. Each file is put in
    once, where it is first imported. Only the form ``import { a, b } from "./file.mjs";`` is known;
    any other import is an error here rather than in the reader's browser. Comments and
    indentation are left out: every page that shows an explorer carries this text. So no line of a
    template may begin with a blank.

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


class Explorer(anywidget.AnyWidget):
    """An anywidget made of ``name.mjs`` and ``name.css``, with a still stand-in.

    A subclass names its files, declares its traits, and draws and tells its current state::

        class EpsilonExplorer(Explorer, files="epsilon"):
            eps = Number(1e-5, low=1e-12, high=1, unit="units of x²").tag(sync=True)
            def picture(self) -> Figure: ...
            def sentence(self) -> str: ...

    With ``ask=False`` one that begins with a guess shows all at once.
    """

    ask = traitlets.Bool(True).tag(sync=True)

    def __init_subclass__(cls, files: str | None = None, **kwargs: Any) -> None:
        """Join the modules and sheets of ``files`` into the two strings anywidget sends."""
        if files is not None:
            cls._esm = join_modules(HERE / f"{files}.mjs")
            sheets = [HERE / "common.css", HERE / f"{files}.css"]
            cls._css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
        super().__init_subclass__(**kwargs)

    def picture(self) -> Figure:
        """Draw the current traits, 640 px wide on white. Without pyplot: no global state."""
        raise NotImplementedError

    def sentence(self) -> str:
        """Tell the current traits in words and numbers: the same string as the page's."""
        raise NotImplementedError

    def png(self) -> bytes:
        """Return the picture as a PNG file, whatever rcParams the reader has set."""
        with matplotlib.style.context("default"):
            figure = self.picture()
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png", dpi=100, facecolor="white")
        file = io.BytesIO()
        with Image.open(drawn) as pixels:  # 64 colors take a third of the bytes
            pixels.convert("RGB").quantize(64).save(file, format="png", optimize=True)
        return file.getvalue()

    def page_state(self) -> dict[str, Any]:
        """Return what a page without a kernel needs of it: module, sheet and its own traits."""
        kinds = (str, int, float, tuple, list)
        state: dict[str, Any] = self.get_state()
        return {name: value for name, value in state.items() if isinstance(value, kinds)}

    def page_scripts(self, name: str) -> tuple[str, str]:
        """Return two scripts that show it on a page: one in its place, one with its state.

        The page knows it by ``name``.
        """
        models = {"version_major": 2, "state": {name: {"state": self.page_state()}}}
        kind = "application/vnd.jupyter.widget-{}+json"
        return script(kind.format("view"), {"model_id": name}), script(kind.format("state"), models)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the widget, and what to show where none can run: a PNG and a sentence.

        A front end takes the richest of these that it can show: HTML the widget, LaTeX and GitHub
        the picture, a terminal the sentence.
        """
        bundle: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        png = base64.b64encode(self.png()).decode("ascii")
        return {**data, "text/plain": self.sentence(), "image/png": png}, metadata
