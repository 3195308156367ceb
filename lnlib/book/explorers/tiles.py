"""The tile explorer: programs, their tiles of rows, and the partial sums of dγ, step by step."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from lnlib import formula
from lnlib.book.explorers.axes import cell_number
from lnlib.book.explorers.base import (
    BLUE,
    GREEN,
    VERMILLION,
    Choice,
    Explorer,
    Whole,
    number,
)

MOST_ROWS, MOST_FEATURES = 12, 16
EPS = 1e-5
HELD = 16  # numbers that a tile holds, where lnlib.triton_kernel.tiles has 1024 and more
LONG = 4  # and of a row that is longer than a tile, where lnlib has 4096
TONES = (BLUE, VERMILLION, GREEN)


class Plan(NamedTuple):
    """How the matrix is cut into tiles, and who works on them."""

    height: int  # rows of a tile
    width: int  # lanes of a tile
    across: int  # tiles along a row
    tiles: int  # tiles down
    programs: int
    rounds: int  # steps until everything has been read once
    last: int  # the last step


class Tile(NamedTuple):
    """A tile that a program works on: its first row and its first lane."""

    program: int
    top: int
    left: int


class Progress(NamedTuple):
    """What has happened up to a step; bytes are of bfloat16, partial sums of float32."""

    reads: Tensor  # how often each x was read, (rows, features)
    sums: Tensor  # each program's partial sum of dγ, (programs, features), float64
    added: int  # partial sums that are in dγ
    dgamma: Tensor  # (features,)
    read: int  # bytes of x, of dy and of partial sums
    wrote: int  # bytes of x̂ or dx, of partial sums and of dγ


def _draw_example() -> tuple[Tensor, Tensor]:
    """Return all of x and dy, each (12, 16), float64: multiples of 1/2 and of 1/4.

    The numbers are those of Park and Miller, 1988, "Random number generators: good ones are hard to
    find". With this seed no row's mean is near 0 and no row is constant, however short it is cut.
    """
    seed, drawn = 255, []
    for _ in range(2 * MOST_ROWS * MOST_FEATURES):
        seed = 16807 * seed % (2**31 - 1)
        drawn.append(seed >> 8)
    bits = torch.tensor(drawn).view(2, MOST_ROWS, MOST_FEATURES)
    return (bits[0] % 17).double() / 2 - 2.5, (bits[1] % 9).double() / 4 - 1


X, DY = _draw_example()


class TilesExplorer(Explorer, files="tiles"):
    """A small matrix cut into tiles; a kernel that goes through them, one step at a time.

    A toy of lnlib's Triton kernels, with tiles of 16 numbers. In the book it opens on the forward
    kernel; the second stage of the backward kernel, say, is::

        explorer = TilesExplorer(kernel="backward", rows=11, programs=3, step=6)

    γ is 1, β is 0 and ε is 1e-5. Bytes of γ, β and the statistics are not counted. dβ, which sums
    dy as dγ sums x̂·dy, is left out, and so are the kernels that differentiate long rows.

    Attributes:
        kernel: "forward" (a program for each tile of whole rows), "backward" (each program has
            every ``programs``-th tile, and keeps a partial sum of dγ over its rows) or "long" (a
            program for each row, which takes four features at a time, there and back).
        rows: of the matrix, 1 to 12.
        features: of the matrix, 1 to 16.
        programs: how many run at a time in the backward kernel, 1 to 3.
        padding: "masked", or "counted" to let the forward kernel's variance count padded lanes.
        step: 0, before anything is read, to 14; a step beyond the last is the last.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or no option.
    """

    kernel = Choice("forward", "backward", "long").tag(sync=True)
    rows = Whole(7, low=1, high=MOST_ROWS, things="rows").tag(sync=True)
    features = Whole(6, low=1, high=MOST_FEATURES, things="features").tag(sync=True)
    programs = Whole(2, low=1, high=3, things="programs").tag(sync=True)
    padding = Choice("masked", "counted").tag(sync=True)
    step = Whole(1, low=0, high=14, things="steps").tag(sync=True)

    def x(self) -> Tensor:
        """Return the matrix, (rows, features) in float64."""
        return X[: self.rows, : self.features]

    def dy(self) -> Tensor:
        """Return the gradient that arrives, (rows, features) in float64."""
        return DY[: self.rows, : self.features]

    def plan(self) -> Plan:
        """Return how the matrix is cut into tiles."""
        if self.kernel == "long":
            across = -(-self.features // LONG)
            return Plan(1, LONG, across, self.rows, self.rows, across, 2 * across)
        width = 1 << (self.features - 1).bit_length()  # a power of two, as a kernel needs it
        height = min(4, HELD // width)
        tiles = -(-self.rows // height)
        if self.kernel == "forward":
            return Plan(height, width, 1, tiles, tiles, tiles, tiles)
        programs = min(self.programs, tiles)
        rounds = -(-tiles // programs)
        # After the rounds, the partial sums are stored, then added one by one.
        return Plan(height, width, 1, tiles, programs, rounds, rounds + 1 + programs)

    def tiles_at(self, step: int) -> list[Tile]:
        """Return the tiles that are worked on at ``step``, each by one program."""
        height, width, across, tiles, programs, rounds, _ = self.plan()
        if step == 0:
            return []
        if self.kernel == "forward":
            return [Tile(step - 1, (step - 1) * height, 0)]
        if self.kernel == "long":  # there and back
            left = width * (step - 1 if step <= across else 2 * across - step)
            return [Tile(program, program, left) for program in range(programs)]
        if step > rounds:
            return []
        first = (step - 1) * programs
        last = min(first + programs, tiles)
        return [Tile(tile - first, tile * height, 0) for tile in range(first, last)]

    def variances(self) -> tuple[Tensor, Tensor]:
        """Return each row's variance, and what it becomes if padded lanes of −μ count too."""
        mean, var, *_ = formula.terms(self.x(), eps=EPS)
        padded = self.plan().width - self.features if self.kernel == "forward" else 0
        return var[:, 0], (var + padded * mean.square() / self.features)[:, 0]

    def x_hat(self) -> Tensor:
        """Return the normalized rows; wrong ones, if padded lanes are counted."""
        mean = self.x().mean(1, keepdim=True)
        right, counted = self.variances()
        var = counted if self.padding == "counted" else right
        return (self.x() - mean) / (var[:, None] + EPS).sqrt()

    def progress(self, step: int) -> Progress:
        """Return what has happened up to ``step``."""
        plan = self.plan()
        product = self.x_hat() * self.dy()
        reads = torch.zeros(self.rows, self.features, dtype=torch.int64)
        sums = torch.zeros(plan.programs, self.features, dtype=torch.float64)
        for program, top, left in (tile for s in range(1, step + 1) for tile in self.tiles_at(s)):
            area = slice(top, top + plan.height), slice(left, left + plan.width)
            reads[area] += 1
            sums[program, area[1]] += product[area].sum(0)
        backward, H = self.kernel == "backward", self.features
        added = min(max(step - plan.rounds - 1, 0), plan.programs) if backward else 0
        read = (4 if backward else 2) * int(reads.sum()) + 4 * H * added
        wrote = 2 * int((reads == (2 if self.kernel == "long" else 1)).sum())
        if backward and step > plan.rounds:
            wrote += 4 * H * plan.programs
        if backward and added == plan.programs:
            wrote += 2 * H
        return Progress(reads, sums, added, sums[:added].sum(0), read, wrote)

    def lanes(self, step: int) -> tuple[int, int]:
        """Return how many lanes the tiles at ``step`` have, and how many of them hold no number."""
        plan, tiles = self.plan(), self.tiles_at(step)
        total = plan.height * plan.width * len(tiles)
        across = [min(plan.width, self.features - tile.left) for tile in tiles]
        held = sum(len(self._rows(tile)) * n for tile, n in zip(tiles, across, strict=True))
        return total, total - held

    def verdict(self) -> str:
        """Say in a few words what the step shows."""
        plan = self.plan()
        step = min(self.step, plan.last)
        if step == 0:
            return "Nothing has been read yet"
        if not self.tiles_at(step):
            added = self.progress(step).added
            if added == 0:
                return "Partial sums are stored, not yet added"
            return f"{added} of {plan.programs} partial sums are in dγ"
        counted = self._counted(step)
        if counted:
            lanes = "1 padded lane is" if counted == 1 else f"{counted} padded lanes are"
            return f"σ² is wrong: {lanes} counted"
        reads = "Each x is read once"
        if self.kernel == "long":
            reads = f"{'First' if step <= plan.across else 'Second'} read of each x"
        total, idle = self.lanes(step)
        return f"{reads}; {idle} of {total} lanes idle" if idle else f"{reads}; no lane is idle"

    def sentence(self) -> str:
        """Tell what the step does, and how many bytes it took to get there."""
        plan = self.plan()
        step = min(self.step, plan.last)
        done, end = self.progress(step), self.progress(plan.last)
        if step == 0:
            count, shape = plan.tiles * plan.across, f"{plan.height} × {plan.width}"
            does = f"Programs: {plan.programs}. Tiles: {count}, of {shape} numbers."
        else:
            tellers = {
                "forward": self._tell_forward,
                "backward": self._tell_backward,
                "long": self._tell_long,
            }
            does = tellers[self.kernel](step)
        read, wrote = f"{done.read} of {end.read}", f"{done.wrote} of {end.wrote}"
        return f"{does} Bytes read: {read}; written: {wrote}."

    def _rows(self, tile: Tile) -> range:
        """Return the rows that a tile holds and that are there."""
        return range(tile.top, min(tile.top + self.plan().height, self.rows))

    def _counted(self, step: int) -> int:
        """Return how many padded lanes are counted by mistake at ``step``."""
        if self.kernel != "forward" or self.padding == "masked":
            return 0
        (tile,) = self.tiles_at(step)
        return len(self._rows(tile)) * (self.plan().width - self.features)

    def _tell_forward(self, step: int) -> str:
        (tile,) = self.tiles_at(step)
        if self._counted(step):
            right, counted = (number(v[tile.top].item()) for v in self.variances())
            padded, mean = self.plan().width - self.features, self.x()[tile.top].mean().item()
            return (
                f"Program {tile.program} counts {padded} lane{'' if padded == 1 else 's'} of −μ"
                f"{' in each row' if self.plan().height > 1 else ''}: row {tile.top}, with "
                f"μ = {number(mean)}, gets σ² = {counted}, not {right}."
            )
        return (
            f"Program {tile.program} reads {span('row', self._rows(tile))} of x once, computes "
            "mean and variance in its registers, and writes x̂."
        )

    def _tell_backward(self, step: int) -> str:
        plan, done = self.plan(), self.progress(step)
        if step == plan.rounds + 1:
            shape = f"{plan.programs} × {self.features}"
            return f"The partial sums are written in float32: {shape} numbers."
        if done.added:
            adds = f"The second stage adds the partial sum of program {done.added - 1}"
            dgamma = told(done.dgamma[0])
            if done.added < plan.programs:
                return f"{adds}. Feature 0 is at {dgamma}."
            parts = ", ".join(told(sum_) for sum_ in done.sums[:, 0])
            total = f"{parts} in order give {dgamma}, the sum over all rows."
            return f"{adds} and writes dγ. Feature 0: {total}"
        now = self.tiles_at(step)
        rows = span("row", range(now[0].top, self._rows(now[-1]).stop))
        who, several = span("Program", range(len(now))), len(now) > 1
        reads, writes, adds = ("read", "write", "add") if several else ("reads", "writes", "adds")
        sums = "a partial sum each" if several else "its partial sum"
        idle = range(len(now), plan.programs)
        return f"{who} {reads} {rows} of x and dy once, {writes} dx, and {adds} to {sums}." + (
            f" No tile is left for {span('program', idle)}." if idle else ""
        )

    def _tell_long(self, step: int) -> str:
        across, left = self.plan().across, self.tiles_at(step)[0].left
        features = range(left, min(left + LONG, self.features))
        mine = span("feature", features)
        if step > across:
            last = " They are likely still in the cache." if step == across + 1 else ""
            if across == 1:
                last = " One tile holds this row: it could be read once."
            reads = f"Sweep 2, right to left: each program reads {mine} again"
            return f"{reads} and writes x̂.{last}"
        reads = f"Sweep 1, left to right: each program adds {mine} of its row to its sums"
        if step < across:
            return f"{reads}, now over {features.stop} of {self.features}."
        mean, var = self.x()[0].mean().item(), self.variances()[0][0].item()
        return f"{reads}. Row 0 now has μ = {number(mean)} and σ² = {number(var)}."

    def picture(self) -> Figure:
        """Draw the matrix with its hatched lanes, the tiles of this step, and the sums of dγ."""
        plan = self.plan()
        step = min(self.step, plan.last)
        done = self.progress(step)
        lines, lanes = plan.tiles * plan.height, plan.width * plan.across
        below = plan.programs + 2.2 if self.kernel == "backward" else 0
        figure = Figure(figsize=(6.4, 0.75 + 0.25 * (lines + below)), dpi=100, layout="constrained")
        ax = figure.subplots()
        for cell in self._cells(done):
            _draw_cell(ax, *cell)
        for x, y, width, height in (
            (self.features, 0, lanes - self.features, self.rows),
            (0, self.rows, lanes, lines - self.rows),
        ):
            if width and height:
                hatched = Rectangle((x, y), width, height, fill=False, hatch="///", edgecolor="0.6")
                ax.add_patch(hatched)
        for program, top, left in self.tiles_at(step):
            frame = Rectangle((left, top), plan.width, plan.height, fill=False)
            frame.set(edgecolor=TONES[program % 3], linewidth=2.5)
            ax.add_patch(frame)
        if below:
            self._draw_sums(ax, done, lines + 1.2)
        ax.set(xlim=(-0.1, lanes + 0.1), ylim=(lines + below + 0.1, -0.1))
        ax.set_xticks([j + 0.5 for j in range(self.features)], map(str, range(self.features)))
        names = [f"program {t % plan.programs}" for t in range(plan.tiles)]
        middles = [(t + 0.5) * plan.height for t in range(plan.tiles)]
        if below:
            names += [f"sum, program {p}" for p in range(plan.programs)] + ["dγ"]
            middles += [lines + 1.7 + p for p in range(plan.programs + 1)]
        ax.set_yticks(middles, names)
        ax.tick_params(length=0, labelsize=8, labeltop=True, labelbottom=False)
        ax.spines[:].set_visible(False)
        shown = "x̂·dy" if below else "x, and x̂ where it is written"
        shape = f"tiles of {plan.height} × {plan.width}"
        if self.kernel == "forward" and self.padding == "counted":
            shape += ", padding counted by mistake"
        ax.set_title(f"{self.verdict()}\n{shown}; {shape}; step {step} of {plan.last}", fontsize=10)
        return figure

    def _cells(self, done: Progress) -> Iterator[tuple[int, int, str, float, float]]:
        """Yield for each number of the matrix: column, line, color, strength, value."""
        plan, x_hat = self.plan(), self.x_hat()
        values = self.x()
        if self.kernel == "backward":
            values = x_hat * self.dy()
        elif self.kernel == "forward":
            values = torch.where(done.reads > 0, x_hat, values)
        else:
            values = torch.where(done.reads > 1, x_hat, values)
        for i, row in enumerate(values.tolist()):
            tone = TONES[i // plan.height % plan.programs % 3]
            for j, value in enumerate(row):
                yield j, i, tone, 0.1 + 0.2 * int(done.reads[i, j]), value

    def _draw_sums(self, ax: Axes, done: Progress, top: float) -> None:
        """Draw each program's partial sum of dγ under the matrix, and dγ under them."""
        for p, row in enumerate(done.sums.tolist()):
            for j, value in enumerate(row):
                _draw_cell(ax, j, top + p, TONES[p], 0.3, value)
        for j, value in enumerate(done.dgamma.tolist()):
            words = value if done.added else None
            _draw_cell(ax, j, top + len(done.sums), "0.3", 0.1, words)


def _draw_cell(
    ax: Axes, x: float, y: float, color: str, strength: float, value: float | None
) -> None:
    cell = Rectangle((x + 0.03, y + 0.05), 0.94, 0.9, color=color, alpha=strength, linewidth=0)
    ax.add_patch(cell)
    if value is not None:
        ax.text(x + 0.5, y + 0.5, cell_number(value), ha="center", va="center", fontsize=8)


def told(value: Tensor) -> str:
    """Write a number, or 0 where rounding left 1e-17 in its place."""
    return number(0.0 if abs(value.item()) < 1e-12 else value.item())


def span(noun: str, those: range) -> str:
    """Name some in a row.

    >>> span("row", range(2, 3)), span("row", range(2, 4)), span("row", range(2, 6))
    ('row 2', 'rows 2 and 3', 'rows 2 to 5')
    """
    if len(those) == 1:
        return f"{noun} {those[0]}"
    return f"{noun}s {those[0]} {'and' if len(those) == 2 else 'to'} {those[-1]}"
