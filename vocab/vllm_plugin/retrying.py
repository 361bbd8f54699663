"""Words that are taken back inside vLLM: its scheduler sets a running request back, and holds what is not settled.

A request asks for it in its ``extra_args`` (``retry_args``). The sampler then reports what the mask of each token took
(``vocab.vllm_plugin.own_probabilities``), ``vocab.decoding.retry`` decides, and where a word is taken back, the
scheduler forgets its last tokens as it forgets those whose KV blocks could not be loaded: the request goes on in the
next step, in its place in the batch, and computes one token as any other. Where its blocks would not stay right it is
preempted instead, and finds all but the last of them in the prefix cache. Clients get tokens that stay, and no others:
those of a word that is still open are held.

All else is the engine's own: penalties and biases, seeds, adapters, ``n``, limits, stop tokens, log probabilities.
"""

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.outputs import LogprobsLists

from vocab.decoding.retry import Draw, Retry
from vocab.matching.log_mass import NUM_REFUSED, REFUSED_AT, UNMASKED_TOP, is_packed, unmark, unpack
from vocab.vllm_plugin.kv_fork import keeps_all_tokens
from vocab.vllm_plugin.patches import Patch, PatchGroup

RETRY: Final = "wordbound_retry"
"""In the ``extra_args`` of a request whose words may be taken back, and in what its outputs report."""


@dataclass(frozen=True, slots=True)
class Retries:
    """What was taken back in the texts of a request: so many words, and so many tokens drawn in vain."""

    num_words: int = 0
    num_tokens: int = 0

    @classmethod
    def of(cls, kv_transfer_params: object) -> "Retries | None":
        """Return what an output of vLLM's reports in its ``kv_transfer_params``; None where it reports nothing."""
        found = kv_transfer_params.get(RETRY) if isinstance(kv_transfer_params, dict) else None
        return None if found is None else cls(*found)


def retry_args(share: float, group: str, *, has_ending: bool = False) -> dict[str, Any]:
    """Return ``SamplingParams.extra_args`` for a request under a list whose words may be taken back.

    Args:
        share: As of ``vocab.decoding.retry.Retry``.
        group: Names the requests whose ``Retries`` are counted together, as those of one request with ``n``.
        has_ending: Whether its texts are ended where they will not fit (``vocab.decoding.ends``).
    """
    return {RETRY: (share, group, has_ending)}


@dataclass(slots=True)
class _Text:
    """A request whose words may be taken back.

    Attributes:
        own_logprobs: How many log probabilities its client asked for; None for none.
        first_column: Of the logprobs in which the sampler reports what a mask took.
        counts: The numbers of ``Retries``, shared by a group.
        retry: None before its first token.
        held: Outputs whose tokens may still be taken back, one each, and such without tokens.
    """

    share: float
    group: str
    has_ending: bool
    own_logprobs: int | None
    first_column: int
    counts: list[int]
    retry: Retry | None = None
    held: list[EngineCoreOutput] = field(default_factory=list)


_texts: WeakKeyDictionary[Any, dict[str, _Text]] = WeakKeyDictionary()
"""By scheduler and request."""


def takes_back(scheduler: Any, request: Any) -> bool:
    """Return whether words of a request may be taken back, so that its masks are made on the CPU."""
    return request.request_id in _texts.get(scheduler, {})


def _add_request(original: Callable[..., None], scheduler: Any, request: Any) -> None:
    """Have the sampler report what a mask took, for a request whose words may be taken back."""
    params = request.sampling_params
    extra = params.extra_args or {} if params is not None else {}
    own = params.logprobs if params is not None else None
    if RETRY in extra and request.use_structured_output and (own or 0) >= 0:
        share, group, has_ending = extra[RETRY]
        texts = _texts.setdefault(scheduler, {})
        counts = next((text.counts for text in texts.values() if text.group == group), [0, 0])
        first_column = 1 if extra.get(UNMASKED_TOP) else 1 + (own or 0)
        texts[request.request_id] = _Text(share, group, has_ending, own, first_column, counts)
        # The parameters may be those of others, too.
        request.sampling_params = params = copy.copy(params)
        params.logprobs = max(own or 0, first_column - 1 + NUM_REFUSED)
        params.extra_args = extra | {REFUSED_AT: None if extra.get(UNMASKED_TOP) else first_column}
    original(scheduler, request)


