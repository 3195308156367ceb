"""Each LSTM with layer norm that is in use, from its published equations, in NumPy and float64.

At least seven different functions bear the name. A cell here is a function of its own parameters,
in its own order of gates; `as_cell_has_them` makes them from ours. N is
what normalizes, without γ and β.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lnlib.lstm.formula import Weights

EPS = 1e-5
Cell = Callable[..., tuple[Any, Any]]


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def N(a: Any) -> Any:
    centered = a - a.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + EPS)


def N_per_gate(a: Any) -> Any:
    return np.concatenate([N(gate) for gate in np.split(a, 4, axis=-1)], axis=-1)


def paper(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Ba, Kiros, Hinton 2016, eq. 20 to 22, with the bias of each layer norm and b."""
    a = (p.gamma_h * N(h @ p.W_h.T) + p.beta_h) + (p.gamma_x * N(x @ p.W_x.T) + p.beta_x) + p.b
    f, i, o, g = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def haste(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """lmnt-com/haste, LayerNormLSTM: one bias, another order."""
    a = p.gamma_x * N(x @ p.W_x.T) + p.gamma_h * N(h @ p.W_h.T) + p.b
    i, g, f, o = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def custom_lstms(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """PyTorch, benchmarks/fastrnns/custom_lstms.py, LayerNormLSTMCell: norms with biases."""
    a = (p.gamma_x * N(x @ p.W_x.T) + p.beta_x + p.b) + (p.gamma_h * N(h @ p.W_h.T) + p.beta_h)
    i, f, g, o = np.split(a, 4, axis=-1)
    c = p.gamma_c * N(sigmoid(f) * c + sigmoid(i) * np.tanh(g)) + p.beta_c
    return sigmoid(o) * np.tanh(c), c


def addons(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """TensorFlow Addons, LayerNormLSTMCell: kernel_norm, recurrent_norm, bias, state_norm."""
    kernel_norm = p.gamma_x * N(x @ p.W_x.T) + p.beta_x
    recurrent_norm = p.gamma_h * N(h @ p.W_h.T) + p.beta_h
    i, f, g, o = np.split(kernel_norm + recurrent_norm + p.b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    c = p.gamma_c * N(c) + p.beta_c
    return sigmoid(o) * np.tanh(c), c


def authors(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """ryankiros/layer-norm, lnlstm_layer: b is inside of the input's norm, and outside again."""
    a = p.gamma_x * N(x @ p.W_x.T + p.b) + p.gamma_h * N(h @ p.W_h.T) + p.b
    i, f, o, g = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def draw(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The paper's DRAW model, eq. 29 to 31: the cell is normalized, the gates are not."""
    f, i, o, g = np.split(h @ p.W_h.T + x @ p.W_x.T + p.b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def labml(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """labml, LSTMCell(layer_norm=True): each gate's sum on its own; the raw cell goes on."""
    a = p.gamma_x * N_per_gate(h @ p.W_h.T + x @ p.W_x.T + p.b) + p.beta_x
    i, f, g, o = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def icefall(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """k2-fsa/icefall, transducer/rnn.py: each gate's sum; the normalized cell goes on."""
    a = p.gamma_x * N_per_gate(x @ p.W_x.T + p.b + h @ p.W_h.T) + p.beta_x
    i, f, g, o = np.split(a, 4, axis=-1)
    c = p.gamma_c * N(sigmoid(f) * c + sigmoid(i) * np.tanh(g)) + p.beta_c
    return sigmoid(o) * np.tanh(c), c


def contrib(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """tf.contrib, LayerNormBasicLSTMCell: likewise, but no bias in front of the norm."""
    joint = np.concatenate([x, h], axis=-1) @ np.concatenate([p.W_x, p.W_h], axis=-1).T
    i, j, f, o = np.split(p.gamma_x * N_per_gate(joint) + p.b, 4, axis=-1)
    c = p.gamma_c * N(sigmoid(f) * c + sigmoid(i) * np.tanh(j)) + p.beta_c
    return sigmoid(o) * np.tanh(c), c


def sonnet(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Sonnet 1, LSTM(use_layer_norm=True): one norm of the whole sum, none of the cell."""
    joint = np.concatenate([x, h], axis=-1) @ np.concatenate([p.W_x, p.W_h], axis=-1).T
    i, j, f, o = np.split(p.gamma_x * N(joint) + p.b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), c


def di_engine(p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """opendilab/DI-engine, LSTM(norm_type="LN"): the two norms of the gates, none of the cell."""
    a = p.gamma_x * N(x @ p.W_x.T) + p.gamma_h * N(h @ p.W_h.T) + p.b
    i, f, o, u = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
    return sigmoid(o) * np.tanh(c), c


# Each with the order in which it has the gates: i, f, o, and g for the candidate.
ORDERS: dict[Cell, str] = {
    **{paper: "fiog", haste: "igfo", custom_lstms: "ifgo", addons: "ifgo"},
    **{authors: "ifog", draw: "fiog", labml: "ifgo", icefall: "ifgo"},
    **{contrib: "igfo", sonnet: "igfo", di_engine: "ifog"},
}
SAME_AS = {"raw": (paper, haste), "normalized": (custom_lstms, addons)}


def as_cell_has_them(weights: Weights, order: str) -> SimpleNamespace:
    """Return our parameters with the blocks of the gates in ``order``; biases of norms are 0."""
    ih, hh, bias, norm_ih, norm_hh, norm_c, norm_c_bias = (
        None if tensor is None else tensor.detach().double().numpy() for tensor in weights
    )

    def ordered(array: Any) -> Any:
        i, f, g, o = np.split(array, 4)
        blocks = {"i": i, "f": f, "g": g, "o": o}
        return np.concatenate([blocks[gate] for gate in order])

    return SimpleNamespace(
        W_x=ordered(ih),
        W_h=ordered(hh),
        b=np.zeros(len(ih)) if bias is None else ordered(bias),
        gamma_x=ordered(norm_ih),
        gamma_h=ordered(norm_hh),
        beta_x=np.zeros(len(ih)),
        beta_h=np.zeros(len(ih)),
        gamma_c=norm_c,
        beta_c=np.zeros_like(norm_c) if norm_c_bias is None else norm_c_bias,
    )


def run(cell: Cell, p: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
    """Return the outputs ``(T, B, H)`` of ``cell`` over ``x`` ``(T, B, I)``, and its last state."""
    outputs = []
    for x_t in x:
        h, c = cell(p, x_t, h, c)
        outputs.append(h)
    return np.stack(outputs), h, c


def weights_of_pytorch(theirs: nn.LSTM, suffix: str = "_l0") -> Weights:
    """Return what makes our equations, with normalization off, those of ``theirs``."""
    ih, hh, b_ih, b_hh = (
        getattr(theirs, name + suffix).detach()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    gammas, size = torch.ones_like(b_ih), hh.shape[1]
    return Weights(
        ih, hh, b_ih + b_hh, gammas, gammas, gammas[:size], torch.zeros_like(gammas[:size])
    )


def to_pytorch(weights: Weights, theirs: nn.LSTM, suffix: str = "_l0") -> None:
    """Load our weights into ``theirs``, which has two biases for our one."""
    bias = torch.zeros(len(weights.ih)) if weights.bias is None else weights.bias
    with torch.no_grad():
        getattr(theirs, f"weight_ih{suffix}").copy_(weights.ih)
        getattr(theirs, f"weight_hh{suffix}").copy_(weights.hh)
        getattr(theirs, f"bias_ih{suffix}").copy_(bias)
        getattr(theirs, f"bias_hh{suffix}").zero_()


def numpy(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().double().numpy() for tensor in tensors]
