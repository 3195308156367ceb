"""No call crashes or returns garbage, whatever surrounds it: each case in a process of its own."""

from __future__ import annotations

import hostile_cases
import pytest
import torch
from compiled import NEEDS_CPP


@pytest.mark.parametrize("name", ["auto", "reference", "triton", "LSTM", "LSTM cell"])
@pytest.mark.parametrize(
    "circumstance", ["in_peace", "other_defaults", "watched", "recorded", "faked"]
)
def test_what_surrounds_a_call_changes_nothing(nursery, circumstance, name):
    nursery.run(circumstance, name)


@pytest.mark.parametrize("kind", hostile_cases.KINDS)
@pytest.mark.parametrize("name", ["auto", "triton", "LSTM"])
def test_an_odd_tensor_gives_what_pytorch_gives(nursery, kind, name):
    nursery.run("odd_tensors", name, kind)


@pytest.mark.parametrize("unpack", hostile_cases.UNPACK)
@pytest.mark.parametrize("name", ["auto", "reference", "triton", "LSTM"])
def test_what_a_hook_gives_back_is_checked(nursery, unpack, name):
    nursery.run("hooks", name, unpack)


@pytest.mark.parametrize(
    ("what", "number"), [("layer norms", 400), ("programs", 250), ("LSTMs", 60)]
)
def test_random_ones_do_what_pytorchs_do(nursery, request, what, number):
    """Always the same in `make test`, else others, and five times as many."""
    is_fixed = request.config.getoption("tier") == "test"
    number *= 1 if is_fixed else 5
    nursery.run("random", what, number, is_fixed, seconds=600)


@NEEDS_CPP
@pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch for CUDA lets no child go back")
@pytest.mark.parametrize(
    "circumstance", ["fork_before_and_after_the_first_call", "fork_where_threads_cannot_be_ended"]
)
@pytest.mark.parametrize("name", ["auto", "LSTM"])
def test_a_forked_child_waits_for_no_thread_of_its_parent(nursery, circumstance, name):
    nursery.run(circumstance, name, seconds=30)


@NEEDS_CPP
def test_more_threads_than_a_system_starts_do_no_harm(nursery):
    nursery.run("more_threads_than_can_be", "auto")


@pytest.mark.tier("all")
@NEEDS_CPP
def test_where_memory_ends_the_backward_pass_raises(nursery):
    nursery.run("memory_ends_in_the_backward_pass")
