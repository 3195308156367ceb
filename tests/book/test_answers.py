"""Exercises in the pages: they judge as Python does, letter for letter, and hide the truth."""

from __future__ import annotations

import base64
import html
import importlib
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import answers
import numpy as np
import pytest
import tied
from docutils import nodes
from docutils.utils import new_document
from test_exercises import SEARCHES

from conftest import plain
from lnlib.book.exercises import chapter_02, chapter_05, chapter_09
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.game import Derivation
from lnlib.book.home import ROOT

nan, inf = math.nan, math.inf
CHAPTERS = [
    importlib.import_module(f"lnlib.book.exercises.{path.stem}")
    for path in sorted((ROOT / "lnlib" / "book" / "exercises").glob("chapter_*.py"))
]
VALUES: dict[str, Any] = {
    name: exercise
    for chapter in CHAPTERS
    for name, exercise in vars(chapter).items()
    if answers.takes_value(exercise) and not isinstance(exercise, Derivation)
} | chapter_05.game.by_hand
MISFITS: list[Any] = [
    *(..., 0, 1, -1, 3, 0.5, -0.0, 1e300, -1e-300, 5e-324, inf, -inf, nan, True, False),
    *("", "word", "Mean", "it's", 'say "so"', "ε"),
    *([], [[]], [[], []], [0], [1.5], [nan], [True], [[1.0]], [1, 2], [[1, 2], [3, 4]], [[[1]]]),
    *([1, [2]], [[1], [1, 2]], [[1, 2], 3, [4]], ["a"], [1, "a"], [True, 2], [[1], "a"]),
    [True, False],
]  # fmt: skip
COUNT = 200


def values_of(exercise: Exercise) -> list[Any]:
    """The truth of an exercise and the values of its slips."""
    outcomes = [exercise._truth[0], *(wrong for [wrong] in exercise._slips.values())]
    return [one if isinstance(one, str) else one[0].tolist() for one in outcomes]


def near(value: Any, within: float, rng: Any) -> Iterator[Any]:
    """Yield what lies around a value: at the tolerance's edge, of another form, or not finite."""
    if isinstance(value, str):
        yield from (value.upper(), f" {value} ", value[:-1], value + "s")
        return
    array = np.asarray(value, dtype=float)
    flat = array.ravel().tolist()
    yield from ([int(x) for x in flat if abs(x) < 2**63], array.round(2).tolist(), [value])
    yield from ((-array).tolist(), (array != 0).tolist(), (2 * array).tolist(), [*flat, 1.0])
    yield from ([array.tolist()] * 2, flat[1:], flat[::-1])
    for _ in range(30):
        place = tuple(int(rng.integers(n)) for n in array.shape)
        edge = array[place] + rng.choice([-1, 1]) * within
        there = [np.nextafter(edge, -inf), edge, np.nextafter(edge, inf), nan, inf, -inf]
        there += [array[place] + within * rng.normal(), array[place] * (1 + 0.3 * rng.normal())]
        off = array.copy()
        off[place] = rng.choice(there)
        yield off.tolist()


def kind(message: str) -> str:
    """Return a message without its numbers."""
    return re.sub(r"[-\d.]+(e[-+]\d+)?", "", message)


def between(search: Search, some: Any, other: Any) -> Iterator[Any]:
    """Yield an answer on either side of where, on the way from one to another, words change."""
    a, b = np.asarray(some, dtype=float), np.asarray(other, dtype=float)
    if a.shape != b.shape:
        return

    def said(at: float) -> str:
        return kind(search.verdict((a + at * (b - a)).tolist()).message)

    low, high = 0.0, 1.0
    if said(low) == said(high):
        return
    while high - low > 1e-12:  # PyTorch and JavaScript round in another order here and there
        middle = (low + high) / 2
        low, high = (middle, high) if said(middle) == said(low) else (low, middle)
    for at in (low - 1e-10, high + 1e-10):
        yield (a + at * (b - a)).tolist()


