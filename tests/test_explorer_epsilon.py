import math
import re

import numpy as np
import pytest
import torch

from conftest import plain
from lnlib import formula
from lnlib.book.explorers import EpsilonExplorer, epsilon
from lnlib.book.explorers.base import number
from lnlib.book.explorers.epsilon import PATTERN

EPS = [1e-12, 1e-10, 1e-8, 2.9e-8, 3e-8, 1e-7, 1e-5, 1e-3, 0.37, 1.0]
SPREADS = [0.0, 1e-7, 1e-6, 6.3245553e-5, 1.7e-4, 2.5e-4, 4.1e-4, 1e-3, 0.0123, 0.37, 1.0, 10.0]


# --- traits --------------------------------------------------------------------------------------


def test_it_starts_where_all_three_agree_and_float16_fails_above_the_knee():
    explorer = EpsilonExplorer()
    assert (explorer.eps, explorer.spread) == (1e-8, 1e-3)
    for version in epsilon.versions(explorer.row(), explorer.eps):
        assert version.output_variance.item() == pytest.approx(1, abs=0.02)
    explorer.spread = 1.5e-4  # above the knee, which is at 1e-4
    pytorch, _, half = epsilon.versions(explorer.row(), explorer.eps)
    assert pytorch.output_variance > 0.5
    assert half.x_hat.isinf().all()


def test_float16_holds_out_once_eps_is_no_longer_zero_in_it():
    for eps, holds in ((2.9e-8, False), (3e-8, True)):
        explorer = EpsilonExplorer(eps=eps, spread=1e-7)
        assert bool(epsilon.versions(explorer.row(), eps)[2].x_hat.isfinite().all()) == holds


# --- what stands in for the widget ---------------------------------------------------------------


@pytest.mark.parametrize(("eps", "spread"), [(1e-12, 0.0), (1e-8, 1e-7), (1.0, 10.0)])
def test_picture_can_be_drawn_at_the_edges(eps, spread):
    assert len(EpsilonExplorer(eps=eps, spread=spread).png()) < 40_000


def test_sentence_tells_the_numbers():
    told = EpsilonExplorer().sentence()
    assert told.startswith("With σ = 0.001 and ε = 1e-8, PyTorch’s √(σ² + ε) gives")
    for part in ("output variance 0.99 ", "up to 995;", "output variance 1 and", "up to 1000."):
        assert part in told
    assert "0x" not in told


def test_sentence_tells_of_float16_dividing_by_zero():
    nan = EpsilonExplorer(eps=1e-8, spread=0).sentence()
    assert "constant row (σ = 0)" in nan
    assert "all 8 values are NaN" in nan
    assert "all 8 values are ±∞" in EpsilonExplorer(eps=1e-8, spread=6.3e-5).sentence()


def test_pattern_has_mean_zero_and_biased_variance_one_exactly():
    terms = formula.terms(torch.tensor(PATTERN, dtype=torch.float64))
    assert terms.mean.item() == 0
    assert terms.var.item() == 1


# --- the page's arithmetic -----------------------------------------------------------------------


def jacobian_norm(x: torch.Tensor, eps: float, convention: str) -> float:
    def x_hat(values):
        return formula.terms(values, eps=eps, eps_at=convention).x_hat

    if x.any():
        jacobian = torch.autograd.functional.jacobian(x_hat, x)
    else:
        # At a constant row autograd meets 0/0 in √; the map is smooth there. A step of 1e-30 is
        # at least 1e18 times smaller than ε, so the quotient is the derivative to all digits.
        jacobian = torch.stack([x_hat(1e-30 * e) / 1e-30 for e in torch.eye(8).double()], dim=1)
    return torch.linalg.matrix_norm(jacobian, ord=2).item()


def golden_case(eps: float, spread: float) -> dict:
    x = spread * torch.tensor(PATTERN, dtype=torch.float64)
    case: dict = {"eps": eps, "spread": spread}
    for convention in ("variance", "std"):
        x_hat = formula.terms(x, eps=eps, eps_at=convention).x_hat
        case[convention] = {
            "xHat": x_hat.tolist(),
            "outputVariance": x_hat.var(correction=0).item(),
            "gradientSize": jacobian_norm(x, eps, convention),
        }
    # numpy rounds float64 to float16 once, as toHalf does; torch goes through float32.
    rounded = torch.from_numpy(x.numpy().astype(np.float16))
    half = formula.terms(rounded, eps=float(np.float16(eps)), dtype=torch.float16)
    case["half"] = {
        "xHat": [plain(v) for v in half.x_hat.tolist()],
        "mean": plain(half.mean.item()),
        "variance": plain(half.var.item()),
        "rstd": plain(half.rstd.item()),
    }
    case["sentence"] = EpsilonExplorer(eps=eps, spread=spread).sentence()
    return case


