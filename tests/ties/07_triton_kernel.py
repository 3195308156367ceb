"""The numbers of chapter 07, and what computes them."""

import ast
import re

import numpy as np
import torch

from lnlib import formula
from lnlib.book.explorers import TilesExplorer
from lnlib.book.home import ROOT
from lnlib.book.records.kernels import launches, published
from lnlib.triton_kernel import tiles
from ties import Page

page = Page("07_triton_kernel")
tie, code, found, free = page.tie, page.code, page.found, page.free

BYTES, F32 = torch.bfloat16.itemsize, torch.float32.itemsize
BANDWIDTH = code("BANDWIDTH, RATE = #, 67e12")()
RATE = code("BANDWIDTH, RATE = 4.8e12, #")()
ROWS, FEATURES = code("elements = # * 4096")(), code("elements = 8192 * #")()
CHIP = code("tiles.programs(8192, tile, multiprocessors=#)")()
AHEAD = code("ahead, back = # * elements * 2, 3 * elements * 2")()  # numbers an element
BACK = code("ahead, back = 2 * elements * 2, # * elements * 2")()
FORWARD = code('"forward, one kernel": (# / 4')()  # operations an element
BACKWARD = code('"backward, one kernel": (# / 6')()
IN_TWO = code('"backward, two kernels": (# / 10')()
STEPS = code("reads, writes = #, 5")() + code("reads, writes = 7, #")()
TWO_KERNELS = (BACK + 2) * BYTES  # dx, and dγ and dβ from x and dy once more
LONG = (2 + 2 + 1) * BYTES  # the means of rows, then dx and the sums of columns
ZERO = code("other=#")

# The question, and the roof
tie("An H200 does # trillion float32", RATE / 1e12)
tie("You normalize # rows of # features", ROWS, FEATURES)
tie("Ten operations on # million numbers", ROWS * FEATURES / 1e6)
MOVED, MOVING = found("the forward pass moves 134 MB"), found("moving these takes 28 microseconds")
COMPUTING = found("computing takes 5 microseconds")
MOVING_BACK = found("the backward pass moves for 42 microseconds")
tie("million numbers take # µs", COMPUTING)
tie("lie in memory, # MB of them", MOVED() / AHEAD)
tie("At # TB/s those # MB take # µs", BANDWIDTH / 1e12, MOVED, MOVING)
tie("*multiprocessors*, # on an H200", CHIP)
LATENCY = code("latency, multiprocessors = #, 132")()
tie("memory takes # ns, its", 1e9 * LATENCY)
tie("In this time # MB could", BANDWIDTH * LATENCY / 1e6)
tie("at once, # KB for each", BANDWIDTH * LATENCY / CHIP / 1e3)
tie("of a stack of #: #", code("latency, multiprocessors = 400e-9, #"), code('ers": ("# KB'))
tie("and # KB, a few and # to #", code('ory": ("# KB'), code('"#–20 ns'), code('"10–# ns'))
tie("the cache, # MB and # to #", code('"# MB"'), code('"#–200 ns'), code('"150–# ns'))
tie("and memory, # GB and # nano", code('"# GB"'), 1e9 * LATENCY)
tie("its maker states # TB/s between", BANDWIDTH / 1e12)
tie("and chip, and # trillion float32", RATE / 1e12)
tie("In bfloat16 that is # bytes an element forward and # bytes", AHEAD * BYTES, BACK * BYTES)
tie("moves for # µs and computes for # µs; its", MOVING, COMPUTING)
tie("backward pass moves for # µs. [✓]", MOVING_BACK)
tie("you can do # float32 operations", RATE / BANDWIDTH)
tie("forward and # backward. Three of the # rebuild", BACKWARD, BACKWARD)
tie("so they do #.", IN_TWO)
tie("turns flat at #.", RATE / BANDWIDTH)
tie("forward step by step at #,", code('"forward, step by step": (# / 24')() / (STEPS * BYTES))
tie("backward in two kernels at #,", IN_TWO / TWO_KERNELS)
tie("backward in one at #,", BACKWARD / (BACK * BYTES))
tie("forward in one kernel at #.", FORWARD / (AHEAD * BYTES))
tie("That makes # bytes an element, six", STEPS * BYTES)
tie("makes # bytes an element where # would do", TWO_KERNELS, BACK * BYTES)
tie("so at best # % of", 100 * BACK * BYTES / TWO_KERNELS)
free("If the number of features is a multiple of #;", why="PyTorch's choice")

