"""The numbers of chapter 13, and what computes them."""

import math
from functools import cache

import numpy as np
import torch
from bench_lstm import ROUNDS
from lstm_cases import case
from sweep_lstm import RATES, TOPS

import lnlib
from lnlib.book.data import mnist
from lnlib.book.exercises import chapter_13 as exercises
from lnlib.book.experiments.recurrent import STEPS, Config
from lnlib.book.experiments.sequential_mnist import TEST_EVERY, scaled
from lnlib.book.records import lstms, seeds
from lnlib.book.records.seeds import Means
from lnlib.book.records.tables import recorded
from lnlib.lstm import cpp
from lnlib.lstm.passes import Settings
from ties import Page

page = Page("13_lstm_experiments")
tie, code, found, bound, free = page.tie, page.code, page.found, page.bound, page.free

LSTM, OURS, CARRY, BATCH = "lstm", "ln-lstm", "ln-lstm-normalized", "bn-lstm"
SMALL, MIDDLE, LARGE, TRIPLE, TENFOLD = RATES[1:]
best = cache(lstms.best)
means = cache(lstms.means)
remembered = cache(lstms.remembered)
Pair = tuple[float, float]


def lead(a: Means, b: Means, place: int = -1) -> Pair:
    """Return the mean of a − b, seed by seed, and half of its interval."""
    each = seeds.paired(a, b)
    return float(each.mean[place]), float(each.half[place])


def at(curve: Means, place: int) -> Means:
    return Means(*(part[[place]] for part in curve))


def ours_over_plain(experiment: str, place: int = -1, **where: object) -> Pair:
    two = (means(experiment, model=model, **where) for model in (OURS, LSTM))
    return lead(*two, place)


def last(experiment: str, **where: object) -> float:
    return float(means(experiment, **where).mean[-1])


def first_value(parameter: torch.nn.Parameter | None) -> float:
    assert parameter is not None
    return parameter[0].item()


H = Config().hidden
BENCH = next(iter(ROUNDS))
ROWS = STEPS["rows"]
TEST = Config().rows // (TEST_EVERY - 1)
CELL = lnlib.LayerNormLSTMCell(3, 7)
QUARTER = CELL.weight_hh.shape[0] // CELL.hidden_size  # 4H over H
NORM = lnlib.LayerNorm(3)
GAMMA, BETA = first_value(NORM.weight), first_value(NORM.bias)
ONE = code("outside = [(v.abs() > #).float()")  # what ±1 is in the cells
NOTHING = torch.zeros(1)
SPREAD = lnlib.layer_norm(torch.arange(7.0).double(), (7,), eps=0.0).std(correction=0).item()
BOTH = math.hypot(SPREAD, SPREAD)  # of the sum of two that are independent
CUT = ONE() / 2**0.5

