"""Keep the adapter of one request from requests without an adapter, in an engine on a CPU.

Where a batch has both, vLLM 0.29 gives the rows of the base model the index -1, which its kernels for a GPU skip and
its code for a CPU reads as the last adapter (``docs/upstream.md``). Here what the first of its two matrices
makes of such a row is zero.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from vocab.vllm_plugin.patches import Patch, install_patches

TRIED_ON: Final = frozenset({"0.29"})
"""Minor versions of vLLM that have the fault, and on which this was tried."""

_SIGNATURE: Final = "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, scaling=1.0)"


def install() -> bool:
    """Replace the function where it is defined and where it was imported; return whether it was."""
    return install_patches(
        [
            Patch("vllm.lora.ops.torch_ops.lora_ops:bgmv_shrink", _SIGNATURE, _shrink),
            Patch("vllm.lora.punica_wrapper.punica_cpu:bgmv_shrink", _SIGNATURE, _shrink),
        ],
        lost="On a CPU, a request of the base model may get the adapter of another",
        vllm_versions=TRIED_ON,
    )


def _shrink(
    original: Callable[..., Any],
    inputs: torch.Tensor,
    lora_b_weights: torch.Tensor,
    output_tensor: torch.Tensor,
    lora_indices_tensor: torch.Tensor,
    scaling: float = 1.0,
) -> None:
    original(inputs, lora_b_weights, output_tensor, lora_indices_tensor, scaling)
    output_tensor[: lora_indices_tensor.shape[0]].masked_fill_((lora_indices_tensor < 0)[:, None], 0)
