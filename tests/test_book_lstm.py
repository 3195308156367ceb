"""What the chapter on the LSTM draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from results_table import save

from lnlib.book.records import lstms, tables


def test_costs_are_those_of_training_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    row = {"device": "cpu", "pass": "forward and backward", "steps": 28, "hidden_size": 128}
    row |= {"kind": "sequences", "batch": 64}
    row |= {"provider": "lnlib", "over_lstm": "1.5", "quartiles": "1.4 to 1.7"}
    other = {"over_lstm": "9", "quartiles": "8 to 10"}
    kinds = {"device": "a GPU"}, {"pass": "forward"}, {"steps": 784}, {"hidden_size": 512}
    kinds += {"kind": "a cell"}, {"batch": 1}
    save(tmp_path / "lstm.csv", [*(row | other | kind for kind in kinds), row])
    assert lstms.costs(28, 128) == {"lnlib": (1.5, 1.4, 1.7)}
