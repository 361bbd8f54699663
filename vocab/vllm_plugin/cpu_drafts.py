"""Has tokens that speculative decoding drafted judged at their request's temperature on a CPU.

vLLM 0.29 spreads the temperatures of a batch over the rows of its drafts by a kernel that, on a CPU, writes into a copy
(``vllm.utils.cpu_triton_utils._expand_kernel_impl``). The rows are then divided by whatever the memory held before:
texts drawn at some other temperature, or, where that is 0, an answer that fails. Here PyTorch spreads them.
"""

from collections.abc import Callable
from typing import Any

import torch
from vllm.logger import init_logger

from vocab.vllm_plugin.wrap import wrap

logger = init_logger("vllm.wordbound")


def install() -> None:
    """Puts it in place. Doing it twice is harmless; where vLLM's insides have changed it says so and does nothing."""
    try:
        import vllm.v1.sample.rejection_sampler as rejection_sampler

        wrap(rejection_sampler, "expand_batch_to_tokens", _expand)
    except (ImportError, AttributeError) as error:
        logger.warning("On a CPU, drafted tokens may be judged at a wrong temperature: %s", error)


def _expand(
    original: Callable[..., torch.Tensor],
    values: torch.Tensor,
    ends: torch.Tensor,
    num_tokens: int,
    replace_from: Any = 0,
    replace_to: Any = 0,
) -> torch.Tensor:
    """The value of each sequence, (sequences,), at each of its rows, (num_tokens,); ``ends`` is where its rows end."""
    if values.device.type != "cpu":
        return original(values, ends, num_tokens, replace_from, replace_to)
    numbers = torch.diff(ends, prepend=ends.new_zeros(1))
    return torch.where(values == replace_from, replace_to, values).repeat_interleave(numbers, output_size=num_tokens)
