"""The numbers of chapter 12, and what computes them."""

from math import sqrt

import torch

from lnlib import closed_form
from lnlib.book.exercises import chapter_12 as exercises
from lnlib.book.records import tables
from ties import Page

page = Page("12_in_production")
tie, free, code, bound = page.tie, page.free, page.code, page.bound

largest = torch.finfo(torch.float16).max
spread, mean = code("half = # * torch"), code("far = # + torch")

tie("with a spread of #. What", spread)
tie("A float16 number ends at #, and", largest)
tie("and $#$ is #. So the variance", lambda: spread() ** 2, lambda: spread() ** 2)
with_infinity = torch.tensor([torch.inf])
tie("`rstd` is #, and so is", with_infinity.rsqrt().item())
tie("Float32 rows around # lose", mean)
tie("hold the square of #. So", spread)
tie("On float32 rows around # its $dx$ is more than a hundred", mean)
tie("On float32 rows around # its $dx$ is more than ten", mean)

# Where the time of a call goes

(DRAWN,) = {
    (int(row["rows"]), int(row["features"]))
    for row in tables.rows_of(tables.RESULTS / "tricks.csv")
    if row["features"] == "4096"
}
tie("one pass over # rows of # float# numbers", *DRAWN, torch.finfo(torch.float32).bits)
SAME = [r for r in tables.rows_of(tables.RESULTS / "tricks.csv") if r["kernel"] == "as it is"]
tie("with a line at #. A copy lies", max(float(row["over_kernel"]) for row in SAME))

# Takeaways, exercises and fine print

free("Takeaways #. Compute", "three digits. #. A handwritten", "choose. #. What", why="numbers")
tie("all below # in size, not", exercises.LARGEST)
centered = torch.tensor([1.5, -0.5, -0.5, -0.5]).half() * 290
x_hat = centered * centered.square().mean().rsqrt()
tie("its $\\hat x$ is #. ", x_hat.abs().max().item())
tie(r"larger than $\sqrt{#}\approx #$.", largest, sqrt(largest))
tie(
    "mean: # and three times −# will",
    code("break_half([#, -290"),
    code("break_half([290, -290, -290, -#]"),
)
tie("one block of about $#$ values", closed_form.BLOCK_ON_CPU)
