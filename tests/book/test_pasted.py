"""Code to paste: it runs exactly as it is printed, where there is torch and nothing of ours."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import torch.nn.functional as F
from nursery import Nursery
from tiers import few
from torch import Tensor, nn

from lnlib import formula
from lnlib.book.home import ROOT


def to_paste(page: str) -> dict[str, Any]:
    """Return the cells of a page that are to be pasted, by their names."""
    cells = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells
    return {c.id: c for c in cells if "paste" in c.metadata.get("tags", [])}


CELLS = nbformat.read(ROOT / "notebooks" / "when_it_goes_wrong.ipynb", as_version=4).cells
BLOCKS = to_paste("when_it_goes_wrong")
OTHERS = ("02_epsilon", "03_gamma_beta", "06_autograd_function", "which_layer_norm")
LISTED = {**BLOCKS, **{name: cell for page in OTHERS for name, cell in to_paste(page).items()}}
few_listed = few("name", [*LISTED], 5)


@pytest.fixture(scope="module")
def reader_of_torch() -> Iterator[Nursery]:
    nursery = Nursery("pasted_cases")
    yield nursery
    nursery.close()


@pytest.fixture
def paste(reader_of_torch: Nursery, tmp_path: Path) -> Callable[[str], str]:
    """Run a block where there is torch alone; return what it printed, to both streams."""
    return lambda source: reader_of_torch.run("paste", source, str(tmp_path))


@few_listed
def test_a_block_runs_as_it_is_printed_and_prints_what_is_stored(name: str, paste: Any) -> None:
    stored = "".join(output.text for output in LISTED[name].outputs)
    assert stored.strip()
    assert paste(LISTED[name].source) == stored


def test_a_block_imports_torch_and_what_comes_with_python() -> None:
    for name, cell in LISTED.items():
        nodes = list(ast.walk(ast.parse(cell.source)))
        plain = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
        froms = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        tops = {each.partition(".")[0] for each in plain + froms}
        assert "torch" in tops, name
        assert tops - {"torch"} <= sys.stdlib_module_names, name


def test_a_reader_recognizes_a_block_in_the_page_and_in_jupyterlab() -> None:
    top = CELLS[0].source
    assert "“Code to paste”" in top or '"Code to paste"' in top
    assert "`# to paste`" in top
    for cell in BLOCKS.values():
        assert "hide-input" in cell.metadata.tags
        assert cell.metadata.mystnb.code_prompt_show.startswith("Code to paste")
        assert re.search(
            r"  # to paste: [^#]+\?$|  # to paste: [^#]+$", cell.source.splitlines()[0]
        )


def test_every_symptom_of_the_table_has_one_block_in_the_order_of_the_table() -> None:
    links = r"\| (?:\{ref\}`|\[[^\]]+\]\(#)([\w-]+)[`)] \|$"
    named = re.findall(links, CELLS[0].source, re.MULTILINE)
    assert len(named) == 18
    found, now = [], "before the first section"
    for cell in CELLS:
        if cell.cell_type == "markdown":
            for label in re.findall(r"^\(([\w-]+)\)=$|^## (Takeaways)$", cell.source, re.MULTILINE):
                now = next((each for each in label if each in [*named, "Takeaways"]), now)
        elif cell.id in BLOCKS:
            found.append(now)
    assert found == named


def without_import(source: str) -> str:
    return source.partition("\n")[2]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import lnlib", "a reader may not have lnlib"),
        ("from matplotlib import pyplot", "a reader may not have matplotlib"),
        (without_import(BLOCKS["paste-activity"].source), "name 'torch' is not defined"),
        ("import warnings\nwarnings.warn('of its own')", "UserWarning: of its own"),
    ],
)
def test_a_block_that_needs_more_or_warns_is_found(source: str, says: str, paste: Any) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        paste(source)


# --- in ordinary use -----------------------------------------------------------------------------


def pasted(name: str) -> dict[str, Any]:
    own: dict[str, Any] = {}
    exec(LISTED[f"paste-{name}"].source, own)
    return own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (3, 2, 5), (0, 5)])
def test_the_function_agrees_with_pytorch_in_every_type_and_for_a_row_alone(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    norm, eps = pasted("function")["LayerNorm"], 1e-3
    steep = 300 * torch.randn(shape)  # the squares overflow float16
    given = [t.to(dtype).requires_grad_() for t in (steep, torch.randn(5), torch.randn(5))]
    mine, theirs = norm.apply(*given, eps), F.layer_norm(given[0], (5,), *given[1:], eps)
    dy = torch.randn(shape).to(dtype)
    found = [(y, *torch.autograd.grad(y, given, dy)) for y in (mine, theirs)]
    within = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 16 * torch.finfo(dtype).eps}
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, **within)  # shapes and types as well


@pytest.mark.parametrize("place", range(3))
def test_the_function_saves_two_numbers_a_row_and_computes_only_what_is_asked_for(
    place: int,
) -> None:
    given = [torch.randn(s).double() for s in ((7, 5), (5,), (5,))]
    given[place].requires_grad_()
    dy = torch.randn(7, 5).double()
    y = pasted("function")["LayerNorm"].apply(*given, 1e-3)
    assert [t.numel() for t in y.grad_fn.saved_tensors] == [35, 5, 7, 7]
    found = y.grad_fn.apply(dy)
    assert [grad is not None for grad in found] == [n == place for n in range(3)] + [False]
    (right,) = torch.autograd.grad(F.layer_norm(given[0], (5,), *given[1:], 1e-3), given[place], dy)
    torch.testing.assert_close(found[place], right)


def test_the_function_is_imported_without_a_word_and_without_a_seed(capsys: Any) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    pasted("function")
    assert torch.equal(torch.get_rng_state(), before)
    assert capsys.readouterr().out == ""


class Keyword(nn.Module):
    """Takes its input by name, and has a module that is not registered."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm = [nn.Linear(8, 8)], nn.LayerNorm(8)

    def forward(self, *, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.norm(self.hidden[0](x))}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_the_first_module_is_found_by_name_in_a_list_and_in_half() -> None:
    first = pasted("first-nonfinite")["first_nonfinite"]
    assert first(Keyword(), x=torch.randn(2, 8)) is None
    model = Keyword().half()
    nn.init.ones_(model.hidden[0].half().weight)
    found, was_finite = first(model, x=torch.full((2, 8), 6e4).half())
    assert (found, was_finite) == (model.hidden[0], True)
    nested = torch.nested.nested_tensor([torch.ones(3, 8)], layout=torch.strided)
    assert first(nn.Identity(), nested) is None
    assert not nn.modules.module._has_any_global_hook()  # `torch.compile` would warn of one


