"""A check prints one stable line if the claim holds, and otherwise stops with all it knows."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch

from lnlib.book import CheckFailed, check, max_abs

NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(
    ("value", "rule", "line"),
    [
        (3e-11, {"below": 1e-10}, "✓ it holds ⟨3e-11⟩ (below 1e-10)"),
        (0.75, {"above": 0.5}, "✓ it holds ⟨0.75⟩ (above 0.5)"),
        (0.4, {"between": (0.4, 0.6)}, "✓ it holds ⟨0.40⟩ (between 0.4 and 0.6)"),
        ([1, 2.6], {"between": (0, 3)}, "✓ it holds ⟨1.0 to 2.6⟩ (between 0 and 3)"),
        (94.06, {"between": (94, 94.2)}, "✓ it holds ⟨94.06⟩ (between 94 and 94.2)"),
        ([3.0, 14342.1], {"below": 15000}, "✓ it holds ⟨14,300⟩ (below 15000)"),
        ([30.0, 14342.1], {"above": 3}, "✓ it holds ⟨30⟩ (above 3)"),
        (0.09996, {"below": 0.1}, "✓ it holds ⟨0.09996⟩ (below 0.1)"),
        (0.09999996, {"below": 0.1}, "✓ it holds ⟨0.09999996⟩ (below 0.1)"),
        (0.5, {"below": 0.50000000001}, "✓ it holds ⟨0.50⟩ (below 0.50000000001)"),
        (1e6 - 0.25, {"below": 1e6}, "✓ it holds ⟨999,999.8⟩ (below 1000000)"),
        ([2.5, 10.55], {"between": (2.5, 10.6)}, "✓ it holds ⟨2.5 to 10.6⟩ (between 2.5 and 10.6)"),
        (10.55, {"between": (2.5, 10.56)}, "✓ it holds ⟨10.55⟩ (between 2.5 and 10.56)"),
        (1.27e-6, {"equals": 0, "within": 1.27e-6}, "✓ it holds ⟨off by 1.27e-6⟩ (within 1.27e-6)"),
        (117, {"above": 100}, "✓ it holds ⟨117⟩ (above 100)"),
        (
            [1, 2.0],
            {"equals": [1, 2.0 + 9e-7], "within": 1e-6},
            "✓ it holds ⟨off by 9e-7⟩ (within 1e-6)",
        ),
        (2.0, {"equals": 2, "within": 1e-6}, "✓ it holds ⟨off by 0⟩ (within 1e-6)"),
        (torch.ones(3), {"equals": 1}, "✓ it holds (exactly)"),
        ((4, 8), {"equals": torch.Size([4, 8])}, "✓ it holds (exactly)"),
        (torch.float32, {"equals": torch.float32}, "✓ it holds (exactly)"),
        (True, {}, "✓ it holds"),
        (np.array([True, True]), {}, "✓ it holds"),
        (torch.tensor([NAN]).isnan().all(), {}, "✓ it holds"),
    ],
)
def test_a_claim_that_holds_prints_one_line_with_what_was_found_and_the_bound(
    capsys, value, rule, line
):
    assert check("it holds", value, **rule) is None
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (1e-10, {"below": 1e-10}),  # strict
        (0.5, {"above": 0.5}),
        (0.39, {"between": (0.4, 0.6)}),
        (0.61, {"between": (0.4, 0.6)}),
        ([0.0, 0.0, 2.0], {"below": 1}),  # one bad element is enough
        ([2.0, 2.0, 0.0], {"above": 1}),
        ([0.5, 0.7], {"between": (0.4, 0.6)}),
        ([1.0, 2.0], {"equals": [1.0, 2.0 + 2e-6], "within": 1e-6}),
        (torch.tensor([1.0, 1.1]), {"equals": 1}),
        (1.0 + 2**-52, {"equals": 1.0}),
        (2**53 + 1, {"equals": 2**53}),  # they meet in float64
        ((4, 8), {"equals": (8, 4)}),
        (torch.float32, {"equals": torch.float64}),
        ("rows", {"equals": "columns"}),
        (None, {"equals": 0.0}),
        (1.0, {"equals": "1.0"}),
        (False, {}),
        (np.array([True, False]), {}),
        (torch.tensor(False), {}),
    ],
)
def test_a_claim_that_fails_raises_and_prints_nothing(capsys, value, rule):
    with pytest.raises(CheckFailed, match=r"^it holds\n"):
        check("it holds", value, **rule)
    assert capsys.readouterr().out == ""


def test_a_failed_check_is_an_assertion_error():
    assert issubclass(CheckFailed, AssertionError)


@pytest.mark.parametrize(
    "rule", [{"below": 1}, {"above": -1}, {"between": (-1, 1)}, {"equals": 0, "within": 1}]
)
@pytest.mark.parametrize("value", [NAN, [0.0, NAN], torch.tensor([NAN, 0.0])])
def test_nan_never_passes(value, rule):
    with pytest.raises(CheckFailed, match="measured NaN in 1"):
        check("it holds", value, **rule)


def test_nan_is_worse_than_any_number():
    with pytest.raises(CheckFailed, match=r"measured: nan at \[1\]\n  failed:   2 of 3"):
        check("it holds", [1e300, NAN, 0.0], below=1)


def test_nan_passes_only_where_nan_is_expected():
    check("same places", [NAN, 1.0], equals=[NAN, 1.0])
    for measured, expected in ([NAN, 1.0], [1.0, NAN]), ([0.0, 1.0], [NAN, 1.0]):
        with pytest.raises(CheckFailed, match="nan"):
            check("other places", measured, equals=expected, within=1e9)


def test_infinities_are_equal_only_with_the_same_sign():
    check("same", [INF, -INF], equals=[INF, -INF], within=1e-6)
    with pytest.raises(CheckFailed, match="off by inf"):
        check("other", INF, equals=-INF, within=1e9)
    with pytest.raises(CheckFailed):
        check("finite", INF, below=1e300)


@pytest.mark.parametrize("rule", [{}, {"below": 1}, {"equals": np.empty((0, 3), dtype=bool)}])
def test_a_value_without_elements_checks_nothing_and_fails(rule):
    value = np.empty((0, 3), dtype=bool if "below" not in rule else float)
    with pytest.raises(CheckFailed, match="no elements"):
        check("it holds", value, **rule)


@pytest.mark.parametrize(("a", "b"), [((3, 1), (3,)), ((2, 3), (3,)), ((3,), (1,)), ((), (3,))])
def test_shapes_are_never_broadcast(a, b):
    with pytest.raises(CheckFailed) as failure:
        check("it holds", torch.ones(a), equals=torch.ones(b))
    assert f"{a} measured, {b} expected" in str(failure.value)


def test_a_failure_tells_the_worst_element_its_place_and_both_kinds():
    measured = torch.zeros(2, 3)
    measured[0, 1], measured[1, 2] = 0.25, -0.5
    with pytest.raises(CheckFailed) as failure:
        check("dx agrees", measured, equals=np.zeros((2, 3)), within=0.1)
    assert str(failure.value).splitlines() == [
        "dx agrees",
        "  wanted:   equal within 0.1",
        "  measured: -0.5 at [1, 2]",
        "  expected: 0.0 at [1, 2], off by 0.5",
        "  failed:   2 of 6 elements",
        "  measured: Tensor of shape (2, 3), torch.float32",
        "  expected: ndarray of shape (2, 3), float64",
    ]


@pytest.mark.parametrize(
    ("rule", "worst"),
    [
        ({"below": 0}, "9.0 at [2]"),
        ({"above": 10}, "-7.0 at [1]"),
        ({"between": (0, 1)}, "9.0 at [2]"),
        ({"between": (5, 8)}, "-7.0 at [1]"),
    ],
)
def test_the_worst_element_is_the_one_farthest_beyond_the_bound(rule, worst):
    with pytest.raises(CheckFailed) as failure:
        check("it holds", [1.0, -7.0, 9.0], **rule)
    assert f"measured: {worst}\n" in str(failure.value)


def test_bounds_are_compared_in_float64_whatever_the_value_is():
    check("float32", np.zeros(1, np.float32), below=1e-300)
    with pytest.raises(CheckFailed):  # 0.1 in float32 is a little more
        check("float32", torch.tensor(0.1), equals=0.1, within=1e-9)
    check("bfloat16", torch.tensor(1.0, dtype=torch.bfloat16, requires_grad=True), equals=1)
    check("unsigned", np.array(1, np.uint8), equals=np.array(2, np.uint8), within=1)


def test_lists_of_tensors_and_exact_numbers_are_read():
    mean = torch.tensor(2.0, requires_grad=True)
    check("two means", [mean, mean.detach()], equals=2)
    check("a third", Fraction(1, 3), equals=1 / 3)
    with pytest.raises(CheckFailed):
        check("a third", Fraction(1, 3), equals=0.3333)


@pytest.mark.parametrize(
    ("value", "rule", "says"),
    [
        (1.0, {}, "below, above, between or equals"),
        (np.array([0, 1]), {}, "below, above, between or equals"),
        (1.0, {"below": 2, "above": 0}, "below and above"),
        (1.0, {"below": 2, "equals": 1.0}, "below and equals"),
        (1.0, {"below": 2, "within": 1e-6}, "within goes with equals"),
        (True, {"within": 1e-6}, "within goes with equals"),
        (True, {"below": 2}, "real numbers"),
        (1j, {"below": 2}, "real numbers"),
        ("a", {"below": 2}, "real numbers"),
        ("a", {"equals": "a", "within": 0.1}, "within needs numbers"),
        ([[1.0], [1.0, 2.0]], {"below": 2}, "shapes"),
    ],
)
def test_wrong_use_is_a_type_error(value, rule, says):
    with pytest.raises(TypeError, match=says):
        check("it holds", value, **rule)


@pytest.mark.parametrize("claim", ["", " ", 0.5])
def test_the_claim_is_a_sentence(claim):
    with pytest.raises(TypeError, match="claim comes first"):
        check(claim, True)


@pytest.mark.parametrize(
    "rule",
    [
        {"below": INF},
        {"above": NAN},
        {"between": (1, 0)},
        {"between": (0, 0)},
        {"equals": 0.0, "within": INF},
        {"equals": 0.0, "within": NAN},
        {"equals": 0.0, "within": -1e-9},
    ],
)
def test_a_bound_that_tests_nothing_is_a_value_error(rule):
    with pytest.raises(ValueError, match=next(reversed(rule))):
        check("it holds", 0.0, **rule)


def test_max_abs_is_the_largest_size_as_a_float():
    assert max_abs(torch.tensor([[1.0, -3.0]], requires_grad=True)) == 3.0
    assert max_abs(np.array([-128], np.int8)) == 128.0  # abs in int8 would be -128
    assert isinstance(max_abs([1, 2]), float)
    assert np.isnan(max_abs([1.0, NAN, 5.0]))
    with pytest.raises(ValueError, match="at least one number"):
        max_abs(torch.empty(0))


def test_importing_the_helpers_does_not_import_matplotlib_until_style_is_asked_for():
    code = (
        "import sys; import lnlib.book; assert 'matplotlib' not in sys.modules;"
        "from lnlib.book import *; assert 'matplotlib' in sys.modules; check('x', True);"
        "style.BLUE, data.mnist, Exercise"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
