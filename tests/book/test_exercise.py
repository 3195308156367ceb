"""An exercise says right, or the hint that the mistake deserves, in one line; it never raises."""

import numpy as np
import pytest
import torch

from lnlib.book import Exercise, Verdict
from lnlib.book.exercises.base import Search

X = torch.tensor([[1.0, 2.0, 6.0], [0.0, 4.0, 5.0]], dtype=torch.float64)
UNBIASED = "divide by H, not by H - 1"
STD = "that is the standard deviation"


def variance(x):
    return x.var(-1, correction=0)


def make(**changes):
    arguments = {
        "truth": variance,
        "inputs": [(X,), (10 * X,)],
        "slips": {UNBIASED: lambda x: x.var(-1), STD: lambda x: x.std(-1, correction=0)},
    } | changes
    return Exercise("the variance of each row", **arguments)


def test_a_right_answer_is_right_however_it_is_computed():
    ex = make()
    assert ex.verdict(variance) == Verdict(True, "right")
    assert ex.verdict(lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)).right
    assert ex.verdict(lambda x: np.var(x.numpy(), axis=-1)).right
    assert ex.verdict(lambda x: [float(row.var(correction=0)) for row in x]).right


def test_calling_and_check_print_one_line_and_give_nothing_to_display(capsys):
    ex = make()
    assert ex(variance) is None
    assert ex.check(lambda x: x.var(-1)) is None
    assert capsys.readouterr().out == f"right\nnot yet: {UNBIASED}\n"


def test_a_known_slip_gets_its_own_hint():
    ex = make()
    assert ex.verdict(lambda x: x.var(-1)) == Verdict(False, f"not yet: {UNBIASED}")
    assert ex.verdict(lambda x: variance(x).sqrt()) == Verdict(False, f"not yet: {STD}")


def test_a_slip_on_one_input_only_is_not_that_slip():
    def sometimes(x):
        return x.var(-1) if x.max() < 10 else variance(x)

    verdict = make().verdict(sometimes)
    assert not verdict.right
    assert UNBIASED not in verdict.message
    assert "on input 1 of 2" in verdict.message


def test_being_right_on_one_input_only_is_not_right():
    verdict = make().verdict(lambda x: variance(x) if x.max() < 10 else variance(x) + 3)
    assert verdict.message == (
        "not yet: off by about 3 at place 1 of 2 on input 2 of 2"
        " ([[10.0, 20.0, 60.0], [0.0, 40.0, 50.0]])"
    ) or verdict.message.startswith("not yet: off by about 3 at place 2 of 2 on input 2 of 2")
    assert not verdict.right


def test_an_unknown_mistake_is_measured_and_the_truth_stays_hidden():
    ex = make(inputs=[(X, 0.5)], truth=lambda x, eps: x + eps, slips={})
    off = torch.zeros_like(X)
    off[1, 2] = 0.25
    assert ex.verdict(lambda x, eps: x + eps + off).message == (
        "not yet: off by about 0.2 in row 2 of 2, column 3 of 3 on input"
        " ([[1.0, 2.0, 6.0], [0.0, 4.0, 5.0]], 0.5)"
    )


@pytest.mark.parametrize("error", [1e-5, -1e-5, float("nan"), float("inf")])
def test_within_is_the_line_between_right_and_wrong(error):
    ex = make(slips={})
    assert ex.verdict(lambda x: variance(x) + 9e-7).right
    assert not ex.verdict(lambda x: variance(x) + error).right


def test_nan_is_named_where_it_is():
    message = make().verdict(lambda x: torch.stack([variance(x)[0], x.mean() * torch.nan])).message
    assert message.startswith("not yet: NaN at place 2 of 2 on input 1 of 2")


def test_a_shape_that_would_broadcast_is_not_right():
    message = make().verdict(lambda x: x.var(-1, correction=0, keepdim=True)).message
    assert message.startswith("not yet: 2 × 1 numbers instead of 2 numbers on input 1 of 2")


def test_long_inputs_are_named_by_shape():
    ex = make(inputs=[(torch.arange(28.0).reshape(4, 7),)], slips={})
    assert ex.verdict(lambda x: variance(x) + 1).message.endswith("(Tensor of shape (4, 7))")


def broken(x):
    raise RuntimeError("size mismatch:\n 3 against 2")


