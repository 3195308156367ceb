"""The depth explorer: its network against autograd, its law against wide networks, its page."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from test_explorer_gamma_beta import OVERLAPS
from test_explorer_hands import DESK, PHONE, Hand
from torch.nn.functional import layer_norm

from conftest import DRAWN, LISTEN, SEND
from lnlib.book.explorers import DepthExplorer, depth

ORDERS = ("none", "norm_first", "relu_first")
TRAITS = ("order", "scale", "depth")
Sizes = tuple[list[float], list[float]]

# --- arithmetic and words ------------------------------------------------------------------------


def by_autograd(
    order: str, weights: torch.Tensor, x: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean squares of the activations and of the gradient, by layer."""
    h = [x.requires_grad_()]
    for w in weights:
        a = h[-1] @ w
        norm = layer_norm(torch.relu(a) if order == "relu_first" else a, a.shape[-1:], eps=0)
        outputs = {"none": torch.relu(a), "norm_first": torch.relu(norm), "relu_first": norm}
        h.append(outputs[order])
    found = (h, torch.autograd.grad(h[-1], h, dy))
    squares = [torch.stack([t.detach().square().mean(-1) for t in ts]) for ts in found]
    return squares[0], squares[1]


# A sum of 128 terms is rounded in another order. Behind a norm that follows a ReLU such errors grow
# as the gradient does, by 1.21 a layer and so by 14,500. A wrong term would be off by 1/128.
@pytest.mark.parametrize("order", ORDERS)
def test_the_network_is_the_one_that_torch_computes(order: str) -> None:
    weights, x, dy = map(torch.from_numpy, depth.network())
    for scale, layers in ((1.2, 50), (0.25, 50), (4.0, 31), (0.7, 1)):
        spread = scale * math.sqrt(2 / depth.WIDTH)
        exact = by_autograd(order, weights[:layers] * spread, x.clone(), dy)
        grown = depth.law(order, scale, layers).gradients[0] if order == "relu_first" else 1
        for ours, theirs in zip(depth.measured(order, scale, layers), exact, strict=True):
            assert ours == pytest.approx(theirs.sqrt().tolist(), rel=5e-15 * max(10, grown))


# In a network of width n the logarithm of a size after L layers is off by √(5L/n)/2 or so, and by
# −5L/4n on the average: for eight of 512 features, after ten layers, by 0.055 and −0.024.
@pytest.mark.parametrize("order", ORDERS)
def test_the_law_is_that_of_wide_networks(order: str) -> None:
    torch.manual_seed(0)
    width, layers, scale = 512, 10, 1.1
    found = []
    for _ in range(8):
        weights = torch.randn(layers, width, width) * scale * math.sqrt(2 / width)
        x, dy = torch.randn(2, width)
        found.append(torch.stack(by_autograd(order, weights, x, dy)))
    logs = torch.stack(found).log().mean(0) / 2
    law = torch.tensor(depth.law(order, scale, layers)).log()
    assert (logs - law).abs().max() < 0.2
    assert law.abs().max() > 0.3  # where a size changes, that is to be seen


def test_most_networks_end_about_two_times_off_the_law() -> None:
    torch.manual_seed(0)
    scale = math.sqrt(2 / depth.WIDTH)
    for order, (size, at) in {"none": (0, -1), "norm_first": (1, 0), "relu_first": (1, 0)}.items():
        off = []
        for _ in range(21):
            weights = torch.randn(depth.MOST, depth.WIDTH, depth.WIDTH) * scale
            x, dy = torch.randn(2, depth.WIDTH)
            found = float(by_autograd(order, weights, x, dy)[size][at].sqrt())
            off.append(abs(math.log(found / depth.law(order, 1.0, depth.MOST)[size][at])))
        assert 1.4 < math.exp(sorted(off)[10]) < 2.8


def test_drawn_numbers_look_like_chance() -> None:
    drawn = depth.draw(0, 2**18)
    slack = 5 / 2**9  # five standard deviations of a mean
    assert abs(drawn.mean()) < slack
    assert abs((drawn**2).mean() - 1) < slack
    assert np.abs(drawn).max() <= math.sqrt(3)
    for lag in (1, 2, depth.WIDTH, depth.WIDTH**2):
        assert abs((drawn[lag:] * drawn[:-lag]).mean()) < slack
    shares, _ = np.histogram(drawn, bins=16, range=(-math.sqrt(3), math.sqrt(3)))
    assert shares / len(drawn) == pytest.approx([1 / 16] * 16, abs=slack / 4)
    assert depth.draw(1000, 3).tolist() == drawn[1000:1003].tolist()


