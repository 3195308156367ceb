"""The counts of memory: against the allocator's own events, and where they could miscount."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from lnlib import composed
from lnlib.book.experiments.memory import live_bytes, saved_bytes

ROWS, H = 301, 769


def leaf(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).requires_grad_()


def allocated_at_most(run: Callable[[], object]) -> int:
    run()  # what is set up once does not count
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    live, peak = 0, 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


@pytest.mark.parametrize("function", [F.layer_norm, composed.layer_norm])
def test_the_peak_is_that_of_the_allocator(function: Callable[..., Tensor]) -> None:
    x, weight, bias, dy = leaf(ROWS, H), leaf(H), leaf(H), leaf(ROWS, H).detach()

    def run() -> object:
        return torch.autograd.grad(function(x, (H,), weight, bias), (x, weight, bias), dy)

    # What an operation takes and gives back unseen: some rows' worth, never a tensor like x.
    unseen = 0.02 * ROWS * H * 4
    assert max(live_bytes(run)) == pytest.approx(allocated_at_most(run), abs=unseen)


def test_what_is_alive_at_one_time_counts_and_what_was_there_before_does_not() -> None:
    x = torch.ones(25)

    def overlapping() -> Tensor:
        for _ in range(9):
            y = x + 1  # the one before is still there until the name moves on
        return y

    def in_the_place_of_a_freed_one() -> Tensor:
        y = torch.ones(25)
        for _ in range(50):
            del y
            y = torch.ones(25)
        return y

    assert live_bytes(overlapping) == [0, 100] + [200] * 8
    assert live_bytes(in_the_place_of_a_freed_one) == [0] + [100] * 51
    assert live_bytes(lambda: x.add_(1).view(5, 5)) == [0, 0, 0]


def test_a_storage_that_is_saved_counts_once_and_whole() -> None:
    x, y = leaf(ROWS, H), leaf(ROWS, 1)
    assert saved_bytes(lambda: x.square() + x.view(-1).square().sum()) == x.nbytes
    assert saved_bytes(lambda: x[0].square()) == x.nbytes
    assert saved_bytes(x.square) - saved_bytes(x.square, held=[x.view(H, ROWS)]) == x.nbytes
    run = lambda: (x.view(-1) * 2).square() * y.view(1, -1).exp().sum()  # noqa: E731
    assert saved_bytes(run) - saved_bytes(run, held=[x]) == 0  # x itself is not saved by it
    assert saved_bytes(lambda: leaf(5).detach().square()) == 0
    weight, bias = leaf(H), leaf(H)
    saved = saved_bytes(lambda: F.layer_norm(x, (H,), weight, bias))
    assert saved == x.nbytes + weight.nbytes + bias.nbytes + 2 * 4 * ROWS
