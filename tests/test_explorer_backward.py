"""The backward pass: its arithmetic against autograd, and the page in a reader's hand."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
import torch
from test_explorer_gamma_beta import OVERLAPS
from test_explorer_hands import DESK, PHONE, Hand

from conftest import DRAWN, violations
from lnlib.book.equations import meanings
from lnlib.book.explorers import BackwardExplorer
from lnlib.book.explorers.backward import ARROWS, END, EQUATIONS, LOST, passes
from lnlib.book.explorers.base import number
from lnlib.book.home import ROOT

TRAITS = ("x", "weight", "dy", "eps", "step", "forget")
ROW, ONES = (1.0, 3.0, 3.0, 9.0), (1.0,) * 4

# --- arithmetic ----------------------------------------------------------------------------------


def random_rows(count: int) -> list[dict[str, Any]]:
    dice = random.Random(0)
    rows = []
    for _ in range(count):
        middle, size = dice.uniform(-80, 80), 10 ** dice.uniform(-2, 1)
        x = [max(-100, min(100, middle + size * dice.gauss(0, 1))) for _ in range(4)]
        weight, dy = ([dice.uniform(-5, 5) for _ in range(4)] for _ in range(2))
        rows.append({"x": x, "weight": weight, "dy": dy, "eps": 10 ** dice.uniform(-12, 0)})
    return rows


def autograd(row: dict[str, Any], forget: str = "") -> dict[str, torch.Tensor]:
    """The gradient of every node, with one path detached: each use of a node has its own tensor."""

    def used(arrow: str, value: torch.Tensor) -> torch.Tensor:
        return value.detach() if arrow == forget else value

    def node(value: torch.Tensor) -> torch.Tensor:
        return value if value.requires_grad else value.requires_grad_()

    x, gamma, dy = (torch.tensor(row[k], dtype=torch.float64) for k in ("x", "weight", "dy"))
    x, gamma, beta = node(x), node(gamma), node(torch.zeros_like(dy))
    m = node(used("m-x", x).mean())
    mu = node(used("mu-x", x) - used("mu-m", m))
    v = node((used("v-mu", mu) ** 2).mean())
    sigma = node((used("sigma-v", v) + row["eps"]).sqrt())
    y = used("y-mu", mu) / used("y-sigma", sigma) * used("y-gamma", gamma) + used("y-beta", beta)
    nodes = {"x": x, "gamma": gamma, "beta": beta, "m": m, "mu": mu, "v": v, "sigma": sigma}
    loss = (y * dy).sum()
    found = torch.autograd.grad(loss, list(nodes.values()), allow_unused=True)
    return {
        name: torch.zeros_like(nodes[name]) if gradient is None else gradient
        for name, gradient in zip(nodes, found, strict=True)
    }


# Each x − m is off by up to 4 roundings of the largest x, 8.9e-16 of it, and so is σ; a gradient
# is made of a dozen of such.
def rounding(row: dict[str, Any]) -> float:
    sigma = passes(**row).sigma
    return 1e-14 * (1 + max(map(abs, row["x"])) / sigma)


LAST = {arrow.split("-")[1]: arrow for arrow in ARROWS}  # the last arrow into each node


def test_every_gradient_is_autograds_whichever_path_is_forgotten() -> None:
    for number_of, row in enumerate(random_rows(1000)):
        within, size = rounding(row), max(map(abs, row["dy"])) * 5
        for forget in ("", ARROWS[number_of % len(ARROWS)]):
            shown, truth = passes(**row, forget=forget), autograd(row, forget)
            scale = {"sigma": 9 / shown.sigma, "v": 9 / shown.sigma**2, "gamma": 1, "beta": 1}
            for node, arrow in LAST.items():
                mine = torch.tensor(shown.flows[arrow].gathered, dtype=torch.float64)
                off = (mine - truth[node]).abs().max().item()
                assert off <= within * size * scale.get(node, 9 / shown.sigma), (node, forget, row)
            assert shown.dx == shown.flows["mu-x"].gathered


def test_what_an_arrow_loses_are_whole_terms_of_dx() -> None:
    for row in random_rows(200):
        whole = passes(**row)
        within = rounding(row) * 50 * 9 / whole.sigma
        for forget, lost in LOST.items():
            kept = [term for i, term in enumerate(whole.terms) if i not in lost]
            sums = [sum(parts) for parts in zip(*kept, strict=True)] if kept else [0.0] * 4
            assert passes(**row, forget=forget).dx == pytest.approx(sums, abs=within), forget
    assert set(LOST) == set(ARROWS)


def test_each_step_is_gradient_times_slope_and_two_nodes_collect_two_addends() -> None:
    flows = passes(**random_rows(1)[0]).flows
    for flow in flows.values():
        size = len(flow.carried)
        pairs = zip(*(v * (size // len(v)) for v in (flow.given, flow.local)), strict=True)
        assert flow.carried == [a * b for a, b in pairs]
    into = {node: [a for a in ARROWS if a.endswith(f"-{node}")] for node in LAST}
    assert {node: arrows for node, arrows in into.items() if len(arrows) > 1} == {
        "mu": ["v-mu", "y-mu"],
        "x": ["m-x", "mu-x"],
    }
    for first, second in (into["mu"], into["x"]):
        both = zip(flows[first].gathered, flows[second].carried, strict=True)
        assert flows[second].gathered == [a + b for a, b in both]


def test_an_arrow_stands_where_a_definition_of_the_chapter_uses_a_quantity() -> None:
    meaning, made_of = meanings.batch(), set()
    for name in ("m", "mu", "v", "sigma", "y"):
        places = {"mu": (1, 1), "y": (1, 1)}.get(name, (1,))
        for used in meaning.define(name, places).free_symbols:
            made_of.add(f"{name}-{used.name.split('_')[0]}")
    assert set(ARROWS) == made_of - {"sigma-epsilon"}


def test_the_numbers_of_the_equations_are_the_chapters() -> None:
    chapter = json.loads((ROOT / "notebooks/05_index_notation.ipynb").read_text("utf8"))
    text = "".join("".join(c["source"]) for c in chapter["cells"] if c["cell_type"] == "markdown")
    labels = re.findall(r"^:label: ((?:eq|def)-.*)$", text, re.MULTILINE)
    for label, place in EQUATIONS.values():
        assert labels[place - 1] == label
    # Every step stands in the chapter before the next.
    places = [EQUATIONS[arrow][1] for arrow in (*ARROWS, "")]
    assert places == sorted(places)


def test_javascript(run_js: Any) -> None:
    traits = BackwardExplorer.class_own_traits()
    dice = random.Random(1)
    rows = random_rows(60)
    rows += [{"x": x, "weight": w, "dy": d, "eps": e} for x, w, d, e in SPECIAL]
    cases = []
    for row in rows:
        for step in (dice.randrange(END), END):
            for forget in ("", dice.choice(ARROWS)):
                one = BackwardExplorer(**row, step=step, forget=forget)
                said = {"verdict": one.verdict(), "sentence": one.sentence()}
                given = {name: getattr(one, name) for name in TRAITS}
                flows = {name: flow._asdict() for name, flow in one.passes().flows.items()}
                rest = one.passes()._asdict() | {"flows": flows}
                cases.append({**given, **said, "passes": rest})
    golden = {
        "defaults": {name: traits[name].default_value for name in TRAITS[:4]}
        | {"step": 0, "forget": ""},
        "limits": {name: [t.low, t.high] for name, t in BOUNDS.items()} | {"step": [0, END]},
        "arrows": ARROWS,
        "lost": LOST,
        "equations": {arrow: place for arrow, (_, place) in EQUATIONS.items()},
        "cases": cases,
    }
    run_js("backward", golden, at_least=8)


BOUNDS = {
    name: getattr(trait, "each", trait)
    for name, trait in BackwardExplorer.class_own_traits().items()
    if name in TRAITS[:4]
}
SENT = passes(ROW, ONES, ONES, 1).y
SPECIAL = [
    (ROW, (1, 2, 1, 1.5), (-2, 2, -1, 2), 1e-5),
    *[(ROW, ONES, dy, 1) for dy in (ONES, SENT, (0,) * 4)],
    ((0, 0, 0, 8), ONES, (-2, 2, -1, 2), 1e-5),
    ((5,) * 4, ONES, (-2, 2, -1, 2), 1e-5),
    ((0.1,) * 4, ONES, (1, -1, 1, -1), 1e-12),
]
SAID = """Forward is done; dy waits at y
x gives m = 4, v = 9, σ = 3 and y = (−1, −0.667, −0.333, 2.5). Each arrow takes dy a step back.
∂l/∂γ is dy times μ/σ
γ multiplies μ/σ, so that is the slope. In a batch, rows add up.
∂l/∂β is dy itself
β is only added, so the slope is 1. In a batch, rows add up.
Four products add up at σ
Each y is divided by the same σ. The four products add up to ∂l/∂σ = −2.
Only σ uses v: one factor
σ = √(v + ε) has the slope 1/(2σ) = 0.167: ∂l/∂v is 0.167 times −2, which is −0.333.
The first addend of ∂l/∂μ
v is the mean of μ², so its slope is 2μ/4. Four numbers wait at μ for those from y.
Two addends make ∂l/∂μ
y uses μ with the slope γ/σ. μ has two users, so two addends add up.
Four numbers add up at m
m is subtracted from each x, so ∂l/∂m = −1.33 is minus the sum of ∂l/∂μ. What came from v \
sums to 0, as μ does.
The first addend of dx
m is the mean of x, so each x gets a quarter of −1.33, which is −0.333.
Two addends make dx
Each μ has its own x, with the slope 1. x has two users, m and μ, so two addends add up.
Three roads back, three terms
g comes straight from y, −ḡ through m, and −x̂·mean(g x̂) through σ and v, each divided by σ = 3. \
Here ḡ = 1 and mean(g x̂) = 1.5.""".splitlines()
SEEN = [
    "Three roads back, three terms",
    *["Nothing arrives at x: dx is 0", "Along x̂ only ε’s share is left: ε/σ² = 0.1"],
    *["Nothing arrives at x: dx is 0", "The outlier gets nearly nothing"],
    *["x̂ is 0, and so is the third term"] * 2,
]


def test_words_tell_each_step_and_each_kind_of_row() -> None:
    for step in range(END + 1):
        explorer = BackwardExplorer(step=step)
        assert [explorer.verdict(), explorer.sentence()] == SAID[2 * step : 2 * step + 2]
    seen = [BackwardExplorer(x=x, weight=w, dy=d, eps=e, step=END) for x, w, d, e in SPECIAL]
    assert [one.verdict() for one in seen] == SEEN


def test_the_verdict_names_what_is_missing_from_dx() -> None:
    third = "−x̂·mean(g x̂)"
    for arrow, words in {
        "y-gamma": "Without y → γ, ∂l/∂γ is missing, and dx is whole",
        "y-sigma": f"Without y → σ, {third} is missing from dx",
        "y-mu": "Without y → μ, g and −ḡ are missing from dx",
        "mu-m": "Without μ → m, −ḡ is missing from dx",
        "mu-x": f"Without μ → x, g and {third} are missing from dx",
    }.items():
        for step in (0, END):
            assert BackwardExplorer(forget=arrow, step=step).verdict() == words
    none = BackwardExplorer(weight=ONES, dy=ONES, forget="v-mu")
    assert none.verdict() == f"Without v → μ, {third} is missing from dx; here it is 0"
    halfway, last = (BackwardExplorer(forget="v-mu", step=step).sentence() for step in (5, END))
    assert halfway == (
        "v → μ carries nothing back here. It would carry (0.5, 0.167, 0.167, −0.833)."
    )
    assert last == (
        "What arrives at x is (−1, 1, −0.667, 0.667); the true dx is (−0.5, 1.17, −0.5, −0.167)."
    )
    assert BackwardExplorer(forget="sigma-v", step=4).sentence().endswith("would carry −0.333.")
    assert BackwardExplorer(forget="y-beta", step=END).sentence().endswith("−0.167).")


def test_the_stand_in_has_each_node_and_the_gradients_that_are_known() -> None:
    for step in (0, 4, END):
        explorer = BackwardExplorer(step=step)
        written = " ".join(text.get_text() for text in explorer.picture().axes[0].texts)
        assert all(f"{node} = " in written for node in "xmμvσyγβ")
        reached = {arrow.split("-")[1] for arrow in ARROWS[:step]} | {"y"}
        assert written.count("∂l/∂") == len(reached) == len(explorer.gradients())
    assert "∂l/∂x = (−0.5, 1.17,\n−0.5, −0.167)" in written
    assert len(BackwardExplorer(step=END, forget="v-mu").png()) < 16_000


# --- the page ------------------------------------------------------------------------------------

SET = f"""async (root, detail) => {{
    root.querySelector('.ln-explorer').dispatchEvent(new CustomEvent('ln-set', {{ detail }}));
    {DRAWN};
}}"""
# The bars of the work of a step, color by color, as [middle, where they start, where they end].
BARS = f"""async root => {{
    {DRAWN};
    const found = {{}};
    for (const bars of root.querySelectorAll('.ln-work > path')) {{
        const each = (bars.getAttribute('d') ?? '')
            .matchAll(/M([-\\d.]+) ([-\\d.]+)h([-\\d.]+)V([-\\d.]+)/g);
        found[bars.getAttribute('class').replace(/^.*ln-/, '').replace('road-', '')] =
            [...each].map(([, x, from, width, to]) => [+x + width / 2, +from, +to]);
    }}
    return found;
}}"""
# Its rows: letters, color, numbers.
ROWS = f"""async root => {{
    {DRAWN};
    const all = kind => [...root.querySelectorAll(`.ln-work ${{kind}}`)];
    const cells = all('.ln-cell').map(e => e.textContent);
    return all('.ln-cell-name').map((e, k) => [
        e.textContent, all('rect')[k].getAttribute('class').replace(/.*-/, ''),
        cells.slice(4 * k, 4 * k + 4).filter(Boolean),
    ]).filter(([name]) => name);
}}"""
PASSED = f"""async root => {{
    {DRAWN};
    const ways = [...root.querySelectorAll('.ln-way')];
    return ['ln-passed', 'ln-now', 'ln-forgotten'].map(kind =>
        ways.flatMap((e, i) => (e.classList.contains(kind) ? [i] : [])));
}}"""
RING = "[aria-label='Feature {} of {}']"
LONG = (-99.9, -12.3, 45.6, 77.7)
STATES = [
    *[{"step": step} for step in range(END + 1)],
    *[{"step": END, "forget": arrow} for arrow in ("v-mu", "y-mu", "mu-x", "y-gamma")],
    {
        "step": 6,
        "forget": "v-mu",
        "x": LONG,
        "dy": (-9.99, -3.33, 6.78, -0.1),
    },
    {"step": END, "x": (5,) * 4},
    {"step": END, "x": (0, 0, 0, 8), "weight": (-4.44,) * 4, "eps": 0.123},
]


def in_address(traits: dict[str, Any]) -> str:
    words = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in traits.items()}
    return "&".join(f"{name}={value}" for name, value in words.items())


@pytest.mark.parametrize("size", [(390, 844), (338, 844), (760, 800)])
def test_it_fits_one_screen_and_no_word_lies_on_another(reader: Any, size: Any) -> None:
    width, height = size
    someone = reader(viewport={"width": width, "height": height})
    page = someone.alone(BackwardExplorer())
    for state in STATES:
        page.evaluate(SET, in_address(state))
        if width != 338 or "x" not in state:
            assert page.evaluate(OVERLAPS) == [], state
        if width != 338:
            most = 620 if width == 760 else 760
            assert page.locator(".ln-explorer").bounding_box()["height"] <= most, state
    assert someone.page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [one.bounding_box() for one in page.locator(".ln-cut").all()]
    for i, a in enumerate(boxes):
        assert (a["width"], a["height"]) == pytest.approx((44, 44), abs=0.01)
        for b in boxes[:i]:
            assert max(abs(a[k] - b[k]) for k in "xy") >= 36


def test_the_work_of_each_step_is_drawn_as_it_is_written(reader: Any) -> None:
    page = reader(**DESK).alone(BackwardExplorer())
    for state in STATES[1:]:
        explorer = BackwardExplorer(**state)
        page.evaluate(SET, in_address(state))
        rows, bars, shown = page.evaluate(ROWS), page.evaluate(BARS), explorer.passes()
        step, forget = state["step"], state.get("forget", "")
        if step == END:
            lost = LOST.get(forget, ())
            terms = [[0.0] * 4 if i in lost else term for i, term in enumerate(shown.terms)]
            drawn = dict(zip(("g", "mean", "hat", "sum"), [*terms, shown.dx], strict=True))
            drawn["true"] = explorer.whole().dx if lost else []
            assert [name for name, *_ in rows] == ["g/σ", "−ḡ/σ", "−x̂·mean(g x̂)/σ", "dx"]
            written = [*terms, shown.dx]
        else:
            flow = shown.flows[ARROWS[step - 1]]
            written = [flow.given, flow.local, flow.carried]
            colors = {name: kind for _, kind, values in rows for name in [kind] if kind != "none"}
            drawn = {rows[2][1]: flow.carried}
            other = {"y-mu": "v-mu", "mu-x": "m-x"}.get(ARROWS[step - 1])
            if other:
                written += [shown.flows[other].gathered, flow.gathered]
                drawn |= {rows[3][1]: shown.flows[other].gathered, "sum": flow.gathered}
            elif len(flow.gathered) < len(flow.carried):
                written.append(flow.gathered)
            assert set(colors) == set(drawn)
            written[:2] = [v * (len(flow.carried) // len(v)) for v in written[:2]]
        for (_, _, words), values in zip(rows, written, strict=True):
            assert [word_value(word) for word in words] == pytest.approx(values, rel=0.25, abs=1e-9)
        assert {kind for kind, each in bars.items() if each} == {k for k, v in drawn.items() if v}
        heights = [(abs(v), kind, i) for kind, all_ in drawn.items() for i, v in enumerate(all_)]
        most = max(heights)
        _, start, end = bars[most[1]][most[2]]
        unit = (start - end) / drawn[most[1]][most[2]] if most[0] else 1
        for kind, values in drawn.items():
            lengths = [start - end for _, start, end in bars[kind]]
            assert lengths == pytest.approx([v * unit for v in values], abs=0.3), (state, kind)


def word_value(word: str) -> float:
    return float(word.replace("−", "-"))  # with one digit at least


def test_buttons_and_keys_step_one_arrow_at_a_time(reader: Any) -> None:
    page = reader(**DESK).alone(BackwardExplorer())
    back = page.get_by_role("button", name="Step back", exact=True)
    for step in range(1, END + 1):
        back.click()
        now = [step - 1] if step < END else []
        assert page.evaluate(PASSED) == [list(range(min(step, 9))), now, []]
        assert page.locator(".ln-verdict").inner_text() == SAID[2 * step]
        assert page.locator(".ln-count").inner_text() == f"{step} of {END}"
    assert back.get_attribute("aria-disabled") == "true"
    back.press("Enter")
    assert page.locator(".ln-count").inner_text() == f"{END} of {END}"
    page.get_by_role("button", name="Undo a step").click()
    for key, step in (
        *[("ArrowRight", 8), ("ArrowLeft", 9), ("End", 0), ("ArrowRight", 0), ("Home", END)],
        *[("End", 0), ("Alt+ArrowLeft", 0), ("Enter", 1), ("Space", 2)],
    ):
        if key in ("Enter", "Space"):
            back.focus()
        page.page.keyboard.press(key)
        assert page.locator(".ln-count").inner_text() == f"{step} of {END}", key
    page.get_by_role("button", name="Step back all the way").click()
    assert page.locator(".ln-verdict").inner_text() == SAID[2 * END]


def test_a_tap_a_click_or_a_key_on_an_arrow_forgets_it(reader: Any) -> None:
    someone = reader(**PHONE)
    page = someone.alone(BackwardExplorer(step=END))
    for k, arrow in enumerate(ARROWS):
        explorer = BackwardExplorer(step=END, forget=arrow)
        button = page.locator(".ln-cut").nth(k)
        box = button.bounding_box()
        way = page.locator(".ln-way").nth(k).bounding_box()
        for start, size in (
            ("x", "width"),
            ("y", "height"),
        ):  # it lies over the middle of its arrow
            assert box[start] <= way[start] + way[size] / 2 <= box[start] + box[size]
        if k % 3 == 0:
            button.tap(position={"x": 6, "y": 40})
        elif k % 3 == 1:
            button.click()
        else:
            button.press("Enter")
        assert page.evaluate(PASSED)[2] == [k]
        assert page.locator(".ln-verdict").inner_text() == explorer.verdict()
        pressed = [one.get_attribute("aria-pressed") for one in page.locator(".ln-cut").all()]
        assert pressed == ["true" if i == k else "false" for i in range(9)]
    button.click()
    assert page.evaluate(PASSED)[2] == []
    assert button.get_attribute("aria-label") == "Forget μ → x"


def test_rings_stand_at_their_values_and_dx_follows(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(step=END), **DESK)

    def number_of(part: str) -> float:
        return float(hand.root.locator(part).get_attribute("aria-valuenow"))

    def ring_at(feature: int, trait: str) -> float:
        ring = hand.root.locator(RING.format(feature, trait))
        hand.root.evaluate(ROWS)  # once it is drawn
        return float(re.findall(r"[-\d.]+", ring.get_attribute("transform"))[1])

    before = hand.root.evaluate(ROWS)
    x, y = hand.middle_of(RING.format(2, "dy"))
    mouse = hand.page.mouse
    mouse.move(x, y)
    mouse.down()
    values, places = [], [ring_at(2, "dy")]
    for by in (-4, -8, 10, 300):  # the scale stays meanwhile, and the ring inside its card
        mouse.move(x, y + by)
        values.append(number_of(RING.format(2, "dy")))
        places.append(ring_at(2, "dy"))
    mouse.up()
    assert places[3] - places[0] == pytest.approx(10, abs=0.6)  # a tenth of dy is half a pixel
    assert places[0] > places[1] == places[2]  # at the edge
    assert places[4] < places[0] + 30
    assert values[1] - 2 == pytest.approx(2 * (values[0] - 2), abs=0.11)
    assert values[2] - 2 == pytest.approx(-2.5 * (values[0] - 2), abs=0.21)
    assert values[3] == -10
    after = hand.root.evaluate(ROWS)
    assert after[0][2][1] != before[0][2][1]
    assert all(a != b for a, b in zip(after[3][2], before[3][2], strict=True))  # all of dx
    hand.reset()
    ring = hand.root.locator(RING.format(4, "x"))
    for key, value in (("ArrowUp", 9.1), ("Shift+ArrowDown", 8.1), ("End", 100), ("Home", -100)):
        ring.press(key)
        assert number_of(RING.format(4, "x")) == value
    hand.reset()
    hand.root.locator("summary").click()
    scale = hand.root.get_by_label("Scale γ₂, as a number")
    scale.fill("-3")
    scale.press("Enter")
    assert hand.root.evaluate(ROWS)[0][2][1] == "−2"  # γ dy / σ = −3 · 2 / 3
    table = hand.root.locator(".ln-table tbody tr").first.locator("td").all_inner_texts()
    shown = BackwardExplorer(weight=(1, -3, 1, 1.5)).passes()
    first = (1, shown.mu[0], shown.y[0], -2, shown.flows["y-mu"].gathered[0], shown.dx[0])
    assert table == [number(v) for v in first]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader: Any, theme: str) -> None:
    someone = reader(**PHONE)
    someone.alone(BackwardExplorer(step=6, forget="v-mu"))
    if theme == "dark":
        someone.page.evaluate(
            "document.documentElement.dataset.theme = 'dark';"
            "document.body.style.cssText = 'background: #14181e; color: #e6edf3'"
        )
    found = violations(someone.page)
    assert {v["id"]: v["nodes"] for v in found if v["impact"] in ("serious", "critical")} == {}