# The experiments
COST = found("an epoch with layer norm takes longer")
BEST = code("BEST = {LSTM: #, OURS: 0.003}")
(PEAK,) = {max(RATES, key=lambda r, m=m: last("rates", model=m, lr=r)) for m in (LSTM, OURS)}
LEADS = {lr: ours_over_plain("rates", lr=lr) for lr in RATES}
UNDECIDED = [lr for lr, (mean, half) in LEADS.items() if abs(mean) < half]
FAR = [lr for lr, (mean, _) in LEADS.items() if mean > 5]
AHEAD = LEADS[PEAK]
LEVEL = ours_over_plain("curves", lr=BEST())
INTERVAL = 100 * seeds._share(math.atan(seeds.students_t(5) / 4**0.5), 4)
ENDS = [last("curves", model=m, lr=lr) for m in (LSTM, OURS) for lr in (SMALL, MIDDLE)]
RIGHT = float(np.mean(ENDS)) / 100
tie("trains on # digits and tests on #. The", Config().rows, TEST)
tie("digits are sequences of # rows, the state has # features, the", ROWS, H)
tie("is clipped to norm #.", Config().clip)
tie("with its # % interval", INTERVAL)
tie(r'"$#\pm#$ points" is the mean difference', *AHEAD)
tie("half of its # % interval. If that interval holds #, the", INTERVAL, NOTHING.item())
FIRST = [float(means("curves", model=m, lr=SMALL).mean[0]) for m in (OURS, LSTM)]
tie("at a learning rate of #. After one epoch the one", SMALL)
tie("has # % of the test digits right, and the other # %.", *FIRST)
tie("At #, the best rate of both networks, no epoch", MIDDLE)
tie(r"the lead at # is gone: it is $#\pm#$ points", SMALL, *ours_over_plain("curves", lr=SMALL))
tie("an epoch with layer norm takes # times as long. {ref}", COST)
tie("An epoch takes # times as long, and in", COST)
tie("With # of these, an accuracy of # %", TEST, 100 * RIGHT)
tie("is known to ±# points. And", 196 * math.sqrt(RIGHT * (1 - RIGHT) / TEST))
tie("both are best with #. Notice", BEST)
tie("after the first epoch at #, that at # the", SMALL, MIDDLE)
tie("flatten near # percent. At rate #", 100 * RIGHT, SMALL)
tie("after one epoch. At rate # the", MIDDLE)
tie("At a learning rate of $#$ layer", SMALL)
tie("at first: # % of the digits are right after one epoch, against # %", *FIRST)
tie(r"a lead of $#\pm#$", *ours_over_plain("curves", 0, lr=SMALL))
tie(r"difference is $#\pm#$ there, and", *ours_over_plain("curves", lr=SMALL))
tie(r"there, and $#\pm#$ with each network at its best rate, #. Both", *LEVEL, BEST)
tie(r"At # layer norm is $#\pm#$ points", LARGE, *ours_over_plain("curves", lr=LARGE))
tie("layer norm takes # times as many. At #, in", COST, MIDDLE)
CURVES = [means("curves", model=model, lr=MIDDLE) for model in (OURS, LSTM)]
tie(r"the difference is $#\pm#$ points. So", *lead(at(CURVES[0], 7 - 1), at(CURVES[1], 10 - 1)))
OTHER = {lr: [means("curves", model=m, lr=lr) for m in (CARRY, OURS)] for lr in (SMALL, LARGE)}
tie(r"is $#\pm#$ points above the paper's at #,", *lead(*OTHER[SMALL]), SMALL)
tie(r"and $#\pm#$ below it at #.", *lead(*OTHER[LARGE][::-1]), LARGE)
tie("both networks are best at #. Right", PEAK)
SMALL_LEADS = [abs(LEADS[rate][0]) for rate in (SMALL, MIDDLE)]
assert max(SMALL_LEADS) < 1
tie("points: # at the smallest rate", LEADS[RATES[0]][0])
tie("within # of zero, # at #, and # at #;", 1, AHEAD[0], PEAK, LEADS[TRIPLE][0], TRIPLE)
tie("intervals at # and # hold", *UNDECIDED)
tie("rate from # to #, logarithmic", RATES[0], RATES[-1])
tie("their top near #. Layer", PEAK)
tie("above # percent everywhere", min(last("rates", model=OURS, lr=lr) for lr in RATES))
PLAIN = {lr: last("rates", model=LSTM, lr=lr) for lr in RATES}
tie("falls to # percent at # and", PLAIN[TRIPLE], TRIPLE)
tie("and to # percent at #, with", PLAIN[TENFOLD], TENFOLD)
tie("networks are best at #, and", PEAK)
tie(r"there layer norm is $#\pm#$", *AHEAD)
tie("rate layer norm has # % of", last("rates", model=OURS, lr=TRIPLE))
tie("the plain LSTM # %; at", PLAIN[TRIPLE])
tie(r"the lead is $#\pm#$ points, at", *LEADS[10 * PEAK])
tie(r"smallest rate $#\pm#$.", *LEADS[RATES[0]])
tie("At # and # it is undecided", *UNDECIDED)

