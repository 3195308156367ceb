"""The numbers of the page on benchmarks, and what computes them."""

import re
from functools import cache

import bench_accuracy
import bench_growth
import bench_layer_norm
import torch
from gpu_time import ROOFS

import lnlib
from lnlib import formula, in_graph
from lnlib.book.home import ROOT
from lnlib.book.records import kernels, tables
from lnlib.triton_kernel import tiles
from ties import Page

page = Page("benchmarks")
tie, free = page.tie, page.free
BOTH, FORWARD = "forward and backward", "forward"
EPS = lnlib.LayerNorm(8).eps
Row = dict[str, str]


@cache
def rows(name: str) -> list[Row]:
    return tables.rows_of(tables.RESULTS / f"{name}.csv")


def written(path: str, pattern: str) -> float:
    """Return the one number that a file has at a place; a whole one is counted."""
    found = set(re.findall(pattern, (ROOT / path).read_text(encoding="utf8")))
    assert len(found) == 1, f"{path} has {found} for {pattern}"
    digits = found.pop()
    return int(digits) if digits.isdigit() else float(digits)


for name in ["speed", "tricks", "memory", "lstm"]:
    path = tables.RESULTS / f"{name}.csv"
    heads = [line for line in path.read_text("utf8").splitlines() if not re.search(r"\d{4}-", line)]
    tie(f"results/{name}.csv :header-rows: #", len(heads))

# Accuracy
x = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
best = (r for r in rows("accuracy") if r["y_over_rounding"] != "nan")
tie("At #, a method is as close as", min(float(row["y_over_rounding"]) for row in best))
tie("their standard deviation stays #.", formula.terms(x).x_hat.std(correction=0).round(decimals=3))
tie("With means up to # it is", min(m for m in bench_accuracy.MEANS if m))
MU, RMS = x.mean().item(), x.square().mean().sqrt().item()
tie(r"(the formula $\overline{@}-@$, and", x.var(correction=0) + MU**2, x.mean() ** 2, x=RMS, mu=MU)
tie("sets a negative variance to #. That", torch.tensor(-1.0).clamp(min=0))
ALONE = formula.terms(x.new_ones(8)).rstd.item()
tie(r"up to $@\approx #$ times", ALONE, ALONE, epsilon=EPS)


def far_enough() -> float:
    """Return the largest mean at which Flax's default loses little in both half types."""
    kept = [r for r in rows("accuracy") if r["method"] == "Flax" and r["dtype"].endswith("float16")]
    return max(float(r["mean_over_std"]) for r in kept if float(r["y_over_rounding"]) < 2)


tie("up to means of about #. With JAX", far_enough)
tie(r"Its $\hat x$ is #, so", formula.terms(x.new_full((8,), 3.0)).x_hat.abs().max())


def drawn(dtype: torch.dtype) -> list[float]:
    """Return the decades between which constant rows are drawn."""
    sizes = torch.cat([d.x[:, 0].double().abs() for d in bench_accuracy.constant_rows(dtype)])
    return [10.0 ** round(power) for power in sizes.log10().sort().values[[0, -1]].tolist()]


tie("drawn from # to #, in float16", *drawn(torch.float32))
tie('in float16 to #. "Off', drawn(torch.float16)[1])
tie(r"by $\sqrt\varepsilon$, #.", EPS**0.5)
SHAPES = bench_accuracy.SHAPES
tie("four shapes from # × # to # × # and # × #", *SHAPES[0], *SHAPES[-1], *SHAPES[2])
TESTS = "tests/test_composed.py"
tie(
    "for # to # rows and # to # features",
    written(TESTS, r"max\(1, (\d+) // H\)") // written(TESTS, r'"H", \[7, 64, 769, (\d+)\]'),
    written(TESTS, r'"rows", \[\d+, (\d+)\]'),
    written(TESTS, r'"H", \[(\d+), 64, 769, 4096\]'),
    written(TESTS, r'"H", \[7, 64, 769, (\d+)\]'),
)
tie("or a gradient, is above # times", written(TESTS, r"NEVER_ABOVE = ([\d.]+)"))

# Speed
theirs = [float(row["over_torch"]) for row in rows("speed") if row["provider"] == "PyTorch"]
tie("in float32: the line at #.", max(theirs))
MANY = 2048
CALLS, REFERENCE = "lnlib, calls in C++", "lnlib reference"
ALL = "float32", "bfloat16", "float16", "float64"


