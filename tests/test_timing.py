"""Who is timed, how often and in which order, with a clock that the test turns."""

from __future__ import annotations

import itertools

import pytest
import timing


class Clock:
    """Stands for time: each thing that is timed says how many seconds it takes."""

    def __init__(self, monkeypatch):
        self.now, self.log = 0.0, []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def thing(self, name, *seconds):
        times = itertools.chain(seconds, itertools.repeat(seconds[-1]))

        def run():
            self.log.append(name)
            self.now += next(times)

        return run


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def rounds_of(log, count):
    return [log[start : start + count] for start in range(0, len(log), count)]


def test_each_round_times_everybody_once_and_begins_with_another(clock):
    runs = {name: clock.thing(name, 1.0) for name in "abc"}
    times = timing.in_turn(runs, seconds=0.0, at_least=4, at_most=9)
    before = 3 * (1 + timing.TRIES)  # calls that found out how slow each is
    turns = rounds_of(clock.log[before:], 3)
    assert [turn[0] for turn in turns] == ["a", "b", "c", "a", "b", "c"]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert [len(each) for each in times.values()] == [4, 4, 4]


def test_the_first_rounds_are_warm_up(clock):
    not_counted = 1 + timing.TRIES + timing.WARM_UP
    slow_at_first = clock.thing("a", *[9.0] * not_counted, 1.0, 2.0, 3.0)
    times = timing.in_turn({"a": slow_at_first}, seconds=0.0, at_least=3, at_most=9)
    assert times == {"a": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [(0.0, 5), (6.5, 5), (8.5, 7), (100.0, 11)],
    ids=["never fewer than asked for", "as many as that at once", "until time is up", "no more"],
)
def test_rounds_go_on_until_time_is_up(clock, seconds, rounds):
    times = timing.in_turn({"a": clock.thing("a", 1.0)}, seconds, at_least=5, at_most=11)
    assert len(times["a"]) == rounds


def test_what_is_quicker_than_the_clock_is_called_often_and_told_for_one_call(clock):
    quick = clock.thing("a", timing.SAMPLE / 8)
    assert timing.calls_for(quick) == 8
    assert timing.calls_for(clock.thing("b", timing.SAMPLE * 3)) == 1
    assert timing.seconds_of(quick, 8) == pytest.approx(timing.SAMPLE / 8)


def test_one_call_that_waits_does_not_say_how_long_a_call_takes(clock):
    waits_once = clock.thing("a", timing.SAMPLE / 8, timing.SAMPLE * 3, timing.SAMPLE / 8)
    assert timing.calls_for(waits_once) == 8