def tried_on(name: str, exercise: Any) -> list[Any]:
    """At least `COUNT` answers to an exercise: right ones, slips, near misses and nonsense."""
    rng = np.random.default_rng(len(name))
    made = list(MISFITS)
    if isinstance(exercise, Search):
        bases = [x for x, _ in SEARCHES[name][1] if max(map(abs, np.ravel(x))) < 1e30]
        made += bases
        made += [one for a in bases for b in bases for one in between(exercise, a, b)]
        # Means of hundredths are often halfway between two numbers of three digits.
        made += [(rng.integers(0, 200, size=np.shape(bases[0])) / 100).tolist() for _ in range(40)]
        within = 1e-3
    else:
        bases, within = values_of(exercise), exercise._within
        made += bases
        numbers = [] if isinstance(bases[0], str) else np.asarray(bases[0], dtype=float)
        for digits in (1, 2, 3):
            fewer = np.vectorize(lambda x, d=digits: f"{x:.{d}g}", otypes=[str])(numbers)
            made.append(fewer.astype(float).tolist())
    pool = [one for base in bases for one in near(base, within, rng)]
    made += pool if len(pool) < COUNT else [pool[i] for i in rng.permutation(len(pool))[:COUNT]]
    while len(made) < COUNT:
        base = bases[int(rng.integers(len(bases)))]
        if isinstance(base, str):
            made.append("".join(rng.choice([*"mean_x hat"], size=4)))
        else:
            made.append((np.asarray(base) * 10.0 ** rng.normal() + 0.1 * rng.normal()).tolist())
    return made


def judged(exercise: Any, answer: Any) -> dict[str, Any]:
    """What a reader types for an answer, and what Python says; a word needs no quotes."""
    takes_word = isinstance(exercise, Exercise) and isinstance(exercise._truth[0], str)
    if answer is ... or answer == "":
        answer, typed = ..., ""
    else:
        typed = answer if takes_word and isinstance(answer, str) else repr(answer)
    verdict = exercise.verdict(typed if takes_word and typed else answer)
    return {"typed": typed, "right": verdict.right, "message": verdict.message}


TIES = [0.0, -0.0, 0.125, 0.375, 2.5, 3.5, -0.005, 0.145, 0.95, 9.95, 99.5, 110.5, 111.5]


@pytest.fixture(scope="module")
def cases() -> dict[str, list[dict[str, Any]]]:
    """What is typed for each exercise, and what Python says."""
    return {
        name: [judged(exercise, answer) for answer in tried_on(name, exercise)]
        for name, exercise in VALUES.items()
    }


def test_javascript_judges_as_python_does(run_js: Callable[..., None], cases: Any) -> None:
    rng = np.random.default_rng(0)
    numbers = [*TIES, 1e-5, 9.5e-5, 1e21, 1e22, -1e25, nan, inf, -inf]
    numbers += (rng.normal(size=300) * 10.0 ** rng.integers(-9, 9, size=300)).tolist()
    numbers += (rng.integers(-999, 999, size=300) / 8).tolist()
    golden = {
        "exercises": [
            {"name": name, "asked": answers.as_data(name, VALUES[name]), "cases": cases[name]}
            for name in VALUES
        ],
        "numbers": [
            [plain(x), [f"{x:.{n}g}" for n in (1, 2, 3)], [f"{x:.{n}f}" for n in (0, 1, 2)]]
            for x in numbers
        ],
    }
    assert min(map(len, cases.values())) >= COUNT
    run_js("exercises", golden=golden, at_least=4 + len(VALUES))


def test_the_answers_that_are_tried_earn_every_hint(cases: Any) -> None:
    for name, exercise in VALUES.items():
        assert any(one["right"] for one in cases[name]), name
        messages = {one["message"] for one in cases[name]}
        hints = getattr(exercise, "_slips", ())
        assert {f"not yet: {hint}" for hint in hints} <= messages
        assert len({*map(kind, messages)}) >= 5 + len(hints) / 2, name


def test_after_right_comes_a_reason_whose_links_the_page_can_follow() -> None:
    for chapter in CHAPTERS:
        [path] = (ROOT / "notebooks").glob(f"{chapter.__name__[-2:]}_*.ipynb")
        for name, asked in vars(chapter).items():
            if name not in VALUES:
                continue
            assert asked._why, name
            for address in re.findall(r"\]\((.+?)\)", asked._why):
                tied.check(address)
                kind = tied.PLACES[address[1:].partition("?")[0]]
                assert f"{kind.__name__}()" in path.read_text(encoding="utf8"), address


