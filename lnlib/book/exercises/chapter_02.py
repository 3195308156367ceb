"""Chapter 02: ε and stability."""

from __future__ import annotations

from torch import Tensor

from lnlib.book.exercises.base import Exercise, Search

choose_eps = Exercise(
    "the ε that leaves 0.9 of the variance at σ = 0.01",
    truth=0.01**2 / 9,
    slips={
        "you solved for the standard deviation 0.9; the variance is 0.9": 0.01**2 * (1 / 0.81 - 1),
        "you put σ where σ² belongs; ε is in units of x²": 0.01 / 9,
        "that is 9 σ²: from σ²/(σ²+ε) = 0.9, ε is a ninth of σ², not nine times it": 0.01**2 * 9,
        "that leaves half: at ε = σ² the output variance is ½": 0.01**2,
        "that is ε/σ²; multiply it by σ²": 1 / 9,
        "that is 0.1 σ², which leaves σ²/(1.1 σ²) = 0.909": 0.01**2 / 10,
    },
    within=2e-8,  # 1.11e-5 is right
    ask="answer with a number",
    why=(
        "With ε a ninth of σ², the share σ²/(σ² + ε) is 1/(1 + 1/9) = 0.9: [see it in the "
        "explorer](#explorer-epsilon?eps=1.111e-5&spread=0.01)."
    ),
)

convert_eps = Exercise(
    "the ε beside σ that does the work of 1e-5 under the root",
    truth=lambda std: (std**2 + 1e-5) ** 0.5 - std,
    inputs=[(0.0,), (0.001,), (0.01,), (0.1,)],
    slips={
        "that is right for a constant row only; it depends on std": lambda std: 1e-5**0.5,
        "√(a + b) is not √a + √b: the same number beside σ gives another function": lambda std: (
            1e-5
        ),
        "that is the whole denominator; subtract std": lambda std: (std**2 + 1e-5) ** 0.5,
        "std is already the root of the variance: square it under the root": lambda std: (
            (std + 1e-5) ** 0.5 - std
        ),
        "the sign is wrong: the root is the larger of the two": lambda std: (
            std - (std**2 + 1e-5) ** 0.5
        ),
    },
    within=1e-8,  # float32 will do
    ask="fill in the function: it returns a number",
)


def _why_not_smallest(eps: Tensor) -> str | None:
    if not 0 < eps < float("inf"):
        return "one positive number, please"
    if eps.half() == 0:
        return "in float16 this is zero; go up"
    if eps.half() > 2**-24:
        return "float16 has a smaller number above zero; go down"
    if abs(eps - 2**-24) > 2**-30:  # two digits are enough
        return (
            "float16 rounds this to its smallest number; "
            "torch.tensor(your number).half().item() says to which"
        )
    return None


smallest_half_eps = Search(
    "the smallest number above zero in float16",
    wrong=_why_not_smallest,
    ask="answer with a number",
    shape=(),
    why=(
        "Below 2⁻¹⁴ float16 counts in steps of 2⁻²⁴, so this is the first number above zero, "
        "and [an ε below half of it](#explorer-epsilon?eps=1e-8&spread=3e-5) becomes 0."
    ),
)


def _why_not_broken(numbers: Tensor) -> str | None:
    x = numbers.float()
    var = (x * x).mean() - x.mean() ** 2
    if not var.isfinite():
        return "the squares are not finite; use smaller numbers"
    if bool((x == x[0]).all()):
        return "as float32 all four are equal, so a variance of 0 is right"
    if var > 0:
        return "the one-pass variance is still positive; try a larger mean or a smaller spread"
    return None


break_variance = Search(
    "numbers whose one-pass variance is not positive",
    wrong=_why_not_broken,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "The mean of the squares and the square of the mean agree in nearly all digits that "
        "float32 keeps, so their difference is rounding error, which may be negative or 0."
    ),
)
