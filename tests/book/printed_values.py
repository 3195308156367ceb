"""What the symbols of the other printed equations are, at numbers: for tests/book/test_claims.py.

Each function yields the values by which one equation must hold. They come from autograd, from
`lnlib`, or from PyTorch; where the equation is itself a definition, from PyTorch's operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from at_numbers import column, on_columns
from torch.autograd.functional import jacobian

import lnlib
from lnlib import formula
from lnlib.book.experiments import fisher, table_1

Names = dict[str, Any]
Values = Callable[[], Iterator[Names]]
VALUES: dict[str, Values] = {}
# A bound that some value reaches, at each size; and how its size is called.
TIGHT = {"eq-bound": "H", "eq-stretch": "", "eq-meet-qk": "d"}

LN = on_columns(formula.layer_norm, eps=0.0)
TANH, SIGMOID = np.tanh, on_columns(torch.sigmoid)


def of(*labels: str) -> Callable[[Values], Values]:
    def register(values: Values) -> Values:
        VALUES.update(dict.fromkeys(labels, values))
        return values

    return register


def randn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape or None)


def tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


def gradient(function: Callable[..., torch.Tensor], *inputs: Any) -> list[Any]:
    leaves = [tensor(x).requires_grad_() for x in inputs]
    return [g.numpy() for g in torch.autograd.grad(function(*leaves), leaves)]


# Chapters 01 to 03


@of("eq-bound")
def bound() -> Iterator[Names]:
    for x in (randn(7, 1), np.eye(7)[:, :1], np.eye(4)[:, :1]):
        for i in range(len(x)):
            for eps in (0.0, 0.3):
                x_hat = on_columns(formula.layer_norm, eps=eps)(x)
                yield {"hat x": x_hat, "H": len(x), "i": i}


@of("eq-invariance")
def blind() -> Iterator[Names]:
    W, h, c, ones = randn(6, 4), randn(4, 1, seed=1), randn(4, 1, seed=2), np.ones((6, 1))
    names = {"LN": LN, "W": W, "h": h, "x": W @ h, "c": c, "1": ones}
    yield names | {"delta": 3.7, "tau": -2.0}


@of("eq-output-variance")
def output_variance() -> Iterator[Names]:
    x = randn(9, 1)
    for eps in (0.5, 1e-5):
        x_hat = on_columns(formula.layer_norm, eps=eps)(x)
        yield {"Var": np.var, "hat x": x_hat, "sigma": x.std(), "epsilon": eps}


@of("eq-stretch")
def largest_stretch() -> Iterator[Names]:
    for spread in (0.0, 0.3, 2.0):
        yield {"sigma": spread, "epsilon": 0.04}


# Chapter 04: the matrices


@of("eq-row-matrix-form")
def row_matrix() -> Iterator[Names]:
    for H in (5, 3):
        x = randn(H)
        J = jacobian(lambda v: formula.layer_norm(v, eps=0.3), tensor(x)).numpy()
        terms = formula.terms(tensor(x), eps=0.3)
        names = {"J": J, "s": 1 / terms.rstd.item(), "hat x": column(terms.x_hat), "H": H}
        yield names | {"I": np.eye(H), "1": np.ones((H, 1))}


@of("eq-row-constant")
def constant_row() -> Iterator[Names]:
    """The first line has ε under the root, the second beside σ, where autograd divides by σ = 0."""
    eps, nudges = 0.3, 1e-12 * np.eye(5)
    under = jacobian(lambda v: formula.layer_norm(v, eps=eps), tensor(np.full(5, 2.0))).numpy()
    beside = [(row - row.mean()) / (row.std() + eps) / 1e-12 for row in nudges]
    lines = {0: {"J": under}, 1: {"J": np.array(beside)}}
    names = {"epsilon": eps, "I": np.eye(5), "1": np.ones((5, 1)), "H": 5, "lines": lines}
    yield names


# Chapter 07


@of("eq-kernel-pad")
def padded() -> Iterator[Names]:
    for H, P in ((13, 16), (5, 8)):
        x = 3 + randn(H, 1)
        filled = np.concatenate([x - x.mean(), np.full((P - H, 1), -x.mean())])
        counted = math.sqrt((filled**2).sum() / H)
        yield {"tilde sigma": counted, "sigma": x.std(), "mu": x.mean(), "P": P, "H": H}


@of("eq-kernel-carry")
def carried() -> Iterator[Names]:
    x, m = 7 + randn(11, 1), 6.9
    terms = formula.terms(tensor(x[:, 0]), eps=0.3)
    names = {"x": x, "m": m, "d": x - m, "c": x.mean() - m, "sigma": x.std(), "epsilon": 0.3}
    for i in range(11):
        yield names | {"hat x": column(terms.x_hat), "i": i}


# Chapter 08: three steps of a network of five units, and autograd's gradients


class Steps:
    """A layer-normalized LSTM of `H` units run over three inputs, and every gradient in it."""

    def __init__(self, H: int = 5, D: int = 4) -> None:
        draw = torch.Generator().manual_seed(0)

        def new(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.W_h, self.W_x, self.b = new(4 * H, H), new(4 * H, D), new(4 * H)
        self.gamma_h, self.gamma_x = 1 + 0.3 * new(4 * H), 1 + 0.3 * new(4 * H)
        self.gamma_c, self.beta_c = 1 + 0.3 * new(H), 0.3 * new(H)
        self.h, self.c = [new(H).requires_grad_()], [new(H).requires_grad_()]
        self.x, self.dy = new(3, D), new(4, H)
        self.kept: list[dict[str, torch.Tensor]] = [{}]
        for x in self.x:
            a = self.W_h @ self.h[-1]
            v = self.gamma_h * self.norm(a) + self.gamma_x * self.norm(self.W_x @ x) + self.b
            i, f, new, o = v.chunk(4)
            c = f.sigmoid() * self.c[-1] + i.sigmoid() * new.tanh()
            n = self.gamma_c * self.norm(c) + self.beta_c
            self.kept.append({"a": a, "v": v, "i": i, "f": f, "tilde c": new, "o": o, "n": n})
            self.c.append(c)
            self.h.append(o.sigmoid() * n.tanh())
        self.loss = sum((h * dy).sum() for h, dy in zip(self.h, self.dy, strict=True))
        self.compare_with_the_package(H, D)

    def compare_with_the_package(self, H: int, D: int) -> None:
        """Let `lnlib` take the same steps: what it makes of them is what the equations must say."""
        cell = lnlib.LayerNormLSTMCell(D, H, eps=1e-3, dtype=torch.float64)
        mine = {"weight_hh": self.W_h, "weight_ih": self.W_x, "bias": self.b}
        mine |= {"norm_hh_weight": self.gamma_h, "norm_ih_weight": self.gamma_x}
        mine |= {"norm_c_weight": self.gamma_c, "norm_c_bias": self.beta_c}
        cell.load_state_dict(mine)
        h, c = self.h[0], self.c[0]
        for x, my_h, my_c in zip(self.x, self.h[1:], self.c[1:], strict=True):
            h, c = cell(x, (h, c))
            assert torch.allclose(h, my_h, atol=1e-12)
            assert torch.allclose(c, my_c, atol=1e-12)

    @staticmethod
    def norm(x: torch.Tensor) -> torch.Tensor:
        return formula.layer_norm(x, eps=1e-3)

    def d(self, of: torch.Tensor) -> Any:
        (found,) = torch.autograd.grad(self.loss, of, retain_graph=True)
        return column(found)

    def back(self, through: torch.Tensor) -> Callable[[Any], Any]:
        """Return the way back through the norm of a vector, as autograd goes it."""
        J = jacobian(self.norm, through.detach()).numpy()
        return lambda u: J.T @ u

    def names(self, t: int) -> Names:
        now, nan = self.kept[t], np.full((len(self.b) // 4, 1), np.nan)
        later = self.kept[t + 1] if t + 1 < len(self.kept) else {}
        names = {
            name: column(getattr(self, name))
            for name in ("b", "gamma_h", "gamma_x", "gamma_c", "beta_c")
        }
        names |= {"W_h": self.W_h.numpy(), "W_x": self.W_x.numpy(), "N": on_columns(self.norm)}
        names |= {"sigmoid": SIGMOID, "tanh": TANH}
        names |= {"sigmoid'": lambda x: SIGMOID(x) * (1 - SIGMOID(x))}
        names |= {"tanh'": lambda x: 1 - np.tanh(x) ** 2}
        for name, value in {**now, "c": self.c[t], "h": self.h[t], "x": self.x[t - 1]}.items():
            names[name] = names[f"{name}_t"] = column(value)
            if value.grad_fn is not None:
                names[f"d{name}_t"] = self.d(value)
        names |= {"h_t-1": column(self.h[t - 1]), "c_t-1": column(self.c[t - 1])}
        names |= {"dh_t-1": self.d(self.h[t - 1]), "dy_t-1": column(self.dy[t - 1])}
        names["dc_t+1"] = self.d(self.c[t + 1]) if later else 0 * nan
        names["f_t+1"] = column(later["f"]) if later else nan
        return names | {"J_h": self.back(now["a"]), "J_c": self.back(self.c[t])}


@of(
    "eq-lstm-gates",
    "eq-lstm-carry",
    "eq-lstm-show",
    "eq-lstm-back-cell",
    "eq-lstm-back-gates",
    "eq-lstm-back-state",
)
def steps_of_the_lstm() -> Iterator[Names]:
    run = Steps()
    yield from map(run.names, (1, 2))


@of("eq-lstm-rnn")
def recurrent() -> Iterator[Names]:
    W_h, W_x, h, x = randn(5, 5), randn(5, 4), randn(5, 1), randn(4, 1)
    gamma, b = 1 + randn(5, 1), randn(5, 1, seed=3)
    a = W_h @ h + W_x @ x
    normed = torch.layer_norm(tensor(a[:, 0]), (5,), tensor(gamma[:, 0]), tensor(b[:, 0]))
    names = {"W_h": W_h, "W_x": W_x, "h_t-1": h, "x_t": x, "a_t": a, "gamma": gamma, "b": b}
    names |= {"N": on_columns(formula.layer_norm), "tanh": TANH}
    yield names | {"h_t": column(torch.tanh(normed))}


@of("eq-meet-recurrent")
def two_recurrent_forms() -> Iterator[Names]:
    for names in recurrent():
        a = tensor(names["a_t"][:, 0])
        forms = torch.tanh(torch.layer_norm(a, (5,))), torch.layer_norm(torch.tanh(a), (5,))
        lines = {line: {"h_t": column(form)} for line, form in enumerate(forms)}
        yield names | {"LN": names["N"], "lines": lines}


@of("eq-lstm-plain")
def plain() -> Iterator[Names]:
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(4, 5).double()
    x, h, c = torch.randn(4).double(), torch.randn(5).double(), torch.randn(5).double()
    h_t, c_t = cell(x, (h, c))
    sums = cell.weight_hh @ h + cell.weight_ih @ x + cell.bias_ih + cell.bias_hh
    names = {
        name: column(part)
        for name, part in zip(("i", "f", "tilde c", "o"), sums.chunk(4), strict=True)
    }
    names |= {"h_t": column(h_t), "c_t": column(c_t), "h_t-1": column(h), "c_t-1": column(c)}
    names |= {"W_h": cell.weight_hh.detach().numpy(), "W_x": cell.weight_ih.detach().numpy()}
    b = column(cell.bias_ih + cell.bias_hh)
    yield names | {"x_t": column(x), "b": b, "sigmoid": SIGMOID, "tanh": TANH}


@of("eq-lstm-bias")
def biases() -> Iterator[Names]:
    names = {n: randn(5, 1, seed=k) for k, n in enumerate(["gamma_h", "gamma_x", "u", "v"])}
    names |= {n: randn(5, 1, seed=9 + k) for k, n in enumerate(["beta_1", "beta_2", "b"])}
    yield names | {"N": LN}


@of("eq-lstm-norm-back")
def norm_back() -> Iterator[Names]:
    x, u = randn(7, 1), randn(7, 1, seed=1)
    terms = formula.terms(tensor(x[:, 0]), eps=0.2)
    (back,) = gradient(lambda z: (formula.layer_norm(z, eps=0.2) * tensor(u[:, 0])).sum(), x[:, 0])
    names = {"J": lambda _: column(back), "u": u, "s": 1 / terms.rstd.item()}
    yield names | {"hat x": column(terms.x_hat)}


@of("eq-lstm-blank")
def blank() -> Iterator[Names]:
    """Two norms of zero rows: of the sums of W_h h with h = 0, and of the cell, at ε = 1e-5."""
    eps, H = 1e-5, 5
    W_new, dh = tensor(randn(H, H)), tensor(randn(H, seed=1))
    h = torch.zeros(H, dtype=torch.float64, requires_grad=True)

    def step(h: torch.Tensor) -> torch.Tensor:
        new = formula.layer_norm(W_new @ h, eps=eps)
        c = 0.5 * new.tanh()  # every gate is open by half
        return 0.5 * formula.layer_norm(c, eps=eps).tanh()

    (before,) = torch.autograd.grad(step(h), h, dh)
    mean_kept = tensor(np.eye(H) - 1 / H)  # at 0 each norm subtracts the mean and divides by √ε
    assert torch.allclose(before, W_new.mT @ mean_kept @ mean_kept @ dh / (4 * eps))
    names = {"dh_t-1": column(before), "dh_t": column(dh)}
    yield names | {"W_tilde c": W_new.numpy(), "epsilon": eps}


@of("eq-lstm-pixel")
def pixel() -> Iterator[Names]:
    w = randn(6, 1)
    for x in (0.7, -0.02):
        normed = on_columns(formula.layer_norm, eps=1e-2)
        yield {"N": normed, "w": w, "x": x, "epsilon": 1e-2, "sigma_w": w.std()}


# Chapters 09 and 11


@of("eq-claim-form")
def form() -> Iterator[Names]:
    a, gamma, beta = randn(6, 1), 1 + randn(6, 1, seed=3), randn(6, 1, seed=4)
    out = np.tanh(gamma * LN(a) + beta)
    names = {"a": a, "gamma": gamma, "beta": beta, "f": TANH}
    for i in range(6):
        yield names | {"mu_i": a.mean(), "sigma_i": a.std(), "h": out, "i": i}


@of("eq-claim-eps")
def faded() -> Iterator[Names]:
    a, eps = randn(6, 1), 0.04
    normed = on_columns(formula.layer_norm, eps=eps)
    for delta in (0.3, 4.0):
        for i in range(6):
            names = {"y": [lambda factor, i=i: normed(factor * a)[i, 0]] * 6, "hat x": LN(a)}
            yield names | {"delta": delta, "sigma": a.std(), "epsilon": eps, "i": i}


@of("eq-claim-alone")
def alone() -> Iterator[Names]:
    J = jacobian(formula.layer_norm, tensor(randn(3, 5)))
    for i, j in ((0, 1), (2, 0)):
        yield {"∂y_i/∂x_j": J[i, :, j].numpy(), "i": i, "j": j}


def model(norm: table_1.Norm) -> Names:
    """Return the small model of chapter 11, and its Fisher matrix."""
    torch.manual_seed(0)
    theta, x = torch.randn(3, 6).double(), 0.5 + torch.randn(9, 4).double()
    return {
        "theta": theta,
        "x": x,
        "F": fisher.fisher(theta, x, norm, fisher.SOFTMAX),
        "Cov": fisher.covariance(theta, x, norm, fisher.SOFTMAX),
        "slopes": fisher.slopes(theta, x, norm),
        "norm": norm,
    }


@of("eq-claim-kl")
def divergence() -> Iterator[Names]:
    at = model(table_1.layer_norm)
    theta, x = at["theta"], at["x"]
    d = 1e-5 * torch.randn(3, 6).double()

    def log_p(parameters: torch.Tensor) -> torch.Tensor:
        return fisher.log_probabilities(parameters, x, table_1.layer_norm, fisher.SOFTMAX)

    apart = (log_p(theta).exp() * (log_p(theta) - log_p(theta + d))).sum(1).mean().item()
    # In units of the step, so that the sides are of the order of 1.
    yield {"D_KL": apart * 1e10, "d": column(1e5 * d), "F": at["F"].reshape(18, 18).numpy()}


@of("eq-claim-definition")
def definition() -> Iterator[Names]:
    at = model(table_1.layer_norm)
    point = at["theta"].clone().requires_grad_()
    log_p = fisher.log_probabilities(point, at["x"], table_1.layer_norm, fisher.SOFTMAX)
    samples = []
    for each in log_p.flatten():
        (slope,) = torch.autograd.grad(each, point, retain_graph=True)
        samples.append((each.exp().item() / len(at["x"]), {"u": column(slope)}))
    F = at["F"].reshape(18, 18).numpy()
    yield {"F": F, "samples": samples, "lines": {1: None}}  # u is a definition


@of("eq-claim-thirteen", "eq-claim-chi")
def thirteen() -> Iterator[Names]:
    """Batch norm, for which the equation is exact, and its third sample."""
    at, n = model(table_1.batch_norm), 2
    W, gamma, x = at["theta"][:, :4], at["theta"][:, 5], at["x"]
    a = x @ W.T
    mean, std = a.mean(0), a.std(0, correction=0)
    own = [[column(at["slopes"][k, i, i]) for i in range(3)] for k in range(9)]
    samples = [(1 / 9, {"v": own[k], "Cov": at["Cov"][k].numpy()}) for k in range(9)]
    for i, j in ((0, 0), (0, 1), (2, 1)):
        names = {"F_ij": at["F"][i, :, j].numpy(), "samples": samples, "v": own[n]}
        names |= {"gamma": column(gamma), "a": column(a[n]), "x": column(x[n])}
        names |= {"mu": column(mean), "sigma": column(std)}
        chi = [at["slopes"][n, k, k, :4] * std[k] / gamma[k] for k in range(3)]
        names |= {"chi": [column(each) for each in chi]}
        names |= {"∂mu_i/∂w_i": column(x.mean(0))}
        slope = jacobian(lambda w: (x @ w).std(correction=0), W[i])
        yield names | {"∂sigma_i/∂w_i": column(slope), "i": i, "j": j}


@of("eq-claim-rows", "eq-claim-slopes")
def rows() -> Iterator[Names]:
    at = model(table_1.layer_norm)
    a = at["x"] @ at["theta"][:, :4].T
    samples = []
    for n in range(9):
        v = {(k, i): column(at["slopes"][n, k, i]) for k in range(3) for i in range(3)}
        samples.append((1 / 9, {"v": v, "Cov": at["Cov"][n].numpy()}))
    _, std = table_1.layer_norm(table_1.Layer(at["theta"][:, :4], at["x"]))
    to_own = jacobian(lambda row: formula.layer_norm(row, eps=0.0), a[3]).numpy()
    for i, j in ((0, 0), (0, 1), (2, 1)):
        for k in range(3):
            names = {"F_ij": at["F"][i, :, j].numpy(), "samples": samples, "H": 3}
            names |= {"range": {"k": range(3), "l": range(3)}, **samples[3][1]}
            names |= {"gamma": column(at["theta"][:, 5]), "J": to_own, "x": column(at["x"][3])}
            names |= {"sigma": std.flatten()[3 if std.numel() > 1 else 0].item()}
            yield names | {"hat a": LN(column(a[3])), "i": i, "j": j, "k": k}


@of("eq-claim-euler", "eq-claim-length", "eq-claim-effective")
def along_the_weights() -> Iterator[Names]:
    W, x, dy, delta, eta = randn(6, 4), randn(4), randn(6, seed=1), 2.5, 0.3

    def slope(weight: Any) -> Any:
        return gradient(
            lambda w: (formula.layer_norm(w @ tensor(x), eps=0.0) * tensor(dy)).sum(), weight
        )[0]

    length = np.linalg.norm(W)
    names = {"W": W, "dW": slope(W), "dW|_W": slope(W), "dW|_deltaW": slope(delta * W)}
    yield names | {"dW|_U": slope(W / length), "delta": delta, "eta": eta}


# Chapter 10 and the pages to look things up


def encoder(norm_first: bool) -> tuple[Names, torch.nn.Module, torch.Tensor]:
    """Return PyTorch's encoder layer without its attention, which adds 0, and its last part."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(6, 2, 9, dropout=0.0, norm_first=norm_first).double()
    torch.nn.init.zeros_(layer.self_attn.out_proj.weight)

    def f(v: Any) -> Any:
        return column(layer.linear2(torch.relu(layer.linear1(tensor(v[:, 0])))))

    return {"LN": on_columns(formula.layer_norm), "f": f}, layer, torch.randn(1, 6).double()


