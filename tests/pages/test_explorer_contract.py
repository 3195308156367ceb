"""What every explorer keeps, whichever it is: on a phone and on a desk, by finger, mouse and keys.

Each explorer is opened once a width; every test begins where it starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from goldens import plain, states
from hand import DESK, PHONE, RESTS, STATE, Hand
from playwright.sync_api import expect
from stills import KINDS

from conftest import DRAWN, SEND, SITE, Reader, violations
from lnlib.book.explorers import Explorer

EACH = [(kind, width) for kind in KINDS for width in ("phone", "desk")]


@pytest.fixture(scope="module", params=EACH, ids=lambda each: f"{each[0]._files}-{each[1]}")
def shown(request: Any, browser: Any, tmp_path_factory: Any) -> Iterator[Hand]:
    kind, width = request.param
    context = PHONE if width == "phone" else DESK
    someone = Reader(browser, SITE, tmp_path_factory.mktemp("explorer"), **context)
    hand = Hand(lambda **_: someone, kind())
    hand.kind, hand.is_phone = kind, context is PHONE
    yield hand
    someone.context.close()
    assert (someone.left_the_machine, someone.errors) == ([], [])


@pytest.fixture
def hand(shown: Hand) -> Hand:
    """The explorer as it starts, with what is folded shown."""
    shown.root.locator("details").evaluate("fold => { fold.open = true; }")
    shown.reset()
    shown.page.evaluate("canceled = 0")
    return shown


def in_words(state: dict[str, Any]) -> str:
    """Write a state as an address has it."""
    lists = {n: ",".join(map(str, v)) if isinstance(v, tuple) else v for n, v in state.items()}
    return "&".join(f"{name}={value}" for name, value in lists.items())


# --- what is there -------------------------------------------------------------------------------


# This comes first: then no handle has had the focus.
def test_handles_of_one_list_are_one_stop_and_arrows_lead_from_each_to_the_next(hand: Hand) -> None:
    for name, value in hand.kind().state().items():
        group = hand.root.locator(
            f":is([data-trait={name}] .ln-handle, .ln-handle[data-trait={name}]):not(.ln-free)"
        )
        if not isinstance(value, tuple) or group.count() < 2:
            continue
        assert group.evaluate_all("all => all.filter(e => e.tabIndex === 0).length") == 1, name
        first, labels = hand.state(), group.evaluate_all("all => all.map(e => e.ariaLabel)")
        group.first.focus()
        upright = group.first.get_attribute("aria-orientation") == "vertical"
        for label in labels[1:]:
            hand.page.keyboard.press("ArrowRight" if upright else "ArrowDown")
            assert hand.page.evaluate("document.activeElement.ariaLabel") == label
        assert hand.state() == first


# A handle whose value is not said in words, or has no ends.
MUTE = """root => [...root.querySelectorAll('.ln-handle[role=slider]')]
    .filter(e => !e.ariaValueText || !(+e.ariaValueMin <= +e.ariaValueMax)).map(e => e.outerHTML)"""
# What a finger cannot hit; a bar's body is taken besides its ring.
SMALL = """root => [...root.querySelectorAll(
        '.ln-target:not(.ln-body), button, summary, input[type=number]')]
    .filter(e => e.getClientRects().length && !e.closest('[visibility=hidden]'))
    .map(e => [e.outerHTML.slice(0, 99), e.getBoundingClientRect().height])
    .filter(([, height]) => height < 43.9)"""


def test_it_has_a_question_and_a_hint_values_in_words_and_room_for_a_finger(hand: Hand) -> None:
    region = hand.root.get_by_role("region", name=re.compile("^Explorer: "))
    ids = region.get_attribute("aria-describedby").split()
    question, hint = (hand.page.locator(f"[id='{one}']") for one in ids)
    assert (question.inner_text()[-1], hint.is_visible()) == ("?", True)
    assert len(hint.inner_text().split()) >= 5
    assert hand.root.evaluate(MUTE) == []
    assert hand.root.evaluate(SMALL) == [] or not hand.is_phone


def test_it_is_accessible_light_and_dark(hand: Hand) -> None:
    for theme in ("light", "dark"):
        hand.page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        found = violations(hand.page, {"include": [[".ln-explorer"]]})
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
    hand.page.evaluate("document.documentElement.dataset.theme = 'light'")


# --- what is drawn -------------------------------------------------------------------------------

# What is wrong with a state: a number that is none, words in a drawing that lie on others or leave
# it (a line of text is taller than its letters), and more than one screen.
LOOK = """([root, tallest]) => {
    const [fold] = root.querySelectorAll('details');
    fold.open = false;
    const { height } = root.querySelector('.ln-explorer').getBoundingClientRect();
    fold.open = true;
    const lost = [...root.querySelectorAll('svg *')].flatMap(e => [...e.attributes]).filter(
        a => !a.name.startsWith('aria') && /NaN|Infinity|undefined/.test(a.value));
    const wrong = [...root.querySelectorAll('.ln-chart svg')].flatMap(canvas => {
        const place = canvas.getBoundingClientRect();
        const words = [...canvas.querySelectorAll('text')].filter(
            t => t.textContent && t.getClientRects().length && !t.closest('[visibility=hidden]')
        ).map(t => {
                const { left, right, top, bottom, height } = t.getBoundingClientRect();
                return [t.textContent, left, right, top + height / 4, bottom - height / 5];
            });
        const out = words.filter(([, left, right, top, bottom]) => left < place.left - 10
            || right > place.right + 10 || top < place.top - 1 || bottom > place.bottom + 1);
        const over = (a, b) => a[1] < b[2] && b[1] < a[2] && a[3] < b[4] && b[3] < a[4];
        const pairs = words.flatMap((a, i) => words.slice(i + 1).map(b => [a, b]));
        return [...out, ...pairs.filter(pair => over(...pair)).flat()].map(([said]) => said);
    });
    const wide = document.documentElement.scrollWidth > innerWidth ? ['scrolls sideways'] : [];
    return [...lost.map(a => `${a.name}=${a.value}`), ...wrong, ...wide,
        ...(height > tallest ? [`${height} px`] : [])];
}"""


def reached(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that a hand leads to: its lists have tenths below 10."""
    return {
        name: tuple(round(math.fmod(x, 10), 1) for x in v) if isinstance(v, tuple) else v
        for name, v in state.items()
    }


