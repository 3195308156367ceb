"""A check prints one stable line if the claim holds, and otherwise stops with all it knows."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from lnlib.book import CheckFailed, check, max_abs

NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(("value", "rule", "line"), [
    (3e-11, {"below": 1e-10}, " ⟨3e-11⟩ (below 1e-10)"),
    (0.75, {"above": 0.5}, " ⟨0.75⟩ (above 0.5)"),
    (0.5069, {"above": 0.5}, " ⟨0.507⟩ (above 0.5)"),
    (0.4, {"between": (0.4, 0.6)}, " ⟨0.40⟩ (between 0.4 and 0.6)"),
    ([1, 2.6], {"between": (0, 3)}, " ⟨1.0 to 2.6⟩ (between 0 and 3)"),
    (94.06, {"between": (94, 94.2)}, " ⟨94.06⟩ (between 94 and 94.2)"),
    ([3.0, 14342.1], {"below": 15000}, " ⟨14,300⟩ (below 15000)"),
    ([30.0, 14342.1], {"above": 3}, " ⟨30⟩ (above 3)"),
    (0.09999996, {"below": 0.1}, " ⟨0.09999996⟩ (below 0.1)"),
    (0.5, {"below": 0.50000000001}, " ⟨0.50⟩ (below 0.50000000001)"),
    (1e6 - 0.25, {"below": 1e6}, " ⟨999,999.8⟩ (below 1000000)"),
    ([2.5, 10.55], {"between": (2.5, 10.6)}, " ⟨2.5 to 10.6⟩ (between 2.5 and 10.6)"),
    (10.55, {"between": (2.5, 10.56)}, " ⟨10.55⟩ (between 2.5 and 10.56)"),
    (1.27e-6, {"equals": 0, "within": 1.27e-6}, " ⟨off by 1.27e-6⟩ (within 1.27e-6)"),
    ([1, 2.0], {"equals": [1, 2.0 + 9e-7], "within": 1e-6}, " ⟨off by 9e-7⟩ (within 1e-6)"),
    (2.0, {"equals": 2, "within": 1e-6}, " ⟨off by 0⟩ (within 1e-6)"),
    (117, {"above": 100}, " ⟨117⟩ (above 100)"),
    (torch.ones(3), {"equals": 1}, " (exactly)"),
    (torch.float32, {"equals": torch.float32}, " (exactly)"),
    ([torch.tensor(2.0, requires_grad=True)] * 2, {"equals": 2}, " (exactly)"),
    (Fraction(1, 3), {"equals": 1 / 3}, " (exactly)"),
    ([NAN, INF, -INF], {"equals": [NAN, INF, -INF]}, " (exactly)"),
    (np.array(1, np.uint8), {"equals": np.array(2, np.uint8), "within": 1},
     " ⟨off by 1.0⟩ (within 1)"),
    (np.array([True, True]), {}, ""),
    (torch.tensor([NAN]).isnan().all(), {}, ""),
])  # fmt: skip
def test_a_claim_that_holds_prints_one_line_with_what_was_found_and_the_bound(
    capsys, value, rule, line
):
    assert check("it holds", value, **rule) is None
    assert capsys.readouterr().out == f"✓ it holds{line}\n"


@pytest.mark.parametrize(("value", "rule", "says"), [
    (1e-10, {"below": 1e-10}, "1e-10"),  # strict
    (0.5, {"above": 0.5}, "0.5"),
    (0.39, {"between": (0.4, 0.6)}, "0.39"),
    ([0.5, 0.7], {"between": (0.4, 0.6)}, "0.7 at [1]"),
    ([0.0, 0.0, 2.0], {"below": 1}, "2.0 at [2]"),  # one bad element is enough
    ([1.0, 2.0], {"equals": [1.0, 2.0 + 2e-6], "within": 1e-6}, "off by 2e-06"),
    (torch.tensor([1.0, 1.1]), {"equals": 1}, "off by 0.1"),
    (1.0 + 2**-52, {"equals": 1.0}, "off by 2.22e-16"),
    (2**53 + 1, {"equals": 2**53}, "off by 1"),  # they meet in float64
    (torch.tensor(0.1), {"equals": 0.1, "within": 1e-9}, "off by 1.49e-09"),  # float32's 0.1
    (Fraction(1, 3), {"equals": 0.3333}, "off by"),
    ((4, 8), {"equals": (8, 4)}, "off by 4"),
    (torch.float32, {"equals": torch.float64}, "torch.float32"),
    ("rows", {"equals": "columns"}, "'rows'"),
    (None, {"equals": 0.0}, "None"),
    (1.0, {"equals": "1.0"}, "'1.0'"),
    (np.array([True, False]), {}, "False at [1]"),
    (torch.tensor(False), {}, "False"),
    # the worst element is the one farthest beyond its bound, and NaN is worse than any
    ([1.0, -7.0, 9.0], {"below": 0}, "9.0 at [2]"),
    ([1.0, -7.0, 9.0], {"above": 10}, "-7.0 at [1]"),
    ([1.0, -7.0, 9.0], {"between": (5, 8)}, "-7.0 at [1]"),
    ([1e300, NAN, 0.0], {"below": 1}, "nan at [1]"),
    ([0.0, 1.0], {"equals": [NAN, 1.0], "within": 1e9}, "nan"),
    (INF, {"equals": -INF, "within": 1e9}, "off by inf"),
    (INF, {"below": 1e300}, "inf"),
    *((value, rule, "measured NaN in 1") for value in ([0.0, NAN], torch.tensor([NAN, 0.0]))
      for rule in ({"below": 1}, {"above": -1}, {"between": (-1, 1)}, {"equals": 0, "within": 1})),
    (np.empty((0, 3), dtype=bool), {}, "no elements"),
    (np.empty((0, 3)), {"below": 1}, "no elements"),
    (np.empty((0, 3)), {"equals": np.empty((0, 3))}, "no elements"),
    *((torch.ones(a), {"equals": torch.ones(b)}, f"{a} measured, {b} expected")
      for a, b in (((3, 1), (3,)), ((2, 3), (3,)), ((3,), (1,)), ((), (3,)))),
])  # fmt: skip
def test_a_claim_that_fails_raises_with_its_worst_element_and_prints_nothing(
    capsys, value, rule, says
):
    with pytest.raises(CheckFailed, match=r"^it holds\n") as failure:
        check("it holds", value, **rule)
    assert says in str(failure.value)
    assert capsys.readouterr().out == ""
    assert isinstance(failure.value, AssertionError)


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


@pytest.mark.parametrize(("value", "rule", "says"), [
    (1.0, {}, "below, above, between or equals"),
    (np.array([0, 1]), {}, "below, above, between or equals"),
    (1.0, {"below": 2, "above": 0}, "below and above"),
    (1.0, {"below": 2, "equals": 1.0}, "below and equals"),
    (True, {"within": 1e-6}, "within goes with equals"),
    (True, {"below": 2}, "real numbers"),
    (1j, {"below": 2}, "real numbers"),
    ("a", {"equals": "a", "within": 0.1}, "within needs numbers"),
    ([[1.0], [1.0, 2.0]], {"below": 2}, "shapes"),
])  # fmt: skip
def test_wrong_use_is_a_type_error(value, rule, says):
    with pytest.raises(TypeError, match=says):
        check("it holds", value, **rule)
    with pytest.raises(TypeError, match="claim comes first"):
        check(" ", True)


@pytest.mark.parametrize("rule", [
    {"below": INF}, {"above": NAN}, {"between": (1, 0)}, {"between": (0, 0)},
    {"equals": 0.0, "within": NAN}, {"equals": 0.0, "within": -1e-9},
])  # fmt: skip
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
