"""An exercise says right, or the hint that the mistake deserves, in one line; it never raises."""

import numpy as np
import pytest
import torch

from lnlib.book import Exercise, Verdict
from lnlib.book.exercises.base import Search

X = torch.tensor([[1.0, 2.0, 6.0], [0.0, 4.0, 5.0]], dtype=torch.float64)
UNBIASED = "divide by H, not by H - 1"
STD = "that is the standard deviation"
NAN, INF = float("nan"), float("inf")


def variance(x):
    return x.var(-1, correction=0)


def make(**changes):
    arguments = {
        "truth": variance,
        "inputs": [(X,), (10 * X,)],
        "slips": {UNBIASED: lambda x: x.var(-1), STD: lambda x: x.std(-1, correction=0)},
    } | changes
    return Exercise("the variance of each row", **arguments)


@pytest.mark.parametrize("answer", [
    variance,
    lambda x: np.var(x.numpy(), axis=-1),
    lambda x: [float(row.var(correction=0)) for row in x],
    lambda x: variance(x) + 9e-7,
])  # fmt: skip
def test_a_right_answer_is_right_however_it_is_computed(answer):
    assert make(slips={}).verdict(answer) == Verdict(True, "right")


def broken(x):
    raise RuntimeError("size mismatch:\n 3 against 2")


def stub(x):
    raise NotImplementedError


@pytest.mark.parametrize(("answer", "says"), [
    (lambda x: x.var(-1), UNBIASED),
    (lambda x: variance(x).sqrt(), STD),
    (lambda x: x.var(-1) if x.max() < 10 else variance(x), "on input 1 of 2"),
    (lambda x: variance(x) if x.max() < 10 else variance(x) + 3, "on input 2 of 2 ([[10.0, 2"),
    (lambda x: variance(x) - 1e-5, "off by about 1e-05 at place"),
    (lambda x: variance(x) + NAN, "NaN at place 1 of 2 on input 1 of 2"),
    (lambda x: variance(x) + INF, "too large at place 1 of 2"),
    (lambda x: torch.stack([variance(x)[0], x.mean() * NAN]), "NaN at place 2 of 2 on input 1"),
    (lambda x: variance(x)[:, None], "2 × 1 numbers instead of 2 numbers on input 1 of 2"),
    (lambda x: print(end=""), "your function gives None; is a return missing?"),
    (broken, "your function stops with RuntimeError: size mismatch: 3 against 2"),
    (lambda x: {"a": 1}, "that is a dict, not numbers on input 1 of 2"),
    (lambda x: [1, [2, 3]], "the result cannot be read"),
    (lambda x: "four", "the answer is not a word"),
    (lambda x: (x, x), "2 results where 1 is expected"),
    (lambda x: variance(x) > 0, "True or False instead of numbers"),
    (4.0, "answer with the function itself, not with what it gives (a float)"),
])  # fmt: skip
def test_a_mistake_gets_its_own_hint_in_one_line_and_never_a_traceback(answer, says):
    verdict = make().verdict(answer)
    assert not verdict.right
    assert verdict.message.startswith("not yet: ")
    assert says in verdict.message
    assert "\n" not in verdict.message
    if "input 1" in says or "input 2" in says:
        assert UNBIASED not in verdict.message


def test_an_unknown_mistake_is_measured_and_the_truth_stays_hidden():
    ex = make(inputs=[(X, 0.5)], truth=lambda x, eps: x + eps, slips={})
    off = torch.zeros_like(X)
    off[1, 2] = 0.25
    assert ex.verdict(lambda x, eps: x + eps + off).message == (
        "not yet: off by about 0.2 in row 2 of 2, column 3 of 3 on input"
        " ([[1.0, 2.0, 6.0], [0.0, 4.0, 5.0]], 0.5)"
    )
    long = make(inputs=[(torch.arange(28.0).reshape(4, 7),)], slips={})
    assert long.verdict(lambda x: variance(x) + 1).message.endswith("(Tensor of shape (4, 7))")


