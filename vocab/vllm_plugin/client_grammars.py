"""Grammars of clients in the engine: measured, and ended where they take too much of its time.

xgrammar and llguidance make a mask in one call that cannot be interrupted, and every sequence of the engine waits for
it. ``ClientGrammar`` stands around what they compile and counts the processor time of each call. Beyond a limit
(``vocab.matching.client_limits``) it calls the library no more: its sequence may only stop, is refused in the same step
or the next, and says so in its stop reason (``ENDED``), by which the replica tells the client. One mask of xgrammar's
that takes too long is left to a thread (``MaskMaker``); llguidance has limits for one.
"""

import os
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import clock_gettime, pthread_getcpuclockid, thread_time
from typing import Any, Final, TypeVar

import numpy as np
import torch
from typing_extensions import override
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from vocab.matching.client_limits import (
    MAX_ACCEPT_S,
    MAX_CHECKED_S,
    MAX_LEFT_MASKS,
    MAX_MASK_S,
    MAX_SEQUENCE_S,
    MAX_STEP_S,
    MAX_TOKEN_S,
    MIN_ENDED_S,
)

ENDED: Final = "the client's grammar took too long"
"""The stop reason of a sequence that was ended, beside vLLM's finish reason ``error``."""

Result = TypeVar("Result")


class MaskMaker:
    """Make masks in another thread, and leave the thread where one takes more than ``MAX_MASK_S`` of its time.

    Thread-safe. The engine waits meanwhile; xgrammar holds no lock of Python's.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._left: list[_MaskThread] = []
        self._thread: _MaskThread | None = None

    def fill(self, grammar: StructuredOutputGrammar, row: torch.Tensor) -> tuple[bool, float]:
        """Fill an int32 row of a bitmask; return whether it was in time, and the processor time in seconds."""
        with self._lock:
            self._left = [thread for thread in self._left if thread.is_alive()]
            if len(self._left) >= MAX_LEFT_MASKS:
                return False, 0.0
            thread = self._thread = self._thread or _MaskThread()
            mask, cost_s = thread.make(grammar, row)
            if mask is None:
                self._left.append(thread)
                self._thread = None
            else:
                row.copy_(mask)
            return mask is not None, cost_s


class _MaskThread(Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._asked = SimpleQueue[tuple[StructuredOutputGrammar, torch.Tensor] | None]()
        self._made = SimpleQueue[torch.Tensor | Exception]()
        self.start()

    def make(self, grammar: StructuredOutputGrammar, row: torch.Tensor) -> tuple[torch.Tensor | None, float]:
        """Return the grammar's mask and its CPU seconds; None where it took too long, and the thread ends with it."""
        clock = pthread_getcpuclockid(self.ident or 0)
        started_s = clock_gettime(clock)
        # In memory of its own, for the engine goes on in the row of one that is late.
        self._asked.put((grammar, torch.empty_like(row).unsqueeze(0)))
        while True:
            try:
                made = self._made.get(timeout=MAX_MASK_S)
            except Empty:
                # On a busy machine it may not have begun.
                if (cost_s := clock_gettime(clock) - started_s) > MAX_MASK_S:
                    # From now on in time that nobody else wants.
                    os.setpriority(os.PRIO_PROCESS, self.native_id or 0, 19)
                    self._asked.put(None)
                    return None, cost_s
            else:
                if isinstance(made, Exception):
                    raise made
                return made[0], clock_gettime(clock) - started_s

    @override
    def run(self) -> None:
        while (item := self._asked.get()) is not None:
            grammar, mask = item
            try:
                grammar.fill_bitmask(mask, 0)
                self._made.put(mask)
            except Exception as error:
                self._made.put(error)


