"""The layer-normalized LSTM: equations, a gradient through time derived by hand, modules."""

from lnlib.lstm.modules import LayerNormLSTM, LayerNormLSTMCell

__all__ = ["LayerNormLSTM", "LayerNormLSTMCell"]