def golden_case(explorer: DepthExplorer) -> dict[str, Any]:
    return {
        **{name: getattr(explorer, name) for name in TRAITS},
        "measured": explorer.measured()._asdict(),
        "law": explorer.law()._asdict(),
        "sentence": explorer.sentence(),
        "verdict": explorer.verdict(),
    }


def test_javascript(run_js: Any) -> None:
    traits = DepthExplorer.class_own_traits()
    states = [
        *[(scale, 50) for scale in (0.25, 0.408, 1, 1.01, 1.2, 4)],
        *[(1 / 3, 37), (1.7, 12), (2, 9), (0.95, 3), (3, 2), (1.9, 1)],
    ]
    places = [*range(5), 128, 16384, depth.MOST * depth.WIDTH**2 + 2 * depth.WIDTH - 1]
    golden = {
        "defaults": {name: traits[name].default_value for name in TRAITS},
        "limits": {name: [traits[name].low, traits[name].high] for name in ("scale", "depth")},
        "orders": list(ORDERS),
        "drawn": [(place, float(depth.draw(place, 1)[0])) for place in places],
        "cases": [
            golden_case(DepthExplorer(order=order, scale=scale, depth=layers))
            for order in ORDERS
            for scale, layers in states
        ],
    }
    run_js("depth", golden)


STATES: list[dict[str, Any]] = [
    {},
    {"scale": 0.408},
    {"scale": 1.01},
    {"depth": 1},
    {"order": "norm_first", "scale": 4},
    {"order": "relu_first", "scale": 0.25},
    {"order": "relu_first", "depth": 8},
]
EACH = "Each layer multiplies the activations by {}, and the gradient on its way back too. After {}"
OUT = "The norm divides the scale of the weights out: the activations keep the RMS {}"
BACK = ". But each layer multiplies the gradient by 1/√(1 − 1/π) = 1.21, and {} by {}"
SEEN = "a real network of 128 features ends at {}, and its gradient at {}."
SAID = [
    "Both explode: × 1.2 a layer",
    EACH.format(1.2, "50 layers that is 1.2⁵⁰ = 9100; ") + SEEN.format("3490", "9560"),
    "Both vanish: × 0.408 a layer",
    EACH.format(0.408, "50 layers that is 0.408⁵⁰ = 3.41e-20; ")
    + SEEN.format("1.31e-20", "3.58e-20"),
    "Both stay near 1: × 1.01 a layer",
    EACH.format(1.01, "50 layers that is 1.01⁵⁰ = 1.64; ") + SEEN.format("0.631", "1.73"),
    "Both stay near 1: × 1.2 a layer",
    EACH.format(1.2, "one layer that is 1.2¹ = 1.2; ") + SEEN.format("1.21", "1.43"),
    "Both stay level, whatever the weights",
    OUT.format("1/√2, and the gradient keeps its size. After 50 layers ")
    + SEEN.format("0.711", "0.936"),
    "The activations stay level, the gradient explodes",
    OUT.format(1) + BACK.format("50 layers", "14500; ") + SEEN.format("1", "8400"),
    "The activations stay level, the gradient grows",
    OUT.format(1) + BACK.format("8 layers", "4.63; ") + SEEN.format("1", "4.27"),
]


def test_words_and_picture_tell_each_kind_of_stack() -> None:
    for traits, verdict, sentence in zip(STATES, SAID[::2], SAID[1::2], strict=True):
        explorer = DepthExplorer(**traits)
        assert (explorer.verdict(), explorer.sentence()) == (verdict, sentence)
        (ax,) = explorer.picture().axes
        assert ax.get_title() == verdict
        exact, seen = explorer.law(), explorer.measured()
        drawn = [line.get_ydata().tolist() for line in ax.lines]
        assert drawn == [exact.activations, seen.activations, exact.gradients, seen.gradients]
        low, high = ax.get_ylim()
        assert all(low < v < high for values in drawn for v in values)
    assert len(explorer.png()) < 14_000


# --- the page ------------------------------------------------------------------------------------

