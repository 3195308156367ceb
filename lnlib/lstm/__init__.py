"""The layer-normalized LSTM: equations, a gradient through time derived by hand, modules."""

from lnlib.lstm.cell import LayerNormLSTMCell
from lnlib.lstm.modules import LayerNormLSTM

__all__ = ["LayerNormLSTM", "LayerNormLSTMCell"]
