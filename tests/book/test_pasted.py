"""Code to paste: it runs exactly as it is printed, and imports torch and nothing of ours."""

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

from lnlib.book.home import ROOT


def to_paste(page: str) -> dict[str, Any]:
    """Return the cells of a page that are to be pasted, by their names."""
    cells = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells
    return {c.id: c for c in cells if "paste" in c.metadata.get("tags", [])}


CELLS = nbformat.read(ROOT / "notebooks" / "when_it_goes_wrong.ipynb", as_version=4).cells
BLOCKS = to_paste("when_it_goes_wrong")
OTHERS = ("02_epsilon", "03_gamma_beta", "06_autograd_function", "which_layer_norm")
LISTED = {**BLOCKS, **{name: cell for page in OTHERS for name, cell in to_paste(page).items()}}


@pytest.fixture(scope="module")
def reader_of_torch() -> Iterator[Nursery]:
    nursery = Nursery("pasted_cases")
    yield nursery
    nursery.close()


@pytest.fixture
def paste(reader_of_torch: Nursery, tmp_path: Path) -> Callable[[str], str]:
    """Run a block in a process of its own; return what it printed, to both streams."""
    return lambda source: reader_of_torch.run("paste", source, str(tmp_path))


@few("name", [*LISTED], 5)
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


# --- in ordinary use -----------------------------------------------------------------------------


def pasted(name: str) -> dict[str, Any]:
    own: dict[str, Any] = {}
    exec(LISTED[f"paste-{name}"].source, own)
    return own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (3, 2, 5), (0, 5)])
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


def test_logits_are_read_in_half_beyond_its_end_and_from_grouped_queries() -> None:
    logits = pasted("largest-logits")["largest_logits"]
    ones = torch.ones(1, 1, 1, 16, dtype=torch.float16)
    assert logits(100 * ones, 100 * ones) == [40000.0]  # q·k is 160,000
    assert logits(300 * ones, 300 * ones) == [360000.0]
    q, k = torch.randn(1, 8, 5, 16), torch.randn(1, 2, 5, 16)
    assert logits(q, k) == logits(q, k.repeat_interleave(4, 1))
    assert math.isnan(logits(torch.nan * q, k)[0])


def test_what_cannot_take_gamma_is_refused_before_anything_changes() -> None:
    one, tied = nn.Linear(8, 8), nn.Linear(8, 8)
    tied.weight = one.weight
    before = one.weight.clone()
    for readers in ((one, one), (one, tied), (one, nn.Conv1d(8, 8, 1))):
        with pytest.raises(AssertionError):
            pasted("fold")["fold"](nn.LayerNorm(8), *readers)
        assert (one.weight == before).all()


def test_operations_and_bytes_are_counted_with_views_and_several_outputs() -> None:
    traffic, x = pasted("traffic")["traffic"], torch.randn(6, 8)
    assert traffic(lambda x: x.exp() + 1, x) == (["exp.default", "add.Tensor"], 4 * x.nbytes)
    names, moved = traffic(lambda x: torch.std_mean(x, -1)[0], x)
    assert (len(names), moved) == (1, x.nbytes + 2 * 4 * 6)


def test_decay_leaves_out_norms_biases_and_their_kin_and_takes_no_parameter_twice() -> None:
    groups = pasted("spare")["groups"]
    model = nn.Sequential(nn.Embedding(9, 8), nn.LayerNorm((4, 2)), nn.Linear(8, 9), nn.RMSNorm(9))
    model[2].weight = model[0].weight
    decayed, spared = groups(model, 0.3)
    assert [p is model[0].weight for p in decayed["params"]] == [True]
    assert [tuple(p.shape) for p in spared["params"]] == [(4, 2), (4, 2), (9,), (9,)]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0)


def test_a_step_that_pulls_nothing_or_drops_its_gradients_is_measured() -> None:
    norm = nn.LayerNorm(8)
    norm(torch.ones(4, 8)).sum().backward()  # constant rows: dγ is 0
    sgd = torch.optim.SGD(norm.parameters(), 0.1)
    found = pasted("rounded-away")["rounded_away"](
        norm.parameters(), lambda: [sgd.step(), sgd.zero_grad()]
    )
    assert found == [None, 0.0]


def test_nan_on_both_sides_is_equal_and_a_constant_row_takes_no_epsilon(capsys: Any) -> None:
    compare, eps_range = pasted("compare")["compare"], pasted("eps")["eps_range"]
    capsys.readouterr()
    compare(lambda x: torch.nan * x, lambda x: torch.nan * x.numpy(), 8, torch.float16)
    assert capsys.readouterr().out.count("equal\n") == 4
    x = torch.tensor([[1.0, 2, 3], [5, 5, 5], [0, 0.3, 0.6]])
    assert eps_range(x, torch.float32)[1] == pytest.approx(0.06 / 100, rel=1e-6)


def test_the_recipe_for_rms_norms_is_two_blocks_that_need_torch_alone() -> None:
    cells = nbformat.read(ROOT / "notebooks" / "09_which_norm.ipynb", as_version=4).cells
    own: dict[str, Any] = {}
    for cell in (cell for cell in cells if cell.id in ("recipe-parts", "recipe")):
        exec(cell.source, own)
    model = nn.Sequential(nn.Embedding(7, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False)).double()
    for parameter in model[1].parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    right = model(torch.arange(7))
    own["to_rms"](model, [model[0]], {"1": [model[2]]})
    assert type(model[1]) is nn.RMSNorm
    torch.testing.assert_close(model(torch.arange(7)), right)