# What is drawn: the places of the ticks, the two lines and the two rows of marks, from the left.
LOOK = f"""async root => {{
    {DRAWN};
    const numbers = e => (e.getAttribute('d').match(/[ML][-\\d.]+ [-\\d.]+/g) ?? [])
        .map(pair => pair.slice(1).split(' ').map(Number));
    const ticks = [...root.querySelectorAll('.ln-decade')].map(t => +t.getAttribute('y') - 4);
    return {{
        ticks,
        powers: [...root.querySelectorAll('.ln-decade')].map(t => t.textContent),
        curves: [...root.querySelectorAll('.ln-chart > svg .ln-curve')].map(numbers),
        seen: [...root.querySelectorAll('.ln-chart > svg .ln-seen')].map(numbers),
        ghost: root.querySelector('.ln-chart > svg > g:last-child').checkVisibility(
            {{ visibilityProperty: true }}),
    }};
}}"""
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
GUESS, LAST = "[aria-label^=Your]", "[aria-label^=Number]"


def value_at(look: Any, y: float) -> float:
    """Return the exponent of ten that stands at a height of the drawing."""
    top = int(look["powers"][-1].removeprefix("10").translate(POWERS))
    low, high = look["ticks"][0], look["ticks"][-1]
    return top * (2 * (low - y) / (low - high) - 1)


@pytest.mark.parametrize(("width", "height"), [(338, 800), (390, 760), (790, 620)])
def test_lines_and_marks_stand_at_their_numbers(reader: Any, width: int, height: int) -> None:
    someone = reader(viewport={"width": width, "height": 900})
    page = someone.alone(DepthExplorer())
    page.evaluate("root => root.querySelector('summary').click()")
    for traits in (*STATES, {"scale": 4}, {"scale": 0.25, "depth": 23}, {"scale": 1.56}):
        explorer = DepthExplorer(**traits)
        page.evaluate(SEND, ["ln-set", "&".join(f"{k}={v}" for k, v in traits.items())])
        look = page.evaluate(LOOK)
        tall = look["ticks"][0] - look["ticks"][-1]
        slack = 0.2 * 2 * 36 / tall  # a fifth of a px of the widest axis
        for drawn, sizes, shift in (
            *[(look["curves"], explorer.law(), 0.0), (look["seen"], explorer.measured(), 2.0)],
        ):
            for k, values in enumerate(sizes):
                away = shift * k  # a square begins at its corner
                found = [value_at(look, y + away) for _, y in drawn[k]]
                assert found == pytest.approx(np.log10(values).tolist(), abs=slack)
        (left, _), (right, _) = look["curves"][0][0], look["curves"][0][-1]
        rule = page.locator("svg .ln-later > .ln-rule").get_attribute("d")
        assert rule.startswith(f"M{right:g} ")
        assert (right - left) / explorer.depth == pytest.approx((width - 50 - 20 - 60) / 50, abs=1)
        assert page.locator(".ln-explorer").evaluate(OVERLAPS) == [], traits
        assert someone.page.evaluate("document.documentElement.scrollWidth") <= width
        fold = page.locator("details").bounding_box()["height"] - 44
        assert page.locator(".ln-explorer").bounding_box()["height"] - fold <= height
        assert page.locator(".ln-sentence").inner_text().replace("\xa0", " ") == explorer.sentence()
    columns = page.locator(".ln-table tbody tr").nth(2).locator("td").all_inner_texts()
    sizes = [
        getattr(s, name)[20]
        for name in depth.Sizes._fields
        for s in (explorer.measured(), explorer.law())
    ]
    assert columns == [depth.number(v) for v in sizes]


def test_links_in_the_text_set_nudge_and_read_it(reader: Any) -> None:
    someone = reader(**DESK)
    page = someone.alone(DepthExplorer())
    page.evaluate(LISTEN)
    told = "['scale', 'depth', 'last', 'arrives', 'growth'].map(name => told.numbers()[name])"
    page.evaluate(SEND, ["ln-set", "order=relu_first&scale=9&depth=7.7"])
    assert someone.page.evaluate(told) == ["4", "8", "1", "4.63", "1.21"]
    assert page.locator(".ln-flash").count() == 4  # the choice, two fields and the last layer
    page.evaluate(SEND, ["ln-set", "order=sideways"])
    assert someone.page.evaluate(told) == ["1.2", "50", "9100", "9100", "1.2"]
    for trait, by in (("scale", 1), ("depth", -60)):
        page.evaluate(SEND, ["ln-nudge", {"trait": trait, "by": by}])
    assert someone.page.evaluate(told) == ["1.21", "1", "1.21", "1.21", "1.21"]
    assert page.locator(".ln-pill-name").text_content() == "‹ 1 layer ›"