def test_the_sum_of_squares_is_a_risk_where_no_square_is() -> None:
    x = 10 * torch.randn(4, 768, generator=torch.Generator().manual_seed(0))
    found = pasted("half-risks")["half_risks"](x.half())
    assert [name for name, value in found.items() if value in ("0", "inf")] == ["sum of squares"]
    assert (formula.layer_norm(x.half(), dtype=torch.float16) == 0).all()


def test_a_nan_gradient_is_traced_to_its_root_and_other_errors_are_not_hidden() -> None:
    first = pasted("first-nan-gradient")["first_nan_gradient"]
    row = torch.full((8,), 3.0, requires_grad=True)
    std = (row - row.mean()).square().mean().sqrt()
    assert first(std) == "SqrtBackward0"  # Pow returns the first NaN
    assert first((row - row).sqrt().sum()) == "SqrtBackward0"  # NaN only where ∞ − ∞ is added up
    assert first(nn.LayerNorm(8)(row).sum()) is None
    with pytest.raises(RuntimeError, match="scalar outputs"):
        first(nn.LayerNorm(8)(row))


def test_gauges_read_layer_norm_alone_and_over_all_its_axes() -> None:
    gauges = pasted("gauges")["gauges"]
    x = torch.zeros(2, 3, 8)
    x[:, 0] = 1.0  # constant along the last axis, not over both
    for norm in (nn.LayerNorm((3, 8)), nn.LayerNorm((3, 8), elementwise_affine=False)):
        read = gauges(norm.half(), x.half())
        assert read["smallest σ"].item() == pytest.approx(math.sqrt(2) / 3)
        assert float(read["largest |γ|"]) == 1
    for other in (nn.RMSNorm(8), nn.GroupNorm(1, 3)):
        with pytest.raises(AssertionError):
            gauges(other, x)


