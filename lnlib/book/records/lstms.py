"""What the chapter on the LSTM draws of `benchmarks/bench_lstm.py`."""

from __future__ import annotations

from lnlib.book.records.tables import recorded

__all__ = ["costs"]


def costs(steps: int, hidden: int) -> dict[str, tuple[float, float, float]]:
    """Return what training costs on a CPU, as `benchmarks/bench_lstm.py` timed it.

    Args:
        steps: T of the sequences.
        hidden: H.

    Returns:
        For each network the median and the two quartiles of its time over that of `torch.nn.LSTM`.

    Raises:
        FileNotFoundError, ValueError: as `recorded` does.
    """
    where = {"steps": str(steps), "hidden_size": str(hidden), "device": "cpu"}
    where |= {"kind": "sequences", "batch": "64"}
    rows = recorded("lstm", **where, **{"pass": "forward and backward"})
    quartiles = [text.split(" to ") for text in rows["quartiles"]]
    return {
        str(name): (float(middle), float(low), float(high))
        for name, middle, (low, high) in zip(
            rows["provider"], rows["over_lstm"], quartiles, strict=True
        )
    }
