"""The axes explorer: which values share a mean and a variance, and whose outputs a change moves."""

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

import torch
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from lnlib import formula
from lnlib.book.explorers.base import BLUE, MOVED, VERMILLION, Choice, Explorer, Number, number

# Halves, which a cell of the drawing has room for. Samples and channels differ in mean and spread.
BLOCK = (
    ((2, 1.5, 3, 2.5, 1), (0.5, 0, 1, -0.5, 0.5), (-1, -0.5, -1.5, 0, -1), (3, -1, 2.5, 0.5, 4)),
    ((5, 3.5, 4, 6, 2), (2, 3.5, 0.5, 4, 1), (-3, -1, -4, -2, -2.5), (7, -2, 3, 5.5, 0.5)),
    (
        (0, 0.5, -0.5, 1, 0.5),
        (-1.5, -2, -1, -1.5, -0.5),
        (-2, -3, -2.5, -3.5, -2),
        (-1, -3, 0.5, -4, 1.5),
    ),
)
# What a change adds. No norm here can undo it: at every half step of `change` up to 8, each output
# that has a changed value in its group moves by at least 7e-4.
PATTERN = (
    (-0.5, 1.5, -1, 1.5, 1),
    (-1, 1.5, 1.5, 0.5, -0.5),
    (-1, -1, 1, -1, 1),
    (1, 1.5, 1, 0.5, 1.5),
)
EPS = 1e-5
# An output that did not move comes from the very numbers it came from before, so it differs by 0;
# one that moved differs by far more than float64's rounding, about 1e-15.
MOVED_BY = 1e-9

GROUPS = 2  # of channels, for group norm
GREEN_TEXT = "#00704f"  # of x̂, as in common.css


class Norm(NamedTuple):
    """What a norm is called, and what shares one mean and one standard deviation under it."""

    name: str
    shared: tuple[int, ...]  # axes of (samples, groups, channels of a group, positions)
    where: str  # whose values one group holds, to be filled in with the selected cell
    center: bool = True


NORMS = {
    "batch": Norm("Batch norm in training", (0, 3), "channel {channel} in all samples"),
    "layer_sample": Norm("Layer norm, whole sample", (1, 2, 3), "sample {sample}"),
    "layer_position": Norm(
        "Layer norm, each position", (1, 2), "sample {sample} at position {position}"
    ),
    "instance": Norm("Instance norm", (3,), "sample {sample} in channel {channel}"),
    "group": Norm(
        "Group norm, two groups", (2, 3), "sample {sample} in channels {first} and {last}"
    ),
    "rms": Norm(
        "RMS norm, each position", (1, 2), "sample {sample} at position {position}", center=False
    ),
}


class Normalized(NamedTuple):
    """What a norm makes of a block, each (3, 4, 5): for every cell its group's own numbers."""

    group: Tensor  # which group the cell is in, counted from 0
    mean: Tensor  # 0 for RMS norm
    std: Tensor  # the root mean square for RMS norm
    x_hat: Tensor


def block(changed: int, change: float) -> Tensor:
    """Return the block, (3, 4, 5) in float64, with ``change`` times the pattern in one sample.

    Args:
        changed: which sample, counted from 1.
        change: in units of x.
    """
    x = torch.tensor(BLOCK, dtype=torch.float64)
    x[changed - 1] += change * torch.tensor(PATTERN, dtype=torch.float64)
    return x