# Scales and the first γ
UNITS = ("standardized", "raw", "bytes")
PIXEL = [scaled(torch.tensor([0.0, 1.0]), unit).tolist() for unit in UNITS[1:]]
INK, BYTE = PIXEL
SCALED = [best("scales", model=OURS, scaling=unit) for unit in UNITS]
tie("standardized, # to #, # to #, at the better", *INK, *BYTE)
tie("batch norm pixels from # to #, so", *INK)
tie("standardized pixels, pixels from # to # and from # to #. Layer", *INK, *BYTE)
tie("stays near # percent, the", float(np.mean([each.mean[-1] for each in SCALED])))
tie("lower for pixels from # to # and ten points for # to #.", *INK, *BYTE)
TENTH = code('OURS: ("default", "#")')
tie("a first γ of # and of #; batch norm is better with #.", GAMMA, TENTH, TENTH)
tie("units of ink, # to #, the", *INK)
tie(r"LSTM is $#\pm#$ points behind at", *ours_over_plain("scales", scaling="raw", lr=SMALL))
tie("a learning rate of #, and $", SMALL)
tie(r"and $#\pm#$ at #. In", *ours_over_plain("scales", scaling="raw", lr=MIDDLE), MIDDLE)
tie("In bytes, # to #, its", *BYTE)
tie(r"stays $#\pm#$ points", *lead(SCALED[2], best("scales", model=LSTM, scaling="bytes")))
USUAL, LESS = (means("gammas", model=OURS, gamma=gamma) for gamma in ("default", "0.1"))
tie(r"at one rate, # is $#\pm#$ points behind # after", TENTH, *lead(USUAL, LESS, 0), GAMMA)
FULL, COOIJMANS = (means("gammas", model=BATCH, gamma=gamma) for gamma in ("1.0", "default"))
tie(r"ends $#\pm#$ points better with #. The two", *lead(COOIJMANS, FULL), TENTH)

# Batches
SIZES = sorted({int(batch) for batch in recorded("lstm_training", experiment="batches")["batch"]})
SEEN = {int(rows) for rows in recorded("lstm_training", experiment="batches")["rows"]}


def sized(model: str, batch: int, lr: float = SMALL) -> Means:
    return means("batches", model=model, batch=batch, lr=lr)


def between(model: str) -> Pair:
    ends = [best("batches", model=model, batch=batch).mean[-1] for batch in SIZES]
    return float(min(ends)), float(max(ends))