def _update_from_output(
    original: Callable[..., dict[int, Any]], scheduler: Any, scheduled: Any, output: Any
) -> dict[int, Any]:
    """Update the scheduler with a step's tokens, without those that are taken back."""
    texts = _texts.get(scheduler)
    if not texts:
        return original(scheduler, scheduled, output)
    draws, lost = dict[str, Draw](), dict[str, int]()
    for name in scheduled.num_scheduled_tokens:
        text = texts.get(name)
        draw = None if text is None else _draw_of(scheduler, text, name, output)
        if text is None or text.retry is None or draw is None:
            continue
        before = text.retry.num_words, text.retry.num_tokens
        num_open = text.retry.take_back(draw)
        if num_open is None:
            draws[name] = draw
        else:
            lost[name] = num_open
            output.sampled_token_ids[output.req_id_to_index[name]] = []
            text.counts[0] += text.retry.num_words - before[0]
            text.counts[1] += text.retry.num_tokens - before[1]
    found = original(scheduler, scheduled, output)
    for name, num_open in lost.items():
        request, text = scheduler.requests[name], texts[name]
        _set_back(scheduler, request, num_open)
        if text.retry is not None and text.retry.num_left:
            request.max_tokens = request.num_output_tokens + text.retry.num_left
        held = text.held
        for one in held[len(held) - num_open :]:
            # It has what is reported with a first token.
            one.new_token_ids, one.new_logprobs = [], None
    for outputs in found.values():
        outputs.outputs = [one for each in outputs.outputs for one in _settled(texts, each, draws)]
    for name in [name for name in texts if name not in scheduler.requests]:
        del texts[name]
    return found


def _draw_of(scheduler: Any, text: _Text, name: str, output: Any) -> Draw | None:
    """Return what a request drew in a step; None where it drew nothing, or nothing that was masked."""
    request, row = scheduler.requests.get(name), output.req_id_to_index.get(name)
    if request is None or request.is_finished() or request.num_stale_output_tokens or row is None:
        return None
    tokens: list[int] = output.sampled_token_ids[row] if output.sampled_token_ids else []
    if len(tokens) != 1 or output.logprobs is None:
        return None
    logprobs = output.logprobs.slice_request(row, 1)
    if not is_packed(rank := int(logprobs.sampled_token_ranks[0])):
        return None
    if text.retry is None:
        grammar, biases = request.structured_output_request.grammar, request.sampling_params.logit_bias or {}
        wanted = [int(token) for token, bias in biases.items() if bias > 0]
        text.retry = grammar.begin_retry(text.share, request.max_tokens, wanted, has_ending=text.has_ending)
    columns = slice(text.first_column, text.first_column + NUM_REFUSED)
    top = zip(logprobs.logprob_token_ids[0, columns].tolist(), logprobs.logprobs[0, columns].tolist(), strict=True)
    refused, allowed = list[tuple[int, float]](), list[tuple[int, float]]()
    for token, marked in top:
        log_p, is_refused = unmark(marked)
        (refused if is_refused else allowed).append((token, math.exp(log_p)))
    return Draw(int(tokens[0]), unmark(float(logprobs.logprobs[0, 0]))[0], unpack(rank)[0], refused, allowed)