def half_pairs() -> np.ndarray:
    """Float64 numbers, then what numpy rounds them to: all float16, all ties, their neighbors."""
    positive = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (positive[:-1] + positive[1:]) / 2
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [
            positive,
            ties,
            np.nextafter(ties, np.inf),
            np.nextafter(ties, 0),
            10 ** generator.uniform(-12, 7, 20_000),
            [65519.99, 65520.0, 65536.0, 1e300, 5e-324, 2.0**-25, np.inf],
        ]
    )
    x = np.concatenate([x, -x, [np.nan]])
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([x, x.astype(np.float16).astype(np.float64)])


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> dict:
    halves = tmp_path_factory.mktemp("golden") / "halves.f64"
    halves.write_bytes(half_pairs().astype("<f8").tobytes())
    numbers = np.concatenate(
        [10 ** np.random.default_rng(1).uniform(-13, 13, 500), np.arange(0, 9, 0.125)]
    )
    numbers = [*numbers.tolist(), *(-numbers).tolist(), math.nan, math.inf, -math.inf]
    traits = EpsilonExplorer.class_traits()
    names = ("eps", "spread")
    return {
        "pattern": list(PATTERN),
        "defaults": {name: traits[name].default_value for name in names},
        "limits": {name: [traits[name].low, traits[name].high] for name in names},
        "cases": [golden_case(eps, spread) for eps in EPS for spread in SPREADS],
        "numbers": [[plain(x), number(x)] for x in numbers],
        "halves": str(halves),
    }


def test_javascript(run_js, golden):
    run_js("epsilon", golden)


def test_the_picture_draws_the_curves_of_its_eps_with_their_names() -> None:
    figure = EpsilonExplorer(eps=1e-4).picture()
    variance, _, gradient = figure.axes
    half = [  # where each curve crosses ½ and ¼, from Var = σ²/(σ²+ε) and (σ/(σ+ε))²
        np.interp(level, line.get_ydata(), line.get_xdata())
        for level, line in ((0.5, variance.lines[0]), (0.25, variance.lines[2]))
    ]
    assert half == pytest.approx([1e-2, 1e-4], rel=0.05)
    assert gradient.lines[0].get_ydata()[0] == pytest.approx(1e2, rel=1e-2)
    assert gradient.lines[2].get_ydata()[0] == pytest.approx(1e4, rel=1e-2)
    legend = variance.get_legend()
    handles, texts = legend.legend_handles, legend.get_texts()
    names = {h.get_color(): t.get_text() for h, t in zip(handles, texts, strict=True)}
    assert names[epsilon.BLUE].startswith("√(σ² + ε), PyTorch")
    assert names[epsilon.VERMILLION] == "σ + ε"


def test_the_handles_are_moved_by_keys(reader) -> None:
    explorer = reader().alone(EpsilonExplorer())
    fields = {"σ": "Spread σ (units of x)", "ε": "Constant ε (units of x²)"}
    for handle, key, end in (
        ("σ", "ArrowRight", 1e-3 * 10**0.05),
        ("σ", "ArrowDown", 1e-3),
        ("σ", "Home", 0),
        ("σ", "ArrowLeft", 0),
        ("σ", "ArrowRight", 1e-7),
        ("σ", "ArrowRight", 1e-7 * 10**0.05),
        ("ε", "ArrowRight", 1e-8 * 10**0.05),
        ("ε", "Shift+ArrowLeft", 1e-8 * 10**-0.45),
        ("ε", "End", 1),
        ("ε", "ArrowRight", 1),
    ):
        explorer.locator(f".ln-handle[aria-label*='{handle}']").press(key)
        shown = explorer.get_by_label(f"{fields[handle]}, as a number").input_value()
        assert float(shown) == pytest.approx(end, rel=2e-3), (handle, key)


@pytest.mark.parametrize("width", [390, 900])
def test_the_pictures_agree_about_what_float16_gives(reader, width) -> None:
    explorer = reader(viewport={"width": width, "height": 900}).alone(EpsilonExplorer())
    for start, values in (("0 ÷ 0", "NaN"), ("σ² = 4e-9, ε = 1e-8", "±∞")):
        explorer.get_by_role("button", name=start).click()
        variance, strip, _ = explorer.locator(".ln-chart svg").all()
        assert strip.locator(".ln-wreck").all_text_contents()[-1] == f"all 8 values are {values}"
        name = variance.locator(".ln-text.ln-green").first.text_content()
        assert re.fullmatch("float16 divides by 0|float16: ÷ 0", name)
