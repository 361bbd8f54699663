"""A run: a prompt, a constraint, and code that looks at each step."""

import asyncio
import inspect
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import ne
from typing import Any, Final, Literal, Protocol, TypeAlias

import torch

from wordbound.lm.gathering import num_equal
from wordbound.lm.programs.constraint import Change, Constraint, Place, RawCaptures
from wordbound.lm.programs.events import (
    Capture,
    Event,
    Replace,
    RunError,
    RunToken,
    Step,
    StepContext,
    StepFeedback,
    StopRun,
    Usage,
)
from wordbound.lm.programs.spelling import replay, spell, tokens_of_last
from wordbound.lm.sampling import Sampling

Reason: TypeAlias = Literal["stop", "length", "callback"]

_NO_CHANGE: Final = Change(0, [])


class RowModel(Protocol):
    """What a run asks of a model; every ``AsyncLM`` has it."""

    tokenizer: Any

    @property
    def byte_vocab(self) -> Sequence[bytes]: ...

    async def next_token_logprobs(self, token_ids: Sequence[int], lora_name: str | None = None) -> torch.Tensor: ...

    async def batch_next_token_logprobs(
        self, token_ids_list: Sequence[Sequence[int]], lora_name: str | None = None
    ) -> torch.Tensor: ...

    async def token_logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor: ...


