"""Keep a request's seed from ending an engine on a CPU.

When a prompt takes several steps, vLLM draws at each of them and takes the draw back by the offset of the request's
random generator. CPU generators have no offset: vLLM 0.29 and its engine fail as soon as one client sends a seed
with a prompt that does not fit into a step (``docs/upstream.md``). Here such a request gets a generator that is
reseeded instead, which is the same, as a prompt is read before anything is drawn. (A request that was preempted for
want of memory is reseeded too, in the middle of its text; on a GPU it would go on.)
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from vocab.vllm_plugin.patches import Patch, install_patches

TRIED_ON: Final = frozenset({"0.29"})
"""Minor versions of vLLM that have the fault, and on which this was tried."""


class CpuGenerator(torch.Generator):
    """A generator on the CPU with the two methods that vLLM calls."""

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> None:
        """Take all draws back, wherever ``offset`` is."""
        del offset
        self.manual_seed(self.initial_seed())


def install() -> None:
    """Patch vLLM's batches to use ``CpuGenerator`` for requests with a seed on a CPU."""
    install_patches(
        [Patch("vllm.v1.worker.gpu_input_batch:InputBatch.add_request", "(self, request)", _add_request)],
        lost="On a CPU, a seed with a long prompt may end the engine",
        vllm_versions=TRIED_ON,
    )


def _add_request(original: Callable[..., Any], batch: Any, request: Any) -> Any:
    """Give a request with a seed on a CPU a ``CpuGenerator``, then add it to vLLM's batch."""
    if type(request.generator) is torch.Generator and request.generator.device.type == "cpu":
        seeded = CpuGenerator()
        seeded.manual_seed(request.generator.initial_seed())
        request.generator = seeded
    return original(batch, request)
