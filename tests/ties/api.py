"""The numbers of the page on the API, and what computes them."""

import torch

import lnlib
from lnlib.book import data
from lnlib.lstm import triton_steps
from ties import Page

page = Page("api")
tie, free = page.tie, page.free

# The LSTM
lstm = lnlib.LayerNormLSTM(3, 8)
zeros = torch.zeros(2, 1, 3)
h, c = lnlib.LayerNormLSTM(3, 8, bias=False)(zeros)[1]
free("eq. # to # of {cite", why="equations of the paper")
tie("a bias of #, states of # and an input of #, each", h.abs().max(), c.abs().max(), zeros.max())


def slope() -> float:
    """Return how much a nudge of the candidates changes the cell where all sums are 0."""

    def cell(nudge: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.tensor(0.0)) * torch.tanh(nudge)

    gate = torch.autograd.functional.jacobian(cell, torch.tensor(0.0)).item()
    shown = torch.sigmoid(torch.tensor(0.0)).item()
    return gate * shown / lstm.eps  # through both norms, each of which divides by √ε


tie(r"multiplies the gradient by $@$ and by weights", slope, epsilon=lstm.eps)
tie("do not feed it rows of #", zeros.max())
tie("for up to # features; it has not been timed", triton_steps.MOST)
ROWS = data.mnist().train_images.shape[1]
tie("digits of # rows train", ROWS)
tie("ten-thousandfold over # rows of zeros", ROWS)
