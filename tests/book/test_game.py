"""The derivation game says exact, approximate or wrong, by how much, and why; it never raises."""

from __future__ import annotations

import functools
import inspect
import re

import pytest
import torch

from lnlib import formula
from lnlib.book.exercises import chapter_05
from lnlib.book.exercises.game import APPROXIMATE, EXACT

game = chapter_05.game
GRADIENTS = game.gradients
# Slips of size ε: the inputs have a variance near 1, and ε is 2e-5 at most.
SMALL = "ε is forgotten"

RIGHT = {
    "weight": lambda dy, centered, s: torch.einsum("bi,bi,b->i", dy, centered, 1 / s),
    "bias": lambda dy: dy.sum(0),
    "s": lambda dy, centered, s, weight: -torch.einsum("ak,ak,a,k->a", dy, centered, s**-2, weight),
    "var": lambda ds, s: ds / 2 / s,
    "centered": lambda dvar, centered, H, dy, weight, s: (
        2 / H * centered * dvar[:, None] + dy * weight / s[:, None]
    ),
    "mean": lambda dcentered: -torch.einsum("ak->a", dcentered),
    "x": lambda dmean, dcentered, H: dmean[:, None] / H + dcentered,
}
ORDER = ["s", "var", "centered", "mean", "x"]
every = pytest.mark.parametrize("name", GRADIENTS)


def cases(name):
    """Return what a reader may use, by name, for each input."""
    gradient = GRADIENTS[name]
    return [dict(zip(gradient._names, case, strict=True)) for case in gradient._inputs]


def by_autograd(name, known):
    """Return the gradient of one quantity, from the formula in float64 and through every path."""
    x, weight, bias = (known[n].clone().requires_grad_() for n in ("x", "weight", "bias"))
    mean = x.mean(1)
    centered = x - mean[:, None]
    var = (centered**2).mean(1)
    s = (var + known["eps"]).sqrt()
    y = centered / s[:, None] * weight + bias
    torch.testing.assert_close(y, formula.layer_norm(x, weight, bias, eps=known["eps"]))
    return torch.autograd.grad((known["dy"] * y).sum(), locals()[name])[0]


def in_float32(function):
    """Return ``function`` of the same names, computed in float32."""

    def single(**known):
        return function(**{k: v.float() if torch.is_tensor(v) else v for k, v in known.items()})

    single.__signature__ = inspect.signature(function)
    return single


@every
def test_the_truth_and_what_is_handed_out_are_what_autograd_finds_through_every_path(name):
    earlier = ORDER[: ORDER.index(name)] if name in ORDER else []
    # Rounding alone: at most 21 terms of size 10, each to 1e-16.
    close = functools.partial(torch.testing.assert_close, rtol=1e-13, atol=1e-13)
    for known in cases(name):
        close(GRADIENTS[name]._function(RIGHT[name])(*known.values()), by_autograd(name, known))
        assert [k for k in known if k[1:] in ORDER and k != "dx"] == [f"d{s}" for s in earlier]
        for step in earlier:
            close(known[f"d{step}"], by_autograd(step, known))


@every
def test_a_right_gradient_is_exact_and_approximate_in_float32(name):
    verdict = GRADIENTS[name].verdict(RIGHT[name])
    assert verdict.right
    assert verdict.message == "exact: within rounding (largest relative error below 1e-12)"
    said = r"approximate: off by \de-[78] of its largest value; computed in float32\?"
    assert re.fullmatch(said, GRADIENTS[name].verdict(in_float32(RIGHT[name])).message)


@every
def test_each_known_slip_is_told(name):
    gradient = GRADIENTS[name]
    for hint, outcomes in gradient._slips.items():
        message = gradient._judge(outcomes).message
        assert hint in message
        how = "approximate: off by" if hint.startswith(SMALL) else "wrong: "
        assert message.startswith(how), message


def from_nowhere(upstream):
    return upstream


def stops(dy):
    raise RuntimeError("sizes\n differ")


def without_eps(dy, centered, weight, var):
    return -(dy * centered * weight).sum(1) / var