@of("eq-meet-post")
def post() -> Iterator[Names]:
    names, layer, x = encoder(norm_first=False)
    yield names | {"x": column(layer.norm1(x)), "y": column(layer(x))}


@of("eq-meet-pre")
def pre() -> Iterator[Names]:
    names, layer, x = encoder(norm_first=True)
    yield names | {"x": column(x), "y": column(layer(x))}


@of("eq-meet-stream")
def stream() -> Iterator[Names]:
    norm = torch.nn.LayerNorm(6).double()
    for N in (3, 2):
        parts, at, passed = [randn(6, 6, seed=k) for k in range(N)], randn(6, 1), {}
        for n, part in enumerate(parts, start=-1):
            passed[(n,)] = at  # x_{n-1} of the sum, whose n begins at 0 here
            at = at + np.tanh(part @ column(norm(tensor(at[:, 0]))))
        f = [lambda v, part=part: np.tanh(part @ v) for part in parts]
        names = {"LN": on_columns(formula.layer_norm), "N": N, "f": f, "x": passed}
        yield names | {"x_N": at, "x_0": passed[(-1,)]}


@of("eq-meet-fold")
def folded() -> Iterator[Names]:
    for H in (5, 3):
        W, h, b = randn(H, 4), randn(4, 1, seed=1), randn(H, 1, seed=2)
        centered = [t - t.mean(0) for t in (W, b)]
        rms = on_columns(lambda v: torch.nn.functional.rms_norm(v, v.shape, eps=1e-5))
        names = {"LN": on_columns(formula.layer_norm), "RMS": rms, "W": W, "h": h, "b": b, "H": H}
        names |= dict(zip(("tilde W", "tilde b"), centered, strict=True))
        for i in range(H):
            yield names | {"i": i, "j": 2}