def test_in_any_state_all_can_be_drawn_and_read_on_one_screen(hand: Hand) -> None:
    root, tallest = hand.root.element_handle(), 780 if hand.is_phone else 640
    for state in map(reached, islice(states(hand.kind), 20)):
        said = hand.tell(in_words(state))
        assert hand.verdict()
        assert 5 < len(said.split()) < 60, said
        assert hand.page.evaluate(LOOK, [root, tallest]) == [], state
        assert hand.tell(hand.page.evaluate("told.text")) == said  # its address leads back to it


# --- by hand -------------------------------------------------------------------------------------

# Of handles, or fields, of one list the first and the last: a loop makes them alike.
ENDS = """all => {
    const of = e => !e.matches('.ln-free')
        && `${e.closest('[data-trait]')?.dataset.trait} ${e.type}`;
    return all.flatMap((e, i) => {
        const alike = all.filter(other => of(e) && of(other) === of(e));
        return alike.length && e !== alike[0] && e !== alike.at(-1) ? [] : [i];
    });
}"""


def ends(hand: Hand, css: str) -> list[str]:
    """Return what finds each of a kind that can be seen, but of a list its ends alone."""
    nth = hand.root.locator(f"{css}:visible").evaluate_all(ENDS)
    return [f"{css}:visible >> nth={i}" for i in nth]


def test_a_finger_takes_each_handle_where_the_mouse_does_and_the_page_stays(hand: Hand) -> None:
    first = hand.state()
    for part in ends(hand, ".ln-handle"):
        for right, down in ((24, -28), (-24, 28)):  # it may be at its end
            hand.drag(hand.middle_of(part), right, down)
            by_mouse = hand.state()
            hand.reset()
            x, y = hand.middle_of(part)
            hand.drag((x + 6, y + 5), right, down)
            assert hand.state() == by_mouse, f"{part} jumps to where it is taken"
            hand.reset()
            if hand.is_phone:
                start, top = hand.middle_of(part), hand.scrolled()
                hand.stroke(start, right, down)
                assert (hand.page.evaluate("canceled"), hand.state()) == (0, by_mouse), part
                assert hand.scrolled() == pytest.approx(top, abs=1), part
                hand.reset()
            if by_mouse != first:
                break
        assert by_mouse != first, part
        assert hand.state() == first