@pytest.mark.parametrize(("name", "answer", "says"), [
    ("s", without_eps, "approximate: off by 4e-5 of its largest value; likely slip: ε is for"),
    ("s", in_float32(without_eps), "of its largest value; likely slip: ε is forgotten: s² is"),
    ("var", lambda ds, s: 2 * ds / (2 * s), "off by 100 % of its largest"),
    ("var", lambda ds, s: 31 * ds / (2 * s), "off by 30 times its largest"),
    ("centered", lambda dy, weight, s: dy * weight / s[:, None], "forgotten: σ² is made of x̃"),
    ("bias", lambda dy: dy.sum(0) / 0, "NaN or infinite, where it should not be"),
    ("bias", lambda dy: dy.sum(0, keepdim=True),
     "wrong: 1 × 3 numbers instead of 3 numbers (drop the axis of length 1), with B = 2, H"),
    ("bias", lambda dy: dy[:, :2].sum(0), "2 numbers instead of 3 numbers, with B = 2, H"),
    ("bias", lambda dy: dy.sum(0) + 0j, "wrong: complex numbers where real ones are expected"),
    ("bias", lambda dy: "many", "the answer is not a word, with B = 2, H = 3"),
    ("bias", lambda dy: dy.sum(int(dy.shape[0] == dy.shape[1])), "wrong: off by "),
    ("var", from_nowhere, "nothing is called 'upstream' here; you may use dy, x"),
    ("bias", lambda dx: dx, "nothing is called 'dx' here"),
    ("x", stops, "your function stops with RuntimeError: sizes differ"),
    ("s", max, "write a def or a lambda"),
    ("weight", lambda dy, /: dy.sum(0), "your function stops with TypeError"),
    ("s", lambda: None, "not answered yet"),
    ("bias", ..., "not answered yet: write a function of what you need from dy, x, weight"),
])  # fmt: skip
def test_what_is_off_is_told_by_how_much_and_why_and_nothing_raises(name, answer, says, capsys):
    verdict = GRADIENTS[name].verdict(answer)
    assert not verdict.right
    assert says in verdict.message
    assert "\n" not in verdict.message
    game(**{name: answer})
    last = [] if says.startswith("not answered yet") else ["not yet: 0 of 7 exact"]
    assert capsys.readouterr().out.splitlines()[-1:] == last


@pytest.mark.parametrize(("factor", "begins"), [
    (1 + EXACT / 4, "exact: "),
    (1 + 4 * EXACT, "approximate: off by 4e-12 of its largest value"),
    (1 + 3e-7, "approximate: off by 3e-7 of its largest value; computed in float32?"),
    (1 + 0.9 * APPROXIMATE, "approximate: off by 9e-3 of its largest value"),
    (1 + 1.1 * APPROXIMATE, "wrong: off by 1 % of its largest value"),
])  # fmt: skip
def test_rounding_a_small_error_and_a_mistake_are_three_things(factor, begins):
    verdict = GRADIENTS["bias"].verdict(lambda dy: factor * dy.sum(0))
    assert verdict.message.startswith(begins)
    assert ("float32" in verdict.message) == ("float32" in begins)
    assert verdict.right == begins.startswith("exact")


@pytest.mark.parametrize("answer", [
    lambda dy, nothing=None: dy.sum(0),
    lambda *, dy, **rest: dy.sum(0),
    functools.partial(lambda axis, dy: dy.sum(axis), 0),
    lambda dy: dy.numpy().sum(0),
])  # fmt: skip
def test_arguments_are_given_by_name_and_in_any_style(answer):
    GRADIENTS["bias"].verdict(lambda dy: dy.zero_().sum(0))  # which spoils its own copy
    assert GRADIENTS["bias"].verdict(answer).right


def test_the_game_is_right_when_all_seven_are_and_judges_each_once(capsys):
    calls = []

    def bias(dy):
        calls.append(dy.shape)
        return dy.sum(0) if len(calls) <= 3 else dy

    assert game(**RIGHT | {"bias": bias}) is None
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "right"
    assert len(lines) == 7
    assert all(" exact: within rounding" in line for line in lines)
    assert [tuple(shape) for shape in calls] == [(2, 3), (4, 4), (3, 7)]
    assert game.verdict(RIGHT | {"bias": -1}).message == "not yet: 6 of 7 exact"


def forgets_return(dy, centered, s):
    (dy * centered / s[:, None]).sum(0)


def later(dy):
    raise NotImplementedError


def test_the_game_counts_what_is_exact_and_gathers_what_is_missing(capsys):
    game(weight=RIGHT["weight"], bias=lambda dy: -dy.sum(0), var=..., mean=None)
    game(weight=forgets_return)
    game(weigth=RIGHT["weight"])
    game(RIGHT["weight"])
    assert capsys.readouterr().out.splitlines() == [
        "∂L/∂γ exact: within rounding (largest relative error below 1e-12)",
        "∂L/∂β wrong: off by 200 % of its largest value; likely slip: the sign is wrong",
        "not answered yet: ∂L/∂σ², ∂L/∂μ",
        "not yet: 1 of 7 exact",
        "∂L/∂γ not yet: your function gives None; is a return missing?",
        "not yet: 0 of 7 exact",
        "weigth: there is no such gradient; there are weight, bias, s, var, centered, mean, x",
        "not yet: 0 of 7 exact",
        "not yet: say which is which, as in game(weight=...)",
        "not yet: 0 of 7 exact",
    ]


@pytest.mark.parametrize("empty", [later, lambda: None, lambda dy: ...])
def test_an_empty_body_is_a_question_left_open(empty, capsys):
    game(bias=empty)
    assert capsys.readouterr().out == ""  # before one began
    game(bias=empty, weight=RIGHT["weight"])
    assert "not answered yet: ∂L/∂β" in capsys.readouterr().out.splitlines()
