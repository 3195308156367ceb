"""No address reaches C++ but that of numbers as it expects them, one behind the other on a CPU."""

import pytest
import torch
from torch import nn

from lnlib.cpp_kernel import address, dense

X = torch.arange(12.0).view(3, 4)


def freed(bytes_left: int) -> torch.Tensor:
    copy = X.clone()
    copy.untyped_storage().resize_(bytes_left)
    return copy


class Labeled(torch.Tensor):
    """A subclass that overrides nothing."""


@pytest.mark.parametrize("tensor", [X, nn.Parameter(X), X[1:], torch.zeros(0, 4), X.view(12)[4:]])
def test_it_is_where_the_first_number_is(tensor):
    found = address(tensor, torch.float32, tensor.shape)
    assert found == (tensor.data_ptr() if tensor.numel() else None)


@pytest.mark.parametrize(
    "tensor",
    {
        "another dtype": X.double(),
        "another shape of as many numbers": X.view(4, 3),
        "fewer numbers": X[:2],
        "on another device": X.to("meta"),
        "columns first": X.T.contiguous().T,
        "every other row": X.repeat_interleave(2, 0)[::2],
        "one row, repeated": X[:1].expand(3, 4),
        "of the other sign": torch._neg_view(X),
        "of a subclass": X.as_subclass(Labeled),
        "functional": torch._to_functional_tensor(X),
        "zeros that are nowhere": torch._efficientzerotensor(3, 4),
        "without memory": freed(0),
        "with too little memory": freed(47),
        "sparse": X.to_sparse(),
    }.values(),
    ids=lambda tensor: None,
)
def test_anything_else_is_refused(tensor):
    with pytest.raises(
        RuntimeError, match=r"expected torch\.float32 of shape \(3, 4\)|a storage of"
    ):
        address(tensor, torch.float32, (3, 4))


@pytest.mark.parametrize("tensor", [X.T, X[:, ::2], torch._neg_view(X), X[:1].expand(3, 4)])
def test_what_is_not_dense_can_be_made_so(tensor):
    made = dense(tensor)
    assert address(made, torch.float32, tensor.shape) == made.data_ptr()
    assert torch.equal(made, tensor)