def _set_back(scheduler: Any, request: Any, num_tokens: int) -> None:
    """Take the last tokens of a running request back, and compute the one before them again."""
    num_computed = request.num_computed_tokens
    if num_tokens:
        del request._output_token_ids[-num_tokens:], request._all_token_ids[-num_tokens:]
        del request.block_hashes[request.num_tokens // scheduler.hash_block_size :]
    num_kept = request.num_tokens - 1
    # The second runner keeps its own numbers on the device, and an asynchronous scheduler counts tokens to come.
    is_at_rest = not (scheduler.use_v2_model_runner or request.num_output_placeholders)
    # A full block may be in the prefix cache, under the name of the tokens that were in it.
    is_in_last_block = num_computed // scheduler.block_size * scheduler.block_size <= num_kept
    if is_at_rest and is_in_last_block and keeps_all_tokens(scheduler.vllm_config, scheduler.kv_cache_config):
        request.num_computed_tokens = num_kept
        return
    scheduler.running.remove(request)
    scheduler._preempt_request(request, time.monotonic(), drop_stale_output=True)
    # As vLLM itself does where a request goes on in the next step.
    scheduler.prev_step_scheduled_req_ids.discard(request.request_id)


def _settled(texts: dict[str, _Text], output: EngineCoreOutput, draws: dict[str, Draw]) -> Iterable[EngineCoreOutput]:
    """Yield what a client gets of an output, and of those before it that were held."""
    text = texts.get(output.request_id)
    if text is None:
        yield output
        return
    retry = text.retry
    if retry is not None and not output.finished:
        for token in output.new_token_ids:
            # One that was not measured: its request was preempted while the step ran.
            retry.advance(draws.get(output.request_id) or Draw(token, log_p=0.0, log_mass=0.0))
    own = text.own_logprobs
    if output.new_logprobs is not None:
        output.new_logprobs = None if own is None else _first_columns(output.new_logprobs, own + 1)
    text.held.append(output)
    num_open = 0 if output.finished or retry is None else retry.num_open
    if sum(len(one.new_token_ids) for one in text.held) > num_open or output.finished:
        num_settled = len(text.held) - num_open
        settled, text.held = text.held[:num_settled], text.held[num_settled:]
        whole = _joined(settled)
        if retry is not None and retry.num_left == 0 and whole.finish_reason == FinishReason.STOP:
            _end_by_length(whole)
        whole.kv_transfer_params = (whole.kv_transfer_params or {}) | {RETRY: text.counts.copy()}
        yield whole


def _end_by_length(output: EngineCoreOutput) -> None:
    """Have an output that ends with a stop token end without it, as one that its budget ends."""
    output.finish_reason, output.stop_reason = FinishReason.LENGTH, None
    output.new_token_ids = output.new_token_ids[:-1]
    if output.new_logprobs is not None:
        output.new_logprobs = output.new_logprobs.slice_request(0, len(output.new_token_ids))


def _first_columns(logprobs: LogprobsLists, number: int) -> LogprobsLists:
    tokens, log_p, ranks, _ = logprobs
    return LogprobsLists(tokens[:, :number], log_p[:, :number], ranks)


def _joined(outputs: list[EngineCoreOutput]) -> EngineCoreOutput:
    """Return several outputs of one request as one, which is the last of them."""
    last = outputs[-1]
    if len(outputs) > 1:
        logprobs = [one.new_logprobs for one in outputs if one.new_logprobs is not None]
        last.new_token_ids = [token for one in outputs for token in one.new_token_ids]
        if logprobs:
            last.new_logprobs = LogprobsLists(*map(np.concatenate, zip(*(one[:3] for one in logprobs), strict=True)))
        last.events = [event for one in outputs for event in one.events or ()] or None
        last.prefill_stats = next((one.prefill_stats for one in outputs if one.prefill_stats is not None), None)
    return last


RETRYING: Final = PatchGroup(
    "Words that a list forces to another ending are not taken back",
    (
        Patch("vllm.v1.core.sched.scheduler:Scheduler.add_request", "(self, request)", _add_request),
        Patch(
            "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
            "(self, scheduler_output, model_runner_output)",
            _update_from_output,
        ),
        Patch(
            "vllm.v1.core.sched.scheduler:Scheduler._preempt_request",
            "(self, request, timestamp, drop_stale_output=False)",
        ),
    ),
    frozenset({"0.29"}),
)
