"""The numbers of the page on when not to use layer norm, and what computes them."""

import math

import torch
import torch.nn.functional as F

from lnlib import formula
from lnlib.book.data import mnist
from ties import Page

page = Page("when_not_to_use")
tie, free, code, found = page.tie, page.free, page.code, page.found
EPS = torch.nn.LayerNorm(8).eps
NAMES = {"H": 8.0, "C": 10.0, "sigma": 0.5, "epsilon": EPS}
ones = torch.nn.LayerNorm(8)
free("Takeaways #. ", "output. #. The", "is larger. #. Over", why="the places in a list")


def most(C: int) -> float:
    logits = torch.zeros(C).double()
    logits[0] = 1.0
    return formula.layer_norm(logits, eps=0.0).softmax(-1)[0].item()


best = formula.layer_norm(torch.eye(10)[0].double(), eps=0.0)
tie("as high as possible, $@$ by", best[0], **NAMES)
tie("when they are equal, $@$ each", best[1], **NAMES)
tie("It is # for two classes, lowest at seven, #, and # for", *map(most, (2, 7, 100)))
tie(
    r"for a hundred, at $\gamma = #$ and $\varepsilon = #$. With",
    ones.weight[0].item(),
    code("formula.layer_norm(z, eps=#)"),
)
tie("no answer is more than # % sure", 100 * most(10))
tie("the loss cannot fall below #. [✓]", -math.log(most(10)))
free("(its section #)", "suspects why (section #", why="sections of the paper")
tie("if one has # of the light", code("dim = formula.layer_norm(# * digits"))
rooms = code("torch.tensor([[#] * 4, ["), code("* 4, [#] * 4])")
tie("a room of #° and one of #°", *(lambda room=room: int(room()) for room in rooms))
pair = formula.layer_norm(torch.tensor([1.0, 3.0]), eps=0.0)
tie(r"$\hat x$ is # and the input is lost", formula.layer_norm(torch.tensor([3.0]))[0])
tie(r"$\varepsilon = #$ it is $\pm#$: you", code("y = formula.layer_norm(pairs, eps=#)"), pair[1])
tie(
    r"(with $\gamma = #$, $\beta = #$ and $\varepsilon = #$)",
    ones.weight[0].item(),
    ones.bias[0].item(),
    code("formula.layer_norm(z, eps=#)"),
)
reported = torch.tensor([0.09484422, 0.16441762])  # two numbers, with the ε of Keras
tie("between them, such as ±#, is", formula.layer_norm(reported, eps=1e-3)[1])
tie("The zeros of $H=#$ were", code("F.layer_norm(torch.randn(100, 1), (#,))"))
images = mnist().train_images
SIDE = images.shape[1]
tie(
    "over the whole picture, for # images. Notice that it was # in",
    code("train_images[:#, None]"),
    code('a corner is 0", maps[:, :, 0, 0], equals=#'),
)
tie("a map of # by # places", SIDE, images.shape[2])
tie(
    "is dark, near #, and the middle",
    lambda: round(found("border units are on in less than 2 % of the cases")(), 1),
)
torch.manual_seed(0)
maps = F.conv2d(images[:1000, None], torch.randn(8, 1, 3, 3) / 3, padding=1)
corner = F.layer_norm(maps, maps.shape[1:])[:, 0, 0, 0]
tie("along a line, below # throughout", math.ceil(corner.max()))
