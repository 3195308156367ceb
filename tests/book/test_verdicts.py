"""The protocol of training runs: which rate a way takes, what is run next, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import trainings
from results_table import save
from trainings import Way

from lnlib.book.records import tables, verdicts
from lnlib.book.records.verdicts import (
    FRESH,
    GRID,
    by_rate,
    difference,
    lines,
    own_rates,
    reported,
)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    listed = [("runs", *pair, metric) for pair in ("ab", "ba") for metric in ("loss", "error")]
    monkeypatch.setattr(verdicts, "COMPARISONS", tuple(listed))
    return tmp_path


def bowl(best: float, floor: float = 0.1, fresh: float = 0.0, noise: float = 0.01) -> Way:
    """A way whose loss is lowest at one rate; fresh seeds find another test loss than the first."""

    def run(rate: float, seed: int) -> Mapping[str, float]:
        loss = floor + 0.1 * abs(math.log10(rate / best)) + noise * math.sin(7 * seed)
        test = loss + fresh * (seed in FRESH)
        found = {"valid_loss": loss, "valid_error": loss / 10}
        return found | {"test_loss": test, "test_error": test / 10}

    return Way(0.01, 0.3, run)


def sweep(ways: Mapping[str, Way], at_most: int = 20) -> list[int]:
    """Do what the protocol asks for, as `trainings.sweep` does; return how many runs each turn."""
    turns, rows = [], list(tables.rows_of(tables.RESULTS / "runs.csv"))
    while (todo := trainings.left("runs", ways)) and len(turns) < at_most:
        turns.append(len(todo))
        rows += [trainings.row(job, ways) for job in todo]
        save(tables.RESULTS / "runs.csv", rows)
    return turns


# What is run


def test_a_way_is_tried_at_each_rate_then_its_own_rate_gets_fresh_seeds() -> None:
    assert sweep({"a": bowl(0.1)}) == [4 * len(GRID), len(FRESH)]
    assert [*by_rate("runs", "a", "test_loss")] == [0.01, 0.03, 0.1, 0.3]
    assert own_rates("runs", "a", "loss")[0] == 0.1
    assert len(reported("runs", "a", "loss")) == len(FRESH)


@pytest.mark.parametrize(("best", "beyond"), [(1.0, [1.0, 3.0]), (0.003, [0.001, 0.003])])
def test_a_rate_at_the_edge_is_followed_until_it_is_inside(
    best: float, beyond: list[float]
) -> None:
    assert sweep({"a": bowl(best)}) == [20, 5, 5, 10]
    assert {*by_rate("runs", "a", "test_loss")} == {0.01, 0.03, 0.1, 0.3, *beyond}
    assert own_rates("runs", "a", "loss")[0] == best


def test_no_rate_is_tried_without_end() -> None:
    sweep({"a": bowl(1e5)})
    assert max([*by_rate("runs", "a", "test_loss")]) == 10.0


def test_who_is_stopped_goes_on_and_does_nothing_twice() -> None:
    ways = {"a": bowl(0.1), "b": bowl(0.03)}
    first = [trainings.row(job, ways) for job in trainings.left("runs", ways)[:7]]
    save(tables.RESULTS / "runs.csv", first)
    assert len(trainings.left("runs", ways)) == 40 - 7
    sweep(ways)
    rows = tables.rows_of(tables.RESULTS / "runs.csv")
    keys = [(row["way"], float(row["rate"]), int(row["seed"])) for row in rows]
    assert len(keys) == len(set(keys))
    wanted = {(r["way"], r["rate"], r["seed"]) for r in trainings.runs_of("runs", ways)}
    assert set(keys) == wanted


def test_a_run_that_diverges_is_never_chosen() -> None:
    def run(rate: float, seed: int) -> Mapping[str, float]:
        value = math.nan if rate < 0.05 and seed == 3 else rate
        return dict.fromkeys(("valid_loss", "valid_error", "test_loss", "test_error"), value)

    sweep({"a": Way(0.01, 0.3, run)})
    assert own_rates("runs", "a", "loss")[0] == 0.1


# What it comes to


def test_the_rate_is_chosen_by_the_digits_to_choose_by_and_the_verdict_is_of_fresh_seeds() -> None:
    sweep({"a": bowl(0.1), "b": bowl(0.03, floor=0.2, fresh=0.3)})
    verdict = difference("runs", "a", "b", "loss")
    assert (verdict.low, verdict.high) == pytest.approx((0.4, 0.4), abs=1e-3)
    assert verdict.words == "a ahead of b\n  by 0.400 to 0.400 nats (folds: 0.400 to 0.400)"
    back = difference("runs", "b", "a", "loss")
    assert back.words == verdict.words
    errors = difference("runs", "a", "b", "error")
    assert errors.words == "a ahead of b\n  by 4.0 to 4.0 points (folds: 4.0 to 4.0)"
    assert errors.high == pytest.approx(4.0, abs=0.01)


def test_a_line_says_the_fresh_seeds_mean_and_the_own_rate() -> None:
    sweep({"a": bowl(0.1, noise=0.0), "b": bowl(0.03, floor=0.2, fresh=0.3, noise=0.0)})
    first, second = lines("runs", {"a": "norm", "b": "no norm"}, "loss")
    assert (first, second) == ("norm     0.100  0.1", "no norm  0.500  0.03")
    assert [*lines("runs", {"a": "norm"}, "error")] == ["norm    1.0 %  0.1"]


def test_where_the_sign_turns_with_a_rate_as_good_the_verdict_is_open() -> None:
    sweep({"a": bowl(0.1, noise=0.3), "b": bowl(0.1, floor=0.15, noise=0.3)})
    assert len(own_rates("runs", "a", "loss")) > 1
    assert difference("runs", "a", "b", "loss").words.startswith("a against b: open")


def compared(
    gaps: list[float], beside: tuple[float, float] = (2.0, 2.0), alike: int = 0
) -> verdicts.Verdict:
    """Compare a with b, which is higher by hundredths of a nat, in a list with ways like a.

    Both are at 1 by the digits to choose by, and ``beside`` that at half a decade less and more.
    """
    losses = dict(zip((0.03, 0.1, 0.3), (beside[0], 1.0, beside[1]), strict=True))

    def way(gaps: Mapping[int, float]) -> Way:
        def run(rate: float, seed: int) -> Mapping[str, float]:
            return {"valid_loss": losses[rate], "test_loss": 1 + gaps.get(seed, 0) / 100}

        return Way(0.03, 0.3, run, ("loss",))

    sweep({"b": way(dict(zip(FRESH, gaps, strict=True)))} | {w: way({}) for w in "acdefg"})
    verdicts.COMPARISONS = tuple(("runs", "a", way, "loss") for way in "bcdefg"[: 1 + alike])
    return difference("runs", "a", "b", "loss")


def test_rates_that_are_as_good_must_agree() -> None:
    ends = (0.1, 0.4)
    words = [verdicts.judge(ends, ends, 0.01, 0.0, [other], 0.5) for other in (0.3, 0.6, -0.6)]
    assert words == ["no difference", "ahead", "open"]


SURE, SMALL, TINY, UNSURE = [10, 11] * 5, [0.2, 1.4] * 5, [0.2, 0.4] * 5, [8, -4] * 5
BY_FOLD, BY_SEED = [2, 20, 2, 25, 1] * 2, [22] * 5 + [-2] * 5


@pytest.mark.parametrize(("gaps", "beside", "alike", "word"), [
    (SURE, (2, 2), 5, "ahead"),
    (SURE, (2, 1.01), 0, "open"),  # the vertex of the parabola is 0.12 nats lower
    (SURE, (2, math.nan), 0, "ahead"),
    (SMALL, (2, 2), 0, "ahead"),
    (SMALL, (2, math.nan), 0, "open"),
    (BY_SEED, (2, 2), 0, "ahead"),
    (BY_SEED, (2, 2), 1, "hint"),  # p is 0.03, and one of two
    (BY_FOLD, (2, 2), 0, "hint"),
    (UNSURE, (2, 2), 0, "open"),
    (TINY, (2, 2), 0, "no difference"),
])  # fmt: skip
def test_each_condition_changes_the_word(
    gaps: list[float], beside: tuple[float, float], alike: int, word: str
) -> None:
    assert compared(gaps, beside, alike).word == word


@pytest.mark.parametrize(("column", "value", "change", "error"), [
    ("seed", "3", {}, "has not one run for each"),
    ("seed", "9", {}, "has not one run for each"),
    ("seed", "9", {"fold": "0"}, "a seed's fold is its rest by 5"),
    ("rate", "0.3", {}, "best at 0.1, an edge of its rates"),
])  # fmt: skip
def test_rows_that_the_protocol_does_not_know_are_refused(
    column: str, value: str, change: Mapping[str, str], error: str
) -> None:
    sweep({"a": bowl(0.1), "b": bowl(0.1)})
    path = tables.RESULTS / "runs.csv"
    changed = (row | change if row[column] == value else row for row in tables.rows_of(path))
    save(path, [row for row in changed if change or row[column] != value])
    with pytest.raises(ValueError, match=error):
        difference("runs", "a", "b", "loss")
    with pytest.raises(ValueError, match="not in COMPARISONS"):
        difference("runs", "a", "c", "loss")
