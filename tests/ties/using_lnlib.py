"""The numbers of the page on using lnlib, and what computes them."""

from ties import Page

page = Page("using_lnlib")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

LAYERS = code("nn.TransformerEncoder(layer, #).double()")
CALLS = code("calls(model, x), equals=#)\nsaid")
tie("`nn.TransformerEncoder` with # layers", LAYERS)
tie("calls none of the # modules", CALLS)
tie("the counter says #.)", code("calls(other, x), equals=#)"))
tie("with a mean of #, the result", code("torch.randn(4, 768) + #  # rows"))
tie("PyTorch's encoder of # layers", LAYERS)
tie("it calls its norms # times", CALLS)
tie("and the # calls are back", CALLS)
tie("here to $@$ in float32", bound("auto agrees with the formula"))
free("`fully_shard` (FSDP#)", why="a name")
free("from opset # on", why="a version of ONNX")
free(
    "Takeaways #. `lnlib",
    "the same parameters. #. Before",
    "without gradients. #. Leave",
    why="of a list",
)
