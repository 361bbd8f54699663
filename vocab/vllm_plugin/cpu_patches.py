"""Two faults of vLLM 0.29 on a CPU, patched: adapters that answer for others, and seeds that end an engine.

*Adapters.* vLLM finds a token's adapter by its index, which is -1 for none: PyTorch takes that for the last one. Where
``max_loras`` adapters are loaded, a request of the model itself that shares a step with an adapter's is answered by the
adapter. Here what is added for such tokens is zero.

*Seeds.* When a prompt takes several steps, vLLM draws at each of them and takes the draw back by the offset of the
request's random generator. CPU generators have no offset: vLLM and its engine fail as soon as one client sends a seed
with a prompt that does not fit into a step. Here such a request gets a generator that is reseeded instead, which is the
same, as a prompt is read before anything is drawn. (A request that was preempted for want of memory is reseeded too, in
the middle of its text; on a GPU it would go on.)

``docs/upstream.md`` has both.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from typing_extensions import override

from vocab.vllm_plugin.patches import Patch, install_patches

TRIED_ON: Final = frozenset({"0.29"})
"""Minor versions of vLLM that have the fault, and on which this was tried."""

_OPS: Final = "vllm.lora.ops.torch_ops.lora_ops"
_WRAPPER: Final = "vllm.lora.punica_wrapper.punica_cpu"
_EXPAND: Final = "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, add_inputs=True)"
_EXPAND_SLICE: Final = (
    "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, slice_offset, slice_size, add_inputs=True)"
)


def patch_adapters() -> bool:
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


class CpuGenerator(torch.Generator):
    """A generator on the CPU with the two methods that vLLM calls."""

    @override
    def get_offset(self) -> int:
        return 0

    @override
    def set_offset(self, offset: int) -> None:
        """Take all draws back, wherever ``offset`` is."""
        del offset
        self.manual_seed(self.initial_seed())


def patch_seeds() -> None:
    """Patch vLLM's batches to use ``CpuGenerator`` for requests with a seed on a CPU."""
    install_patches(
        [Patch("vllm.v1.worker.gpu_input_batch:InputBatch.add_request", "(self, request)", _add_request_with_seed)],
        lost="On a CPU, a seed with a long prompt may end the engine",
        vllm_versions=TRIED_ON,
    )


def _add_request_with_seed(original: Callable[..., Any], batch: Any, request: Any) -> Any:
    """Give a request with a seed on a CPU a ``CpuGenerator``, then add it to vLLM's batch."""
    if type(request.generator) is torch.Generator and request.generator.device.type == "cpu":
        seeded = CpuGenerator()
        seeded.manual_seed(request.generator.initial_seed())
        request.generator = seeded
    return original(batch, request)