# The first kernel
tie("uses the first, number #.", code("me = tl.program_id(#)"))
LANES = code("cols = tl.arange(0, #)\n    tl.store")()
tie("is the vector #, #, …, #.", *(float(torch.arange(LANES)[i]) for i in (0, 1, -1)))
tie("Nothing stops lanes # and #.", code("copy[(1,)](book_row, memory[:#])"), LANES - 1)
tie("along direction #, the only", code("row, tl.sum(x, axis=#)"))
tie("Masked lanes hold #, which", ZERO)
tie(r"now the masked lanes hold $# - \mu$", ZERO)
tie("moves just the $#BHe$ bytes", AHEAD)
tie("{eq}`eq-kernel-bytes`: # bytes an element", AHEAD * BYTES)
free("must be a power of #.", "at powers of #, where", "are no powers of # and", why="binary")

# The lanes that hold −μ
ROW = torch.tensor([code("torch.tensor([#, 4, 4, 4, 5, 5, 7, 9])")(), 4, 4, 4, 5, 5])
SIX = formula.terms(ROW)
tie("its first six, (#, #, #, #, #, #),", *map(float, ROW))
tie("with mean # and variance #, and", SIX.mean.item(), SIX.var.item())
FEWEST, MOST = code("sizes = np.arange(#, 65)")(), code("sizes = np.arange(2, #)")() - 1
tie("features from # to #. A saw", FEWEST, MOST)
JUMPS = FEWEST + 1, MOST // 2 + 1  # one above a power of two
EXCESS = [100 * ((1 << (H - 1).bit_length()) - H) / H for H in JUMPS]
tie("to # percent at # and to # at #, and", EXCESS[0], JUMPS[0], EXCESS[1], JUMPS[1])
H = code("x = (3 + torch.randn(2, 3, #))")()
tie("Tests with # features, or", 1 << (H - 1).bit_length())
tie("Test with # features and", H)

# Tiles
SHORT = code("tile = tiles.forward(#, itemsize=4)")()
tile = tiles.forward(SHORT, F32)
tie("each of # threads", tiles.THREADS)
tie("A row of # features would", SHORT)
tie("as fill # lanes, at most # rows", tile.rows * tile.features, tiles.forward(1, F32).rows)
tie("tile that program # reads", TilesExplorer().tiles_at(1)[0].program)

# Which variance
SPREAD = torch.Size(
    (code("spread_1 = torch.randn(#, 1021)")(), code("spread_1 = torch.randn(50, #)")())
)
RATIOS = 10.0 ** np.arange(code("np.arange(#, 5.5, 0.5)")(), code("np.arange(0, #, 0.5)")(), 0.5)


def one_pass_ends() -> float:
    """Return the largest mean at which one pass, in float32, takes no root of less than 0."""
    torch.manual_seed(1)
    rows = torch.randn(SPREAD)
    means = [float(mean) for mean in RATIOS]
    moved = ((mean, rows + mean) for mean in means)
    var = {mean: x.square().mean(1) - x.mean(1) ** 2 for mean, x in moved}
    return next(means[i - 1] for i, mean in enumerate(means) if (var[mean] + 1e-5 < 0).any())


tie("in # float32 rows of # features", *SPREAD)
tie("standard deviation from # to #, both", *RATIOS[[0, -1]])
tie("of the mean and ends near #. Welford", one_pass_ends)
tie("At a mean of # standard deviations", code("x = spread_1 + #\n"))
tie("gives exactly # everywhere", formula.terms(torch.full((3,), 0.1)).x_hat.abs().max().item())
free("$x$ and $x^#$", r"\overline{x^#}+", why="a square")