@pytest.mark.parametrize("answer", [None, ..., "", stub])
def test_an_unanswered_exercise_says_what_to_do(answer):
    assert make().verdict(answer).message == "not answered yet: write a function of 1 argument"
    asked = make(ask="fill in var")
    assert asked.verdict(answer) == Verdict(False, "not answered yet: fill in var")


def test_calling_prints_one_line_but_nothing_before_one_began_and_why_in_the_page_alone(capsys):
    ex = make()
    assert ex(variance) is None
    assert ex.check(lambda x: x.var(-1)) is None
    ex(stub)
    asked = Exercise("H", truth=7, why="[The row](#explorer-row?x=1) has seven.")
    for answer in (..., None, "", 7):
        asked(answer)
    assert capsys.readouterr().out == f"right\nnot yet: {UNBIASED}\nright\n"
    assert repr(ex) == "Exercise('the variance of each row')"


def test_inputs_belong_to_the_exercise_and_each_call_has_a_copy():
    mine = X.clone().requires_grad_()

    def greedy(x):
        x.detach().zero_()
        return x.sum(-1)

    def gradient(x):
        (x**2).sum().backward()
        return x.grad

    ex = Exercise("gradient", truth=lambda x: 2 * x, inputs=[(mine,)], slips={"2x": lambda x: x})
    assert not ex.verdict(greedy).right
    assert ex.verdict(gradient).right
    assert ex.verdict(gradient).right  # on a fresh copy: nothing has piled up
    assert mine.grad is None
    assert mine[0, 2] == 6.0
    mine.detach().zero_()
    assert ex.verdict(gradient).right
    assert not ex.verdict(lambda x: 0 * x).right


def test_several_results_are_compared_one_by_one():
    slips = {"sum over the rows, not in each": lambda x: (x, x.sum(1))}
    ex = Exercise("backward", truth=lambda x: (x, x.sum(0)), inputs=[(X,)], slips=slips)
    assert ex.verdict(lambda x: [x, x.sum(0)]).right
    assert ex.verdict(lambda x: (x, x.sum(1))).message == "not yet: sum over the rows, not in each"
    off = ex.verdict(lambda x: (x, x.sum(0) + 2)).message
    assert off.startswith("not yet: off by about 2 at place 1 of 3 in result 2 of 2 on input")
    assert "result 2 of 2 is a NoneType" in ex.verdict(lambda x: (x, None)).message


NUMBER = Exercise("H", truth=768, slips={"that is the head size": 64}, within=0.5)
ROUNDED = Exercise("ε", truth=1 / 9e4, within=2e-8)
PAIR = Exercise("two", truth=[0.447, -1.342], within=6e-3)
FLAG = Exercise("shift invariant?", truth=True, slips={"add 1 to x and look": False})
FLAGS = Exercise("which shifts?", truth=[True, False, True])
ENDS = Exercise("neutral in a maximum, in a minimum", truth=[-np.inf, np.inf])
LIMIT = Exercise("1/x", truth=lambda x: 1 / x, inputs=[(X[:1, :2],)])
WORD = Exercise("which axis?", truth="features", slips={"that is batch norm": "batch"})


