"""A faster way to apply bitmasks to logits on a CPU than the one vLLM calls there.

xgrammar's kernel looks at every bit of every row: 5.7 ms for 32 rows of 49,152 logits on one core, 4% of the demo
model's step. A word list's mask has almost no bits, so whole words of it are skipped or filled here: 0.2 ms. It knows
nothing of lists; on a GPU, and for anything but float32 on the CPU, xgrammar's kernels do the work as before.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xgrammar

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import kernel

_by_xgrammar: Callable[..., None] = xgrammar.apply_token_bitmask_inplace


def install() -> None:
    """Puts the kernel in the place where vLLM looks xgrammar's up. Doing it twice is harmless."""
    xgrammar.apply_token_bitmask_inplace = apply_token_bitmask_inplace


def apply_token_bitmask_inplace(
    logits: torch.Tensor, bitmask: torch.Tensor, *, indices: Any = None, **options: Any
) -> None:
    """Sets the logits of masked tokens to minus infinity, as ``xgrammar.apply_token_bitmask_inplace`` does.

    Args:
        logits: (sequences, tokens); changed in place.
        bitmask: int32 (sequences, words), a set bit for each token that may come.
        indices: The rows concerned, all of them where it is None; a mask's row has the same index as its logits.
        options: What else xgrammar takes.
    """
    is_ours = logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.dim() == bitmask.dim() == 2
    if not is_ours or options:
        _by_xgrammar(logits, bitmask, indices=indices, **options)
        return
    rows = np.arange(len(logits)) if indices is None else np.asarray(indices, dtype=np.int64)
    _apply(logits.detach().numpy(), bitmask.numpy(), rows)


@kernel
def _apply(logits: npt.NDArray[np.float32], bitmask: Int32Array, rows: npt.NDArray[np.int64]) -> None:
    num_tokens = logits.shape[1]
    for row in rows:
        for word in range(min(bitmask.shape[1], (num_tokens + 31) // 32)):
            bits = bitmask[row, word]
            if bits == -1:
                continue
            first = word * 32
            last = min(first + 32, num_tokens)
            if bits == 0:
                for token in range(first, last):
                    logits[row, token] = -np.inf
            else:
                for token in range(first, last):
                    if not (bits >> (token - first)) & 1:
                        logits[row, token] = -np.inf