# The way back
MANY = tiles.programs(ROWS, tiles.backward(FEATURES, F32), CHIP)
tie("there `dy` is #, as", ZERO)
tie("writes $dx$: the $#BHe$", BACK)
tie("partial sums add # bytes for each feature", code('share of", # * count * 4096 / back'))
tie("With # rows of # features on an H200's # multi", ROWS, FEATURES, CHIP)
tie("multiprocessors, # programs take # rows each", MANY, ROWS // MANY)
tie(
    "rows each, and the partial sums add # %.",
    lambda: 100 * found("their partial sums: a share of")(),
)
free("and until # it lacked", why="a date")
free("about # of # runs {cite", "on one RTX #, with # rows of # features", why="cited")
tie("Added up in # orders", code("torch.randperm(programs) for _ in range(#)"))

# Rows that do not fit
free("rows of more than # KB", why="cited")
ALIGNED = next(k for k in range(1, 17) if tiles.forward(3 * 2**12 + k, F32))
UNIT = tiles.unit(2**20, BYTES) * BYTES
tie("rows of up to # features forward and # backward", tiles.FORWARD, tiles.BACKWARD)
tie("is no multiple of #. Backward", ALIGNED)
tie("more than # features that do not start at multiples of # b", tiles.UNALIGNED_SUMS, UNIT)
tie("That is # bytes an element, unless", (AHEAD + 1) * BYTES)
tie("programs owns # features", tiles.columns(F32, is_aligned=True).features)
tie("one writes $dx$: # bytes an element instead of #.", LONG, BACK * BYTES)

# lnlib's kernels, and how fast they are
HALF, WHOLE = torch.iinfo(torch.int32), torch.iinfo(torch.int64)
tie("reach beyond $#$ elements", HALF.max + 1)
TESTS = (ROOT / "tests/test_triton_kernel.py").read_text(encoding="utf8")
SIZES = [
    ast.literal_eval(re.findall(rf"^{n} = (\[.*\])", TESTS, re.M)[0]) for n in ("SMALL", "LARGE")
]
tie("tries - rows of # to # features", min(SIZES[0]), max(SIZES[1]))
tie("A thread moves # bytes at a time", UNIT)

# What others measured, and what the compiler makes of lnlib's launches
BEST = found("forward, the best share of the roof")
tie("H100 the best forward pass reaches #", found("forward, the best with 134 MB on an H100"))
tie("with # MB to move, and # with # GB", MOVED, BEST, found("it moves so many GB"))
tie("Backward, the best is #, on a GB300", found("backward, the best share of the roof"))
ROOFS = {
    "A100": code('"A100": #')(),
    "H100": code('"H100": #')(),
    "B200": code('"B200": #')(),
    "GB300": code('"GB300": #')(),
}
AHEAD_OF, BEHIND = published("forward", ROOFS), published("backward", ROOFS)
FLAT = [t.bytes / 1e6 for t in BEHIND if (t.kernel, t.chip) == ("Liger-Kernel", "B200")]
TIMES = found("on a B200, more bytes take no longer: milliseconds")
tie("takes some # ms for # MB as for # MB", TIMES, min(FLAT), max(FLAT))
RISE = [[t.share for t in AHEAD_OF if t[:2] == ("Liger-Kernel", c)] for c in ("A100", "H100")]
THEIRS = [t.share for t in AHEAD_OF if t.kernel == "PyTorch"]
tie("rise above # on two", min(map(max, RISE)))
tie("stays below #; quack reaches #.", max(THEIRS), BEST)
WIDE = code('wide = "forward", #, 15872')(), code('wide = "forward", 4096, #')()
WAS, IS = (launches(table, "forward", *WIDE)[0] for table in ("compiled_before", "compiled"))
tie("Forward, with # features, a thread used #,", WIDE[1], int(WAS["registers"]))
tie("Limited to #, two fit", lambda: tiles.registers(tiles.forward(WIDE[1], F32), F32))
BARRIERS = [int(launch["barriers"].split("+")[0]) for launch in (WAS, IS)]
tie("The same kernel had #, and has # since", *BARRIERS)
ROW_BY_ROW = code('"backward", #, 12288')(), code('"backward", 8192, #')()
MOVED_BACK = sum(
    float(each["bytes"]) for each in launches("compiled_before", "backward", *ROW_BY_ROW)
)
tie("a row of # features moved # bytes an", ROW_BY_ROW[1], MOVED_BACK)
tie("an element, where # do.", LONG)
ODD = code('launches(now, "forward", 16384, #)')()
tie("Rows of # features start", ODD)
tie("loads # bytes at a time, not #.", code('narrow["width"]), equals=#'), UNIT)

# Takeaways, exercises, fine print
free("#. Bytes are necessary", "#. Bytes are not", why="a list")
free("#. A masked lane", "#. Sums over rows", why="a list")
tie("in bfloat16, # an element forward and # backward", AHEAD * BYTES, BACK * BYTES)
tie("if that is not #. Test", ZERO)
tie("four numbers, # bytes", code("exercises.count_bytes([#, 10])"))
tie("reads $h$ again: # bytes", code("exercises.count_bytes([8, #])"))
tie("masked lanes keep their #, and", ZERO)
MEAN = float(ROW.mean())
tie("adds $@$. So", lambda: (LANES - len(ROW)) / len(ROW) * MEAN**2, mu=MEAN)
tie("The maker's # TB/s", BANDWIDTH / 1e12)
MICRO = 1e6 * FORWARD * ROWS * FEATURES / RATE
tie("takes # µs; if none can, # µs", 1.5 * MICRO, 2 * MICRO)
free("layer norm # times as slow {cite", why="cited")
tie("in # bits, which is enough for $#$ elements", HALF.bits, HALF.max + 1)
tie("elements; `lnlib`'s have #.", WHOLE.bits)
tie("such a chip holds # MB", code('"# MB"'))