def over(by: str, *dtypes: str, which: str = "", table: str = "speed") -> list[float]:
    """Return the smallest and the largest median of a layer norm over many rows."""
    found = [r for r in rows(table) if r["provider"] == by and r["dtype"] in dtypes]
    found = [r for r in found if int(r["rows"]) >= MANY and which in ("", r["pass"])]
    return ends([float(row["over_torch"]) for row in found])


def ends(found: list[float]) -> list[float]:
    return [min(found), max(found)]


def quartiles(row: Row) -> list[float]:
    return [float(each) for each in row["quartiles"].split(" to ")]


def one(provider: str, which: str = FORWARD) -> float:
    wanted = (provider, "1", which)
    (row,) = (r for r in rows("speed") if (r["provider"], r["rows"], r["pass"]) == wanted)
    return float(row["over_torch"])


tie("with `g++`, from # rows on, faster in bfloat16 and", MANY)
assert over("lnlib", "bfloat16")[1] < 1
tie("up to # times as long in float16 and float64", over("lnlib", *ALL[2:])[1])
tie("below # values it is the formula", in_graph.WORTH_AN_OPERATOR)
said = "From # rows on, the median of `lnlib` in float32 is # to # times"
tie(said, MANY, *over("lnlib", "float32"))
tie("in the other types it is # to # times", *over("lnlib", *ALL[1:]))
OURS = [r for r in rows("speed") if r["provider"] == "lnlib" and int(r["rows"]) >= MANY]
for which, words in (
    (BOTH, "wide: # to # at # × # with both passes"),
    (FORWARD, "passes, # to # at # × # forward."),
):
    found = [row for row in OURS if (row["pass"], row["dtype"]) == (which, "float32")]
    row = max(found, key=lambda row: quartiles(row)[1] / quartiles(row)[0])
    tie(words, *quartiles(row), int(row["rows"]), int(row["features"]))
pinned = {by: over(by, "float32", table="speed_pinned") for by in ("lnlib", CALLS)}
tie("the medians in float32 are # to # (", *pinned["lnlib"])
said = "one row, forward, takes # times as long as PyTorch's, and both passes # times"
tie(said, one(CALLS), one(CALLS, BOTH))
said = "from # rows on, the medians are # to # in float32 and # to # in"
tie(said, MANY, *over(CALLS, "float32"), *over(CALLS, *ALL[1:]))
tie("they are # to # in float32.", *pinned[CALLS])
NARROW = [r for r in OURS if (r["dtype"], r["features"]) == ("float32", "256")]
SLOW = [*NARROW, *(r for r in OURS if r["dtype"] in ALL[2:])]
tie(
    "At # × # in float32, and at # × # in the other two, the medians are # to #.",
    *(int(row[size]) for row in (SLOW[0], SLOW[-1]) for size in ("rows", "features")),
    *ends([float(row["over_torch"]) for row in SLOW]),
)
tie("in Python. One row, forward, takes # times as long", one("lnlib"))
tie("forward, takes # times as long as PyTorch's without", one("lnlib compiled"))
tie("PyTorch's own in a graph # times.", one("PyTorch compiled"))
tie(
    "From # rows on, `lnlib` in a graph takes # to # times as long, and PyTorch's own # to # times",
    *(MANY, *over("lnlib compiled", *ALL), *over("PyTorch compiled", *ALL)),
)
tie(
    "From # rows on, both passes in float32 take # to # times as long, and # to # times in the",
    *(MANY, *over(REFERENCE, "float32", which=BOTH), *over(REFERENCE, *ALL[1:], which=BOTH)),
)
MOST = max(int(row["rows"]) for row in OURS if row["dtype"] == "bfloat16")
tie("In bfloat16, over # rows, PyTorch's", MOST)
ones = torch.ones(MOST)
start = torch.tensor(0.0).bfloat16()
for each in ones.bfloat16()[:300]:
    start = start + each
tie("Let each of # rows send back a gradient of #, and", MOST, ones[0])
tie(r"$d\beta$ is #, since $# + #$ is # again", *2 * [start], ones[0], start)
tie("`lnlib`'s is #.", int(ones.sum()))

# Growth
N = range(1, 9)
FLAT, STRAIGHT, SQUARE = (round(bench_growth.slope(N, [n**p for n in N]), 9) for p in range(3))
tie("a straight line of slope #.", STRAIGHT)
tie("pulls the slope below #, since", STRAIGHT)
tie("A slope above # need", STRAIGHT)


