"""The numbers of chapter 16, and what computes them."""

import torch

from ties import Page

page = Page("16_choosing_a_norm")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

# quantization
LARGEST = code("v.abs().max() / #")  # steps to each side of 0
tie("To compute in # bits", lambda: (2 * LARGEST() + 1).bit_length())
tie("of a tensor to one of # that", lambda: 2 * LARGEST() + 1)
tie("| #-bit integers |", lambda: (2 * LARGEST() + 1).bit_length())
tie("a half type: in # bits it loses", lambda: (2 * LARGEST() + 1).bit_length())
tie("are rounded to # bits, each", lambda: (2 * LARGEST() + 1).bit_length())
tie("In a layer of # features with", code("gamma, W = torch.ones(#)"))

# exercises
IMAGE = code("image = # * 7"), code("image = 5 * #")
tie("with # channels and # by # pixels", code("8 * image, # * image"), *IMAGE)
tie("A batch has # images", code("([# * image, 6"))
OF_A_GROUP = code("6 * image, 6, # * image")
tie("group norm with # groups", lambda: code("8 * image, # * image")() / OF_A_GROUP())

# the table
gate = torch.nn.init.zeros_(torch.empty(1)).item()  # as DiT starts it
tie("with gates that start at # |", gate)
free("*Reported:* # % faster", why="what a paper reports")
tie("| #-bit floats |", torch.finfo(torch.bfloat16).bits)

free("Takeaways #. Batch", "in training. #. At", "quantization. #. Before", why="of a list")