def test_logits_are_read_in_half_beyond_its_end_and_from_grouped_queries() -> None:
    logits = pasted("largest-logits")["largest_logits"]
    ones = torch.ones(1, 1, 1, 16, dtype=torch.float16)
    assert logits(100 * ones, 100 * ones) == [40000.0]  # q·k is 160,000
    assert logits(300 * ones, 300 * ones) == [360000.0]
    q, k = torch.randn(1, 8, 5, 16), torch.randn(1, 2, 5, 16)
    assert logits(q, k) == logits(q, k.repeat_interleave(4, 1))
    assert math.isnan(logits(torch.nan * q, k)[0])


def test_a_step_that_pulls_nothing_or_drops_its_gradients_is_measured() -> None:
    rounded_away = pasted("rounded-away")["rounded_away"]
    norm = nn.LayerNorm(8)
    norm(torch.ones(4, 8)).sum().backward()  # constant rows: dγ is 0
    sgd = torch.optim.SGD(norm.parameters(), 0.1)
    assert rounded_away(norm.parameters(), lambda: [sgd.step(), sgd.zero_grad()]) == [None, 0.0]


def test_drift_sees_a_nan_and_refuses_where_nothing_is_frozen() -> None:
    drift = pasted("frozen")["drift"]
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).requires_grad_(False)
    assert math.isnan(drift(model, lambda: model[1].weight.fill_(torch.nan)))
    with pytest.raises(AssertionError, match="nothing is frozen"):
        drift(nn.LayerNorm(8), lambda: None)


def test_the_size_in_training_is_measured_apart_from_beta_and_leaves_the_block_alone() -> None:
    ratio = pasted("dropout")["training_over_evaluation"]
    torch.manual_seed(0)
    norm, statistics = nn.LayerNorm(64), nn.BatchNorm1d(64)
    nn.init.constant_(norm.bias, 3.0)
    block = nn.Sequential(nn.Dropout(0.5), norm, statistics.eval())
    assert ratio(block, torch.randn(4000, 64)) == pytest.approx(math.sqrt(0.5), abs=0.02)
    assert (block.training, statistics.training) == (True, False)
    assert (statistics.running_mean == 0).all()
    assert ratio(block.half(), 400 * torch.randn(4000, 64).half()) < 0.75
    with pytest.raises(AssertionError):
        ratio(block.eval(), torch.randn(4, 64))


def test_padding_of_nan_leaks_and_a_mask_may_be_of_integers() -> None:
    leak = pasted("padding")["leak"]
    real = (torch.arange(8) < torch.tensor([[8], [5]])).long()
    for hole in (torch.nan, torch.inf):
        x = torch.randn(2, 8, 12).masked_fill(real[..., None] == 0, hole)
        assert leak(nn.LayerNorm(12), x, real) == 0
        assert leak(nn.LayerNorm((8, 12)), x, real) == math.inf


def test_compare_tells_a_small_difference_and_takes_numpy(capsys: Any) -> None:
    compare = pasted("compare")["compare"]
    capsys.readouterr()
    compare(lambda x: 0 * x, lambda x: 0 * x.numpy() + 0.03, 8, torch.float32)
    assert capsys.readouterr().out.count("off by 0.03\n") == 4
    compare(lambda x: torch.nan * x, lambda x: torch.nan * x, 8, torch.float16)
    assert capsys.readouterr().out.count("equal\n") == 4


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, True), (False, False)])
def test_gamma_and_beta_are_folded_with_biases_and_without(biases: tuple[bool, bool]) -> None:
    norm, reader = nn.LayerNorm(8, bias=biases[0]), nn.Linear(8, 4, bias=biases[1])
    for p in norm.parameters():
        nn.init.normal_(p)
    x = torch.randn(9, 8)
    before = reader(norm(x))
    pasted("fold")["fold"](norm, reader)
    torch.testing.assert_close(reader(norm(x)), before)
    assert (norm.weight == 1).all()


def test_what_cannot_take_gamma_is_refused_before_anything_changes() -> None:
    one, tied = nn.Linear(8, 8), nn.Linear(8, 8)
    tied.weight = one.weight
    before = one.weight.clone()
    for readers in ((one, one), (one, tied), (one, nn.Conv1d(8, 8, 1))):
        with pytest.raises(AssertionError):
            pasted("fold")["fold"](nn.LayerNorm(8), *readers)
        assert (one.weight == before).all()


