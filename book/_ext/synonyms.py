"""What people type into the search, and the page that must come first.

Each page gets the words as keywords, so that the search finds it by a word that it does not write;
the scorer puts it on top, also where more words were typed than stand here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms import SphinxTransform

__all__ = ["FIRST", "AddKeywords", "write_scorer"]

FIRST = {
    "notebooks/01_formula": "layer norm; layernorm; layer normalization; mean and variance; "
    "normalized_shape; which axes; five lines; x hat; standardize; numpy layernorm; "
    "sphere; ellipse; hypersphere; norm before relu; 50 layers",
    "notebooks/02_epsilon": "eps; epsilon; fp16; float16; half precision; division by zero; "
    "1e-5; 1e-6; eps 1e-6; 1e-12; zero variance; constant row; constant input; divide by zero; "
    "one pass; welford; catastrophic cancellation; inside sqrt; epsilon inside sqrt",
    "notebooks/03_gamma_beta": "gamma; beta; weight and bias; elementwise_affine; affine; "
    "scale and shift; weight decay; no_decay; exclude from weight decay; initialization; "
    "initial values",
    "notebooks/04_scalar_jacobian": "jacobian; derivative; gradient of layer norm; flux; julia; "
    "chain rule",
    "notebooks/05_index_notation": "index notation; einsum; backward pass; backprop; "
    "backpropagation; einstein; computational graph",
    "notebooks/06_autograd_function": "autograd; custom function; torch.autograd.Function; "
    "gradcheck; gradgradcheck; save_for_backward; autograd function; vmap; functorch; jvp; "
    "double backward; gradient penalty",
    "notebooks/07_triton_kernel": "triton; gpu; cuda; kernel; fused layer norm; "
    "memory bandwidth; roofline; tiles; apex",
    "notebooks/08_ln_lstm": "lstm; rnn; recurrent; gates; lnlstm; layer normalized lstm; gru; "
    "blank rows; layer norm lstm; layernorm lstm; lstm norm; nn.lstm; lstmcell; multi-layer lstm; "
    "bidirectional lstm; custom_lstms",
    "notebooks/09_which_norm": "batchnorm; batch norm; batchnorm vs layernorm; "
    "batch size; running statistics; small batches; RMSNorm; rms norm; root mean square; llama; "
    "t5; layernorm to rmsnorm; convert to rmsnorm; group norm; groupnorm; instance norm; "
    "which norm; choosing a norm; quantization; quantize; int8; 8-bit; 8 bits; ptq; smoothquant; "
    "tensorrt",
    "notebooks/10_where_it_stands": "pre-LN; post-LN; pre-norm; post-norm; transformer; residual; "
    "warmup; attention; bert; gpt; normalize_before; norm_first; final norm; final layer norm; "
    "last layer norm; transformerencoder; DyT; dynamic tanh; adaLN; FiLM; sandwich norm; QK-norm; "
    "qk norm; parallel blocks; norm placement; Fixup; OLMo; Gemma; Swin; DiT; res-post-norm; "
    "output norm; peri-ln; deepnorm; layerscale; rezero; post_attention_layernorm",
    "notebooks/11_claims": "freeze; fine-tuning; norm only tuning; lora; peft; finetune; "
    "modules_to_save; layernorm tuning; trainable norm; sequential MNIST; long sequences; "
    "learning rate lstm; internal covariate shift; covariate shift; smoothness; loss landscape; "
    "weight normalization; generalization; misconceptions; myths; common mistakes; "
    "usual explanations; fisher matrix; effective learning rate; sharpness",
    "notebooks/which_layer_norm": "ONNX; convnext; channels last; LayerNorm2d; tensorflow; keras; "
    "jax; flax; conventions; biased variance; unbiased; llamarmsnorm; rmsnorm precision; "
    "rmsnorm bfloat16; cast before weight",
    "notebooks/when_it_goes_wrong": "nan; inf; loss spike; debugging; dead feature; "
    "exploding gradient; overflow; slow; attention logits; fsdp; mixed dtype; "
    "expected scalar type; dropout; padding; slow rms norm; onnx mismatch; fold gamma; "
    "bf16; bfloat16; batch invariance; pre-norm nan; layernorm nan amp; layernorm inaccurate; "
    "amp; autocast; mixed precision",
    "notebooks/when_not_to_use": "when not to use; logits; counts; border",
    "notebooks/using_lnlib": "install; pip install; swap; replace LayerNorm; drop-in; huggingface; "
    "timm; export; torch.export; opset; torch.fx; fsdp2; torch.compile; checkpoint; DDP; "
    "distributed",
    "book/summary": "cheat sheet; summary; one page",
    "book/notation": "notation; symbols; rstd",
    "book/benchmarks": "benchmark; speed; accuracy; how fast; memory",
    "book/api": "api; lnlib.layer_norm; lnlib.LayerNorm; backend",
    "book/sources": "where it comes from; original documents",
    "book/bibliography": "bibliography; references; papers; citations",
}
PHRASES = {page: [each.strip() for each in said.split(";")] for page, said in FIRST.items()}


class AddKeywords(SphinxTransform):
    """Give a page the words that people type for it."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Add them as a page's keywords, which are indexed."""
        words = re.findall(r"\w+", FIRST.get(self.env.docname, ""))
        if words:
            self.document += nodes.meta(name="keywords", content=", ".join(words))


def write_scorer(app: Sphinx, config: Config) -> None:
    """Write the search's ranking with the pages that must come first."""
    first = {each.lower(): page for page, phrases in PHRASES.items() for each in phrases}
    ranking = Path(app.srcdir, "book", "scorer.js").read_text(encoding="utf8")
    target = Path(app.outdir).parent / "scorer.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(ranking.replace("{/* FIRST */}", json.dumps(first)), encoding="utf8")
    config.html_search_scorer = str(target)
