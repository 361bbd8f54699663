"""Keep LoRA adapters away from requests that have none, in the batches of a CPU.

There vLLM 0.29 finds a token's adapter by its index, which is -1 for none: PyTorch takes that for the last one. Where
``max_loras`` adapters are loaded, a request of the model itself that shares a step with an adapter's is answered by the
adapter (``docs/upstream.md``). Here what is added for such tokens is zero.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from vocab.vllm_plugin.patches import Patch, install_patches

TRIED_ON: Final = frozenset({"0.29"})
"""Minor versions of vLLM that have the fault, and on which this was tried."""

_OPS: Final = "vllm.lora.ops.torch_ops.lora_ops"
_WRAPPER: Final = "vllm.lora.punica_wrapper.punica_cpu"
_EXPAND: Final = "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, add_inputs=True)"
_EXPAND_SLICE: Final = (
    "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, slice_offset, slice_size, add_inputs=True)"
)


def install() -> bool:
    """Patch vLLM's CPU operations so that no adapter answers a request without one; return whether that is done.

    They are patched under both names that vLLM has for them. Harmless to repeat.
    """
    return install_patches(
        [
            Patch(f"{module}:{name}", signature, _mask_inputs_without_adapter)
            for module in (_OPS, _WRAPPER)
            for name, signature in (("bgmv_expand", _EXPAND), ("bgmv_expand_slice", _EXPAND_SLICE))
        ],
        lost="On a CPU, requests without an adapter may be answered by one",
        vllm_versions=TRIED_ON,
    )


def _mask_inputs_without_adapter(
    original: Callable[..., Any],
    inputs: torch.Tensor,
    lora_b_weights: torch.Tensor,
    output_tensor: torch.Tensor,
    lora_indices_tensor: torch.Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    """Run vLLM's operation with zeros as inputs of the tokens without an adapter."""
    inputs = inputs.masked_fill((lora_indices_tensor < 0)[:, None], 0)
    return original(inputs, lora_b_weights, output_tensor, lora_indices_tensor, *rest, **options)
