import base64
import io
import json
import math
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
import traitlets
from PIL import Image

from lnlib import formula
from lnlib.book.explorers import EpsilonExplorer, Explorer, TraitValueError, base, epsilon
from lnlib.book.explorers.base import join_modules, number
from lnlib.book.explorers.epsilon import PATTERN

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "lnlib" / "book" / "explorers"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

EPS = [1e-12, 1e-10, 1e-8, 2.9e-8, 3e-8, 1e-7, 1e-5, 1e-3, 0.37, 1.0]
SPREADS = [0.0, 1e-7, 1e-6, 6.3245553e-5, 1.7e-4, 2.5e-4, 4.1e-4, 1e-3, 0.0123, 0.37, 1.0, 10.0]


# --- traits --------------------------------------------------------------------------------------


def test_defaults_are_pytorchs_eps_and_a_row_that_it_flattens():
    explorer = EpsilonExplorer()
    assert explorer.eps == torch.nn.LayerNorm(8).eps == 1e-5
    assert explorer.spread == 1e-3
    assert explorer.spread**2 < explorer.eps


@pytest.mark.parametrize(
    ("trait", "value"),
    [
        *[("eps", v) for v in (1e-12, 1, np.float32(0.25))],
        *[("spread", v) for v in (0, -0.0, 1e-7, 10, np.float64(0.5))],
    ],
)
def test_values_in_range_are_kept_as_floats(trait, value):
    explorer = EpsilonExplorer(**{trait: value})
    assert getattr(explorer, trait) == value
    assert type(getattr(explorer, trait)) is float


REFUSED = [
    *[("eps", v) for v in (0, 9e-13, 1.1, -1e-5, math.nan, math.inf, "1e-5", None, True, [1e-5])],
    *[("eps", 1j), ("eps", torch.tensor(1e-5))],
    *[("spread", v) for v in (9e-8, 10.1, -1.0, math.nan, -math.inf, "0", None, False)],
]


@pytest.mark.parametrize(("trait", "value"), REFUSED)
@pytest.mark.parametrize("kind", [traitlets.TraitError, ValueError, TraitValueError])
def test_a_refused_value_changes_nothing_and_says_what_to_do(trait, value, kind):
    explorer = EpsilonExplorer(eps=1e-3, spread=0.5)
    heard = []
    explorer.observe(heard.append)
    with pytest.raises(kind, match=re.escape(f"got {value!r}")) as caught:
        setattr(explorer, trait, value)
    low, high = ("1e-12", "1") if trait == "eps" else ("1e-7", "10")
    assert f"{trait} must be a number from {low} to {high}" in str(caught.value)
    assert f"Try {trait} = " in str(caught.value)
    assert (explorer.eps, explorer.spread, heard) == (1e-3, 0.5, [])


def test_the_constructor_refuses_too():
    with pytest.raises(ValueError, match="eps must be"):
        EpsilonExplorer(eps=2)


def test_a_value_from_the_page_is_checked_too():
    explorer = EpsilonExplorer()
    with pytest.raises(ValueError, match="spread must be"):
        explorer.set_state({"spread": 1e-9})
    explorer.set_state({"eps": 1, "spread": 0})
    assert (explorer.eps, explorer.spread) == (1.0, 0.0)


def test_setting_a_trait_is_observed_and_is_in_the_state_sent_to_the_page():
    explorer = EpsilonExplorer()
    seen = []
    explorer.observe(lambda change: seen.append((change.old, change.new)), "eps")
    explorer.eps = 1e-3
    assert seen == [(1e-5, 1e-3)]
    assert explorer.get_state()["eps"] == 1e-3


# --- what stands in for the widget ---------------------------------------------------------------


def test_mimebundle_has_the_widget_a_small_white_png_and_the_sentence():
    explorer = EpsilonExplorer()
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {WIDGET_MIME, "image/png", "text/plain"}
    assert data[WIDGET_MIME]["model_id"] == explorer.model_id
    assert data["text/plain"] == explorer.sentence()
    png = base64.b64decode(data["image/png"], validate=True)
    assert len(png) < 40_000
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width == 640
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