def test_a_rows_size_tells_a_target_whatever_its_law_and_with_blank_rows() -> None:
    told = pasted("told")["told_by_size"]
    torch.manual_seed(0)
    power = torch.randn(500, 1)
    x = power.exp() * torch.randn(500, 40)
    x[:5] = 0
    for target in (power, x.std(-1), x.square().mean(-1)):
        assert told(x, target) > 0.95
    assert told(x.view(5, 100, 40), power.view(5, 100)) > 0.95
    offset = torch.randn(500, 1) + 0.01 * torch.randn(500, 40)
    assert told(offset, offset.mean(-1) ** 2) > 0.95
    assert told(x, torch.randn(500, 2)) < 0.05
    for too_few in ((x[:9], power[:9]), (x, torch.ones(500))):
        with pytest.raises(AssertionError):
            told(*too_few)


def test_dead_features_are_found_at_768_where_the_bound_finds_none() -> None:
    own: dict[str, Any] = {}
    exec(BLOCKS["paste-activity"].source, own)
    norm, bound = own["norm"], (768 - 1) ** 0.5
    assert norm.normalized_shape == (768,)
    dead = (own["active"] == 0).nonzero().flatten().tolist()
    assert [norm.bias[i].item() for i in dead] == [-6.0, -4.5]
    assert not (norm.bias < -bound * norm.weight.abs()).any()


def test_a_row_that_depends_on_its_batch_is_seen_and_one_that_does_not_is_left() -> None:
    alone, x = pasted("alone")["alone"], torch.randn(33, 257)
    assert alone(nn.LayerNorm(257), x) == 0
    assert alone(lambda x: x + 1e-3 * x.mean(0), x) > 1e-5
    assert alone(lambda x: x / x.abs().max(), x) > 0.1


def test_operations_and_bytes_are_counted_with_views_and_several_outputs() -> None:
    traffic, x = pasted("traffic")["traffic"], torch.randn(6, 8)
    assert traffic(lambda x: x.exp() + 1, x) == (["exp.default", "add.Tensor"], 4 * x.nbytes)
    names, moved = traffic(lambda x: torch.std_mean(x, -1)[0], x)
    assert (len(names), moved) == (1, x.nbytes + 2 * 4 * 6)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_the_norm_over_channels_is_layer_norm_of_each_pixel_and_keeps_the_memory(
    memory: torch.memory_format,
) -> None:
    norm = pasted("channels")["LayerNorm2d"](6)
    for p in norm.parameters():
        nn.init.normal_(p)
    x = torch.randn(3, 6, 4, 5).to(memory_format=memory)
    y, (weight, bias) = norm(x), norm.parameters()
    for n, i, j in ((0, 0, 0), (2, 3, 1)):
        torch.testing.assert_close(y[n, :, i, j], F.layer_norm(x[n, :, i, j], (6,), weight, bias))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert list(norm.state_dict()) == ["weight", "bias"]


def test_every_epsilon_of_the_range_is_kept_and_leaves_the_variances() -> None:
    eps_range = pasted("eps")["eps_range"]
    x = torch.tensor([[1.0, 2, 3], [5, 5, 5], [0, 0.3, 0.6]])  # the second is constant
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        least, most = eps_range(x, dtype)
        kept, gone = torch.tensor([least, least / 2.1], dtype=torch.float64).to(dtype)
        assert (kept.item(), gone.item()) == (least, 0)
        assert most == pytest.approx(0.06 / 100, rel=1e-6)


def test_decay_leaves_out_norms_biases_and_their_kin_and_takes_no_parameter_twice() -> None:
    groups = pasted("spare")["groups"]
    model = nn.Sequential(nn.Embedding(9, 8), nn.LayerNorm((4, 2)), nn.Linear(8, 9), nn.RMSNorm(9))
    model[2].weight = model[0].weight
    decayed, spared = groups(model, 0.3)
    assert [p is model[0].weight for p in decayed["params"]] == [True]
    assert [tuple(p.shape) for p in spared["params"]] == [(4, 2), (4, 2), (9,), (9,)]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0)