@pytest.mark.parametrize(("exercise", "answer", "message"), [
    (NUMBER, torch.tensor(768.2), "right"),
    (NUMBER, 64, "not yet: that is the head size"),
    (NUMBER, 1000, "not yet: too large"),
    (NUMBER, 10, "not yet: too small"),
    (NUMBER, NAN, "not yet: NaN, where it should not be"),
    (NUMBER, "768", "not yet: the answer is not a word"),
    (NUMBER, lambda: 768, "not yet: answer with the value itself, not with a function"),
    (NUMBER, ..., "not answered yet: answer with a number"),
    (ROUNDED, 1e-5, "not yet: nearly; three digits, please"),
    (ROUNDED, 1.13e-5, "not yet: too large"),
    (ROUNDED, -3, "not yet: the answer is positive"),
    (ROUNDED, [1.1e-5], "not yet: a list of one number instead of one number"),
    (PAIR, [0.4, -1.34], "not yet: nearly; three digits, please"),
    (FLAG, np.bool_(True), "right"),
    (FLAG, 1, "right"),
    (FLAG, 0, "not yet: add 1 to x and look"),
    (FLAG, 2, "not yet: numbers instead of True or False"),
    (FLAG, None, "not answered yet: answer with True or False"),
    (FLAGS, [1, 0, 1.0], "right"),
    (FLAGS, [1, 1, 1], "not yet: True at place 2 of 3 is wrong"),
    (FLAGS, [1, 0], "not yet: 2 values instead of 3 values"),
    (Exercise("how many?", truth=1), True, "not yet: True or False instead of numbers"),
    (ENDS, [-1e30, np.inf], "not yet: too large at place 1 of 2"),
    (ENDS, [-np.inf, 1e30], "not yet: too small at place 2 of 2"),
    (LIMIT, lambda x: x / 0, "not yet: too large in row 1 of 1, column 1 of 2 on input ([[1."),
    (WORD, " Features ", "right"),
    (WORD, "batch", "not yet: that is batch norm"),
    (WORD, "time", "not yet: 'time' is not it; choose from 'batch', 'features'"),
    (WORD, 3, "not yet: the answer is a word"),
    (WORD, " ", "not answered yet: answer with a word in quotes"),
])  # fmt: skip
def test_a_number_a_flag_or_a_word_may_be_the_answer(exercise, answer, message):
    verdict = exercise.verdict(answer)
    assert verdict.message.startswith(message)
    assert verdict.message == message or exercise is LIMIT
    assert verdict.right == (message == "right")


@pytest.mark.parametrize(("changes", "error", "says"), [
    ({"slips": {"fine": lambda x: variance(x) + 1e-9}}, ValueError, "a slip is right.*'fine'"),
    ({"slips": dict.fromkeys("ab", lambda x: x.var(-1))}, ValueError, "no input tells 'b' from"),
    ({"slips": {"oops": broken}}, ValueError, "'oops' is no answer.*size mismatch"),
    ({"truth": stub}, ValueError, "'truth' is no answer"),
    ({"slips": {"oops": 4.0}}, TypeError, "all functions or all values: 'oops'"),
    ({"inputs": []}, ValueError, "a function needs inputs"),
    ({"truth": 4.0, "slips": {}}, ValueError, "a value has none"),
    ({"inputs": [X]}, TypeError, "tuple of arguments"),
    ({"truth": lambda x: x[:0], "slips": {}}, ValueError, "no elements"),
    ({"within": NAN}, ValueError, "tolerance"),
])  # fmt: skip
def test_an_exercise_that_is_wrong_itself_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        make(**changes)


def why_not(numbers):
    if numbers.shape != (3,):
        return f"three numbers, please, not {tuple(numbers.shape)}"
    return None if numbers.sum() == 0 else f"they sum to {numbers.sum():g}"


@pytest.mark.parametrize(("answer", "message"), [
    ((0.5, -0.5, 0), "right"),
    (torch.zeros(3), "right"),
    ([1, 2, 3], "not yet: they sum to 6"),
    ([], "not yet: three numbers, please, not (0,)"),
    ("abc", "not yet: answer with a list"),
    ([1j, -1j, 0], "not yet: answer with a list"),
    ([[1], [2, 3]], "not yet: answer with a list"),
    (..., "not answered yet: answer with a list"),
])  # fmt: skip
def test_a_search_has_many_right_answers_and_says_what_the_others_lack(answer, message):
    find = Search("numbers that sum to zero", wrong=why_not, ask="answer with a list")
    assert find.verdict(answer) == Verdict(message == "right", message)