def test_picture_follows_the_traits_but_not_rcparams():
    first = EpsilonExplorer().png()
    assert first == EpsilonExplorer().png()
    assert first != EpsilonExplorer(spread=0.1).png()
    with matplotlib.rc_context(
        {"figure.facecolor": "black", "font.size": 30, "lines.linewidth": 9}
    ):
        assert first == EpsilonExplorer().png()


@pytest.mark.parametrize("eps", [1e-12, 1e-8, 1.0])
@pytest.mark.parametrize("spread", [0.0, 1e-7, 10.0])
def test_picture_can_be_drawn_at_every_edge(eps, spread):
    assert len(EpsilonExplorer(eps=eps, spread=spread).png()) < 40_000


def test_sentence_tells_the_numbers():
    told = EpsilonExplorer().sentence()
    assert told.startswith("With σ = 0.001 and ε = 1e-5, PyTorch’s √(σ² + ε) gives")
    for part in ("output variance 0.0909", "up to 302;", "output variance 0.98 and", "up to 990"):
        assert part in told
    assert "0x" not in told


def test_sentence_tells_of_float16_dividing_by_zero():
    nan = EpsilonExplorer(eps=1e-8, spread=0).sentence()
    assert "constant row (σ = 0)" in nan
    assert "all 8 values are NaN" in nan
    assert "all 8 values are ±∞" in EpsilonExplorer(eps=1e-8, spread=6.3e-5).sentence()


@pytest.mark.parametrize(
    ("x", "words"),
    [
        *[(0.0, "0"), (-0.0, "0"), (1.0, "1"), (1e-5, "1e-5"), (1e4, "10000"), (1e12, "1e12")],
        *[(0.0909091, "0.0909"), (316.2278, "316"), (1.125, "1.13"), (-0.25, "−0.25")],
        *[(9.9999e-4, "0.001"), (9.994e-4, "9.99e-4"), (99999.0, "1e5"), (-3e-9, "−3e-9")],
        *[(math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "NaN")],
    ],
)
def test_number_writes_three_digits(x, words):
    assert number(x) == words


def test_pattern_has_mean_zero_and_biased_variance_one_exactly():
    terms = formula.terms(torch.tensor(PATTERN, dtype=torch.float64))
    assert terms.mean.item() == 0
    assert terms.var.item() == 1


# --- files ---------------------------------------------------------------------------------------


def test_joined_module_has_no_import_and_no_export_named_render():
    esm = str(EpsilonExplorer._esm)
    assert not re.search(r"^\s*import\b", esm, re.MULTILINE)
    assert not re.search(r"export\s+(async\s+)?(function|const|let|class)\s+render\b", esm)
    assert esm.count("export default") == 1
    assert "</script" not in esm
    for name in ("common.mjs", "epsilon_charts.mjs"):
        body = (FOLDER / name).read_text(encoding="utf-8").splitlines()[-2]
        assert esm.count("export function linePath") == 1
        assert body in esm


def test_sheets_are_joined_common_first():
    css = str(EpsilonExplorer._css)
    assert css.index(".ln-explorer {") < css.index(".ln-epsilon")
    assert EpsilonExplorer().get_state()["_css"] == css


