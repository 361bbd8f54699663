"""Keeps a request's seed from ending an engine on a CPU.

When a prompt takes several steps, vLLM draws at each of them and takes the draw back by the offset of the request's
random generator. A generator on a CPU has no offset: vLLM 0.29 fails there, and its engine with it, as soon as one
client sends a seed with a prompt that does not fit into a step. Here such a request gets a generator that starts anew
instead, which is the same, for a prompt is read before anything is drawn. (A request that was put aside for want of
memory starts anew too, in the middle of its text; on a GPU it would go on.)
"""

from collections.abc import Callable
from typing import Any

import torch
from vllm.logger import init_logger

from vocab.vllm_plugin.wrap import wrap

logger = init_logger("vllm.wordbound")


class CpuGenerator(torch.Generator):
    """A generator on the CPU with the two methods that vLLM asks of it."""

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> None:
        """Takes all draws back, wherever ``offset`` is."""
        del offset
        self.manual_seed(self.initial_seed())


def install() -> None:
    """Has vLLM's batches use it for requests with a seed. Doing it twice is harmless; where vLLM's insides have changed
    it says so and does nothing."""
    try:
        from vllm.v1.worker.gpu_input_batch import InputBatch

        wrap(InputBatch, "add_request", _add_request)
    except (ImportError, AttributeError) as error:
        logger.warning("On a CPU, seeds with long prompts may end the engine: %s", error)


def _add_request(original: Callable[..., Any], batch: Any, request: Any) -> Any:
    if type(request.generator) is torch.Generator and request.generator.device.type == "cpu":
        seeded = CpuGenerator()
        seeded.manual_seed(request.generator.initial_seed())
        request.generator = seeded
    return original(batch, request)