tie("means # times as many steps, each", SIZES[-1])
tie("after # digits seen: four times #, raw", 4 * max(SEEN), max(SEEN))
tie("At # and # it is the better", SIZES[3], SIZES[2])
tie("at # and # there was one, #. Notice", SIZES[1], SIZES[0], SMALL)
tie("batch norm at batches of #, where", SIZES[1])
tie("batch sizes #, #, # and #.", *SIZES)
tie("Layer norm is between # and # percent, the", *between(OURS))
tie("the LSTM between # and #. Batch", *between(LSTM))
tie("layer norm at # and #, and has", SIZES[3], SIZES[2])
tie("has # percent at #, with", float(sized(BATCH, 4).mean[-1]), SIZES[1])
tie(r"At batches of # batch norm is $#\pm#$", SIZES[1], *lead(sized(OURS, 4), sized(BATCH, 4)))
tie(r"and $#\pm#$ behind the LSTM", *lead(sized(LSTM, 4), sized(BATCH, 4)))
tie("at batches of # another", SIZES[-1])
tie(r"norm $#\pm#$ points more. How", *lead(sized(BATCH, 64, MIDDLE), sized(BATCH, 64)))
tie(r"Layer norm is $#\pm#$ points better", *lead(sized(OURS, 4), sized(OURS, 64)))
tie("better at # than at #, with # times", SIZES[1], SIZES[-1], SIZES[-1] // SIZES[1])


# Longer sequences, memory, gradients
def longer(kind: str, model: str) -> Means:
    return remembered(kind, "lengths", model=model)


def lost(kind: str, model: str) -> Means:
    return seeds.paired(longer("0 blank rows before", model), longer(kind, model))


def share(kind: str, model: str) -> float:
    return float(longer(kind, model).mean[-1])


ABOVE = [f"{rows} blank rows before" for rows in (0, 5, 10, 20)]
TEN = lost(ABOVE[2], OURS).each
OFTEN = [share(kind, LSTM) for kind in ABOVE]
BELOW = ("10 blank rows after", "each row twice")
MODELS = (LSTM, OURS, BATCH)
tie("trained on # rows of raw ink", ROWS)
tie("five, and # to # with ten", float(TEN.min()), float(TEN.max()))
tie(
    "answers against # to # blank rows", code("more = (#, 5, 10, 20)"), code("more = (0, 5, 10, #)")
)
tie("falls from # to # percent at five", share(ABOVE[0], BATCH), share(ABOVE[1], BATCH))
tie("stays between # and # percent, and", min(OFTEN), max(OFTEN))
tie("sinks from # to # at ten", share(ABOVE[0], OURS), share(ABOVE[2], OURS))
tie("ten rows and # at twenty", share(ABOVE[3], OURS))
tie("three have at most # percent", max(share(kind, m) for kind in BELOW for m in MODELS))
tie(r"On the # rows it leads", ROWS)
tie(r"leads layer norm by $#\pm#$", *lead(longer(ABOVE[0], BATCH), longer(ABOVE[0], OURS)))
LOST = lost(ABOVE[1], BATCH)
tie(r"more rows cost it $#\pm#$", float(LOST.mean[-1]), float(LOST.half[-1]))
tie("layer norm loses # to # points, by", float(TEN.min()), float(TEN.max()))
tie("and the LSTM # at most", float(lost(ABOVE[2], LSTM).each.max()))
tie("gets above # %. With", bound("with ten rows below all networks are lost"))
tie("layer norm has # % right", share(BELOW[1], OURS))
tie(r"right, $#\pm#$ points more", *lead(longer(BELOW[1], OURS), longer(BELOW[1], LSTM)))

SO_FAR = [remembered("accuracy after row", model=model) for model in (LSTM, OURS)]
LABEL = "{} label, rows from another digit"
OWN, THEIRS = (
    [remembered(LABEL.format(whose), model=model) for model in (LSTM, OURS)]
    for whose in ("own", "other's")
)


def crossing(own: Means, theirs: Means) -> float:
    gap = own.mean - theirs.mean
    i = int(np.argmax(gap < 0))
    return float(np.interp(0, [gap[i], gap[i - 1]], [own.at[i], own.at[i - 1]]))


def average(curves: list[Means], place: int) -> float:
    return float(np.mean([curve.mean[place] for curve in curves]))


CHANCE = 100 / len(mnist().test_labels.unique())
LOW = int(min(curve.at[np.argmax(curve.mean > 2 * CHANCE)] for curve in SO_FAR)) - 1
HIGHEST = max(curve.mean[:LOW].max() for curve in SO_FAR)
tie("at rate #. Left: accuracy", SMALL)
tie("below # percent up to row #,", 10 * math.ceil(HIGHEST / 10), LOW)
tie("rising to # percent at row #,", average(SO_FAR, ROWS - 2), int(SO_FAR[0].at[ROWS - 2]))
tie("own label falls from # percent to", average(OWN, 0))
tie("almost none to #, and", average(THEIRS, -1))
CROSS = [crossing(*two) for two in zip(OWN, THEIRS, strict=True)]
tie("they cross near # rows", float(np.mean(CROSS)))
FOREIGN = TOPS.index(20)
tie(r"layer norm: $#\pm#$ points apart", *lead(*THEIRS, FOREIGN))
tie("twenty rows are # % of", 100 * TOPS[FOREIGN] / ROWS)

BACK = remembered("gradient at row, before training", model=LSTM)
FROM, TO = (int(BACK.at[end]) for end in (0, -1))
BEFORE, AFTER = (
    [remembered(f"gradient at row, {when} training", model=model).mean for model in (LSTM, OURS)]
    for when in ("before", "after")
)
tie("line from # at row # to # at row #,", BEFORE[0][0], FROM, BEFORE[0][-1], TO)
tie("norm's stays between # and #. After", min(BEFORE[1]), max(BEFORE[1]))
tie("curves lie between # and #. With", np.min(AFTER), np.max(AFTER))
tie("way out: # % of", lambda: 100 * found("much of the LSTM's gradient arrives after training")())
tie(
    "arrives, and # % of",
    lambda: 100 * found("less of layer norm's gradient arrives after training")(),
)

# A look inside
tie("Train three LSTMs on # digits", code("torch.randperm(#)"))
tie('tanh "between # and #", and', -ONE(), ONE)
tie("normalized vector has spread #, which is not the same as staying within ±#:", SPREAD, ONE)
tie("of normal values, # % lie", 100 * math.erfc(CUT / SPREAD))
tie(r"Its spread is $@$, and # % lie", BOTH, 100 * math.erfc(CUT / BOTH))
tie("the gates in # digits, before", code("x = data.test[:#]"))
tie("same training; ±# is shaded", ONE)
tie("starts within ±#, and has", ONE)
tie("with a spread of #, and stays", found("the spread of what enters the gates is √2"))
tie("within plus or minus # and", ONE)
tie(
    "sums stay within ±#, with a spread of #:",
    ONE,
    found("the spread of what enters the plain LSTM's gates is small"),
)
FLAT = code("(before.abs() > #)")
tie("about # % of the sums are beyond ±#,", lambda: 100 * found("few sums lie beyond ±3")(), FLAT)
tie(
    "of its sums, # % have so",
    lambda: 100 * found("more of the candidate's sums have so small a slope")(),
)

# Pixels, machines, cost
tie("a task of # steps", STEPS["coarse"])
tie("reduced to # × #, pixel", *[math.isqrt(STEPS["coarse"])] * 2)
PIXELS = {model: means("pixels", model=model) for model in (LSTM, OURS)}
tie(r"gets $#\pm#$ % right", float(PIXELS[OURS].mean[-1]), float(PIXELS[OURS].half[-1]))
tie("and has # % with the third", float(PIXELS[LSTM].each[-1].max()))
tie("In both passes over # digits with # features, on", BENCH.batch, BENCH.hidden_size)
PARTS = "matrix products", "norms and gates, in C++", "fresh memory from the system"
free(
    "That took # times as long",
    *(f"| {part} | # % | # % |" for part in (*PARTS, "sums and norms over all steps")),
    "in order for products | – | # % |",
    "| Python, and the rest | # % | # % |",
    "way back the loop kept # numbers of",
    why="the loop over steps of C++ is gone; both were profiled with perf on 2026-11-23",
)
GIVEN = case((2,), size=H, dtype=torch.float32)
_, KEPT = cpp.forward(Settings((2,), 1e-5, "raw", cpp), *GIVEN[:4], keeps=True)
OF_A_ROW = sum(len(kept[0]) for kept in KEPT) - 1  # and the state; without one rstd
tie("Now it keeps #: the state", round(OF_A_ROW / H) + 1)
tie("against that with $#T$ layer", len([n for n, _ in CELL.named_parameters() if "norm" in n]) - 1)
tie("nothing; batches of #. Bars", Config().batch)

NAMES = ("lnlib", "nn.LSTM + 3T layer norms", "TorchScript", "naive loop")


@cache
def costs(steps: int, hidden: int) -> list[float]:
    each = lstms.costs(steps, hidden)
    return [each[name][0] for name in NAMES]


WIDE = code("looks = {(28, 128): style.LAYER_NORM, (28, #)")()
tie("their own, with # features of state and with #.", H, WIDE)
tie("With # features they are about #, #, # and #; with", H, *costs(ROWS, H))
tie("with #, about #, #, # and #. So", WIDE, *costs(ROWS, WIDE))
tie("of lnlib with # features takes about # times", H, costs(ROWS, H)[0])
tie("With # features the big", WIDE)
tie("lnlib takes # times as long, less", costs(ROWS, WIDE)[0])
tie("norms beside it #. Over", costs(ROWS, WIDE)[1])
tie(
    "Over # steps of one pixel they take # and #. There, and with # features",
    STEPS["pixels"],
    *costs(784, H)[:2],
    WIDE,
)

# The verdicts
tie("normalized: all $#H$ sums, by", QUARTER)
tie("within about ±#. | It does not: # % lie", ONE, 100 * math.erfc(CUT / BOTH))
tie(r"| $\gamma = #$ and $\beta = #$ make", GAMMA, BETA)
tie("In batches of # it is far", SIZES[1])
tie("batches of # and of #. | The outputs", SIZES[0], SIZES[-1])
tie("batches of one take # times as", SIZES[-1] // SIZES[0])
tie("at # and # it is far ahead", *FAR)
tie("exchange the first # rows", TOPS[FOREIGN])
tie("brought on # rows", ROWS)
tie(r"best rate, it was $#\pm#$ points", *AHEAD)
tie(r"epochs and $#\pm#$, undecided, after", *LEVEL)
free("#. What layer norm brought", "#. Much of its", "#. A comparison", why="a list")

# Exercises and fine print
OUR_RUNS, PLAIN_RUNS = (means("rates", model=m, lr=PEAK) for m in (OURS, LSTM))
assert np.allclose(OUR_RUNS.each[-1], exercises.OURS)
assert np.allclose(PLAIN_RUNS.each[-1], exercises.PLAIN)
tie("At a learning rate of #, after three", PEAK)
tie("| | # | # | # | # | # |", *range(5))
tie("| layer norm | # | # | # | # | # |", *OUR_RUNS.each[-1].tolist())
tie("| LSTM | # | # | # | # | # |", *PLAIN_RUNS.each[-1].tolist())
tie("interval of ±#, and the two", float(OUR_RUNS.half[-1]))
tie("half of its # % interval. For", INTERVAL)
tie("that half is # standard errors", exercises.STUDENTS_T)
POINTS = seeds.paired(OUR_RUNS, PLAIN_RUNS)
DIFFERENCES, DEVIATION = POINTS.each[-1], float(POINTS.each[-1].std(ddof=1))
tie("differences are #, #, #, # and #.", *DIFFERENCES.tolist())
tie("Their mean is # and their standard deviation #, with", float(DIFFERENCES.mean()), DEVIATION)
tie("with $n-# = #$ below", 1, len(DIFFERENCES) - 1)
tie("that over $@$, #, and", len(DIFFERENCES) ** 0.5, DEVIATION / len(DIFFERENCES) ** 0.5)
tie("half of the interval is #. It does not reach #:", float(POINTS.half[-1]), NOTHING.item())
SHARE, KNOWN_TO = exercises.SHARE, exercises.KNOWN_TO
tie("With # test digits, an accuracy of # %", TEST, 100 * SHARE)
NORMAL = 2**0.5 * torch.tensor(0.95).erfinv().item()
tie("to ±# points: that is # standard", 100 * NORMAL * (SHARE * (1 - SHARE) / TEST) ** 0.5, NORMAL)
free(r"is $\sqrt{p(#-p)/n}$", why="one less a share")
tie("to know it to ±# points?", 100 * KNOWN_TO)
tie("About #, more than three", SHARE * (1 - SHARE) * (NORMAL / KNOWN_TO) ** 2)


def edge(inside: float, outside: float) -> float:
    """Return the last ε, from one that is an answer to one that is none, that is one."""
    for _ in range(40):
        middle = (inside + outside) / 2
        right = exercises.gray.verdict(middle).right
        inside, outside = (middle, outside) if right else (inside, middle)
    return inside


LEAST, GREATEST = edge(0.01, 1e-4), edge(0.01, 1.0)
B_LEAST, B_GREATEST = LEAST / exercises.VARIANCE, GREATEST / exercises.VARIANCE
tie("as at most # of full", 0.5 * ((1 + B_LEAST) / (0.25 + B_LEAST)) ** 0.5)
tie("ink, $x = #$, is still at least #.", 1, (1 + B_GREATEST) ** -0.5)
tie("The state has # features", H)
tie(r"$\sigma_w^2$ is $#/#$.", 1, 1 / exercises.VARIANCE)
tie("number between about # and #. Write", LEAST, GREATEST)
tie(r"full ink is $@$,", 0.5 * ((1 + B_LEAST) / (0.25 + B_LEAST)) ** 0.5, b=B_LEAST)
tie("has the factor $@$.", (1 + B_GREATEST) ** -0.5, b=B_GREATEST)
tie("be between about # and #:", B_LEAST, B_GREATEST)
free("trains with # and not with #, and", r"first $\gamma$ of # better than # for", why="cited")