class StepCost:
    """What the masks of clients' grammars cost in the current step of the engine. Thread-safe, as vLLM has threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._filled: dict[ClientGrammar, float] = {}
        self._total_s = 0.0

    @property
    def is_stalled(self) -> bool:
        """Return whether this step took so long already that none of doubtful cost should be begun."""
        return self._total_s > MAX_MASK_S

    def add(self, grammar: "ClientGrammar", cost_s: float) -> None:
        with self._lock:
            self._filled[grammar] = self._filled.get(grammar, 0.0) + cost_s
            self._total_s += cost_s

    def end(self) -> None:
        """End a step: beyond its limit, end the costliest of its grammars until the others keep within it."""
        with self._lock:
            total_s, filled = self._total_s, self._filled
            self._total_s, self._filled = 0.0, {}
        if total_s <= MAX_STEP_S:
            return
        for grammar in sorted(filled, key=filled.__getitem__, reverse=True):
            if total_s > MAX_STEP_S and grammar.steady_cost_s > MIN_ENDED_S:
                total_s -= filled[grammar]
                grammar.end()


class ClientGrammar(StructuredOutputGrammar):
    """A grammar of xgrammar's or llguidance's, which ends where it costs too much.

    ``masks`` makes those of one whose single mask may take long. ``has_failed`` is whether the library gave up, as
    llguidance does at its own limits. Then it allows a stop only, and the text would look complete.
    """

    def __init__(
        self,
        grammar: StructuredOutputGrammar,
        stop_tokens: Iterable[int],
        step: StepCost,
        *,
        masks: MaskMaker | None = None,
        has_failed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._grammar = grammar
        self._stop_tokens = np.fromiter(stop_tokens, dtype=np.int64)
        self._step = step
        self._masks = masks
        self._has_failed = has_failed
        self._num_tokens = 0
        self._total_s = 0.0
        self._since_mask_s = 0.0
        self._costs_s = (0.0, 0.0)
        self._is_ended = self._is_refused = False

    @property
    def steady_cost_s(self) -> float:
        """Return the lesser cost of the last two masks: one alone may have been interrupted."""
        return min(self._costs_s)

    def end(self) -> None:
        """Call the library no more."""
        self._is_ended = True

    def refuse(self) -> bool:
        """Refuse the next token if the grammar is ended; return whether it is.

        Not before: vLLM accepts drafted tokens while it fills masks, and ends the engine where one is refused.
        """
        self._is_refused = self._is_ended
        return self._is_ended

    @override
    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        if self._is_ended:
            return not self._is_refused
        self._num_tokens += len(tokens)
        return bool(self._advance(len(tokens), self._grammar.accept_tokens, request_id, tokens))

    @override
    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return [] if self._is_ended else self._advance(len(tokens), self._grammar.validate_tokens, tokens)

    @override
    def rollback(self, num_tokens: int) -> None:
        if not self._is_ended:
            self._num_tokens -= num_tokens
            self._grammar.rollback(num_tokens)

    @override
    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        if self._step.is_stalled and self._costs_s[-1] + self._since_mask_s > MAX_CHECKED_S:
            self.end()
        if self._is_ended:
            self._allow_stop(bitmask[batch_index])
            return
        if self._masks is not None:
            is_made, mask_s = self._masks.fill(self._grammar, bitmask[batch_index])
            self._total_s += mask_s
        else:
            before_s, is_made = self._total_s, True
            self._timed(self._grammar.fill_bitmask, bitmask, batch_index)
            mask_s = self._total_s - before_s
        cost_s, self._since_mask_s = mask_s + self._since_mask_s, 0.0
        self._costs_s = (self._costs_s[-1], cost_s)
        self._step.add(self, cost_s)
        is_too_long = self._total_s > MAX_SEQUENCE_S + MAX_TOKEN_S * self._num_tokens
        if mask_s > MAX_MASK_S or is_too_long or self._has_failed() or not is_made:
            self.end()
        if not is_made:
            self._allow_stop(bitmask[batch_index])

    @override
    def is_terminated(self) -> bool:
        return not self._is_ended and self._grammar.is_terminated()

    @override
    def reset(self) -> Any:
        self._grammar.reset()

    def _advance(self, num_tokens: int, call: Callable[..., Result], *args: Any) -> Result:
        """Call a method that reads tokens, and end where they take too long."""
        before_s = self._total_s
        result = self._timed(call, *args)
        cost_s = self._total_s - before_s
        self._since_mask_s += cost_s
        if cost_s > MAX_ACCEPT_S * num_tokens:
            self.end()
        return result

    def _timed(self, call: Callable[..., Result], *args: Any) -> Result:
        started_s = thread_time()
        result = call(*args)
        self._total_s += thread_time() - started_s
        return result

    def _allow_stop(self, row: torch.Tensor) -> None:
        bits = np.zeros(32 * row.shape[0], dtype=np.uint8)
        bits[self._stop_tokens] = 1
        row.copy_(torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32)))