def decoded(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(bytes(b ^ answers.XOR for b in base64.b64decode(text)))
    return data


def page_of(*parts: nodes.Node) -> nodes.document:
    """A page of chapter 02 with these parts in a section."""
    document = new_document("page")
    code = nodes.literal_block("", "from lnlib.book.exercises import chapter_02 as exercises")
    document += nodes.section("", code, *parts)
    return document


def box(label: str) -> nodes.Node:
    return nodes.admonition(ids=[label], classes=["exercise"])


def cell(code: str) -> nodes.Node:
    return nodes.container("", nodes.literal_block("", code), nb_element="cell_code")


CALLED = {name: cell(f"answer = ...\nexercises.{name}(answer)") for name in vars(chapter_02)}
SOLUTION = nodes.admonition("", cell("exercises.choose_eps(1)"), classes=["solution"])


def test_a_page_carries_what_its_cells_call_and_not_in_the_clear() -> None:
    parts = [box("ex-a"), CALLED["choose_eps"], SOLUTION, box("ex-b"), CALLED["convert_eps"]]
    parts += [box("ex-c"), CALLED["break_variance"], box("ex-d"), CALLED["smallest_half_eps"]]
    script = answers.page_data(page_of(*parts), "notebooks/02_epsilon")
    assert script is not None
    text = re.fullmatch(r"<script [^>]* data-searched>([A-Za-z0-9+/=]+)</script>", script.astext())
    assert text
    data = decoded(text[1])
    assert list(data) == ["ex-a", "ex-b", "ex-c", "ex-d"]
    assert data["ex-a"]["truth"]["data"] == [0.01**2 / 9]
    assert data["ex-b"] is None  # a function
    assert data["ex-c"]["search"] == "break_variance"
    for hidden in (text[1], base64.b64decode(text[1]).decode("latin1")):
        assert not re.search(r"1\.1|e-0|slips|truth|answer", hidden)


def test_pages_carry_all_that_can_be_typed_and_their_source_says_none_of_it(site: Any) -> None:
    counted = 0
    for path in sorted(site.glob("[bn]*/*.html")):
        source = path.read_text(encoding="utf8")
        found = re.search(r'id="ln-exercises"[^>]*>([^<]*)</script>', source)
        loaded = re.findall(r"(answers|searches|exercises)\.js\?", source)
        if not found:
            assert loaded == []
            continue
        data = decoded(found[1])
        searched = any("search" in each for each in data.values() if each)
        assert loaded == ["answers", *["searches"] * searched, "exercises"]
        counted += sum(len(each.get("steps", [1])) for each in data.values() if each)
        for each in data.values():
            for hint, _ in (each or {}).get("slips", []):
                assert html.escape(hint, quote=False) not in source
    assert counted == len(VALUES)


def said(page: Any, label: str) -> str:
    return str(page.locator(f"#{label} .ln-ex-said").inner_text())


def reloaded(page: Any) -> Any:
    page.reload()
    page.locator(".ln-ex-form").first.wait_for()
    return page


KEY = "ln-exercises/notebooks/02_epsilon"  # of what a browser keeps


def test_an_answer_is_typed_checked_and_kept(reader: Any) -> None:
    page, label = reader().open("notebooks/02_epsilon.html"), "ex-choose-eps"
    count = page.locator(".ln-ex-count [role=status]")
    assert count.inner_text() == "0 of 3 right"
    field = page.get_by_label("Your answer to Exercise 2.1")
    assert (said(page, label), field.get_attribute("placeholder")) == ("", "a number")
    field.focus()
    for typed, verdict in {
        "": "not answered yet: answer with a number",
        "1e-4": "not yet: that leaves half: at ε = σ² the output variance is ½",
        "1,11e-5": "not yet: a point, not a comma, please",
        "1.1e-5, 2": "not yet: 2 numbers instead of one number",
        "what?": "not yet: answer with a number",
        "ε = 1.11·10⁻⁵": "right",
    }.items():
        field.fill(typed)
        page.keyboard.press("Enter")
        assert said(page, label) == verdict
        assert field.evaluate("field => field === document.activeElement")
        assert count.inner_text() == f"{int(verdict == 'right')} of 3 right"
    row = page.get_by_label("Your answer to Exercise 2.4")
    row.fill("1, 2, 3, 4")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the button
    assert said(page, "ex-break-variance").startswith("not yet: the one-pass variance is still")
    elsewhere = page.locator("#ex-convert-eps .ln-ex-elsewhere").inner_text()
    assert elsewhere == "Write this one in JupyterLab: make lab, notebooks/02_epsilon.ipynb."
    assert page.locator("#ex-convert-eps form").count() == 0

    # What is kept is judged again: an exercise may have changed.
    kept = {label: "ε = 1.11·10⁻⁵", "ex-break-variance": "1, 2, 3, 4"}
    page.evaluate("([k, kept]) => { localStorage[k] = JSON.stringify(kept); }", [KEY, kept])
    page = reloaded(page)
    assert count.inner_text() == "1 of 3 right"
    assert page.get_by_label("Your answer to Exercise 2.1").input_value() == "ε = 1.11·10⁻⁵"
    assert said(page, label) == "right"
    assert page.locator(f"#{label} .ln-ex-tick").is_visible()
    assert page.get_by_label("Your answer to Exercise 2.4").input_value() == ""
    page.locator(f"#{label} .ln-ex-why a").click()
    page.wait_for_url("**/02_epsilon.html#explorer-epsilon?*eps=1.1*")
    page.get_by_role("button", name="Start again").click()
    assert (said(page, label), count.inner_text()) == ("", "0 of 3 right")
    assert page.evaluate("document.activeElement.id") == f"answer-{label}"
    assert page.locator(".ln-ex-tick:visible").count() == 0
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('ln-ex'))") == [KEY]
    cell = page.locator(f"#{label} + .cell")
    assert cell.is_hidden()
    page.emulate_media(media="print")
    assert cell.is_visible()
    assert page.locator(".ln-ex-form:visible, .ln-ex-count:visible").count() == 0