class Run:
    """A text that is being written. Iterate over it, once, for its events.

    Attributes:
        tokens: The tokens after the prompt, without the one that ended the text; the first of them may spell the end of
            the prompt anew.
        events: The events so far.
        captures: What the grammar's named groups matched.
        usage: What it took.
        reason: Why it ended: ``stop``, ``length`` or ``callback``. None while it goes on.
    """

    def __init__(
        self,
        model: RowModel,
        prompt_ids: Sequence[int],
        constraint: Constraint,
        *,
        max_tokens: int,
        sampling: Sampling,
        top_k: int,
        fast_forward: bool,
        score_forced: bool,
        step: Step | None,
        lora_name: str | None,
    ) -> None:
        if max_tokens < 1 or top_k < 0:
            raise ValueError(f"max_tokens must be at least 1 and top_k at least 0, not {max_tokens} and {top_k}")
        self.tokens: list[RunToken] = []
        self.events: list[Event] = []
        self.captures: dict[str, Capture | list[Capture]] = {}
        self.usage = Usage()
        self.reason: Reason | None = None
        self._model = model
        self._prompt = list(prompt_ids)
        self._given_prompt = list(prompt_ids)
        self._num_healed_bytes = 0
        self._constraint = constraint
        self._max_tokens = max_tokens
        self._sampling = sampling
        self._top_k = top_k
        self._fast_forward = fast_forward
        self._score_forced = score_forced
        self._step = step
        self._step_start = 0
        self._num_read = 0
        self._num_steps = 0
        self._lora_name = lora_name
        self._generator = sampling.generator()
        self._last_prefix: list[int] = []
        self._iterator = self._write()

    @property
    def token_ids(self) -> list[int]:
        """The ids of ``tokens``."""
        return [token.token_id for token in self.tokens]

    @property
    def text_bytes(self) -> bytes:
        """The text after the prompt."""
        return self._all_bytes()[self._num_healed_bytes :]

    @property
    def text(self) -> str:
        """The text after the prompt; what is no UTF-8 is replaced."""
        return self.text_bytes.decode(errors="replace")

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self._iterator

    def _recorded(self, event: Event) -> Event:
        self.events.append(replace(event, captures=dict(self.captures)))
        return self.events[-1]

    async def _write(self) -> AsyncGenerator[Event, None]:
        """Draw, follow and call back until the text ends; yield what each of it changes."""
        started = time.perf_counter()
        issued: RunToken | None = None
        change = self._constraint.start(self._prompt)
        row_task: asyncio.Task[tuple[torch.Tensor, float]] | None = None
        scoring: asyncio.Task[Event] | None = None
        try:
            while True:
                begun = time.perf_counter()
                if issued is not None:
                    change = self._constraint.accept(issued.token_id)
                event = self._apply(change, issued, begun)
                place = None if self._constraint.is_slow else self._constraint.place(self._num_left)
                if place is not None:
                    event, place = self._append_forced(event, place, begun)
                boundary = self._boundary()
                will_end = self._constraint.will_end if place is None else place.is_done
                asked = time.perf_counter()
                if boundary is None and self._num_left and not will_end:
                    row_task = asyncio.create_task(self._row())
                # In the same batch.
                scoring = asyncio.create_task(self._with_probs(event))
                if place is None:
                    # Beside the forward pass.
                    place = await asyncio.to_thread(self._constraint.place, self._num_left)
                masked = time.perf_counter()
                self.usage.ttfm_ms = self.usage.ttfm_ms or _ms_since(started)
                event = await scoring
                await self._read_captures(place.captures)
                if event.tokens or event.backtrack:
                    yield self._recorded(event)
                if boundary is not None:
                    injected = await self._call_back(*boundary)
                    if injected is not None:
                        yield self._recorded(await self._with_probs(injected))
                    issued, change = None, _NO_CHANGE
                    continue
                if place.is_done or not self._num_left:
                    self.reason = "stop" if place.is_done else "length"
                    return
                if place.mask is not None and not place.mask.any():
                    raise RunError(
                        f"no text of the constraint fits into {self._num_left} tokens more: raise max_tokens"
                    )
                row_task = row_task or asyncio.create_task(self._row())
                row, row_done = await row_task
                row_task = None
                self.usage.mask_times_ms.append(1000 * (masked - begun))
                self.usage.mask_overheads_ms.append(1000 * (asked - begun + max(0.0, masked - max(asked, row_done))))
                issued = self._draw(row, place, _ms_since(asked))
                self.usage.output_tokens += 1
                self.usage.ttft_ms = self.usage.ttft_ms or _ms_since(started)
        except StopRun:
            self.reason = "callback"
        finally:
            for task in (row_task, scoring):
                if task is not None:
                    task.cancel()
            self.usage.total_latency_ms = _ms_since(started)

    @property
    def _num_left(self) -> int:
        return max(0, self._max_tokens - len(self.tokens))

    async def _row(self) -> tuple[torch.Tensor, float]:
        """Ask for the row after what is written; return it, and when it came."""
        prefix = self._prompt + self.token_ids
        self._count_forward(prefix)
        row = await self._model.next_token_logprobs(prefix, self._lora_name)
        return row.cpu(), time.perf_counter()

    def _count_forward(self, prefix: list[int]) -> None:
        """Count a forward pass over a prefix; what it shares with the last one's is cached by engines."""
        self.usage.forward_passes += 1
        self.usage.input_tokens += len(prefix)
        self.usage.cached_input_tokens += num_equal(self._last_prefix, prefix)
        self._last_prefix = prefix

    def _draw(self, row: torch.Tensor, place: Place, latency_ms: float) -> RunToken:
        """Draw the next token, and look up what the model thinks of it and of the likeliest ones."""
        mask, masked = place.mask, place.masked(row)
        may_end = place.is_complete and self._constraint.ends_at_refused
        sampling = self._sampling
        if place.temperature is not None:
            sampling = replace(sampling, temperature=place.temperature)
        token = sampling.draw(row if may_end else masked, self._generator)
        if mask is not None and not mask[token]:
            # The text may end here, and the model would leave the grammar.
            token = next(end for end in sorted(self._constraint.eos_token_ids) if mask[end])
        drawn = RunToken(token, self._bytes_of(token), latency_ms=latency_ms, is_generated=True)
        return self._with_prob(drawn, row, lambda other: mask is not None and not mask[other])

    def _with_prob(self, token: RunToken, row: torch.Tensor, is_masked: Callable[[int], bool]) -> RunToken:
        """Add what the model thinks of a token and of the likeliest ones."""
        top = row.topk(min(self._top_k, len(row))).indices.tolist() if self._top_k else []
        shown = top if token.token_id in top or not top else [*top, token.token_id]
        likeliest = tuple(
            RunToken(
                other,
                self._bytes_of(other),
                prob=math.exp(row[other]),
                is_generated=token.is_generated and other == token.token_id,
                is_masked=is_masked(other),
            )
            for other in shown
        )
        return replace(token, prob=math.exp(row[token.token_id]), top_k=likeliest)

    async def _with_probs(self, event: Event) -> Event:
        """Add the same to the forced tokens of an event, by rows of one batch."""
        removed = [token for token in event.tokens if token.is_backtracked]
        tokens, ids = list(event.tokens[len(removed) :]), [token.token_id for token in event.tokens[len(removed) :]]
        start = len(self.tokens) - sum(token not in self._constraint.eos_token_ids for token in ids)
        prefix = self._prompt + self.token_ids[:start]
        # The first token of a text without a prompt comes after nothing.
        forced = [i for i, token in enumerate(tokens) if token.is_forced and (prefix or i)]
        if not forced or not self._score_forced:
            return event
        prefixes = [prefix + ids[:i] for i in forced]
        for one in prefixes:
            self._count_forward(one)
        rows = await self._model.batch_next_token_logprobs(prefixes, self._lora_name)
        for i, row in zip(forced, rows.cpu(), strict=True):
            tokens[i] = self._with_prob(tokens[i], row, partial(ne, ids[i]))
        self.tokens[start:] = tokens[: len(self.tokens) - start]
        return replace(event, tokens=(*removed, *tokens))

    def _bytes_of(self, token: int) -> bytes:
        vocab = self._model.byte_vocab
        return b"" if token in self._constraint.eos_token_ids or token >= len(vocab) else bytes(vocab[token])

    def _all_bytes(self) -> bytes:
        return b"".join(token.bytes for token in self.tokens)

    # Following the constraint.

    def _apply(self, change: Change, issued: RunToken | None, begun: float) -> Event:
        removed = b""
        added = change.tokens
        if issued is None and change.backtrack:
            # The end of the prompt is spelled anew.
            removed = self._join(self._prompt[-change.backtrack :])
            del self._prompt[-change.backtrack :]
            self._num_healed_bytes = len(removed)
        elif change.backtrack:
            removed = b"".join(token.bytes for token in self.tokens[-change.backtrack :])
            del self.tokens[-change.backtrack :]
        tokens: list[RunToken] = []
        if issued is not None:
            stays = not change.backtrack and added[:1] == [issued.token_id]
            tokens.append(issued if stays else replace(issued, is_backtracked=True))
            added = added[1:] if stays else added
        share_ms = _ms_since(begun) / max(1, len(added))
        num_input = 0
        for token in added:
            data = self._bytes_of(token)
            is_input = issued is None and num_input < self._num_healed_bytes
            num_input += len(data)
            tokens.append(RunToken(token, data, latency_ms=share_ms, is_forced=True, is_input=is_input))
        return self._append(tokens, change.backtrack, removed)

    def _append(self, tokens: Sequence[RunToken], backtrack: int = 0, removed: bytes = b"") -> Event:
        """Append tokens to the text, as far as ``max_tokens`` goes; return the event."""
        staying = [token for token in tokens if not token.is_backtracked]
        staying = staying[: self._num_left + any(token.token_id in self._constraint.eos_token_ids for token in staying)]
        self.usage.ff_tokens += sum(token.is_forced for token in staying)
        self.tokens += [token for token in staying if token.token_id not in self._constraint.eos_token_ids]
        shown = tuple(token for token in tokens if token.is_backtracked or token in staying)
        return Event(b"".join(token.bytes for token in staying), shown, backtrack, removed)

    def _append_forced(self, event: Event, place: Place, begun: float) -> tuple[Event, Place]:
        """Append the tokens of which there is only one; return the event with them, and the place after them."""
        while self._fast_forward and self._num_left and place.mask is not None and int(place.mask.sum()) == 1:
            token = int(place.mask.nonzero())
            change = self._constraint.accept(token)
            more = self._apply(change, None, begun)
            event = replace(event, new_bytes=event.new_bytes + more.new_bytes, tokens=event.tokens + more.tokens)
            place = self._constraint.place(self._num_left)
        return event, place

    # Captures.

    async def _read_captures(self, raw: RawCaptures) -> None:
        for name, value in raw.items():
            known = self.captures.get(name)
            if isinstance(value, bytes):
                if not (isinstance(known, Capture) and known.bytes == value):
                    self.captures[name] = Capture(value, await self._score(value))
            else:
                scored = known[: len(value)] if isinstance(known, list) else []
                self.captures[name] = scored + [Capture(part, await self._score(part)) for part in value[len(scored) :]]

    async def _score(self, captured: bytes) -> float:
        """Return the sum of log p of the tokens that have a share in what was captured last; 0.0 for nothing."""
        where = tokens_of_last(self.tokens, captured)
        if where is None:
            return math.nan if captured else 0.0
        part = self.tokens[where]
        if not any(math.isnan(token.prob) for token in part):
            return sum(math.log(token.prob) if token.prob else -math.inf for token in part)
        prefix, ids = self._prompt + self.token_ids[: where.start], self.token_ids[where]
        self._count_forward(prefix + ids)
        return float((await self._model.token_logprobs(prefix, ids, self._lora_name)).sum())

    # Steps.

    def _boundary(self) -> tuple[str | None, int] | None:
        """Return what ends a step: a stop string or None for ``every_k``, and the text's length in bytes there."""
        if self._step is None:
            return None
        text = self.text_bytes
        # What a constraint took back is looked at again.
        self._num_read = min(self._num_read, len(text))
        ends = []
        for stop in self._step.stop_strings:
            data = stop.encode()
            at = text.find(data, max(0, self._num_read - len(data) + 1))
            if at >= 0:
                ends.append((at + len(data), -len(data), stop))
        if ends:
            end, _, stop = min(ends)
            return stop, end
        every_k = self._step.every_k
        is_due = every_k is not None and len(self.tokens) - self._step_start >= every_k
        return (None, len(text)) if is_due else None

    async def _call_back(self, stop: str | None, end: int) -> Event | None:
        """Call back with the step that ends at byte ``end`` of the text; return the event of what is injected."""
        if self._step is None:
            return None
        self._num_steps += 1
        self._num_read = end
        text = self.text_bytes[:end]
        context = StepContext(
            self._num_steps,
            "every_k" if stop is None else "stop_string",
            stop,
            tuple(self.tokens[self._step_start :]),
            text.decode(errors="replace"),
            dict(self.captures),
        )
        feedback = self._step.callback(context)
        if inspect.isawaitable(feedback):
            feedback = await feedback
        self._step_start = len(self.tokens)
        if isinstance(feedback, dict) and feedback.keys() <= StepFeedback.__annotations__.keys():
            feedback = feedback.get("injected_bytes") or feedback.get("injected_text")
        if feedback is not None and not isinstance(feedback, str | bytes | Replace):
            raise RunError(
                f"step {self._num_steps}: the callback returned {type(feedback).__name__}: return the text to inject "
                "as str or bytes, Replace(removed, text), {'injected_text': text}, or None"
            )
        if not feedback:
            return None
        if not isinstance(feedback, Replace):
            feedback = Replace(stop or "", feedback)
        data = feedback.text.encode() if isinstance(feedback.text, str) else feedback.text
        event = await self._inject(text, feedback.removed.encode(), data)
        self._step_start, self._num_read = len(self.tokens), len(self.text_bytes)
        return event

    async def _inject(self, text: bytes, removed_bytes: bytes, data: bytes) -> Event:
        """Go on from ``text``, a beginning of what is written, with ``data`` in place of its end."""
        try:
            if not text.endswith(removed_bytes):
                raise RunError(f"the text does not end with {removed_bytes[-100:]!r}, which it is to replace")
            kept = self._all_bytes()[: self._num_healed_bytes + len(text) - len(removed_bytes)]
            ids = spell(self.tokens, kept, data, self._model.tokenizer)
            ids = await asyncio.to_thread(
                replay, self._constraint, self._given_prompt, ids, self._join, self._model.tokenizer
            )
        except RunError as error:
            raise RunError(f"step {self._num_steps}: {data[:100]!r} cannot be injected: {error}") from None
        if len(ids) > self._max_tokens:
            raise RunError(
                f"step {self._num_steps}: with {data[:100]!r} the text has {len(ids)} tokens, and max_tokens is "
                f"{self._max_tokens}: raise it"
            )
        num_same = num_equal(self.token_ids, ids)
        removed = self.tokens[num_same:]
        del self.tokens[num_same:]
        event = self._append([RunToken(token, self._bytes_of(token), is_forced=True) for token in ids[num_same:]])
        self.captures.clear()
        await self._read_captures(self._constraint.place(self._num_left).captures)
        return replace(
            event,
            backtrack=len(removed),
            backtrack_bytes=b"".join(token.bytes for token in removed),
            injection_backtrack=bool(removed),
        )

    def _join(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._bytes_of, ids))


def _ms_since(start: float) -> float:
    return 1000 * (time.perf_counter() - start)
