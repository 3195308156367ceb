"""Chapter 09: batch or layer?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.book.exercises.base import Exercise, Search

rms_row = Exercise(
    "the row of RMS norm in table 1",
    truth=[True, False, False, True, False, True],
    slips={
        "that is layer norm's row; RMS norm does not subtract the mean": [
            *(True, True, False, True, False, True),
        ],
        "that is batch norm's row; whose statistics does RMS norm take?": [
            *(True, False, True, True, True, False),
        ],
        "that is weight norm's row; whose statistics does RMS norm take?": [
            *(True, False, True, False, False, False),
        ],
        "a factor of one sample is in its root mean square too": [
            *(True, False, False, True, False, False),
        ],
        "one neuron that grows is in the root mean square of all": [
            *(True, False, True, True, False, True),
        ],
        "a vector added to all samples changes each sum by another amount": [
            *(True, False, False, True, True, True),
        ],
    },
    ask="answer with six times True or False",
    why=(
        "RMS norm divides by one number for each sample, so it ignores a factor of the whole "
        "matrix, of the data or of one sample, and since it subtracts nothing, it notices every"
        " shift."
    ),
)


def _why_the_modes_agree(values: Tensor) -> str | None:
    if not bool((values.abs() <= 2).all()):
        return "each between −2 and 2, please"
    batch = values[:, None]
    stored = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    in_training = F.batch_norm(batch, None, None, training=True)
    in_use = F.batch_norm(batch, *stored)
    apart = float((in_training - in_use).abs().max())
    if apart < 3:
        return (
            f"they differ by {apart:.1f} at most; "
            "let three be equal and one a little off, all far from 0"
        )
    return None


break_modes = Search(
    "a batch of four that batch norm answers in two ways",
    wrong=_why_the_modes_agree,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "In training the batch's own small spread is divided out, so a small difference becomes"
        " a large one; at inference your values stay nearly as they are."
    ),
)