def test_a_finger_answers_on_a_phone(reader: Any) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    page, label = reader(**phone).open("notebooks/09_which_norm.html"), "ex-meet-reductions"
    choices = page.locator(f"#{label} form fieldset fieldset")
    check = page.locator(f"#{label} form").get_by_role("button", name="Check")
    assert all(one.bounding_box()["height"] >= 44 for one in (check, choices.first))
    check.tap()
    assert said(page, label) == f"not answered yet: {chapter_09.reductions._ask}"
    for row, verdict in {"TTTT": "True at place 2 of 4 is wrong", "TFTF": "right"}.items():
        for i, letter in enumerate(row):
            choices.nth(i).get_by_text("True" if letter == "T" else "False").tap()
        check.tap()
        assert verdict in said(page, label)
    page = reloaded(page)
    assert said(page, label) == "right"
    assert choices.nth(3).get_by_role("radio", name="False").is_checked()


def test_the_game_is_played_on_numbers(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open("notebooks/05_index_notation.html")
    game = page.locator("#ex-batch-game")
    question = game.locator(".ln-ex-play").inner_text().replace("\u00a0", " ")
    assert "numbers: γ = (4, 2, 3), β = (1, 0, 2), ε = 1, and two rows. What is" in question
    table = game.locator(".ln-ex-numbers").inner_text().replace("\u00a0", " ")
    assert "\nx\t(7, 1, 1)\t(1, 7, 13)\n" in table
    asked = chapter_05.game.by_hand.values()
    for step, exercise in zip(game.locator("form").all(), asked, strict=True):
        assert exercise.name in step.locator("label").inner_text()
        for value in (values_of(exercise)[1], values_of(exercise)[0]):
            step.locator("input").fill(f"{value:.2f}")
            step.locator("input").press("Enter")
            verdict = exercise.verdict(round(value, 2)).message
            assert step.locator(".ln-ex-said").inner_text() == verdict
    assert page.locator(".ln-ex-count [role=status]").inner_text() == "7 of 9 right"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_javascript_an_exercise_is_as_it_was(reader: Any) -> None:
    page = reader(java_script_enabled=False).open("notebooks/02_epsilon.html")
    assert page.locator(".ln-ex-form, .ln-ex-count, .ln-ex-elsewhere").count() == 0
    assert page.locator("#ex-choose-eps + .cell").is_visible()
    assert page.get_by_text("Write your answers in JupyterLab (make lab), or open the").is_visible()