def outlier(along: str) -> list[float]:
    """Return the time and the size of PyTorch's point that is furthest above its neighbors."""
    found = [(r["provider"], r["along"]) == ("PyTorch", along) for r in rows("growth")]
    kept = [r for r, is_kept in zip(rows("growth"), found, strict=True) if is_kept]
    ms = [float(row["ms"]) for row in kept]
    far = max(range(1, len(ms) - 1), key=lambda i: ms[i] / max(ms[i - 1], ms[i + 1]))
    return [ms[far], int(kept[far]["size"])]


tie("PyTorch's # ms at # rows and # ms at # features", *outlier("rows"), *outlier("features"))

# The Triton kernel
case = bench_layer_norm.Case(1, 1, "bfloat16", "memory")
tie("In bfloat16 that is # and # bytes an element", case.bytes("forward"), case.bytes("backward"))
MEMORY, CACHE = int(bench_layer_norm.MEMORY / 1e6), int(bench_layer_norm.CACHE / 1e6)
tie('"memory" is # MB and more of $x$ and $y$, "cache" up to # MB', MEMORY, CACHE)
ahead, back, many, mean, _, slower, error = kernels.summary([])


def possible(which: str) -> list[float]:
    """Return the fractions of the copy's speed that rows can reach which are read again."""
    blank = dict.fromkeys(kernels.COLUMNS, "1") | {"provider": "lnlib", "dtype": "bfloat16"}
    made = [blank | {"pass": which, "features": f"{H}"} for _, H in bench_layer_norm.SHAPES]
    return sorted({c.ceiling for c in kernels.comparisons(made)}, reverse=True)[1:]


AGAIN = [*possible("forward"), *possible("backward")]
tie("At # MB and more, forward at least # %", MEMORY, round(100 * ahead.target))
tie("and backward # %, where", round(100 * back.target))
tie("they can reach # % forward and # % backward", *(100 * each for each in AGAIN))
targets = zip((ahead, back), AGAIN, strict=True)
tie("so their targets are # % and # %.", *(100 * each.target * most for each, most in targets))
tie("Backward, at least # times as fast as PyTorch", many.target)
tie("from # rows on, at # MB", kernels.MANY_ROWS, MEMORY)
tie("over at least # shapes, at least # times", kernels.SHAPES, mean.target)
tie("Nowhere more than # % slower", round(100 * (1 / slower.target - 1)))
tie("nor an error above # times", error.target)

# What the compiler makes of it
COMPILED = {
    (row["chip"], row["kernel"], row["rows"], row["features"], row["dtype"]): row
    for row in rows("compiled")
}
WAS = {
    (row["chip"], row["kernel"], row["rows"], row["features"], row["dtype"]): row
    for row in rows("compiled_before")
}
PUBLISHED = rows("published")
ONE = ("H200", "layer_norm_fwd", "65536", "1024", "bfloat16")
HELD = ("H200", "layer_norm_bwd", "65536", "1024", "bfloat16")
UNALIGNED = ("H200", "layer_norm_fwd", "16384", "4097", "bfloat16")


def barriers(row: dict[str, str], which: int) -> int:
    return int(row["barriers"].split("+")[which])


def moved(table: dict[tuple[str, ...], dict[str, str]]) -> float:
    """Return the bytes an element of a long row's way back, on an H200."""
    shape = ("2048", "32768", "bfloat16")
    return sum(
        float(r["bytes"])
        for k, r in table.items()
        if k[2:] == shape and k[0] == "H200" and "_bwd" in k[1]
    )


def best_backward() -> float:
    made = (r for r in PUBLISHED if r["pass"] == "backward" and r["kernel"] == "oink")
    return max(100 * float(r["bytes"]) / ROOFS[r["chip"]] / float(r["us"]) * 1e6 for r in made)


tie("reaches # % of what the least bytes allow", best_backward)
tie("for each shape of # MB and more, before", MEMORY)
tie("At # × # in bfloat16 the model", *map(int, UNALIGNED[2:4]))
tie("a thread can load only # bytes", int(COMPILED[UNALIGNED]["width"]))
tie("goes down the rows for # features", tiles.columns(4, True).features)
tie("comes with the sums: # bytes an element, where it was #", moved(COMPILED), moved(WAS))
tie(
    "Above # features a thread gets # registers",
    tiles.FORWARD // 2,
    tiles.registers(tiles.forward(tiles.FORWARD, 4), 4),
)
tie(
    "A row of # features has # barriers forward instead of #, and # backward instead of #",
    int(ONE[3]),
    *(barriers(COMPILED[ONE], 0), barriers(WAS[ONE], 0)),
    *(barriers(COMPILED[HELD], 1), barriers(WAS[HELD], 1)),
)
tie("**Short rows, backward.** Up to # features", max(tiles.NARROW))
tie("In rows of up to # features a thread may hold", tiles.LONE)
tie("do not start at multiples of # bytes, a thread holds", tiles.unit(0, 1))
free("the model says within # % at all", "a share near # means", why="tests/test_gpu_time.py")

