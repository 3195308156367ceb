"""No call crashes or returns garbage, whatever surrounds it: each case in a process of its own."""

from __future__ import annotations

import hostile_cases
import pytest
from compiled import NEEDS_CPP
from tiers import few

STRAIGHT = pytest.param("straight", marks=NEEDS_CPP)
SUBJECTS = ["auto", STRAIGHT, "reference", "triton", "LSTM", "LSTM cell"]
each_subject = pytest.mark.parametrize("name", SUBJECTS)


@pytest.mark.parametrize(
    "circumstance",
    [
        "in_peace",
        "default_device",
        "default_dtype",
        "watched",
        "recorded",
        "recorded_before_dispatching",
        "faked",
    ],
)
@each_subject
def test_what_surrounds_a_call_changes_nothing(nursery, circumstance, name):
    nursery.run(circumstance, name)


@pytest.mark.parametrize("kind", hostile_cases.KINDS)
@pytest.mark.parametrize("name", ["auto", "triton", "LSTM"])
def test_an_odd_tensor_gives_what_pytorch_gives(nursery, kind, name):
    nursery.run("odd_tensors", name, kind)


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_a_nested_tensor_is_normalized_part_by_part(nursery, layout):
    nursery.run("nested", layout)


@pytest.mark.parametrize("unpack", hostile_cases.UNPACK)
@pytest.mark.parametrize("name", ["auto", STRAIGHT, "reference", "triton", "LSTM"])
def test_what_a_hook_gives_back_is_checked(nursery, unpack, name):
    nursery.run("hooks", name, unpack)


@pytest.fixture
def draw(nursery, request):
    """Draw random calls: always the same in `make test`, else others and five times as many."""
    is_fixed = request.config.getoption("tier") == "test"

    def draw(case, *arguments, number):
        number *= 1 if is_fixed else 5
        nursery.run(case, *arguments, number, is_fixed, seconds=600)

    return draw


@pytest.mark.parametrize("name", ["auto", STRAIGHT])
def test_random_calls_do_what_pytorchs_do(draw, name):
    draw("random_layer_norms", name, number=200)


@few("name", ["auto", STRAIGHT], 1)
def test_random_programs_find_what_they_find_with_pytorchs(draw, name):
    draw("random_programs_around", name, number=60)


def test_random_calls_of_an_lstm_do_what_pytorchs_do_with_the_values_of_float64(draw):
    draw("random_lstms", number=60)


@NEEDS_CPP
@pytest.mark.parametrize("name", ["auto", STRAIGHT, "LSTM"])
def test_a_forked_child_has_threads_of_its_own(nursery, name):
    nursery.run("fork_before_and_after_the_first_call", name, seconds=30)


@NEEDS_CPP
@pytest.mark.parametrize("name", ["auto", STRAIGHT, "LSTM"])
def test_a_forked_child_waits_for_no_thread_of_its_parent(nursery, name):
    nursery.run("fork_where_threads_cannot_be_ended", name, seconds=30)


@NEEDS_CPP
@pytest.mark.parametrize("name", ["auto", STRAIGHT])
def test_more_threads_than_a_system_starts_do_no_harm(nursery, name):
    nursery.run("more_threads_than_can_be", name)
