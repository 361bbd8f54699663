"""The sequences of a model runner on its device: a slot for each, its masks, and its steps.

Writes to slots are staged, and reach the device in stream order with the next step: one copy from pinned memory, and
one more for a text with a history. A slot may be used again while a step of its last text is under way, whose kernels
were launched before.
"""

from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import triton

from vocab.matching.matcher import Matcher
from vocab.vllm_plugin.device import NotMaskedError
from vocab.vllm_plugin.device.kernels import (
    LAUNCHES,
    MAX_READINGS,
    MAX_STOPS,
    NUM_COLUMNS,
    advance,
    apply_mask,
    write_rows,
    write_words,
)
from vocab.vllm_plugin.device.tables import Table, Tables

MAX_HISTORY: Final = 8192
"""Tokens of a text whose runs may not come twice, with those before it."""

_NO_TABLE: Final = [0] * NUM_COLUMNS


class Slots:
    """The sequences of one model runner, by its own numbers. For the thread that launches its steps.

    Args:
        tables: Those of their lists.
        num_slots: How many there may be.
        num_tokens: Of the model's logits.
        max_history: How many tokens of a text are remembered.
    """

    def __init__(self, tables: Tables, num_slots: int, num_tokens: int, max_history: int = MAX_HISTORY) -> None:
        device = tables.device
        self.num_tokens = num_tokens
        self.tables, self._is_cuda = tables, device.type == "cuda"
        self._columns = torch.zeros((num_slots, NUM_COLUMNS), dtype=torch.int64, device=device)
        self._history = torch.zeros((num_slots, max_history), dtype=torch.int32, device=device)
        self._bits = torch.zeros((num_slots, (num_tokens + 31) // 32), dtype=torch.int32, device=device)
        self._num_dead = torch.zeros(1, dtype=torch.int32, device=device)
        self._num_dead_on_host = torch.zeros(1, dtype=torch.int32, pin_memory=self._is_cuda)
        self._is_used = np.zeros(num_slots, dtype=np.bool_)
        self._tables: dict[int, Table] = {}
        self._staged: dict[int, list[int]] = {}
        self._staged_history: dict[int, list[int]] = {}

    def warm_up(self, dtype: torch.dtype) -> None:
        """Compile the kernels for logits of a type, and run them on a slot without a table; wait for the device."""
        device = self._columns.device
        # Triton takes the device of the thread.
        with torch.cuda.device(device) if self._is_cuda else nullcontext():
            index = torch.zeros(1, dtype=torch.int64, device=device)
            self.mask(torch.zeros((1, self.num_tokens), dtype=dtype, device=device), index)
            self.advance(index, index[:, None], index.int())
            if self._is_cuda:
                torch.cuda.synchronize()

    @property
    def num_dead(self) -> int:
        """Return how often a dead text was masked, as far as that is known; does not wait for the device."""
        return int(self._num_dead_on_host[0])

    def add(self, slot: int, matcher: Matcher, table: Table, *, is_dead: bool = False) -> None:
        """Follow a text from where its matcher is; a dead one may only stop."""
        self._is_used[slot] = True
        self._tables[slot] = table
        table.record_stream()
        repeats = matcher.repeats
        history = [] if repeats is None else list(repeats.tokens)
        readings = () if is_dead else matcher.state[:MAX_READINGS]
        stops = matcher.stop_tokens.tolist()
        self._staged[slot] = [
            *(table.address, len(readings), matcher.budget_after_next(), matcher.num_early),
            *(0 if repeats is None else repeats.size, len(history), len(stops)),
            *(*readings, *[0] * (MAX_READINGS - len(readings))),
            *(*stops, *[0] * (MAX_STOPS - len(stops))),
        ]
        self._staged_history[slot] = history

    def remove(self, slot: int) -> None:
        """Forget the text of a slot, if it has one."""
        if self._is_used[slot]:
            self._is_used[slot] = False
            self._tables.pop(slot, None)
            self._staged_history.pop(slot, None)
            self._staged[slot] = _NO_TABLE

    def rows(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.intp] | None:
        """Return the rows of a batch whose texts are followed here, by the slot of each row; None for none.

        Raises:
            NotMaskedError: One of them has no table.
        """
        if not self._is_used.any():
            return None
        rows = np.flatnonzero(self._is_used[slots])
        if not len(rows):
            return None
        if missing := [slot for slot in slots[rows].tolist() if slot not in self._tables]:
            raise NotMaskedError(f"the texts in the slots {missing} have no table on the device")
        return rows

    def write_masks(self, index: torch.Tensor) -> torch.Tensor:
        """Write the masks of a batch, by the slot of each row, int (rows,); return int32 (rows, words).

        Rows of other slots stay as they are.
        """
        self._flush()
        bits = self._bits[: len(index)]
        masks = bits, bits.shape[1], index, self._columns
        _launch(write_rows, len(index), bits.shape[1], *masks)
        history = self._history, self._history.shape[1]
        _launch(write_words, len(index), 0, *masks, *history, self._num_dead)
        return bits

    def mask(self, logits: torch.Tensor, index: torch.Tensor) -> None:
        """Set the logits of the tokens that may not come next to minus infinity, float (rows, tokens), in place."""
        bits, num_tokens = self.write_masks(index), logits.shape[1]
        rows = logits, logits.stride(0), num_tokens, bits, bits.shape[1]
        _launch(apply_mask, len(index), num_tokens, *rows, index, self._columns)

    def advance(self, index: torch.Tensor, tokens: torch.Tensor, num_sampled: torch.Tensor) -> None:
        """Advance the texts by their tokens, int64 (rows, 1), where ``num_sampled``, int32 (rows,), is not 0."""
        texts = index, self._columns, self._history, self._history.shape[1]
        _launch(advance, len(index), 0, tokens, num_sampled, *texts)

    def _flush(self) -> None:
        """Copy what was staged to the device."""
        if not self._staged:
            return
        rows = self._on_device([[slot, *columns] for slot, columns in self._staged.items()], torch.int64)
        self._columns.index_copy_(0, rows[:, 0], rows[:, 1:])
        for slot, tokens in self._staged_history.items():
            if tokens:
                self._history[slot, : len(tokens)] = self._on_device(tokens, torch.int32)
        self._staged, self._staged_history = {}, {}
        self._num_dead_on_host.copy_(self._num_dead, non_blocking=True)

    def _on_device(self, values: list[list[int]] | list[int], dtype: torch.dtype) -> torch.Tensor:
        """Copy values to the device without waiting for it."""
        on_host = torch.tensor(values, dtype=dtype, pin_memory=self._is_cuda)
        return on_host.to(self._columns.device, non_blocking=True)


def _launch(kernel: Any, num_rows: int, width: int, *args: Any) -> None:
    """Launch a kernel for so many sequences, and for blocks of so many words or tokens if it has blocks of them."""
    launch = LAUNCHES[kernel.__name__]
    options = {} if launch.block is None else {"block": launch.block}
    kernel[num_rows, max(1, triton.cdiv(width, launch.block or 1))](*args, **options, num_warps=launch.num_warps)