def stub(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (broken, "your function stops with RuntimeError: size mismatch: 3 against 2"),
        (lambda x, y: x, "your function stops with TypeError: "),
        (lambda x: {"a": 1}, "that is a dict, not numbers on input 1 of 2"),
        (lambda x: [1, [2, 3]], "the result cannot be read"),
        (lambda x: "four", "not yet: the answer is not a word"),
        (lambda x: (x, x), "2 results where 1 is expected"),
        (lambda x: variance(x) > 0, "True or False instead of numbers"),
        (4.0, "answer with the function itself, not with what it gives (a float)"),
        (variance(X), "answer with the function itself, not with what it gives (a Tensor)"),
    ],
)
def test_what_is_no_answer_gets_a_hint_and_never_a_traceback(answer, says):
    verdict = make().verdict(answer)
    assert not verdict.right
    assert says in verdict.message
    assert verdict.message.startswith("not yet: ")
    assert "\n" not in verdict.message


@pytest.mark.parametrize("answer", [None, ..., "", stub])
def test_an_unanswered_exercise_says_what_to_do(answer):
    assert make().verdict(answer).message == "not answered yet: write a function of 1 argument"
    asked = make(ask="fill in var")
    assert asked.verdict(answer) == Verdict(False, "not answered yet: fill in var")


def test_a_missing_return_is_noticed():
    message = make().verdict(lambda x: print(end="")).message
    assert message == "not yet: your function gives None; is a return missing?"


def test_nothing_is_said_before_one_began_and_why_in_the_page_alone(capsys):
    asked = Exercise("H", truth=7, why="[The row](#explorer-row?x=1) has seven.")
    for answer in (..., None, "", 7):
        asked(answer)
    make()(stub)
    assert capsys.readouterr().out == "right\n"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (1.1e-5, "nearly; three digits, please"),
        (1e-5, "nearly; three digits, please"),
        (1.13e-5, "too large"),
        (-3, "the answer is positive"),
        ([1.1e-5], "a list of one number instead of one number"),
    ],
)
def test_a_rounded_answer_and_a_sign_are_told(answer, says):
    ex = Exercise("ε", truth=1 / 9e4, within=2e-8)
    assert ex.verdict(answer).message == f"not yet: {says}"
    assert Exercise("two", truth=[0.447, -1.342], within=6e-3).verdict([0.4, -1.34]).message == (
        "not yet: nearly; three digits, please"
    )


def test_writing_into_an_input_does_not_spoil_the_exercise():
    ex = make()

    def greedy(x):
        x.zero_()
        return x.sum(-1)

    assert not ex.verdict(greedy).right
    assert ex.verdict(variance).right
    assert X[0, 2] == 6.0


def test_inputs_belong_to_the_exercise_once_it_is_made():
    mine = X.clone()
    ex = make(inputs=[(mine,)])
    mine.zero_()
    assert ex.verdict(variance).right
    assert not ex.verdict(lambda x: 0 * x.sum(-1)).right


def test_an_input_that_wants_a_gradient_still_does():
    x = X.clone().requires_grad_()

    def gradient(x):
        (x**2).sum().backward()
        return x.grad

    ex = Exercise("gradient", truth=lambda x: 2 * x, inputs=[(x,)], slips={"2x": lambda x: x})
    assert ex.verdict(gradient).right
    assert ex.verdict(gradient).right  # on a fresh copy: nothing has piled up
    assert x.grad is None


def test_several_results_are_compared_one_by_one():
    ex = Exercise(
        "backward",
        truth=lambda x: (x, x.sum(0)),
        inputs=[(X,)],
        slips={"sum over the rows, not in each": lambda x: (x, x.sum(1))},
    )
    assert ex.verdict(lambda x: [x, x.sum(0)]).right
    assert ex.verdict(lambda x: (x, x.sum(1))).message == "not yet: sum over the rows, not in each"
    off = ex.verdict(lambda x: (x, x.sum(0) + 2)).message
    assert off.startswith("not yet: off by about 2 at place 1 of 3 in result 2 of 2 on input")
    assert "result 2 of 2 is a NoneType" in ex.verdict(lambda x: (x, None)).message


def test_a_number_may_be_the_answer():
    ex = Exercise("H", truth=768, slips={"that is the head size": 64}, within=0.5)
    assert ex.verdict(768).right
    assert ex.verdict(torch.tensor(768.2)).right
    assert ex.verdict(64).message == "not yet: that is the head size"
    assert ex.verdict(1000).message == "not yet: too large"
    assert ex.verdict(10).message == "not yet: too small"
    assert ex.verdict(float("nan")).message == "not yet: NaN, where it should not be"
    assert ex.verdict("768").message == "not yet: the answer is not a word"
    assert ex.verdict(lambda: 768).message.startswith("not yet: answer with the value itself")
    assert ex.verdict(...).message == "not answered yet: answer with a number"