# --- the hand ------------------------------------------------------------------------------------


def test_a_guess_is_made_by_finger_mouse_and_keys_and_compared(reader: Any) -> None:
    hand = Hand(lambda **c: reader(guess=True, **c), DepthExplorer())
    root, guess = hand.root, hand.root.locator(GUESS)
    words = "e => e.getAttribute('aria-valuetext')"
    assert guess.evaluate(words) == "1"
    top = hand.scrolled()
    start = hand.middle_of(GUESS)
    hand.stroke(start, -20, -40)
    hand.settle()
    by_finger = guess.evaluate(words)
    assert float(by_finger) > 1e3
    start = hand.middle_of(GUESS)
    hand.drag(start, 9, 40)
    assert guess.evaluate(words) == "1"
    hand.drag(hand.middle_of(GUESS), 0, -40)
    assert guess.evaluate(words) == by_finger
    assert (hand.page.evaluate("canceled"), hand.scrolled()) == (0, pytest.approx(top, abs=900))
    for key, value in (
        *[("End", "1e12"), ("ArrowUp", "1e12"), ("PageDown", "3.2e9"), ("Home", "1e−12")],
        *[("ArrowRight", "1.8e−12"), ("ArrowLeft", "1e−12")],
    ):
        guess.press(key)
        assert guess.evaluate(words).replace("e-", "e−") == value, key
    for _ in range(56):
        guess.press("ArrowUp")
    assert guess.evaluate(words) == "100"
    assert not root.locator(LAST).is_visible()
    root.get_by_role("button", name="See").click()
    said = "You said 100 at layer 50. It is 1.2⁵⁰ = 9100: you were off by a factor of 91."
    assert root.locator(".ln-answer").text_content() == said
    look = root.evaluate(LOOK)
    line = root.locator("svg > g:last-child .ln-rule").get_attribute("d")
    (_, y0), (_, y1) = [pair.split() for pair in re.findall(r"[\d.]+ [\d.]+", line)]
    assert [value_at(look, float(y)) for y in (y0, y1)] == pytest.approx([0, 2], abs=0.05)
    assert look["ghost"]
    root.get_by_label("norm → ReLU").check()
    assert not root.evaluate(LOOK)["ghost"]  # it was about another state
    assert root.locator(".ln-answer").text_content() == ""
    root.get_by_label("no norm").check()
    assert not root.evaluate(LOOK)["ghost"]


def test_a_guess_is_skipped_or_never_asked_for(reader: Any) -> None:
    someone = reader(guess=True)
    page = someone.alone(DepthExplorer())
    page.get_by_role("button", name="Skip").click()
    assert not page.evaluate(LOOK)["ghost"]
    assert page.locator(".ln-answer").text_content() == ""
    for widget in (DepthExplorer(order="norm_first"), DepthExplorer(ask=False)):
        page = someone.alone(widget)
        assert page.locator(".ln-ask, .ln-guessing").count() == 0
        assert not page.evaluate(LOOK)["ghost"]
        assert page.locator(LAST).is_visible()


def test_keys_lead_the_last_layer_to_its_ends(reader: Any) -> None:
    hand = Hand(reader, DepthExplorer(), **DESK)
    last = hand.root.locator(LAST)
    for key, layers in (
        *[("ArrowDown", "49 layers"), ("PageDown", "39 layers"), ("Home", "1 layer")],
        *[("ArrowLeft", "1 layer"), ("ArrowRight", "2 layers"), ("End", "50 layers")],
    ):
        last.press(key)
        assert last.get_attribute("aria-valuetext") == layers, key
    hand.drag(hand.middle_of(LAST), -100, 30)
    layers = int(last.get_attribute("aria-valuenow"))
    assert 30 < layers < 50
    look = hand.root.evaluate(LOOK)
    assert [len(points) for points in (*look["curves"], *look["seen"])] == [layers + 1] * 4
    assert (
        hand.root.locator(".ln-table tbody tr").last.locator("td").all_text_contents() == ["–"] * 4
    )


def test_touch_targets_have_room(reader: Any) -> None:
    page = reader(**PHONE).alone(DepthExplorer())
    for part in ("[aria-label^=Number] .ln-target", ".ln-choice label", ".ln-field input"):
        for one in page.locator(f"{part}:visible").all():
            assert one.bounding_box()["height"] >= 43.9
