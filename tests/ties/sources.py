"""The numbers of the page on the four sources, and what computes them."""

import torch
from torch.autograd.functional import jacobian

from lnlib.book import data
from lnlib.formula import layer_norm
from ties import Page

page = Page("sources")
tie, free = page.tie, page.free

tie("why nobody builds the tensor of order #", lambda: jacobian(layer_norm, torch.randn(2, 3)).ndim)
row = torch.tensor([0.001, 0.001, 0.0011, 0.0009, 0.001]).double()
tie("and the sum that is #", round(abs((row - row.mean()).sum().item()), 9))
tie("rows with a variance of #", row.var(correction=0))
free('"within # and #"', why="a quotation")
tie("sequential MNIST: # rows", lambda: data.mnist().train_images.shape[1])