def test_true_or_false_may_be_the_answer_and_so_may_one_and_zero():
    ex = Exercise("shift invariant?", truth=True, slips={"add 1 to x and look": False})
    assert ex.verdict(True).right
    assert ex.verdict(np.bool_(True)).right
    assert ex.verdict(False).message == "not yet: add 1 to x and look"
    assert ex.verdict(1).right
    assert ex.verdict(0).message == "not yet: add 1 to x and look"
    assert ex.verdict(2).message == "not yet: numbers instead of True or False"
    several = Exercise("which shifts?", truth=[True, False, True])
    assert several.verdict([1, 0, 1.0]).right
    assert several.verdict([1, 1, 1]).message == "not yet: True at place 2 of 3 is wrong"
    assert several.verdict([1, 0]).message == "not yet: 2 values instead of 3 values"
    assert not Exercise("how many?", truth=1).verdict(True).right
    assert ex.verdict(None).message == "not answered yet: answer with True or False"


def test_a_finite_number_for_infinity_is_told_its_side():
    ends = Exercise("neutral in a maximum, in a minimum", truth=[-np.inf, np.inf])
    assert ends.verdict([-1e30, np.inf]).message == "not yet: too large at place 1 of 2"
    assert ends.verdict([-np.inf, 1e30]).message == "not yet: too small at place 2 of 2"
    assert ends.verdict(0).message == "not yet: one number instead of 2 numbers"
    limit = Exercise("1/x", truth=lambda x: 1 / x, inputs=[(X[:1, :2],)])
    assert "too large at place" not in limit.verdict(lambda x: 0 / x).message
    assert limit.verdict(lambda x: x / 0).message.startswith("not yet: too large in row 1 of 1")


def test_a_false_without_a_slip_is_still_wrong():
    verdict = Exercise("shift invariant?", truth=True).verdict(False)
    assert verdict == Verdict(False, "not yet: False is wrong")


def test_a_word_may_be_the_answer():
    ex = Exercise("which axis?", truth="features", slips={"that is batch norm": "batch"})
    assert ex.verdict("features").right
    assert ex.verdict(" Features ").right
    assert ex.verdict("batch").message == "not yet: that is batch norm"
    assert ex.verdict("time").message == (
        "not yet: 'time' is not it; choose from 'batch', 'features'"
    )
    assert ex.verdict(3).message == "not yet: the answer is a word"
    assert ex.verdict(" ").message == "not answered yet: answer with a word in quotes"


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"slips": {"fine": lambda x: variance(x) + 1e-9}}, ValueError, "a slip is right.*'fine'"),
        (
            {"slips": {"a": lambda x: x.var(-1), "b": lambda x: x.var(-1)}},
            ValueError,
            "no input tells 'b' from 'a'",
        ),
        ({"slips": {"oops": broken}}, ValueError, "'oops' is no answer.*size mismatch"),
        ({"truth": stub}, ValueError, "'truth' is no answer"),
        ({"slips": {"oops": 4.0}}, TypeError, "all functions or all values: 'oops'"),
        ({"inputs": []}, ValueError, "a function needs inputs"),
        ({"truth": 4.0, "slips": {}}, ValueError, "a value has none"),
        ({"inputs": [X]}, TypeError, "tuple of arguments"),
        ({"truth": lambda x: None}, ValueError, "'truth' is no answer"),
        ({"truth": lambda x: x[:0], "slips": {}}, ValueError, "no elements"),
        ({"within": -1.0}, ValueError, "tolerance"),
        ({"within": float("nan")}, ValueError, "tolerance"),
    ],
)
def test_an_exercise_that_is_wrong_itself_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        make(**changes)


def test_its_repr_is_the_same_in_every_run():
    assert repr(make()) == "Exercise('the variance of each row')"


def why_not(numbers):
    if numbers.shape != (3,):
        return f"three numbers, please, not {tuple(numbers.shape)}"
    return None if numbers.sum() == 0 else f"they sum to {numbers.sum():g}"


@pytest.mark.parametrize("answer", [[1, 2, -3], (0.5, -0.5, 0), np.zeros(3), torch.zeros(3)])
def test_a_search_has_many_right_answers(capsys, answer):
    find = Search("numbers that sum to zero", wrong=why_not, ask="answer with a list")
    assert find(answer) is None
    assert capsys.readouterr().out == "right\n"
    assert find.verdict(answer) == Verdict(True, "right")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1, 2, 3], "not yet: they sum to 6"),
        ([1, -1], "not yet: three numbers, please, not (2,)"),
        ([], "not yet: three numbers, please, not (0,)"),
        ("abc", "not yet: answer with a list"),
        ([1j, -1j, 0], "not yet: answer with a list"),
        ([[1], [2, 3]], "not yet: answer with a list"),
        (len, "not yet: answer with a list"),
        (None, "not answered yet: answer with a list"),
        (..., "not answered yet: answer with a list"),
    ],
)
def test_a_search_says_why_an_answer_does_not_have_the_property(answer, message):
    find = Search("numbers that sum to zero", wrong=why_not, ask="answer with a list")
    assert find.verdict(answer) == Verdict(False, message)