@of("eq-meet-axes")
def axes() -> Iterator[Names]:
    torch.manual_seed(0)
    images = torch.randn(3, 4, 2, 3).double()
    group = images[1, :2].flatten()  # the values that share a mean: of one sample, two channels
    theirs = torch.nn.functional.group_norm(images, 2, eps=0.3)[1, :2]
    names = {"x": column(group), "hat x": column(theirs.flatten()), "epsilon": 0.3}
    yield names | {"mean_A": np.mean, "var_A": np.var}


@of("eq-meet-qk")
def products() -> Iterator[Names]:
    for d in (6, 4):
        q = randn(d, 1)
        for k in (randn(d, 1, seed=1), 2 * q):
            yield {"hat q": LN(q), "hat k": LN(k), "d": d}


@of("eq-meet-shard")
def shards() -> Iterator[Names]:
    x, dy, gamma = randn(7, 4), randn(7, 4, seed=1), randn(4, seed=2)
    (found,) = gradient(
        lambda w: (formula.layer_norm(tensor(x), weight=w) * tensor(dy)).sum(), gamma
    )
    x_hat = formula.layer_norm(tensor(x)).numpy()
    names = {"dgamma": column(found), "P": 2, "R": [range(3), range(3, 7)]}
    names |= {"dy": [column(v) for v in dy], "hat x": [column(v) for v in x_hat]}
    yield names


@of("eq-confidence")
def confidence() -> Iterator[Names]:
    for C in (3, 10):
        best = LN(np.eye(C)[:, :1])
        yield {"p_max": torch.softmax(tensor(best[:, 0]), 0)[0].item(), "C": C, "e": math.e}