# The LSTM
TIMED = [row for row in rows("lstm") if row["device"] == "cpu"]
LSTM = [row for row in TIMED if row["kind"] == "sequences" and row["batch"] != "1"]
(BATCH,) = {int(row["batch"]) for row in LSTM}
STEPS = sorted({int(row["steps"]) for row in LSTM})
HIDDEN = sorted({int(row["hidden_size"]) for row in LSTM})
tie("PyTorch's LSTM, for # sequences", BATCH)
layer = lnlib.LayerNormLSTM(3, HIDDEN[0])
norms = [p for name, p in layer.named_parameters() if "norm" in name and "bias" not in name]
tie('"nn.LSTM + #T layer norms"', len(norms))
tie("is left out for # steps", STEPS[-1])


def over_lstm(provider: str, which: str, steps: int, hidden: int) -> float:
    wanted = (provider, which, f"{steps}", f"{hidden}")
    (row,) = (r for r in LSTM if (r["provider"], r["pass"], r["steps"], r["hidden_size"]) == wanted)
    return float(row["over_lstm"])


for row in TIMED:  # nowhere slower than the loops and the yardstick
    if row["kind"] == "sequences" and row["provider"] not in ("nn.LSTM", "lnlib"):
        sizes = ("pass", "batch", "steps", "hidden_size")
        (ours,) = (
            each
            for each in TIMED
            if (each["provider"], each["kind"]) == ("lnlib", "sequences")
            and all(each[size] == row[size] for size in sizes)
        )
        assert float(ours["ms"]) < float(row["ms"]), row


def ours(kind: str, batch: int, which: str) -> float:
    (row,) = (
        r
        for r in TIMED
        if (r["provider"], r["kind"], r["pass"]) == ("lnlib", kind, which)
        and (kind != "sequences" or (r["batch"], r["steps"]) == (f"{batch}", f"{STEPS[0]}"))
        and r["hidden_size"] == f"{HIDDEN[0]}"
    )
    return float(row["over_lstm"])


def kept(provider: str) -> float:
    both = (r for r in LSTM if (r["provider"], r["pass"]) == (provider, BOTH))
    return float(next(both)["saved_bytes"])


ALONE_FORWARD = [
    float(row["over_lstm"])
    for row in TIMED
    if (row["provider"], row["kind"], row["pass"]) == ("lnlib", "sequences", FORWARD)
]
tie("`lnlib` takes # to # times as long, and a cell", min(ALONE_FORWARD), max(ALONE_FORWARD))
tie("one case at a time, # times. Both", ours("a cell", 1, FORWARD))
tie(
    "Both passes take # times as long for # sequences of # steps with # features, and # times for "
    "one such sequence; with # features they take # times as long, over # steps # times",
    *(ours("sequences", BATCH, BOTH), BATCH, STEPS[0], HIDDEN[0]),
    *(ours("sequences", 1, BOTH), HIDDEN[1], over_lstm("lnlib", BOTH, STEPS[0], HIDDEN[1])),
    *(STEPS[-1], over_lstm("lnlib", BOTH, STEPS[-1], HIDDEN[0])),
)
tie("they take # of the time", ours("packed, 2 layers, both directions", 64, BOTH))
tie(
    "# sequences of # steps keep # of the bytes",
    *(BATCH, STEPS[0], kept("lnlib") / kept("nn.LSTM")),
)
tie(
    "both passes take # times as long over # steps with # features, and less time with #, or over "
    "# steps",
    over_lstm("lnlib", BOTH, STEPS[0], HIDDEN[0]),
    STEPS[0],
    *HIDDEN,
    STEPS[-1],
)
assert over_lstm("lnlib", BOTH, STEPS[0], HIDDEN[1]) < 1
tie(r"matrices of $@\times H$ numbers", len(layer.weight_hh_l0), H=HIDDEN[0])
tie("grows with $@$. The norms are $@$ numbers", HIDDEN[0] ** 2, sum(map(len, norms)), H=HIDDEN[0])
tie("goes from # to about #; it can pass # where", FLAT, SQUARE, SQUARE)
tie("and with $@$ for the gradients", HIDDEN[0] ** 2, H=HIDDEN[0])