def test_a_finger_on_a_slider_scrolls_the_page(hand: Hand) -> None:
    first = hand.state()
    for slider in hand.root.locator("input[type=range]:visible").all() if hand.is_phone else []:
        slider.evaluate("e => e.scrollIntoView({ block: 'center' })")
        box, top = slider.bounding_box(), hand.scrolled()
        hand.stroke((box["x"] + box["width"] / 5, box["y"] + 22), 4, -160)
        hand.page.wait_for_function(RESTS)
        assert (hand.state(), hand.scrolled() > top + 80) == (first, True)


MOVABLE = ":is(.ln-handle[role=slider], .ln-field input)"
# Keys that are held down leave an arrow to the browser.
OWN = """e => ['altKey', 'ctrlKey', 'metaKey'].filter(held => !e.dispatchEvent(new KeyboardEvent(
    'keydown', { key: 'ArrowUp', [held]: true, bubbles: true, cancelable: true })))"""
WAYS = [("ArrowUp", "ArrowDown"), ("ArrowRight", "ArrowLeft")]


def test_keys_move_each_slider_and_handle_and_the_way_back_undoes_them(hand: Hand) -> None:
    for one in map(hand.root.locator, ends(hand, MOVABLE)):
        label = one.get_attribute("aria-label") or one.evaluate("e => e.labels[0].textContent")
        one.evaluate("e => e.scrollIntoView({ block: 'center' })")
        one.focus()
        first, top = hand.state(), hand.scrolled()

        def moved(*keys: str, one: Any = one) -> bool:
            for key in keys:
                one.press(key)
            return hand.state() != first  # noqa: B023

        undone = []
        for there, back in (*WAYS, *(way[::-1] for way in WAYS)):
            one.focus()
            undone.append(moved(there, there) and not moved(back, back))
            hand.reset()
        assert any(undone), label  # at an end one of them leads nowhere
        for there, back in (("PageUp", "PageDown"), ("End", "Home")):
            if there == "PageUp" or one.get_attribute("role") == "slider":
                assert moved(there) or moved(back), f"{label}: {there}"
            hand.reset()
        assert hand.scrolled() == pytest.approx(top, abs=30), label
        assert one.evaluate(OWN) == [], label


def test_a_typed_number_is_taken_or_said_to_be_refused(hand: Hand) -> None:
    for number in map(hand.root.locator, ends(hand, "input[type=number]")):
        low, high = (float(number.get_attribute(end)) for end in ("min", "max"))
        before, note = hand.state(), number.locator("xpath=following-sibling::*[@role='alert']")
        number.fill(f"{high + 7:g}")
        number.press("Enter")
        assert number.get_attribute("aria-invalid") == "true"
        assert " goes from " in note.inner_text()
        assert [s for s in hand.state() if s not in before] == [f"{high + 7:g},,"]
        for value in (low, high):
            number.fill(f"{value:g}")
            number.press("Enter")
            hand.verdict()
            assert float(number.input_value()) == pytest.approx(value)
        assert (number.get_attribute("aria-invalid"), note.inner_text()) == (None, "")
        hand.reset()
        assert hand.state() == before


def test_each_start_is_pressed_alone_and_reset_undoes_it(hand: Hand) -> None:
    first, told = hand.sentence(), set()
    reset = hand.root.get_by_role("button", name="Reset")
    assert reset.is_disabled()
    starts = hand.root.locator(".ln-presets button").all()
    for button in starts:
        button.click()
        told.add(hand.sentence())
        pressed = [one.get_attribute("aria-pressed") == "true" for one in starts]
        assert pressed == [one is button for one in starts]
        if reset.is_enabled():  # one may be the first state
            reset.click()
        assert hand.sentence() == first
    assert len(told) == len(starts) >= 4


# --- what is heard, and what Python hears --------------------------------------------------------


# When the sentence that is seen changes, and when the one that is heard does.
CHANGES = """root => {
    window.changed = {};
    for (const name of ['ln-sentence', 'ln-heard']) {
        const node = root.querySelector(`.${name}`), was = node.textContent;
        const note = () => { if (node.textContent !== was) changed[name] ??= performance.now(); };
        const all = { childList: true, characterData: true, subtree: true };
        new MutationObserver(note).observe(node, all);
    }
}"""