def normalize(x: Tensor, norm: str) -> Normalized:
    """Normalize ``x``, (samples, channels, positions), by lnlib.formula.

    The formula takes statistics over the last axes, so those that share them are moved there.
    """
    _, shared, _, center = NORMS[norm]
    samples, channels, positions = x.shape
    split = x.view(samples, GROUPS, channels // GROUPS, positions)
    own = [axis for axis in range(4) if axis not in shared]
    order = [*own, *shared]
    turned = split.permute(order)
    sizes = turned.shape[len(own) :]
    terms = formula.terms(turned, normalized_shape=sizes, eps=EPS, center=center)
    count = terms.mean.numel()
    group = torch.arange(count).view(terms.mean.shape)
    back = [order.index(axis) for axis in range(4)]

    def per_cell(values: Tensor) -> Tensor:
        return values.expand(turned.shape).permute(back).reshape(x.shape)

    return Normalized(*map(per_cell, (group, terms.mean, terms.std, terms.x_hat)))


class AxesExplorer(Explorer, files="axes"):
    """A block of 3 samples, 4 channels and 5 positions; six norms; one sample that you change.

    Choosing a cell frames the values that share its mean and standard deviation. The outputs that
    the change moves are marked; as long as nothing is touched, the page asks which they are::

        explorer = AxesExplorer(norm="layer_sample")
        explorer.changed, explorer.change = 3, -2
        explorer.observe(print, "change")

    Attributes:
        norm: "batch" (in training), "layer_sample" (over channels and positions of a sample, as in
            the paper), "layer_position" (over the channels at each position, as in a Transformer),
            "instance", "group" (two groups of channels) or "rms" (as "layer_position", but without
            subtracting the mean). ε is 1e-5, γ is 1, β is 0.
        sample: of the selected cell, 1 to 3.
        channel: of the selected cell, 1 to 4.
        position: of the selected cell, 1 to 5.
        changed: the sample that is changed, 1 to 3; at first 2.
        change: how often a fixed pattern is added to it, from -8 to 8, in units of x; at first 4.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or no option.
    """

    norm = Choice(*NORMS).tag(sync=True)
    sample = Choice(1, 2, 3).tag(sync=True)
    channel = Choice(1, 2, 3, 4).tag(sync=True)
    position = Choice(1, 2, 3, 4, 5).tag(sync=True)
    changed = Choice(1, 2, 3).tag(sync=True)
    change = Number(4.0, low=-8, high=8, unit="units of x").tag(sync=True)

    @traitlets.default("changed")
    def _second(self) -> int:
        return 2

    def before(self) -> Normalized:
        """Return what the norm makes of the block as it was given."""
        return normalize(block(self.changed, 0), self.norm)

    def now(self) -> Normalized:
        """Return what the norm makes of the block with the change."""
        return normalize(block(self.changed, self.change), self.norm)

    def lit(self) -> Tensor:
        """Return which cells share a mean and a standard deviation with the selected one."""
        group = self.before().group
        return group == group[self.sample - 1, self.channel - 1, self.position - 1]

    def moved(self) -> Tensor:
        """Return which outputs the change has moved, (3, 4, 5)."""
        return (self.now().x_hat - self.before().x_hat).abs() > MOVED_BY

    def verdict(self) -> str:
        """Say in a few words whose outputs moved."""
        if self.change == 0:
            return "Nothing is changed yet"
        counts = self.moved().sum((1, 2)).tolist()
        *rest, last = [str(n) for n, count in enumerate(counts, start=1) if count] or [""]
        if not last:
            return "No output moved"
        samples = f"samples {', '.join(rest)} and {last}" if rest else f"sample {last} only"
        return f"Outputs moved in {samples}"

    def sentence(self) -> str:
        """Tell what shares the statistics of the selected cell, and how many outputs moved."""
        name, _, where, center = NORMS[self.norm]
        last = 2 if self.channel <= 2 else 4
        cell = {"sample": self.sample, "channel": self.channel, "position": self.position}
        place = where.format(**cell, first=last - 1, last=last)
        before, now, lit, moved = self.before(), self.now(), self.lit(), self.moved()
        at = (self.sample - 1, self.channel - 1, self.position - 1)
        pairs, size = int(now.group.max()) + 1, int(lit.sum())
        [mean, std], [old_mean, old_std] = (
            [number(v[at].item()) for v in (n.mean, n.std)] for n in (now, before)
        )
        if center:
            share, old = f"μ = {mean} and σ = {std}", f"{old_mean} and {old_std}"
        else:
            share, old = f"a root mean square of {std}", old_std
        touched = self.change != 0 and bool(lit[self.changed - 1].any())
        past = f" (before: {old})" if touched else ""
        return (
            f"{name}: the {size} values of {place} share {share}{past}, one of {pairs}"
            f"{' pairs' if center else ''}. {int(moved.sum())} of {moved.numel()} outputs moved."
        )

    def picture(self) -> Figure:
        """Draw the block above and its outputs below, the shared cells lit, the moved marked."""
        figure = Figure(figsize=(6.4, 4.0), dpi=100, layout="constrained")
        grid = figure.subplots(2, 3, sharex=True, sharey=True)
        x, now = block(self.changed, self.change), self.now()
        lit, moved = self.lit(), self.moved()
        for n, (above, below) in enumerate(grid.T):
            _draw_slab(above, x[n], lit[n], full=5)
            _draw_slab(below, now.x_hat[n], lit[n], full=2)
            mine = n + 1 == self.changed and self.change != 0
            name = f"sample {n + 1}, changed" if mine else f"sample {n + 1}"
            above.set_title(name, color=MOVED if mine else "black", fontsize=10)
            for c, p in moved[n].nonzero().tolist():
                corner = [(p + 0.2, c - 0.45), (p + 0.45, c - 0.45), (p + 0.45, c - 0.2)]
                below.add_patch(Polygon(corner, color=GREEN_TEXT, linewidth=0))
            count = int(moved[n].sum())
            color = GREEN_TEXT if count else "0.35"
            below.set_title(f"{count} of 20 moved", color=color, fontsize=10)
            below.set_xlabel("position", fontsize=9)
        here = (self.position - 1.5, self.channel - 1.5)
        ring = Rectangle(here, 1, 1, fill=False, edgecolor=MOVED, linewidth=2.5)
        grid[0, self.sample - 1].add_patch(ring)
        grid[0, 0].set_ylabel("input x\nchannel")
        grid[1, 0].set_ylabel("output x̂\nchannel")
        name, size = NORMS[self.norm].name, int(lit.sum())
        told = f"{self.verdict()}\n{name}; framed: {size} values that share statistics"
        figure.suptitle(told, fontsize=10)
        return figure


def _draw_slab(ax: Axes, values: Tensor, lit: Tensor, full: float) -> None:
    """Draw one sample as a grid tinted by value; the lit cells strongly, framed, with numbers."""
    for c, row in enumerate(values.tolist()):
        for p, value in enumerate(row):
            # In tenths: the PNG has 64 colors.
            strength = math.ceil(min(abs(value) / full, 1) * (5 if lit[c, p] else 2)) / 10
            color = VERMILLION if value < 0 else BLUE
            cell = Rectangle((p - 0.46, c - 0.46), 0.92, 0.92)
            cell.set(color=color, alpha=strength, linewidth=0)
            ax.add_patch(cell)
            if lit[c, p]:
                ax.text(p, c, cell_number(value), ha="center", va="center", fontsize=8)
    if lit.any():
        rows, columns = lit.nonzero().T
        corner = (int(columns.min()) - 0.5, int(rows.min()) - 0.5)
        width, height = (int(span.max() - span.min()) + 1 for span in (columns, rows))
        ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=BLUE, linewidth=2))
    ax.set(xlim=(-0.6, 4.6), ylim=(3.6, -0.6), aspect="equal")
    ax.set_xticks(range(5), list("12345"), fontsize=8)
    ax.set_yticks(range(4), list("1234"), fontsize=8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def cell_number(value: float) -> str:
    """Write ``value`` so that it fits in a cell: one decimal, none from ten on.

    >>> cell_number(-1.25), cell_number(12.3), cell_number(-0.01)
    ('−1.3', '12', '0')
    """
    last = Decimal(1) if abs(value) >= 9.95 else Decimal("0.1")
    # JavaScript rounds a tie away from zero; Python's own formatting rounds it to even.
    return number(float(Decimal(value).quantize(last, ROUND_HALF_UP)))