def test_a_form_of_import_that_cannot_be_joined_is_refused(tmp_path):
    (tmp_path / "a.mjs").write_text('import * as common from "./common.mjs";\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"got import \* as common"):
        join_modules(tmp_path / "a.mjs")


def test_a_file_imported_twice_is_joined_once(tmp_path):
    for name, text in {
        "a.mjs": 'import { b } from "./b.mjs";\nimport { c } from "./c.mjs";\nexport default b;\n',
        "b.mjs": 'import { c } from "./c.mjs";\nexport const b = c;\n',
        "c.mjs": "export const c = 1;\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    joined = join_modules(tmp_path / "a.mjs")
    assert joined == "export const c = 1;\nexport const b = c;\nexport default b;\n"


def test_every_file_an_explorer_reads_is_in_the_wheel():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = config["tool"]["setuptools"]["package-data"]["lnlib.book.explorers"]
    for path in FOLDER.iterdir():
        if path.is_file() and path.suffix != ".py":
            assert any(path.match(pattern) for pattern in patterns), path.name


def test_an_explorer_weighs_less_than_60_kb():
    state = json.dumps({k: v for k, v in EpsilonExplorer().get_state().items() if k != "layout"})
    mount = ROOT / "book" / "assets" / "explorers.js"
    assert len(state.encode()) + mount.stat().st_size < 60_000


def test_explorer_asks_for_picture_and_sentence():
    class Empty(Explorer):
        _esm = "export default {}"

    for method in ("picture", "sentence"):
        with pytest.raises(NotImplementedError):
            getattr(Empty(), method)()


def luminance(color: str) -> float:
    if len(color) == 4:
        color = "#" + "".join(2 * c for c in color[1:])
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_have_contrast(theme):
    blocks = re.findall(r"\{([^}]*--ln-bg[^}]*)\}", str(EpsilonExplorer._css))
    light, dark = (dict(re.findall(r"--ln-([a-z-]+): (#[0-9a-f]+)", block)) for block in blocks[:2])
    colors = light if theme == "light" else {**light, **dark}
    for name in ("fg", "muted", "blue-text", "vermillion-text", "green-text", "moved"):
        assert contrast(colors[name], colors["bg"]) >= 4.5, name  # text
    assert contrast(colors["fg"], colors["control"]) >= 4.5
    assert contrast(colors["on-moved"], colors["moved"]) >= 4.5
    for name in ("axis", "blue", "vermillion", "green"):
        assert contrast(colors[name], colors["bg"]) >= 3, name  # graphics


# --- the page's arithmetic -----------------------------------------------------------------------


def plain(x: float) -> float | str:
    """What JSON cannot hold becomes a string that JavaScript's Number reads."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return "-0" if x == 0 and math.copysign(1, x) < 0 else x


def jacobian_norm(x: torch.Tensor, eps: float, convention: str) -> float:
    def x_hat(values):
        return formula.terms(values, eps=eps, eps_added_to=convention).x_hat

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
        x_hat = formula.terms(x, eps=eps, eps_added_to=convention).x_hat
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
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed: the explorers' JavaScript is not tested")
    return found


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    (folder / "halves.f64").write_bytes(half_pairs().astype("<f8").tobytes())
    numbers = np.concatenate(
        [10 ** np.random.default_rng(1).uniform(-13, 13, 500), np.arange(0, 9, 0.125)]
    )
    numbers = [*numbers.tolist(), *(-numbers).tolist(), math.nan, math.inf, -math.inf]
    traits = EpsilonExplorer.class_traits()
    names = ("eps", "spread")
    golden = {
        "pattern": list(PATTERN),
        "defaults": {name: traits[name].default_value for name in names},
        "limits": {name: [traits[name].low, traits[name].high] for name in names},
        "cases": [golden_case(eps, spread) for eps in EPS for spread in SPREADS],
        "numbers": [[plain(x), number(x)] for x in numbers],
        "halves": str(folder / "halves.f64"),
    }
    path = folder / "epsilon.json"
    path.write_text(json.dumps(golden, allow_nan=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["epsilon", "mount"])
def test_javascript(node, golden, name):
    """Run tests/js/NAME.test.mjs: all of its tests, and none skipped."""
    path = ROOT / "tests" / "js" / f"{name}.test.mjs"
    result = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(path)],
        env={**os.environ, "LN_GOLDEN": str(golden)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    counts = dict(re.findall(r"^# (pass|fail|skipped) (\d+)$", result.stdout, re.MULTILINE))
    assert counts["fail"] == counts["skipped"] == "0"
    assert int(counts["pass"]) >= 10


def test_joined_module_loads_and_exports_what_the_files_do(node, tmp_path):
    path = tmp_path / "explorer.mjs"
    path.write_text(str(EpsilonExplorer._esm), encoding="utf-8")
    program = (
        f"import * as m from {json.dumps(path.as_uri())};"
        "console.log(JSON.stringify([typeof m.default.render, ...Object.keys(m)]));"
    )
    result = subprocess.run(
        [node, "--input-type=module", "-e", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    kind, *names = json.loads(result.stdout)
    assert kind == "function"
    assert "render" not in names
    assert {"normalize", "normalizeHalf", "outputVariance", "gradientSize", "row", "toHalf"} <= set(
        names
    )
    assert base.HERE == FOLDER


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