def test_the_sentence_changes_at_once_and_is_heard_after_a_pause(hand: Hand) -> None:
    heard = hand.root.locator(".ln-heard")
    expect(heard).to_have_text(hand.sentence())
    assert heard.get_attribute("aria-live") == "polite"
    assert hand.root.locator(".ln-sentence").get_attribute("aria-hidden") == "true"
    hand.root.evaluate(CHANGES)
    before, now = hand.sentence(), hand.tell(in_words(states(hand.kind)[5]))
    assert before != now
    expect(heard).to_have_text(now)
    seen_at, heard_at = hand.page.evaluate("[changed['ln-sentence'], changed['ln-heard']]")
    assert heard_at - seen_at > 150  # of 250 ms, from before the sentence is written


# An explorer of a model that Python changes, and what it saves.
KERNEL = """async ([esm, state]) => {
    const url = URL.createObjectURL(new Blob([esm], { type: 'text/javascript' }));
    const heard = {};
    window.saved = [];
    window.kernel = {
        get: name => state[name],
        set(name, value) { state[name] = value; heard[`change:${name}`]?.(); },
        on(event, action) { heard[event] = action; },
        off(event, action) { if (heard[event] === action) delete heard[event]; },
        save_changes() { saved.push(structuredClone(state)); },
    };
    const { default: widget } = await import(url);
    const el = document.body.appendChild(document.createElement('div'));
    window.leave = widget.render({ model: kernel, el });
    window.listeners = () => [Object.keys(heard).length, el.children.length];
}"""


def test_python_is_told_the_sentence_and_what_leaves_leaves_nothing(hand: Hand) -> None:
    kind = hand.kind
    hand.page.evaluate(KERNEL, [str(kind._esm), plain(kind(ask=False).page_state())])
    first, other = states(kind)[:2]
    name, value = next((n, plain(v)) for n, v in other.items() if v != first[n])
    hand.page.evaluate("([name, value]) => kernel.set(name, value)", [name, value])
    hand.page.wait_for_timeout(150)
    saved = hand.page.evaluate("saved.at(-1)")
    explorer = kind(**{name: value})
    explorer.set_trait("_told", saved["_told"])
    assert explorer.sentence() == hand.tell(in_words({name: getattr(explorer, name)}))
    assert repr(explorer) == f"{kind(**{name: value})!r}\n{explorer.sentence()}"
    hand.page.evaluate("leave()")
    assert hand.page.evaluate("listeners()") == [0, 0]


# --- the guess -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind._files)
def test_a_guess_comes_first_waits_for_a_hand_and_can_be_left_out_or_made_again(
    reader: Any, kind: type[Explorer]
) -> None:
    later = ".ln-verdict, .ln-fold"
    asks = reader(guess=True).alone(kind()).locator(".ln-guessing").count()
    for end in ("See", "Skip", "Reset", "link", "paper") if asks else ():
        page = reader(guess=True, **(PHONE if end == "See" else DESK)).alone(kind())
        see, answer = page.get_by_role("button", name="See"), page.locator(".ln-answer")
        first = page.evaluate(STATE)
        assert page.locator(".ln-verdict:visible, .ln-fold:visible").count() == 0
        assert (page.locator(".ln-sentence").text_content(), see.is_enabled()) == ("", False)
        if end == "link":
            page.evaluate(SEND, ["ln-set", ""])
        elif end == "paper":
            page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        elif end == "See":
            see.press("Enter")  # it waits, and keeps the focus
            assert page.locator(".ln-guessing").count() == 1
            mine = page.locator(".ln-handle[role=slider]:visible, .ln-chart [aria-pressed]").first
            mine.press("ArrowUp" if mine.get_attribute("role") == "slider" else "Enter")
            see.click()
        else:
            page.get_by_role("button", name=end).click()
        page.evaluate(f"async () => {{ {DRAWN} }}")
        assert page.locator(".ln-guessing").count() == 0
        assert page.locator(later).count() == page.locator(later).locator("visible=true").count()
        assert bool(answer.text_content()) == (end == "See"), end
        assert page.locator(".ln-sentence").is_visible() == (end != "See")
        if end in ("See", "Skip"):
            assert page.get_by_role("region").evaluate("e => e === document.activeElement")
        if end == "See":
            assert page.get_by_role("region").bounding_box()["height"] <= 780
            while page.locator(".ln-ask p").is_hidden():  # more may be shown first, beat by beat
                page.get_by_role("button", name=re.compile("^(And |Guess again)")).click()
            assert page.evaluate(STATE) != first
            assert (answer.text_content(), see.is_enabled()) == ("", False)
    assert reader(guess=True).alone(kind(ask=False)).locator(".ln-guessing").count() == 0
