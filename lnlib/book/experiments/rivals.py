"""What the layer-normalized LSTM is compared to: three recurrent layers in plain operations.

Each is called as `torch.nn.LSTM` is: input (T, B, I), output (T, B, H). Gates are in PyTorch's
order i, f, candidate, o. N is what normalizes, without γ and β.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["BatchNormLSTM", "LayerNormRNN", "NaiveLayerNormLSTM"]

State = tuple[Tensor, Tensor]


class NaiveLayerNormLSTM(nn.Module):
    """The cell as walkthroughs write it: three `torch.nn.LayerNorm`, called once for every step.

    v = LN(W_x x) + LN(W_h h);  c' = sigmoid(f) c + sigmoid(i) tanh(candidate);
    h' = sigmoid(o) tanh(LN(c'))

    Both biases of v are learned, although only their sum matters. The raw c' is carried.

    Args:
        input_size: I.
        hidden_size: H.
        eps: of the three norms.
    """

    def __init__(self, input_size: int, hidden_size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.project_x = nn.Linear(input_size, 4 * hidden_size, bias=False)
        self.project_h = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.norm_x = nn.LayerNorm(4 * hidden_size, eps)
        self.norm_h = nn.LayerNorm(4 * hidden_size, eps)
        self.norm_c = nn.LayerNorm(hidden_size, eps)
        for weight in (self.project_x.weight, self.project_h.weight):
            nn.init.uniform_(weight, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Run over (T, B, I); return the outputs (T, B, H) and the states h, c, each (1, B, H)."""
        h, c = _start(input, self.hidden_size, state)
        outputs = []
        for x in input:
            v = self.norm_x(self.project_x(x)) + self.norm_h(self.project_h(h))
            i, f, g, o = v.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * self.norm_c(c).tanh()
            outputs.append(h)
        return torch.stack(outputs), (h.unsqueeze(0), c.unsqueeze(0))


class BatchNormLSTM(nn.Module):
    """The recurrent batch normalization of Cooijmans et al. 2016, eq. 6 to 8.

    v = γ_h N(W_h h) + γ_x N(W_x x) + b;  c' = sigmoid(f) c + sigmoid(i) tanh(candidate);
    h' = sigmoid(o) tanh(γ_c N(c') + β_c)

    In training N takes mean and variance over the batch, at each step its own. In evaluation it
    takes the running averages of that step, of which the newest batch has a tenth, as in
    `torch.nn.BatchNorm1d`; a step beyond ``max_length`` takes the last ones. The γ of the three
    norms begin at 0.1, which Cooijmans et al. found to train, and 1 not to.

    Args:
        input_size: I.
        hidden_size: H.
        max_length: how many steps have statistics of their own.
        noise: standard deviation of the first h in training, if none is given. Without it all rows
            agree until their inputs differ, and a variance of 0 multiplies gradients by 1/√eps;
            noise is the cure of Cooijmans et al.

    Raises:
        ValueError: as PyTorch does, in training on a batch of one row, which has no variance.
    """

    def __init__(
        self, input_size: int, hidden_size: int, max_length: int, noise: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden_size, self.max_length, self.noise = hidden_size, max_length, noise
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(4 * hidden_size))
        for parameter in (self.weight_ih, self.weight_hh, self.bias):
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))
        self.norm_c_bias = nn.Parameter(torch.zeros(hidden_size))
        for name, size in (("ih", 4 * hidden_size), ("hh", 4 * hidden_size), ("c", hidden_size)):
            self.register_parameter(f"norm_{name}_weight", nn.Parameter(torch.full((size,), 0.1)))
            self.register_buffer(f"mean_{name}", torch.zeros(max_length, size))
            self.register_buffer(f"var_{name}", torch.ones(max_length, size))

    def forward(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Run over (T, B, I); return the outputs (T, B, H) and the states h, c, each (1, B, H)."""
        h, c = _start(input, self.hidden_size, state)
        if self.training and state is None:
            h = h + self.noise * torch.randn_like(h)
        outputs = []
        for step, x in enumerate(input):
            v = self._norm("hh", step, h @ self.weight_hh.T)
            v = v + self._norm("ih", step, x @ self.weight_ih.T) + self.bias
            i, f, g, o = v.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * (self._norm("c", step, c) + self.norm_c_bias).tanh()
            outputs.append(h)
        return torch.stack(outputs), (h.unsqueeze(0), c.unsqueeze(0))

    def _norm(self, name: str, step: int, a: Tensor) -> Tensor:
        step = min(step, self.max_length - 1)
        return F.batch_norm(
            a,
            self.get_buffer(f"mean_{name}")[step],
            self.get_buffer(f"var_{name}")[step],
            self.get_parameter(f"norm_{name}_weight"),
            training=self.training,
        )


class LayerNormRNN(nn.Module):
    """The plain recurrent network of Ba, Kiros, Hinton 2016, eq. 4: one norm of the summed input.

    h' = tanh(γ N(W_h h + W_x x) + β)

    Args:
        input_size: I.
        hidden_size: H.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.project_x = nn.Linear(input_size, hidden_size, bias=False)
        self.project_h = nn.Linear(hidden_size, hidden_size, bias=False)
        self.norm = nn.LayerNorm(hidden_size)
        for weight in (self.project_x.weight, self.project_h.weight, self.norm.bias):
            nn.init.uniform_(weight, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, input: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run over (T, B, I) from h (1, B, H); return the outputs (T, B, H) and the last h."""
        state = input.new_zeros(input.shape[1], self.hidden_size) if h is None else h[0]
        outputs = []
        for x in input:
            state = self.norm(self.project_h(state) + self.project_x(x)).tanh()
            outputs.append(state)
        return torch.stack(outputs), state.unsqueeze(0)


def _start(input: Tensor, hidden_size: int, state: State | None) -> State:
    if state is None:
        zeros = input.new_zeros(input.shape[1], hidden_size)
        return zeros, zeros
    return state[0][0], state[1][0]
