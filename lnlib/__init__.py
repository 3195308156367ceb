"""Layer normalization, from formula to kernel."""

from lnlib import formula
from lnlib.backends import backends
from lnlib.functional import layer_norm
from lnlib.lstm import LayerNormLSTM, LayerNormLSTMCell
from lnlib.modules import LayerNorm
from lnlib.swap import swap

__all__ = [
    "LayerNorm",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "__version__",
    "backends",
    "formula",
    "layer_norm",
    "swap",
]

__version__ = "0.2.0"
